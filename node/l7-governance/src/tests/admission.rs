//! The gates of what is no call: each is turned by a policy that forbids it, and its denial is an entry of the log.

use althing_call::{Decide, Decision, IncomingRequest, Judgement, OutgoingRequest};
use althing_discovery::TrustRelation;
use althing_execution::grants::Grant;
use althing_protocol::AgentId;
use althing_store::Range;

use super::*;
use crate::admission::admit_now;

const ALL: &str = "permit(principal, action, resource);";

fn other() -> AgentId {
    AgentId::new(PublisherId::from_digest([6; 32]), "auditor").expect("a name")
}

fn added<'a>(id: &'a AgentId, sandbox: Option<&'a str>) -> AddedAgent<'a> {
    AddedAgent { id, version: "1.0.0", runtime: "process", sandbox, publisher: "zQmSomebody" }
}

/// The entries of the audit log that wait to be moved, and those that were.
fn entries(bench: &Bench) -> usize {
    let families = FAMILIES.iter().filter(|family| family.0 == "audit.queue");
    families.map(|family| bench.store.scan(*family, Range::all(100)).expect("readable").len()).sum()
}

/// A policy that forbids one act of each gate and no other of it: its action, its condition, the act, and another one.
fn cases<'a>(own: &'a AgentId, other: &'a AgentId) -> Vec<(&'static str, &'static str, Act<'a>, Act<'a>)> {
    let label = Label { level: DataLabel::Confidential, trusted: true };
    let reach = |host, method| Act::Egress { agent: "a", host, port: Some(443), method, pattern: None };
    let secret = |host| Act::Secret { agent: "a", name: "KEY", host };
    let clearance = ModelClearance::default();
    let model = |name| Act::BindModel { agent: "a", name, host: Some("models.example"), clearance };
    let server = |name| Act::BindServer { agent: "a", name, host: None };
    let placed = |group| Act::Place { agent: added(own, None), group };
    let shown = |callers| Act::Expose { agent: own, callers, exposure: "trusted" };
    let install = |version| Act::Install { release: other, version, registry: "https://registry.example/" };
    let given = |to| Act::HandOver { from: own, to, label };
    vec![
        ("egress", "resource == Host::\"shop.example\"", reach("shop.example", None), reach("bank.example", None)),
        (
            "egress",
            "context.input has method && context.input.method == \"POST\"",
            reach("shop.example", Some("POST")),
            reach("shop.example", Some("GET")),
        ),
        (
            "egress",
            "context.input has host && context.input.host like \"*.example\" && context.input has port && \
             context.input.port == 443 && context.level > 1 && !context.trusted",
            reach("shop.example", None),
            reach("shop.test", None),
        ),
        (
            "egress",
            "resource == Host::\"*\"",
            Act::Egress { agent: "a", host: "*", port: None, method: None, pattern: None },
            reach("shop.example", None),
        ),
        (
            "useSecret",
            "resource == Secret::\"KEY\" && !(context.input has host && context.input.host == \"api.example\")",
            secret(None),
            secret(Some("api.example")),
        ),
        ("bindAgent", "resource == Model::\"large\"", model("large"), model("small")),
        ("bindAgent", "resource == Server::\"shop\"", server("shop"), server("calc")),
        (
            "addAgent",
            "context.input has sandbox && context.input.sandbox == \"none\"",
            Act::Add(added(own, Some("none"))),
            Act::Add(added(own, Some("best"))),
        ),
        (
            "addAgent",
            "context.input has runtime && context.input.runtime == \"process\" && context.input has version && \
             context.input.version == \"1.0.0\" && context.input has publisher && \
             context.input.publisher == \"zQmSomebody\" && context.input has name && context.input.name == \"a\" && \
             context.input has sandbox",
            Act::Add(added(own, Some("required"))),
            Act::Add(added(own, None)),
        ),
        ("placeAgent", "context.input has group && context.input.group == \"g1\"", placed("g1"), placed("g2")),
        (
            "exposeAgent",
            "context.input has callers && context.input.callers == \"anyone\"",
            shown("anyone"),
            shown("own"),
        ),
        (
            "installRelease",
            "context.input has version && context.input.version like \"0.*\"",
            install("0.1.0"),
            install("1.0.0"),
        ),
        ("handOver", "context.level > 1 && resource in Publisher::\"OTHER\"", given(other), given(own)),
    ]
}

#[tokio::test]
async fn each_gate_is_turned_by_a_policy_that_forbids_it() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let (own, other) = (agent().id, other());
    gate(&governance);
    governance.policies().refusals.note_data("a", DataLabel::Confidential);
    for (action, condition, forbidden, permitted) in cases(&own, &other) {
        let condition = condition.replace("OTHER", &other.publisher().to_string());
        let text = format!(
            "{ALL}\n@id(\"no-more\") forbid(principal, action == Action::\"{action}\", resource) when {{ {condition} }};"
        );
        governance.load_policy(&text, Actor::Owner).await.expect(&text);
        assert_eq!(admit(&governance, &permitted).await, Ok(()), "{text}");
        let before = entries(&bench);
        let refused = admit(&governance, &forbidden).await.expect_err(&text);
        assert!(refused.reason().contains("no-more"), "{refused}");
        assert_eq!(entries(&bench), before + 1, "{text}");
        let (_, decision) = governance.decisions(1).expect("they are read").records.remove(0);
        assert_eq!((decision.gate.as_str(), decision.answer.as_str()), (action, "deny"));
        assert_eq!(decision.policies, ["no-more"]);
    }
}

#[tokio::test]
async fn without_policies_everything_is_admitted_and_nothing_is_written() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let (own, other) = (agent().id, other());
    for (_, _, one, another) in cases(&own, &other) {
        assert_eq!((admit(&governance, &one).await, admit_now(&governance, &another)), (Ok(()), Ok(())));
    }
    assert_eq!((entries(&bench), governance.decisions(8).expect("they are read").records.len()), (0, 0));
}

#[tokio::test]
async fn what_no_policy_permits_what_policies_ask_about_and_what_nobody_can_decide_is_refused() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let own = agent().id;
    let act = Act::Add(added(&own, None));
    governance
        .load_policy("permit(principal, action == Action::\"model\", resource);", Actor::Owner)
        .await
        .expect("good");
    let refused = admit(&governance, &act).await.expect_err("no policy permits it");
    assert!(refused.to_string().contains("adding the agent \"a\" is refused: no policy"), "{refused}");

    let ask = "@id(\"look\") @ask(\"look at it\") permit(principal, action, resource);";
    governance.load_policy(ask, Actor::Owner).await.expect("it is good");
    let refused = admit(&governance, &act).await.expect_err("nobody is asked");
    assert!(refused.reason().contains("(look)") && refused.reason().contains("nobody is asked"), "{refused}");
    assert!(governance.pending().is_empty());

    std::fs::write(bench.path().join("policy.cedar"), "permit(").expect("it is written");
    let refused = admit(&bench.start().await, &act).await.expect_err("the file cannot be read");
    assert!(refused.reason().contains("cannot be read"), "{refused}");
}

#[tokio::test]
async fn a_program_that_asks_again_and_again_is_one_entry_for_each_set() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let act = Act::Egress { agent: "a", host: "shop.example", port: Some(443), method: None, pattern: None };
    for set in ["forbid(principal, action, resource);", "@id(\"b\") forbid(principal, action, resource);"] {
        governance.load_policy(set, Actor::Owner).await.expect("it is good");
        let before = entries(&bench);
        for _ in 0..3 {
            admit(&governance, &act).await.expect_err("it is forbidden");
        }
        assert_eq!(entries(&bench), before + 1);
    }
}

#[tokio::test]
async fn what_a_program_makes_up_below_a_pattern_of_its_file_is_one_entry() {
    let bench = Bench::new();
    let governance = bench.start().await;
    governance.load_policy("forbid(principal, action, resource);", Actor::Owner).await.expect("it is good");
    let hosts: Vec<String> = (0..8).map(|number| format!("h{number}.shop.example")).collect();
    for (pattern, added) in [(Some("*.shop.example"), 1), (None, hosts.len())] {
        let before = entries(&bench);
        for (host, method) in hosts.iter().zip([None, Some("GET"), Some("POST")].into_iter().cycle()) {
            let act = Act::Egress { agent: "a", host, port: Some(443), method, pattern };
            admit(&governance, &act).await.expect_err("it is forbidden");
        }
        assert_eq!(entries(&bench), before + added, "{pattern:?}");
    }
}

#[tokio::test]
async fn what_agents_are_given_is_asked_where_nobody_can_wait_and_its_denial_is_written_later() {
    let bench = Bench::new();
    let gates = Gates::default();
    let ask = ask_grants(&gates);
    let secret = Grant::Secret { name: "KEY", host: None };
    let early = ask("a", secret).expect_err("the node is starting");
    assert!(early.contains("is starting"), "{early}");
    let governance = bench.start().await;
    gates.connect(&governance);
    assert_eq!(ask("a", secret), Ok(()));
    let text = format!("{ALL} @id(\"no-key\") forbid(principal, action, resource == Secret::\"KEY\");");
    governance.load_policy(&text, Actor::Owner).await.expect("it is good");
    let before = entries(&bench);
    let refused = ask("a", secret).expect_err("it is forbidden");
    assert!(refused.contains("using the secret \"KEY\"") && refused.contains("no-key"), "{refused}");
    assert_eq!(entries(&bench), before);
    governance.sweep().await;
    assert_eq!(entries(&bench), before + 1);
    let clearance = ModelClearance::default();
    assert_eq!(ask("a", Grant::Model { name: "small", host: None, clearance }), Ok(()));
    let early = Act::Egress { agent: "a", host: "shop.example", port: Some(443), method: None, pattern: None };
    assert_eq!(admit_by(&gates, &early).await, Ok(()));
    assert!(admit_by(&Gates::default(), &early).await.is_err(), "until governance is there nothing is reached");
}

/// Allows everything.
struct Anything;

impl Decide for Anything {
    fn decide(&self, _: &OutgoingRequest<'_>) -> Judgement {
        Judgement::Now(Decision::Allow)
    }

    fn decide_incoming(&self, _: &IncomingRequest<'_>) -> Judgement {
        Judgement::Now(Decision::Allow)
    }

    fn relation(&self, _: PublisherId) -> TrustRelation {
        TrustRelation::Own
    }

    fn near(&self) -> Vec<PublisherId> {
        Vec::new()
    }
}

#[tokio::test]
async fn work_goes_to_another_agent_where_its_label_may_go() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let decide = governance.decide(Arc::new(Anything));
    let (from, to) = (agent().id, other());
    let asked = |level: DataLabel| {
        let label = Some(Label { level, trusted: true });
        decide.decide(&OutgoingRequest::HandOver { from: &from, to: &to, label }).decision()
    };
    assert_eq!(asked(DataLabel::Restricted).await, Decision::Allow, "nothing is loaded");
    let text = format!(
        "{ALL} @id(\"near\") forbid(principal, action == Action::\"handOver\", resource) when {{ context.level > 1 }};"
    );
    governance.load_policy(&text, Actor::Owner).await.expect("it is good");
    assert_eq!(asked(DataLabel::Internal).await, Decision::Allow);
    let Decision::Deny(refused) = asked(DataLabel::Confidential).await else { panic!("it is denied") };
    assert!(refused.message.contains("handing work over") && refused.message.contains("near"), "{refused}");
}

#[tokio::test]
async fn a_control_loop_is_decided_on_anew_as_when_it_was_added_and_its_denial_is_one_entry_for_each_set() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let mut changes = governance.policy_changes();
    let own = agent().id;
    let run = |group| Act::Run { agent: added(&own, None), group };
    admit(&governance, &run(None)).await.expect("no policies are in force");
    for (action, group, other) in [("addAgent", None, Some("g1")), ("placeAgent", Some("g1"), None)] {
        let text = format!("{ALL} @id(\"still\") forbid(principal, action == Action::\"{action}\", resource);");
        governance.load_policy(&text, Actor::Owner).await.expect("it is good");
        assert!(changes.has_changed().expect("it is open"), "who runs loops is told");
        changes.mark_unchanged();
        let before = entries(&bench);
        for _ in 0..3 {
            let refused = admit(&governance, &run(group)).await.expect_err("it is forbidden").to_string();
            let says = "running the control loop \"a\" is refused";
            assert!(refused.starts_with(says) && refused.contains("still"), "{refused}");
        }
        assert_eq!(entries(&bench), before + 1, "it is decided on again and again");
        admit(&governance, &run(other)).await.expect("the other one is not forbidden");
    }
    governance.load_people("owner: ada\npeople: { ada: {} }\n", Actor::Owner).await.expect("it is good");
    assert!(changes.has_changed().expect("it is open"), "policies speak of people");
}
