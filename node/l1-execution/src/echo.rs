//! `echo`: the smallest agent, and the example of how small one may be.

use futures::future::BoxFuture;

use crate::{Agent, AgentError, Output, Turn};

/// Answers with what it was told.
pub struct Echo;

impl Agent for Echo {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move { out.text("echo", turn.text()).await })
    }
}
