//! What programs reach through the node, with hosts of this machine in place of those of the internet.

mod local;
mod proxy;
mod spans;
mod support;
