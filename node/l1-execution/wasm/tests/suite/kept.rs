//! What a component keeps counts among the calls that its contract lets a turn make, and passes its gate.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::turns::turn;
use althing_execution::memory::{Embedder, MEMORY, Memories, Memory};
use althing_execution::tools::{
    ContractGate, Denied, GateVerdict, Permission, Permit, ToolCall, ToolError, ToolGate, Tools,
};
use althing_execution::{Agent, Loaded, Ports, SoftRuntime as _, SystemCalls};
use althing_protocol::{AgentRef, Contract, contract};
use althing_store::{Batch, MemoryStore};
use althing_wasm::Soft;
use futures::future::BoxFuture;
use serde_json::{Value, json};

/// Keeps its message three times, under the message as the key; says the message, or why the third was refused.
const KEEPS: &str = r#"(component
  (import "althing:agent/memory@0.1.0" (instance $kept
    (export "put" (func (param "key" string) (param "value" (list u8)) (result (result (error string)))))))
  (import "althing:agent/turns@0.1.0" (instance $turns
    (type $reply' (variant (case "done" string) (case "ask" string)))
    (export "reply" (type (eq $reply')))))
  (alias export $turns "reply" (type $reply))
  (alias export $kept "put" (func $host-put))
  (core module $room
    (memory (export "memory") 1)
    (global $free (mut i32) (i32.const 4096))
    (func (export "realloc") (param i32 i32 i32) (param $bytes i32) (result i32)
      (local $at i32)
      (local.set $at (global.get $free))
      (global.set $free (i32.and (i32.add (i32.add (local.get $at) (local.get $bytes)) (i32.const 7)) (i32.const -8)))
      (local.get $at)))
  (core instance $mem (instantiate $room))
  (alias core export $mem "memory" (core memory $memory))
  (alias core export $mem "realloc" (core func $realloc))
  (core func $put (canon lower (func $host-put) (memory $memory) (realloc $realloc)))
  (core module $code
    (import "host" "memory" (memory 1))
    (import "host" "put" (func $put (param i32 i32 i32 i32 i32)))
    (func $keep (param $at i32) (param $length i32)
      (call $put (local.get $at) (local.get $length) (local.get $at) (local.get $length) (i32.const 48)))
    (func (export "on-message") (param $at i32) (param $length i32) (result i32)
      (call $keep (local.get $at) (local.get $length))
      (call $keep (local.get $at) (local.get $length))
      (call $keep (local.get $at) (local.get $length))
      (i64.store (i32.const 16) (i64.const 0))
      (if (i32.load8_u (i32.const 48))
        (then
          (i32.store (i32.const 24) (i32.load (i32.const 52)))
          (i32.store (i32.const 28) (i32.load (i32.const 56))))
        (else
          (i32.store (i32.const 24) (local.get $at))
          (i32.store (i32.const 28) (local.get $length))))
      (i32.const 16))
    (func (export "checkpoint") (result i32) (i64.store (i32.const 32) (i64.const 0)) (i32.const 32))
    (func (export "restore") (param i32 i32)))
  (core instance $it (instantiate $code
    (with "host" (instance (export "memory" (memory $memory)) (export "put" (func $put))))))
  (func (export "on-message") (param "text" string) (result (result $reply (error string)))
    (canon lift (core func $it "on-message") (memory $memory) (realloc $realloc)))
  (func (export "checkpoint") (result (list u8)) (canon lift (core func $it "checkpoint") (memory $memory)))
  (func (export "restore") (param "state" (list u8))
    (canon lift (core func $it "restore") (memory $memory) (realloc $realloc))))"#;

fn memory() -> Memory {
    let memories = Memories::new(
        Arc::new(MemoryStore::new(&[MEMORY])),
        Arc::new(|| 1_000_000),
        Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
        Arc::new(|_: &str| Ok(None)),
    );
    memories.open("guest", &contract::Memory::default(), Arc::new(Embedder::Words)).expect("opened")
}

fn contract_with(calls: u64) -> Contract {
    let contract = json!({
        "class": { "latency": "srt" },
        "capabilities": ["memory/*"],
        "compute": { "memory_bytes": 2 << 20, "cpu_ms_per_turn": 1_000, "calls_per_turn": calls },
    });
    Contract::from_value(&contract).expect("a contract")
}

/// The component with a memory, and so many calls of a turn.
fn load(calls: u64, memory: &Memory) -> Arc<dyn Agent> {
    load_behind(Arc::new(ContractGate::of(&contract_with(calls))), calls, memory)
}

/// The same behind another gate.
fn load_behind(gate: Arc<dyn ToolGate>, calls: u64, memory: &Memory) -> Arc<dyn Agent> {
    let contract = contract_with(calls);
    let guest = Ports::none().agent_ref("guest", "1.0.0").expect("a name");
    let tools = Arc::new(Tools::new(guest, BTreeMap::new(), gate));
    let calls = SystemCalls { tools, memory: Some(memory.clone()), budget: Arc::default() };
    match Soft::default().load(KEEPS.as_bytes(), &contract, &calls).expect("a component") {
        Loaded::Agent(agent) => agent,
        Loaded::Control(_) => panic!("it is a component"),
    }
}

#[tokio::test]
async fn what_a_component_keeps_counts_among_the_calls_of_its_turn() {
    let memory = memory();
    let enough = load(3, &memory);
    assert_eq!(turn(&enough, "three").await.as_deref(), Ok("three"));
    let too_few = load(2, &memory);
    // Each turn has its own.
    for text in ["two", "two more"] {
        let refused = turn(&too_few, text).await.expect("it answers");
        assert!(refused.contains("made all the calls that its contract allows"), "{refused}");
    }
    assert_eq!(memory.keys("").await.expect("keys"), ["three", "two", "two more"], "the first ones were kept");
}

/// Denies what is to be kept under one key, and notes what it decides on.
struct KeyGuard {
    denied: &'static str,
    decided: Mutex<Vec<(String, Value)>>,
}

impl ToolGate for KeyGuard {
    fn lists(&self, _: &AgentRef, _: &str) -> Permission {
        Permission::Allowed
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        self.decided.lock().expect("nobody panics with it").push((call.tool.to_owned(), call.arguments.clone()));
        let is_denied = call.arguments["key"] == self.denied;
        let denied = || Denied { reason: "not under this key".to_owned() };
        let ruling = if is_denied { GateVerdict::Deny(denied()) } else { GateVerdict::Permit(Permit::default()) };
        Box::pin(std::future::ready(ruling))
    }

    fn settle<'a>(
        &'a self,
        _: &'a ToolCall<'a>,
        _: &'a Permit,
        _: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        Box::pin(std::future::ready(Batch::new()))
    }
}

#[tokio::test]
async fn the_gate_decides_by_what_a_component_keeps_and_where() {
    let memory = memory();
    let gate = Arc::new(KeyGuard { denied: "secret", decided: Mutex::default() });
    let agent = load_behind(gate.clone(), 8, &memory);
    assert_eq!(turn(&agent, "plain").await.as_deref(), Ok("plain"));
    let refused = turn(&agent, "secret").await.expect("it answers");
    assert!(refused.contains("not under this key"), "{refused}");
    assert_eq!(memory.keys("").await.expect("keys"), ["plain"]);
    let decided = gate.decided.lock().expect("nobody panics with it").clone();
    let put = |text: &str| ("memory/put".to_owned(), json!({ "key": text, "value": text }));
    assert_eq!(
        decided,
        [[put("plain"), put("plain"), put("plain")], [put("secret"), put("secret"), put("secret")]].concat()
    );
}
