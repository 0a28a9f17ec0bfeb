//! Turns of components whose node ends at each write, and that go on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use a2a::{Message, Part, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::journal::{
    CHECKPOINT_BYTES_MAX, Checkpoint, Intent, Journal, JournalError, NextStep, Reading, Replay, Step, StepOutcome,
};
use althing_execution::kernel::{Kernel, KernelConfig};
use althing_execution::process::ProcessConfig;
use althing_execution::steps::current_key_text;
use althing_execution::tools::{Definition, Fault, Permit, ToolServer};
use althing_execution::{AgentError, Builtins, Host, Output, Ports, Scheduling, Turn, TurnRights};
use althing_store::Batch;
use althing_td::AgentFile;
use althing_wasm::Soft;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// Tells a tool a random number, the time of day and the time since the turn began, one after another, and says each. Told
/// `save`, it saves after each of them how many it told; told `x` or `large`, it only saves, and answers why it cannot.
const TELLS: &str = r#"(component
  (import "wasi:random/random@0.2.0" (instance $random (export "get-random-u64" (func (result u64)))))
  (import "wasi:clocks/monotonic-clock@0.2.0" (instance $monotonic (export "now" (func (result u64)))))
  (import "wasi:clocks/wall-clock@0.2.0" (instance $wall
    (type $datetime' (record (field "seconds" u64) (field "nanoseconds" u32)))
    (export "datetime" (type $datetime (eq $datetime')))
    (export "now" (func (result $datetime)))))
  (import "althing:agent/kernel@0.1.0" (instance $kernel
    (export "say" (func (param "text" string)))
    (export "invoke-tool"
      (func (param "tool" string) (param "arguments" string) (result (result string (error string)))))
    (export "checkpoint" (func (param "state" (list u8)) (result (result (error string)))))))
  (import "althing:agent/turns@0.1.0" (instance $turns
    (type $reply' (variant (case "done" string) (case "ask" string)))
    (export "reply" (type (eq $reply')))))
  (alias export $turns "reply" (type $reply))
  (alias export $random "get-random-u64" (func $host-random))
  (alias export $monotonic "now" (func $host-monotonic))
  (alias export $wall "now" (func $host-wall))
  (alias export $kernel "say" (func $host-say))
  (alias export $kernel "invoke-tool" (func $host-invoke))
  (alias export $kernel "checkpoint" (func $host-checkpoint))
  (core module $room
    (memory (export "memory") 20)
    (data (i32.const 256) "count/add")
    (data (i32.const 288) "{\"at\":\"0123456789abcdef\"}")
    (data (i32.const 320) "0123456789abcdef")
    (global $free (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32) (param $bytes i32) (result i32)
      (local $at i32)
      (local.set $at (global.get $free))
      (global.set $free (i32.and (i32.add (i32.add (local.get $at) (local.get $bytes)) (i32.const 7)) (i32.const -8)))
      (local.get $at)))
  (core instance $mem (instantiate $room))
  (alias core export $mem "memory" (core memory $memory))
  (alias core export $mem "realloc" (core func $realloc))
  (core func $random (canon lower (func $host-random)))
  (core func $monotonic (canon lower (func $host-monotonic)))
  (core func $wall (canon lower (func $host-wall) (memory $memory)))
  (core func $say (canon lower (func $host-say) (memory $memory)))
  (core func $invoke (canon lower (func $host-invoke) (memory $memory) (realloc $realloc)))
  (core func $checkpoint (canon lower (func $host-checkpoint) (memory $memory) (realloc $realloc)))
  (core module $code
    (import "host" "memory" (memory 20))
    (import "host" "random" (func $random (result i64)))
    (import "host" "monotonic" (func $monotonic (result i64)))
    (import "host" "wall" (func $wall (param i32)))
    (import "host" "say" (func $say (param i32 i32)))
    (import "host" "invoke" (func $invoke (param i32 i32 i32 i32 i32)))
    (import "host" "checkpoint" (func $checkpoint (param i32 i32 i32)))
    (global $done (mut i32) (i32.const 0))
    (func $write (param $value i64)
      (local $digit i32)
      (loop $next
        (i32.store8
          (i32.add (i32.const 295) (local.get $digit))
          (i32.load8_u
            (i32.add
              (i32.const 320)
              (i32.wrap_i64
                (i64.and
                  (i64.shr_u
                    (local.get $value)
                    (i64.extend_i32_u (i32.mul (i32.sub (i32.const 15) (local.get $digit)) (i32.const 4))))
                  (i64.const 15))))))
        (local.set $digit (i32.add (local.get $digit) (i32.const 1)))
        (br_if $next (i32.lt_u (local.get $digit) (i32.const 16)))))
    (func $value (result i64)
      (if (i32.eqz (global.get $done)) (then (return (call $random))))
      (if (i32.eq (global.get $done) (i32.const 2)) (then (return (call $monotonic))))
      (call $wall (i32.const 352))
      (i64.add
        (i64.mul (i64.load (i32.const 352)) (i64.const 1000000000))
        (i64.extend_i32_u (i32.load (i32.const 360)))))
    (func $save (param $bytes i32)
      (i32.store8 (i32.const 384) (global.get $done))
      (call $checkpoint (i32.const 384) (local.get $bytes) (i32.const 400)))
    (func (export "on-message") (param $at i32) (param $length i32) (result i32)
      (local $first i32)
      (local.set $first (i32.load8_u (local.get $at)))
      (i64.store (i32.const 16) (i64.const 0))
      (i64.store (i32.const 24) (i64.const 0))
      (if (i32.eq (local.get $first) (i32.const 120)) (then (call $save (i32.const 1))))
      (if (i32.eq (local.get $first) (i32.const 108)) (then (call $save (i32.const 1048577))))
      (if (i32.or (i32.eq (local.get $first) (i32.const 120)) (i32.eq (local.get $first) (i32.const 108)))
        (then
          (if (i32.load8_u (i32.const 400))
            (then
              (i32.store (i32.const 24) (i32.load (i32.const 404)))
              (i32.store (i32.const 28) (i32.load (i32.const 408)))))
          (return (i32.const 16))))
      (block $over
        (loop $next
          (br_if $over (i32.ge_u (global.get $done) (i32.const 3)))
          (call $write (call $value))
          (call $invoke (i32.const 256) (i32.const 9) (i32.const 288) (i32.const 25) (i32.const 416))
          (call $say (i32.const 295) (i32.const 16))
          (global.set $done (i32.add (global.get $done) (i32.const 1)))
          (if (i32.eq (local.get $first) (i32.const 115)) (then (call $save (i32.const 1))))
          (br $next)))
      (i32.const 16))
    (func (export "checkpoint") (result i32) (i64.store (i32.const 32) (i64.const 0)) (i32.const 32))
    (func (export "restore") (param $at i32) (param $length i32)
      (global.set $done (i32.load8_u (local.get $at)))))
  (core instance $it (instantiate $code
    (with "host" (instance
      (export "memory" (memory $memory))
      (export "random" (func $random))
      (export "monotonic" (func $monotonic))
      (export "wall" (func $wall))
      (export "say" (func $say))
      (export "invoke" (func $invoke))
      (export "checkpoint" (func $checkpoint))))))
  (func (export "on-message") (param "text" string) (result (result $reply (error string)))
    (canon lift (core func $it "on-message") (memory $memory) (realloc $realloc)))
  (func (export "checkpoint") (result (list u8)) (canon lift (core func $it "checkpoint") (memory $memory)))
  (func (export "restore") (param "state" (list u8))
    (canon lift (core func $it "restore") (memory $memory) (realloc $realloc))))"#;

/// A step as it is on disk.
#[derive(Clone)]
struct Row {
    name: String,
    arguments: Value,
    outcome: Option<StepOutcome>,
}

/// What is on disk of a turn.
#[derive(Clone, Default)]
struct Paper {
    rows: Vec<Row>,
    readings: Vec<Reading>,
    checkpoint: Option<Checkpoint>,
    /// Steps before the checkpoint.
    before: usize,
}

/// The journal of a turn whose node ends when so many rows were written.
struct Disk {
    paper: Arc<Mutex<Paper>>,
    next: AtomicUsize,
    /// Readings that are told again, and those that are on no paper yet.
    tape: Mutex<(VecDeque<Reading>, Vec<Reading>)>,
    left: Mutex<usize>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("nobody panics with it")
}

impl Disk {
    fn of(paper: &Arc<Mutex<Paper>>, left: usize) -> TurnRights {
        let told = lock(paper).readings.iter().copied().collect();
        let (next, tape) = (AtomicUsize::new(lock(paper).before), Mutex::new((told, Vec::new())));
        let disk = Disk { paper: paper.clone(), next, tape, left: Mutex::new(left) };
        TurnRights { lease: None, journal: Some(Arc::new(disk)) }
    }

    /// The paper, to be written on.
    fn write(&self) -> Result<MutexGuard<'_, Paper>, JournalError> {
        let mut left = lock(&self.left);
        *left = left.checked_sub(1).ok_or(JournalError::Write)?;
        let mut paper = lock(&self.paper);
        paper.readings.append(&mut lock(&self.tape).1);
        Ok(paper)
    }

    fn reach(&self, step: &Step<'_>) -> Result<NextStep, JournalError> {
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        let seq = u32::try_from(place).expect("few steps");
        let intent = Intent { seq, key: [seq.to_be_bytes()[3]; 32], callee: None };
        let known = {
            let paper = lock(&self.paper);
            paper.rows.get(place - paper.before).cloned()
        };
        let Some(row) = known else {
            let (name, arguments) = (step.name.to_owned(), step.arguments.clone());
            self.write()?.rows.push(Row { name, arguments, outcome: None });
            return Ok(NextStep::Go(intent, Permit::default()));
        };
        if row.name != step.name || row.arguments != *step.arguments {
            return Err(JournalError::Diverged { seq, was: row.name, came: step.name.to_owned() });
        }
        Ok(row.outcome.map_or(NextStep::Go(intent, Permit::default()), NextStep::Replayed))
    }

    fn finish(&self, intent: &Intent, outcome: &StepOutcome) -> Result<(), JournalError> {
        let mut paper = self.write()?;
        let place = usize::try_from(intent.seq).expect("few steps") - paper.before;
        paper.rows[place].outcome = Some(outcome.clone());
        Ok(())
    }

    fn put(&self, checkpoint: &Checkpoint) -> Result<(), JournalError> {
        let mut paper = self.write()?;
        let before = paper.before + paper.rows.len();
        *paper = Paper { checkpoint: Some(checkpoint.clone()), before, ..Paper::default() };
        Ok(())
    }
}

impl Journal for Disk {
    fn step<'a>(&'a self, step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        Box::pin(std::future::ready(self.reach(&step)))
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        _: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(self.finish(&intent, outcome)))
    }

    fn replay(&self) -> Option<&dyn Replay> {
        Some(self)
    }
}

impl Replay for Disk {
    fn seed(&self) -> [u8; 32] {
        [9; 32]
    }

    fn read_clock(&self, now: Reading) -> Result<Reading, JournalError> {
        let mut tape = lock(&self.tape);
        let told = tape.0.pop_front();
        if told.is_none() {
            tape.1.push(now);
        }
        Ok(told.unwrap_or(now))
    }

    fn checkpoint(&self) -> Option<Checkpoint> {
        lock(&self.paper).checkpoint.clone()
    }

    fn save<'a>(&'a self, checkpoint: &'a Checkpoint) -> BoxFuture<'a, Result<(), JournalError>> {
        Box::pin(std::future::ready(self.put(checkpoint)))
    }

    fn done_with<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        self.done(intent, outcome, rows)
    }
}

/// Notes what it is told under each key, each time.
#[derive(Default)]
struct Count(Mutex<BTreeMap<String, Vec<String>>>);

impl ToolServer for Count {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(vec![Definition::new("add", "Counts.", json!({}))]) })
    }

    fn call<'a>(&'a self, _: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        let at = arguments["at"].as_str().unwrap_or_default().to_owned();
        lock(&self.0).entry(current_key_text().unwrap_or_default()).or_default().push(at);
        Box::pin(std::future::ready(Ok(json!({ "content": [] }))))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// A node with the component.
struct Node {
    host: Host,
    count: Arc<Count>,
    _folder: tempfile::TempDir,
}

impl Node {
    fn new(capabilities: &[&str]) -> Node {
        let count = Arc::<Count>::default();
        let server: Arc<dyn ToolServer> = count.clone();
        let ports = Ports { connect: Arc::new(move |_, _, _| server.clone()), ..Ports::none() };
        let hard = || Err("nothing hard runs here".to_owned());
        let kernel = Kernel::start(KernelConfig::default(), hard).expect("threads");
        let scheduling = Scheduling { kernel, soft: Arc::new(Soft::default()) };
        let host = Host::scheduled(Builtins::new(), ProcessConfig::default(), scheduling, ports);
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("tells.wat"), TELLS).expect("a file");
        let file = json!({
            "name": "tells",
            "description": "Tells a tool the time",
            "runtime": { "wasm": { "module": "tells.wat" } },
            "tools": { "count": { "command": ["none"], "effect": "keyed" } },
            "contract": { "class": { "latency": "srt" }, "capabilities": capabilities },
        });
        let file = AgentFile::parse(&file.to_string()).expect("an agent file");
        tokio::task::block_in_place(|| host.start(&file, folder.path())).expect("it starts");
        Node { host, count, _folder: folder }
    }

    /// Runs a turn; the text of its artifact, and how it ended.
    async fn run(&self, text: &str, rights: TurnRights) -> (String, Result<(), AgentError>) {
        let (out, mut outputs) = Output::channel();
        let turn = Turn {
            task_id: "task".to_owned(),
            context_id: "context".to_owned(),
            message: Message::new(Role::User, vec![Part::text(text)]),
            history: Vec::new(),
            artifacts: Vec::new(),
            remembered: None,
            parameters: Parameters { rights, ..Parameters::default() },
        };
        let taken = async {
            let mut said = String::new();
            while let Some(made) = outputs.recv().await {
                let Made::Artifact { artifact, append, .. } = made else { continue };
                if !append {
                    said.clear();
                }
                artifact.parts.iter().filter_map(Part::as_text).for_each(|text| said.push_str(text));
            }
            said
        };
        let (ended, said) = tokio::join!(self.host.turn("tells", turn, out), taken);
        (said, ended)
    }

    /// What the tool was told, by the keys of the calls.
    fn told(&self) -> BTreeMap<String, Vec<String>> {
        std::mem::take(&mut *lock(&self.count.0))
    }
}

/// Ends the node of a turn at each write in turn; the turn goes on, and what it told and said is whole.
async fn goes_on_at_each_write(message: &str, writes: usize) {
    let node = Node::new(&["count/add"]);
    for left in 0..=writes {
        let paper = Arc::new(Mutex::new(Paper::default()));
        let (_, ended) = node.run(message, Disk::of(&paper, left)).await;
        if left < writes {
            assert_eq!(ended, Err(AgentError::Journal(JournalError::Write)), "{message}, {left} writes");
        } else {
            assert_eq!(ended, Ok(()), "{message}, {left} writes");
        }
        let (said, ended) = node.run(message, Disk::of(&paper, usize::MAX)).await;
        assert_eq!(ended, Ok(()), "{message}, after {left} writes");
        let told = node.told();
        assert_eq!(told.len(), 3, "{message}, after {left} writes: {told:?}");
        let mut whole = String::new();
        for attempts in told.values() {
            assert!(attempts.iter().all(|at| *at == attempts[0]), "{message}, after {left} writes: {told:?}");
            whole.push_str(&attempts[0]);
        }
        assert_eq!(said, whole, "{message}, after {left} writes");
        assert!(said.starts_with(&Box::pin(first_random()).await), "{message}, after {left} writes");
    }
}

/// What the first random number of these turns is, which all have one seed: as one says that is never cut off.
async fn first_random() -> String {
    static FIRST: tokio::sync::OnceCell<String> = tokio::sync::OnceCell::const_new();
    let first = async {
        let node = Node::new(&["count/add"]);
        let (said, ended) = node.run("plain", Disk::of(&Arc::default(), usize::MAX)).await;
        assert_eq!(ended, Ok(()));
        said[..16].to_owned()
    };
    Box::pin(FIRST.get_or_init(|| first)).await.clone()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_runs_again_with_the_same_time_and_randomness_and_makes_no_call_twice() {
    // An intent and a result of each call.
    Box::pin(goes_on_at_each_write("plain", 6)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_turn_goes_on_from_its_last_checkpoint_with_what_it_said_before() {
    // And a checkpoint after each.
    Box::pin(goes_on_at_each_write("save", 9)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn time_goes_on_after_a_checkpoint_and_calls_count() {
    let node = Node::new(&["count/add"]);
    let paper = Arc::new(Mutex::new(Paper::default()));
    let ended = node.run("save", Disk::of(&paper, usize::MAX)).await.1;
    assert_eq!(ended, Ok(()));
    let checkpoint = lock(&paper).checkpoint.clone().expect("it saved");
    assert_eq!(checkpoint.state, [3]);
    let progress: Value = serde_json::from_slice(&checkpoint.progress).expect("JSON");
    let told = node.told();
    let monotonic = u64::from_str_radix(&told.values().last().expect("three")[0], 16).expect("digits");
    assert_eq!((&progress["calls"], &progress["monotonicNs"]), (&json!(3), &json!(monotonic)));
    assert_eq!(progress["records"].as_array().map(Vec::len), Some(3));
    // It goes on with nothing left to do, and says all of it.
    let (said, ended) = node.run("save", Disk::of(&paper, usize::MAX)).await;
    assert_eq!((said.len(), ended, node.told().len()), (48, Ok(()), 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_is_not_made_is_refused_with_the_reason_and_the_turn_goes_on() {
    let node = Node::new(&["count/add"]);
    let paper = Arc::new(Mutex::new(Paper::default()));
    let (said, ended) = node.run("large", Disk::of(&paper, usize::MAX)).await;
    assert_eq!(ended, Ok(()));
    let sizes = [CHECKPOINT_BYTES_MAX, CHECKPOINT_BYTES_MAX + 1].map(|bytes| bytes.to_string());
    assert!(sizes.iter().all(|bytes| said.contains(bytes)), "{said}");
    assert!(lock(&paper).checkpoint.is_none());
    // Without a journal there is none either.
    let (said, ended) = node.run("x", TurnRights::default()).await;
    assert!(ended.is_ok() && said.contains("no journal"), "{said}");
    let (said, ended) = node.run("save", TurnRights::default()).await;
    assert_eq!((said.len(), ended, node.told().len()), (48, Ok(()), 1), "without keys");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_step_stops_the_turn_and_a_damaged_checkpoint_too() {
    let node = Node::new(&["count/add"]);
    let paper = Arc::new(Mutex::new(Paper::default()));
    let first = node.run("plain", Disk::of(&paper, 2)).await.1;
    assert_eq!(first, Err(AgentError::Journal(JournalError::Write)));
    lock(&paper).rows[0].name = "count/take".to_owned();
    node.told();
    let ended = node.run("plain", Disk::of(&paper, usize::MAX)).await.1;
    let (was, came) = ("count/take".to_owned(), "count/add".to_owned());
    assert_eq!(ended, Err(AgentError::Journal(JournalError::Diverged { seq: 0, was, came })));
    assert!(node.told().is_empty());
    let checkpoint = Checkpoint { state: vec![1], progress: b"no".to_vec(), label: None };
    *lock(&paper) = Paper { checkpoint: Some(checkpoint), ..Paper::default() };
    let ended = node.run("plain", Disk::of(&paper, usize::MAX)).await.1;
    assert!(matches!(&ended, Err(AgentError::Journal(JournalError::Damaged { .. }))), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_a_component_that_can_do_something_has_a_journal() {
    for (capabilities, is_resumable) in [(&["count/add"][..], true), (&[][..], false)] {
        let node = Node::new(capabilities);
        let agent = node.host.agent("tells").expect("it runs");
        assert_eq!((agent.is_resumable(), node.host.is_confined("tells")), (is_resumable, !is_resumable));
    }
}
