//! How a program that has no network of its own reaches the hosts that its agent file names, and asks them with secrets
//! that it never has.
//!
//! **Input**: listeners that only the program reaches, or a login that only it has; what its agent file names, the guarded
//! fetch. **Output**: what the hosts answer, and an [`Event`] and a span (`egress`) for each connection.
//!
//! A *proxy* ([`Egress::serve`]) serves `CONNECT` and requests of the form `GET http://HOST/PATH`, to the hosts of
//! [`Rules`]. A *local address* ([`Egress::serve_host`]) is one host: what the program asks there by plain HTTP, the
//! node asks the host by TLS, with headers that hold secrets ([`Target`]).
//!
//! **Invariants**
//! - Whoever has no [`Login`] where one is asked for is answered nothing else, and reaches nothing.
//! - A host that the agent file does not name is not even looked up, and neither is one that [`Admission`] does not admit.
//! - A host leads where a stranger's URL may lead, by the guarded fetch: to what the internet routes and to the
//!   operator's exceptions, on ports of no other protocol. The address that was checked is the one that is connected
//!   to.
//! - Nobody's TLS is broken open: of a tunnel the node sees the host, the port and how many bytes pass.
//! - A secret is in no header that passes to the program, and its bytes are replaced in bodies, wherever their chunks
//!   end. A host that is asked with one is asked for plain bodies, and for whole ones; a body that it compresses or encodes
//!   nevertheless is not passed on. What hides a secret without saying so (base64, another alphabet) is not found: a secret is
//!   given only to hosts that the owner trusts with it. No event, span, error or line of the log has it.
//! - Streams pass as they come, in both directions. Redirects are the program's to follow.
//! - Connections, heads, bodies and times are bounded ([`Bounds`]).
//!
//! **Never knows**: agents, contracts, where secrets are kept.

mod admission;
mod answers;
mod egress;
mod forward;
mod local;
mod machine;
mod proxy;
mod secret;
mod serve;
mod target;
mod told;
mod traffic;
mod tunnel;

pub use admission::{Admission, Attempt};
pub use egress::{Bounds, Egress};
pub use machine::login::Login;
pub use machine::rules::{RULES_MAX, RuleError, Rules, Verdict, place};
pub use secret::{NoHeaderValue, SecretValue};
pub use target::{Scheme, Target, TargetError};
pub use told::{Event, Outcome, Told, Traces};
