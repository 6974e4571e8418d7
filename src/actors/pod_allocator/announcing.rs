//! What of the allocator's sayings lasts, and so is worth an event on the driver's pod (spec O-45).

use super::decision::Saying;
use super::hold::Kind;
use crate::actors::event_recorder::events::Note;

/// The note that goes with a saying, where one does.
pub fn note(saying: &Saying) -> Option<Note> {
    let of = |reason, about: &str, text: String, warning| {
        Some(Note {
            reason,
            about: about.to_owned(),
            text,
            warning,
        })
    };
    match saying {
        Saying::HoldBegan {
            profile, kind, why, ..
        } => {
            let reason = match kind {
                Kind::Quota => "QuotaExceeded",
                Kind::Blocked => "TemplateRefused",
                Kind::Rights => "RightMissing",
                Kind::Credentials => "CredentialsRefused",
                Kind::Namespace => "NamespaceUnusable",
            };
            of(
                reason,
                profile.as_str(),
                format!("profile {profile}: {why}"),
                true,
            )
        }
        Saying::BackoffBegan { profile, .. } => {
            let text = format!("executors of profile {profile} end early, again and again");
            of("CrashLoop", profile.as_str(), text, true)
        }
        Saying::BackoffEnded { profile, .. } => {
            let text = format!("an executor of profile {profile} stayed: all are requested again");
            of("CrashLoopOver", profile.as_str(), text, false)
        }
        Saying::Spent { why } => of("FailureBudgetSpent", "", why.to_string(), true),
        Saying::Enough { made } => {
            let text = format!("the application has had {made} executors, as many as it may");
            of("ExecutorsUsedUp", "", text, true)
        }
        Saying::GangMissed {
            profile,
            least,
            there,
            ..
        } => {
            let text = format!(
                "{there} of profile {profile} came in time, and fewer than {least} are of no use: those that wait go"
            );
            of("GangMissed", profile.as_str(), text, true)
        }
        Saying::GangOver { profile, .. } => {
            let text = format!(
                "enough executors of profile {profile} are there, or nobody wants them any more"
            );
            of("GangOver", profile.as_str(), text, false)
        }
        Saying::HoldEnded { .. }
        | Saying::Degraded { .. }
        | Saying::Recovered { .. }
        | Saying::Fatal { .. }
        | Saying::OutOfIds => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // spec: O-45
    #[test]
    fn what_lasts_is_announced_and_what_passes_is_not() {
        let profile = || "gpu".into();
        let wait = Duration::ZERO;
        let held = |kind| Saying::HoldBegan {
            profile: profile(),
            kind,
            why: "quota q is used up".into(),
            wait,
        };
        let reason = |saying: &Saying| note(saying).map(|note| note.reason);
        assert_eq!(reason(&held(Kind::Quota)), Some("QuotaExceeded"));
        assert_eq!(reason(&held(Kind::Blocked)), Some("TemplateRefused"));
        let began = Saying::BackoffBegan {
            profile: profile(),
            wait,
        };
        assert_eq!(reason(&began), Some("CrashLoop"));
        let spent = Saying::Spent {
            why: "5 failures".into(),
        };
        assert_eq!(
            note(&spent).map(|note| (note.reason, note.text)),
            Some(("FailureBudgetSpent", "5 failures".to_owned()))
        );
        let missed = Saying::GangMissed {
            profile: profile(),
            least: 4,
            there: 3,
            wait,
        };
        assert_eq!(reason(&missed), Some("GangMissed"));
        let passing = Saying::Degraded { why: "503".into() };
        assert_eq!(note(&passing), None);
        assert_eq!(
            note(&held(Kind::Quota)).map(|note| note.text),
            Some("profile gpu: quota q is used up".to_owned())
        );
    }
}
