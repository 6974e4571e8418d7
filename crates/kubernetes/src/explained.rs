//! Explains a refusal in one line: which quota, permission or field it is about (spec ).

use std::sync::Arc;

use super::refusal::{Cause, Failure, FailureKind, clean};

const LONGEST: usize = 1_024;

impl Failure {
    /// What was refused and why; the server's own message if nothing more specific can be derived from it.
    pub fn explained(&self) -> Arc<str> {
        let text = match self.kind {
            FailureKind::Quota => quota(&self.message),
            FailureKind::Rights => self.missing_right().map(|right| right.to_string()),
            FailureKind::Invalid | FailureKind::Admission => causes(&self.causes),
            FailureKind::Credentials => Some(format!(
                "the API server does not accept the driver's credentials: {}",
                self.message
            )),
            _ => None,
        };
        text.map_or_else(|| Arc::clone(&self.message), |text| clean(&text, LONGEST))
    }
}

/// Parses `… exceeded quota: q, requested: pods=1, used: pods=3, limited: pods=3`.
fn quota(message: &str) -> Option<String> {
    let (_, rest) = message.split_once("exceeded quota: ")?;
    let (name, rest) = rest.split_once(", requested: ")?;
    let (requested, rest) = rest.split_once(", used: ")?;
    let (used, limited) = rest.split_once(", limited: ")?;
    Some(format!(
        "quota {name} is used up: {requested} more would be beyond {limited}, {used} is used"
    ))
}

/// Lists the refused fields with their errors.
fn causes(causes: &[Cause]) -> Option<String> {
    let named = causes.iter().filter(|cause| !cause.field.is_empty());
    let texts: Vec<String> = named
        .map(|cause| format!("{}: {}", cause.field, cause.message))
        .collect();
    (!texts.is_empty()).then(|| texts.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn failure(kind: FailureKind, message: &str) -> Failure {
        Failure::new(kind, message)
    }

    // spec: A-21
    #[test]
    fn a_quota_is_named_with_its_usage() {
        let said = "POST /pods: 403 Forbidden: pods \"e\" is forbidden: exceeded quota: q, \
                    requested: cpu=2,pods=1, used: cpu=3,pods=3, limited: cpu=4,pods=3";
        assert_eq!(
            &*failure(FailureKind::Quota, said).explained(),
            "quota q is used up: cpu=2,pods=1 more would be beyond cpu=4,pods=3, cpu=3,pods=3 is used"
        );
        // The status of a new quota is unknown; the server's message is kept.
        let unknown = "status unknown for quota: q, resources: pods";
        assert_eq!(&*failure(FailureKind::Quota, unknown).explained(), unknown);
    }

    // spec: A-21
    #[test]
    fn a_missing_permission_is_named_with_its_user_and_the_rule_that_grants_it() {
        let said = "403 Forbidden: pods is forbidden: User \"u\" cannot create resource \"pods\" \
                    in API group \"\" in the namespace \"jobs\"";
        assert_eq!(
            &*failure(FailureKind::Rights, said).explained(),
            "u may not create pods in namespace jobs; the rule that would allow it: \
             {apiGroups: [\"\"], resources: [\"pods\"], verbs: [\"create\"]}"
        );
    }

    // spec: A-23
    #[test]
    fn each_field_that_was_refused_is_named_and_an_admission_plugin_is_quoted() {
        let cause = |field: &str, message: &str| Cause {
            field: field.into(),
            reason: "".into(),
            message: message.into(),
        };
        let refused = Failure {
            causes: vec![
                cause("spec.a", "Required value"),
                cause("spec.b", "Invalid"),
                cause("", "?"),
            ],
            ..failure(FailureKind::Invalid, "Pod is invalid")
        };
        assert_eq!(
            &*refused.explained(),
            "spec.a: Required value; spec.b: Invalid"
        );
        let webhook = "400: admission webhook \"w\" denied the request: not on a Friday";
        assert_eq!(
            &*failure(FailureKind::Admission, webhook).explained(),
            webhook
        );
    }
}
