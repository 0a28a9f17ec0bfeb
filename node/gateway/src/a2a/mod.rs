//! A2A over HTTP: JSON-RPC with server-sent events, and agent cards.

pub(crate) mod card;
pub(crate) mod jsonrpc;
