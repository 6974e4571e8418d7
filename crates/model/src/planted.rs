//! Mistakes compiled into the driver that the simulator must find (`tests/sim/planted.rs`).
//!
//! The code queries each fault in the one or two places that it changes. Without the feature `planted-faults`, which
//! only tests enable, the answer is a constant, so the program contains no fault.

/// Declares the faults, with their doc comments as their descriptions.
macro_rules! faults {
    ($(#[doc = $what:literal] $name:ident,)*) => {
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Planted {
            $(#[doc = $what] $name,)*
        }

        impl Planted {
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The fault's description.
            pub fn what(self) -> &'static str {
                match self {
                    $(Self::$name => $what.trim_ascii(),)*
                }
            }
        }
    };
}

faults! {
    /// News of a pod is accepted whatever its resource version (spec S-10).
    VersionGuardDropped,
    /// A request whose outcome is unknown is treated as refused (spec A-13).
    OutcomeForgotten,
    /// A 504 is treated as a refusal (spec A-13).
    TimeoutIsRefusal,
    /// A request of unknown outcome is looked up, and given up, while it may still commit (spec A-14).
    LookedUpTooSoon,
    /// A look-up without an answer is treated as one that found nothing (spec E-10).
    SilenceIsAnswer,
    /// A request is sent before its entry is in the ledger (spec A-11).
    RequestUnrecorded,
    /// A failed request still counts as in flight (spec A-6).
    SlotLeaked,
    /// An executor that is being deleted counts as live (spec E-6).
    TerminatingCounts,
    /// An executor that is marked as leaving counts as live (spec E-6).
    LeavingCounts,
    /// The ledger does not remember that an end was reported (spec L-1).
    ReportedTwice,
    /// An end is reported before the record contains it (spec L-1).
    ReportedUnrecorded,
    /// Merging waiting changes keeps only those of the latest snapshot (spec S-23).
    MergedEndLost,
    /// The watch ignores deletions (spec W-1).
    DeletedIgnored,
    /// After a 410 the watch is never opened again (spec W-2).
    WatchLeftClosed,
    /// A list older than what is known is treated as full (spec S-11).
    StaleListBelieved,
    /// Only the first page of a list is read (spec P-1).
    PagesDropped,
    /// What was known before a restore of the server stays valid (spec S-13).
    HistoryBelievedForEver,
    /// A pod that a full list lacks is treated as gone without a look-up (spec S-12).
    AbsentIsGone,
    /// A removed entry leaves no tombstone (spec S-14).
    TombstonesOmitted,
    /// Tombstones are never removed, so the pods of a restored server stay ignored (spec S-13, S-14).
    TombstonesForEver,
    /// A pod of an executor that has ended is adopted (spec E-9).
    EndedResurrected,
    /// Orphan pods are not deleted (spec E-16).
    OrphansSpared,
    /// Deletes have no uid as a precondition (spec L-11).
    DeleteWithoutUid,
    /// Pods of ended executors are neither deleted nor labelled (spec L-2).
    DeadLeftLying,
    /// A call about a pod that has failed is not repeated (spec L-11).
    FailedCallsDropped,
    /// A request of unknown outcome is never looked up (spec A-14, L-14).
    UnknownNeverSettled,
    /// A successor's ids follow only those that it finds, whichever are reserved or have ended (spec O-31).
    IdsReused,
    /// Adopted executors are always chosen to terminate (spec ).
    AdoptedChosen,
    /// Executors that leave already still count as surplus, so more are chosen to terminate (spec ).
    SurplusCountedTwice,
    /// The reason of an executor whose pod is gone ignores what the pod's last state showed (spec L-13, L-20).
    LastStateForgotten,
    /// An executor that the record contains and the first list lacks is not reported as lost (spec L-34).
    LossUnreported,
    /// A record that another driver has taken over is treated as our own (spec W-7).
    SupersededGoesOn,
    /// A lost record is not created again (spec K-13).
    RecordNotRemade,
    /// The watch on the record begins from the record's own version, which the server forgets (spec W-10).
    RecordWatchedFromItsVersion,
    /// A hand-over ends the application (spec O-106).
    HandOverEnds,
    /// An end that is requested during the start leaves everything as it is (spec O-107).
    EarlyEndForgotten,
    /// A driver whose pod is drained ends the application, although a successor is started (spec O-66).
    DrainEnds,
    /// A driver whose controller is suspended or scaled to 0 ends the application (spec O-66).
    SuspensionEnds,
    /// A driver whose controller is deleted hands over (spec O-66).
    DeletionHandsOver,
    /// No caller learns that the API server is back (spec W-14).
    OutageEndUnreported,
    /// A profile's backoff never ends (spec A-98).
    BackoffForEver,
    /// A profile whose requests were refused is never tried again (spec A-21).
    RefusedForEver,
    /// A claim that was refused is never tried again (spec A-113).
    RefusedClaimLeft,
    /// A volume claim that an executor uses is given to another one (spec A-60).
    ClaimGivenTwice,
    /// The ConfigMap that executors mount is neither created nor repaired (spec K-8).
    ConfigMapForgotten,
    /// New executors avoid every node with enough failures, and in the end all nodes (spec L-32).
    EveryNodeAvoided,
    /// The application continues however many executors fail (spec L-30).
    BudgetUnlimited,
    /// A profile that fails alone ends the application (spec L-40).
    EveryoneBlamed,
    /// However many executors fall silent at once, each is given up by itself (spec B-58).
    MassLossUndoubted,
    /// Executors whose tokens cannot be verified are given up because they do not register (spec B-13).
    KeysUndoubted,
    /// Ends that are no failures, such as disruptions, count as failures (spec L-30).
    DisruptionsCounted,
    /// The end of an executor whose replacement gets more memory counts as a failure (spec L-43).
    OutgrownCounted,
    /// A successor does not know how far the memory of executors has grown (spec L-43).
    GrowthForgotten,
    /// Running executors that are near their memory limit get no more (spec L-44).
    ResizesForgotten,
    /// Executors that are lost are requested anew, although there are spares (spec A-118).
    SparesKept,
    /// The pod of a spare that was promoted keeps its label, so that its program is held back (spec A-118).
    PromotionsForgotten,
    /// A spare's program is not held back (spec A-117).
    SparesBegin,
    /// An executor may be pending for ever (spec ).
    WaitedForEver,
    /// A record that is created again does not become the owner of the living executors (spec K-13).
    LivingNotGiven,
    /// A pod of a set gets the lowest id that no executor has now (spec A-80, I-1).
    NumberReused,
    /// Sets are read once, so changes by others are not seen (spec A-80).
    SetsLookedAtOnce,
    /// A driver writes however long ago its lease was renewed (spec O-91).
    LeaseNotChecked,
    /// A successor waits until the wall-clock time at which a backoff ends, however far that is (spec A-98).
    BackoffByTheWall,
    /// A pod is an executor by its labels alone, whatever its name (spec E-1).
    NameUnchecked,
    /// A profile in the record is used without a proof (spec O-58).
    ProofUnchecked,
    /// A target in the record is in force even above `max_executors` (spec O-98).
    TargetUnbounded,
    /// The driver's own clock says whether a token is valid (spec O-68).
    OwnClockForTokens,
    /// An executor whose agent found no driver is treated as one that ended by itself (spec L-20, O-123).
    AbandonedIsExit,
    /// Refused credentials are read again only once (spec A-22).
    CredentialsReadOnce,
    /// Executors that live are no evidence against a crash loop (spec A-97).
    EarlyEndsUnweighed,
    /// A profile whose executors all end early never backs off (spec A-97).
    CrashLoopIgnored,
    /// Executors stay on nodes that are about to leave (spec B-71).
    LeavingNodesIgnored,
    /// What is missing of a pool's profile is not requested of the next one (spec B-74).
    PoolsIgnored,
    /// A pool comes back to a profile before executors of it run (spec B-75).
    PoolsReturnUntried,
    /// The pod of an executor without work stays protected (spec L-42).
    IdleProtected,
    /// An executor is silent because of its node, even if that is ready (spec B-73).
    ReadyNodesBlamed,
    /// The API tells of executors before they are adopted, as if there were none (spec B-55).
    ToldBeforeAdoption,
}

#[cfg(feature = "planted-faults")]
mod choice {
    use std::cell::Cell;

    use super::Planted;

    thread_local! {
        static CHOSEN: Cell<Option<Planted>> = const { Cell::new(None) };
    }

    /// Plants a fault in every driver of this thread, in place of the previous one; `None` plants none.
    pub fn plant(fault: Option<Planted>) {
        CHOSEN.set(fault);
    }

    pub fn is(fault: Planted) -> bool {
        CHOSEN.get() == Some(fault)
    }
}

#[cfg(feature = "planted-faults")]
pub use self::choice::{is, plant};

#[cfg(not(feature = "planted-faults"))]
pub const fn is(_: Planted) -> bool {
    false
}
