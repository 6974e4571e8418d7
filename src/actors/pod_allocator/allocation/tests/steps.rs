//! What can happen in a world, at random.

use proptest::prelude::*;

use super::*;

/// One step of a world.
#[derive(Debug, Clone)]
pub(super) enum Step {
    Pass(u16),
    Allocate,
    Manage,
    Want(usize, u32),
    /// The request in this place is answered so.
    Answer(usize, Fate),
    /// A request that broke is committed after all.
    CommitLate(usize),
    /// The delete or look-up in this place is answered, or fails.
    Call(usize, bool),
    Run(usize),
    Exit(usize, i32),
    /// Somebody deletes the pod in this place, or its node carries a deletion out.
    Delete(usize),
    /// So many events arrive.
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
    Refused(Kind),
}

fn fates() -> impl Strategy<Value = Fate> {
    prop_oneof![
        6 => Just(Fate::Created),
        2 => Just(Fate::CreatedButBroke),
        2 => Just(Fate::Broke),
        1 => Just(Fate::Unreachable),
        1 => Just(Fate::Wait),
        1 => Just(Fate::Refused(Kind::Quota)),
        1 => Just(Fate::Refused(Kind::Blocked)),
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
