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
pub mod binding;
mod context;
mod control;
pub mod cost_budget;
pub mod definition;
mod echo;
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
pub mod secrets;
mod sse;
mod syscalls;
pub mod tools;

pub use agent::{Agent, AgentError, AgentState, Output, Outputs, Turn};
pub use control::Control;
pub use echo::Echo;
pub use hard::HardStatus;
pub use host::{
    AgentStatus, Binding, Builtins, Connect, Host, Loaded, Ports, Scheduling, SoftRuntime, StartError, TurnStatus,
};
pub use syscalls::SystemCalls;
