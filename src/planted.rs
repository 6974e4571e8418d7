//! Faults of the driver's own that the simulator plants, to see that it finds them (`tests/sim/planted.rs`).
//!
//! Each is asked for at the one or two places that it spoils. Without the feature `planted-faults`, which only tests
//! have, the answer is a constant, and nothing of this is in the program.

/// Declares the faults, and the list of all of them.
macro_rules! faults {
    ($(#[doc = $what:literal] $name:ident,)*) => {
        /// A fault that can be planted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Planted {
            $(#[doc = $what] $name,)*
        }

        impl Planted {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// What is wrong then.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what.trim_ascii(),)*
                }
            }
        }
    };
}

faults! {
    /// News of a pod is taken in whatever its resource version (spec S-10).
    VersionGuardDropped,
    /// A request whose outcome is unknown is taken for refused (spec A-13).
    OutcomeForgotten,
    /// A 504 is taken for a refusal (spec A-13).
    TimeoutIsRefusal,
    /// An unknown request is looked up, and given up, while it may still commit (spec A-14).
    LookedUpTooSoon,
    /// A look-up without an answer is taken for one that found nothing (spec E-10).
    SilenceIsAnswer,
    /// A request is made before its entry is in the ledger (spec A-11).
    RequestUnrecorded,
    /// A request that failed goes on to count as being in flight (spec A-6).
    SlotLeaked,
    /// An executor that is being deleted counts as live (spec E-6).
    TerminatingCounts,
    /// An executor that was chosen to go counts as live (spec E-6).
    LeavingCounts,
    /// That an end was reported is not remembered (spec L-1).
    ReportedTwice,
    /// Merging waiting changes keeps only those of the latest snapshot (spec S-23).
    MergedEndLost,
    /// The watch passes over deletions (spec W-1).
    DeletedIgnored,
    /// A 410 ends the watch for good (spec W-2).
    WatchLeftClosed,
    /// A list older than what is known is taken for a full one (spec S-11).
    StaleListBelieved,
    /// A list's further pages are not fetched (spec P-1).
    PagesDropped,
    /// What was known before a restore is believed for ever (spec S-13).
    HistoryBelievedForEver,
    /// What a full list lacks is taken for gone without a look-up (spec S-12).
    AbsentIsGone,
    /// An executor that has left the ledger leaves no tombstone (spec S-14).
    TombstonesOmitted,
    /// Tombstones are never forgotten, so that a restored server's executors stay buried (spec S-13, S-14).
    TombstonesForEver,
    /// A pod of an executor that has ended is adopted (spec E-9).
    EndedResurrected,
    /// Orphan pods are not deleted (spec E-3).
    OrphansSpared,
    /// Deletes do not say which pod they mean (spec L-11).
    DeleteWithoutUid,
    /// Ended executors' pods are neither deleted nor labelled (spec L-2).
    DeadLeftLying,
    /// A request of unknown outcome is never looked up (spec A-14, L-14).
    UnknownNeverSettled,
    /// A successor begins its ids after those that it finds (spec O-31).
    IdsReused,
    /// An executor that was adopted is chosen to go, wanted or not (spec ).
    AdoptedChosen,
    /// What the record knows and the first list lacks is not reported (spec L-1).
    LossUnreported,
    /// A younger driver's number in the record is overlooked (spec W-7).
    SupersededGoesOn,
    /// A record that is gone is not made anew (spec K-2).
    RecordNotRemade,
    /// A hand-over ends the application (spec O-10).
    HandOverEnds,
    /// A profile that backs off does so for ever (spec A-30).
    BackoffForEver,
    /// A profile whose requests were refused is never tried again (spec A-21).
    HoldForEver,
    /// A claim that an executor has is given to another one (spec A-60).
    ClaimGivenTwice,
    /// The ConfigMap that executors mount is neither made nor looked after (spec K-8).
    ConfigMapForgotten,
    /// New executors avoid every node on which enough have failed, and so in the end all of them (spec L-32).
    EveryNodeAvoided,
    /// However many executors fail, the application goes on (spec L-30).
    BudgetUnlimited,
    /// What is no failure counts as one, a disruption too (spec L-30).
    DisruptionsCounted,
    /// An executor that waits to run does so for ever (spec ).
    WaitedForEver,
    /// A record that is made anew is not given the living (spec K-2).
    LivingNotGiven,
    /// A pod that a set has made is given the lowest id that nobody has now (spec A-80, I-1).
    NumberReused,
    /// Sets are looked at once, and what others do to them is not seen (spec A-80).
    SetsLookedAtOnce,
    /// A set's pod in the first list of which nobody can read who it is keeps nobody waiting (spec S-15, A-80).
    UnreadPassedOver,
}

#[cfg(feature = "planted-faults")]
mod choice {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static CHOSEN: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Plants a fault in every driver of this thread, in place of the one before; or none.
    pub fn plant(fault: Option<Planted>) {
        CHOSEN.set(fault);
    }

    /// Whether this fault is planted.
    pub fn is(fault: Planted) -> bool {
        CHOSEN.get() == Some(fault)
    }
}

#[cfg(feature = "planted-faults")]
pub use self::choice::{is, plant};

/// Whether this fault is planted: never.
#[cfg(not(feature = "planted-faults"))]
pub const fn is(_: Planted) -> bool {
    false
}
