//! What decides in `calls`: plain data in, plain data out.

pub mod chain;
pub(crate) mod listing;
pub(crate) mod record;
pub mod shares;
pub mod task;
