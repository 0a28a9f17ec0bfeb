//! One node of all layers. The composition root of every program that is a node: it opens nothing itself. Network, store,
//! clock, randomness, what runs agents and the owner's keys are handed in ([`Ports`]), so that the program that runs on a
//! machine and the one that simulates thousands start the same layers in the same way.
//!
//! **Inputs**: [`Ports`] and a [`NodeConfig`]; agent files, trust, reservations. **Outputs**: a running [`Node`], whose parts
//! faces use; what peers are told.
//!
//! **Invariants**: what an agent was given, its description, its tools, stays what its owner agreed to; what is signed for
//! the node ends with what the owner has taken back.
//!
//! **Never knows**: HTTP, the command line, the configuration file, exit codes.

mod agents;
mod assemble;
mod bindings;
mod config;
pub mod doctor;
mod error;
mod introduce;
mod keys;
pub mod network_key;
mod node;
pub mod owner;
pub mod publish;
mod secrets;

pub use assemble::{Execution, LanPort, Ports};
pub use config::{NodeConfig, Policies, Things};
pub use error::{Kind, NodeError, PolicyError};
pub use introduce::{IntroductionPaths, Introductions};
pub use node::{FAMILIES, Node, TRUSTED};
pub use owner::{Owner, OwnerError};
pub use secrets::{SECRET_BYTES_MAX, SecretError, Secrets};
