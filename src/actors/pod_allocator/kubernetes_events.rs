//! The Kubernetes Events for the allocator's notices: only lasting conditions get one (spec O-45).

use super::decision::Notice;
use super::notices::TWICE;
use super::refusal::RefusalKind;
use crate::event_recorder::events::Note;
use crate::model::quantity::memory_text;

pub fn note(notice: &Notice) -> Option<Note> {
    let of = |reason, about: &str, text: String, warning| {
        Some(Note {
            reason,
            about: about.to_owned(),
            text,
            warning,
        })
    };
    match notice {
        Notice::RefusalBegan {
            profile, kind, why, ..
        } => {
            let text = format!("profile {profile}: {why}");
            of(of_refusal(*kind), profile.as_str(), text, true)
        }
        Notice::BackoffBegan { profile, why, .. } => {
            let text = format!("profile {profile}: {why}");
            of("CrashLoop", profile.as_str(), text, true)
        }
        Notice::BackoffEnded { profile, .. } => {
            let text = format!("an executor of profile {profile} stayed: all are requested again");
            of("CrashLoopOver", profile.as_str(), text, false)
        }
        Notice::Spent { why } => of("FailureBudgetSpent", "", why.to_string(), true),
        Notice::Grown { profile, limit } => {
            let limit = memory_text(*limit);
            let text = format!(
                "executors of profile {profile} ran out of memory: new ones may use {limit}"
            );
            of("MemoryGrown", profile.as_str(), text, true)
        }
        Notice::ProfileFailed { profile, why } => {
            let text = format!("profile {profile} has failed: {why}");
            of("ProfileFailed", profile.as_str(), text, true)
        }
        Notice::Enough { made } => {
            let text = format!("the application has had {made} executors, as many as it may");
            of("ExecutorsUsedUp", "", text, true)
        }
        Notice::GangMissed {
            profile,
            least,
            there,
            ..
        } => {
            let text = format!(
                "{there} of profile {profile} came in time, and fewer than {least} are of no use: they make room"
            );
            of("GangMissed", profile.as_str(), text, true)
        }
        Notice::GangOver { profile, .. } => {
            let text = format!(
                "enough executors of profile {profile} are there, or nobody wants them any more"
            );
            of("GangOver", profile.as_str(), text, false)
        }
        Notice::Queued { profile, why } => {
            let text = format!("executors of profile {profile} wait for their queue: {why}");
            of("Queued", profile.as_str(), text, false)
        }
        Notice::QueueTrouble { why } => of("QueueUnusable", "", why.to_string(), true),
        Notice::QueuedTwice { queue } => {
            let text =
                format!("Kueue has queued pods once more, in the LocalQueue {queue}: {TWICE}");
            of("QueuedTwice", "", text, true)
        }
        Notice::Restarted(..)
        | Notice::RefusalEnded { .. }
        | Notice::Admitted { .. }
        | Notice::QueueWorks { .. }
        | Notice::Degraded { .. }
        | Notice::Recovered { .. }
        | Notice::Claims(_)
        | Notice::Fatal { .. }
        | Notice::OutOfIds => None,
    }
}

fn of_refusal(kind: RefusalKind) -> &'static str {
    match kind {
        RefusalKind::Quota => "QuotaExceeded",
        RefusalKind::Blocked => "TemplateRefused",
        RefusalKind::Rights => "RightMissing",
        RefusalKind::Credentials => "CredentialsRefused",
        RefusalKind::Namespace => "NamespaceUnusable",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    // spec: O-45
    #[test]
    fn lasting_conditions_are_recorded_as_events_and_passing_ones_are_not() {
        let profile = || "gpu".into();
        let wait = Duration::ZERO;
        let held = |kind| Notice::RefusalBegan {
            profile: profile(),
            kind,
            why: "quota q is used up".into(),
            wait,
        };
        let reason = |notice: &Notice| note(notice).map(|note| note.reason);
        assert_eq!(reason(&held(RefusalKind::Quota)), Some("QuotaExceeded"));
        assert_eq!(reason(&held(RefusalKind::Blocked)), Some("TemplateRefused"));
        let began = Notice::BackoffBegan {
            profile: profile(),
            why: "executors end early".into(),
            wait,
        };
        assert_eq!(reason(&began), Some("CrashLoop"));
        let spent = Notice::Spent {
            why: "5 failures".into(),
        };
        assert_eq!(
            note(&spent).map(|note| (note.reason, note.text)),
            Some(("FailureBudgetSpent", "5 failures".to_owned()))
        );
        let grown = Notice::Grown {
            profile: profile(),
            limit: 96 << 20,
        };
        let grown = note(&grown).unwrap();
        assert_eq!(grown.reason, "MemoryGrown");
        assert!(
            grown.text.ends_with("new ones may use 96Mi"),
            "{}",
            grown.text
        );
        let failed = Notice::ProfileFailed {
            profile: profile(),
            why: "5 failures".into(),
        };
        assert_eq!(
            note(&failed).map(|note| (note.reason, note.text)),
            Some((
                "ProfileFailed",
                "profile gpu has failed: 5 failures".to_owned()
            ))
        );
        let missed = Notice::GangMissed {
            profile: profile(),
            least: 4,
            there: 3,
            wait,
        };
        assert_eq!(reason(&missed), Some("GangMissed"));
        let passing = Notice::Degraded { why: "503".into() };
        assert_eq!(note(&passing), None);
        assert_eq!(
            note(&held(RefusalKind::Quota)).map(|note| note.text),
            Some("profile gpu: quota q is used up".to_owned())
        );
    }
}
