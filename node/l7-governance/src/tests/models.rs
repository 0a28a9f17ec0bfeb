//! How far the data of a turn may go to models, and what labels would decide where they do not.

use serde_json::Map;

use super::*;

const ALL: &str = "permit(principal, action, resource);";
const REQUEST: &str = "models/small";

fn cleared(level: DataLabel, is_written: bool) -> Option<ModelClearance> {
    Some(ModelClearance { level, is_written })
}

/// A turn that read data of that label, and asks a model about them.
fn turn(level: DataLabel, trusted: bool) -> Turn {
    let mut turn = Turn::new();
    (turn.attributes.label, turn.definition) = (Some(Label { level, trusted }), String::new());
    turn.arguments = json!({ "model": "small", "messages": [{ "content": "the accounts" }], "max_tokens": 9 });
    turn
}

fn request<'a>(turn: &'a Turn, clearance: Option<ModelClearance>) -> ToolCall<'a> {
    ToolCall { kind: CallKind::Model, clearance, is_journalled: false, ..turn.call("task", REQUEST) }
}

#[tokio::test]
async fn restricted_data_go_to_no_model_that_is_not_cleared_for_them() {
    let (bench, restricted) = (Bench::new(), turn(DataLabel::Restricted, true));
    let governance = bench.start().await;
    let (unwritten, written) = (cleared(DataLabel::Internal, false), cleared(DataLabel::Internal, true));
    permitted(gate(&governance).decide(&request(&restricted, unwritten)).await);
    let reason = denied(gate(&governance).decide(&request(&restricted, written)).await);
    assert!(reason.contains("the data are restricted") && reason.contains("cleared for internal"), "{reason}");
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    for clearance in [unwritten, written, None] {
        let reason = denied(gate(&governance).decide(&request(&restricted, clearance)).await);
        assert!(reason.contains("the data are restricted") && reason.contains("cleared for internal"), "{reason}");
    }
    permitted(gate(&governance).decide(&request(&restricted, cleared(DataLabel::Restricted, true))).await);
    // What nobody vouches for is asked about as before: a request changes nothing.
    let strange = turn(DataLabel::Internal, false);
    permitted(gate(&governance).decide(&request(&strange, unwritten)).await);
}

#[tokio::test]
async fn policies_read_how_far_the_model_is_cleared_that_is_asked() {
    let (bench, public) = (Bench::new(), turn(DataLabel::Public, true));
    let governance = bench.start().await;
    let text = format!(
        "{ALL} @id(\"vault\") forbid(principal, action == Action::\"model\", resource) when {{ resource.clearance.rank < 2 }};"
    );
    governance.load_policy(&text, Actor::Owner).await.expect("it is good");
    // Two endpoints have a model of that name.
    for _ in 0..2 {
        let reason = denied(gate(&governance).decide(&request(&public, cleared(DataLabel::Internal, false))).await);
        assert!(reason.contains("vault"), "{reason}");
        permitted(gate(&governance).decide(&request(&public, cleared(DataLabel::Confidential, true))).await);
    }
}

#[tokio::test]
async fn what_is_remembered_and_recalled_goes_to_the_model_of_embeddings_and_to_no_other() {
    let (bench, restricted) = (Bench::new(), turn(DataLabel::Restricted, true));
    let governance = bench.start().await;
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["memory/*"] });
    let contract: Contract = serde_json::from_value(contract).expect("a contract");
    let gate = |embeddings| {
        let said = ToolStatements { embeddings, ..profiles() };
        governance.gate(Arc::new(ContractGate::of(&contract)), &agent(), &contract, said)
    };
    let memory = |kind, tool| ToolCall { kind, is_journalled: false, ..restricted.call("task", tool) };
    let embedded = [
        memory(CallKind::Tool, "memory/remember"),
        memory(CallKind::Tool, "memory/recall"),
        memory(CallKind::Recall, "memory/recall"),
    ];
    for call in &embedded {
        let reason = denied(gate(cleared(DataLabel::Internal, false)).decide(call).await);
        assert!(reason.contains("cleared for internal"), "{}: {reason}", call.tool);
        permitted(gate(cleared(DataLabel::Restricted, true)).decide(call).await);
        // The built-in one asks nobody.
        permitted(gate(None).decide(call).await);
    }
    for (kind, tool) in [(CallKind::Tool, "memory/put"), (CallKind::Recall, "session/notes")] {
        permitted(gate(cleared(DataLabel::Internal, false)).decide(&memory(kind, tool)).await);
    }
}

#[tokio::test]
async fn policies_read_all_that_is_kept_and_asked_of_memory() {
    let (bench, mut turn) = (Bench::new(), turn(DataLabel::Internal, true));
    let governance = bench.start().await;
    let set = "permit(principal, action, resource);
        forbid(principal, action == Action::\"remember\", resource) when { context.input has text && context.input.text like \"*code*\" };
        forbid(principal, action == Action::\"remember\", resource) when { context.input has source && context.input.source == \"vault\" };
        forbid(principal, action == Action::\"recall\", resource) when { context.input has query && context.input.query like \"*code*\" };
        forbid(principal, action == Action::\"recall\", resource) when { context.input has key && context.input.key like \"key*\" };";
    governance.load_policy(set, Actor::Owner).await.expect("it is good");
    let contract = json!({ "class": { "latency": "srt" }, "capabilities": ["memory/*"] });
    let contract: Contract = serde_json::from_value(contract).expect("a contract");
    let gate = governance.gate(Arc::new(ContractGate::of(&contract)), &agent(), &contract, profiles());
    for (tool, arguments, is_permitted) in [
        ("memory/put", json!({ "key": "a", "value": "the code" }), false),
        ("memory/put", json!({ "key": "a", "value": { "is": "the code" } }), false),
        ("memory/put", json!({ "key": "a", "value": "tea" }), true),
        ("memory/remember", json!({ "source": "a", "text": "the code" }), false),
        ("memory/forget", json!({ "source": "vault" }), false),
        ("memory/recall", json!({ "question": "which code" }), false),
        ("memory/recall", json!({ "question": "which tea" }), true),
        ("memory/get", json!({ "key": "keys" }), false),
        ("memory/keys", json!({ "prefix": "key" }), false),
        ("memory/keys", json!({ "prefix": "tea" }), true),
    ] {
        turn.arguments = arguments;
        let call = ToolCall { is_journalled: false, ..turn.call("task", tool) };
        let found = matches!(gate.decide(&call).await, GateVerdict::Permit(_));
        assert_eq!(found, is_permitted, "{tool} {}", turn.arguments);
    }
}

#[tokio::test]
async fn what_labels_would_have_decided_is_remembered_and_counted_and_costs_nothing_else() {
    let bench = Bench::new();
    let governance = bench.start().await;
    assert_eq!(tally_labels(&governance).expect("it is read"), LabelTally::default());
    let (mut read, mut strange) = (Turn::new(), Turn::new());
    read.attributes.label = Some(Label { level: DataLabel::Internal, trusted: true });
    strange.attributes.label = Some(Label { level: DataLabel::Public, trusted: false });
    permitted(gate(&governance).decide(&read.call("task", "shop/search")).await);
    assert!(governance.decisions(8).expect("they are read").records.is_empty(), "labels have nothing against it");
    permitted(gate(&governance).decide(&read.call("task", "shop/send")).await);
    permitted(gate(&governance).decide(&strange.call("task", "shop/send")).await);
    let secret = turn(DataLabel::Confidential, true);
    permitted(gate(&governance).decide(&request(&secret, cleared(DataLabel::Internal, false))).await);
    governance.sweep().await;
    let governance = bench.start().await;
    let records = governance.decisions(8).expect("they are read").records;
    let said: Vec<String> = records
        .iter()
        .map(|(_, record)| format!("{} {} {}", record.resource, record.answer, record.labels.as_deref().unwrap_or("-")))
        .collect();
    assert!(said[0].starts_with("Model::\"small\" permit deny: the data are confidential"), "{said:?}");
    assert!(said[1].starts_with("Tool::\"shop/send\" permit ask: "), "{said:?}");
    assert!(said[2].starts_with("Tool::\"shop/send\" permit deny: the data are internal"), "{said:?}");
    assert_eq!(records[0].1.arguments.as_deref(), Some("{\"tokens\":9}"), "nothing of the messages");
    let tally = LabelTally { denials: 2, questions: 1, newest: Some(records[0].0) };
    assert_eq!(tally_labels(&governance).expect("it is read"), tally);
}

/// A request that nobody made, of data with that label.
fn asked_of(action: &str, resource: &str, label: &str, trusted: bool) -> Map<String, Value> {
    let context = json!({ "label": label, "trusted": trusted, "input": { "item": "lamp" } });
    let principal = format!("Agent::\"{}\"", agent().id);
    let request = json!({ "principal": principal, "action": action, "resource": resource, "context": context });
    request.as_object().expect("an object").clone()
}

#[tokio::test]
async fn without_policies_it_is_explained_what_labels_would_decide() {
    let mut bench = Bench::new();
    for profile in [NodeProfile::Local, NodeProfile::Fleet] {
        bench.profile = profile;
        let governance = bench.start().await;
        let decides = profile != NodeProfile::Local;
        let listed = BTreeMap::from([("shop/send".to_owned(), json!({})), ("shop/search".to_owned(), json!({}))]);
        governance.take_tools(&agent(), &listed, &profiles());
        let clearance = ModelClearance::default();
        let given = Act::BindModel { agent: "a", name: "small", host: None, clearance };
        admit(&governance, &given).await.expect("nothing forbids it");
        let explained = |action: &str, resource: &str, label: &str, trusted| {
            explain_labels(&governance, asked_of(action, resource, label, trusted)).expect("it is explained")
        };
        let model = explained("model", "Model::\"small\"", "restricted", true);
        assert!(
            model.words.as_deref().is_some_and(|words| words.starts_with("deny: the data are restricted")),
            "{model:?}"
        );
        assert_eq!(model.answer, if decides { "deny" } else { "permit" });
        let strange = explained("send", "Tool::\"shop/send\"", "public", false);
        assert!(strange.words.as_deref().is_some_and(|words| words.starts_with("ask: ")), "{strange:?}");
        assert_eq!(strange.answer, if decides { "ask" } else { "permit" });
        // The owner wrote the profile of this one, which decides by itself.
        assert_eq!(explained("search", "Tool::\"shop/search\"", "restricted", false).answer, "ask");
        let nobodys = explained("model", "Model::\"none\"", "restricted", true);
        assert_eq!(nobodys, LabelOutlook { words: None, answer: "permit" });
    }
    std::fs::write(bench.path().join("policy.cedar"), "permit(").expect("it is written");
    let broken = bench.start().await;
    let refused = explain_labels(&broken, asked_of("model", "Model::\"small\"", "public", true));
    assert!(matches!(refused, Err(crate::trials::TrialError::None)), "policies that cannot be read decide");
}

#[tokio::test]
async fn labels_decide_where_policies_are_in_force_and_it_is_explained_so() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let listed = BTreeMap::from([("shop/send".to_owned(), json!({})), ("shop/search".to_owned(), json!({}))]);
    governance.take_tools(&agent(), &listed, &profiles());
    let id = agent().id.to_string();
    let internal = Label { level: DataLabel::Internal, trusted: true };
    assert_eq!(tool_labels(&governance, &id, "shop/send", internal).answer, "permit", "nobody wanted it");
    governance.load_policy(ALL, Actor::Owner).await.expect("it is good");
    let request = asked_of("send", "Tool::\"shop/send\"", "internal", true);
    let explained = explain_labels(&governance, request).expect("it is explained");
    assert_eq!(explained, tool_labels(&governance, &id, "shop/send", internal));
    assert_eq!(explained.answer, "deny");
    let words = explained.words.expect("they say so");
    assert!(words.starts_with("deny: the data are internal") && words.contains("tools.SERVER.profiles"), "{words}");
    assert_eq!(tool_labels(&governance, &id, "shop/search", internal).answer, "permit", "it is cleared for them");
    let nobodys = LabelOutlook { words: None, answer: "permit" };
    assert_eq!(tool_labels(&governance, &id, "shop/none", internal), nobodys);
}
