//! A2A over HTTP: JSON-RPC and HTTP+JSON, both with server-sent events, gRPC, and agent cards.

mod ask;
pub(crate) mod card;
pub(crate) mod grpc;
pub(crate) mod jsonrpc;
pub(crate) mod parameters;
pub(crate) mod rest;
pub(crate) mod schemas;
pub(crate) mod status;
