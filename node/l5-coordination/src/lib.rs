//! L5, coordination: groups of nodes that agree on one state.
//!
//! **Inputs**: signed batches of commands of members and owners, the messages of other members, the time of day.
//! **Outputs**: what became of each command, the group's state, who leads.
//!
//! **Invariants**: a command takes effect only as an entry of the group's log that a majority of its voters has on disk, and
//! only after its author's signature was verified by the member that applies it, except for values and tasks that come by a
//! snapshot, in which the sender is believed; who belongs to a group changes only by
//! the signatures of as many owners as its charter says; what was acknowledged is never lost.
//!
//! **Never knows**: A2A, how agents run, HTTP. openraft's types stay in [`consensus`].

pub mod consensus;
pub mod error;
pub mod machine;
pub mod service;
pub mod ticket;

pub use consensus::{RAFT_LOG, RAFT_SNAPSHOTS, RAFT_STATE, ReplicaConfig, Role, Status};
pub use error::GroupError;
pub use service::deploy::{Deployed, GroupAgents};
pub use service::owners::{self, Change, Invited, Owners, Signed, Waiting};
pub use service::work::{Again, Answering, Assigned, Report, WorkFailure, Worker};
pub use service::{
    GROUPS, GroupChanges, Groups, GroupsConfig, Overview, OwnerNow, PART_BYTES, Ports, Proofs, RAFT_LIMITS,
    RESULT_BYTES_MAX, RESULTS, RaftService, Reader, WeakGroups, content, lacks_majority, promptly,
};
pub use ticket::{Contact, Ticket};

/// Stream protocol of groups.
pub const RAFT: &str = "/althing/raft/1";
