//! Work that goes from one agent to another by a signed handoff (SPEC P-206 to P-208): what this node's agents were offered, and
//! what they gave away. Both ends decide in [`crate::machine::handoff`]; here they read clocks, write rows, sign and send.

mod asking;
mod begin;
mod draft;
mod error;
mod offering;
mod relay;
mod relays;
mod rows;
mod service;
mod state;
mod taking;
mod way;
mod wire;

pub use draft::DraftWords;
pub use error::HandoffError;
pub use offering::{HandoffProgress, HandoffState};
pub(super) use relay::run;
pub(super) use relays::{Relay, Relays};
pub use rows::{HANDOFFS_IN, HANDOFFS_OUT};
pub use service::{HandoffGiver, HandoffService};
pub(crate) use state::Handoffs;
pub use way::{HandoffCall, HandoffWay};
pub use wire::{HANDOFF_EXTENSION, is_handoff};
