//! Guests on a real executor: what they compute, and that what runs over or fails harms nobody.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use althing_execution::Signals;
use althing_execution::admission::Policy;
use althing_execution::hrt::{
    AddedTask, AgentCell, BestEffortExecutor, Executor, ExecutorConfig, Input, Outcome, OutputSignal, Params, RunState,
};
use althing_execution::realtime::{Level, RtPriorities, cores};
use althing_protocol::contract::{OnOverrun, SignalLimit, Signals as Names};
use althing_wasm::{Hard, ModuleError};

const MIB: u64 = 1024 * 1024;
/// Adds what it reads, and remembers it.
const SUM: &str = r#"(module
  (import "althing" "input" (func $input (param i32) (result f64)))
  (import "althing" "output" (func $output (param i32 f64)))
  (memory (export "memory") 1)
  (func (export "turn")
    (f64.store (i32.const 0) (f64.add (f64.load (i32.const 0)) (call $input (i32.const 0))))
    (call $output (i32.const 0) (f64.load (i32.const 0)))))"#;
const SPIN: &str = r#"(module (func (export "turn") (loop $for_ever (br $for_ever))))"#;
const TRAP: &str = r#"(module (func (export "turn") unreachable))"#;
const LONG: Duration = Duration::from_secs(20);

struct Scene {
    hard: Hard,
    executor: Executor,
    signals: Signals,
}

fn scene() -> Scene {
    let hard = Hard::new().expect("an engine");
    let config = ExecutorConfig {
        policy: Policy::Edf,
        priorities: RtPriorities::detect().expect("a thread"),
        core: cores().last().copied(),
        level: Level::Executor,
        interrupt: Arc::new(hard.clone()),
        best_effort: Some(Arc::new(BestEffortExecutor::new(Arc::new(hard.clone())))),
    };
    Scene { hard, executor: Executor::start(&config).expect("threads"), signals: Signals::default() }
}

const PARAMS: Params = Params { period_ns: 10_000_000, deadline_ns: 10_000_000, budget_ns: 2_000_000, periodic: true };

impl Scene {
    fn put(&self, name: &str, module: &str, params: Params, on_overrun: OnOverrun) -> AddedTask {
        self.put_within(name, module, (params, on_overrun), None)
    }

    /// The same, with a limit of its output.
    fn put_within(
        &self,
        name: &str,
        module: &str,
        (params, on_overrun): (Params, OnOverrun),
        limit: Option<SignalLimit>,
    ) -> AddedTask {
        let template = self.hard.template(module.as_bytes(), MIB).expect("a module");
        let [input, output] = [format!("{name}.in"), format!("{name}.out")];
        let limits = limit.map(|limit| (output.clone(), limit)).into_iter().collect();
        let names = Names { inputs: vec![input], outputs: vec![output], limits, ..Names::default() };
        let (inputs, outputs) = self.signals.join(name, &names.inputs, &names.outputs).expect("signals");
        let (inputs, outputs) = (Input::of(&names, inputs), OutputSignal::of(&names, outputs));
        self.executor.add(params, on_overrun, template, inputs, outputs).expect("a place")
    }
}

async fn until(cell: &Arc<AgentCell>, mut holds: impl FnMut(&AgentCell) -> bool) {
    let mut watch = cell.watch();
    let waited = async {
        while !holds(cell) {
            // A suspended agent has no next job to wait for.
            let _ = tokio::time::timeout(Duration::from_millis(20), watch.next()).await;
        }
    };
    tokio::time::timeout(LONG, waited).await.expect("it comes about");
}

#[tokio::test]
async fn a_guest_reads_writes_and_remembers() {
    let scene = scene();
    let sum = scene.put("sum", SUM, PARAMS, OnOverrun::Skip);
    let (reader, writer) =
        scene.signals.join("test", &["sum.out".to_owned()], &["sum.in".to_owned()]).expect("signals");
    writer[0].set(2.0, 1);
    let mut watch = sum.cell.watch();
    let (mut last, mut rises) = (0.0, 0);
    while rises < 5 {
        let (record, outputs) = tokio::time::timeout(LONG, watch.next()).await.expect("in time").expect("a job");
        if record.outcome != Outcome::Done {
            continue;
        }
        assert!(outputs[0] == last || outputs[0] == last + 2.0 || last == 0.0, "{last} became {}", outputs[0]);
        rises += u32::from(outputs[0] > last);
        last = outputs[0];
    }
    assert!(reader[0].get() >= last);
    scene.executor.remove(sum.place).await;
    let after = sum.cell.counters.jobs.load(Ordering::Relaxed);
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert_eq!(sum.cell.counters.jobs.load(Ordering::Relaxed), after);
}

#[tokio::test]
async fn an_output_that_breaks_its_limits_is_held_at_the_last_good_value_and_counted() {
    let scene = scene();
    let limit = SignalLimit { max: Some(7.into()), ..SignalLimit::default() };
    let sum = scene.put_within("sum", SUM, (PARAMS, OnOverrun::Skip), Some(limit));
    let (reader, writer) =
        scene.signals.join("test", &["sum.out".to_owned()], &["sum.in".to_owned()]).expect("signals");
    writer[0].set(2.0, 1);
    let mut watch = sum.cell.watch();
    let mut held = 0;
    while held < 5 {
        let (record, outputs) = tokio::time::timeout(LONG, watch.next()).await.expect("in time").expect("a job");
        if record.outcome != Outcome::Done {
            continue;
        }
        assert!(outputs[0] <= 7.0 && reader[0].get() <= 7.0, "{} is told and {} shown", outputs[0], reader[0].get());
        if record.out_of_limits != 0 {
            assert_eq!(record.out_of_limits, 1);
            assert!([2.0, 4.0, 6.0].contains(&outputs[0]), "a good one stays, and not {}", outputs[0]);
            held += 1;
        }
    }
    assert!(sum.cell.counters.out_of_limits.load(Ordering::Relaxed) >= 5);
    assert!(reader[0].get() > 0.0, "what was good is shown");
    // Jobs whose outputs are held are no failures, and nothing else becomes of them.
    assert_eq!(sum.cell.counters.failures.load(Ordering::Relaxed), 0);
    assert_eq!(sum.cell.run_state().0, RunState::Running);
}

#[tokio::test]
async fn what_runs_over_is_stopped_and_its_neighbour_goes_on() {
    let scene = scene();
    let spin = scene.put("spin", SPIN, PARAMS, OnOverrun::Skip);
    let sum = scene.put("sum", SUM, PARAMS, OnOverrun::Skip);
    let before = sum.cell.counters.response.quantile(0);
    assert_eq!(before, 0);
    until(&spin.cell, |cell| cell.counters.overruns.load(Ordering::Relaxed) >= 5).await;
    until(&sum.cell, |cell| cell.counters.jobs.load(Ordering::Relaxed) >= 10).await;
    let tally = &sum.cell.counters;
    assert_eq!((tally.overruns.load(Ordering::Relaxed), tally.failures.load(Ordering::Relaxed)), (0, 0));
    assert!(tally.response.max() > 0);
    assert_eq!(spin.cell.run_state().0, RunState::Running);
}

/// A strike that came before the guest read its epoch would be lost, and the guest would hold its core for ever.
#[tokio::test]
async fn the_shortest_budget_stops_a_job_every_time() {
    let scene = scene();
    let params = Params { budget_ns: 10_000, period_ns: 2_000_000, deadline_ns: 2_000_000, ..PARAMS };
    let spin = scene.put("spin", SPIN, params, OnOverrun::Skip);
    until(&spin.cell, |cell| cell.counters.overruns.load(Ordering::Relaxed) >= 200).await;
}

#[tokio::test]
async fn a_contract_says_what_becomes_of_it() {
    let scene = scene();
    let spin = scene.put("spin", SPIN, PARAMS, OnOverrun::Suspend);
    until(&spin.cell, |cell| cell.run_state().0 == RunState::Suspended).await;
    assert_eq!(spin.cell.counters.overruns.load(Ordering::Relaxed), 1);
    // One that takes half a period goes on, without a promise.
    let slow = SPIN.replace("(loop $for_ever (br $for_ever))", "(local $n i32) (loop $again (br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 6000000))))");
    let params = Params { budget_ns: 100_000, period_ns: 100_000_000, deadline_ns: 100_000_000, ..PARAMS };
    let slow = scene.put("slow", &slow, params, OnOverrun::Degrade);
    until(&slow.cell, |cell| cell.run_state().0 == RunState::Degraded).await;
    assert_eq!(slow.cell.counters.overruns.load(Ordering::Relaxed), 1);
    until(&slow.cell, |cell| cell.counters.response.max() > 0).await;
    let trap = scene.put("trap", TRAP, PARAMS, OnOverrun::Suspend);
    until(&trap.cell, |cell| cell.counters.failures.load(Ordering::Relaxed) >= 3).await;
    let (state, why) = trap.cell.run_state();
    assert_eq!(state, RunState::Running);
    assert!(why.contains("unreachable"), "{why}");
}

#[tokio::test]
async fn a_sporadic_guest_runs_when_it_is_asked() {
    let scene = scene();
    let sum = scene.put("sum", SUM, Params { periodic: false, ..PARAMS }, OnOverrun::Skip);
    let mut watch = sum.cell.watch();
    for number in 0..3 {
        scene.executor.arrive(sum.place);
        let (record, _) = tokio::time::timeout(LONG, watch.next()).await.expect("in time").expect("a job");
        assert_eq!(record.number, number);
    }
}

#[test]
fn modules_that_cannot_be_run_are_refused_with_the_reason() {
    let hard = Hard::new().expect("an engine");
    let refused = |module: &str| match hard.template(module.as_bytes(), MIB) {
        Ok(_) => panic!("{module} is taken"),
        Err(error) => error,
    };
    assert!(matches!(refused("(modul)"), ModuleError::Compile(_)));
    assert!(matches!(
        refused(r#"(module (import "wasi" "exit" (func)) (func (export "turn")))"#),
        ModuleError::Import(_)
    ));
    assert_eq!(refused("(module)"), ModuleError::NoTurn);
    assert_eq!(refused(r#"(module (func (export "turn") (param i32)))"#), ModuleError::NoTurn);
    assert_eq!(refused(r#"(module (memory 1) (func (export "turn")))"#), ModuleError::HiddenMemory);
    let too_much = r#"(module (memory (export "memory") 17) (func (export "turn")))"#;
    assert!(matches!(refused(too_much), ModuleError::Start(_)));
    let spins = r#"(module (func $spin (loop $l (br $l))) (start $spin) (func (export "turn")))"#;
    assert!(matches!(refused(spins), ModuleError::Start(_)));
    let long = "(module (func (export \"turn\")))".to_owned() + &" ".repeat(2 << 20);
    assert!(matches!(refused(&long), ModuleError::TooLarge(_)));
}

#[tokio::test]
async fn memory_does_not_grow_in_a_job() {
    let grows = r#"(module
      (import "althing" "output" (func $output (param i32 f64)))
      (memory (export "memory") 1)
      (func (export "turn") (call $output (i32.const 0) (f64.convert_i32_s (memory.grow (i32.const 1))))))"#;
    let scene = scene();
    let agent = scene.put("grows", grows, PARAMS, OnOverrun::Skip);
    let (_, outputs) = tokio::time::timeout(LONG, agent.cell.watch().next()).await.expect("in time").expect("a job");
    assert_eq!(outputs[0], -1.0);
}

/// Soft real-time agents may be modules too: what they lack is not what a hard class forbids.
#[test]
fn what_a_module_is_not_given_is_told_in_the_same_words_for_every_class() {
    let hard = Hard::new().expect("an engine");
    let asks = r#"(module (import "wasi_snapshot_preview1" "fd_write" (func)) (func (export "turn")))"#;
    let long = format!("(module (func (export \"turn\"))) ;; {}", "x".repeat(1024 * 1024));
    for (module, told) in [(asks, "component"), (&long, "component")] {
        let refused = hard.template(module.as_bytes(), MIB).err().expect("refused").to_string();
        assert!(refused.contains(told) && !refused.contains("real-time"), "{refused}");
    }
}
