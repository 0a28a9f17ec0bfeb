//! `echo`: a minimal agent, as an example.

use futures::future::BoxFuture;

use crate::{Agent, AgentError, Output, Turn};

/// Answers with the text of the message.
pub struct Echo;

impl Agent for Echo {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move { out.text("echo", turn.text()).await })
    }
}
