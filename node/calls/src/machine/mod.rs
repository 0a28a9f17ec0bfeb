//! What decides in `calls`: plain data in, plain data out.

pub mod task;
