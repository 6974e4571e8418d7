//! Properties that differ by executor: references such as `$(NODE_NAME)`, written as in a container's `args` (spec B-1).

use std::collections::BTreeMap;

use crate::model::Entry;

/// What can be referred to.
const NAMES: [&str; 4] = ["EXECUTOR_ID", "HOST_IP", "NODE_NAME", "POD_IP"];

/// The properties with an executor's own values; `None` if one of them is not known yet. Other references stay as they
/// are, and `$$(NAME)` becomes `$(NAME)`.
pub fn resolve(
    properties: &BTreeMap<String, String>,
    entry: &Entry,
) -> Option<BTreeMap<String, String>> {
    let pod = entry.pod();
    let value = |name: &str| match name {
        "EXECUTOR_ID" => Some(entry.id.get().to_string()),
        "HOST_IP" => pod?.host_ip.map(|ip| ip.to_string()),
        "NODE_NAME" => pod?.node.as_deref().map(str::to_owned),
        _ => pod?.ip.map(|ip| ip.to_string()),
    };
    let resolved = properties
        .iter()
        .map(|(name, text)| Some((name.clone(), replaced(text, value)?)));
    resolved.collect()
}

fn replaced(text: &str, value: impl Fn(&str) -> Option<String>) -> Option<String> {
    let mut result = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('$') {
        let (before, from) = rest.split_at(at);
        result.push_str(before);
        let escaped = from.strip_prefix('$').and_then(reference);
        rest = if let Some((_, after)) = escaped {
            result.push_str(&from[1..from.len() - after.len()]);
            after
        } else if let Some((name, after)) = reference(from) {
            result.push_str(&value(name)?);
            after
        } else {
            result.push('$');
            &from[1..]
        };
    }
    result.push_str(rest);
    Some(result)
}

/// The name in `$(NAME)` at the beginning of the text, and what follows.
fn reference(text: &str) -> Option<(&'static str, &str)> {
    let inner = text.strip_prefix("$(")?;
    let ends = |name: &&'static str| inner.strip_prefix(*name)?.strip_prefix(')');
    NAMES.iter().find_map(|name| Some((*name, ends(name)?)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of_node_a(name: &str) -> Option<String> {
        (name == "NODE_NAME").then(|| "node-a".to_owned())
    }

    // spec: B-1
    #[test]
    fn references_are_replaced_and_what_is_none_stays() {
        for (text, wanted) in [
            ("http://$(NODE_NAME):7337", "http://node-a:7337"),
            ("$(NODE_NAME)$(NODE_NAME)", "node-anode-a"),
            ("$$(NODE_NAME)", "$(NODE_NAME)"),
            ("$$$(NODE_NAME)", "$$(NODE_NAME)"),
            ("$(OTHER) $NODE_NAME $( $$ $", "$(OTHER) $NODE_NAME $( $$ $"),
        ] {
            assert_eq!(replaced(text, of_node_a).as_deref(), Some(wanted), "{text}");
        }
        assert_eq!(replaced("$(POD_IP)", of_node_a), None, "not known yet");
    }

    proptest! {
        // spec: B-1
        #[test]
        fn text_without_a_dollar_stays_and_any_text_is_read(text in ".{0,40}") {
            let result = replaced(&text, |_| Some(String::new()));
            prop_assert!(result.is_some());
            if !text.contains('$') {
                prop_assert_eq!(result, Some(text));
            }
        }
    }
}
