use super::*;

#[tokio::test(start_paused = true)]
async fn nothing_is_stored_that_is_nested_too_deeply() {
    let nested = |levels: usize| (0..levels).fold(json!({}), |inner, _| json!({"f:a": inner}));
    let manager = |levels: usize| {
        json!([{
            "manager": "m",
            "operation": "Update",
            "apiVersion": "v1",
            "fieldsType": "FieldsV1",
            "fieldsV1": nested(levels),
        }])
    };
    let cluster = cluster();
    create(&cluster, "a").await;
    for levels in [60, 110, 400] {
        let fields = json!({"metadata": {"managedFields": manager(levels)}});
        let (merged, status) = patch(&cluster, &pods("/a"), &fields).await;
        let mut other = pod("b");
        other["metadata"]["managedFields"] = manager(levels);
        let (created, _) = post(&cluster, &pods(""), &other).await;
        match levels {
            60 => assert_eq!((merged, created), (200, 201), "{status}"),
            _ => assert_eq!((merged, created), (400, 400), "{status}"),
        }
    }
    let (code, stored) = get(&cluster, &pods("/a")).await;
    assert_eq!(code, 200);
    let stored = serde_json::from_str::<Value>(&stored.to_string());
    assert!(stored.is_ok(), "a client can read it");
}
