//! Tests of the keys of listeners.

use super::*;

const API: &str = "[api]\nlisten = \"127.0.0.1:7117\"\ntoken_file = \"t\"\n";

// spec: O-59
#[test]
fn metrics_and_probes_may_share_a_port_with_each_other_but_not_with_the_api() {
    let read = |metrics: &str, probes: &str| {
        with(&format!(
            "{API}[metrics]\nlisten = \"{metrics}\"\n[probes]\nlisten = \"{probes}\""
        ))
    };
    assert!(read("0.0.0.0:9090", "0.0.0.0:9090").is_ok());
    assert!(read("127.0.0.1:0", "127.0.0.1:0").is_ok());
    for (metrics, probes, key) in [
        ("127.0.0.1:7117", "0.0.0.0:9090", "metrics.listen"),
        ("0.0.0.0:9090", "127.0.0.1:7117", "probes.listen"),
    ] {
        let refused = read(metrics, probes);
        assert_refused(refused, key, key, "which is api.listen too");
    }
    let tokens = "[metrics]\ntoken_file = \"t\"";
    assert_refused(
        with(tokens),
        tokens,
        "metrics.token_file",
        "set metrics.listen",
    );
}

const FILES: &str = "[tls]\ncertificate_file = \"c\"\nkey_file = \"k\"\n";
const GENERATED: &str = "[tls]\ngenerate = true\n";

// spec: O-53, C-2
#[test]
fn an_address_that_others_reach_needs_tls_or_the_word_that_it_is_plain_and_both_are_offered() {
    let api = "[api]\ntoken_file = \"t\"\nlisten = \"0.0.0.0:7117\"\n";
    let sessions = "[backend]\nurl = \"URL\"\nlisten = \"0.0.0.0:7078\"\n";
    let sessions = |scheme: &str| sessions.replace("URL", &format!("{scheme}://driver.jobs:7078"));
    for (text, key, plain) in [
        (api, "api.listen", "api.plain_http"),
        (&*sessions("http"), "backend.listen", "backend.plain_http"),
    ] {
        let refused = assert_refused(with(text), text, key, "other machines can reach");
        for way_out in ["tls.generate = true", "tls.certificate_file", plain] {
            assert!(refused.contains(way_out), "{refused}");
        }
        assert!(with(&format!("{text}plain_http = true")).is_ok());
    }
    for tls in [FILES, GENERATED] {
        assert!(with(&format!("{tls}{api}{}", sessions("https"))).is_ok());
        let plain = format!("{tls}{api}{}plain_http = true", sessions("http"));
        assert!(with(&plain).is_ok());
        let wrong = format!("{tls}{}", sessions("http"));
        assert_refused(with(&wrong), &wrong, "backend.url", "https://");
    }
}

// spec: O-53, C-2
#[test]
fn keys_of_a_certificate_that_contradict_each_other_are_refused() {
    let sessions = "[backend]\nlisten = \"127.0.0.1:7078\"\n";
    for (tls, key, part) in [
        (
            "certificate_file = \"c\"",
            "tls.key_file",
            "name both files",
        ),
        (
            "key_file = \"k\"",
            "tls.certificate_file",
            "name both files",
        ),
        ("ca_file = \"a\"", "tls.ca_file", "tls.certificate_file"),
        ("names = [\"a\"]", "tls.names", "tls.generate = true"),
        (
            "generate = true\nca_file = \"a\"",
            "tls.generate",
            "not both",
        ),
        (
            "generate = true\n[config_map]\nenabled = false",
            "config_map.enabled",
            "executors get the CA",
        ),
    ] {
        let text = format!("{sessions}[tls]\n{tls}\n");
        assert_refused(with(&text), &text, key, part);
    }
    assert_refused(
        with(GENERATED),
        GENERATED,
        "tls.generate",
        "neither api.listen",
    );
    assert_refused(
        with(&format!("{GENERATED}names = [\"a b\"]\n{sessions}")),
        "names",
        "tls.names[0]",
        "a DNS name",
    );
    let one_port = "[api]\ntoken_file = \"t\"\nplain_http = true\nlisten = \"127.0.0.1:7078\"\n";
    let text = format!("{GENERATED}{one_port}{sessions}");
    assert_refused(with(&text), &text, "backend.plain_http", "share a port");
}

// spec: O-64, C-2
#[test]
fn a_service_account_is_named_with_its_namespace_and_has_one_of_two_rights() {
    let config = with(&format!(
        "{API}service_accounts = {{ \"jobs/spark-driver\" = \"full\", \"monitoring/prometheus\" = \"read\" }}"
    ));
    let accounts = config.unwrap().api.service_accounts;
    assert_eq!(accounts["jobs/spark-driver"], AccountRight::Full);
    assert_eq!(accounts["monitoring/prometheus"], AccountRight::Read);
    for (accounts, key, part) in [
        (
            "{ prometheus = \"read\" }",
            "api.service_accounts.prometheus",
            "jobs/spark-driver",
        ),
        (
            "{ \"a/b\" = \"write\" }",
            "api.service_accounts.\"a/b\"",
            "\"read\" or \"full\"",
        ),
    ] {
        let text = format!("{API}service_accounts = {accounts}");
        assert_refused(with(&text), &text, key, part);
    }
    let alone = "api.service_accounts = { \"a/b\" = \"read\" }";
    assert_refused(with(alone), alone, "api.service_accounts", "set api.listen");
    let text = format!("{API}audience = \"a\"");
    assert_refused(with(&text), &text, "api.audience", "names no caller");
}
