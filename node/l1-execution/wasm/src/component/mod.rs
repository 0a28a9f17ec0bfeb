//! Component agents: an instance for each turn, and a state that the task keeps between its turns.
//!
//! WASI is linked, since ordinary compilers need it, and grants nothing: no files, no network, no environment, no arguments;
//! printed output is dropped. Clocks and randomness work; in a turn that has a journal they are the same when it is resumed.

mod budget;
mod kept;
mod limits;
mod memory_call;
mod replay;

use std::sync::Arc;
use std::time::Duration;

use althing_execution::agent::Made;
use althing_execution::journal::JournalError;
use althing_execution::tools::CallRecord;
use althing_execution::{Agent, AgentError, Output, SystemCalls, Turn, agents, steps};
use althing_protocol::Contract;
use althing_protocol::contract::CALLS_PER_TURN_DEFAULT;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Semaphore;
use wasmtime::component::{HasSelf, Linker, ResourceTable};
use wasmtime::{Engine, PoolingAllocationConfig, Store, UpdateDeadline};
use wasmtime_wasi::p2::pipe::SinkOutputStream;
use wasmtime_wasi::{WasiCtx, WasiCtxView, WasiView};

use crate::compiled::Compiled;
use crate::compiler::Compiler;
use crate::engines;
use crate::epochs::Epochs;
use bindings::AgentPre;
use bindings::althing::agent::kernel::Said;
use bindings::althing::agent::turns::Reply;
use bindings::althing::agent::{kernel, memory};
use budget::Spent;
use replay::{Progress, Surroundings};

mod bindings {
    wasmtime::component::bindgen!({
        path: "wit",
        world: "agent",
        imports: { default: async | trappable },
        exports: { default: async },
    });
}

/// The state of a guest for its next turn, bytes; in Base64 it must fit into a task.
const STATE_BYTES_MAX: usize = 45 * 1024;
/// Log output of one turn, bytes.
const LOG_BYTES_MAX: usize = 16 * 1024;
/// The processor time of one turn if the contract sets none.
const BUDGET_DEFAULT: Duration = Duration::from_secs(60);
/// The longest turn, including waiting time.
const TURN_MAX: Duration = Duration::from_secs(600);
/// Core instances, memories and tables of one component.
const PARTS_MAX: usize = 256;
/// Concurrent turns of all components, and of one component, so that none uses the whole pool.
const TURNS_MAX: u32 = 256;
const TURNS_OF_ONE_MAX: usize = 128;

/// The instance pool for concurrent turns.
fn pool() -> PoolingAllocationConfig {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(TURNS_MAX).total_stacks(TURNS_MAX);
    pool.total_core_instances(TURNS_MAX * 8).total_memories(TURNS_MAX * 2).total_tables(TURNS_MAX * 4);
    pool.max_core_instances_per_component(PARTS_MAX as u32).max_memories_per_component(8).max_tables_per_component(16);
    pool.max_component_instance_size(4 << 20).max_core_instance_size(1 << 20).table_elements(64 << 10);
    // Memory of a turn is returned to the system when the turn ends.
    pool.linear_memory_keep_resident(0).table_keep_resident(0);
    pool
}

/// The engine of components.
pub(crate) struct Components {
    engine: Engine,
    epochs: Arc<Epochs>,
    room: Arc<Semaphore>,
    linker: Linker<Data>,
    compiler: Compiler,
    compiled: Compiled<AgentPre<Data>>,
}

impl Components {
    pub fn new(compiler: Compiler) -> Result<Components, String> {
        let config = engines::of_components();
        // A pool recycles instances in microseconds; where the address space does not suffice, instances are allocated on
        // demand.
        let engine = Engine::new(config.clone().allocation_strategy(pool()));
        let engine = engine.or_else(|_| Engine::new(&config)).map_err(|error| error.to_string())?;
        let mut linker = Linker::new(&engine);
        wasmtime_wasi::p2::add_to_linker_async(&mut linker).map_err(|error| error.to_string())?;
        kernel::add_to_linker::<_, HasSelf<Data>>(&mut linker, |data| data).map_err(|error| error.to_string())?;
        memory::add_to_linker::<_, HasSelf<Data>>(&mut linker, |data| data).map_err(|error| error.to_string())?;
        Ok(Components {
            epochs: Arc::new(Epochs::of(engine.weak())?),
            engine,
            room: Arc::new(Semaphore::new(TURNS_MAX as usize)),
            linker,
            compiler,
            compiled: Compiled::default(),
        })
    }

    fn compile(&self, code: &[u8]) -> Result<AgentPre<Data>, String> {
        let component = self.compiler.component(&self.engine, code).map_err(|error| error.to_string())?;
        let linked = self.linker.instantiate_pre(&component).map_err(|error| format!("{error:#}"))?;
        AgentPre::new(linked).map_err(|error| format!("it is not a component of the world `agent`: {error:#}"))
    }

    /// Compiles a component; the contract limits its instances.
    pub fn agent(&self, code: &[u8], contract: &Contract, calls: &SystemCalls) -> Result<Arc<dyn Agent>, String> {
        let linked = self.compiled.get(code, || self.compile(code))?;
        Ok(Arc::new(Guests {
            engine: self.engine.clone(),
            epochs: self.epochs.clone(),
            room: self.room.clone(),
            own_room: Semaphore::new(TURNS_OF_ONE_MAX),
            linked,
            memory_bytes: contract.memory_bytes(),
            budget: contract.compute.cpu_ms_per_turn.map_or(BUDGET_DEFAULT, Duration::from_millis),
            calls_max: contract.compute.calls_per_turn.unwrap_or(CALLS_PER_TURN_DEFAULT),
            calls: calls.clone(),
            // One that is confined does nothing that must not be done twice: its turns write no journal.
            is_resumable: !contract.capabilities.is_empty() || contract.memory.is_some(),
        }))
    }
}

/// Instances of one component.
struct Guests {
    engine: Engine,
    epochs: Arc<Epochs>,
    /// Permits of the engine's pool.
    room: Arc<Semaphore>,
    /// Permits of this component.
    own_room: Semaphore,
    linked: AgentPre<Data>,
    memory_bytes: u64,
    budget: Duration,
    calls_max: u64,
    calls: SystemCalls,
    is_resumable: bool,
}

/// The state of a guest's host functions.
struct Data {
    wasi: WasiCtx,
    table: ResourceTable,
    out: Output,
    artifact: String,
    said: bool,
    logged: usize,
    calls_max: u64,
    calls_left: u64,
    records: Vec<CallRecord>,
    /// Up to the checkpoint from which it goes on, and what it said since, if it may make one.
    progress: Progress,
    surroundings: Option<Surroundings>,
    calls: SystemCalls,
    memory_left: u64,
    /// Whether the last growth exceeded the limit.
    over: bool,
}

impl WasiView for Data {
    fn ctx(&mut self) -> WasiCtxView<'_> {
        WasiCtxView { ctx: &mut self.wasi, table: &mut self.table }
    }
}

impl kernel::Host for Data {
    async fn say(&mut self, text: String) -> wasmtime::Result<()> {
        if text.is_empty() {
            return Ok(());
        }
        if self.surroundings.is_some() {
            self.progress.said.push_str(&text);
        }
        let put = self.out.chunk(&self.artifact, text, self.said, false).await;
        self.said = true;
        put.map_err(|error| wasmtime::Error::msg(error.to_string()))
    }

    async fn log(&mut self, line: String) -> wasmtime::Result<()> {
        if self.logged + line.len() <= LOG_BYTES_MAX {
            self.logged += line.len();
            tracing::info!(line, "an agent's log");
        } else if self.logged < LOG_BYTES_MAX {
            self.logged = LOG_BYTES_MAX;
            tracing::warn!("an agent logs more than a turn may; the rest is dropped");
        }
        Ok(())
    }

    async fn invoke_tool(&mut self, tool: String, arguments: String) -> wasmtime::Result<Result<String, String>> {
        Ok(self.invoke(&tool, &arguments).await.map(|result| result.to_string()))
    }

    async fn send(
        &mut self,
        agent: String,
        message: String,
        task: Option<String>,
    ) -> wasmtime::Result<Result<Said, String>> {
        let mut arguments = json!({ "message": message });
        if let Some(task) = task {
            arguments["task"] = json!(task);
        }
        let tool = format!("{}/{agent}", agents::SERVER);
        Ok(self.invoke(&tool, &arguments.to_string()).await.and_then(|result| said(&result)))
    }

    async fn checkpoint(&mut self, state: Vec<u8>) -> wasmtime::Result<Result<(), String>> {
        let progress = serde_json::to_vec(&self.progress_now());
        let progress = progress.map_err(|error| wasmtime::Error::msg(error.to_string()))?;
        Ok(steps::save(state, progress).await.map_err(|error| error.to_string()))
    }
}

/// The reply of another agent, or an error if its task failed.
fn said(result: &Value) -> Result<Said, String> {
    let text = result["content"][0]["text"].as_str().unwrap_or_default().to_owned();
    let of = &result["structuredContent"];
    let state = of["state"].as_str().unwrap_or_default();
    if result["isError"] == true {
        return Err(format!("its task ended as {state}: {text}"));
    }
    let task = of["task"].as_str().unwrap_or_default().to_owned();
    Ok(Said { task, asks: state == agents::INPUT_REQUIRED, text })
}

impl Data {
    /// Counts a system call, if the turn may make one more.
    fn count_call(&mut self) -> Result<(), String> {
        let left = self.calls_left.checked_sub(1);
        self.calls_left = left.ok_or("the turn has made all the calls that its contract allows")?;
        Ok(())
    }

    /// The records of all calls of the turn.
    fn all_records(&self) -> Vec<Value> {
        self.progress.records.iter().cloned().chain(self.records.iter().map(|record| json!(record))).collect()
    }

    /// How far the turn came, where it may make a checkpoint.
    fn progress_now(&self) -> Progress {
        let Some(surroundings) = &self.surroundings else { return Progress::default() };
        let calls = self.calls_max.saturating_sub(self.calls_left);
        let mut progress = Progress { records: self.all_records(), calls, ..self.progress.clone() };
        surroundings.note(&mut progress);
        progress
    }

    async fn invoke(&mut self, tool: &str, arguments: &str) -> Result<Value, String> {
        self.count_call()?;
        if self.records.is_empty() {
            // The tools are listed once a turn.
            self.calls.tools.listed().await;
        }
        let (outcome, record) = self.calls.tools.invoke(tool, arguments).await;
        self.records.push(record);
        outcome.map_err(|error| error.to_string())
    }
}

impl Guests {
    fn store(&self, artifact: String, out: Output, spent: Arc<Spent>, progress: Progress) -> Store<Data> {
        let mut wasi = WasiCtx::builder();
        wasi.stdout(SinkOutputStream).stderr(SinkOutputStream);
        wasi.allow_tcp(false).allow_udp(false).allow_ip_name_lookup(false);
        let surroundings = Surroundings::current(&progress);
        if let Some(surroundings) = &surroundings {
            surroundings.provide(&mut wasi);
        }
        let data = Data {
            wasi: wasi.build(),
            table: ResourceTable::new(),
            out,
            artifact,
            said: !progress.said.is_empty(),
            logged: 0,
            calls_max: self.calls_max,
            calls_left: self.calls_max.saturating_sub(progress.calls),
            records: Vec::new(),
            progress,
            surroundings,
            calls: self.calls.clone(),
            memory_left: self.memory_bytes,
            over: false,
        };
        let mut store = Store::new(&self.engine, data);
        store.limiter(|data| data);
        store.set_epoch_deadline(1);
        // Epochs end each tick for all guests; the guest's own processor time decides.
        let budget_ns = u64::try_from(self.budget.as_nanos()).unwrap_or(u64::MAX);
        store.epoch_deadline_callback(move |_| {
            if spent.ns() >= budget_ns { Ok(UpdateDeadline::Interrupt) } else { Ok(UpdateDeadline::Yield(1)) }
        });
        store
    }

    async fn run(&self, turn: Turn, out: Output) -> Result<(), AgentError> {
        // Fails instead of waiting: a turn that waits for an answer holds a permit, so waiting could deadlock.
        let (Ok(_own_room), Ok(_room)) = (self.own_room.try_acquire(), self.room.try_acquire()) else {
            let reason = format!(
                "this node is crowded: it runs {TURNS_MAX} turns of components, {TURNS_OF_ONE_MAX} of one; try again"
            );
            return Err(AgentError::Busy(reason));
        };
        let artifact = format!("answer-{}", turn.history.len() + 1);
        let spent = Arc::<Spent>::default();
        let (state, progress) = start(&turn)?;
        if !progress.said.is_empty() {
            out.chunk(&artifact, progress.said.clone(), false, false).await?;
        }
        let mut store = self.store(artifact, out, spent.clone(), progress);
        let working = spent.on(&self.epochs, self.work(&mut store, &turn, state));
        let Ok(outcome) = tokio::time::timeout(TURN_MAX, working).await else {
            return Err(AgentError::Failed(format!("it was stopped: a turn takes {} s at most", TURN_MAX.as_secs())));
        };
        let data = store.into_data();
        let (reply, state) = match outcome {
            Ok(Ok(made)) => made,
            Ok(Err(reason)) => return Err(AgentError::Failed(reason)),
            Err(error) if data.over => {
                return Err(AgentError::OverBudget(format!(
                    "it exceeded its {} bytes of memory: {error:#}",
                    self.memory_bytes
                )));
            }
            Err(error) => {
                let budget_ms = self.budget.as_millis();
                return Err(match error.downcast_ref::<wasmtime::Trap>() {
                    Some(wasmtime::Trap::Interrupt) => {
                        AgentError::OverBudget(format!("it was stopped: it exceeded its {budget_ms} ms"))
                    }
                    Some(_) => AgentError::Crash(format!("it failed: {error:#}")),
                    None => AgentError::Failed(format!("it failed: {error:#}")),
                });
            }
        };
        if let Some(state) = state {
            data.out.put(Made::Remember(STANDARD.encode(state))).await?;
        }
        let out = data.out.clone();
        match reply {
            Reply::Done(last) => close(data, last).await,
            Reply::Ask(question) => {
                close(data, String::new()).await?;
                out.ask(&turn, question).await
            }
        }
    }

    /// Runs the turn from that state, if there is one; gives its answer and its state, or the error of the guest.
    async fn work(
        &self,
        store: &mut Store<Data>,
        turn: &Turn,
        state: Option<Vec<u8>>,
    ) -> wasmtime::Result<Result<(Reply, Option<Vec<u8>>), String>> {
        let instance = self.linked.instantiate_async(&mut *store).await?;
        if let Some(state) = state {
            instance.call_restore(&mut *store, &state).await?;
        }
        let reply = match instance.call_on_message(&mut *store, &turn.text()).await? {
            Ok(reply) => reply,
            Err(reason) => return Ok(Err(reason)),
        };
        let state = instance.call_checkpoint(&mut *store).await?;
        if state.len() > STATE_BYTES_MAX {
            return Ok(Err(format!("its state has {} bytes, and {STATE_BYTES_MAX} is the most", state.len())));
        }
        Ok(Ok((reply, (!state.is_empty()).then_some(state))))
    }
}

/// From what a turn begins: from its last checkpoint if it is resumed and made one, or else from what an earlier turn kept.
fn start(turn: &Turn) -> Result<(Option<Vec<u8>>, Progress), AgentError> {
    let Some(checkpoint) = steps::checkpoint() else {
        let kept = turn.remembered.as_deref().and_then(|kept| STANDARD.decode(kept).ok());
        return Ok((kept, Progress::default()));
    };
    let damaged = |_| JournalError::Damaged { what: "its checkpoint says not how far the turn came".to_owned() };
    let progress = serde_json::from_slice(&checkpoint.progress).map_err(damaged)?;
    Ok((Some(checkpoint.state), progress))
}

/// Emits the last text and the records of the tool calls.
async fn close(data: Data, last: String) -> Result<(), AgentError> {
    let records = data.all_records();
    let Data { out, artifact, said, .. } = data;
    let mut parts = Vec::new();
    if !last.is_empty() {
        parts.push(a2a::Part::text(last));
    }
    if !records.is_empty() {
        parts.push(a2a::Part::data(json!({ "tools": records })));
    }
    if parts.is_empty() {
        return Ok(());
    }
    let artifact =
        a2a::Artifact { artifact_id: artifact, name: None, description: None, parts, metadata: None, extensions: None };
    out.put(Made::Artifact { artifact, append: said, last: true }).await
}

impl Agent for Guests {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(self.run(turn, out))
    }

    fn turns_max(&self) -> Option<usize> {
        Some(TURNS_OF_ONE_MAX)
    }

    fn is_enclosed(&self) -> bool {
        true
    }

    fn is_resumable(&self) -> bool {
        self.is_resumable
    }
}
