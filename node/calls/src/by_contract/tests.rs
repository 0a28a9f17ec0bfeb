use std::collections::BTreeSet;

use althing_call::{Asker, Callee, Operation, Principal, Purpose, Refusal, Target};
use althing_communication::Caller;
use althing_protocol::{CallerId, PublicKey, SecretKey};
use futures::FutureExt as _;

use super::*;

const OWNER: u8 = 1;
const FRIEND: u8 = 2;
const STRANGER: u8 = 3;

fn publisher(seed: u8) -> PublisherId {
    PublisherId::from_digest([seed; 32])
}

fn agent(seed: u8, name: &str) -> AgentId {
    AgentId::new(publisher(seed), name).expect("a name")
}

fn node(seed: u8) -> PublicKey {
    SecretKey::from_seed(&[seed; 32]).public()
}

/// A node of that number, of that owner.
fn caller(number: u8, owner: u8) -> Caller {
    Caller { node: node(number), owner: Some(publisher(owner)) }
}

/// Version 1.0.0 of everything was taken back, and `gone` was stopped here for that.
struct Old;

impl RevocationCheck for Old {
    fn version(&self, agent: &AgentId, version: &str) -> Option<String> {
        (version == "1.0.0").then(|| format!("{} {version} leaks", agent.name()))
    }

    fn order(&self, agent: &AgentId) -> Option<String> {
        (agent.name() == "halted").then(|| "halted was stopped by its owner".to_owned())
    }

    fn stopped(&self, agent: &AgentId) -> Option<String> {
        (agent.name() == "gone").then(|| "gone was stopped: it leaks".to_owned())
    }

    fn any(&self, agent: &AgentId) -> Option<String> {
        (agent.name() != "new").then(|| format!("{} 1.0.0 leaks", agent.name()))
    }
}

/// What node 10 of the owner decides, who trusts a friend.
fn contracts(revocations: Option<Arc<dyn RevocationCheck>>) -> ByContract {
    let trusted = BTreeSet::from([CallerId::Publisher(publisher(FRIEND))]);
    let trust = Trust { node: node(10), owner: publisher(OWNER), trusted, private: false };
    ByContract::new(watch::channel(trust).1, revocations)
}

fn decided(judgement: Judgement) -> Decision {
    match judgement {
        Judgement::Now(decision) => decision,
        Judgement::Later(_) => panic!("contracts ask nobody"),
    }
}

fn refusal(decision: Decision) -> Option<(Refusal, String)> {
    match decision {
        Decision::Allow => None,
        Decision::Deny(why) => Some((why.refusal, why.message)),
        Decision::Ask(consent) => panic!("contracts ask nobody: {}", consent.to),
    }
}

#[test]
fn an_agent_that_its_owner_stopped_gets_no_message_in_any_version() {
    let contracts = contracts(Some(Arc::new(Old)));
    let halted = agent(FRIEND, "halted");
    for version in [None, Some("2.0.0")] {
        let message = OutgoingRequest::Message { agent: &halted, version, principals: &[], label: None, content: None };
        let refused = refusal(decided(contracts.decide(&message))).expect("it is refused");
        assert_eq!(refused, (Refusal::AgentRevoked, "halted was stopped by its owner".to_owned()));
    }
    let absent = OutgoingRequest::Absent { agents: std::slice::from_ref(&halted), why: "nobody hosts it" };
    let refused = refusal(decided(contracts.decide(&absent))).expect("it is never allowed");
    assert_eq!(refused.0, Refusal::AgentRevoked, "{}", refused.1);
    let (own, by) = (agent(OWNER, "halted"), caller(11, OWNER));
    for (operation, expected) in [
        (Operation::SendMessage, Some(Refusal::AgentRevoked)),
        (Operation::GetTask, None),
        (Operation::CancelTask, None),
    ] {
        let service = Service::Call { agent: &own, callers: &CallerRule::Own, operation };
        let decision = decided(contracts.decide_incoming(&IncomingRequest::plain(service, &by)));
        assert_eq!(refusal(decision).map(|(refused, _)| refused), expected, "{operation:?}");
    }
}

#[test]
fn every_protocol_is_for_those_whom_its_contract_names() {
    let contracts = contracts(None);
    let agent = agent(OWNER, "echo");
    let listed = CallerRule::Listed(BTreeSet::from([CallerId::Publisher(publisher(STRANGER))]));
    let call = |callers| Service::Call { agent: &agent, callers, operation: Operation::SendMessage };
    let task = |callers, elsewhere| Service::GroupTask { agent: &agent, callers, elsewhere };
    // This node, another one of its owner, a friend's, a stranger's.
    let table = [
        (call(&CallerRule::ThisNode), [true, false, false, false]),
        (call(&CallerRule::Own), [true, true, false, false]),
        (call(&CallerRule::Trusted), [true, true, true, false]),
        (call(&listed), [true, true, false, true]),
        (call(&CallerRule::Anyone), [true, true, true, true]),
        (task(&CallerRule::ThisNode, false), [true, false, false, false]),
        (task(&CallerRule::ThisNode, true), [false, false, false, false]),
        (task(&CallerRule::Trusted, true), [true, true, true, false]),
        (Service::Reservations, [true, true, false, false]),
        (Service::Traces, [true, true, false, false]),
        (Service::Discovery(TrustRelation::Own), [true, true, false, false]),
        (Service::Discovery(TrustRelation::Trusted), [true, true, true, false]),
        (Service::Discovery(TrustRelation::Stranger), [true, true, true, true]),
        (Service::Exemption, [true, true, true, false]),
    ];
    let callers = [caller(10, OWNER), caller(11, OWNER), caller(12, FRIEND), caller(13, STRANGER)];
    for (service, allowed) in table {
        for (caller, allowed) in callers.iter().zip(allowed) {
            let decision = decided(contracts.decide_incoming(&IncomingRequest::plain(service, caller)));
            let refused = refusal(decision).map(|(refusal, _)| refusal);
            assert_eq!(refused, (!allowed).then_some(Refusal::CallerNotAllowed), "{service:?} {caller:?}");
        }
    }
}

#[test]
fn nobody_gets_through_an_agent_what_it_may_not_have_itself() {
    let contracts = contracts(None);
    let (agent, caller) = (agent(OWNER, "echo"), caller(12, FRIEND));
    let behind = |seed| [Principal::Caller(CallerId::Publisher(publisher(seed))), Principal::Caller(caller.id())];
    for (seed, allowed) in [(OWNER, true), (FRIEND, true), (STRANGER, false)] {
        let principals = behind(seed);
        let callers = &CallerRule::Trusted;
        for service in [
            Service::Call { agent: &agent, callers, operation: Operation::GetTask },
            Service::GroupTask { agent: &agent, callers, elsewhere: false },
        ] {
            let asked = IncomingRequest { principals: &principals, ..IncomingRequest::plain(service, &caller) };
            let refused = refusal(decided(contracts.decide_incoming(&asked)));
            assert_eq!(refused.is_none(), allowed, "{seed} {service:?}: {refused:?}");
        }
    }
}

#[test]
fn who_asks_for_an_agent_is_decided_by_what_binds_them() {
    let contracts = contracts(None);
    let had = |asker: &Asker, seed: u8, purpose: Purpose| {
        let (agent, callee) = (agent(seed, "echo"), Callee::near("echo"));
        let target = Target::decided(&contracts, agent.clone(), (asker, &callee), purpose).now_or_never();
        let had = target.expect("contracts ask nobody").is_ok();
        assert_eq!(Target::is_allowed(&contracts, &agent, asker, purpose), had, "lists say the same");
        had
    };
    for (seed, relation) in
        [(OWNER, TrustRelation::Own), (FRIEND, TrustRelation::Trusted), (STRANGER, TrustRelation::Stranger)]
    {
        assert_eq!(contracts.relation(publisher(seed)), relation);
        assert!(had(&Asker::Owner, seed, Purpose::Call));
        assert_eq!(had(&Asker::Agent, seed, Purpose::Call), seed != STRANGER, "{relation:?}");
        assert_eq!(had(&Asker::Agent, seed, Purpose::Read), seed != STRANGER, "{relation:?}");
    }
    assert_eq!(contracts.near(), [publisher(OWNER), publisher(FRIEND)]);
}

#[test]
fn what_was_taken_back_is_not_called_and_its_absence_is_explained() {
    let message = |contracts: &ByContract, version: Option<&str>| {
        let agent = &agent(FRIEND, "echo");
        let message = OutgoingRequest::Message { agent, version, principals: &[], label: None, content: None };
        refusal(decided(contracts.decide(&message)))
    };
    let absent = |contracts: &ByContract, names: &[&str]| {
        let agents: Vec<AgentId> = names.iter().map(|name| agent(FRIEND, name)).collect();
        refusal(decided(contracts.decide(&OutgoingRequest::Absent { agents: &agents, why: "nobody has it" })))
    };
    let (knows, knows_nothing) = (contracts(Some(Arc::new(Old))), contracts(None));
    let revoked = |why: &str| Some((Refusal::AgentRevoked, why.to_owned()));
    let unknown = |why: &str| Some((Refusal::AgentUnknown, why.to_owned()));
    assert_eq!(message(&knows, Some("1.0.0")), revoked("echo 1.0.0 leaks"));
    for version in [None, Some("1.0.1")] {
        assert_eq!(message(&knows, version), None, "{version:?}");
    }
    assert_eq!(message(&knows_nothing, Some("1.0.0")), None);
    assert_eq!(absent(&knows, &["echo", "gone"]), revoked("gone was stopped: it leaks"));
    assert_eq!(absent(&knows, &["new", "echo"]), unknown("nobody has it; echo 1.0.0 leaks"));
    assert_eq!(absent(&knows, &["new"]), unknown("nobody has it"));
    assert_eq!(absent(&knows, &[]), unknown("nobody has it"));
    assert_eq!(absent(&knows_nothing, &["gone"]), unknown("nobody has it"));
}
