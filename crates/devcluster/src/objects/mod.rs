//! The stored kinds, and the representation of one object.

pub(crate) mod bindings;
pub(crate) mod budgets;
pub(crate) mod depth;
pub(crate) mod events;
pub(crate) mod ids;
pub(crate) mod kinds;
pub(crate) mod label_selector;
pub(crate) mod messages;
pub(crate) mod object;
pub(crate) mod pod;
pub(crate) mod quantities;
pub(crate) mod quantity;
pub(crate) mod resource;
pub(crate) mod schema;
pub(crate) mod selector;
pub(crate) mod taints;
pub(crate) mod workloads;
