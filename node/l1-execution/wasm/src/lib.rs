//! WebAssembly agents, in wasmtime.
//!
//! **Inputs**: modules, contracts, what turns and jobs are given. **Outputs**: what guests make of it.
//!
//! **Invariants**: a guest reaches nothing but what it is handed here; it is held to its memory and stopped when its
//! budget is used up; a guest that failed is dropped, never resumed.
//!
//! **Never knows**: who asks, other nodes, disks.

mod compiled;
mod component;
mod hrt;
mod soft;

pub use hrt::{Hard, MODULE_BYTES_MAX, ModuleError};
pub use soft::{Soft, make_hard};
