use super::*;
use crate::access::account::Account;

fn world() -> (State, Value) {
    let mut state = State::new(10);
    for (resource, object) in [
        (
            Resource::ServiceAccounts,
            json!({"metadata": {"name": "default", "uid": "u-a"}}),
        ),
        (
            Resource::ConfigMaps,
            json!({"metadata": {"name": "m"}, "data": {"a": "1", "b": "2"}}),
        ),
        (
            Resource::PersistentVolumeClaims,
            json!({"metadata": {"name": "one", "namespace": "ns", "uid": "u-1"}}),
        ),
        (
            Resource::PersistentVolumeClaims,
            json!({"metadata": {"name": "two", "namespace": "ns", "uid": "u-2"}}),
        ),
        (
            Resource::Secrets,
            json!({"metadata": {"name": "s"}, "data": {"k": "dg=="}}),
        ),
    ] {
        let key = Key::new(resource, "ns", text(&object, &["metadata", "name"]));
        state.put(key, object).expect("stored");
    }
    let pod = json!({
        "metadata": {"name": "p", "namespace": "ns", "uid": "u-p"},
        "spec": {"volumes": [
            {"name": "token", "projected": {"sources": [
                {"serviceAccountToken": {"path": "token", "audience": "driver", "expirationSeconds": 1000}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}},
            ]}},
            {"name": "map", "configMap": {"name": "m", "items": [{"key": "b", "path": "x/b"}]}},
            {"name": "secret", "secret": {"secretName": "s"}},
            {"name": "empty", "emptyDir": {}},
            {"name": "claim", "persistentVolumeClaim": {"claimName": "one"}},
            {"name": "other", "persistentVolumeClaim": {"claimName": "two"}},
            {"name": "up", "configMap": {"name": "m", "items": [{"key": "a", "path": "../a"}]}},
        ]},
    });
    let key = Key::new(Resource::Pods, "ns", "p");
    state.put(key, pod.clone()).expect("stored");
    (state, pod)
}

type Written = (tempfile::TempDir, Option<Duration>, State, Keys);

fn written(mounts: Value) -> Result<Written, MountError> {
    let state_dir = tempfile::tempdir().expect("a directory");
    let (renew, state, keys) = write_into(state_dir.path(), "c", mounts)?;
    Ok((state_dir, renew, state, keys))
}

/// The root of a container.
fn root_of(state_dir: &Path, container: &str) -> PathBuf {
    state_dir.join("pods/ns_p_u-p").join(container)
}

fn write_into(
    state_dir: &Path,
    container: &str,
    mounts: Value,
) -> Result<(Option<Duration>, State, Keys), MountError> {
    let (state, pod) = world();
    let keys = Keys::generate();
    let source = Source {
        state: &state,
        keys: &keys,
        pod: &pod,
        now: Timestamp::UNIX_EPOCH,
    };
    let env = json!([{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}]);
    let spec = json!({"name": container, "env": env, "volumeMounts": mounts});
    let root = root_of(state_dir, container);
    let renew = write(&source, &spec, &root)?;
    Ok((renew, state, keys))
}

// spec: O-112
#[test]
fn a_projected_token_is_below_the_root_and_bound_to_the_pod() {
    let mounts = json!([{"name": "token", "mountPath": "/var/run/x"}]);
    let (root, renew, state, keys) = written(mounts).expect("written");
    let read = |name: &str| {
        fs::read_to_string(root_of(root.path(), "c").join("var/run/x").join(name)).expect("a file")
    };
    let account =
        Account::read(&keys, &read("token"), &state, Timestamp::UNIX_EPOCH).expect("an account");
    assert!(account.is_for(&["driver"]));
    assert_eq!(
        account.user().extra["authentication.kubernetes.io/pod-uid"],
        json!(["u-p"])
    );
    assert_eq!(renew, Some(Duration::from_secs(800)));
    assert_eq!(read("name"), "p");
}

#[test]
fn config_maps_and_secrets_are_written_to_their_mount_paths() {
    let mounts = json!([{"name": "map", "mountPath": "/m"}, {"name": "secret", "mountPath": "/s"}]);
    let (root, renew, ..) = written(mounts).expect("written");
    let read = |name: &str| fs::read_to_string(root_of(root.path(), "c").join(name)).ok();
    assert_eq!(read("m/x/b").as_deref(), Some("2"));
    assert_eq!(read("m/a"), None);
    assert_eq!(read("s/k").as_deref(), Some("v"));
    assert_eq!(renew, None);
}

#[test]
fn nothing_is_written_outside_the_root() {
    for mounts in [
        json!([{"name": "map", "mountPath": "/../m"}]),
        json!([{"name": "up", "mountPath": "/m"}]),
    ] {
        let error = written(mounts).map(|_| ()).expect_err("refused");
        let (MountError::Refused(why) | MountError::Failed(why)) = error;
        assert!(why.contains("must not lead upwards"), "{why}");
    }
}

fn refusal(written: Result<impl Sized, MountError>) -> String {
    match written.map(|_| ()) {
        Err(MountError::Refused(why)) => why,
        other => panic!("not refused: {other:?}"),
    }
}

#[test]
fn a_claim_is_mounted_below_an_empty_directory_in_any_order() {
    for mounts in [
        json!([{"name": "empty", "mountPath": "/data"}, {"name": "claim", "mountPath": "/data/x"}]),
        json!([{"name": "claim", "mountPath": "/data/x"}, {"name": "empty", "mountPath": "/data"}]),
    ] {
        let (dir, ..) = written(mounts).expect("written");
        let file = root_of(dir.path(), "c").join("data/x/file");
        fs::write(file, "kept").expect("written");
        let kept = dir.path().join("volumes/ns_one_u-1/file");
        assert_eq!(fs::read_to_string(kept).expect("there"), "kept");
    }
}

#[test]
fn nothing_is_mounted_below_a_claim() {
    for below in ["other", "secret", "empty"] {
        let why = refusal(written(json!([
            {"name": below, "mountPath": "/data/x"},
            {"name": "claim", "mountPath": "/data/"},
        ])));
        assert!(why.contains("/data/x"), "{why}");
    }
    let beside = json!([
        {"name": "other", "mountPath": "/data-x"},
        {"name": "claim", "mountPath": "/data"},
    ]);
    written(beside).expect("written");
}

#[test]
fn an_empty_directory_is_shared_by_the_containers_of_a_pod() {
    let dir = tempfile::tempdir().expect("a directory");
    let mounts = |path: &str| json!([{"name": "empty", "mountPath": path}]);
    write_into(dir.path(), "a", mounts("/out")).expect("written");
    write_into(dir.path(), "b", mounts("/in")).expect("written");
    fs::write(root_of(dir.path(), "a").join("out/file"), "x").expect("written");
    assert!(root_of(dir.path(), "b").join("in/file").exists());
}

#[test]
fn a_sub_path_of_a_volume_is_mounted() {
    let mounts = json!([
        {"name": "claim", "mountPath": "/data", "subPath": "a/b"},
        {"name": "other", "mountPath": "/of-pod", "subPathExpr": "pods/$(POD)"},
        {"name": "map", "mountPath": "/etc/b.conf", "subPath": "x/b"},
        {"name": "map", "mountPath": "/etc/x", "subPath": "x"},
    ]);
    let (dir, ..) = written(mounts).expect("written");
    let root = root_of(dir.path(), "c");
    for (mounted, kept) in [
        ("data/file", "volumes/ns_one_u-1/a/b/file"),
        ("of-pod/file", "volumes/ns_two_u-2/pods/p/file"),
    ] {
        fs::write(root.join(mounted), "kept").expect("written");
        assert!(dir.path().join(kept).exists(), "{kept}");
    }
    for path in ["etc/b.conf", "etc/x/b"] {
        assert_eq!(
            fs::read_to_string(root.join(path)).expect("there"),
            "2",
            "{path}"
        );
    }
}

#[test]
fn a_sub_path_does_not_leave_its_volume() {
    for (volume, field, path) in [
        ("claim", "subPath", "../x"),
        ("claim", "subPath", "/x"),
        ("empty", "subPath", "a/../../x"),
        ("claim", "subPathExpr", "$(NONE)"),
        ("map", "subPath", "none"),
    ] {
        let mut mount = json!({"name": volume, "mountPath": "/data"});
        mount[field] = path.into();
        refusal(written(json!([mount])));
    }
    let dir = tempfile::tempdir().expect("a directory");
    let volume = dir.path().join("volumes/ns_one_u-1");
    fs::create_dir_all(volume.join("inside")).expect("made");
    std::os::unix::fs::symlink("/", volume.join("out")).expect("linked");
    std::os::unix::fs::symlink("inside", volume.join("in")).expect("linked");
    let mounts = |path: &str| json!([{"name": "claim", "mountPath": "/data", "subPath": path}]);
    refusal(write_into(dir.path(), "c", mounts("out/etc")));
    assert!(!root_of(dir.path(), "c").join("data").exists());
    write_into(dir.path(), "c", mounts("in")).expect("it stays in the volume");
}

#[test]
fn volumes_are_mounted_again_when_a_container_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let mounts = json!([
        {"name": "claim", "mountPath": "/data"},
        {"name": "map", "mountPath": "/map"},
        {"name": "secret", "mountPath": "/file", "subPath": "k"},
    ]);
    for _ in 0..2 {
        write_into(dir.path(), "c", mounts.clone()).expect("written");
    }
}
