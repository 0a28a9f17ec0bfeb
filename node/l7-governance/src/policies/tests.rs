//! What makes the set in force, or what it reads, anew, and what does not.

use althing_protocol::PublisherId;
use althing_protocol::contract::DataLabel;

use super::*;

const CALLS: usize = 200;

fn agent(version: &str) -> AgentRef {
    AgentRef::new(PublisherId::from_digest([5; 32]), "own", version).expect("a name")
}

fn own() -> AgentId {
    agent("1.0.0").id
}

/// An agent of a publisher.
fn stranger(publisher: u8, number: usize) -> AgentId {
    AgentId::new(PublisherId::from_digest([publisher; 32]), &format!("a{number}")).expect("a name")
}

fn name(agent: &AgentId) -> EntityName {
    EntityName::new(Kind::Agent, agent.to_string())
}

fn call(principal: EntityName, facts: Vec<Entry>) -> PolicyRequest {
    PolicyRequest {
        principal,
        gate: Gate::Call,
        resource: name(&own()),
        arguments: Map::new(),
        label: Label { level: DataLabel::Public, trusted: true },
        person: None,
        facts,
    }
}

/// A set in force, of a node with one agent, and how often it, or what it reads, was made anew.
struct Office {
    policies: Policies,
    people: PeopleNow,
    /// All that were in force, the newest last.
    forces: Vec<Arc<Force>>,
}

impl Office {
    fn new(text: &str) -> Office {
        let (policies, people) = (Policies::none(NodeProfile::Local), (Arc::new(People::default()), 0));
        policies.take_own(&agent("1.0.0"));
        let draft = policies.read(text, &people.0).expect("it is good");
        policies.load(draft, 1);
        let mut office = Office { policies, people, forces: Vec::new() };
        office.says(&call(name(&own()), Vec::new()));
        office.forces = vec![office.policies.now()];
        office
    }

    fn says(&mut self, request: &PolicyRequest) -> Statement {
        let (statement, _) = self.policies.decide(request, &self.people).expect("a set is loaded");
        let now = self.policies.now();
        // Each is kept, so that no other has its place.
        if !self.forces.last().is_some_and(|last| Arc::ptr_eq(last, &now)) {
            self.forces.push(now);
        }
        statement
    }

    fn made(&self) -> usize {
        self.forces.len() - 1
    }
}

#[test]
fn two_versions_of_an_agent_are_decided_by_turns_each_by_its_own() {
    let text = r#"permit(principal is Agent, action, resource) when { principal.version == "2.0.0" };"#;
    let mut office = Office::new(text);
    let (id, publisher) = (own().to_string(), own().publisher().to_string());
    let by_turns = |office: &mut Office| {
        for number in 0..CALLS {
            let version = if number % 2 == 0 { "1.0.0" } else { "2.0.0" };
            let facts = office.policies.act((&id, version, &publisher)).into_iter().collect();
            let said = office.says(&call(name(&own()), facts));
            assert_eq!(matches!(said, Statement::Permit), version == "2.0.0", "{said:?}");
        }
    };
    by_turns(&mut office);
    assert_eq!(office.made(), 0);
    office.policies.take_own(&agent("2.0.0"));
    by_turns(&mut office);
    assert_eq!(office.made(), 1, "it was added in the other one");
}

#[test]
fn strangers_are_known_to_the_requests_that_name_them() {
    let of = PublisherId::from_digest([7; 32]);
    let mut office = Office::new(&format!(
        "permit(principal in Publisher::\"{of}\", action, resource);\npermit(principal == Node::\"n7\", action, resource);"
    ));
    for number in 0..CALLS {
        for publisher in [7, 8] {
            let agent = stranger(publisher, number);
            let facts = office.policies.take_named(&agent, "").into_iter().collect();
            let said = office.says(&call(name(&agent), facts));
            let is_right = match &said {
                Statement::Permit => publisher == 7,
                Statement::Deny(reason) => publisher == 8 && reason.contains("no policy"),
                Statement::Ask(_) => false,
            };
            assert!(is_right, "{said:?}");
        }
        let node = format!("n{number}");
        let facts = vec![office.policies.take_node(&node)];
        let said = office.says(&call(EntityName::new(Kind::Node, node.as_str()), facts));
        assert_eq!(matches!(said, Statement::Permit), number == 7, "{said:?}");
    }
    assert_eq!(office.made(), 0);
    let unknown = office.says(&call(name(&stranger(9, 1)), Vec::new()));
    assert!(matches!(&unknown, Statement::Deny(reason) if reason.contains("nothing is known")), "{unknown:?}");
}

#[test]
fn other_people_and_other_agents_of_the_node_make_what_policies_read_anew() {
    let mut office = Office::new("permit(principal, action, resource);");
    let own = name(&own());
    office.says(&call(own.clone(), Vec::new()));
    assert_eq!(office.made(), 0);
    office.people.1 += 1;
    office.says(&call(own.clone(), Vec::new()));
    assert_eq!(office.made(), 1);
    let other = AgentRef::new(PublisherId::from_digest([5; 32]), "other", "1.0.0").expect("a name");
    office.policies.take_own(&other);
    assert!(matches!(office.says(&call(name(&other.id), Vec::new())), Statement::Permit));
    office.says(&call(own, Vec::new()));
    assert_eq!(office.made(), 2);
}

#[test]
fn tools_without_a_clearance_are_told_where_labels_begin_to_decide_and_none_where_there_is_none() {
    let office = Office::new("permit(principal, action, resource);");
    assert_eq!(office.policies.label_start(), None);
    let cleared = ToolProfile { clearance: DataLabel::Internal, ..ToolProfile::default() };
    office.policies.take_tool("own", "shop/search", cleared);
    assert_eq!(office.policies.label_start(), None);
    office.policies.take_tool("own", "shop/buy", ToolProfile::default());
    let told = office.policies.label_start().expect("one is not cleared");
    assert!(told.what.contains("1 of the 2 tools"), "{told:?}");
}

#[test]
fn a_denial_names_what_was_sought_and_is_known_as_one_of_policies() {
    let sought = format!(r#": Action::"call" by Agent::"{0}" on Agent::"{0}""#, own());
    for (text, begins) in [
        (r#"permit(principal, action == Action::"model", resource);"#, "no policy of the owner permits it"),
        (r#"@id("shut") forbid(principal, action, resource);"#, "the owner's policies forbid it (shut)"),
    ] {
        let said = Office::new(text).says(&call(name(&own()), Vec::new()));
        let Statement::Deny(reason) = said else { panic!("{said:?}") };
        assert_eq!(reason, format!("{begins}{sought}"));
        assert!(is_policy_denial(&format!("the node says: {reason}")));
    }
    assert!(!is_policy_denial("its owner does not trust you"));
    let odd = call(EntityName::new(Kind::Agent, "a\n".repeat(NAMED_CHARS)), Vec::new());
    let told = super::sought(&odd);
    assert!(!told.contains('\n') && told.chars().count() < 2_000, "{told}");
}
