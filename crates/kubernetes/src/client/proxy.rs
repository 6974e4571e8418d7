//! Whether the API server is reached through a proxy (spec O-135).

use http::Uri;
use hyper_util::client::proxy::matcher::Matcher;
use kube::Config;

/// The proxy of the kubeconfig, or that of the environment. The latter is neither for this machine nor for what NO_PROXY
/// names: kube compares NO_PROXY with the name of the proxy, not with that of the server.
pub(super) fn proxy(config: &Config, environment: impl Fn(&str) -> Option<String>) -> Option<Uri> {
    let proxy = config.proxy_url.clone()?;
    let variable = |names: [&str; 2]| {
        let mut values = names.into_iter().filter_map(&environment);
        values.find(|value| !value.is_empty())
    };
    let of_environment = variable(["HTTPS_PROXY", "https_proxy"]);
    let is_of_environment =
        of_environment.is_some_and(|value| value.parse().ok() == Some(proxy.clone()));
    if !is_of_environment {
        return Some(proxy);
    }
    let host = config.cluster_url.host().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<std::net::IpAddr>();
    if host == "localhost" || address.is_ok_and(|address| address.is_loopback()) {
        return None;
    }
    let excepted = variable(["NO_PROXY", "no_proxy"]).unwrap_or_default();
    let matcher = Matcher::builder()
        .all(proxy.to_string())
        .no(excepted)
        .build();
    matcher.intercept(&config.cluster_url).map(|_| proxy)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROXY: &str = "http://user:secret@proxy.example:3128/";

    fn reached(
        server: &str,
        kubeconfig: Option<&str>,
        environment: &[(&str, &str)],
    ) -> Option<String> {
        let variable = |name: &str| {
            let found = environment.iter().find(|(known, _)| *known == name)?;
            Some(found.1.to_owned())
        };
        let mut config = Config::new(server.parse().unwrap());
        // As kube fills it in.
        let of_environment = variable("HTTPS_PROXY").or_else(|| variable("https_proxy"));
        let given = kubeconfig.map(str::to_owned).or(of_environment);
        config.proxy_url = given.map(|url| url.parse().unwrap());
        proxy(&config, variable).map(|url| url.to_string())
    }

    // spec: O-135
    #[test]
    fn the_proxy_of_the_environment_is_for_servers_that_no_proxy_does_not_name() {
        let server = "https://api.jobs.example:6443/";
        let set = ("HTTPS_PROXY", PROXY);
        for (excepted, expected) in [
            ("", Some(PROXY)),
            ("other.example,proxy.example", Some(PROXY)),
            ("jobs.example", None),
            (".jobs.example, 10.0.0.0/8", None),
            ("*", None),
        ] {
            let reached = reached(server, None, &[set, ("NO_PROXY", excepted)]);
            assert_eq!(reached.as_deref(), expected, "{excepted}");
        }
        let reached = |server, set: &[_]| reached(server, None, set);
        assert_eq!(
            reached("https://10.1.2.3:6443", &[set, ("no_proxy", "10.0.0.0/8")]),
            None
        );
        assert_eq!(
            reached(server, &[("https_proxy", PROXY)]).as_deref(),
            Some(PROXY)
        );
        for local in [
            "https://127.0.0.1:6443",
            "https://[::1]:6443",
            "http://localhost:1",
        ] {
            assert_eq!(reached(local, &[set]), None, "{local}");
        }
    }

    // spec: O-135
    #[test]
    fn the_proxy_of_the_kubeconfig_is_for_its_server_whatever_the_environment_says() {
        let other = "http://other.example:1/";
        let environment = [("HTTPS_PROXY", PROXY), ("NO_PROXY", "*")];
        let reached = reached("https://api.example", Some(other), &environment);
        assert_eq!(reached.as_deref(), Some(other));
    }
}
