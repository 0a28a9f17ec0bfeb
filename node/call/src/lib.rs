//! What a call is: the operation with its parameters, on whose behalf it is made, who may have which agent and what is asked
//! of whoever decides on that, its trace, its reply, and why it is refused. It stands above L1 to L3, whose words it uses, and below L4 and everything that makes or
//! answers calls.
//!
//! **Inputs**: an operation's JSON as received, principals as written, a peer's error. **Outputs**: the same as types, each
//! checked once, or an [`OperationError`] of A2A's table.
//!
//! **Invariants**: bytes are passed on as they were received; a principal is written as it was read; an agent's error is never
//! one of this project's refusals.
//!
//! **Never knows**: which node is called, tasks on disk, HTTP, JSON-RPC envelopes.

pub mod chain;
mod decide;
mod error;
mod operation;
mod params;
mod redirect;
pub mod relation;
mod request;
mod rpc_code;
mod target;
mod trace;
pub mod traced;

pub use chain::{Principal, is_user_name};
pub use decide::{Consent, Decide, Decision, IncomingRequest, Judgement, MessageContent, OutgoingRequest, Service};
pub use error::{OperationError, Refusal};
pub use operation::Operation;
pub use params::Params;
pub use redirect::Redirect;
pub use request::{CallMetadata, CallRequest, OperationRequest, Reply};
pub use rpc_code::RpcCode;
pub use target::{AllowedAgents, Asker, Callee, Purpose, Target, TargetChoice};
pub use trace::Trace;
