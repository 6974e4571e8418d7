//! Parses JSON request bodies.

use serde_json::Value;

use crate::objects::depth::{MAX_LEVELS, exceeds};

/// The content; of a duplicate field the last value.
pub fn json(bytes: &[u8]) -> Result<Value, String> {
    let value = serde_json::from_slice(bytes).map_err(|error| match error.classify() {
        serde_json::error::Category::Eof => "unexpected end of JSON input".to_owned(),
        _ => error.to_string(),
    })?;
    match exceeds(&value, MAX_LEVELS) {
        true => Err("exceeded max depth".to_owned()),
        false => Ok(value),
    }
}

/// The beginning of a body, for error messages.
pub fn summary(body: &[u8]) -> String {
    const SHOWN: usize = 30;
    let (shown, rest) = body.split_at(body.len().min(SHOWN));
    let more = if rest.is_empty() { "" } else { " ..." };
    match body.first() {
        None => "<empty>".to_owned(),
        Some(b'{') => format!("{}{more}", String::from_utf8_lossy(shown)),
        Some(_) => {
            let hex: String = shown.iter().map(|byte| format!("{byte:02x}")).collect();
            format!("{hex}{more}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_nested_too_deeply_is_refused() {
        let nested = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        assert!(json(nested(MAX_LEVELS).as_bytes()).is_ok());
        for levels in [MAX_LEVELS + 1, 1_000] {
            assert!(json(nested(levels).as_bytes()).is_err());
        }
    }

    #[test]
    fn truncated_bodies_are_errors() {
        assert_eq!(
            json(b"{\"a\":"),
            Err("unexpected end of JSON input".to_owned())
        );
        assert_eq!(summary(b""), "<empty>");
        assert_eq!(summary(b"ab"), "6162");
        assert_eq!(summary(&[b'{'; 40]), format!("{} ...", "{".repeat(30)));
    }
}
