//! What is operated on a running node: registries that it follows, what groups give it to do and place on it, diagnosis, what is
//! elsewhere and adopted, what waits for people, whom sentences are for, and whether agents answer what is right.
//!
//! **Inputs**: the ports of a node and an [`OperationsConfig`]; what registries, groups and others' servers say.
//! **Outputs**: [`Operations`], the node and what is operated on it, which the owner's API serves.
//!
//! **Invariants**: what a registry says is believed as far as publishers signed it and its log proves it; a group's task is done
//! in the name of whom it is done for; what is adopted is what its owner looked at.
//!
//! **Never knows**: HTTP faces, the command line, the configuration file, exit codes; how the layers are assembled.

mod adopt;
pub mod blueprints;
mod collector;
mod config;
pub mod doctor;
pub mod governance;
mod group_agents;
mod group_orders;
mod group_work;
pub mod groups;
pub mod network_key;
mod operations;
mod owner_files;
pub mod registries;
mod routing;
mod secrets;
mod token_records;
mod tokens;
mod trials;
mod updates;
mod uploads;

pub use adopt::{
    AdoptError, Adoption, Change, Draft, Offer, adopted, changes, drop_environment, keep_environment, kept_environment,
};
pub use althing_verification::machine::{evidence as test_evidence, report as test_report};
pub use collector::{Collector, CollectorNews, CollectorTrouble};
pub use config::{Embeddings, OperationsConfig};
pub use group_orders::GroupOrders;
pub use group_work::answer_text;
pub use operations::{FAMILIES, Operations};
pub use owner_files::OwnerFiles;
pub use routing::{
    ChannelNeed, Choice, Embedded, EmbeddingsError, EvalReport, LearnedRoutes, NodeRouter, Resolved, RouteMode, Routed,
    RouterAgent, RoutingError,
};
pub use secrets::{SECRET_BYTES_MAX, SecretError, Secrets};
pub use token_records::TokenRecords;
pub use tokens::{TokenEntries, TokenEntry, TokenError, TokenFile, TokenStamp, token_digest};
pub use trials::{
    AgentTests, CompareOrder, JudgeAgreements, RecordedTasks, TEST_RUNS_MAX, TaskCase, TaskReplay, TestError, TestOrder,
};
pub use uploads::{UploadError, UploadFolder, forget as forget_upload};

#[cfg(test)]
mod tests;
