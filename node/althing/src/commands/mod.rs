//! The commands: each asks the node and prints the result.

pub mod adopt;
pub mod agent;
mod agreement;
pub mod app;
mod attesting;
pub mod audit;
pub mod bind;
pub mod blueprint;
pub mod call;
pub mod catalog;
pub mod consents;
mod contents;
pub mod contract;
pub mod doctor;
pub mod events;
pub mod find;
pub mod governance;
pub mod group;
mod group_status;
pub mod handoff;
pub mod key;
mod leaving;
pub mod lineage;
pub mod lint;
pub mod logs;
pub mod mcp;
pub mod memory;
mod needs;
mod neighbours;
pub mod network_key;
pub mod org;
mod panes;
pub mod pending;
pub mod people;
pub mod policy;
mod receipts;
pub mod registry;
pub mod reserve;
pub mod rollout;
pub mod route;
pub mod schedule;
pub mod secret;
pub mod session;
pub mod show;
mod staging;
pub mod stop;
pub mod tap;
pub mod task;
mod task_sets;
pub mod token;
pub mod top;
pub mod trace;
pub mod trial;
pub mod trust;
pub mod up;
pub mod verdict;
pub mod verification;
mod waiting;
pub mod workflow;

pub use althing_client::{Out, block, one_line, plain, print_line, print_read, reader_gone, rows, table, text};
pub use althing_operations::doctor::{counted, short};
use serde_json::Value;

/// A time in milliseconds, for people.
pub fn time(ms: &Value) -> String {
    ms.as_u64().map(date_time).unwrap_or_default()
}

/// A time in milliseconds since 1970, for people: the date and the time of day, UTC.
pub fn date_time(ms: u64) -> String {
    let seconds = |at: chrono::DateTime<chrono::Utc>| at.to_rfc3339_opts(chrono::SecondsFormat::Secs, true);
    moment(ms).map(seconds).unwrap_or_default()
}

/// A time in milliseconds since 1970; none if there is no such date.
pub fn moment(ms: u64) -> Option<chrono::DateTime<chrono::Utc>> {
    i64::try_from(ms).ok().and_then(chrono::DateTime::from_timestamp_millis)
}
