//! What a request reads beside the world.

use std::sync::LazyLock;

use althing_protocol::Label;
use serde_json::{Map, json};

use crate::bounds::Bounds;
use crate::decide::{Answer, Request, Verdict};
use crate::gate::Gate;
use crate::schema::{ToolInput, ToolSignature};
use crate::set::PolicySet as Policies;

use super::*;

/// Each kind of thing that a policy can read: members and parents of all whom a request names, of what the policies name, and the
/// ranks of labels.
const POLICIES: &str = r#"
    @id("new") permit(principal is Agent, action == Action::"pay", resource) when { principal.version == "2.0.0" };
    @id("near") permit(principal in Publisher::"acme", action in Action::"useTool", resource in Server::"bank");
    @id("far") forbid(principal in Publisher::"evil", action, resource);
    @id("tier") forbid(principal, action in Action::"useTool", resource is Tool) when { resource.tier > 3 };
    @id("rank") forbid(principal, action in Action::"useTool", resource is Tool)
        when { resource.clearance.rank < context.level };
    @id("staff") permit(principal, action == Action::"call", resource is Agent)
        when { context has person && context.person in Role::"staff" && resource.version != "0.1.0" };
    @id("other") permit(principal is Node, action, resource) when { Agent::"boss".version == "1.0.0" };
    @id("tool") permit(principal is Person, action, resource) when { Tool::"bank/pay" in Server::"bank" };
    @id("act") permit(principal is Person, action, resource) when { action in Action::"useTool" };
"#;

fn agent(id: &str, version: &str, publisher: &str) -> Entry {
    Entry::Agent { id: id.to_owned(), version: version.to_owned(), publisher: Some(publisher.to_owned()) }
}

fn tool(tier: u32) -> Entry {
    Entry::Tool {
        server: "bank".to_owned(),
        name: "pay".to_owned(),
        effect: "final".to_owned(),
        trusted: true,
        label: DataLabel::Internal,
        clearance: DataLabel::Confidential,
        tier,
    }
}

fn entries() -> Vec<Entry> {
    vec![
        agent("clerk", "1.0.0", "acme"),
        agent("boss", "1.0.0", "acme"),
        Entry::Person { id: "ada".to_owned(), roles: vec!["staff".to_owned()] },
        Entry::Node { id: "n".to_owned() },
        tool(1),
    ]
}

fn schema() -> Schema {
    let input = ToolInput::of_schema(&json!({ "type": "object" }));
    Schema::new(&[ToolSignature { server: "bank", name: "pay", input: &input }])
}

static SET: LazyLock<Policies> = LazyLock::new(|| {
    let set = Policies::read("policy.cedar", POLICIES, &schema(), &Bounds::default());
    set.unwrap_or_else(|error| panic!("{error}"))
});

/// What is asked: who does what, with what, and at which label.
type Asked<'a> = (&'a EntityName, Gate, &'a EntityName, DataLabel);

fn decide(world: &World, (principal, gate, resource, level): Asked<'_>, facts: &[Entry]) -> Verdict {
    let (arguments, label, person) = (Map::new(), Label { level, trusted: true }, Some("ada"));
    let arguments = &arguments;
    SET.decide(world, &Request { principal, gate, resource, arguments, label, person, facts })
}

/// All requests of some of those that the policies speak of, and of strangers.
fn requests(ask: impl Fn(Asked<'_>)) {
    let principals = ["clerk", "boss", "stranger"].map(|id| EntityName::new(Kind::Agent, id));
    let others = [EntityName::new(Kind::Person, "ada"), EntityName::new(Kind::Node, "n")];
    let others = others.into_iter().chain([EntityName::new(Kind::Node, "far")]);
    for principal in principals.into_iter().chain(others) {
        for resource in [EntityName::tool("bank", "pay"), EntityName::new(Kind::Agent, "stranger")] {
            let gate = if resource.kind == Kind::Tool { Gate::UseTool } else { Gate::Call };
            for level in [DataLabel::Public, DataLabel::Restricted] {
                ask((&principal, gate, &resource, level));
            }
        }
    }
}

#[test]
fn facts_of_a_request_are_read_as_if_the_world_had_been_made_with_them() {
    let world = World::new(&schema(), &entries()).expect("a world");
    let facts = [
        vec![],
        vec![agent("clerk", "2.0.0", "acme")],
        vec![agent("stranger", "2.0.0", "evil"), Entry::Node { id: "far".to_owned() }],
        vec![agent("stranger", "0.1.0", "acme"), agent("boss", "1.1.0", "acme")],
    ];
    let mut answers = BTreeSet::new();
    for facts in &facts {
        let with: Vec<Entry> = entries().into_iter().chain(facts.iter().cloned()).collect();
        let made = World::new(&schema(), &with).expect("a world");
        requests(|asked| {
            let (sliced, whole) = (decide(&world, asked, facts), decide(&made, asked, &[]));
            assert_eq!(sliced, whole, "{asked:?} with {facts:?}");
        });
        requests(|asked| assert_eq!(decide(&made, asked, facts), decide(&made, asked, &[]), "{asked:?}"));
        let (clerk, pay) = (EntityName::new(Kind::Agent, "clerk"), EntityName::tool("bank", "pay"));
        let pays = (&clerk, Gate::UseTool, &pay, DataLabel::Public);
        answers.insert(decide(&world, pays, facts).policies);
    }
    assert!(answers.iter().any(|policies| policies.contains("new")), "{answers:?}");
    assert!(answers.iter().any(|policies| !policies.contains("new")), "{answers:?}");
}

#[test]
fn an_agent_reads_its_own_tool_where_another_has_one_of_that_name() {
    let world = World::new(&schema(), &entries()).expect("a world");
    let own = world.clone().with_own(&BTreeMap::from([("clerk".to_owned(), vec![tool(9)])]));
    let with: Vec<Entry> = entries().into_iter().chain([tool(9)]).collect();
    let of_clerk = World::new(&schema(), &with).expect("a world");
    requests(|asked| {
        let there = if *asked.0 == EntityName::new(Kind::Agent, "clerk") { &of_clerk } else { &world };
        assert_eq!(decide(&own, asked, &[]), decide(there, asked, &[]), "{asked:?}");
    });
    let (clerk, pay) = (EntityName::new(Kind::Agent, "clerk"), EntityName::tool("bank", "pay"));
    let pays = (&clerk, Gate::UseTool, &pay, DataLabel::Public);
    assert_eq!((decide(&world, pays, &[]).answer, decide(&own, pays, &[]).answer), (Answer::Permit, Answer::Deny));
}

#[test]
fn what_the_world_has_is_not_copied() {
    let world = World::new(&schema(), &entries()).expect("a world");
    let (principal, resource) = (EntityName::new(Kind::Agent, "clerk"), EntityName::tool("bank", "pay"));
    let names = RequestNames { principal: &principal, action: None, resource: &resource, person: None };
    let slice = |facts: &[Entry]| world.slice(&names, facts, &[]).expect("it is ordered").map(|slice| slice.len());
    assert_eq!(slice(&[]), None);
    assert_eq!(slice(&[agent("clerk", "1.0.0", "acme")]), None);
    // Who acts, with what, and four labels: not all that the world knows.
    assert_eq!(slice(&[agent("clerk", "2.0.0", "acme")]), Some(6));
}

#[test]
fn policies_read_what_their_conditions_name_and_of_scopes_the_name() {
    let named: Vec<String> = SET.literals().iter().map(ToString::to_string).collect();
    for read in ["Agent::\"boss\"", "Tool::\"bank/pay\"", "Action::\"useTool\""] {
        assert!(named.iter().any(|name| name == read), "{read}: {named:?}");
    }
    assert!(!named.iter().any(|name| name.starts_with("Publisher")), "{named:?}");
}

#[test]
fn a_world_that_is_made_anew_has_the_same_actions() {
    let world = World::new(&schema(), &entries()).expect("a world");
    let anew = world.anew(&entries()).expect("a world");
    assert_eq!(anew.entities().len(), world.entities().len());
    requests(|asked| assert_eq!(decide(&anew, asked, &[]), decide(&world, asked, &[]), "{asked:?}"));
    let empty = anew.anew(&[]).expect("a world");
    assert!(!empty.knows(&EntityName::new(Kind::Agent, "clerk")));
    assert!(empty.entities().iter().any(|entity| entity.uid() == Kind::Action.uid("pay")));
}
