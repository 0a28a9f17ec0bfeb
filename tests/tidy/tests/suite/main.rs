//! Rules about the tree itself.

mod canary;
mod citations;
mod edges;
mod kernel;
mod lints;
mod shape;
mod sizes;
mod support;
