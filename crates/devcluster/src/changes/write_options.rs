//! Parses the query parameters of write requests: dry run and field validation.

use crate::api::query::Query;
use crate::api::status::{ApiError, Causes};

/// What happens to unknown fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validation {
    /// They are dropped.
    Ignore,
    /// They are dropped, and the client gets a warning.
    Warn,
    Strict,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteOptions {
    /// Whether to validate only.
    pub dry_run: bool,
    /// What happens to unknown fields.
    pub validation: Validation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    Patch,
}

impl Verb {
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch => "PatchOptions",
        }
    }
}

impl WriteOptions {
    pub fn read(query: &Query, verb: Verb) -> Result<Self, ApiError> {
        let mut causes = Causes::default();
        let dry_run = query.dry_run(&mut causes);
        let validation = match query.text("fieldValidation") {
            "Strict" => Validation::Strict,
            "" | "Warn" => Validation::Warn,
            "Ignore" => Validation::Ignore,
            other => {
                let known = ["Ignore", "Strict", "Warn"];
                causes.not_supported("fieldValidation", other, &known);
                Validation::Ignore
            }
        };
        causes.check(verb.kind(), "meta.k8s.io", "")?;
        Ok(Self {
            dry_run,
            validation,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, verb: Verb) -> Result<WriteOptions, ApiError> {
        let uri = format!("/?{query}").parse().expect("a URI");
        let query = Query::of(&uri).expect("a query");
        WriteOptions::read(&query, verb)
    }

    #[test]
    fn all_invalid_parameters_are_reported_together() {
        let message = |query, verb| {
            read(query, verb)
                .map_err(|e| e.message)
                .expect_err("refused")
        };
        assert_eq!(
            message("dryRun=Some&fieldValidation=Maybe", Verb::Create),
            "CreateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"Some\"]: supported values: \
             \"All\", fieldValidation: Unsupported value: \"Maybe\": supported values: \"Ignore\", \"Strict\", \"Warn\"]"
        );
    }

    #[test]
    fn field_validation_defaults_to_warnings() {
        let validation = |query| read(query, Verb::Create).map(|options| options.validation);
        assert_eq!(validation(""), Ok(Validation::Warn));
        assert_eq!(validation("fieldValidation=Strict"), Ok(Validation::Strict));
        assert_eq!(validation("fieldValidation=Ignore"), Ok(Validation::Ignore));
        assert_eq!(
            read("dryRun=All", Verb::Patch).map(|options| options.dry_run),
            Ok(true)
        );
    }
}
