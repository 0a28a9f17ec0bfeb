//! The replicated state of a group: pure, driven by the entries of its log, the same on every member.

pub mod agents;
pub mod assignment;
pub mod frame_log;
pub mod group;
pub mod majority;
pub mod members;
pub mod outcome;
pub mod placement;
pub mod proposals;
pub mod read_scope;
pub mod replacement;
pub mod route;
pub mod rows;
pub mod sessions;
pub mod shares;
mod shown_logs;
pub mod successor;
pub mod values;
pub mod work;
pub mod workflow;
