//! What owners ordered, on this node: kept, told to peers and heard from them, and asked before anything runs.

mod gossip;
mod ledger;
mod news_queue;
mod policy_sets;
mod port;
mod rates;
mod service;

pub use ledger::{ORDERS, ORDERS_PROTOCOL, OrderReport, Orders};
pub use policy_sets::{NodePolicySet, PolicySetStanding};
pub use port::{FOLLOWED, PolicySets};
pub(crate) use service::serve;
