//! What is decided of a program's enclosure, without I/O.

pub mod grants;
