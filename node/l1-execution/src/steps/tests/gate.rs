//! What a gate says of a call is asked once, written with the call's own rows, and heard again from those.

use std::sync::MutexGuard;
use std::sync::atomic::{AtomicBool, AtomicU64};

use althing_keeper::Level;
use althing_protocol::AgentRef;
use althing_store::Family;

use super::*;
use crate::ruling::{Ask, Denied};
use crate::ruling_ahead::rule_all;
use crate::tools::ToolGate;

const ASKS: Family = Family("test.asks");

/// What a script says of a call.
#[derive(Clone, Copy)]
enum Line {
    Permit,
    Deny,
    /// Somebody is asked, who answers at once where the turn does not end there.
    Ask,
}

/// Says of each call of a tool what its script says next, and permits what is not in it. It notes what it is told.
#[derive(Default)]
struct Script {
    lines: Mutex<BTreeMap<&'static str, Vec<Line>>>,
    notes: Mutex<Vec<String>>,
    /// What the calls could carry out that it decided on.
    carried: Mutex<Vec<Option<Label>>>,
    /// Which edition of the script it goes by.
    revision: AtomicU64,
}

impl Script {
    fn of(tool: &'static str, lines: &[Line]) -> Arc<Script> {
        let script = Arc::<Script>::default();
        script.then(tool, lines);
        script
    }

    fn then(&self, tool: &'static str, lines: &[Line]) {
        self.lines.lock().expect("nobody panics with it").entry(tool).or_default().extend(lines);
    }

    fn notes(&self) -> Vec<String> {
        std::mem::take(&mut *self.held())
    }

    fn permit(&self) -> Permit {
        let revision = self.revision.load(Ordering::SeqCst);
        Permit { rows: row("permit"), receipt: Some([7; 16]), revision }
    }

    fn held(&self) -> MutexGuard<'_, Vec<String>> {
        self.notes.lock().expect("nobody panics with it")
    }
}

fn row(key: &str) -> Batch {
    let mut batch = Batch::new();
    batch.put(ASKS, key.as_bytes(), b"1".as_slice());
    batch
}

impl ToolGate for Script {
    fn lists(&self, _: &AgentRef, _: &str) -> Permission {
        Permission::Allowed
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        self.held().push(format!("{}? {}", call.tool, call.is_journalled));
        self.carried.lock().expect("nobody panics with it").push(call.carries);
        let line = {
            let mut lines = self.lines.lock().expect("nobody panics with it");
            let lines = lines.get_mut(call.tool).filter(|lines| !lines.is_empty());
            lines.map_or(Line::Permit, |lines| lines.remove(0))
        };
        let ruling = match line {
            Line::Permit => GateVerdict::Permit(self.permit()),
            Line::Deny => GateVerdict::Deny(Denied { reason: "nobody wants it".to_owned() }),
            Line::Ask => {
                let answered: BoxFuture<'static, ()> = Box::pin(std::future::ready(()));
                GateVerdict::Ask(Ask { id: "0a".repeat(16), to: "alice is asked".to_owned(), answered })
            }
        };
        Box::pin(std::future::ready(ruling))
    }

    fn is_current(&self, _: &ToolCall<'_>, permit: &Permit) -> bool {
        permit.revision == self.revision.load(Ordering::SeqCst)
    }

    fn take_back(&self, receipt: &[u8; 16]) {
        self.held().push(format!("back {}", receipt[0]));
    }

    fn settle<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        permit: &'a Permit,
        outcome: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        self.held().push(format!("{}! {} {:?}", call.tool, outcome.is_ok(), permit.receipt.map(|receipt| receipt[0])));
        Box::pin(std::future::ready(row("settled")))
    }
}

/// The shop behind a gate.
fn scene(gate: &Arc<Script>, effects: &[(&str, Effect)]) -> Scene {
    let Scene { shop, rows, .. } = Scene::new(&[]);
    let servers = BTreeMap::from([("shop".to_owned(), shop.clone() as Arc<dyn ToolServer>)]);
    let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
    let file = effects.iter().map(|(name, effect)| ((*name).to_owned(), *effect)).collect();
    let tools = Tools::new(agent, servers, gate.clone()).with_effects(Effects { node: BTreeMap::new(), file });
    Scene { tools, shop, rows }
}

impl Scene {
    /// Calls tools in a turn that ends where somebody is asked, and whose guard ends it.
    async fn parked(&self, tools: &[&str]) -> (Result<(), AgentError>, Vec<Result<Value, ToolError>>) {
        let rights = TurnRights { lease: None, journal: Some(MemoryJournal::parkable(&self.rows)) };
        let (rights, guard) = guarded(&rights);
        let mut heard = Vec::new();
        let turn = async {
            for tool in tools {
                heard.push(self.tools.invoke(tool, "{}").await.0);
            }
            Ok(())
        };
        let turn = CALL_CONTEXT.scope(CallContext { rights, ..CallContext::default() }, turn);
        let ended = guard.expect("it has a journal").run(Box::pin(turn)).await;
        (ended, heard)
    }

    fn added(&self) -> Vec<[Vec<Vec<u8>>; 2]> {
        self.rows.lock().expect("nobody panics with it").iter().map(|row| row.added.clone()).collect()
    }
}

fn named(keys: &[&str]) -> Vec<Vec<u8>> {
    keys.iter().map(|key| key.as_bytes().to_vec()).collect()
}

#[tokio::test]
async fn what_a_gate_adds_is_in_the_batches_of_the_call_that_it_permits() {
    for (effect, expected) in [
        (Effect::Final, [named(&["permit"]), named(&["settled"])]),
        (Effect::Keyed, [named(&["permit"]), named(&["settled"])]),
        (Effect::Repeatable, [named(&[]), named(&["permit", "settled"])]),
    ] {
        let gate = Arc::<Script>::default();
        let scene = scene(&gate, &[("shop/order", effect)]);
        scene.call("shop/order").await.0.expect("it is made");
        assert_eq!(
            (scene.added(), gate.notes()),
            (vec![expected], vec!["shop/order? true".to_owned(), "shop/order! true Some(7)".to_owned()])
        );
        scene.call("shop/order").await.0.expect("it is heard again");
        assert_eq!((gate.notes(), scene.called()), (Vec::new(), 1), "{effect:?}: it is neither asked nor told again");
    }
    // Outside turns that have a journal the gate writes by itself.
    let gate = Arc::<Script>::default();
    scene(&gate, &[]).tools.invoke("shop/order", "{}").await.0.expect("it is made");
    assert_eq!(gate.notes(), ["shop/order? false", "shop/order! true Some(7)"]);
}

#[tokio::test]
async fn a_call_that_is_made_again_was_permitted_before() {
    let gate = Arc::<Script>::default();
    let scene = scene(&gate, &[("shop/order", Effect::Keyed)]);
    scene.call("shop/order").await.0.expect("it is made");
    // The node ends before the result is written.
    scene.rows.lock().expect("nobody panics with it")[0].outcome = None;
    gate.notes();
    gate.then("shop/order", &[Line::Deny]);
    scene.call("shop/order").await.0.expect("it is made again");
    assert_eq!(gate.notes(), ["shop/order! true None"]);
}

#[tokio::test]
async fn a_denial_is_heard_again_whatever_the_gate_would_say_then() {
    for effect in [Effect::Final, Effect::None] {
        let gate = Script::of("shop/order", &[Line::Deny]);
        let scene = scene(&gate, &[("shop/order", effect)]);
        let (first, record, _) = scene.call("shop/order").await;
        let denied = Denied { reason: "nobody wants it".to_owned() };
        assert_eq!((&first, record.outcome), (&Err(ToolError::Denied(denied.clone())), "denied"));
        let again = scene.call("shop/order").await.0;
        assert_eq!(again, Err(ToolError::Replayed(denied.to_string())), "{effect:?}");
        assert_eq!((scene.called(), gate.notes()), (0, vec!["shop/order? true".to_owned()]));
    }
}

#[tokio::test]
async fn a_turn_ends_where_somebody_is_asked_and_goes_on_with_what_was_done_before() {
    let gate = Script::of("shop/order", &[Line::Ask, Line::Ask]);
    let scene = scene(&gate, &[]);
    for times in 1..=2 {
        let (ended, heard) = scene.parked(&["shop/tell", "shop/order", "shop/tell"]).await;
        let Err(AgentError::Parked(rest)) = ended else { panic!("{ended:?}") };
        assert_eq!((rest.ask, rest.to.as_str()), ("0a".repeat(16), "alice is asked"));
        assert_eq!(heard.first(), Some(&Ok(json!(1))));
        assert!(heard.get(2).is_none_or(Result::is_err), "nothing is made after that");
        let rows = scene.rows.lock().expect("nobody panics with it").len();
        assert_eq!((scene.called(), rows), (1, 1), "{times}: what was made is not made again");
    }
    let (ended, heard) = scene.parked(&["shop/tell", "shop/order", "shop/tell"]).await;
    assert_eq!((ended, heard), (Ok(()), vec![Ok(json!(1)), Ok(json!(2)), Ok(json!(3))]));
}

#[tokio::test]
async fn a_call_waits_for_the_answer_where_its_turn_cannot_go_on_later() {
    let gate = Script::of("shop/order", &[Line::Ask, Line::Ask, Line::Permit]);
    let scene = scene(&gate, &[]);
    scene.call("shop/order").await.0.expect("it is made in the end");
    assert_eq!((scene.called(), gate.notes().len()), (1, 4));
    gate.then("shop/order", &[Line::Ask, Line::Deny]);
    let denied = scene.tools.invoke("shop/order", "{}").await.0;
    assert!(matches!(denied, Err(ToolError::Denied(_))), "{denied:?}");
    assert_eq!(scene.called(), 1);
}

#[tokio::test]
async fn all_calls_of_a_step_are_decided_before_the_first_is_made() {
    let gate = Script::of("shop/fail", &[Line::Ask]);
    let scene = scene(&gate, &[]);
    let calls = [("shop__tell", "{}"), ("shop__fail", "{}"), ("shop__order", "{"), ("shop__order", "{}")];
    let calls = calls.map(|(name, arguments)| (name.to_owned(), arguments.to_owned()));
    let rights = || TurnRights { lease: None, journal: Some(MemoryJournal::parkable(&scene.rows)) };
    let of_turn = |rights| CallContext { rights, ..CallContext::default() };
    let asked = CALL_CONTEXT.scope(of_turn(rights()), rule_all(&scene.tools, &calls)).await.map(drop);
    assert!(matches!(asked, Err(JournalError::Parked(_))), "{asked:?}");
    let decided = ["shop/tell? true", "shop/fail? true", "shop/order? true"];
    // The turn decides on them anew when it goes on: what was permitted is given back.
    let noted = decided.into_iter().chain(["back 7", "back 7"]).map(str::to_owned).collect();
    assert_eq!((scene.called(), gate.notes()), (0, noted));
    // What has a row is not decided again, and what is refused before it reaches the gate never is.
    scene.call("shop/tell").await.0.expect("it is made");
    gate.notes();
    let said = CALL_CONTEXT.scope(of_turn(rights()), rule_all(&scene.tools, &calls)).await;
    let mut said = said.expect("all are permitted");
    assert_eq!([(); 3].map(|()| said.take().is_some()), [false, true, false]);
    assert_eq!(gate.notes(), ["shop/fail? true", "shop/order? true"]);
    drop(said);
    assert_eq!(gate.notes(), ["back 7"], "what is left");
}

#[tokio::test]
async fn what_was_permitted_ahead_is_decided_anew_before_it_is_made_where_that_counts_no_more() {
    let calls = ["shop__fail", "shop__tell", "shop__order"].map(|name| (name.to_owned(), "{}".to_owned()));
    for is_journalled in [true, false] {
        let gate = Arc::<Script>::default();
        let scene = scene(&gate, &[("shop/order", Effect::Final)]);
        let journal = is_journalled.then(|| MemoryJournal::of(&scene.rows));
        let turn = CallContext { rights: TurnRights { lease: None, journal }, ..CallContext::default() };
        let made = async {
            let mut ahead = rule_all(&scene.tools, &calls).await.expect("all are permitted");
            assert_eq!(gate.notes().len(), 3);
            // As long as nothing changes each call is decided once.
            for (tool, noted) in [("shop/fail", "shop/fail! false Some(7)"), ("shop/tell", "shop/tell! true Some(7)")] {
                drop(scene.tools.invoke_ruled(tool, "{}", ahead.take()).await);
                assert_eq!(gate.notes(), [noted]);
            }
            gate.then("shop/order", &[Line::Deny]);
            gate.revision.fetch_add(1, Ordering::SeqCst);
            scene.tools.invoke_ruled("shop/order", "{}", ahead.take()).await.0
        };
        let refused = CALL_CONTEXT.scope(turn, made).await.expect_err("it is forbidden by now");
        assert!(matches!(refused, ToolError::Denied(_)), "{refused:?}");
        let anew = format!("shop/order? {is_journalled}");
        let noted = match is_journalled {
            true => vec!["back 7".to_owned(), anew],
            // The gate wrote of it what wants an end.
            false => vec!["back 7".to_owned(), "shop/order! false Some(7)".to_owned(), anew],
        };
        assert_eq!((gate.notes(), scene.called()), (noted, 2), "the first two alone were made");
    }
}

#[tokio::test]
async fn what_is_decided_anew_carries_what_it_could_carry_when_it_was_wanted() {
    let gate = Arc::<Script>::default();
    let scene = scene(&gate, &[]);
    let calls = ["shop__tell", "shop__order"].map(|name| (name.to_owned(), "{}".to_owned()));
    let made = async {
        let mut ahead = rule_all(&scene.tools, &calls).await.expect("both are permitted");
        scene.tools.invoke_ruled("shop/tell", "{}", ahead.take()).await.0.expect("it is made");
        gate.revision.fetch_add(1, Ordering::SeqCst);
        scene.tools.invoke_ruled("shop/order", "{}", ahead.take()).await.0.expect("it is made");
        scene.tools.invoke("shop/order", "{}").await.0.expect("it is made");
    };
    CALL_CONTEXT.scope(CallContext::default(), made).await;
    let carried = gate.carried.lock().expect("nobody panics with it").clone();
    assert_eq!(carried, [None, None, None, Some(LABEL)], "twice ahead, once anew, and one that was wanted later");
}

/// A program that its first call starts.
#[derive(Default)]
struct Program(AtomicBool);

impl ToolServer for Program {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(vec![Definition::new("order", "Does it.", json!({}))]) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        self.0.store(true, Ordering::SeqCst);
        Box::pin(async { Ok(json!(1)) })
    }

    fn level(&self) -> Option<Level> {
        self.0.load(Ordering::SeqCst).then_some(Level::Account)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn what_was_permitted_before_it_was_known_how_its_program_is_enclosed_is_decided_anew() {
    let gate = Arc::<Script>::default();
    let servers = BTreeMap::from([("shop".to_owned(), Arc::<Program>::default() as Arc<dyn ToolServer>)]);
    let agent = Ports::none().agent_ref("agent", "1.0.0").expect("a name");
    let tools = Tools::new(agent, servers, gate.clone());
    let calls = ["shop__order", "shop__order"].map(|name| (name.to_owned(), "{}".to_owned()));
    let mut ahead = rule_all(&tools, &calls).await.expect("both are permitted");
    gate.notes();
    tools.invoke_ruled("shop/order", "{}", ahead.take()).await.0.expect("it is made");
    assert_eq!(gate.notes(), ["shop/order! true Some(7)"]);
    gate.then("shop/order", &[Line::Deny]);
    tools.invoke_ruled("shop/order", "{}", ahead.take()).await.0.expect_err("more is known by now");
    assert_eq!(gate.notes(), ["back 7", "shop/order! false Some(7)", "shop/order? false"]);
}
