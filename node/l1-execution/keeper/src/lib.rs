//! The keeper of an agent's program: it starts the program, and ends it with all that it started, when the node says so and however
//! the node ends, `kill -9` included.
//!
//! **Inputs**: a [`job::Job`] with descriptors, by the channel that is its standard input; then orders of the node. **Outputs**: the
//! running program, and what the node is told of it ([`job::Told`]).
//!
//! **Invariants**
//! - A keeper has one thread until the program runs, and no runtime: it forks.
//! - The program gets the descriptors of its job, and no others.
//! - When the channel closes, the program ends; when the keeper is killed, the kernel kills the program.
//! - What it names of a program's calls decides nothing: each call goes on, and the kernel judges it.
//! - Of a program that is to leave the processors to others, it leaves them to others too.
//!
//! **Never knows**: agents, contracts, what a program is for.

mod account;
mod bounding;
mod bridge;
pub mod channel;
mod clock;
mod descendants;
mod ending;
mod failure;
pub mod job;
mod keep;
mod limits;
mod linux;
pub mod machine;
mod naming;
mod pause;
mod program;
mod removal;
mod start;

pub use failure::Failure;
pub use job::{Access, Lack, Level, Refusal};
pub use keep::{keep, keep_here};
pub use machine::gaps::{Gap, gaps};
pub use machine::grants::Grants;
pub use removal::{regain, remove_all, remove_some};
pub use start::{NAME, executable, order};
