//! The client side of a node, for the command line and for programs that run nodes: the control socket ([`Client`]), agent
//! files ([`agent_file`]), nodes as child processes ([`NodeProcess`]), printed results ([`output`]).
//!
//! **Never knows**: the command line's arguments, exit codes.

pub mod agent_file;
mod client;
mod error;
pub mod output;
mod process;

pub use client::{Client, Lines, ServerEvents, socket};
pub use error::{ClientError, InputError, InputErrorReason, NodeProcessError};
pub use output::{Out, block, one_line, plain, print_line, print_read, reader_gone, rows, table, text};
pub use process::NodeProcess;
