//! What owners ordered, on this node: kept, told to peers and heard from them, and asked before anything runs.

mod gossip;
mod ledger;
mod policy_sets;
mod port;
mod rates;
mod service;

pub use ledger::{FOLLOWED, ORDERS, ORDERS_PROTOCOL, OrderReport, Orders};
pub use policy_sets::{NodePolicySet, PolicySetStanding};
pub use port::PolicySets;
pub(crate) use service::serve;
