//! Objects as kubectl reads them.

use serde_json::Value;

/// The objects as documents of YAML. kubectl reads YAML 1.1, in which more words than `true` are no strings: these are
/// quoted.
///
/// # Errors
/// Returns why they cannot be written, which is a bug.
pub fn yaml(objects: &[Value]) -> Result<String, String> {
    serde_saphyr::to_string_multiple(objects).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // spec: O-51
    #[test]
    fn a_text_of_several_lines_is_printed_as_a_block() {
        let written = yaml(&[json!({"a": "[app]\nname = \"x\"\n"})]).unwrap();
        assert_eq!(written, "a: |\n  [app]\n  name = \"x\"\n");
    }

    // kubectl reads YAML 1.1.
    // spec: O-51
    #[test]
    fn a_text_that_yaml_would_read_as_something_else_is_quoted() {
        for text in [
            "on",
            "No",
            "y",
            "~",
            "null",
            "0777",
            "1_000",
            "0x1f",
            "1e3",
            ".inf",
            "12:30:45",
            "2026-11-27",
            "=",
            "<<",
            "- a",
            "a: b",
            "# c",
            "@a",
            "`a",
            "",
            " a",
            "%a",
            "!a",
            "&a",
            "*a",
            "a ",
            "0o7",
            "+1",
            "1.",
        ] {
            let written = yaml(&[json!({"a": text})]).unwrap();
            let is_quoted = written.starts_with("a: '") || written.starts_with("a: \"");
            assert!(is_quoted, "{text:?}: {written}");
        }
    }
}
