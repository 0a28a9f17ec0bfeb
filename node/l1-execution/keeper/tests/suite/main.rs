//! The keeper as a process of its own.

mod bounding;
mod enclosing;
mod keeping;
mod refusing;
mod support;
