//! Pods whose memory limit has grown.

use super::*;

const GIB: u64 = 1 << 30;

fn growing(requests: Value) -> ProfileSpec {
    let mut spec = profile();
    spec.container["resources"] = json!({
        "requests": requests,
        "limits": {"cpu": "2", "memory": (2 * GIB).to_string()},
    });
    spec.growth = Some(Growth {
        from: 2 * GIB,
        max: 8 * GIB,
        thousandths: 1_500,
        in_place: false,
    });
    spec
}

// spec: L-43
#[test]
fn a_grown_limit_raises_the_request_alike_and_nothing_else() {
    let resources =
        |spec: ProfileSpec| pod(7, &common(), spec)["spec"]["containers"][0]["resources"].take();
    let spec = || growing(json!({"cpu": "500m", "memory": GIB.to_string()}));
    let grown = resources(spec().with_memory_limit(3 * GIB));
    let mut expected = resources(spec());
    expected["limits"]["memory"] = (3 * GIB).to_string().into();
    expected["requests"]["memory"] = (3 * GIB / 2).to_string().into();
    assert_eq!(grown, expected);
    let without = resources(growing(json!({"cpu": "500m"})).with_memory_limit(3 * GIB));
    assert_eq!(
        without["requests"],
        json!({"cpu": "500m"}),
        "Kubernetes requests the limit"
    );
}

// spec: L-43
#[test]
fn an_executor_is_told_what_it_has() {
    let told = |spec: ProfileSpec| {
        let pod = pod(7, &common(), spec);
        let env = pod["spec"]["containers"][0]["env"].as_array().unwrap();
        let memory = env
            .iter()
            .find(|one| one["name"] == "BOATSWAIN_MEMORY_BYTES");
        memory.unwrap()["value"].clone()
    };
    let spec = || growing(json!({}));
    assert_eq!(
        told(spec().with_memory_limit(3 * GIB)),
        (3 * GIB).to_string()
    );
    let mut tops_up = spec();
    tops_up.memory_bytes = Some(GIB);
    assert_eq!(
        told(tops_up.with_memory_limit(3 * GIB)),
        (3 * GIB / 2).to_string()
    );
}

// spec: L-43
#[test]
fn a_profile_without_a_maximum_does_not_grow() {
    assert_eq!(profile().with_memory_limit(3 * GIB), profile());
}
