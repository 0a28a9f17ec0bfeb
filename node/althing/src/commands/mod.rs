//! The commands: each asks the node and prints the result.

pub mod agent;
pub mod bind;
pub mod call;
pub mod contract;
pub mod doctor;
pub mod find;
pub mod group;
pub mod key;
pub mod memory;
pub mod network_key;
mod panes;
pub mod reserve;
pub mod secret;
pub mod show;
pub mod task;
mod task_sets;
pub mod top;
pub mod trust;
pub mod up;

pub use althing_client::{Out, plain, print_line, rows, table, text};
pub use althing_node::doctor::short;
