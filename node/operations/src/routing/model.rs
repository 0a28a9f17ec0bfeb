//! The model mode: a model of this node is asked, by an agent that exists for as long as the question.

use a2a::{Message, Part, PartContent, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::{Output, Outputs, Turn};
use althing_node::{NodeError, run_blocking};
use althing_routing::{Answer, Candidate, Question};
use althing_td::AgentFile;
use serde_json::json;

use crate::routing::{NodeRouter, RoutingError};

/// The agent.
const NAME: &str = "althing-route-model";
/// Tokens of its answer: a number, what some models put around it, and the thoughts that some write down first.
const ANSWER_TOKENS: u64 = 1_024;
/// Bytes of its answer that are read.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// The agent's file: a model of the node's, no tools, no memory, a bounded answer.
fn file() -> Result<AgentFile, NodeError> {
    let file = json!({
        "name": NAME,
        "description": "Chooses the agent that a sentence is for",
        "exposure": "hidden",
        "runtime": { "model": { "prompt": Question::PROMPT, "temperature": 0.0 } },
        "contract": { "class": { "latency": "srt" }, "model": { "output_tokens": ANSWER_TOKENS } },
    });
    Ok(AgentFile::parse(&file.to_string())?)
}

impl NodeRouter<'_> {
    /// The place of the candidate that a model of this node names; none where it says that the sentence is for none.
    ///
    /// # Errors
    /// See [`RoutingError`]; [`RoutingError::Unclear`] where its answer names no candidate.
    pub(super) async fn ask_model(&self, sentence: &str, shown: &[&Candidate]) -> Result<Option<usize>, RoutingError> {
        let question = Question::new(sentence, shown);
        // One at a time: the agent has one name.
        let _asking = self.0.routing.asking.lock().await;
        // One that was left when whoever asked went away.
        self.0.host.stop(NAME).await;
        let (host, file) = (self.0.host.clone(), file()?);
        let started = run_blocking(self.0.kernel(), move || host.start(&file, std::path::Path::new("/"))).await;
        started.map_err(NodeError::from)?.map_err(NodeError::from)?;
        let turn = Turn {
            task_id: self.0.calls.new_id(),
            context_id: NAME.to_owned(),
            message: Message::new(Role::User, vec![Part::text(&question.text)]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters::default(),
        };
        let (output, outputs) = Output::channel();
        let (ended, answer) = tokio::join!(self.0.host.turn(NAME, turn, output), text(outputs));
        self.0.host.stop(NAME).await;
        ended.map_err(|error| RoutingError::Model(error.to_string()))?;
        match question.read(&answer) {
            Answer::Agent(place) => Ok(Some(place)),
            Answer::Nobody => Ok(None),
            Answer::Unclear(said) => Err(RoutingError::Unclear(said)),
        }
    }
}

/// The text of an answer.
async fn text(mut outputs: Outputs) -> String {
    let mut text = String::new();
    while let Some(made) = outputs.recv().await {
        let Made::Artifact { artifact, .. } = made else { continue };
        for part in artifact.parts {
            if let PartContent::Text(more) = part.content
                && text.len() + more.len() <= ANSWER_BYTES_MAX
            {
                text.push_str(&more);
            }
        }
    }
    text
}
