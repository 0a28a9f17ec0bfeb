//! The scripted agent of simulations and tests.

use std::time::Duration;

use a2a::{Message, Part, Role, TaskState};
use althing_execution::agent::{Agent, Made};
use althing_execution::{AgentError, Output, SystemCalls, Turn};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use serde_json::json;

/// The pieces that the actor makes of `pieces`, one after another.
pub const PIECES: [&str; 5] = ["0 ", "1 ", "2 ", "3 ", "4 "];
/// In a text, wherever it stands: the turn never ends.
pub const NEVER: &str = "and never come to an end";
/// Before each piece.
pub const PIECE_EVERY: Duration = Duration::from_millis(100);

/// Acts on its message: `stuck` never ends, `ask` asks back, `pieces` makes an artifact in pieces, `who` names the principals of the
/// call, `activate` activates all extensions that are asked for, `forward AGENT MESSAGE` asks another agent and gives its answer,
/// `each AGENT MESSAGE; MESSAGE` asks it one after another and gives its last answer, `memory KEY VALUE` keeps a value in its memory and
/// `memory KEY` gives it; a text with [`NEVER`] in it never ends either;
/// other texts are echoed.
pub(crate) struct Actor {
    calls: SystemCalls,
}

impl Actor {
    pub fn new(calls: SystemCalls) -> Actor {
        Actor { calls }
    }

    /// Asks another agent, as a model or a component does: by a system call.
    async fn forward(&self, to: &str, message: &str) -> Result<String, AgentError> {
        let arguments = json!({ "message": message }).to_string();
        let (answer, _) = self.calls.tools.invoke(&format!("agents/{to}"), &arguments).await;
        let answer = answer.map_err(|error| AgentError::Failed(error.to_string()))?;
        let text = answer["content"][0]["text"].as_str().unwrap_or_default().to_owned();
        if answer["isError"] == true { Err(AgentError::Failed(text)) } else { Ok(text) }
    }

    /// Keeps a value in its memory, or gives it.
    async fn memory(&self, what: &str) -> Result<String, AgentError> {
        let (tool, arguments) = match what.split_once(' ') {
            Some((key, value)) => ("memory/put", json!({ "key": key, "value": value })),
            None => ("memory/get", json!({ "key": what })),
        };
        let (answer, _) = self.calls.tools.invoke(tool, &arguments.to_string()).await;
        let answer = answer.map_err(|error| AgentError::Failed(error.to_string()))?;
        Ok(answer["structuredContent"].to_string())
    }
}

impl Agent for Actor {
    fn is_enclosed(&self) -> bool {
        true
    }

    fn turn(&self, turn: Turn, out: Output) -> BoxFuture<'_, Result<(), AgentError>> {
        async move {
            let text = turn.text();
            if let Some((to, message)) = text.strip_prefix("forward ").and_then(|rest| rest.split_once(' ')) {
                return out.text("answer", &self.forward(to, message).await?).await;
            }
            if let Some((to, messages)) = text.strip_prefix("each ").and_then(|rest| rest.split_once(' ')) {
                let mut answer = String::new();
                for message in messages.split("; ") {
                    answer = self.forward(to, message).await?;
                }
                return out.text("answer", &answer).await;
            }
            if let Some(what) = text.strip_prefix("memory ") {
                return out.text("memory", &self.memory(what).await?).await;
            }
            match text.as_str() {
                "stuck" => std::future::pending().await,
                "ask" => out.ask(&turn, "which?").await,
                "activate" => {
                    let asked = &turn.parameters.extensions;
                    turn.parameters.activated.name(asked.iter().map(String::as_str), asked);
                    out.text("activated", &asked.join(" ")).await
                }
                "who" => out.text("who", &turn.parameters.principals.join(" ")).await,
                "pieces" => {
                    for (number, piece) in PIECES.into_iter().enumerate() {
                        tokio::time::sleep(PIECE_EVERY).await;
                        out.chunk("pieces", piece.to_owned(), number > 0, number + 1 == PIECES.len()).await?;
                        let word = Message::new(Role::Agent, vec![Part::text(format!("made {number}"))]);
                        out.put(Made::Status(TaskState::Working, Some(word))).await?;
                    }
                    Ok(())
                }
                text if text.contains(NEVER) => std::future::pending().await,
                text => out.text("echo", text).await,
            }
        }
        .boxed()
    }
}
