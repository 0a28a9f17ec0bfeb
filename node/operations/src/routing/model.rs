//! The model mode: a model of this node is asked, by an agent that exists for as long as the question.

use std::collections::BTreeMap;

use a2a::{Message, Part, PartContent, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::{Output, Outputs, Turn};
use althing_node::{NodeError, run_blocking};
use althing_protocol::Contract;
use althing_protocol::contract::{Class, ModelPolicy, Srt};
use althing_routing::{Answer, Candidate, Question};
use althing_td::{AgentFile, AsksAs, Callers, Exposure, MODE_DEFAULT, RuntimeSpec, SessionSpec, VERSION_DEFAULT};

use crate::routing::{NodeRouter, RoutingError};

/// The agent.
const NAME: &str = "althing-route-model";
/// Tokens of its answer: a number, what some models put around it, and the thoughts that some write down first.
const ANSWER_TOKENS: u64 = 1_024;
/// Bytes of its answer that are read.
const ANSWER_BYTES_MAX: usize = 8 << 10;

/// The agent's file: a model of the node's, no tools, no memory, a bounded answer.
fn file() -> Result<AgentFile, NodeError> {
    let contract = Contract {
        model: ModelPolicy { output_tokens: ANSWER_TOKENS, ..ModelPolicy::default() },
        ..Contract::of(Class::Srt(Srt::default()))
    };
    let prompt = Question::PROMPT.to_owned();
    let file = AgentFile {
        name: NAME.to_owned(),
        title: NAME.to_owned(),
        description: "Chooses the agent that a sentence is for".to_owned(),
        version: VERSION_DEFAULT.to_owned(),
        skills: Vec::new(),
        runtime: RuntimeSpec::Model { prompt, endpoints: Vec::new(), temperature: Some(0.0) },
        tools: BTreeMap::new(),
        effects: BTreeMap::new(),
        profiles: BTreeMap::new(),
        expose: Vec::new(),
        embeddings: None,
        role: None,
        // Nobody wrote one: the class does without a target for the first output.
        requested: None,
        contract: Some(contract),
        contract_file: None,
        callers: Callers::default(),
        exposure: Exposure::Hidden,
        asks_as: AsksAs::default(),
        handoff_signers: Vec::new(),
        session: SessionSpec::default(),
        input_modes: vec![MODE_DEFAULT.to_owned()],
        output_modes: vec![MODE_DEFAULT.to_owned()],
    };
    file.check()?;
    Ok(file)
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_agent_that_is_asked_is_the_one_that_such_a_file_describes() {
        let written = json!({
            "name": "althing-route-model",
            "description": "Chooses the agent that a sentence is for",
            "exposure": "hidden",
            "runtime": { "model": { "prompt": Question::PROMPT, "temperature": 0.0 } },
            "contract": { "class": { "latency": "srt" }, "model": { "output_tokens": 1_024 } },
        });
        let read = AgentFile::parse(&written.to_string()).expect("an agent file");
        assert_eq!(file().expect("it is sound"), AgentFile { requested: None, ..read });
    }
}
