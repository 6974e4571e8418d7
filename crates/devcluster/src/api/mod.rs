//! The HTTP API: parses requests and writes responses.

pub(crate) mod accept;
pub(crate) mod body;
pub(crate) mod call;
pub(crate) mod cause;
pub(crate) mod decode;
pub(crate) mod discovery;
pub(crate) mod list;
pub(crate) mod listen;
pub(crate) mod logs;
pub(crate) mod openapi;
pub(crate) mod page;
pub(crate) mod path;
pub(crate) mod protobuf;
pub(crate) mod query;
pub(crate) mod reads;
pub(crate) mod router;
pub(crate) mod serve;
pub(crate) mod status;
pub(crate) mod table;
pub(crate) mod tls;
pub(crate) mod token;
pub(crate) mod view;
pub(crate) mod watch;
pub(crate) mod websocket;
