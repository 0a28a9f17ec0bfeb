//! L1: the runtimes that agents run on.
//!
//! **Inputs**: what an agent file says of its runtime; turns (one message of a task each). **Outputs**: artifacts,
//! messages and states as the agent makes them.
//!
//! **Invariants**: a turn that is dropped stops; an agent's program dies with the node, and its children with it;
//! outputs wait until they are taken.
//!
//! **Never knows**: who asks, other nodes, where tasks are kept.

pub mod admission;
pub mod agent;
pub mod agents;
pub mod allowance;
pub mod binding;
mod control;
pub mod definition;
mod echo;
mod error;
mod hard;
mod host;
pub mod hrt;
pub mod http;
pub mod kernel;
mod known;
pub mod memory;
pub mod model;
mod ports;
pub mod process;
pub mod realtime;
mod sse;
mod syscalls;
pub mod tools;

pub use agent::{Agent, Output, Outputs, Turn};
pub use control::Control;
pub use echo::Echo;
pub use error::{AgentError, StartError};
pub use hard::HardStatus;
pub use host::{
    AgentState, AgentStatus, Binding, Builtins, Connect, Host, Loaded, Ports, Scheduling, SoftRuntime, TurnStatus,
};
pub use syscalls::SystemCalls;
