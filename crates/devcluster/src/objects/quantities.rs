//! Normalizes the quantities in an object to the canonical form in which real servers store them.

use serde_json::Value;

use super::quantity::normalized;

/// Fields whose values are maps of quantities.
const MAPS: [&str; 8] = [
    "limits",
    "requests",
    "capacity",
    "allocatable",
    "overhead",
    "hard",
    "used",
    "allocatedResources",
];

/// Fields that are quantities.
const SINGLE: [&str; 2] = ["sizeLimit", "divisor"];

/// Fields with user-defined keys, which contain no quantities.
const FREE: [&str; 6] = [
    "metadata",
    "data",
    "binaryData",
    "stringData",
    "nodeSelector",
    "matchLabels",
];

/// Normalizes all quantities of an object.
///
/// # Errors
///
/// If one is not a valid quantity, the error message of a real server.
pub fn normalize(value: &mut Value) -> Result<(), String> {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                if FREE.contains(&name.as_str()) {
                    continue;
                }
                match field {
                    Value::Object(amounts) if MAPS.contains(&name.as_str()) => {
                        amounts.values_mut().try_for_each(one)?;
                    }
                    Value::String(_) if SINGLE.contains(&name.as_str()) => one(field)?,
                    _ => normalize(field)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items.iter_mut().try_for_each(normalize),
        _ => Ok(()),
    }
}

fn one(amount: &mut Value) -> Result<(), String> {
    if let Value::String(text) = amount {
        *text = normalized(text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_quantities_are_normalized_at_any_depth() {
        let mut pod = json!({
            "metadata": {"annotations": {"limits": "1000m", "sizeLimit": "1000m"}},
            "spec": {
                "containers": [{"args": ["1000m"], "resources": {"requests": {"cpu": "1000m"}}}],
                "volumes": [{"emptyDir": {"sizeLimit": "1024Ki"}}],
                "nodeSelector": {"divisor": "1000m"},
            },
        });
        let mut want = pod.clone();
        want["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "1".into();
        want["spec"]["volumes"][0]["emptyDir"]["sizeLimit"] = "1Mi".into();
        normalize(&mut pod).expect("quantities");
        assert_eq!(pod, want);
        let mut bad = json!({"spec": {"hard": {"pods": "many"}}});
        assert!(
            normalize(&mut bad)
                .expect_err("refused")
                .contains("regular expression")
        );
    }
}
