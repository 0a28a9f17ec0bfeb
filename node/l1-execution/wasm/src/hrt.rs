//! Hard real-time guests: core modules whose function `turn` is one job.
//!
//! A guest imports from `althing`: `input(place) -> f64` and `output(place, f64)` for the signals of its contract, and
//! `time_us() -> i64`, the microseconds from its first release to this one. Its memory is resident before its first job, and
//! does not grow.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::compiled::Compiled;
use crate::compiler::{CompileError, Compiler};
use crate::engines;
use althing_execution::hrt::{Fiber, Interrupt, Progress, SIGNALS_MAX, Template, Values};
use althing_execution::kernel::HardRuntime;
use wasmtime::{
    Caller, Engine, EngineWeak, Instance, InstancePre, Linker, Memory, Module, ResourceLimiter, Store, TypedFunc,
    UpdateDeadline,
};

/// The longest module, bytes; components have limits of their own.
pub const MODULE_BYTES_MAX: usize = 1024 * 1024;
/// Checks, 100 ms apart, after which a module that is still starting is aborted.
const START_LOOKS: u64 = 10;
const LOOK: Duration = Duration::from_millis(100);
/// The stride in which memory pages are touched.
const PAGE: usize = 4096;

/// Why a module cannot be run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ModuleError {
    /// It is too long.
    #[error("the module has {0} bytes, and at most {MODULE_BYTES_MAX} are taken; shorten it, or make it a component")]
    TooLarge(usize),
    /// It is malformed.
    #[error("this is not a WebAssembly module that can be run: {0}")]
    Compile(String),
    /// Compiling it exceeded a limit, or is not possible here.
    #[error("the module is not compiled: {0}")]
    Compiler(CompileError),
    /// It imports something that is not provided.
    #[error(
        "the module imports what no module is given: {0}; there are `input`, `output` and `time_us` of `althing`, and what \
         needs more is built as a component"
    )]
    Import(String),
    /// It does not export a job.
    #[error("the module exports no function `turn` without parameters and results")]
    NoTurn,
    /// Its memory cannot be made resident.
    #[error("the module has a memory that it does not export as `memory`, so it cannot be made resident")]
    HiddenMemory,
    /// It could not be instantiated.
    #[error("the module does not start: {0}")]
    Start(String),
}

impl From<CompileError> for ModuleError {
    fn from(error: CompileError) -> ModuleError {
        match error {
            CompileError::Refused(why) => ModuleError::Compile(why),
            error => ModuleError::Compiler(error),
        }
    }
}

/// The engine of one executor's guests; its epoch interrupts them.
#[derive(Clone)]
pub struct Hard {
    engine: Engine,
    compiler: Compiler,
    compiled: Arc<Compiled<Module>>,
}

impl Hard {
    /// An engine of its own, which compiles in this process.
    ///
    /// # Errors
    /// When this machine cannot run WebAssembly.
    pub fn new() -> Result<Hard, ModuleError> {
        Hard::compiled_by(Compiler::in_process())
    }

    /// An engine of its own.
    ///
    /// # Errors
    /// When this machine cannot run WebAssembly.
    pub fn compiled_by(compiler: Compiler) -> Result<Hard, ModuleError> {
        let engine = Engine::new(&engines::of_modules()).map_err(|error| ModuleError::Compile(error.to_string()))?;
        Ok(Hard { engine, compiler, compiled: Arc::default() })
    }

    /// The engine, while it is in use.
    pub(crate) fn weak(&self) -> EngineWeak {
        self.engine.weak()
    }

    /// Compiles a module (binary or text) whose guests have at most that much memory, and instantiates one as a test.
    ///
    /// # Errors
    /// See [`ModuleError`].
    pub fn template(&self, module: &[u8], memory_bytes: u64) -> Result<Arc<dyn Template>, ModuleError> {
        if module.len() > MODULE_BYTES_MAX {
            return Err(ModuleError::TooLarge(module.len()));
        }
        let compiled = |error: wasmtime::Error| ModuleError::Compile(format!("{error:#}"));
        let module = self.compiled.get(module, || self.compiler.module(&self.engine, module))?;
        let mut linker = Linker::new(&self.engine);
        imports(&mut linker).map_err(compiled)?;
        let linked = linker.instantiate_pre(&module).map_err(|error| ModuleError::Import(format!("{error:#}")))?;
        let has_turn = module.get_export("turn").and_then(|export| export.func().cloned());
        if has_turn.is_none_or(|turn| turn.params().len() + turn.results().len() > 0) {
            return Err(ModuleError::NoTurn);
        }
        let exported = module.get_export("memory").is_some_and(|export| export.memory().is_some());
        if module.resources_required().num_memories > u32::from(exported) {
            return Err(ModuleError::HiddenMemory);
        }
        let template = Guests { engine: self.engine.clone(), linked, memory_bytes };
        template.make().map_err(ModuleError::Start)?;
        Ok(Arc::new(template))
    }
}

impl HardRuntime for Hard {
    fn template(&self, module: &[u8], memory_bytes: u64) -> Result<Arc<dyn Template>, String> {
        Hard::template(self, module, memory_bytes).map_err(|error| error.to_string())
    }
}

impl Interrupt for Hard {
    fn interrupt(&self) {
        self.engine.increment_epoch();
    }
}

/// The state of a guest's host functions.
struct Data {
    inputs: Values,
    outputs: Values,
    time_us: u64,
    memory_bytes: u64,
    /// Set once jobs run: memory and tables do not grow any more.
    starting: bool,
}

impl ResourceLimiter for Data {
    fn memory_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.starting && desired as u64 <= self.memory_bytes)
    }

    fn table_growing(&mut self, _: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        Ok(self.starting && desired <= PAGE)
    }

    fn instances(&self) -> usize {
        1
    }

    fn memories(&self) -> usize {
        1
    }

    fn tables(&self) -> usize {
        4
    }
}

fn imports(linker: &mut Linker<Data>) -> wasmtime::Result<()> {
    let place = |at: i32| usize::try_from(at).ok().filter(|at| *at < SIGNALS_MAX);
    linker.func_wrap("althing", "input", move |caller: Caller<'_, Data>, at: i32| {
        let at = place(at).ok_or_else(|| wasmtime::Error::msg("there is no such input"))?;
        Ok(caller.data().inputs[at])
    })?;
    linker.func_wrap("althing", "output", move |mut caller: Caller<'_, Data>, at: i32, value: f64| {
        let at = place(at).ok_or_else(|| wasmtime::Error::msg("there is no such output"))?;
        caller.data_mut().outputs[at] = value;
        Ok(())
    })?;
    linker.func_wrap("althing", "time_us", |caller: Caller<'_, Data>| caller.data().time_us.cast_signed())?;
    Ok(())
}

/// Guests of one module.
struct Guests {
    engine: Engine,
    linked: InstancePre<Data>,
    memory_bytes: u64,
}

impl Template for Guests {
    fn make(&self) -> Result<Box<dyn Fiber>, String> {
        let memory_bytes = self.memory_bytes;
        let data =
            Data { inputs: [0.0; SIGNALS_MAX], outputs: [0.0; SIGNALS_MAX], time_us: 0, memory_bytes, starting: true };
        let mut store = Store::new(&self.engine, data);
        store.limiter(|data| data);
        let instance = self.start(&mut store)?;
        store.data_mut().starting = false;
        if let Some(memory) = instance.get_memory(&mut store, "memory") {
            make_resident(&memory, &mut store);
        }
        let turn = instance.get_typed_func::<(), ()>(&mut store, "turn").map_err(|error| error.to_string())?;
        store.epoch_deadline_async_yield_and_update(1);
        let exchange = Arc::new(Mutex::new(Exchange::default()));
        let jobs = Box::pin(jobs(store, turn, exchange.clone()));
        Ok(Box::new(Guest { jobs, exchange, outputs: [0.0; SIGNALS_MAX] }))
    }
}

impl Guests {
    /// Runs the module's start function, for a bounded time.
    fn start(&self, store: &mut Store<Data>) -> Result<Instance, String> {
        store.set_epoch_deadline(1);
        let begun = althing_execution::realtime::now_ns();
        let limit = u64::try_from(LOOK.as_nanos()).unwrap_or(u64::MAX) * START_LOOKS;
        store.epoch_deadline_callback(move |_| {
            // Interrupts for other guests arrive too, so the clock decides.
            let over = althing_execution::realtime::now_ns().saturating_sub(begun) > limit;
            if over { Ok(UpdateDeadline::Interrupt) } else { Ok(UpdateDeadline::Continue(1)) }
        });
        let engine = self.engine.clone();
        std::thread::scope(|scope| {
            let (done, waiting) = std::sync::mpsc::sync_channel::<()>(0);
            scope.spawn(move || {
                while let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = waiting.recv_timeout(LOOK) {
                    engine.increment_epoch();
                }
            });
            let started = self.linked.instantiate(&mut *store).map_err(|error| format!("{error:#}"));
            drop(done);
            started
        })
    }
}

/// Touches every page, and locks it in memory if that is permitted.
fn make_resident(memory: &Memory, store: &mut Store<Data>) {
    let bytes = memory.data_mut(&mut *store);
    for page in bytes.chunks_mut(PAGE) {
        page[0] = std::hint::black_box(page[0]);
    }
    lock(bytes);
}

#[expect(unsafe_code, reason = "mlock changes nothing that Rust knows of")]
fn lock(bytes: &[u8]) {
    let start = std::ptr::NonNull::from(bytes).cast();
    // SAFETY: the range is that of a live slice, and locking it changes neither its bytes nor its mapping.
    if let Err(error) = unsafe { nix::sys::mman::mlock(start, bytes.len()) } {
        tracing::debug!(%error, bytes = bytes.len(), "a guest's memory is touched, but could not be locked");
    }
}

/// Connects a guest's jobs to their caller; both are on the executor's thread.
struct Exchange {
    inputs: Values,
    outputs: Values,
    time_us: u64,
    state: State,
}

#[derive(PartialEq)]
enum State {
    Idle,
    Begun,
    Done,
}

impl Default for Exchange {
    fn default() -> Exchange {
        Exchange { inputs: [0.0; SIGNALS_MAX], outputs: [0.0; SIGNALS_MAX], time_us: 0, state: State::Idle }
    }
}

fn held(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    exchange.lock().expect("no holder of the exchange panics")
}

/// Runs jobs until one fails; gives the reason.
async fn jobs(mut store: Store<Data>, turn: TypedFunc<(), ()>, exchange: Arc<Mutex<Exchange>>) -> String {
    loop {
        poll_fn(|_| {
            let begun = held(&exchange).state == State::Begun;
            if begun { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
        {
            let given = held(&exchange);
            let data = store.data_mut();
            (data.inputs, data.time_us) = (given.inputs, given.time_us);
        }
        store.set_epoch_deadline(1);
        if let Err(error) = turn.call_async(&mut store, ()).await {
            return format!("{error:#}");
        }
        let mut made = held(&exchange);
        made.outputs = store.data().outputs;
        made.state = State::Done;
    }
}

/// One instance, with its current job.
struct Guest {
    jobs: Pin<Box<dyn Future<Output = String> + Send>>,
    exchange: Arc<Mutex<Exchange>>,
    outputs: Values,
}

impl Fiber for Guest {
    fn begin(&mut self, inputs: &Values, time_us: u64) {
        let mut exchange = held(&self.exchange);
        (exchange.inputs, exchange.time_us, exchange.state) = (*inputs, time_us, State::Begun);
    }

    fn resume(&mut self) -> Progress {
        if let Poll::Ready(why) = self.jobs.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return Progress::Failed(why);
        }
        let mut exchange = held(&self.exchange);
        if exchange.state != State::Done {
            return Progress::Interrupted;
        }
        exchange.state = State::Idle;
        self.outputs = exchange.outputs;
        Progress::Done
    }

    fn outputs(&self) -> &Values {
        &self.outputs
    }
}
