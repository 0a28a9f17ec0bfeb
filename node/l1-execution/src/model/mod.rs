//! Agents that are a prompt and a model, at any endpoint that speaks OpenAI's chat completions.
//!
//! A turn is bounded by its contract before a byte is sent: the model must be one that the policy allows, the prompt
//! must fit the context, and the answer may cost what is left of the turn's tokens. The answer streams out as it comes.
//! Dropping the turn hangs up, which is how a new message stops an answer that is under way.

mod chat;
mod endpoint;
mod machine;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::{Artifact, Part};
use althing_protocol::Contract;
use althing_protocol::contract::{CALLS_PER_TURN_DEFAULT, Class};
use althing_td::{ModelEndpoint, RuntimeSpec};
use futures::future::BoxFuture;
use serde_json::json;
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::agent::{Agent, AgentError, Made, Output, Turn};
use crate::cost_budget::CostBudget;
use crate::memory::Memory;
use crate::secrets::{SecretLookup, SecretLookupError, granted};
use crate::syscalls::SystemCalls;
use crate::tools::{CallRecord, Tools};
use crate::{binding, context};
use chat::{ChatMessage, ChatToolCall};
use endpoint::{Ended, Endpoint, EndpointError, Question};
use machine::{Expected, Pace};

/// Answers that one endpoint works on at once; the others wait.
const SLOTS: usize = 32;

/// Why a model agent cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// The contract's policy allows none of its models.
    #[error("its contract allows the models {allowed}, and its endpoints have {has}")]
    NoModel {
        /// What the policy names.
        allowed: String,
        /// What the endpoints name.
        has: String,
    },
    /// An endpoint's secret is not available.
    #[error(transparent)]
    Secret(#[from] SecretLookupError),
    /// No client can be made.
    #[error("{0}")]
    Client(String),
}

/// A prompt and its models.
pub struct Model {
    prompt: String,
    temperature: Option<f64>,
    places: Vec<Place>,
    context_tokens: u64,
    output_tokens: u64,
    turn_tokens: Option<u64>,
    calls: u64,
    /// Milliseconds to the first output that the contract aims at.
    aim: Option<Duration>,
    tools: Arc<Tools>,
    memory: Option<Memory>,
    budget: Arc<CostBudget>,
    must_cite: bool,
}

/// What one turn came to so far.
#[derive(Default)]
struct Spent {
    input_tokens: u64,
    output_tokens: u64,
    pieces: u64,
    estimated: bool,
    calls: Vec<CallRecord>,
}

/// An endpoint, and how it has been lately.
struct Place {
    endpoint: Endpoint,
    /// What a million tokens cost, millionths of a currency.
    cost: Option<u64>,
    slots: Arc<tokio::sync::Semaphore>,
    pace: Mutex<Pace>,
}

impl Model {
    /// An agent of that runtime, held to that contract.
    ///
    /// # Errors
    /// See [`ModelError`].
    pub fn new(
        runtime: &RuntimeSpec,
        contract: &Contract,
        secrets: &SecretLookup,
        calls: SystemCalls,
    ) -> Result<Model, ModelError> {
        let RuntimeSpec::Model { prompt, endpoints, temperature } = runtime else {
            return Err(ModelError::Client("it is no model agent".to_owned()));
        };
        let policy = &contract.model;
        let allowed =
            |endpoint: &&ModelEndpoint| binding::allows(&policy.models, endpoint.named(), endpoint.version.as_deref());
        let usable: Vec<&ModelEndpoint> = endpoints.iter().filter(allowed).collect();
        if usable.is_empty() {
            let has = endpoints.iter().map(|endpoint| endpoint.model.as_str()).collect::<Vec<_>>().join(", ");
            return Err(ModelError::NoModel { allowed: policy.models.join(", "), has });
        }
        let place = |named: &&ModelEndpoint| {
            let secret = named.secret.as_deref().map(|name| granted(contract, secrets, name)).transpose()?;
            let endpoint = Endpoint::new(&named.url, &named.model, secret).map_err(ModelError::Client)?;
            let slots = Arc::new(tokio::sync::Semaphore::new(SLOTS));
            Ok(Place { endpoint, cost: named.cost, slots, pace: Mutex::default() })
        };
        Ok(Model {
            prompt: prompt.clone(),
            temperature: *temperature,
            places: usable.iter().map(place).collect::<Result<_, ModelError>>()?,
            context_tokens: policy.context_tokens,
            output_tokens: policy.output_tokens,
            turn_tokens: contract.compute.tokens_per_turn,
            calls: contract.compute.calls_per_turn.unwrap_or(CALLS_PER_TURN_DEFAULT),
            tools: calls.tools,
            memory: calls.memory,
            budget: calls.budget,
            must_cite: contract.memory.as_ref().is_some_and(|memory| memory.require_grounding),
            aim: match &contract.class {
                Class::Srt(srt) => Some(Duration::from_millis(srt.ttft_ms)),
                Class::Hrt(_) | Class::Dt(_) => None,
            },
        })
    }

    /// What a prompt leaves for the answer, tokens; a refusal where it leaves nothing.
    fn room(&self, prompt_tokens: u64, spent: u64) -> Result<u64, AgentError> {
        if prompt_tokens > self.context_tokens {
            let most = self.context_tokens;
            return Err(AgentError::Rejected(format!(
                "the prompt has about {prompt_tokens} tokens, and its contract allows {most}"
            )));
        }
        let left = self.turn_tokens.map_or(u64::MAX, |most| most.saturating_sub(prompt_tokens.saturating_add(spent)));
        if left == 0 {
            let most = self.turn_tokens.unwrap_or_default();
            let so_far = if spent > 0 { format!(" after {spent} spent") } else { String::new() };
            let reason = format!("the prompt has about {prompt_tokens} tokens{so_far}, and a turn may have {most}");
            return Err(AgentError::Rejected(reason));
        }
        Ok(self.output_tokens.min(left))
    }

    /// The endpoints in the order in which they are tried: those that keep the aim first, else as written. Refused when
    /// answers queue up at each of them, and none would keep the aim.
    fn order(&self) -> Result<Vec<&Place>, AgentError> {
        let expected: Vec<Expected> = self.places.iter().map(Place::expected).collect();
        let Some(aim) = self.aim else { return Ok(self.places.iter().collect()) };
        match machine::order(&expected, aim) {
            Ok(order) => Ok(order.into_iter().map(|place| &self.places[place]).collect()),
            Err(wait) => Err(AgentError::Rejected(format!(
                "its models are busy: a first word would come after {} ms, and its contract aims at {}; try again in {} ms",
                wait.as_millis(),
                aim.as_millis(),
                wait.saturating_sub(aim).as_millis().max(1)
            ))),
        }
    }

    /// Asks, calls what the model wants called, and asks again, until it wants nothing more.
    async fn answer(&self, turn: &Turn, out: &Output) -> Result<(), AgentError> {
        let mut messages = chat::messages(&self.prompt, turn);
        if let Some(memory) = &self.memory {
            let recalled = memory.recall(&turn.text(), memory.recall_default()).await;
            let recalled = recalled.map_err(|error| AgentError::internal("its memory cannot be asked", error))?;
            if !recalled.is_empty() {
                messages.insert(1, chat::kept(&recalled, self.must_cite));
            }
        }
        let artifact = chat::artifact_id(turn);
        let tools = if self.tools.is_empty() || self.calls == 0 { BTreeMap::new() } else { self.tools.listed().await };
        let functions = chat::functions(&tools);
        let function_tokens = chat::tokens_of(&json!(functions).to_string());
        let mut spent = Spent::default();
        loop {
            let prompt_tokens = chat::tokens(&messages) + function_tokens;
            self.budget.check().map_err(|exhausted| AgentError::Rejected(exhausted.to_string()))?;
            let room = self.room(prompt_tokens, spent.input_tokens.saturating_add(spent.output_tokens))?;
            let left = self.calls.saturating_sub(spent.calls.len() as u64);
            let question = Question {
                messages: &messages,
                functions: if left > 0 { &functions } else { &[] },
                temperature: self.temperature,
                room,
                prompt_tokens,
            };
            let (place, ended) =
                self.ask(&question, Answer { out, artifact: &artifact, before: spent.pieces > 0 }).await?;
            spent.add(&ended, prompt_tokens);
            // One that still wants tools when it is told of none any more is done.
            if ended.calls.is_empty() || left == 0 {
                return self.close(place, &artifact, &ended, &spent, out).await;
            }
            messages.push(ChatMessage::wanting(ended.text.clone(), ended.calls.clone()));
            for call in &ended.calls {
                let said = self.call(call, &mut spent).await;
                messages.push(ChatMessage::result(&call.id, said));
            }
        }
    }

    /// One system call for the model; what it is told of it.
    async fn call(&self, call: &ChatToolCall, spent: &mut Spent) -> String {
        if spent.calls.len() as u64 >= self.calls {
            return format!("error: a turn may call {} tools, and has", self.calls);
        }
        let (outcome, record) = self.tools.invoke(&call.function.name, &call.function.arguments).await;
        spent.calls.push(record);
        match outcome {
            Ok(result) => chat::result_text(&result),
            Err(error) => format!("error: {error}"),
        }
    }

    /// Asks one endpoint after the other until one answers.
    async fn ask(&self, question: &Question<'_>, answer: Answer<'_>) -> Result<(&Place, Ended), AgentError> {
        let mut failures = Vec::new();
        let (prompt_tokens, mut unaffordable) = (question.prompt_tokens, 0);
        for place in self.order()? {
            // What is left is little where the model is dear.
            let left = self.budget.tokens_left(place.cost).map(|left| left.saturating_sub(prompt_tokens));
            if left == Some(0) {
                unaffordable += 1;
                failures.push(format!("{}: the prompt costs more than what is left", place.endpoint.model()));
                continue;
            }
            let question = &Question { room: question.room.min(left.unwrap_or(u64::MAX)), ..*question };
            // The names are those of OpenTelemetry's conventions for GenAI.
            let span = context::span(|| {
                tracing::info_span!(
                    "chat",
                    otel.kind = "client",
                    gen_ai.operation.name = "chat",
                    gen_ai.request.model = place.endpoint.model(),
                    gen_ai.input.messages = tracing::field::Empty,
                    gen_ai.output.messages = tracing::field::Empty,
                    althing.binding.hash = &*context::binding_hash(),
                )
            });
            context::record(&span, "gen_ai.input.messages", || json!(question.messages).to_string());
            let reserved = self.budget.reserve(prompt_tokens.saturating_add(question.room), place.cost);
            match place.answer(question, &answer).instrument(span.clone()).await {
                Ok(ended) => {
                    let (input, output) = ended.tokens(prompt_tokens);
                    reserved.settle(input.saturating_add(output));
                    context::record(&span, "gen_ai.output.messages", || ended.text.clone());
                    return Ok((place, ended));
                }
                Err(Failed { error: EndpointError::Cancelled, .. }) => return Err(AgentError::Cancelled),
                // Once something was said another model cannot go on with it.
                Err(Failed { error, said: true }) => {
                    return Err(AgentError::Failed(format!("the answer broke off: {}", error.brief())));
                }
                Err(Failed { error, said: false }) => {
                    reserved.settle(prompt_tokens);
                    tracing::warn!(url = place.endpoint.url(), %error, "an endpoint failed");
                    failures.push(format!("{}: {}", place.endpoint.model(), error.brief()));
                }
            }
        }
        if unaffordable == failures.len() {
            let again_s = self.budget.again_s();
            return Err(AgentError::Rejected(format!(
                "what is left of what it may cost (class.cost) is less than the prompt needs, about {prompt_tokens} \
                 tokens; it may go on in {again_s} s"
            )));
        }
        Err(AgentError::Failed(format!("no endpoint answered: {}", failures.join("; "))))
    }

    /// What the answer came from, and what it cost.
    async fn close(
        &self,
        place: &Place,
        artifact: &str,
        ended: &Ended,
        spent: &Spent,
        out: &Output,
    ) -> Result<(), AgentError> {
        let mut told = json!({
            "usage": {
                "model": ended.model.as_deref().unwrap_or(place.endpoint.model()),
                "finish": ended.finish,
                "inputTokens": spent.input_tokens,
                "outputTokens": spent.output_tokens,
                "estimated": spent.estimated,
            },
        });
        if !spent.calls.is_empty() {
            told["tools"] = json!(spent.calls);
        }
        let artifact = Artifact {
            artifact_id: artifact.to_owned(),
            name: None,
            description: None,
            parts: vec![Part::data(told)],
            metadata: None,
            extensions: None,
        };
        out.put(Made::Artifact { artifact, append: spent.pieces > 0, last: true }).await
    }
}

impl Spent {
    fn add(&mut self, ended: &Ended, prompt_tokens: u64) {
        let (input, output) = ended.tokens(prompt_tokens);
        // What an endpoint says of itself is not trusted to add up.
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(output);
        self.pieces += ended.pieces;
        self.estimated |= ended.output_tokens.is_none();
    }
}

impl Agent for Model {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move { self.answer(&turn, &out).await })
    }
}

/// Where an answer goes.
struct Answer<'a> {
    out: &'a Output,
    artifact: &'a str,
    /// Whether something of it is there already.
    before: bool,
}

/// An endpoint failed, before or after it had said something.
struct Failed {
    error: EndpointError,
    said: bool,
}

impl Place {
    fn expected(&self) -> Expected {
        let pace = self.pace.lock().expect("no holder of the pace panics");
        pace.expected(SLOTS, self.slots.available_permits())
    }

    async fn answer(&self, question: &Question<'_>, answer: &Answer<'_>) -> Result<Ended, Failed> {
        self.pace.lock().expect("no holder of the pace panics").waits(1);
        let waiting = Waiting(self);
        let slot = self.slots.clone().acquire_owned().await;
        drop(waiting);
        let _slot = slot.map_err(|_| Failed { error: EndpointError::Cancelled, said: false })?;
        let begun = Instant::now();
        let (mut first, mut text) = (None, String::new());
        let asked = self.endpoint.ask(question).await;
        let mut stream = asked.map_err(|error| Failed { error, said: false })?;
        loop {
            let said = !text.is_empty();
            match stream.next(question.room).await {
                Ok(Some(piece)) => {
                    first.get_or_insert_with(|| begun.elapsed());
                    text.push_str(&piece);
                    let put = answer.out.chunk(answer.artifact, piece, answer.before || said, false).await;
                    put.map_err(|_| Failed { error: EndpointError::Cancelled, said: true })?;
                }
                Ok(None) => break,
                Err(error) => return Err(Failed { error, said }),
            }
        }
        let mut pace = self.pace.lock().expect("no holder of the pace panics");
        pace.took(first.unwrap_or_else(|| begun.elapsed()), begun.elapsed());
        Ok(Ended { text, ..stream.ended() })
    }
}

/// Somebody who waits for a slot, until it is dropped.
struct Waiting<'a>(&'a Place);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.pace.lock().expect("no holder of the pace panics").waits(-1);
    }
}
