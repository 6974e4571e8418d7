//! The causes of a validation error, one for each invalid field.

use serde::Serialize;
use serde_json::{Value, json};

use super::status::ApiError;

/// The most causes of one error.
const MAX_CAUSES: usize = 100;

/// No cause is added to others of this many bytes together.
const MAX_BYTES: usize = 1024 * 1024;

#[derive(Clone, Debug, PartialEq)]
pub struct Cause {
    pub(crate) reason: &'static str,
    pub(crate) field: String,
    pub(crate) message: String,
}

/// The invalid fields of an object, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Causes(pub(crate) Vec<Cause>);

impl Causes {
    fn push(&mut self, reason: &'static str, field: impl Into<String>, message: String) {
        self.add(Cause {
            reason,
            field: field.into(),
            message,
        });
    }

    fn add(&mut self, cause: Cause) {
        let bytes = self.0.iter().map(|c| c.field.len() + c.message.len());
        if self.0.len() < MAX_CAUSES && bytes.sum::<usize>() < MAX_BYTES {
            self.0.push(cause);
        }
    }

    pub fn required(&mut self, field: impl Into<String>, detail: &str) {
        let colon = if detail.is_empty() { "" } else { ": " };
        let message = format!("Required value{colon}{detail}");
        self.push("FieldValueRequired", field, message);
    }

    /// The field's value has an invalid form.
    pub fn invalid(&mut self, field: impl Into<String>, value: impl Serialize, detail: &str) {
        let message = format!("Invalid value: {}: {detail}", json!(value));
        self.push("FieldValueInvalid", field, message);
    }

    /// The object at this path is invalid as a whole.
    pub fn invalid_as_whole(&mut self, field: impl Into<String>, detail: &str) {
        let message = format!("Invalid value: {detail}");
        self.push("FieldValueInvalid", field, message);
    }

    pub fn too_many(&mut self, field: impl Into<String>, count: usize, limit: usize) {
        let message = format!("Too many: {count}: must have at most {limit} items");
        self.push("FieldValueTooMany", field, message);
    }

    /// The field must not be set or changed.
    pub fn forbidden(&mut self, field: impl Into<String>, detail: &str) {
        self.push("FieldValueForbidden", field, format!("Forbidden: {detail}"));
    }

    pub fn not_supported(
        &mut self,
        field: impl Into<String>,
        value: impl Serialize,
        supported: &[&str],
    ) {
        let quoted: Vec<String> = supported.iter().map(|s| format!("\"{s}\"")).collect();
        let supported = quoted.join(", ");
        let message = format!(
            "Unsupported value: {}: supported values: {supported}",
            json!(value)
        );
        self.push("FieldValueNotSupported", field, message);
    }

    /// The last field of the path must have one of these values, if it is set.
    pub fn one_of(&mut self, object: &Value, path: impl Into<String>, allowed: &[&str]) {
        let path = path.into();
        let field = path.rsplit('.').next().unwrap_or_default();
        if let Some(value) = object.get(field)
            && !allowed.contains(&value.as_str().unwrap_or_default())
        {
            self.not_supported(path, value, allowed);
        }
    }

    pub fn duplicate(&mut self, field: impl Into<String>, value: impl Serialize) {
        let message = format!("Duplicate value: {}", json!(value));
        self.push("FieldValueDuplicate", field, message);
    }

    /// The value refers to something that does not exist.
    pub fn not_found(&mut self, field: impl Into<String>, value: &str) {
        let message = format!("Not found: {}", json!(value));
        self.push("FieldValueNotFound", field, message);
    }

    pub fn too_long(&mut self, field: impl Into<String>, limit: usize) {
        let message = format!("Too long: may not be more than {limit} bytes");
        self.push("FieldValueTooLong", field, message);
    }

    pub fn extend(&mut self, other: Self) {
        other.0.into_iter().for_each(|cause| self.add(cause));
    }

    pub fn check(self, kind: &str, group: &str, name: &str) -> Result<(), ApiError> {
        if self.0.is_empty() {
            return Ok(());
        }
        Err(ApiError::invalid(kind, group, name, self))
    }

    pub fn of(add: impl FnOnce(&mut Self)) -> Self {
        let mut causes = Self::default();
        add(&mut causes);
        causes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_limited_in_number_and_bytes() {
        for length in [1, 100_000] {
            let value = "x".repeat(length);
            let causes = Causes::of(|causes| {
                for n in 0..10_000 {
                    causes.invalid(format!("field{n}"), &value, "it is bad");
                }
            });
            let text = ApiError::invalid("Pod", "", "a", causes)
                .to_value()
                .to_string();
            assert!(text.len() < 4 * MAX_BYTES, "{} bytes", text.len());
        }
    }
}
