//! What decides in `calls`: plain data in, plain data out.

pub(crate) mod listing;
pub mod task;
