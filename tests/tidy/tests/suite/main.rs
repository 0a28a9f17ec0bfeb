//! Rules about the tree itself.

mod canary;
mod circles;
mod citations;
mod commands;
mod comments;
mod decisions;
mod edges;
mod effects;
mod kernel;
mod lints;
mod names;
mod participles;
mod reach;
mod replies;
mod shape;
mod sizes;
mod support;
