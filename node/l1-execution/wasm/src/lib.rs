//! WebAssembly agents, in wasmtime.
//!
//! **Inputs**: modules, contracts, what turns and jobs are given. **Outputs**: what guests make of it.
//!
//! **Invariants**: a guest reaches nothing but what it is handed here; it is held to its memory and stopped when its
//! budget is used up; a guest that failed is dropped, never resumed; what compiles it is held to limits of its own
//! ([`Compiler`]).
//!
//! **Never knows**: who asks, other nodes, disks.

mod compiled;
mod compiler;
mod component;
mod epochs;
mod hrt;
mod soft;

pub use compiler::{CompileError, Compiler, JOB, Limits, compile_here};
pub use hrt::{Hard, MODULE_BYTES_MAX, ModuleError};
pub use soft::{Soft, make_hard, make_hard_compiled_by};
