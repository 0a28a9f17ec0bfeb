//! Where addresses from outside lead, and how much comes from there, with servers of this machine.

mod guard;
mod streams;
mod support;
