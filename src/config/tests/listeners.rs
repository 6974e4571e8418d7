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
