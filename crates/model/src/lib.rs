//! The values of boatswain's driver, and the decisions of its ledger: pure functions, without I/O, clock or actors.

#![forbid(unsafe_code)]

pub mod claims;
pub mod clock;
pub mod delivery;
pub mod entries;
pub mod executor;
pub mod exit_code;
pub mod failures;
pub mod ids;
pub mod intervals;
pub mod ledger;
pub mod made;
pub mod news;
pub mod node;
pub mod planted;
pub mod pod;
pub mod pool;
pub mod quantity;
pub mod reason;
pub mod reasoning;
pub mod recorded_end;
pub mod serial;
pub mod snapshot;
pub mod table;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
pub mod text;
pub mod version;

pub use clock::{Now, Tick};
pub use entries::Entries;
pub use executor::{Entry, Leaving, State};
pub use ids::{AppId, Epoch, ExecutorId, Incarnation, PodUid, ProfileName};
pub use intervals::IdSet;
pub use pod::{Pod, PodState};
pub use reason::{LossClass, LossReason};
pub use serial::Serial;
pub use snapshot::{Batch, Ending, Snapshot};
pub use version::ResourceVersion;
