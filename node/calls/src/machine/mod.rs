//! The deciding code of `calls`: plain data in, plain data out.

pub(crate) mod listing;
pub(crate) mod record;
pub(crate) mod redirects;
pub mod shares;
pub(crate) mod size;
pub mod task;
pub(crate) mod time_limit;
pub mod tool_name;

pub use althing_call::{chain, relation};
