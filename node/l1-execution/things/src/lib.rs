//! Things of the Web of Things as servers of tools: each affordance of a Thing Description that this node can use over HTTP is
//! a tool. `machine` decides which these are, what is sent, and what the answer means; the other files ask over HTTP, through
//! the guarded fetch.
//!
//! **Invariants**
//! - A request goes to the origin of the description, or to one that the owner named; never where a redirect leads, nor where
//!   the name leads by now if that is another kind of place than when the Thing was adopted.
//! - A secret is sent as the description's security says, over https or on this machine only, and is in no answer.
//! - While a Thing shows another description than the one that was agreed to, nothing is sent to it.

mod look;
mod machine;
mod recognise;
mod server;
mod signing;

pub use look::{LookError, Seen, Web, look};
pub use machine::directory::{ENTRIES_MAX, Entry, Omissions};
pub use machine::plan::{Affordance, Plan, TOOLS_MAX, Terms, plan};
pub use recognise::{Found, Unrecognised, recognise};
pub use server::ThingServer;
pub use signing::CardSignature;
