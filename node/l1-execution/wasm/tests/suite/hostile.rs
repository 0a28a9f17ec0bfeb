//! Thirteen kinds of hostile components (threat model, row 18): each ends with a typed error, by its own budget and not by
//! anybody's patience, and the next turn on the same engine answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::turns::turn;
use althing_execution::realtime::ran_ns;
use althing_execution::tools::{ContractGate, Tools};
use althing_execution::{Agent, AgentError, Loaded, Ports, SoftRuntime as _, SystemCalls};
use althing_protocol::Contract;
use althing_wasm::{Hard, ModuleError, Soft};
use serde_json::json;

/// Instances of one test; each is a turn.
const INSTANCES: usize = 10_000;
/// What they may leave behind, KiB: the engine's pool, and what the allocator keeps.
const GROWTH_KIB_MAX: u64 = 64 << 10;
/// What a guest may have.
const MEMORY_BYTES: u64 = 2 << 20;
/// Processor time of a turn, milliseconds, and how much later its end may come.
const CPU_MS: u64 = 50;
const LATE_MS: u64 = 50;

/// A component whose parts are given: what stands in its module, what its `on-message` and its `realloc` do.
#[derive(Clone, Copy)]
struct Guest<'a> {
    module: &'a str,
    realloc: &'a str,
    on_message: &'a str,
    component: &'a str,
    pages: u32,
}

/// Says "done" and nothing more.
const HONEST: Guest<'static> = Guest { module: "", realloc: "", on_message: "", component: "", pages: 1 };

impl Guest<'_> {
    fn text(self) -> String {
        let Guest { module, realloc, on_message, component, pages } = self;
        format!(
            r#"(component
  (import "althing:agent/kernel@0.1.0" (instance $kernel (export "log" (func (param "line" string)))))
  (import "althing:agent/turns@0.1.0" (instance $turns
    (type $reply' (variant (case "done" string) (case "ask" string)))
    (export "reply" (type (eq $reply')))))
  (alias export $turns "reply" (type $reply))
  (alias export $kernel "log" (func $host-log))
  (core module $room (memory (export "memory") {pages}))
  (core instance $mem (instantiate $room))
  (alias core export $mem "memory" (core memory $memory))
  (core func $log (canon lower (func $host-log) (memory $memory)))
  (core module $code
    (import "host" "memory" (memory {pages}))
    (import "host" "log" (func $log (param i32 i32)))
    {module}
    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      {realloc}
      (i32.const 1024))
    (func (export "on-message") (param $at i32) (param $length i32) (result i32)
      {on_message}
      (i64.store (i32.const 16) (i64.const 0))
      (i32.store (i32.const 24) (i32.const 64))
      (i32.store (i32.const 28) (i32.const 4))
      (i32.store (i32.const 64) (i32.const 0x656e6f64))
      (i32.const 16))
    (func (export "checkpoint") (result i32) (i64.store (i32.const 32) (i64.const 0)) (i32.const 32))
    (func (export "restore") (param i32 i32)))
  (core instance $it (instantiate $code
    (with "host" (instance (export "memory" (memory $memory)) (export "log" (func $log))))))
  {component}
  (alias core export $it "realloc" (core func $realloc))
  (func (export "on-message") (param "text" string) (result (result $reply (error string)))
    (canon lift (core func $it "on-message") (memory $memory) (realloc $realloc)))
  (func (export "checkpoint") (result (list u8)) (canon lift (core func $it "checkpoint") (memory $memory)))
  (func (export "restore") (param "state" (list u8))
    (canon lift (core func $it "restore") (memory $memory) (realloc $realloc))))"#
        )
    }
}

/// A contract of [`CPU_MS`], with so many calls of a turn, or as many as where nobody says.
fn contract(calls: Option<u64>) -> Contract {
    let mut compute = json!({ "memory_bytes": MEMORY_BYTES, "cpu_ms_per_turn": CPU_MS });
    if let Some(calls) = calls {
        compute["calls_per_turn"] = json!(calls);
    }
    let contract = json!({ "class": { "latency": "srt" }, "compute": compute });
    Contract::from_value(&contract).expect("a contract")
}

fn load(soft: &Soft, text: &str) -> Result<Arc<dyn Agent>, String> {
    load_with(soft, text, Some(1))
}

fn load_with(soft: &Soft, text: &str, calls: Option<u64>) -> Result<Arc<dyn Agent>, String> {
    let contract = contract(calls);
    let guest = Ports::none().agent_ref("guest", "1.0.0").expect("a name");
    let tools = Arc::new(Tools::new(guest, BTreeMap::new(), Arc::new(ContractGate::of(&contract))));
    let calls = SystemCalls { tools, memory: None, budget: Arc::default() };
    match soft.load(text.as_bytes(), &contract, &calls)? {
        Loaded::Agent(agent) => Ok(agent),
        Loaded::Control(_) => panic!("it is a component"),
    }
}

/// How a hostile one must end.
enum Ends<'a> {
    /// It is not taken at all, for a reason that begins so.
    Refused(&'a str),
    /// It is taken, and each of its turns fails for exactly that reason.
    Failed(&'a str),
    /// The same, as it trapped.
    Crashed(&'a str),
    /// The same, as it wanted more than it has.
    Stopped(&'a str),
}

/// What it is, the component, and how it ends.
type Case<'a> = (&'a str, Guest<'a>, Ends<'a>);

const STOPPED: Ends<'static> = Ends::Stopped("it was stopped: it exceeded its 50 ms");
const UNREACHABLE: Ends<'static> = Ends::Crashed("it failed: wasm trap: wasm `unreachable` instruction executed");
const NEVER: &str = "(loop $l (br $l))";

/// Those that never end.
fn endless(table: &str) -> Vec<Case<'_>> {
    vec![
        ("infinite loop", Guest { on_message: NEVER, ..HONEST }, STOPPED),
        ("huge br_table", Guest { on_message: table, ..HONEST }, STOPPED),
        (
            "calls of the host without end",
            Guest { on_message: "(loop $l (call $log (i32.const 0) (i32.const 1)) (br $l))", ..HONEST },
            STOPPED,
        ),
        (
            "start function that loops",
            Guest { module: "(func $start (loop $l (br $l))) (start $start)", ..HONEST },
            STOPPED,
        ),
    ]
}

/// Those that want more than there is, as they run.
fn greedy(data: &str) -> Vec<Case<'_>> {
    vec![
        (
            "memory grow",
            Guest {
                on_message: "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable",
                ..HONEST
            },
            Ends::Stopped(
                "it exceeded its 2097152 bytes of memory: wasm trap: wasm `unreachable` instruction executed",
            ),
        ),
        (
            "deep recursion",
            Guest { module: "(func $deep (call $deep))", on_message: "(call $deep)", ..HONEST },
            Ends::Crashed("it failed: wasm trap: call stack exhausted"),
        ),
        (
            // It goes on until it is refused more, which the pool does before its memory is used up.
            "table grow",
            Guest {
                module: "(table $t 0 funcref)",
                on_message: "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 4096)) \
                             (i32.const -1)))) unreachable",
                ..HONEST
            },
            UNREACHABLE,
        ),
        (
            "huge data segment",
            Guest { module: data, pages: 49, ..HONEST },
            Ends::Stopped(
                "it exceeded its 2097152 bytes of memory: memory minimum size of 49 pages exceeds memory limits",
            ),
        ),
    ]
}

/// Those that are larger than any may be.
fn oversize<'a>(globals: &'a str, instances: &'a str) -> Vec<Case<'a>> {
    vec![
        (
            "many globals",
            Guest { module: globals, ..HONEST },
            Ends::Refused(
                "module instance size does not fit in pooling allocator requirements: instance allocation for this \
                 module requires 1600400 bytes which exceeds the configured maximum of 1048576 bytes",
            ),
        ),
        (
            "many instances",
            Guest { component: instances, ..HONEST },
            Ends::Refused(
                "The component transitively contains 302 core module instances, which exceeds the configured maximum \
                 of 256 in the pooling allocator",
            ),
        ),
    ]
}

/// Those that break the rules.
fn unruly() -> Vec<Case<'static>> {
    vec![
        ("trap storm", Guest { on_message: "unreachable", ..HONEST }, UNREACHABLE),
        (
            "host re-entry",
            Guest { realloc: "(call $log (i32.const 0) (i32.const 1))", ..HONEST },
            Ends::Crashed("it failed: wasm trap: cannot leave component instance"),
        ),
        (
            "a pointer out of range",
            Guest { on_message: "(return (i32.const -16))", ..HONEST },
            Ends::Failed("it failed: pointer out of bounds of memory"),
        ),
        (
            "an unaligned pointer",
            Guest { on_message: "(return (i32.const 17))", ..HONEST },
            Ends::Failed("it failed: return pointer not aligned"),
        ),
        (
            "room for the host out of range",
            Guest { realloc: "(return (i32.const -8))", ..HONEST },
            Ends::Failed("it failed: realloc return: beyond end of memory"),
        ),
    ]
}

/// Each of its turns does.
async fn fails(name: &str, agent: &Arc<dyn Agent>, expected: AgentError) {
    for _ in 0..3 {
        assert_eq!(turn(agent, "hello").await, Err(expected.clone()), "{name}");
    }
}

#[tokio::test]
async fn each_hostile_component_ends_with_a_typed_error_and_the_next_call_answers() {
    let soft = Soft::default();
    let honest = load(&soft, &HONEST.text()).expect("a component");
    assert_eq!(turn(&honest, "hello").await.as_deref(), Ok("done"));
    let table = format!("(loop $l (block $b (br_table {} $l (i32.const 7))) (br $l))", "$b ".repeat(50_000));
    let globals = "(global (mut i64) (i64.const 1))".repeat(100_000);
    let instances = "(core instance (instantiate $room))".repeat(300);
    let data = format!("(data (i32.const 0) \"{}\")", "x".repeat(3 << 20));
    let cases = endless(&table).into_iter().chain(greedy(&data)).chain(oversize(&globals, &instances)).chain(unruly());
    for (name, guest, ends) in cases {
        match (load(&soft, &guest.text()), ends) {
            (Err(why), Ends::Refused(expected)) => assert!(why.starts_with(expected), "{name}: {why}"),
            (Err(why), _) => panic!("{name} is refused: {why}"),
            (Ok(_), Ends::Refused(_)) => panic!("{name} is taken"),
            (Ok(agent), Ends::Failed(why)) => fails(name, &agent, AgentError::Failed(why.to_owned())).await,
            (Ok(agent), Ends::Crashed(why)) => fails(name, &agent, AgentError::Crash(why.to_owned())).await,
            (Ok(agent), Ends::Stopped(why)) => fails(name, &agent, AgentError::OverBudget(why.to_owned())).await,
        }
        assert_eq!(turn(&honest, "hello").await.as_deref(), Ok("done"), "after {name}");
    }
    let long = vec![b' '; althing_wasm::MODULE_BYTES_MAX + 1];
    let refused = Hard::new().expect("an engine").template(&long, MEMORY_BYTES).err();
    assert_eq!(refused, Some(ModuleError::TooLarge(long.len())), "an oversize module");
}

/// All of a turn runs on this thread, whose processor time does not pass while others run.
#[tokio::test]
async fn a_loop_is_stopped_when_its_time_is_over_however_many_calls_it_might_have_made() {
    let soft = Soft::default();
    let text = Guest { on_message: NEVER, ..HONEST }.text();
    for calls in [None, Some(1), Some(1_000)] {
        let agent = load_with(&soft, &text, calls).expect("a component");
        let mut took_ms = Vec::new();
        for _ in 0..5 {
            let before = ran_ns();
            let Err(AgentError::OverBudget(why)) = turn(&agent, "hello").await else { panic!("it answers") };
            took_ms.push((ran_ns() - before) / 1_000_000);
            assert_eq!(why, format!("it was stopped: it exceeded its {CPU_MS} ms"));
        }
        // The thread that ends epochs may itself wait for a processor, but not each time.
        let least = *took_ms.iter().min().expect("some turns");
        assert!((CPU_MS..=CPU_MS + LATE_MS).contains(&least), "with {calls:?} calls: {took_ms:?} ms");
    }
}

/// Without pages of files, which the system takes and brings back as it likes.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

#[tokio::test]
async fn ten_thousand_instances_that_trap_leave_nothing_behind() {
    let soft = Soft::default();
    let honest = load(&soft, &HONEST.text()).expect("a component");
    let trap = load(&soft, &Guest { on_message: "unreachable", ..HONEST }.text()).expect("a component");
    let mut before = 0;
    for n in 0..INSTANCES {
        let Err(AgentError::Crash(why)) = turn(&trap, "hello").await else { panic!("it answers") };
        assert!(why.contains("unreachable"), "{why}");
        if n % 1_000 == 999 {
            assert_eq!(turn(&honest, "hello").await.as_deref(), Ok("done"), "after {n}");
        }
        if n == 999 {
            before = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
}
