//! Parses the query parameters of write requests: field manager, dry run, field validation and force.

use crate::api::query::Query;
use crate::api::status::{ApiError, Causes};

/// The longest name of a field manager, in bytes.
const MAX_MANAGER: usize = 128;

/// What happens to unknown and duplicate fields.
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
    pub manager: String,
    /// Whether to validate only.
    pub dry_run: bool,
    /// What happens to unknown and duplicate fields.
    pub validation: Validation,
    /// Whether fields of other managers are taken over.
    pub force: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    Create,
    Update,
    /// PATCH other than server-side apply.
    Patch,
    Apply,
}

impl Verb {
    fn kind(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Patch | Self::Apply => "PatchOptions",
        }
    }
}

impl WriteOptions {
    /// Parses the parameters. The default field manager is derived from the user agent.
    pub fn read(query: &Query, verb: Verb, user_agent: &str) -> Result<Self, ApiError> {
        let mut causes = Causes::default();
        let manager = query.text("fieldManager");
        match (verb, query.flag("force")) {
            (Verb::Apply, _) if manager.is_empty() => {
                causes.required("fieldManager", "is required for apply patch");
            }
            (Verb::Patch, Some(_)) => {
                let detail = "may not be specified for non-apply patch";
                causes.forbidden("force", detail);
            }
            _ => {}
        }
        if manager.len() > MAX_MANAGER {
            causes.too_long("fieldManager", MAX_MANAGER);
        }
        for (at, odd) in manager.char_indices().filter(|(_, c)| c.is_control()) {
            let detail = format!(
                "invalid character U+{:04X} (at position {at})",
                u32::from(odd)
            );
            causes.invalid("fieldManager", manager, &detail);
        }
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
            manager: match manager {
                "" => of_user_agent(user_agent),
                manager => manager.to_owned(),
            },
            dry_run,
            validation,
            force: query.flag("force") == Some(true),
        })
    }
}

/// The user agent up to the first slash, without unprintable characters and truncated.
fn of_user_agent(user_agent: &str) -> String {
    let mut manager = String::new();
    for c in user_agent.split('/').next().unwrap_or_default().chars() {
        if c.is_control() {
            continue;
        }
        if manager.len() + c.len_utf8() > MAX_MANAGER {
            break;
        }
        manager.push(c);
    }
    manager
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(query: &str, verb: Verb) -> Result<WriteOptions, ApiError> {
        let uri = format!("/?{query}").parse().expect("a URI");
        let query = Query::of(&uri).expect("a query");
        WriteOptions::read(&query, verb, "kubectl/v1.36.0 (linux/amd64)")
    }

    #[test]
    fn the_field_manager_defaults_to_the_user_agent() {
        let manager = |query| read(query, Verb::Create).map(|options| options.manager);
        assert_eq!(manager("fieldManager=tester"), Ok("tester".to_owned()));
        assert_eq!(manager(""), Ok("kubectl".to_owned()));
        assert_eq!(of_user_agent(&"x".repeat(200)).len(), 128);
        assert_eq!(of_user_agent(""), "");
    }

    #[test]
    fn all_invalid_parameters_are_reported_together() {
        let message = |query, verb| {
            read(query, verb)
                .map_err(|e| e.message)
                .expect_err("refused")
        };
        assert_eq!(
            message("", Verb::Apply),
            "PatchOptions.meta.k8s.io \"\" is invalid: fieldManager: Required value: is required for apply patch"
        );
        assert_eq!(
            message("force=true&fieldManager=a", Verb::Patch),
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply patch"
        );
        assert_eq!(
            message("dryRun=Some&fieldValidation=Maybe", Verb::Create),
            "CreateOptions.meta.k8s.io \"\" is invalid: [dryRun: Unsupported value: [\"Some\"]: supported values: \
             \"All\", fieldValidation: Unsupported value: \"Maybe\": supported values: \"Ignore\", \"Strict\", \"Warn\"]"
        );
        let long = format!("fieldManager={}", "x".repeat(129));
        assert_eq!(
            message(&long, Verb::Update),
            "UpdateOptions.meta.k8s.io \"\" is invalid: fieldManager: Too long: may not be more than 128 bytes"
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
