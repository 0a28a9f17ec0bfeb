//! Model agents: a prompt and a model at any endpoint that speaks OpenAI's chat completions.
//!
//! A turn is bounded by its contract before a byte is sent: the policy must allow the model, the prompt must fit the
//! context, and the answer may use the rest of the turn's tokens. The agent's gate sees each request as it is sent, and what
//! is looked for in its memory. The answer is streamed. Dropping the turn closes the connection, which is how a new message
//! interrupts an answer.

mod calls;
mod chat;
mod checkpoint;
mod chunk;
mod endpoint;
mod error;
mod machine;
mod measure;
mod notes;
mod replay;
mod spent;
mod stream;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU16, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::{Artifact, Part};
use althing_protocol::Contract;
use althing_protocol::contract::{CALLS_PER_TURN_DEFAULT, Class};
use althing_td::{ModelEndpoint, RuntimeSpec};
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::Instant;
use tracing::Instrument as _;

use crate::agent::{Agent, AgentError, Made, Output, Turn};
use crate::cost_budget::CostBudget;
use crate::decisions::GateRefusal;
use crate::memory::{Memory, QUESTION_BYTES_MAX, RECALLED_MAX, Recalled};
use crate::own_tools::SAVE;
use crate::ruling::RulingAhead;
use crate::ruling_ahead::rule_all;
use crate::secrets::{SecretLookup, SecretLookupError, granted};
use crate::syscalls::SystemCalls;
use crate::tools::{CallKind, CallRecord, Denied, ModelClearance, ToolError, Tools};
use crate::{binding, context};
use chat::{ChatMessage, ChatToolCall};
use checkpoint::Background;
use endpoint::{ChatRequest, Endpoint};
use error::EndpointError;
use machine::{ExpectedLatency, LatencyEstimate};
use spent::Spent;
use stream::Completion;

pub use measure::{MeasuredAnswer, measure};

/// What requests to models are called before their gate, with the model's name after a `/`.
const MODELS: &str = "models";
/// What a search of the memory for a message is called there.
const RECALL: &str = "memory/recall";
/// Concurrent requests to one endpoint; others wait.
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
    endpoints: Vec<EndpointState>,
    context_tokens: u64,
    output_tokens: u64,
    turn_tokens: Option<u64>,
    calls: u64,
    /// The contract's target for the time to the first output.
    aim: Option<Duration>,
    tools: Arc<Tools>,
    memory: Option<Memory>,
    budget: Arc<CostBudget>,
    must_cite: bool,
}

/// An endpoint, with its slots and its recent latency.
struct EndpointState {
    client: Endpoint,
    clearance: ModelClearance,
    /// What a million tokens cost, millionths of a currency.
    cost: Option<u64>,
    slots: Arc<tokio::sync::Semaphore>,
    latency: Mutex<LatencyEstimate>,
    /// When it was made.
    since: Instant,
    /// The status by which it refused this agent's credentials at the last request, or 0.
    refused: AtomicU16,
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
            return Err(ModelError::Client("it is not a model agent".to_owned()));
        };
        let policy = &contract.model;
        let allowed =
            |endpoint: &&ModelEndpoint| binding::allows(&policy.models, endpoint.named(), endpoint.version.as_deref());
        let usable: Vec<&ModelEndpoint> = endpoints.iter().filter(allowed).collect();
        if usable.is_empty() {
            let has = endpoints.iter().map(|endpoint| endpoint.model.as_str()).collect::<Vec<_>>().join(", ");
            return Err(ModelError::NoModel { allowed: policy.models.join(", "), has });
        }
        let state = |named: &&ModelEndpoint| {
            let secret = named.secret.as_deref().map(|name| granted(contract, secrets, name)).transpose()?;
            let client = Endpoint::new(&named.url, &named.model, secret).map_err(ModelError::Client)?;
            let (clearance, slots) = (ModelClearance::of(named), Arc::new(tokio::sync::Semaphore::new(SLOTS)));
            let (latency, refused) = (Mutex::default(), AtomicU16::new(0));
            Ok(EndpointState { client, clearance, cost: named.cost, slots, latency, since: Instant::now(), refused })
        };
        Ok(Model {
            prompt: prompt.clone(),
            temperature: *temperature,
            endpoints: usable.iter().map(state).collect::<Result<_, ModelError>>()?,
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

    /// The tokens that a prompt leaves for the answer; an error if it leaves none.
    fn max_answer_tokens(&self, prompt_tokens: u64, spent: u64) -> Result<u64, AgentError> {
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

    /// The endpoints in the order in which they are tried: those that meet the latency target first, else as written. An
    /// error if requests queue at all of them, and none would meet the target.
    fn order(&self) -> Result<Vec<&EndpointState>, AgentError> {
        let expected: Vec<ExpectedLatency> = self.endpoints.iter().map(EndpointState::expected).collect();
        let Some(aim) = self.aim else { return Ok(self.endpoints.iter().collect()) };
        match machine::order(&expected, aim) {
            Ok(order) => Ok(order.into_iter().map(|index| &self.endpoints[index]).collect()),
            Err(wait) => Err(AgentError::Exhausted(format!(
                "its models are busy: the first token is expected after {} ms, and its contract aims at {}; try again in \
                 {} ms",
                wait.as_millis(),
                aim.as_millis(),
                wait.saturating_sub(aim).as_millis().max(1)
            ))),
        }
    }

    /// Sends requests and makes the tool calls of the model, until it makes no more.
    async fn answer(&self, turn: &Turn, out: &Output) -> Result<(), AgentError> {
        let artifact = chat::artifact_id(turn);
        // Boxed, or each turn would have room for it.
        let (mut told, mut spent) = match checkpoint::resumed()? {
            Some((told, spent)) => {
                Box::pin(self.go_on(&told, &spent, (artifact.as_str(), out))).await?;
                (told, spent)
            }
            None => (Box::pin(self.told(turn)).await?, Spent::default()),
        };
        let mut messages = told.among(chat::messages(&self.prompt, turn));
        let tools = if self.tools.is_empty() || self.calls == 0 { BTreeMap::new() } else { self.tools.listed().await };
        let functions = chat::functions(&tools);
        let function_tokens = chat::tokens_of(&json!(functions).to_string());
        loop {
            let prompt_tokens = chat::tokens(&messages) + function_tokens;
            self.budget.check().map_err(|exhausted| spent.exhausted(exhausted.to_string()))?;
            let max_tokens =
                self.max_answer_tokens(prompt_tokens, spent.input_tokens.saturating_add(spent.output_tokens))?;
            let left = self.calls.saturating_sub(spent.calls.len() as u64);
            let request = ChatRequest {
                messages: &messages,
                functions: if left > 0 { &functions } else { &[] },
                temperature: self.temperature,
                max_tokens,
                prompt_tokens,
            };
            let sink = AnswerSink { out, artifact: &artifact, before: spent.pieces > 0 };
            let completion = self.ask(&request, &sink).await?;
            if let Some(model) = &completion.model {
                context::run_notes().add_model(model);
            }
            spent.add(&completion, prompt_tokens);
            // A model that still calls tools after none were offered is done.
            if completion.calls.is_empty() || left == 0 {
                return close(&artifact, &completion, &spent, out).await;
            }
            let (results, saved) = Box::pin(self.make(&completion, left, &mut spent)).await?;
            if let Some(state) = saved {
                Box::pin(checkpoint::save(state, &mut told, &spent)).await?;
                messages = told.among(chat::messages(&self.prompt, turn));
                continue;
            }
            messages.push(ChatMessage::tool_calls(completion.text, completion.calls));
            messages.extend(results);
        }
    }

    /// What the model is told beside the messages of the turn's task.
    async fn told(&self, turn: &Turn) -> Result<Background, AgentError> {
        let mut told = Background::default();
        if let Some(memory) = &self.memory {
            let recalled = self.recall(memory, turn).await?;
            if !recalled.is_empty() {
                told.passages = Some(chat::passages_message(&recalled, self.must_cite).content);
                told.passage_ids = recalled.into_iter().map(|passage| passage.id).collect();
            }
        }
        told.notes = notes::noted(&self.tools).await?.map(|message| message.content);
        Ok(told)
    }

    /// Goes on with a turn from what it saved: what it had said by then is said again, and what it had spent is charged.
    async fn go_on(
        &self,
        told: &Background,
        spent: &Spent,
        (artifact, out): (&str, &Output),
    ) -> Result<(), AgentError> {
        context::run_notes().add_passages(told.passage_ids.iter().map(String::as_str));
        // As of completions that the journal has.
        let is_charged = context::current_journal().is_some_and(|journal| !journal.is_tape() && !journal.goes_on());
        for (price, tokens) in spent.charged.iter().filter(|_| is_charged) {
            self.budget.charge_tokens(*tokens, *price);
        }
        if spent.pieces > 0 {
            out.chunk(artifact, spent.said.clone(), false, false).await?;
        }
        Ok(())
    }

    /// Makes the calls of a completion, so many at most; gives their results, and the state that the model saved, if it did.
    async fn make(
        &self,
        completion: &Completion,
        left: u64,
        spent: &mut Spent,
    ) -> Result<(Vec<ChatMessage>, Option<String>), AgentError> {
        // Before the first of them is made, all that may be made are decided.
        let left = usize::try_from(left).unwrap_or(usize::MAX);
        let named = |call: &ChatToolCall| (call.function.name.clone(), call.function.arguments.clone());
        let calls = completion.calls.iter().take(left).filter(|call| !self.saves_beside(completion, call));
        let wanted: Vec<(String, String)> = calls.map(named).collect();
        let mut rulings = Box::pin(rule_all(&self.tools, &wanted)).await?;
        let (mut results, mut saved) = (Vec::new(), None);
        for call in &completion.calls {
            let (result, is_made) = if self.has_calls_left(spent) && self.saves_beside(completion, call) {
                // It counts, or a model could go on so for ever.
                let record = CallRecord { outcome: "denied", ..CallRecord::of(SAVE.to_owned(), None) };
                spent.calls.push(json!(record));
                (checkpoint::BESIDE.to_owned(), false)
            } else {
                self.call(call, rulings.take(), spent).await?
            };
            if is_made {
                saved = checkpoint::state_of(call);
            }
            results.push(ChatMessage::result(&call.id, result));
        }
        Ok((results, saved))
    }

    fn has_calls_left(&self, spent: &Spent) -> bool {
        (spent.calls.len() as u64) < self.calls
    }

    /// Whether a call of a completion would save, and there are others.
    fn saves_beside(&self, completion: &Completion, call: &ChatToolCall) -> bool {
        completion.calls.len() > 1 && checkpoint::is_save(call) && self.tools.may(SAVE)
    }

    /// The passages that resemble a turn's message, of the turn's journal or of the memory.
    async fn recall(&self, memory: &Memory, turn: &Turn) -> Result<Vec<Recalled>, AgentError> {
        let (text, most) = (turn.text(), memory.recall_default().min(RECALLED_MAX));
        // Memory ignores the rest.
        let question = &text[..text.floor_char_boundary(QUESTION_BYTES_MAX)];
        let arguments = json!({ "question": question, "most": most });
        let search = self.search(memory, question, most, &arguments);
        match context::current_journal() {
            None => search.await,
            Some(journal) => {
                let step = replay::repeatable(CallKind::Recall, RECALL, &arguments);
                let (recalled, _) = Box::pin(replay::make(&*journal, step, search, |_| 0)).await?;
                // Those that the journal had, too.
                context::run_notes().add_passages(recalled.iter().map(|passage: &Recalled| passage.id.as_str()));
                Ok(recalled)
            }
        }
    }

    /// Searches the memory, if the gate allows it.
    async fn search(
        &self,
        memory: &Memory,
        question: &str,
        most: usize,
        arguments: &Value,
    ) -> Result<Vec<Recalled>, AgentError> {
        let search = Box::pin(memory.recall(question, most));
        let recalled = self.tools.gated(CallKind::Recall, RECALL, arguments, search).await;
        let told = |denied: Denied| format!("its memory may not be searched for this message: {denied}");
        let recalled = recalled.map_err(|refusal| refusal.rejection(told))?;
        recalled.map_err(|error| AgentError::internal("its memory cannot be searched", error))
    }

    /// One system call for the model, on which that was ruled, if anything was; gives the text for the model, and whether it was
    /// made. An error ends the turn.
    async fn call(
        &self,
        call: &ChatToolCall,
        ruling: Option<RulingAhead>,
        spent: &mut Spent,
    ) -> Result<(String, bool), AgentError> {
        if !self.has_calls_left(spent) {
            let all = format!("error: the turn has made all {} tool calls that it may make", self.calls);
            return Ok((all, false));
        }
        let function = &call.function;
        let (outcome, record) = self.tools.invoke_ruled(&function.name, &function.arguments, ruling).await;
        spent.calls.push(json!(record));
        match outcome {
            Ok(result) => Ok((chat::result_text(&result), true)),
            Err(ToolError::Journal(error)) => Err(error.into()),
            Err(error) => Ok((format!("error: {error}"), false)),
        }
    }

    /// The completion of a request, of the turn's journal or of a model. What the journal has is emitted as it was.
    async fn ask(&self, request: &ChatRequest<'_>, sink: &AnswerSink<'_>) -> Result<Completion, AgentError> {
        let asked = self.ask_models(request, sink);
        let Some(journal) = context::current_journal() else { return asked.await };
        let arguments = json!({ "messages": request.messages });
        let step = replay::repeatable(CallKind::Model, MODELS, &arguments);
        let tokens = |completion: &Completion| {
            let (input, output) = completion.tokens(request.prompt_tokens);
            input.saturating_add(output)
        };
        let (completion, spent) = Box::pin(replay::make(&*journal, step, asked, tokens)).await?;
        let Some(spent) = spent else { return Ok(completion) };
        // What another model said is no answer of one of these.
        let is_known =
            |asked: &&String| self.endpoints.iter().any(|endpoint| endpoint.client.model() == asked.as_str());
        if let Some(other) = completion.asked.as_ref().filter(|asked| !is_known(asked))
            && let Some(refused) = journal.refuse_answer(MODELS, other)
        {
            return Err(refused.into());
        }
        // What was spent before is known to no other budget: that of the node that ended is gone.
        if !journal.is_tape() && !journal.goes_on() {
            self.budget.charge_tokens(spent, completion.price);
        }
        if !completion.text.is_empty() {
            sink.out.chunk(sink.artifact, completion.text.clone(), sink.before, false).await?;
        }
        Ok(completion)
    }

    /// Tries the endpoints in order until one answers.
    async fn ask_models(&self, request: &ChatRequest<'_>, sink: &AnswerSink<'_>) -> Result<Completion, AgentError> {
        let mut failures = Vec::new();
        let (prompt_tokens, mut unaffordable, mut denied) = (request.prompt_tokens, 0, 0);
        for endpoint in self.order()? {
            // The remaining tokens depend on the price of the model.
            let left = self.budget.tokens_left(endpoint.cost).map(|left| left.saturating_sub(prompt_tokens));
            if left == Some(0) {
                unaffordable += 1;
                failures.push(format!("{}: the prompt costs more than what is left", endpoint.client.model()));
                continue;
            }
            let request = &ChatRequest { max_tokens: request.max_tokens.min(left.unwrap_or(u64::MAX)), ..*request };
            match self.request(endpoint, request, sink).await {
                Ok(mut completion) => {
                    completion.model.get_or_insert_with(|| endpoint.client.model().to_owned());
                    completion.asked = Some(endpoint.client.model().to_owned());
                    completion.price = endpoint.cost;
                    return Ok(completion);
                }
                Err(RequestFailed { error: EndpointError::Cancelled, .. }) => return Err(AgentError::Cancelled),
                Err(RequestFailed { error: EndpointError::Journal(error), .. }) => return Err(error.into()),
                // Another model cannot continue a partial answer.
                Err(RequestFailed { error, partial: true }) => {
                    return Err(AgentError::Failed(format!("the answer broke off: {}", error.brief())));
                }
                Err(RequestFailed { error, partial: false }) => {
                    if matches!(error, EndpointError::Denied(_)) {
                        denied += 1;
                    } else {
                        tracing::warn!(url = endpoint.client.url(), %error, "an endpoint failed");
                    }
                    failures.push(format!("{}: {}", endpoint.client.model(), error.brief()));
                }
            }
        }
        if unaffordable == failures.len() {
            let again_s = self.budget.again_s();
            let why = format!(
                "the rest of its cost budget (class.cost) is less than the prompt needs, about {prompt_tokens} tokens; it \
                 may continue in {again_s} s"
            );
            // What is whole and does not do was not used up by others.
            let is_whole = self.budget.spent().tokens == 0;
            return Err(if is_whole { AgentError::Rejected(why) } else { AgentError::Exhausted(why) });
        }
        if unaffordable + denied == failures.len() {
            return Err(AgentError::Rejected(format!("no model may be asked: {}", failures.join("; "))));
        }
        Err(AgentError::Failed(format!("no endpoint answered: {}", failures.join("; "))))
    }

    /// Asks one endpoint, if the gate allows it, and charges what that costs.
    async fn request(
        &self,
        endpoint: &EndpointState,
        request: &ChatRequest<'_>,
        sink: &AnswerSink<'_>,
    ) -> Result<Completion, RequestFailed> {
        // Before the gate is asked, which may take long: others spend meanwhile.
        let reserved = self.budget.reserve(request.prompt_tokens.saturating_add(request.max_tokens), endpoint.cost);
        let (name, body) = (format!("{MODELS}/{}", endpoint.client.model()), endpoint.client.body(request));
        // Boxed, or the turn's future would have room for it more than once.
        let answer = Box::pin(endpoint.traced_answer(request, &body, sink));
        let answered = self.tools.decisions().gated_request(endpoint.clearance, &name, &body, answer).await;
        let answered = answered.unwrap_or_else(|refusal| {
            let error = match refusal {
                GateRefusal::Denied(denied) => EndpointError::Denied(denied),
                GateRefusal::Journal(error) => EndpointError::Journal(error),
            };
            Err(RequestFailed { error, partial: false })
        });
        match &answered {
            Ok(completion) => {
                let (input, output) = completion.tokens(request.prompt_tokens);
                reserved.settle(input.saturating_add(output));
            }
            // It was not sent.
            Err(RequestFailed { error: EndpointError::Denied(_) | EndpointError::Journal(_), .. }) => {
                reserved.settle(0);
            }
            // What is broken off stays charged in full.
            Err(RequestFailed { error: EndpointError::Cancelled, .. } | RequestFailed { partial: true, .. }) => {}
            Err(_) => reserved.settle(request.prompt_tokens),
        }
        answered
    }
}

/// Emits the model, the usage and the tool calls of the answer.
async fn close(artifact: &str, completion: &Completion, spent: &Spent, out: &Output) -> Result<(), AgentError> {
    let mut notes = json!({
        "usage": {
            "model": completion.model,
            "finish": completion.finish,
            "inputTokens": spent.input_tokens,
            "outputTokens": spent.output_tokens,
            "estimated": spent.estimated,
        },
    });
    if !spent.calls.is_empty() {
        notes["tools"] = json!(spent.calls);
    }
    let artifact = Artifact {
        artifact_id: artifact.to_owned(),
        name: None,
        description: None,
        parts: vec![Part::data(notes)],
        metadata: None,
        extensions: None,
    };
    out.put(Made::Artifact { artifact, append: spent.pieces > 0, last: true }).await
}

impl Agent for Model {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(async move { self.answer(&turn, &out).await })
    }

    fn is_resumable(&self) -> bool {
        true
    }

    fn unauthorised(&self) -> Vec<String> {
        let refusal = |endpoint: &EndpointState| match endpoint.refused.load(Ordering::Relaxed) {
            0 => None,
            status => Some(format!("{} at {} answered {status}", endpoint.client.model(), endpoint.client.url())),
        };
        self.endpoints.iter().filter_map(refusal).collect()
    }
}

/// The output that an answer is streamed to.
struct AnswerSink<'a> {
    out: &'a Output,
    artifact: &'a str,
    /// Whether a part of it was emitted already.
    before: bool,
}

/// An endpoint failed, before or after it sent a part of the answer.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
struct RequestFailed {
    error: EndpointError,
    partial: bool,
}

impl EndpointState {
    fn expected(&self) -> ExpectedLatency {
        let latency = self.latency.lock().expect("no holder of the latency panics");
        latency.expected(SLOTS, self.slots.available_permits(), self.since.elapsed())
    }

    /// Sends a request, in a span of its own.
    async fn traced_answer(
        &self,
        request: &ChatRequest<'_>,
        body: &Value,
        sink: &AnswerSink<'_>,
    ) -> Result<Completion, RequestFailed> {
        // The names are those of OpenTelemetry's conventions for GenAI.
        let span = context::span(|| {
            tracing::info_span!(
                "chat",
                otel.kind = "client",
                gen_ai.operation.name = "chat",
                gen_ai.request.model = self.client.model(),
                gen_ai.usage.input_tokens = tracing::field::Empty,
                gen_ai.usage.output_tokens = tracing::field::Empty,
                gen_ai.input.messages = tracing::field::Empty,
                gen_ai.output.messages = tracing::field::Empty,
                althing.binding.hash = &*context::binding_hash(),
            )
        });
        context::record(&span, "gen_ai.input.messages", || json!(request.messages).to_string());
        let completion = self.answer(body, request.max_tokens, sink).instrument(span.clone()).await?;
        let (input, output) = completion.tokens(request.prompt_tokens);
        span.record("gen_ai.usage.input_tokens", input).record("gen_ai.usage.output_tokens", output);
        context::record(&span, "gen_ai.output.messages", || completion.text.clone());
        Ok(completion)
    }

    /// Streams the answer to a request that may have so many tokens.
    async fn answer(&self, body: &Value, max_tokens: u64, sink: &AnswerSink<'_>) -> Result<Completion, RequestFailed> {
        self.latency.lock().expect("no holder of the latency panics").queue(1);
        let waiting = QueuedRequest(self);
        let slot = self.slots.clone().acquire_owned().await;
        drop(waiting);
        let _slot = slot.map_err(|_| RequestFailed { error: EndpointError::Cancelled, partial: false })?;
        let begun = Instant::now();
        let _running = RunningRequest::new(self, begun.duration_since(self.since));
        let (mut first, mut text) = (None, String::new());
        let asked = self.client.ask(body).await;
        self.refused.store(asked.as_ref().err().and_then(EndpointError::refused).unwrap_or(0), Ordering::Relaxed);
        let mut stream = asked.map_err(|error| RequestFailed { error, partial: false })?;
        loop {
            let partial = !text.is_empty();
            match stream.next(max_tokens).await {
                Ok(Some(piece)) => {
                    first.get_or_insert_with(|| begun.elapsed());
                    text.push_str(&piece);
                    let put = sink.out.chunk(sink.artifact, piece, sink.before || partial, false).await;
                    put.map_err(|_| RequestFailed { error: EndpointError::Cancelled, partial: true })?;
                }
                Ok(None) => break,
                Err(error) => return Err(RequestFailed { error, partial }),
            }
        }
        let mut latency = self.latency.lock().expect("no holder of the latency panics");
        latency.record(first.unwrap_or_else(|| begun.elapsed()), begun.elapsed());
        Ok(Completion { text, ..stream.completion() })
    }
}

/// Counts a request as queued until it is dropped.
struct QueuedRequest<'a>(&'a EndpointState);

impl Drop for QueuedRequest<'_> {
    fn drop(&mut self) {
        self.0.latency.lock().expect("no holder of the latency panics").queue(-1);
    }
}

/// Counts a request as one that has a slot until it is dropped; with when it began, since its endpoint was made.
struct RunningRequest<'a>(&'a EndpointState, Duration);

impl<'a> RunningRequest<'a> {
    fn new(endpoint: &'a EndpointState, begun: Duration) -> RunningRequest<'a> {
        endpoint.latency.lock().expect("no holder of the latency panics").begin(begun);
        RunningRequest(endpoint, begun)
    }
}

impl Drop for RunningRequest<'_> {
    fn drop(&mut self) {
        self.0.latency.lock().expect("no holder of the latency panics").end(self.1);
    }
}
