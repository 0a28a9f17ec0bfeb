//! Thirteen kinds of hostile components (threat model, row 18): each ends with a typed error, by its own budget and not by
//! anybody's patience, and the next turn on the same engine answers.

use std::collections::BTreeMap;
use std::sync::Arc;

use a2a::{Message, Part, Role};
use althing_execution::agent::{Made, Parameters};
use althing_execution::tools::Tools;
use althing_execution::{Agent, AgentError, Loaded, Output, SoftRuntime as _, SystemCalls, Turn};
use althing_protocol::Contract;
use althing_wasm::{Hard, ModuleError, Soft};
use serde_json::json;

/// Instances of one test; each is a turn.
const INSTANCES: usize = 10_000;
/// What they may leave behind, KiB: the engine's pool, and what the allocator keeps.
const GROWTH_KIB_MAX: u64 = 64 << 10;
/// What a guest may have.
const MEMORY_BYTES: u64 = 2 << 20;

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

fn contract(cpu_ms: u64) -> Contract {
    let contract = json!({
        "class": { "latency": "srt" },
        "compute": { "memory_bytes": MEMORY_BYTES, "cpu_ms_per_turn": cpu_ms, "calls_per_turn": 1 },
    });
    Contract::from_value(&contract).expect("a contract")
}

fn load(soft: &Soft, text: &str) -> Result<Arc<dyn Agent>, String> {
    let contract = contract(50);
    let tools = Arc::new(Tools::of("guest", &contract, BTreeMap::new()));
    let calls = SystemCalls { tools, memory: None, allowance: Arc::default() };
    match soft.load(text.as_bytes(), &contract, &calls)? {
        Loaded::Agent(agent) => Ok(agent),
        Loaded::Control(_) => panic!("it is a component"),
    }
}

/// One turn: what it said last, or why it failed.
async fn turn(agent: &Arc<dyn Agent>) -> Result<String, AgentError> {
    let (out, mut made) = Output::channel();
    let turn = Turn {
        task_id: "task".to_owned(),
        context_id: "context".to_owned(),
        message: Message::new(Role::User, vec![Part::text("hello")]),
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

/// How a hostile one must end.
enum Ends<'a> {
    /// It is not taken at all.
    Refused(&'a str),
    /// Its turn fails.
    Failed(&'a str),
}

#[tokio::test]
async fn each_hostile_component_ends_with_a_typed_error_and_the_next_call_answers() {
    let soft = Soft::default();
    let honest = load(&soft, &HONEST.text()).expect("a component");
    assert_eq!(turn(&honest).await.as_deref(), Ok("done"));
    let table = format!("(loop $l (block $b (br_table {} $l (i32.const 7))) (br $l))", "$b ".repeat(50_000));
    let globals = "(global (mut i64) (i64.const 1))".repeat(100_000);
    let instances = "(core instance (instantiate $room))".repeat(300);
    let data = format!("(data (i32.const 0) \"{}\")", "x".repeat(3 << 20));
    let never = "(loop $l (br $l))";
    let cpu = Ends::Failed("it used up its 50 ms");
    let cases: Vec<(&str, Guest<'_>, Ends<'_>)> = vec![
        ("infinite loop", Guest { on_message: never, ..HONEST }, cpu),
        (
            "memory grow",
            Guest {
                on_message: "(loop $l (br_if $l (i32.ne (memory.grow (i32.const 1)) (i32.const -1)))) unreachable",
                ..HONEST
            },
            Ends::Failed("bytes of memory"),
        ),
        (
            "deep recursion",
            Guest { module: "(func $deep (call $deep))", on_message: "(call $deep)", ..HONEST },
            Ends::Failed("call stack exhausted"),
        ),
        ("huge br_table", Guest { on_message: &table, ..HONEST }, Ends::Failed("it used up its 50 ms")),
        ("trap storm", Guest { on_message: "unreachable", ..HONEST }, Ends::Failed("unreachable")),
        (
            "host re-entry",
            Guest { realloc: "(call $log (i32.const 0) (i32.const 1))", ..HONEST },
            Ends::Failed("cannot leave component instance"),
        ),
        (
            "calls of the host without end",
            Guest { on_message: "(loop $l (call $log (i32.const 0) (i32.const 1)) (br $l))", ..HONEST },
            Ends::Failed("it used up its 50 ms"),
        ),
        (
            "table grow",
            Guest {
                module: "(table $t 0 funcref)",
                on_message: "(loop $l (br_if $l (i32.ne (table.grow $t (ref.null func) (i32.const 4096)) \
                             (i32.const -1)))) unreachable",
                ..HONEST
            },
            Ends::Failed("it "),
        ),
        ("many globals", Guest { module: &globals, ..HONEST }, Ends::Refused("")),
        (
            "start function that loops",
            Guest { module: "(func $start (loop $l (br $l))) (start $start)", ..HONEST },
            Ends::Failed("it used up its 50 ms"),
        ),
        ("huge data segment", Guest { module: &data, pages: 49, ..HONEST }, Ends::Failed("memory")),
        ("many instances", Guest { component: &instances, ..HONEST }, Ends::Refused("")),
        (
            "a pointer out of range",
            Guest { on_message: "(return (i32.const -16))", ..HONEST },
            Ends::Failed("out of bounds"),
        ),
        ("an unaligned pointer", Guest { on_message: "(return (i32.const 17))", ..HONEST }, Ends::Failed("align")),
        (
            "room for the host out of range",
            Guest { realloc: "(return (i32.const -8))", ..HONEST },
            Ends::Failed("end of memory"),
        ),
    ];
    for (name, guest, ends) in cases {
        match (load(&soft, &guest.text()), ends) {
            (Err(why), Ends::Refused(expected)) => assert!(why.contains(expected) && !why.is_empty(), "{name}: {why}"),
            (Err(why), Ends::Failed(_)) => panic!("{name} is refused: {why}"),
            // What is taken though it might have been refused must fail when it is run.
            (Ok(agent), ends) => {
                let expected = match ends {
                    Ends::Refused(_) => "it ",
                    Ends::Failed(expected) => expected,
                };
                for _ in 0..3 {
                    let Err(AgentError::Failed(why)) = turn(&agent).await else { panic!("{name} answers") };
                    assert!(why.contains(expected), "{name}: {why}");
                }
            }
        }
        assert_eq!(turn(&honest).await.as_deref(), Ok("done"), "after {name}");
    }
    let long = vec![b' '; althing_wasm::MODULE_BYTES_MAX + 1];
    let refused = Hard::new().expect("an engine").template(&long, MEMORY_BYTES).err();
    assert_eq!(refused, Some(ModuleError::TooLarge(long.len())), "an oversize module");
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("what the system tells");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches(" kB").trim().parse().expect("a number")
}

#[tokio::test]
async fn ten_thousand_instances_that_trap_leave_nothing_behind() {
    let soft = Soft::default();
    let honest = load(&soft, &HONEST.text()).expect("a component");
    let trap = load(&soft, &Guest { on_message: "unreachable", ..HONEST }.text()).expect("a component");
    let mut before = 0;
    for n in 0..INSTANCES {
        let Err(AgentError::Failed(why)) = turn(&trap).await else { panic!("it answers") };
        assert!(why.contains("unreachable"), "{why}");
        if n % 1_000 == 999 {
            assert_eq!(turn(&honest).await.as_deref(), Ok("done"), "after {n}");
        }
        if n == 999 {
            before = resident_kib();
        }
    }
    let grown = resident_kib().saturating_sub(before);
    assert!(grown < GROWTH_KIB_MAX, "{grown} KiB");
}
