//! The node as an MCP server: the agents of the mesh are tools, over streamable HTTP at `/mcp`; and the
//! bridge by which clients over standard input and output reach it.
//!
//! **Inputs**: MCP requests that passed the gateway's guard. **Outputs**: lists of tools, and answers of agents.
//!
//! **Invariants**: each call is a `CallRequest` of the gateway's principal, as those of every other face; at any time
//! a tool's name leads to one agent and skill or to none; sessions, bodies, lists and waits are bounded.
//!
//! **Never knows**: frames, tokens, how an agent runs.

mod answer;
mod batch;
mod bridge;
mod call;
mod exposed;
mod failed;
mod http;
mod late;
mod params;
mod relay;
mod result;
mod server;
mod sessions;
mod tools;
mod view;

pub use bridge::{BridgeError, bridge};
pub use http::routes;

/// Results of a search that a list of the whole mesh is made of.
pub(crate) const AGENTS_MAX: usize = althing_discovery::machine::query::RESULTS_MAX;
/// Tools for skills in one page of a list, and in a list of this node's agents.
pub(crate) const PAGE: usize = 64;
