//! The deciding code of `calls`: plain data in, plain data out.

pub mod chain;
pub(crate) mod listing;
pub(crate) mod record;
pub(crate) mod redirects;
pub mod relation;
pub mod shares;
pub(crate) mod size;
pub mod task;
pub(crate) mod time_limit;
pub mod tool_name;
