//! Random steps of a world.

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
pub(super) enum Step {
    Pass(u16),
    Allocate,
    Manage,
    Want(usize, u32),
    /// Answers the request at this position.
    Answer(usize, Fate),
    /// Commits a request whose connection broke.
    CommitLate(usize),
    /// Answers the delete or look-up at this position, or lets it fail.
    Call(usize, bool),
    Run(usize),
    Exit(usize, i32),
    /// Deletes the pod at this position, or ends its deletion.
    Delete(usize),
    /// Delivers this many events.
    Watch(usize),
    List,
    Record(bool),
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Fate {
    Created,
    CreatedButBroke,
    Broke,
    Unreachable,
    Wait,
    Refused(RefusalKind),
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Created),
        2 => Just(Fate::CreatedButBroke),
        2 => Just(Fate::Broke),
        1 => Just(Fate::Unreachable),
        1 => Just(Fate::Wait),
        1 => Just(Fate::Refused(RefusalKind::Quota)),
        1 => Just(Fate::Refused(RefusalKind::Blocked)),
    ]
}

pub(super) fn steps() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (0u16..3_000).prop_map(Step::Pass),
        1 => (3_000u16..30_000).prop_map(Step::Pass),
        6 => Just(Step::Allocate),
        4 => Just(Step::Manage),
        2 => (0usize..3, 0u32..12).prop_map(|(profile, n)| Step::Want(profile, n)),
        8 => (0usize..32, fates()).prop_map(|(place, fate)| Step::Answer(place, fate)),
        2 => (0usize..8).prop_map(Step::CommitLate),
        4 => (0usize..32, any::<bool>()).prop_map(|(place, works)| Step::Call(place, works)),
        4 => (0usize..40).prop_map(Step::Run),
        2 => (0usize..40, 0i32..3).prop_map(|(place, code)| Step::Exit(place, code)),
        3 => (0usize..40).prop_map(Step::Delete),
        6 => (1usize..20).prop_map(Step::Watch),
        1 => Just(Step::List),
        1 => prop::bool::weighted(0.7).prop_map(Step::Record),
    ]
}
