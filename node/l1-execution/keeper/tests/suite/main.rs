//! The keeper as a process of its own.

mod enclosing;
mod keeping;
mod refusing;
mod support;
