//! What every HTTP face shares: access control, limits of connections, and request bodies that are bounded in bytes and
//! time.
//!
//! **Inputs**: connections and requests. **Outputs**: requests that passed, bodies, refusals in the shape of A2A's REST errors.
//!
//! **Invariants**: Host, Origin and token are checked before a body is read; every body, connection and wait is bounded, and
//! so are all bodies together.
//!
//! **Never knows**: agents, calls, what a body means.

mod access;
mod activity;
mod base;
mod body;
mod cross;
mod gate;
mod guard;
mod oauth;
mod origins;
mod peer;
mod refusal;
mod room;
mod serve;
mod standing;
mod tls;
mod users;

pub use access::Access;
pub use base::{Base, BaseError, OriginError, origin_of};
pub use body::{BodyError, is_json, read_body};
pub use guard::{Guard, Needs, Outside, at_own_names, authenticate, host, host_and_origin, lacking, outside, problem};
pub use oauth::{Clock, Issuer, IssuerConfig, METADATA, Publications};
pub use origins::{Origins, Place};
pub use peer::Peer;
pub use serve::{Limits, serve, serve_tls};
pub use standing::Standing;
pub use tls::{Tls, TlsError, TlsFiles};
pub use users::{Identity, NoScope, Scope, User, Users};
