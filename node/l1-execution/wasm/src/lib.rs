//! WebAssembly agents, in wasmtime.
//!
//! **Inputs**: modules, contracts, the inputs of turns and jobs. **Outputs**: the outputs of guests.
//!
//! **Invariants**: a guest can reach only the imports given here; its memory is limited, and it is stopped when its budget is
//! exhausted; a failed guest is dropped, never resumed; the compiler has limits of its own ([`Compiler`]).
//!
//! **Never knows**: who asks, other nodes, disks.

mod compiled;
mod compiler;
mod component;
mod engines;
mod epochs;
mod hrt;
mod soft;

pub use compiler::{CompileError, Compiler, JOB, Limits, compile_here};
pub use hrt::{Hard, MODULE_BYTES_MAX, ModuleError};
pub use soft::{Soft, make_hard, make_hard_compiled_by};
