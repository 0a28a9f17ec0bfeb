//! The keeper as a process of its own.

mod accounts;
mod bounding;
mod enclosing;
mod hiding;
mod keeping;
mod refusing;
mod support;
mod under_way;
