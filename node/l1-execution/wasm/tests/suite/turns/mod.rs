//! Turns of components, as a node asks for them.

use std::sync::Arc;

use a2a::{Message, Part, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::{Agent, AgentError, Output, Turn};

/// One turn: what it said last, or why it failed.
pub async fn turn(agent: &Arc<dyn Agent>, text: &str) -> Result<String, AgentError> {
    let (out, mut made) = Output::channel();
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text(text)]),
        history: Vec::new(),
        artifacts: Vec::new(),
        remembered: None,
        parameters: Parameters::default(),
    };
    let all = async {
        let mut last = String::new();
        while let Some(one) = made.recv().await {
            if let Made::Artifact { artifact, .. } = one {
                last = artifact.parts[0].as_text().unwrap_or_default().to_owned();
            }
        }
        last
    };
    let (ended, last) = tokio::join!(agent.turn(turn, out), all);
    ended.map(|()| last)
}
