//! Tests of calls in turns that have a journal.

mod gate;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_protocol::Label;
use althing_protocol::contract::DataLabel;
use serde_json::json;

use super::*;
use crate::context::{CALL_CONTEXT, CallContext};
use crate::effects::Effects;
use crate::lease::Leases;
use crate::ports::Ports;
use crate::ruling::Permit;
use crate::tools::{ContractGate, Definition, Fault, ToolServer};

/// A step as a journal keeps it.
#[derive(Clone)]
struct Row {
    name: String,
    effect: Effect,
    intent: Intent,
    outcome: Option<StepOutcome>,
    /// The keys that the gate added to the batch of the intent, and to that of the result.
    added: [Vec<Vec<u8>>; 2],
}

/// A journal of one turn, whose rows outlive it.
struct MemoryJournal {
    rows: Arc<Mutex<Vec<Row>>>,
    next: AtomicUsize,
    is_parkable: bool,
}

impl MemoryJournal {
    fn of(rows: &Arc<Mutex<Vec<Row>>>) -> Arc<dyn Journal> {
        Arc::new(MemoryJournal { rows: rows.clone(), next: AtomicUsize::new(0), is_parkable: false })
    }

    /// One whose turn ends where somebody is asked.
    fn parkable(rows: &Arc<Mutex<Vec<Row>>>) -> Arc<dyn Journal> {
        Arc::new(MemoryJournal { rows: rows.clone(), next: AtomicUsize::new(0), is_parkable: true })
    }
}

fn keys(rows: &Batch) -> Vec<Vec<u8>> {
    rows.changes().map(|(_, key, _)| key.to_vec()).collect()
}

impl Journal for MemoryJournal {
    fn step<'a>(&'a self, mut step: Step<'a>) -> BoxFuture<'a, Result<NextStep, JournalError>> {
        let place = self.next.fetch_add(1, Ordering::SeqCst);
        let seq = u32::try_from(place).expect("few steps");
        let known = self.rows.lock().expect("nobody panics with it").get(place).cloned();
        Box::pin(async move {
            let (name, effect) = (step.name, step.effect);
            let Some(row) = known else {
                let ruling = step.rule().await;
                if let GateVerdict::Ask(ask) = ruling {
                    return Ok(NextStep::Ask(ask));
                }
                let callee = match step.callee.filter(|_| matches!(ruling, GateVerdict::Permit(_))) {
                    Some(callee) => callee.await,
                    None => None,
                };
                let intent = Intent { seq, key: [seq.to_be_bytes()[3] + 10; 32], callee };
                let (outcome, added) = Default::default();
                let mut row = Row { name: name.to_owned(), effect, intent: intent.clone(), outcome, added };
                let next = match ruling {
                    GateVerdict::Permit(mut permit) => {
                        if matches!(effect, Effect::Keyed | Effect::Final) {
                            row.added[0] = keys(&std::mem::take(&mut permit.rows));
                            if let Some(meanwhile) = step.meanwhile {
                                meanwhile.await;
                            }
                        }
                        NextStep::Go(intent, permit)
                    }
                    GateVerdict::Deny(denied) => {
                        row.outcome = Some(StepOutcome { result: Err(denied.to_string()), tokens: 0, label: None });
                        NextStep::Denied(denied)
                    }
                    GateVerdict::Ask(ask) => NextStep::Ask(ask),
                };
                self.rows.lock().expect("nobody panics with it").push(row);
                return Ok(next);
            };
            match row.outcome {
                _ if row.name != name => Err(JournalError::Diverged { seq, was: row.name, came: name.to_owned() }),
                Some(outcome) => Ok(NextStep::Replayed(outcome)),
                None if row.effect == Effect::Final => Err(JournalError::InDoubt { seq, name: row.name }),
                None => Ok(NextStep::Go(row.intent, Permit::default())),
            }
        })
    }

    fn done<'a>(
        &'a self,
        intent: Intent,
        outcome: &'a StepOutcome,
        rows: Batch,
    ) -> BoxFuture<'a, Result<(), JournalError>> {
        let place = usize::try_from(intent.seq).expect("few steps");
        let mut written = self.rows.lock().expect("nobody panics with it");
        written[place].outcome = Some(outcome.clone());
        written[place].added[1] = keys(&rows);
        Box::pin(std::future::ready(Ok(())))
    }

    fn ahead(&self) -> BoxFuture<'_, usize> {
        let rows = self.rows.lock().expect("nobody panics with it").len();
        Box::pin(std::future::ready(rows.saturating_sub(self.next.load(Ordering::SeqCst))))
    }

    fn is_parkable(&self) -> bool {
        self.is_parkable
    }
}

const LABEL: Label = Label { level: DataLabel::Restricted, trusted: false };

/// Notes the key and the callee of each call; fails where it is told to.
#[derive(Default)]
struct Shop(Mutex<Vec<(Option<String>, Option<String>)>>);

impl ToolServer for Shop {
    fn callee<'a>(&'a self, tool: &'a str) -> Option<BoxFuture<'a, Option<String>>> {
        let calls = self.0.lock().expect("nobody panics with it").len();
        Some(Box::pin(async move { Some(format!("{tool} of {calls}")) }))
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let tool = |name: &str| Definition::new(name, "Does it.", json!({}));
        Box::pin(async move { Ok(vec![tool("order"), tool("fail"), tool("tell")]) })
    }

    fn call<'a>(&'a self, tool: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move {
            let mut calls = self.0.lock().expect("nobody panics with it");
            calls.push((current_key_text(), current_callee()));
            if tool == "tell" {
                context::hear(Some(LABEL));
            }
            if tool == "fail" { Err(Fault::Failed(format!("no {}", calls.len()))) } else { Ok(json!(calls.len())) }
        })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

/// Notes what it is asked, in its order.
#[derive(Default)]
struct Lister(Mutex<Vec<&'static str>>);

impl Lister {
    fn note(&self, what: &'static str) {
        self.0.lock().expect("nobody panics with it").push(what);
    }
}

impl ToolServer for Lister {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        self.note("list");
        Box::pin(async { Ok(vec![Definition::new("order", "Does it.", json!({}))]) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        self.note("call");
        Box::pin(async { Ok(json!(1)) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

struct Scene {
    tools: Tools,
    shop: Arc<Shop>,
    rows: Arc<Mutex<Vec<Row>>>,
}

impl Scene {
    fn new(effects: &[(&str, Effect)]) -> Scene {
        let shop = Arc::<Shop>::default();
        let servers = BTreeMap::from([("shop".to_owned(), shop.clone() as Arc<dyn ToolServer>)]);
        let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
        let file = effects.iter().map(|(name, effect)| ((*name).to_owned(), *effect)).collect();
        let tools = Tools::new(agent, servers, Arc::new(ContractGate::new(vec!["shop/*".to_owned()])));
        Scene { tools: tools.with_effects(Effects { node: BTreeMap::new(), file }), shop, rows: Arc::default() }
    }

    fn called(&self) -> usize {
        self.shop.0.lock().expect("nobody panics with it").len()
    }

    /// Calls a tool as the first step of a turn: of the first one, or of one that goes on.
    async fn call(&self, tool: &str) -> (Result<Value, ToolError>, CallRecord, Option<Label>) {
        let rights = TurnRights { lease: None, journal: Some(MemoryJournal::of(&self.rows)) };
        let turn = async {
            let (outcome, record) = self.tools.invoke(tool, "{}").await;
            (outcome, record, context::label())
        };
        CALL_CONTEXT.scope(CallContext { rights, ..CallContext::default() }, turn).await
    }
}

#[tokio::test]
async fn a_call_that_has_a_result_is_not_made_again() {
    let scene = Scene::new(&[]);
    let (first, record, label) = scene.call("shop/tell").await;
    assert_eq!((&first, label, scene.called()), (&Ok(json!(1)), Some(LABEL), 1));
    let (again, same, label) = scene.call("shop__tell").await;
    assert_eq!((&again, label, scene.called()), (&first, Some(LABEL), 1), "also what was said of its data");
    assert_eq!((same.outcome, same.result, same.arguments), ("done", record.result, record.arguments));
    let other = scene.call("shop/order").await.0.expect_err("another step");
    assert!(matches!(&other, ToolError::Journal(JournalError::Diverged { seq: 0, .. })), "{other:?}");
    assert_eq!(scene.called(), 1);
}

#[tokio::test]
async fn why_a_call_failed_is_told_again_in_the_same_words() {
    let scene = Scene::new(&[]);
    for tool in ["shop/fail", "shop/unknown"] {
        scene.rows.lock().expect("nobody panics with it").clear();
        let (first, again) = (scene.call(tool).await.0, scene.call(tool).await.0);
        let (first, again) = (first.expect_err("it failed"), again.expect_err("it failed"));
        assert_eq!(first.to_string(), again.to_string());
        assert!(matches!(again, ToolError::Replayed(_)), "{again:?}");
    }
    assert_eq!(scene.called(), 1);
    // What is refused before it reaches the gate needs no row.
    scene.rows.lock().expect("nobody panics with it").clear();
    let rights = TurnRights { lease: None, journal: Some(MemoryJournal::of(&scene.rows)) };
    let refused = async { scene.tools.invoke("shop/order", "{").await.0 };
    let refused = CALL_CONTEXT.scope(CallContext { rights, ..CallContext::default() }, refused).await;
    assert!(matches!(refused, Err(ToolError::Arguments { .. })), "{refused:?}");
    assert!(scene.rows.lock().expect("nobody panics with it").is_empty());
}

#[tokio::test]
async fn a_call_that_was_not_sent_because_its_turn_is_superseded_has_a_row_that_says_so() {
    let scene = Scene::new(&[]);
    let leases = Leases::default();
    let journal = Some(MemoryJournal::of(&scene.rows));
    let rights = TurnRights { lease: Some(leases.begin("group", "task", 3)), journal };
    leases.supersede("group", "task", 4);
    let called = async { scene.tools.invoke("shop/order", "{}").await };
    let (refused, record) = CALL_CONTEXT.scope(CallContext { rights, ..CallContext::default() }, called).await;
    let refused = refused.expect_err("another attempt works on the task");
    assert!(matches!(refused, ToolError::Superseded(_)), "{refused:?}");
    assert_eq!((record.outcome, scene.called()), ("superseded", 0));
    let rows = scene.rows.lock().expect("nobody panics with it");
    let outcome = rows[0].outcome.as_ref().expect("it is known that it did not take place");
    assert_eq!((rows[0].effect, &outcome.result), (Effect::Final, &Err(refused.to_string())));
}

#[tokio::test]
async fn a_call_that_was_cut_off_is_made_again_as_far_as_its_effect_allows() {
    for effect in [Effect::None, Effect::Repeatable, Effect::Keyed, Effect::Final] {
        let said: &[(&str, Effect)] = if effect == Effect::Final { &[] } else { &[("shop/order", effect)] };
        let scene = Scene::new(said);
        scene.call("shop/order").await.0.expect("it is made");
        // The node ends after the call, and before its result is written.
        scene.rows.lock().expect("nobody panics with it")[0].outcome = None;
        let (again, record, _) = scene.call("shop/order").await;
        if effect == Effect::Final {
            let doubt = JournalError::InDoubt { seq: 0, name: "shop/order".to_owned() };
            assert_eq!((again, scene.called()), (Err(ToolError::Journal(doubt)), 1));
            assert_eq!(record.outcome, "failed");
            continue;
        }
        assert_eq!((again, scene.called()), (Ok(json!(2)), 2), "{effect:?}");
        let calls = scene.shop.0.lock().expect("nobody panics with it").clone();
        assert_eq!(calls[0], (Some("0a".repeat(32)), Some("order of 0".to_owned())));
        assert_eq!(calls[0], calls[1], "the same key, and whom it reached at first");
    }
}

/// The listing for a call need not wait for the disk, and is made once; none is made for what is told again.
#[tokio::test]
async fn a_server_is_listed_once_before_each_call_that_is_made() {
    for effect in [Effect::Repeatable, Effect::Keyed, Effect::Final] {
        let lister = Arc::<Lister>::default();
        let servers = BTreeMap::from([("shop".to_owned(), lister.clone() as Arc<dyn ToolServer>)]);
        let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
        let tools = Tools::new(agent, servers, Arc::new(ContractGate::new(vec!["shop/*".to_owned()])));
        let file = BTreeMap::from([("shop/order".to_owned(), effect)]);
        let tools = tools.with_effects(Effects { node: BTreeMap::new(), file });
        let rows: Arc<Mutex<Vec<Row>>> = Arc::default();
        for tool in ["shop/order", "shop/order", "shop/no"] {
            if tool == "shop/no" {
                rows.lock().expect("nobody panics with it").clear();
            }
            let rights = TurnRights { lease: None, journal: Some(MemoryJournal::of(&rows)) };
            let context = CallContext { rights, ..CallContext::default() };
            let called = CALL_CONTEXT.scope(context, tools.invoke(tool, "{}")).await.0;
            assert_eq!(called.is_ok(), tool == "shop/order", "{called:?}");
        }
        let asked = lister.0.lock().expect("nobody panics with it").clone();
        assert_eq!(asked, ["list", "call", "list"], "{effect:?}: the last tool is not there");
    }
}

#[tokio::test]
async fn a_call_of_a_turn_without_a_journal_has_no_key() {
    let scene = Scene::new(&[]);
    scene.tools.invoke("shop/order", "{}").await.0.expect("it is made");
    let calls = scene.shop.0.lock().expect("nobody panics with it").clone();
    assert_eq!((calls.len(), calls[0].clone()), (1, (None, None)));
    assert!(scene.rows.lock().expect("nobody panics with it").is_empty());
}

#[tokio::test]
async fn an_error_of_the_journal_ends_the_turn_whatever_the_agent_makes_of_it() {
    let scene = Scene::new(&[]);
    scene.call("shop/order").await.0.expect("it is made");
    scene.rows.lock().expect("nobody panics with it")[0].outcome = None;
    let doubt = AgentError::Journal(JournalError::InDoubt { seq: 0, name: "shop/order".to_owned() });

    for waits in [false, true] {
        let rights = TurnRights { lease: None, journal: Some(MemoryJournal::of(&scene.rows)) };
        let (rights, guard) = guarded(&rights);
        let guard = guard.expect("it has a journal");
        let turn = async {
            for _ in 0..2 {
                let refused = scene.tools.invoke("shop/order", "{}").await.0.expect_err("it is in doubt");
                assert_eq!(AgentError::Failed(refused.to_string()).to_string(), doubt.to_string());
            }
            if waits {
                std::future::pending::<()>().await;
            }
            Ok(())
        };
        let turn = CALL_CONTEXT.scope(CallContext { rights, ..CallContext::default() }, turn);
        assert_eq!(guard.run(Box::pin(turn)).await, Err(doubt.clone()));
    }
    assert_eq!(scene.called(), 1);
    let (rights, guard) = guarded(&TurnRights::default());
    assert!(rights == TurnRights::default() && guard.is_none());
}

/// Agents of which one only has messages passed on to it.
struct Agents;

impl ToolServer for Agents {
    fn is_own(&self) -> bool {
        true
    }

    fn effect(&self, _: &str) -> Option<Effect> {
        Some(Effect::Keyed)
    }

    fn callee_effect<'a>(&'a self, tool: &'a str) -> Option<BoxFuture<'a, Effect>> {
        let effect = if tool == "far" { Effect::Final } else { Effect::Keyed };
        Some(Box::pin(std::future::ready(effect)))
    }

    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(std::future::ready(Ok(Value::Null)))
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn a_call_of_an_agent_elsewhere_is_final_unless_the_owner_knows_better() {
    let tools = |node: &[(&str, Effect)]| {
        let servers = BTreeMap::from([("agents".to_owned(), Arc::new(Agents) as Arc<dyn ToolServer>)]);
        let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
        let node = node.iter().map(|(name, effect)| ((*name).to_owned(), *effect)).collect();
        let tools = Tools::new(agent, servers, Arc::new(ContractGate::new(vec!["agents/*".to_owned()])));
        tools.with_effects(Effects { node, file: BTreeMap::new() })
    };
    let unsaid = tools(&[]);
    assert_eq!(effect_now(&unsaid, "agents/near").await, Effect::Keyed);
    assert_eq!(effect_now(&unsaid, "agents/far").await, Effect::Final);
    assert_eq!(effect_now(&tools(&[("agents/far", Effect::Keyed)]), "agents/far").await, Effect::Keyed);
    assert_eq!(effect_now(&unsaid, "shop/order").await, Effect::Final, "nothing is known of it");
}
