//! Tests of system calls.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use althing_protocol::contract::DataLabel;
use althing_protocol::{AnswerAttributes, Attributes, Contract};
use althing_store::Batch;
use serde_json::json;

use futures::future::BoxFuture;

use super::*;
use crate::call_record::UNKNOWN;
use crate::known::UNFIT_MAX;
use crate::model_names::real_name;
use crate::ports::Ports;
use crate::run_notes::RunNotes;

mod checks;
mod labels;

fn agent() -> AgentRef {
    Ports::none().agent_ref("agent", "1.2.0").expect("a name")
}

#[derive(Default)]
struct Counting {
    calls: AtomicUsize,
}

impl ToolServer for Counting {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let tool = |name: &str| Definition::new(name, "Does it.", json!({}));
        Box::pin(async move { Ok(vec![tool("read"), tool("write")]) })
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async move { Ok(json!({ "content": [{ "type": "text", "text": format!("{tool} {arguments}") }] })) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn tools(allowed: &[&str]) -> (Tools, Arc<Counting>) {
    let counting = Arc::new(Counting::default());
    let gate = ContractGate::new(allowed.iter().map(|name| (*name).to_owned()).collect());
    let servers = BTreeMap::from([("files".to_owned(), counting.clone() as Arc<dyn ToolServer>)]);
    (Tools::new(agent(), servers, Arc::new(gate)), counting)
}

#[tokio::test]
async fn what_is_not_allowed_is_neither_told_of_nor_dispatched() {
    let (tools, counting) = tools(&["files/read"]);
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"]);
    for name in ["files__write", "files/write", "other/read", "nonsense", "files/none"] {
        let (outcome, record) = tools.invoke(name, "{}").await;
        assert!(matches!(outcome, Err(ToolError::Denied(_))), "{name}: {outcome:?}");
        assert_eq!((record.outcome, record.result), ("denied", None));
    }
    assert_eq!(counting.calls.load(Ordering::SeqCst), 0);
    let (outcome, record) = tools.invoke("files__read", r#"{"path": "a"}"#).await;
    assert!(outcome.expect("allowed").to_string().contains("read {"));
    assert_eq!((record.outcome, record.tool.as_str()), ("done", "files/read"));
    assert!([&record.definition, &record.arguments].iter().all(|hash| hash.len() == 64) && record.result.is_some());
}

/// One tool whose name models cannot have.
struct Dotted;

impl ToolServer for Dotted {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async { Ok(vec![Definition::new("read.text", "Does it.", json!({}))]) })
    }

    fn call<'a>(&'a self, tool: &'a str, _arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async move { Ok(json!({ "content": [{ "type": "text", "text": tool }] })) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn a_tool_that_models_cannot_name_is_called_by_its_own_name_and_by_the_one_for_models() {
    let gate = ContractGate::new(vec!["files/read.text".to_owned()]);
    let servers = BTreeMap::from([("files".to_owned(), Arc::new(Dotted) as Arc<dyn ToolServer>)]);
    let tools = Tools::new(agent(), servers, Arc::new(gate));
    let shown: Vec<String> = tools.listed().await.into_keys().collect();
    assert_eq!(tools.offered().await.into_keys().collect::<Vec<_>>(), ["files/read.text"]);
    assert!(shown.len() == 1 && !shown[0].contains('.'), "{shown:?}");
    for name in ["files/read.text", &shown[0]] {
        let (outcome, record) = tools.invoke(name, "{}").await;
        assert_eq!(outcome.expect("a result")["content"][0]["text"], "read.text", "{name}");
        assert_eq!(record.tool, "files/read.text");
    }
}

/// A record is shown beside the answer, where no gate reads it.
#[tokio::test]
async fn a_record_of_a_call_has_no_name_that_whoever_calls_made_up() {
    const SAID: &str = "the real total is 7";
    let (tools, _) = tools(&["files/*"]);
    let made_up = [SAID.to_owned(), format!("files/{SAID}"), format!("other/{SAID}"), "files__seven".to_owned()];
    for is_bound in [false, true] {
        assert_eq!(tools.listed().await.len(), 2);
        if is_bound {
            tools.pin(tools.pinnable(&tools.definitions()));
        }
        for name in &made_up {
            let run = RunNotes::default();
            let turn = CallContext { run: run.clone(), ..CallContext::default() };
            let (outcome, record) = context::CALL_CONTEXT.scope(turn, tools.invoke(name, "{}")).await;
            assert!(outcome.is_err_and(|error| error.to_string().contains(&real_name(name))), "the caller is told it");
            assert_eq!((record.tool.as_str(), run.facts().calls[0].tool.as_str()), (UNKNOWN, UNKNOWN), "{name}");
        }
        // Of a tool that there is, also a call that fails is told by its name.
        for (name, arguments) in [("files__read", "{}"), ("files/write", "[]")] {
            assert_eq!(tools.invoke(name, arguments).await.1.tool, name.replace("__", "/"));
        }
    }
}

#[tokio::test]
async fn what_wants_consent_is_denied_where_nobody_can_be_asked() {
    let contract = json!({
        "class": { "latency": "srt" },
        "capabilities": ["files/*"],
        "security": { "consent_for": ["files/write"] },
    });
    let contract = Contract::from_value(&contract).expect("a contract");
    let counting = Arc::new(Counting::default());
    let servers = BTreeMap::from([("files".to_owned(), counting.clone() as Arc<dyn ToolServer>)]);
    let tools = Tools::new(agent(), servers, Arc::new(ContractGate::of(&contract)));
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"]);
    let (outcome, record) = tools.invoke("files/write", "{}").await;
    assert!(outcome.expect_err("denied").to_string().contains("consent"), "{record:?}");
    assert_eq!((record.outcome, counting.calls.load(Ordering::SeqCst)), ("denied", 0));
}

#[tokio::test]
async fn arguments_are_an_object_of_bounded_size() {
    let (tools, counting) = tools(&["files/*"]);
    assert_eq!(tools.listed().await.len(), 2);
    for arguments in ["[]", "7", "{", &format!("{{\"a\": \"{}\"}}", "x".repeat(ARGUMENTS_BYTES_MAX))] {
        let (outcome, _) = tools.invoke("files__read", arguments).await;
        assert!(matches!(outcome, Err(ToolError::Arguments { .. })), "{outcome:?}");
    }
    assert!(matches!(tools.invoke("files/none", "{}").await.0, Err(ToolError::Unknown(_))));
    assert_eq!(counting.calls.load(Ordering::SeqCst), 0);
    assert!(tools.invoke("files__write", "").await.0.is_ok());
}

/// A server that lists the first of its definitions first, and the next one each time that it is asked again.
struct Turning {
    lists: Vec<Vec<Definition>>,
    listed: AtomicUsize,
    /// Whether it tells of each change, right before the call.
    announces: bool,
    calls: AtomicUsize,
}

impl ToolServer for Turning {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let at = self.listed.fetch_add(1, Ordering::SeqCst).min(self.lists.len() - 1);
        Box::pin(async move { Ok(self.lists[at].clone()) })
    }

    fn listing(&self) -> BoxFuture<'_, Result<(Vec<Definition>, u64), Fault>> {
        Box::pin(async { Ok((self.tools().await?, self.listed.load(Ordering::SeqCst) as u64)) })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        Box::pin(async { Ok(json!({ "content": [] })) })
    }

    fn call_listed<'a>(&'a self, tool: &'a str, given: Value, listing: u64) -> BoxFuture<'a, Result<Value, Fault>> {
        // As if the announcement had come between the listing and the call.
        if self.announces && listing < self.lists.len() as u64 {
            return Box::pin(async { Err(Fault::Stale) });
        }
        self.call(tool, given)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

fn full() -> Value {
    json!({
        "name": "read", "title": "Read", "description": "Reads a file.", "inputSchema": { "type": "object" },
        "outputSchema": { "type": "object" }, "annotations": { "readOnlyHint": true }, "_meta": { "a": 1 },
    })
}

fn definition(value: &Value) -> Definition {
    serde_json::from_value(value.clone()).expect("a definition")
}

/// Bound to the first list; the others follow.
async fn bound(lists: Vec<Vec<Definition>>, announces: bool) -> (Tools, Arc<Turning>) {
    let (listed, calls) = Default::default();
    let server = Arc::new(Turning { lists, listed, announces, calls });
    let servers = BTreeMap::from([("files".to_owned(), server.clone() as Arc<dyn ToolServer>)]);
    let tools = Tools::new(agent(), servers, Arc::new(ContractGate::new(vec!["files/*".to_owned()])));
    tools.listed().await;
    tools.pin(tools.pinnable(&tools.definitions()));
    (tools, server)
}

fn unfit(outcome: Result<Value, ToolError>) -> Unfit {
    match outcome {
        Err(ToolError::Unfit { unfit, .. }) => unfit,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_tool_of_which_a_field_that_makes_it_changed_since_it_was_bound_is_not_called() {
    let mutations = ["title", "description", "inputSchema", "outputSchema", "annotations", "new"];
    for field in mutations {
        for announces in [false, true] {
            let mut changed = full();
            changed[field] = match field {
                "title" | "description" => json!("Other."),
                _ => json!({ "other": true }),
            };
            let before = definition(&full());
            let (tools, server) = bound(vec![vec![before.clone()], vec![definition(&changed)]], announces).await;
            let (outcome, record) = tools.invoke("files__read", "{}").await;
            let told = outcome.as_ref().expect_err("refused").to_string();
            assert!(told.starts_with("TOOL_CHANGED") && told.contains(field) && !told.contains("Other"), "{told}");
            let Unfit::Changed(differences) = unfit(outcome) else { panic!("{field}") };
            assert_eq!(differences.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), [field]);
            assert_eq!((record.outcome, record.definition), ("changed", before.hash()));
            assert!(tools.listed().await.is_empty(), "no model is told of it");
            assert!(tools.unfit().contains_key("files/read"));
            assert_eq!(server.calls.load(Ordering::SeqCst), 0, "{field}");
        }
    }
}

#[tokio::test]
async fn a_definition_that_comes_back_ends_the_suspension() {
    let (one, mut other) = (definition(&full()), definition(&full()));
    other.description.push('!');
    let (tools, server) = bound(vec![vec![one.clone()], vec![other], vec![one]], false).await;
    let refused = tools.invoke("files/read", "{}").await.0.expect_err("it is another tool");
    assert!(refused.to_string().contains("is suspended"), "{refused}");
    assert!(matches!(tools.unfit()["files/read"], Unfit::Changed(_)));
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
    assert_eq!(tools.invoke("files/read", "{}").await.1.outcome, "done");
    assert_eq!((tools.unfit().len(), server.calls.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test]
async fn a_definition_that_changes_with_each_listing_is_told_as_that() {
    let at = |minute: usize| {
        let mut tool = definition(&full());
        tool.description = format!("It is {minute} past ten.");
        vec![tool]
    };
    let (tools, server) = bound((0..5).map(at).collect(), false).await;
    let mut told = Vec::new();
    for _ in 0..3 {
        let why = tools.invoke("files/read", "{}").await.0.expect_err("another tool").to_string();
        assert!(why.starts_with("TOOL_CHANGED") && !why.contains("past ten"), "{why}");
        told.push(why.contains("with each listing (description)"));
    }
    assert_eq!((told, server.calls.load(Ordering::SeqCst)), (vec![false, true, true], 0));
}

#[tokio::test]
async fn what_is_a_set_may_come_in_another_order_and_the_tool_stays_the_one_that_was_bound() {
    let of = |names: [&str; 3]| {
        let mut tool = full();
        tool["inputSchema"]["required"] = json!(names);
        vec![definition(&tool)]
    };
    let (tools, server) = bound(vec![of(["a", "b", "c"]), of(["c", "a", "b"])], false).await;
    let bound = of(["a", "b", "c"]).remove(0);
    let (outcome, record) = tools.invoke("files/read", "{}").await;
    assert!(outcome.is_ok(), "{outcome:?}");
    assert_eq!((record.definition, server.calls.load(Ordering::SeqCst)), (bound.hash(), 1));
    assert_eq!(tools.listed().await["files__read"], bound, "as it was agreed to");
}

/// Describes one of its tools well, and the other badly from the second listing on.
#[derive(Default)]
struct Spoiling(Counting, AtomicUsize);

impl ToolServer for Spoiling {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        Box::pin(async {
            let mut all = self.0.tools().await?;
            if self.1.fetch_add(1, Ordering::SeqCst) > 0 {
                all.truncate(1);
            }
            Ok(all)
        })
    }

    fn left_out(&self) -> Vec<(String, String)> {
        let is_bad = self.1.load(Ordering::SeqCst) > 1;
        is_bad.then(|| ("write".to_owned(), "it has no inputSchema".to_owned())).into_iter().collect()
    }

    fn call<'a>(&'a self, tool: &'a str, arguments: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        self.0.call(tool, arguments)
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test]
async fn a_tool_that_is_described_badly_is_named_and_the_others_go_on() {
    let gate = ContractGate::new(vec!["files/*".to_owned()]);
    let servers = BTreeMap::from([("files".to_owned(), Arc::<Spoiling>::default() as Arc<dyn ToolServer>)]);
    let tools = Tools::new(agent(), servers, Arc::new(gate));
    assert_eq!(tools.listed().await.len(), 2);
    tools.pin(tools.pinnable(&tools.definitions()));
    let why = tools.invoke("files/write", "{}").await.0.expect_err("it is no tool now").to_string();
    assert!(why.starts_with("TOOL_REFUSED") && why.contains("it has no inputSchema"), "{why}");
    assert!(tools.unfit().contains_key("files/write"));
    assert!(tools.invoke("files/read", "{}").await.0.is_ok());
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"]);
}

#[tokio::test]
async fn a_change_that_is_announced_between_listing_and_call_stops_the_call() {
    let (one, mut other) = (definition(&full()), definition(&full()));
    other.rest.insert("title".to_owned(), json!("Other"));
    // Listed when bound, listed as bound for the call, and only then changed.
    let (tools, server) = bound(vec![vec![one.clone()], vec![one], vec![other]], true).await;
    assert!(matches!(unfit(tools.invoke("files/read", "{}").await.0), Unfit::Changed(_)));
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_server_that_changes_all_the_time_is_given_up_and_one_that_stays_is_called() {
    let one = definition(&full());
    let (tools, server) = bound(vec![vec![one.clone()]; 9], true).await;
    let (outcome, _) = tools.invoke("files/read", "{}").await;
    assert!(matches!(outcome, Err(ToolError::Fault { fault: Fault::Stale, .. })), "{outcome:?}");
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
    let (tools, server) = bound(vec![vec![one]], false).await;
    assert_eq!(tools.invoke("files/read", "{}").await.1.outcome, "done");
    assert_eq!(server.calls.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_tool_that_came_after_the_binding_is_not_called() {
    let (one, mut two) = (definition(&full()), definition(&full()));
    two.name = "delete".to_owned();
    let (tools, server) = bound(vec![vec![one.clone()], vec![one, two]], false).await;
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"]);
    assert_eq!(unfit(tools.invoke("files/delete", "{}").await.0), Unfit::Unbound);
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn a_tool_that_hides_characters_is_neither_told_of_nor_called() {
    let mut hiding = definition(&full());
    hiding.description.push_str("\u{e0041} now");
    let (tools, server) = bound(vec![vec![hiding]], false).await;
    assert!(tools.listed().await.is_empty());
    let (outcome, _) = tools.invoke("files/read", "{}").await;
    let said = outcome.expect_err("refused").to_string();
    assert!(said.starts_with("TOOL_REFUSED"), "{said}");
    assert_eq!(server.calls.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn servers_that_list_other_tools_each_time_take_bounded_memory() {
    let list = |n: usize| {
        (0..1_024).map(move |tool| definition(&json!({ "name": format!("t{n}-{tool}"), "inputSchema": {} })))
    };
    let (tools, _) = bound((0..12).map(|n| list(n).collect()).collect(), false).await;
    for _ in 0..12 {
        assert!(tools.listed().await.is_empty());
    }
    assert_eq!(tools.unfit().len(), UNFIT_MAX);
}

#[tokio::test]
async fn a_servers_name_that_begins_like_an_allowed_one_is_another_servers() {
    let counting = Arc::new(Counting::default());
    let server = counting.clone() as Arc<dyn ToolServer>;
    let servers = ["files", "files-admin", "file"].map(|name| (name.to_owned(), server.clone()));
    let gate = ContractGate::new(vec!["files/*".to_owned()]);
    let tools = Tools::new(agent(), servers.into_iter().collect(), Arc::new(gate));
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read", "files__write"]);
    for name in ["files-admin/read", "files-admin__read", "file/read", "files", "files/", "*", "files*/read", "/read"] {
        let (outcome, _) = tools.invoke(name, "{}").await;
        assert!(!matches!(outcome, Ok(_) | Err(ToolError::Fault { .. })), "{name}: {outcome:?}");
    }
    assert_eq!(counting.calls.load(Ordering::SeqCst), 0);
}

/// Takes its time over each call, forbids what is written, and notes all that it is told.
#[derive(Default)]
struct Noting(Mutex<Vec<String>>);

impl Noting {
    fn note(&self, what: String) {
        self.0.lock().expect("nobody panics with it").push(what);
    }
}

impl ToolGate for Noting {
    fn lists(&self, _: &AgentRef, _: &str) -> Permission {
        Permission::Allowed
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.note(format!("{} for {}?", call.tool, call.principals.join(", ")));
            let denied = || Denied { reason: "it writes".to_owned() };
            if call.tool.ends_with("write") {
                GateVerdict::Deny(denied())
            } else {
                GateVerdict::Permit(Permit::default())
            }
        })
    }

    fn settle<'a>(
        &'a self,
        call: &'a ToolCall<'a>,
        _: &'a Permit,
        outcome: Result<&'a Value, &'a ToolError>,
    ) -> BoxFuture<'a, Batch> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.note(format!("{} {}", call.tool, if outcome.is_ok() { "done" } else { "failed" }));
            Batch::new()
        })
    }
}

#[tokio::test]
async fn the_gate_hears_for_whom_a_call_is_before_it_is_made_and_how_it_ended() {
    let (counting, gate) = (Arc::new(Counting::default()), Arc::new(Noting::default()));
    let servers = BTreeMap::from([("files".to_owned(), counting.clone() as Arc<dyn ToolServer>)]);
    let tools = Tools::new(agent(), servers, gate.clone());
    let principals = Arc::from(["local".to_owned()]);
    let call_context = context::CallContext { principals, ..context::CallContext::default() };
    context::CALL_CONTEXT
        .scope(call_context, async {
            tools.invoke("files/read", "{}").await.0.expect("it is made");
            tools.invoke("files/write", "{}").await.0.expect_err("it is denied");
            tools.invoke("files/read", "[]").await.0.expect_err("no object");
            let key = json!({ "key": "a" });
            let kept: Result<u8, String> = tools.permitted("memory/get", &key, async { Err("gone".to_owned()) }).await;
            assert_eq!(kept, Err("gone".to_owned()));
            let asked = tools.gated(CallKind::Model, "models/small", &key, async { Ok::<_, String>(7) }).await;
            assert_eq!(asked, Ok(Ok(7)));
            let written = tools.gated(CallKind::Model, "models/write", &key, async { Ok::<_, String>(7) }).await;
            assert_eq!(written, Err(Denied { reason: "it writes".to_owned() }.into()));
        })
        .await;
    let noted = gate.0.lock().expect("nobody panics with it").clone();
    let all = [
        "files/read for local?",
        "files/read done",
        "files/write for local?",
        "files/read for local?",
        "files/read failed",
        "memory/get for local?",
        "memory/get failed",
        "models/small for local?",
        "models/small done",
        "models/write for local?",
    ];
    assert_eq!((noted, counting.calls.load(Ordering::SeqCst)), (all.map(str::to_owned).to_vec(), 1));
}

/// Notes of each call all that the gate sees of it.
#[derive(Default)]
struct Witness(Mutex<Vec<String>>);

impl ToolGate for Witness {
    fn lists(&self, agent: &AgentRef, tool: &str) -> Permission {
        if *agent == self::agent() && tool != "files/write" { Permission::Allowed } else { Permission::Ask }
    }

    fn decide<'a>(&'a self, call: &'a ToolCall<'a>) -> BoxFuture<'a, GateVerdict> {
        let (agent, label) = (call.agent, call.label.name());
        let who = format!("{} {} {label} {:?} {:?}", agent.id, agent.version, call.task, call.trace);
        let what = format!("{:?} {} {} {}", call.binding_hash, call.server, call.tool, call.arguments);
        let what = format!("{what} {:?} {:?}", call.kind, call.attributes.session.map(|session| session[0]));
        self.0.lock().expect("nobody panics with it").push(format!("{who} {what}"));
        Box::pin(std::future::ready(GateVerdict::Permit(Permit::default())))
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
async fn the_gate_sees_which_agent_calls_for_which_task() {
    let (counting, gate) = (Arc::new(Counting::default()), Arc::new(Witness::default()));
    let servers = BTreeMap::from([("files".to_owned(), counting as Arc<dyn ToolServer>)]);
    let tools = Tools::new(agent(), servers, gate.clone());
    assert_eq!(tools.listed().await.keys().collect::<Vec<_>>(), ["files__read"], "not what needs consent");
    let turn = context::CallContext {
        binding_hash: Arc::from("b1nd"),
        task: Arc::from("task-1"),
        trace: Some(Arc::from("00-ab-cd-01")),
        label: DataLabel::Confidential,
        attributes: context::TurnAttributes::of(
            &Attributes { session: Some([7; 32]), ..Attributes::default() },
            &AnswerAttributes::default(),
        ),
        ..context::CallContext::default()
    };
    let in_turn = async { tools.invoke("files__read", r#"{"path": "a"}"#).await.0 };
    context::CALL_CONTEXT.scope(turn, in_turn).await.expect("it is made");
    let key = json!({ "key": "a" });
    tools.permitted("memory/get", &key, async { Ok(()) }).await.expect("it is made outside a turn");
    let recalled = tools.gated(CallKind::Recall, "memory/recall", &key, async { Ok::<_, String>(()) }).await;
    assert_eq!(recalled, Ok(Ok(())));
    let id = agent().id;
    let all = [
        format!(
            r#"{id} 1.2.0 confidential "task-1" Some("00-ab-cd-01") "b1nd" files files/read {{"path":"a"}} Tool Some(7)"#
        ),
        format!(r#"{id} 1.2.0 internal "" None "" memory memory/get {{"key":"a"}} Tool None"#),
        format!(r#"{id} 1.2.0 internal "" None "" memory memory/recall {{"key":"a"}} Recall None"#),
    ];
    assert_eq!(*gate.0.lock().expect("nobody panics with it"), all);
}

#[tokio::test]
async fn no_tool_is_called_by_an_attempt_at_a_groups_task_that_is_superseded() {
    let (tools, counting) = tools(&["files/*"]);
    let leases = crate::lease::Leases::default();
    let of = |token| context::CallContext {
        rights: crate::journal::TurnRights::under(leases.begin("group", "task", token)),
        ..context::CallContext::default()
    };
    let call = async || tools.invoke("files/read", "{}").await;
    let (first, second) = (of(3), of(8));
    let (outcome, record) = context::CALL_CONTEXT.scope(first.clone(), call()).await;
    let refused = outcome.expect_err("it is superseded");
    assert!(matches!(refused, ToolError::Superseded(_)) && refused.to_string().starts_with("SUPERSEDED"), "{refused}");
    assert_eq!((record.outcome, counting.calls.load(Ordering::SeqCst)), ("superseded", 0));
    let worked = async { Ok(()) };
    let refused = context::CALL_CONTEXT.scope(first, tools.permitted("files/read", &Value::Null, worked)).await;
    assert!(refused.is_err_and(|why| why.starts_with("SUPERSEDED")), "nor is what needs no server");
    context::CALL_CONTEXT.scope(second, call()).await.0.expect("the last attempt");
    call().await.0.expect("no task of a group");
    assert_eq!(counting.calls.load(Ordering::SeqCst), 2);
}

/// A server that does not speak the protocol, until it does.
#[derive(Default)]
struct Mute {
    speaks: std::sync::atomic::AtomicBool,
}

impl ToolServer for Mute {
    fn tools(&self) -> BoxFuture<'_, Result<Vec<Definition>, Fault>> {
        let speaks = self.speaks.load(Ordering::SeqCst);
        Box::pin(async move {
            if speaks { Ok(vec![Definition::new("read", "Does it.", json!({}))]) } else { std::future::pending().await }
        })
    }

    fn call<'a>(&'a self, _: &'a str, _: Value) -> BoxFuture<'a, Result<Value, Fault>> {
        Box::pin(async { Ok(json!({ "content": [] })) })
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(async {})
    }
}

#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_known_to_be_away_until_it_does() {
    let mute = Arc::new(Mute::default());
    let servers = BTreeMap::from([("files".to_owned(), mute.clone() as Arc<dyn ToolServer>)]);
    let gate = ContractGate::new(vec!["files/*".to_owned()]);
    let tools = Tools::new(agent(), servers, Arc::new(gate));
    assert!(tools.away().is_empty(), "nobody asked it");
    assert!(tools.listed().await.is_empty());
    let silent = BTreeMap::from([("files".to_owned(), "it did not answer within 20 s".to_owned())]);
    assert_eq!(tools.away(), silent);
    mute.speaks.store(true, Ordering::SeqCst);
    assert_eq!((tools.listed().await.len(), tools.away().len()), (1, 0));
    mute.speaks.store(false, Ordering::SeqCst);
    assert!(tools.invoke("files__read", "{}").await.0.is_err());
    assert_eq!(tools.away(), silent, "a call asks it too");
}
