use std::collections::BTreeSet;

use super::*;
use crate::claims::ClaimSpec;
use crate::labels::LabelScheme;
use crate::pod_template::TokenSource;
use boatswain_model::Incarnation;
use boatswain_model::claims::ClaimShape;

fn common() -> Common {
    Common {
        app_id: "etl-1".into(),
        app_name: "etl".to_owned(),
        namespace: "jobs".to_owned(),
        prefix: "etl".to_owned(),
        labels: LabelScheme::Boatswain,
        incarnation: Incarnation(3),
        record_uid: "record".into(),
        driver_url: Some("http://driver:7078".to_owned()),
        token: Some(TokenSource::Projected {
            audience: "boatswain.dev/etl-1".to_owned(),
        }),
        agent: None,
        injection: None,
        protects: false,
        ca_file: None,
        config_map: None,
        avoid: Default::default(),
        preferred: Default::default(),
    }
}

fn sets(kind: SetKind, common: Common) -> Sets {
    let spec = ProfileSpec::default();
    Sets::new(kind, common, &BTreeMap::from([("default".into(), spec)])).unwrap()
}

// spec: A-80
#[test]
fn a_set_is_named_by_its_profile_owned_by_the_record_and_restarts_its_pods() {
    for kind in [SetKind::StatefulSet, SetKind::Deployment] {
        let set = sets(kind, common()).set(&"default".into(), 4, &"r2".into());
        let set = set.unwrap();
        assert_eq!(set["kind"], kind.kind());
        assert_eq!(set["metadata"]["name"], "etl-default");
        assert_eq!(set["metadata"]["ownerReferences"][0]["uid"], "r2");
        assert_eq!(set["spec"]["replicas"], 4);
        let template = &set["spec"]["template"];
        assert_eq!(template["spec"]["restartPolicy"], "Always");
        let selected = &set["spec"]["selector"]["matchLabels"];
        for (key, value) in selected.as_object().unwrap() {
            assert_eq!(template["metadata"]["labels"][key], *value, "{key}");
        }
    }
}

// spec: A-80, B-1
#[test]
fn a_sets_template_has_no_executor_id_and_does_not_change_with_the_driver() {
    let first = sets(SetKind::StatefulSet, common());
    let profile = "default".into();
    let set = first.set(&profile, 1, &"r".into()).unwrap();
    let template = set["spec"]["template"].to_string();
    assert!(!template.contains("BOATSWAIN_EXECUTOR_ID"), "{template}");
    assert!(!template.contains("executor-id"), "{template}");
    assert!(template.contains("BOATSWAIN_POD_UID"), "{template}");
    let later = Common {
        incarnation: Incarnation(4),
        record_uid: "r9".into(),
        ..common()
    };
    let later = sets(SetKind::StatefulSet, later);
    assert_eq!(first.hash(&profile), later.hash(&profile));
    let elsewhere = Common {
        driver_url: Some("http://other:1".to_owned()),
        ..common()
    };
    let elsewhere = sets(SetKind::StatefulSet, elsewhere);
    assert_ne!(first.hash(&profile), elsewhere.hash(&profile));
}

fn with_a_claim(owner: ClaimOwner) -> BTreeMap<ProfileName, ProfileSpec> {
    let claim = ClaimSpec {
        template: ClaimTemplate {
            volume: "data".into(),
            shape: ClaimShape {
                storage_class: Some("fast".into()),
                access_modes: BTreeSet::from(["ReadWriteOnce".into()]),
                bytes: 1 << 30,
                ..ClaimShape::default()
            },
            owner,
            labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
            annotations: BTreeMap::new(),
        },
        mount_path: "/data".to_owned(),
    };
    let spec = ProfileSpec {
        claims: vec![claim],
        ..ProfileSpec::default()
    };
    BTreeMap::from([("default".into(), spec)])
}

// spec: A-102, K-10
#[test]
fn a_stateful_set_has_claim_templates_made_from_the_profiles_claims() {
    for (owner, scaled) in [
        (ClaimOwner::Application, "Retain"),
        (ClaimOwner::Executor, "Delete"),
    ] {
        let sets = Sets::new(SetKind::StatefulSet, common(), &with_a_claim(owner)).unwrap();
        let set = sets.set(&"default".into(), 2, &"r".into()).unwrap();
        let [claim] = set["spec"]["volumeClaimTemplates"]
            .as_array()
            .unwrap()
            .as_slice()
        else {
            panic!("{set}");
        };
        assert_eq!(claim["metadata"]["name"], "data");
        let expected = json!({
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "1073741824"}},
        });
        assert_eq!(claim["spec"], expected);
        let policy = &set["spec"]["persistentVolumeClaimRetentionPolicy"];
        assert_eq!(
            *policy,
            json!({"whenDeleted": "Delete", "whenScaled": scaled})
        );
        let spec = &set["spec"]["template"]["spec"];
        let mounts = spec["containers"][0]["volumeMounts"].as_array().unwrap();
        let mount = json!({"name": "data", "mountPath": "/data"});
        assert!(mounts.contains(&mount), "{mounts:?}");
        assert!(!spec["volumes"].to_string().contains("data"), "{spec}");
    }
}

// spec: A-102, K-10
#[test]
fn a_deployment_refuses_claims() {
    let made = Sets::new(
        SetKind::Deployment,
        common(),
        &with_a_claim(ClaimOwner::Executor),
    );
    let profile = "default".into();
    assert_eq!(made, Err(TemplateError::Claims { profile }));
}

// spec: A-80
#[test]
fn a_profile_without_a_template_can_have_an_empty_deployment_and_a_new_owner() {
    let (profile, record): (ProfileName, PodUid) = ("gone".into(), "r2".into());
    let deployments = sets(SetKind::Deployment, common());
    let set = deployments.set(&profile, 0, &record).unwrap();
    assert_eq!(set["spec"]["replicas"], 0);
    assert_eq!(
        set["spec"]["selector"]["matchLabels"],
        set["spec"]["template"]["metadata"]["labels"]
    );
    assert_eq!(deployments.set(&profile, 1, &record), None);
    let stateful = sets(SetKind::StatefulSet, common());
    assert_eq!(stateful.set(&profile, 0, &record), None);
    let seen = SetSeen {
        name: "etl-gone".to_owned(),
        uid: "set".into(),
        replicas: 0,
        template: None,
        owner: None,
        deleting: false,
    };
    let patch = deployments.patch(&profile, &seen, &record);
    let paths: Vec<_> = (patch.as_array().unwrap().iter())
        .map(|step| step["path"].as_str().unwrap())
        .collect();
    assert_eq!(paths, ["/metadata/uid", "/metadata/ownerReferences"]);
}
