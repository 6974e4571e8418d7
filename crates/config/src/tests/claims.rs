//! Tests of claims on volumes, of the ConfigMap that executors mount, and of the driver's Service.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::*;

fn with_claims(claims: &str) -> String {
    format!("{LEAST}claims = [{claims}]\n")
}

// spec: K-10
#[test]
fn a_claim_needs_a_name_a_place_and_a_size_and_has_defaults_for_the_rest() {
    let least = r#"{ name = "data", mount_path = "/data", size = "10Gi" }"#;
    let config = read(&with_claims(least)).unwrap();
    let expected = Claim {
        name: "data".to_owned(),
        mount_path: "/data".to_owned(),
        size: "10Gi".parse().unwrap(),
        storage_class: None,
        volume_attributes_class: None,
        data_source: None,
        access_modes: BTreeSet::from([AccessMode::ReadWriteOnce]),
        owner: ClaimOwner::Application,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
    };
    assert_eq!(
        config.profiles["default"].claims,
        *std::slice::from_ref(&expected)
    );
    let whole = r#"{ name = "data", mount_path = "/data", size = "10Gi", storage_class = "fast",
                     volume_attributes_class = "gold", labels = { team = "a" },
                     data_source = { kind = "VolumeSnapshot", name = "base" },
                     annotations = { "backup.example/keep" = "7 days" },
                     access_modes = ["ReadWriteMany", "ReadOnlyMany"], owner = "executor" }"#;
    let whole: String = whole.split_whitespace().collect::<Vec<_>>().join(" ");
    let config = read(&with_claims(&whole)).unwrap();
    let expected = Claim {
        storage_class: Some("fast".to_owned()),
        volume_attributes_class: Some("gold".to_owned()),
        data_source: Some(DataSource {
            kind: DataSourceKind::VolumeSnapshot,
            name: "base".to_owned(),
        }),
        access_modes: BTreeSet::from([AccessMode::ReadWriteMany, AccessMode::ReadOnlyMany]),
        owner: ClaimOwner::Executor,
        labels: BTreeMap::from([("team".to_owned(), "a".to_owned())]),
        annotations: BTreeMap::from([("backup.example/keep".to_owned(), "7 days".to_owned())]),
        ..expected
    };
    assert_eq!(config.profiles["default"].claims, [expected]);
    for (missing, key) in [
        (r#"{ mount_path = "/data", size = "10Gi" }"#, "name"),
        (r#"{ name = "data", size = "10Gi" }"#, "mount_path"),
        (r#"{ name = "data", mount_path = "/data" }"#, "size"),
        (
            r#"{ name = "data", mount_path = "/d", size = "1Gi", data_source = { name = "base" } }"#,
            "data_source.kind",
        ),
        (
            r#"{ name = "data", mount_path = "/d", size = "1Gi", data_source = { kind = "VolumeSnapshot" } }"#,
            "data_source.name",
        ),
    ] {
        let message = refused(&with_claims(missing));
        assert!(
            message.contains(&format!("claims[0].{key}: missing")),
            "{message}"
        );
    }
}

// spec: K-10
#[test]
fn claims_of_one_profile_have_names_and_places_of_their_own() {
    let of = |name: &str, path: &str| {
        format!(r#"{{ name = "{name}", mount_path = "{path}", size = "1Gi" }}"#)
    };
    let two = |a: String, b: String| refused(&with_claims(&format!("{a}, {b}")));
    assert!(two(of("a", "/a"), of("a", "/b")).contains("two have the name \"a\""));
    assert!(two(of("a", "/a"), of("b", "/a")).contains("two are mounted at \"/a\""));
    let taken = refused(&with_claims(&of("a", "/etc/boatswain")));
    assert!(
        taken.contains("is where config_map.mount_path is"),
        "{taken}"
    );
    let upwards = refused(&with_claims(&of("a", "/../a")));
    assert!(upwards.contains("claims[0].mount_path"), "{upwards}");
}

// spec: K-7, K-10
#[test]
fn a_claim_s_name_fits_whatever_the_executor_s_id() {
    let claims = |prefix: &str| {
        let text = with_claims(r#"{ name = "spill", mount_path = "/spill", size = "1Gi" }"#);
        read(&format!("executors.pod_name_prefix = \"{prefix}\"\n{text}"))
    };
    // 32 + "-exec-" + 19 digits + "-spill" are 63.
    assert!(claims(&"p".repeat(32)).is_ok());
    let message = claims(&"p".repeat(33)).unwrap_err().to_string();
    assert!(
        message.contains("names of up to 64 characters"),
        "{message}"
    );
}

// spec: A-110
#[test]
fn who_waits_for_claims_has_to_get_them() {
    assert!(with("claims = { reuse = true, wait = true }").is_ok());
    let message = with("claims = { reuse = false, wait = true }")
        .unwrap_err()
        .to_string();
    assert!(message.contains("claims.wait: found true"), "{message}");
}

// spec: K-8
#[test]
fn the_config_map_is_there_unless_switched_off_and_names_files() {
    let config = with("config_map = { files = [\"log.conf\"], mount_path = \"/conf\" }").unwrap();
    assert_eq!(config.config_map.files, [PathBuf::from("log.conf")]);
    assert!(config.config_map.enabled && config.config_map.mount_path == "/conf");
}

// spec: K-9
#[test]
fn a_service_needs_a_port_that_others_can_call_and_is_an_address_enough() {
    let service = |listen: &str| {
        let selector = "backend.service_selector = { app = \"driver\" }";
        with(&format!("backend.plain_http = true\n{selector}\n{listen}"))
    };
    let config = service("backend.listen = \"0.0.0.0:7078\"").unwrap();
    assert_eq!(config.backend.sessions.service_port(), Some(7078));
    for listen in [
        "",
        "backend.listen = \"0.0.0.0:0\"",
        "backend.listen = \"127.0.0.1:7078\"",
    ] {
        let message = service(listen).unwrap_err().to_string();
        assert!(
            message.contains("backend.service_selector: found"),
            "{message}"
        );
    }
    assert_eq!(with("").unwrap().backend.sessions.service_port(), None);
}

// spec: K-9
#[test]
fn a_service_that_would_lead_to_executors_is_refused() {
    let service = |selector: &str, lease: bool, labels: &str| {
        let sessions = "backend.plain_http = true\nbackend.listen = \"0.0.0.0:7078\"";
        let selector = format!("backend.service_selector = {{ {selector} }}");
        let lease = format!("ha.lease = {lease}\ndriver.pod_name = \"etl-0\"");
        let general = format!("{sessions}\n{selector}\napp.name = \"etl\"\n{lease}");
        read(&format!("{general}\n{LEAST}labels = {{ {labels} }}\n"))
    };
    let of_name = "\"app.kubernetes.io/name\" = \"etl\"";
    let team = "team = \"a\"";
    let both = format!("{of_name}, {team}");
    for (selector, labels) in [(of_name, ""), (&both, team), (team, team)] {
        let message = service(selector, false, labels).unwrap_err().to_string();
        let why = "the executors of profile default have all of these labels";
        assert!(message.contains(why), "{message}");
    }
    let of_driver = "\"app.kubernetes.io/name\" = \"etl-driver\"";
    for (selector, lease) in [(both.as_str(), false), (of_driver, false), (of_name, true)] {
        service(selector, lease, "").unwrap();
    }
}

// spec: K-5, K-10
#[test]
fn a_volume_that_would_be_a_claim_for_each_executor_is_refused_and_told_where_these_are() {
    for volume in [
        "claim = \"OnDemand\"",
        "claim = \"data\", size_limit = \"5Gi\"",
    ] {
        let text = format!(
            "[profiles.default]\nimage = \"e:1\"\nvolumes = [{{ name = \"a\", mount_path = \"/a\", {volume} }}]"
        );
        let said = read(&text).unwrap_err().to_string();
        assert!(said.contains("[[profiles.NAME.claims]]"), "{said}");
    }
}
