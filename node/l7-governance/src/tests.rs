//! The gate with all that it goes by, on a store in memory: an agent `a` with the tools of `shop`, of which its contract wants
//! consent for `shop/order`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use althing_communication::{Entropy, WallClock};
use althing_execution::tools::{
    Ask, CallKind, ContractGate, GateVerdict, ModelClearance, Permit, ToolCall, ToolGate, ToolStatements,
};
use althing_protocol::audit::AuditStage;
use althing_protocol::contract::DataLabel;
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentRef, Attributes, Contract, Label, PublisherId, SecretKey};
use althing_store::{Durability, MemoryStore, Store};
use althing_td::{Effect, ToolTerms};
use serde_json::{Value, json};

use super::*;

mod admission;
mod differences;
mod erasure;
mod handoffs;
mod messages;
mod models;
mod planted;
mod promises;
mod questions;
mod records;
mod refusals;
mod reviews;
mod sets;
mod tool_changes;
mod tools;

const NOW_MS: u64 = 1_800_000_000_000;

/// One node, which can be started again.
struct Bench {
    store: Arc<MemoryStore>,
    folder: tempfile::TempDir,
    now_ms: Arc<AtomicU64>,
    drawn: Arc<AtomicU64>,
    profile: NodeProfile,
}

impl Bench {
    fn new() -> Bench {
        Bench {
            store: Arc::new(MemoryStore::new(&FAMILIES)),
            folder: tempfile::TempDir::new().expect("a folder"),
            now_ms: Arc::new(AtomicU64::new(NOW_MS)),
            drawn: Arc::new(AtomicU64::new(1)),
            profile: NodeProfile::Local,
        }
    }

    async fn start(&self) -> Governance {
        self.start_on(self.store.clone()).await
    }

    /// The same on a store that is not always as good as its own.
    async fn start_on(&self, store: Arc<dyn Store>) -> Governance {
        let (now, drawn, key) = (self.now_ms.clone(), self.drawn.clone(), SecretKey::from_seed(&[1; 32]));
        let ports = Ports {
            store,
            clock: WallClock::new(move || now.load(Ordering::Relaxed)),
            entropy: Entropy::new(move |bytes| {
                let number = drawn.fetch_add(1, Ordering::Relaxed).to_be_bytes();
                bytes.iter_mut().zip(number.iter().cycle()).for_each(|(byte, drawn)| *byte = *drawn);
            }),
            node: key.public(),
            owner: owner(),
            folder: Some(self.folder.path().to_owned()),
            sign: Arc::new(move |origin, head| Checkpoint::sign(origin, head, &key)),
            profile: self.profile,
        };
        Governance::open(ports).await.expect("it opens")
    }

    fn path(&self) -> &Path {
        self.folder.path()
    }

    fn later(&self, by_ms: u64) {
        self.now_ms.fetch_add(by_ms, Ordering::Relaxed);
    }

    /// What the journal does with a permit: its rows are in the batch of the intent.
    async fn intent(&self, permit: Permit) {
        self.store.write(permit.rows, Durability::Synced).await.expect("it is written");
    }
}

fn owner() -> PublisherId {
    PublisherId::from_digest([5; 32])
}

fn agent() -> AgentRef {
    AgentRef::new(owner(), "a", "1.0.0").expect("a name")
}

fn contract() -> Contract {
    let contract = json!({
        "class": { "latency": "srt" },
        "capabilities": ["shop/*"],
        "security": { "consent_for": ["shop/order"] },
    });
    serde_json::from_value(contract).expect("a contract")
}

/// `shop/search` only reads and is cleared for everything.
fn profiles() -> ToolStatements {
    let search = "shop/search".to_owned();
    let terms = ToolTerms { trusted: Some(true), clearance: Some(DataLabel::Restricted), ..ToolTerms::default() };
    ToolStatements {
        effects: [BTreeMap::from([(search.clone(), Effect::None)]), BTreeMap::new()],
        terms: [BTreeMap::from([(search, terms)]), BTreeMap::new()],
        servers: BTreeMap::from([("shop".to_owned(), [7; 32])]),
        here: BTreeSet::new(),
        embeddings: None,
    }
}

fn gate(governance: &Governance) -> Arc<dyn ToolGate> {
    gate_with(governance, profiles())
}

fn gate_with(governance: &Governance, said: ToolStatements) -> Arc<dyn ToolGate> {
    let contract = contract();
    governance.gate(Arc::new(ContractGate::of(&contract)), &agent(), &contract, said)
}

/// A call in the turn of a task.
struct Turn {
    agent: AgentRef,
    attributes: Attributes,
    arguments: Value,
    definition: String,
    principals: Vec<String>,
}

impl Turn {
    fn new() -> Turn {
        Turn {
            agent: agent(),
            attributes: Attributes::default(),
            arguments: json!({ "item": "lamp", "count": 1 }),
            definition: "ab".repeat(32),
            principals: vec!["local".to_owned()],
        }
    }

    fn call<'a>(&'a self, task: &'a str, tool: &'a str) -> ToolCall<'a> {
        ToolCall {
            kind: CallKind::Tool,
            agent: &self.agent,
            task,
            trace: None,
            binding_hash: "",
            label: DataLabel::Internal,
            attributes: &self.attributes,
            carries: self.attributes.label,
            server: tool.split_once('/').map_or("", |(server, _)| server),
            tool,
            definition: &self.definition,
            arguments: &self.arguments,
            principals: &self.principals,
            is_journalled: true,
            asks_nobody: false,
            clearance: None,
            level: None,
        }
    }
}

fn permitted(ruling: GateVerdict) -> Permit {
    match ruling {
        GateVerdict::Permit(permit) => permit,
        other => panic!("it is permitted: {other:?}"),
    }
}

fn asked(ruling: GateVerdict) -> Ask {
    match ruling {
        GateVerdict::Ask(ask) => ask,
        other => panic!("somebody is asked: {other:?}"),
    }
}

fn denied(ruling: GateVerdict) -> String {
    match ruling {
        GateVerdict::Deny(denied) => denied.reason,
        other => panic!("it is denied: {other:?}"),
    }
}

fn yes() -> Answer {
    Answer { yes: true, ..Answer::default() }
}

#[tokio::test]
async fn a_consent_crosses_a_restart_and_is_used_once() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let call = turn.call("task", "shop/order");
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&call).await);
    assert!(!ask.to.contains("lamp"), "nothing of the arguments: {}", ask.to);
    assert_eq!(asked(gate(&governance).decide(&call).await).id, ask.id, "it is the same question");

    let governance = bench.start().await;
    let pending = governance.pending();
    assert_eq!(pending.iter().map(|ask| ask.id.as_str()).collect::<Vec<_>>(), [ask.id.as_str()]);
    assert_eq!((pending[0].task.as_deref(), pending[0].action.as_str()), (Some("task"), "shop/order"));
    assert!(pending[0].outline.iter().any(|line| line.contains("item = \"lamp\"")), "{:?}", pending[0].outline);
    let state = governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    assert_eq!(state, AskState::Approved);

    let governance = bench.start().await;
    assert!(governance.pending().is_empty());
    let permit = permitted(gate(&governance).decide(&call).await);
    // Before its rows are on disk nobody else gets it, and after that nobody at all: also after a restart.
    assert_ne!(asked(gate(&governance).decide(&call).await).id, ask.id);
    bench.intent(permit).await;
    let governance = bench.start().await;
    assert_eq!(governance.ask_state(&ask.id), Some(AskState::Used));
    assert_ne!(asked(gate(&governance).decide(&call).await).id, ask.id);
}

#[tokio::test]
async fn a_yes_is_there_still_if_the_node_ends_before_the_intent_is_on_disk() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let call = turn.call("task", "shop/order");
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&call).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    drop(permitted(gate(&governance).decide(&call).await));
    let governance = bench.start().await;
    permitted(gate(&governance).decide(&call).await);
}

#[tokio::test]
async fn a_yes_is_for_what_was_asked_and_for_nothing_else() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&turn.call("task", "shop/order")).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    let other = Turn { arguments: json!({ "item": "lamp", "count": 2 }), ..Turn::new() };
    assert_ne!(asked(gate(&governance).decide(&other.call("task", "shop/order")).await).id, ask.id);
    assert_ne!(asked(gate(&governance).decide(&turn.call("other", "shop/order")).await).id, ask.id);
    permitted(gate(&governance).decide(&turn.call("task", "shop/order")).await);
}

#[tokio::test]
async fn a_no_and_silence_are_denials_with_their_reasons() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let (one, other) = (turn.call("one", "shop/order"), turn.call("other", "shop/order"));
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&one).await);
    let no = Answer { reason: Some("too dear".to_owned()), ..Answer::default() };
    governance.answer(&ask.id, no, Actor::Owner).await.expect("it counts");
    let reason = denied(gate(&governance).decide(&one).await);
    assert!(reason.contains("said no") && reason.contains("too dear"), "{reason}");

    let ask = asked(gate(&governance).decide(&other).await);
    bench.later(ASK_LIFE_MS + 1);
    governance.sweep().await;
    ask.answered.await;
    let reason = denied(gate(&governance).decide(&other).await);
    assert!(reason.contains("in time"), "{reason}");
}

#[tokio::test]
async fn what_a_program_asked_that_cannot_go_on_is_denied_by_a_restart() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let call = ToolCall { is_journalled: false, ..turn.call("task", "shop/order") };
    let ask = asked(gate(&bench.start().await).decide(&call).await);
    let governance = bench.start().await;
    assert!(governance.pending().is_empty());
    assert!(matches!(governance.ask_state(&ask.id), Some(AskState::Denied(_))));
}

#[tokio::test]
async fn the_contract_decides_first_and_nobody_is_asked_about_what_it_denies() {
    let (bench, turn) = (Bench::new(), Turn::new());
    std::fs::write(bench.path().join("policy.cedar"), "permit(principal, action, resource);").expect("it is written");
    let governance = bench.start().await;
    let reason = denied(gate(&governance).decide(&turn.call("task", "bank/pay")).await);
    assert!(reason.contains("capabilities"), "{reason}");
    assert!(governance.pending().is_empty());
}

#[tokio::test]
async fn policies_that_cannot_be_read_deny_everything_until_others_are_loaded() {
    let (bench, turn) = (Bench::new(), Turn::new());
    std::fs::write(bench.path().join("policy.cedar"), "permit(").expect("it is written");
    let governance = bench.start().await;
    assert!(governance.policy().is_broken && !governance.policy().findings.is_empty());
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    assert!(reason.contains("cannot be read"), "{reason}");
    let permit = "permit(principal, action, resource);";
    let status = governance.load_policy(permit, Actor::Owner).await.expect("it is good");
    assert_eq!((status.policies, status.is_broken), (1, false));
    permitted(gate(&governance).decide(&turn.call("task", "shop/search")).await);

    let before = governance.policy();
    governance.load_policy("permit(principal", Actor::Owner).await.expect_err("it is cut");
    let person = Actor::Person { name: "eve".to_owned(), signed: None };
    governance.load_policy(permit, person).await.expect_err("she is not the owner");
    assert_eq!(governance.policy(), before, "it stays");
    assert_eq!(bench.start().await.policy().digest, before.digest, "after a start too");
}

#[tokio::test]
async fn a_policy_forbids_asks_and_its_decision_can_be_looked_at_and_tried_on_another_set() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let ask = "permit(principal, action, resource);
        forbid(principal, action, resource == Tool::\"shop/search\");";
    governance.load_policy(ask, Actor::Owner).await.expect("it is good");
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    assert!(reason.contains("forbid"), "{reason}");
    let decisions = governance.decisions(8).expect("they are read").records;
    let (id, decision) = decisions.first().expect("there is one");
    assert_eq!((decision.answer.as_str(), decision.rule.as_deref()), ("deny", Some("policy")));
    assert_eq!(governance.decision(*id).expect("it is read").as_ref(), Some(decision));
    let found = governance.diff_policy("permit(principal, action, resource);").expect("it is good");
    assert_eq!(found.turned.iter().map(|one| (one.id, one.becomes)).collect::<Vec<_>>(), [(*id, "permit")]);
    assert_eq!((found.unread, found.damaged), (0, 0));

    let ask = "@ask(\"look at it\") permit(principal, action, resource);";
    governance.load_policy(ask, Actor::Owner).await.expect("it is good");
    asked(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    assert_eq!(governance.pending()[0].reasons, ["look at it"]);
}

#[tokio::test]
async fn labels_decide_where_policies_are_in_force_and_are_only_told_where_none_are() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    turn.attributes.label = Some(Label { level: DataLabel::Confidential, trusted: false });
    let governance = bench.start().await;
    permitted(gate(&governance).decide(&turn.call("task", "shop/send")).await);
    governance.load_policy("permit(principal, action, resource);", Actor::Owner).await.expect("it is good");
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/send")).await);
    assert!(reason.contains("confidential") && reason.contains("public"), "{reason}");
    // Its profile clears `shop/search` for everything, but the turn read something that nobody vouches for, and it carries text.
    asked(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    let here = ToolStatements { here: BTreeSet::from(["shop".to_owned()]), ..profiles() };
    permitted(gate_with(&governance, here).decide(&turn.call("other", "shop/search")).await);
}

#[tokio::test]
async fn a_profile_has_labels_decide_without_policies_and_keeps_its_approvers() {
    let (mut bench, mut turn) = (Bench::new(), Turn::new());
    bench.profile = NodeProfile::Regulated;
    turn.attributes.label = Some(Label { level: DataLabel::Confidential, trusted: false });
    let governance = bench.start().await;
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/send")).await);
    assert!(reason.contains("confidential"), "{reason}");
    let one = "owner: ada\npeople:\n  ada: { roles: [approver] }\n  grace: { roles: [approver] }\n";
    let refused = governance.load_people(one, Actor::Owner).await.expect_err("Grace has no key, and cannot answer");
    assert!(refused.to_string().contains("1 of its people can answer as approver"), "{refused}");
    let key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA7kjw8MIz6Ss3IVzSHKBDJWd6iGoaXmdOUC64VLcBu0";
    let two = one.replace("grace: {", &format!("grace: {{ keys: [\"{key}\"],"));
    assert!(two.contains("keys"), "{two}");
    let people = governance.load_people(&two, Actor::Owner).await.expect("both can answer");
    assert_eq!(people.able("approver"), 2);
}

#[tokio::test]
async fn people_that_changed_count_from_the_next_call_on() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    turn.principals = vec!["token:grace".to_owned()];
    let ask = asked(gate(&governance).decide(&turn.call("one", "shop/order")).await);
    let wants = |governance: &Governance, id: &str| {
        governance.pending().into_iter().find(|ask| ask.id == id).expect("it waits").wants
    };
    assert_eq!(wants(&governance, &ask.id), [Want::Consent { person: "owner".to_owned() }], "nobody knows that user");
    let people = "owner: ada\npeople:\n  ada: { roles: [owner] }\n  grace: { users: [grace] }\n";
    governance.load_people(people, Actor::Owner).await.expect("it is good");
    let ask = asked(gate(&governance).decide(&turn.call("two", "shop/order")).await);
    assert_eq!(wants(&governance, &ask.id), [Want::Consent { person: "grace".to_owned() }]);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect_err("Ada is not Grace");
    // Who is a user of that name at a node of somebody else is somebody else, also where only an agent of that one is named; the
    // owner's other nodes name the owner's people.
    for (by, person) in [(PublisherId::from_digest([6; 32]), "ada"), (owner(), "grace")] {
        let asker = AgentRef::new(by, "asker", "1.0.0").expect("a name").id.to_string();
        for (task, last) in [("by its node", by.to_string()), ("by its agent", asker)] {
            turn.principals = vec!["token:grace".to_owned(), last];
            let ask = asked(gate(&governance).decide(&turn.call(task, "shop/order")).await);
            assert_eq!(wants(&governance, &ask.id), [Want::Consent { person: person.to_owned() }], "{task}");
        }
    }
    governance.load_people("people: [", Actor::Owner).await.expect_err("it is no file of people");
    assert_eq!(bench.start().await.people().owner(), "ada");
}

#[tokio::test]
async fn a_tool_whose_definition_changed_is_suspended_until_somebody_agrees() {
    let (bench, mut turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let permit = permitted(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    bench.intent(permit).await;
    turn.definition = "cd".repeat(32);
    let governance = bench.start().await;
    let reason = denied(gate(&governance).decide(&turn.call("task", "shop/search")).await);
    assert!(reason.contains("add the agent again"), "{reason}");
    governance.forget_definitions(&agent().id).await.expect("it is written");
    permitted(gate(&governance).decide(&turn.call("task", "shop/search")).await);
}

#[tokio::test]
async fn a_standing_yes_counts_as_often_as_was_said() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&turn.call("0", "shop/order")).await);
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 2, free: ["count".to_owned()].into() };
    let answer = Answer { standing: Some(standing), ..yes() };
    governance.answer(&ask.id, answer, Actor::Owner).await.expect("it counts");
    let governance = bench.start().await;
    for (task, count) in [("1", 4), ("2", 5)] {
        let turn = Turn { arguments: json!({ "item": "lamp", "count": count }), ..Turn::new() };
        permitted(gate(&governance).decide(&turn.call(task, "shop/order")).await);
    }
    asked(gate(&governance).decide(&turn.call("3", "shop/order")).await);
    let governance = bench.start().await;
    asked(gate(&governance).decide(&turn.call("4", "shop/order")).await);
}

#[tokio::test]
async fn what_was_said_of_a_call_itself_counts_before_a_standing_yes_for_its_like() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let other = Turn { arguments: json!({ "item": "lamp", "count": 7 }), ..Turn::new() };
    let (own, like) = (turn.call("0", "shop/order"), other.call("1", "shop/order"));
    let governance = bench.start().await;
    let gate = gate(&governance);
    let (first, second) = (asked(gate.decide(&own).await), asked(gate.decide(&like).await));
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 1, free: ["count".to_owned()].into() };
    let answer = Answer { standing: Some(standing), ..yes() };
    governance.answer(&first.id, answer, Actor::Owner).await.expect("it counts");
    governance.answer(&second.id, Answer::default(), Actor::Owner).await.expect("it counts");
    let reason = denied(gate.decide(&like).await);
    assert!(reason.contains("said no"), "{reason}");
    let permit = permitted(gate.decide(&own).await);
    bench.intent(permit).await;
    assert_eq!(governance.standing().iter().map(|yes| yes.left).collect::<Vec<_>>(), [1], "it is for further calls");
    let permit = permitted(gate.decide(&other.call("2", "shop/order")).await);
    bench.intent(permit).await;
    let leaves = records::leaves(&governance).await;
    let of = |stage: AuditStage| leaves.iter().filter(move |leaf| leaf.stage == stage);
    let given = of(AuditStage::Asked).next().and_then(|leaf| leaf.consent);
    let by = of(AuditStage::Intent).map(|leaf| leaf.consent).collect::<Vec<_>>();
    assert_eq!(by, [given, given], "each call names what allowed it: {leaves:?}");
}

#[tokio::test]
async fn what_a_person_signed_is_no_standing_yes() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&turn.call("0", "shop/order")).await);
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 2, free: ["count".to_owned()].into() };
    let by = Actor::Person { name: "ada".to_owned(), signed: None };
    let refused = governance.answer(&ask.id, Answer { standing: Some(standing), ..yes() }, by).await;
    let reason = refused.expect_err("it is refused").to_string();
    assert!(reason.contains("a signature agrees to one call alone"), "{reason}");
}

#[tokio::test]
async fn a_standing_yes_is_taken_back_by_its_giver_or_the_owner_and_counts_no_more() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let ask = asked(gate(&governance).decide(&turn.call("0", "shop/order")).await);
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 9, free: Default::default() };
    let answer = Answer { standing: Some(standing), ..yes() };
    governance.answer(&ask.id, answer, Actor::Owner).await.expect("it counts");
    let all = governance.standing();
    let [given] = all.as_slice() else { panic!("{all:?}") };
    let id = althing_protocol::hex(&given.id);
    let eve = Actor::Person { name: "eve".to_owned(), signed: None };
    let refused = governance.withdraw_standing(&id, eve).await.expect_err("it is not hers");
    assert!(matches!(refused, AnswerError::NotGiver(_)), "{refused}");
    permitted(gate(&governance).decide(&turn.call("1", "shop/order")).await);
    let withdrawn = governance.withdraw_standing(&id, Actor::Owner).await.expect("it is written");
    assert_eq!(withdrawn.map(|yes| yes.id), Some(given.id));
    assert_eq!(governance.withdraw_standing(&id, Actor::Owner).await.expect("it is known"), None);
    let governance = bench.start().await;
    assert!(governance.standing().is_empty(), "after a restart too");
    asked(gate(&governance).decide(&turn.call("2", "shop/order")).await);
    let leaves = records::leaves(&governance).await;
    let of_end = leaves.iter().filter(|leaf| leaf.action.as_deref() == Some("standing yes"));
    assert_eq!(of_end.map(|leaf| leaf.principals.clone()).collect::<Vec<_>>(), [["owner".to_owned()]]);
}

#[tokio::test]
async fn a_call_with_an_effect_has_its_entry_in_the_batch_of_its_intent_and_one_that_reads_has_none() {
    let (bench, turn) = (Bench::new(), Turn::new());
    let governance = bench.start().await;
    let queued = |permit: &Permit| permit.rows.changes().filter(|(family, ..)| family.0 == "audit.queue").count();
    let permit = permitted(gate(&governance).decide(&turn.call("task", "shop/send")).await);
    assert_eq!(queued(&permit), 1);
    let rows = gate(&governance).settle(&turn.call("task", "shop/send"), &permit, Ok(&json!({ "content": [] }))).await;
    assert_eq!(rows.changes().filter(|(family, ..)| family.0 == "audit.queue").count(), 1);
    assert_eq!(queued(&permitted(gate(&governance).decide(&turn.call("task", "shop/search")).await)), 0);
}
