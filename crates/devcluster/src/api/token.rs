//! Continue tokens of paged lists, encoded as real servers do: a resource version and the key after which the next page
//! starts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde_json::{Value, json};

use super::status::ApiError;
use crate::objects::object::{number, text};

const FORMAT: &str = "meta.k8s.io/v1";

/// The position in a paged list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position {
    /// The resource version at which the list began; `None` if it has expired and the newest is to be read.
    pub version: Option<u64>,
    /// The namespace of the last listed object.
    pub namespace: String,
    /// The name of the last listed object.
    pub name: String,
}

impl Position {
    /// Encodes the token. `listed` is the namespace of the list; `None` for all namespaces.
    pub fn encode(&self, listed: Option<&str>) -> String {
        let start = match listed {
            None if !self.namespace.is_empty() => format!("{}/{}\0", self.namespace, self.name),
            _ => format!("{}\0", self.name),
        };
        let version = self
            .version
            .map_or(-1, |v| i64::try_from(v).unwrap_or(i64::MAX));
        let token = json!({"v": FORMAT, "rv": version, "start": start});
        URL_SAFE_NO_PAD.encode(token.to_string())
    }

    pub fn decode(token: &str, listed: Option<&str>) -> Result<Self, ApiError> {
        let refused = |why: String| ApiError::bad_request(format!("invalid continue token: {why}"));
        let invalid = |why: String| refused(format!("continue key is not valid: {why}"));
        let bytes = URL_SAFE_NO_PAD
            .decode(token)
            .map_err(|e| invalid(e.to_string()))?;
        let token: Value = serde_json::from_slice(&bytes).map_err(|e| invalid(e.to_string()))?;
        let format = text(&token, &["v"]);
        if format != FORMAT {
            return Err(invalid(format!(
                "server does not recognize this encoded version {format}"
            )));
        }
        let version = number(&token, &["rv"]).unwrap_or(0);
        if version == 0 {
            return Err(invalid(format!(
                "incorrect encoded start resourceVersion (version {FORMAT})"
            )));
        }
        let start = text(&token, &["start"]);
        if start.is_empty() {
            return Err(invalid(format!(
                "encoded start key empty (version {FORMAT})"
            )));
        }
        let is_clean = start
            .trim_start_matches('/')
            .split('/')
            .all(|part| !matches!(part, "" | "." | ".."));
        if !is_clean {
            return Err(invalid(start.to_owned()));
        }
        let last = start.trim_start_matches('/').trim_end_matches('\0');
        let (namespace, name) = match (listed, last.split_once('/')) {
            (None, Some((namespace, name))) => (namespace, name),
            (listed, _) => (listed.unwrap_or_default(), last),
        };
        Ok(Self {
            version: u64::try_from(version).ok(),
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_invalid_token_is_refused_with_the_reason() {
        let encode = |token: Value| URL_SAFE_NO_PAD.encode(token.to_string());
        for (token, why) in [
            ("rubbish".to_owned(), "continue key is not valid: "),
            (
                encode(json!({"v": "v9", "rv": 1, "start": "a"})),
                "does not recognize",
            ),
            (
                encode(json!({"v": FORMAT, "start": "a"})),
                "incorrect encoded start",
            ),
            (encode(json!({"v": FORMAT, "rv": 1})), "start key empty"),
            (
                encode(json!({"v": FORMAT, "rv": 1, "start": "../a"})),
                "not valid: ../a",
            ),
        ] {
            let error = Position::decode(&token, None).expect_err("refused");
            assert_eq!((error.code, error.reason), (400, "BadRequest"));
            assert!(error.message.starts_with("invalid continue token: "));
            assert!(error.message.contains(why), "{}", error.message);
        }
    }

    proptest! {
        #[test]
        fn a_token_decodes_to_the_place_it_encodes(
            version in prop::option::of(1..u64::from(u32::MAX)), ns in "[a-z-]{1,9}", name in "[a-z.-]{0,9}[a-z]",
        ) {
            let position = Position { version, namespace: ns.clone(), name };
            prop_assert_eq!(&Position::decode(&position.encode(None), None).expect("a position"), &position);
            prop_assert_eq!(&Position::decode(&position.encode(Some(&ns)), Some(&ns)).expect("a position"), &position);
        }

        #[test]
        fn any_text_is_decoded_or_refused(text in ".*") {
            let _ = Position::decode(&text, None);
            let _ = Position::decode(&URL_SAFE_NO_PAD.encode(&text), None);
        }
    }
}
