//! Properties that differ by executor: references such as `$(NODE_NAME)`, as in a container's `args` (spec B-68).

use std::collections::BTreeMap;
use std::net::IpAddr;

use crate::model::Entry;

/// A name that can be referred to, and the executor's value; `None`: not known yet.
type Own<'a> = (&'a str, Option<String>);

/// The properties with an executor's own values; `None` if one of them is not known yet. Other references stay as they
/// are, and `$$(NAME)` becomes `$(NAME)`.
pub fn resolve(
    properties: &BTreeMap<String, String>,
    entry: &Entry,
) -> Option<BTreeMap<String, String>> {
    let pod = entry.pod();
    let address = |ip: Option<IpAddr>| ip.map(|ip| ip.to_string());
    let own = [
        ("EXECUTOR_ID", Some(entry.id.get().to_string())),
        ("HOST_IP", address(pod.and_then(|pod| pod.host_ip))),
        (
            "NODE_NAME",
            pod.and_then(|pod| pod.node.as_deref()).map(str::to_owned),
        ),
        ("POD_IP", address(pod.and_then(|pod| pod.ip))),
    ];
    let resolved = properties
        .iter()
        .map(|(name, text)| Some((name.clone(), replaced(text, &own)?)));
    resolved.collect()
}

fn replaced(text: &str, own: &[Own<'_>]) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        let escaped = from.strip_prefix('$').and_then(|from| reference(from, own));
        rest = if let Some((_, after)) = escaped {
            result.push_str(&from[1..from.len() - after.len()]);
            after
        } else if let Some((value, after)) = reference(from, own) {
            result.push_str(value.as_deref()?);
            after
        } else {
            result.push('$');
            &from[1..]
        };
    }
    result.push_str(rest);
    Some(result)
}

/// The value of the reference at the beginning of the text, and what follows it.
fn reference<'a, 'o>(text: &'a str, own: &'o [Own<'_>]) -> Option<(&'o Option<String>, &'a str)> {
    let inner = text.strip_prefix("$(")?;
    own.iter()
        .find_map(|(name, value)| Some((value, inner.strip_prefix(*name)?.strip_prefix(')')?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_node_a() -> [Own<'static>; 2] {
        [("NODE_NAME", Some("node-a".to_owned())), ("POD_IP", None)]
    }

    // spec: B-68
    #[test]
    fn references_are_replaced_and_what_is_none_stays() {
        for (text, wanted) in [
            ("http://$(NODE_NAME):7337", "http://node-a:7337"),
            ("$(NODE_NAME)$(NODE_NAME)", "node-anode-a"),
            ("$$(NODE_NAME)", "$(NODE_NAME)"),
            ("$$$(NODE_NAME)", "$$(NODE_NAME)"),
            ("$(OTHER) $NODE_NAME $( $$ $", "$(OTHER) $NODE_NAME $( $$ $"),
        ] {
            let found = replaced(text, &of_node_a());
            assert_eq!(found.as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(replaced("$(POD_IP)", &of_node_a()), None, "not known yet");
    }

    proptest! {
        // spec: B-68
        #[test]
        fn text_without_a_dollar_stays_and_any_text_is_read(text in ".{0,40}") {
            let result = replaced(&text, &of_node_a());
            prop_assert!(result.is_some() || text.contains("$(POD_IP)"));
            if !text.contains('$') {
                prop_assert_eq!(result, Some(text));
            }
        }
    }
}
