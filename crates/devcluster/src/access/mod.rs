//! Authentication and authorization of requests.

pub(crate) mod account;
pub(crate) mod attributes;
pub(crate) mod auth;
pub(crate) mod review;
pub(crate) mod rights;
pub(crate) mod roles;
pub(crate) mod signing;
