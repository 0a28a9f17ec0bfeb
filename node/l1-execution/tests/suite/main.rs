//! Agents and models as their host runs them, with real programs and endpoints.

mod checkpoints;
mod cost_budget;
mod elsewhere;
mod journal;
mod memory;
mod memory_index;
mod model;
mod notes;
mod output_gates;
mod pins;
mod process;
mod proxy;
mod restarts;
mod tool_gate;
mod warnings;
