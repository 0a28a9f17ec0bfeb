//! The invariants, one file each.

mod abandoned;
mod answered;
mod asked;
mod connected;
mod durable_tasks;
mod forgery;
mod interrupted;
mod living;
mod one_word;
mod reserved;
mod revoked;
mod trusted;
mod vanished;

use std::collections::BTreeMap;

use althing_discovery::SearchReport;
use althing_protocol::record::RecordKey;
use althing_protocol::{AgentId, Digest, PublicKey, PublisherId};

/// The longest call: a deadline of a minute, and the search before it.
pub(crate) const LONGEST_MS: u64 = 65_000;

pub(crate) use trusted::REFUSED;

/// A search and its result.
#[derive(Debug, Clone)]
pub struct Search {
    /// When it began and ended, milliseconds.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: u64,
    /// The node that searched.
    pub seeker: u32,
    /// The capability that it searched for.
    pub capability: String,
    /// What was found.
    pub found: Vec<(AgentId, PublicKey)>,
    /// Node, agent, sequence and digest of each description in the result.
    pub descriptions: Vec<(PublicKey, AgentId, u64, Digest)>,
    /// The search beyond the catalogue, if there was one.
    pub sought: Option<SearchReport>,
    /// The nodes that had the capability, had been running long enough to be known, and were reachable throughout.
    pub expected: Vec<PublicKey>,
    /// Those of them to which the node that searched was connected throughout.
    pub connected: Vec<PublicKey>,
    /// Whether the network had healed from the last fault.
    pub undisturbed: bool,
}

/// A call, and perhaps a later request for its task, with their results.
#[derive(Debug, Clone)]
pub struct Called {
    /// When the call, or the later request, began and ended, milliseconds.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: u64,
    /// The calling node.
    pub caller: u32,
    /// The agent that was called.
    pub agent: AgentId,
    /// The node on which it was found.
    pub node: PublicKey,
    /// The id of the acknowledged task, and whether it is completed; or the error.
    pub task: Result<(String, bool), String>,
    /// The result of the later request.
    pub recalled: Option<Result<(String, bool), String>>,
    /// Whether both nodes were running throughout, and nothing disturbed the network.
    pub undisturbed: bool,
    /// Whether the called node trusted the caller's owner; `None` if that changed meanwhile.
    pub trusted: Option<bool>,
}

/// A question that an agent was told to ask another, perhaps through a third, and its answer.
#[derive(Debug, Clone)]
pub struct Asked {
    /// When the question began and ended, milliseconds.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: u64,
    /// The node of the agent that asks first.
    pub asker: u32,
    /// The agents, in order: each asks the next, and the last answers on whose behalf it was called.
    pub agents: Vec<AgentId>,
    /// The answer, or the error.
    pub answer: Result<String, String>,
    /// Whether all their nodes were running throughout, and nothing disturbed the network.
    pub undisturbed: bool,
    /// Whether each agent's node trusted the one before; `None` if that changed meanwhile.
    pub trusted: Option<bool>,
}

/// A task as its caller sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// Whether it is completed.
    pub done: bool,
    /// The texts of its artifacts.
    pub artifacts: Vec<String>,
    /// The messages of its caller.
    pub said: Vec<String>,
}

/// A turn that its caller interrupted with a second message, and the task later.
#[derive(Debug, Clone)]
pub struct Interrupted {
    /// When the first message was sent and the task was read for the last time, milliseconds.
    pub began_ms: u64,
    /// See `began_ms`.
    pub ended_ms: u64,
    /// The calling node.
    pub caller: u32,
    /// The agent that was called.
    pub agent: AgentId,
    /// The two messages.
    pub said: [String; 2],
    /// The answer to the second message, or the error.
    pub answer: Result<Seen, String>,
    /// The task, read again later.
    pub later: Result<Seen, String>,
    /// Whether all nodes of the call were running throughout, and nothing disturbed the network.
    pub undisturbed: bool,
}

/// A reservation that one node made on another, and what became of it.
#[derive(Debug, Clone)]
pub struct Reserved {
    /// When it was requested, milliseconds.
    pub began_ms: u64,
    /// When that was answered.
    pub answered_ms: u64,
    /// Until when it was held at least: its lease, counted from the last request, or its cancellation.
    pub held_ms: u64,
    /// From when on it was not held: its lease, counted from the last answer, or its cancellation.
    pub over_ms: u64,
    /// The node that reserved.
    pub holder: u32,
    /// The node on which it reserved.
    pub host: u32,
    /// Whether both are of one owner.
    pub own: bool,
    /// The share of a core, thousandths.
    pub share_permille: u64,
    /// Whether it was made, or why not.
    pub prepared: Result<(), String>,
    /// Whether it was confirmed and cancelled as its holder wished, or why not.
    pub kept: Result<(), String>,
    /// Whether it could be confirmed after it was over, or why not.
    pub after: Result<(), String>,
    /// Whether both nodes were running throughout, and nothing disturbed the network.
    pub undisturbed: bool,
}

/// The true state, whatever nodes claim.
#[derive(Debug, Default)]
pub struct Truth {
    /// The agent of each node that has one, crashed ones included.
    pub agents: BTreeMap<PublicKey, AgentId>,
    /// When each crashed node crashed, milliseconds.
    pub gone_ms: BTreeMap<PublicKey, u64>,
    /// When each owner that revoked its keys did so, milliseconds.
    pub revoked_ms: BTreeMap<PublisherId, u64>,
    /// When the trust of all others in an owner last changed, milliseconds, and whether it is trusted since.
    pub trust_ms: BTreeMap<PublisherId, (u64, bool)>,
}

impl Truth {
    /// Whether nodes of `by` have trusted nodes of `owner` since `since_ms`; `None` if that changed then or later.
    #[must_use]
    pub fn trusted(&self, owner: PublisherId, by: PublisherId, since_ms: u64) -> Option<bool> {
        match self.trust_ms.get(&owner) {
            Some((at_ms, _)) if owner != by && *at_ms >= since_ms => None,
            Some((_, trusted)) if owner != by => Some(*trusted),
            _ => Some(true),
        }
    }
}

/// A property that must hold throughout a run.
pub trait Invariant: Send {
    /// Its name in scenario files.
    fn name(&self) -> &'static str;
    /// Checks a search.
    ///
    /// # Errors
    /// How it does not hold.
    fn check(&mut self, _look: &Search, _truth: &Truth) -> Result<(), String> {
        Ok(())
    }

    /// Checks a call.
    ///
    /// # Errors
    /// How it does not hold.
    fn check_call(&mut self, _called: &Called, _truth: &Truth) -> Result<(), String> {
        Ok(())
    }

    /// Checks a question of one agent to another.
    ///
    /// # Errors
    /// How it does not hold.
    fn check_asked(&mut self, _asked: &Asked) -> Result<(), String> {
        Ok(())
    }

    /// Checks an interrupted turn.
    ///
    /// # Errors
    /// How it does not hold.
    fn check_interrupted(&mut self, _interrupted: &Interrupted) -> Result<(), String> {
        Ok(())
    }

    /// Checks all reservations of a run.
    ///
    /// # Errors
    /// How it does not hold.
    fn check_reserved(&mut self, _all: &[Reserved]) -> Result<(), String> {
        Ok(())
    }

    /// Checks a node at the end, with the number of turns that run on it, and of reservations on it, though nobody waits for an
    /// answer or holds a lease any more.
    ///
    /// # Errors
    /// How it does not hold.
    fn check_at_rest(&mut self, _node: u32, _turns: usize, _reserved: usize) -> Result<(), String> {
        Ok(())
    }

    /// Checks a value that an honest node stores for others at the end.
    ///
    /// # Errors
    /// How it does not hold.
    fn check_stored(&mut self, _holder: PublicKey, _key: RecordKey, _bytes: &[u8]) -> Result<(), String> {
        Ok(())
    }
}

fn all() -> Vec<Box<dyn Invariant>> {
    vec![
        Box::new(living::Living),
        Box::new(connected::Connected),
        Box::new(vanished::Vanished),
        Box::new(forgery::Forgery),
        Box::<one_word::OneWord>::default(),
        Box::new(revoked::Revoked),
        Box::new(answered::Answered),
        Box::new(durable_tasks::DurableTasks),
        Box::new(trusted::Trusted),
        Box::new(asked::AskedFor),
        Box::new(interrupted::GivesWay),
        Box::new(abandoned::Abandoned),
        Box::new(reserved::Ends),
    ]
}

/// All names.
#[must_use]
pub fn names() -> Vec<&'static str> {
    all().iter().map(|invariant| invariant.name()).collect()
}

/// The invariants of the given names.
#[must_use]
pub fn named(names: &[String]) -> Vec<Box<dyn Invariant>> {
    all().into_iter().filter(|invariant| names.iter().any(|name| name == invariant.name())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{NETWORK, NOW_MS, key};

    fn node(number: u32) -> PublicKey {
        key(number).public()
    }

    fn owner(number: u32) -> PublisherId {
        crate::mesh::Owner::new(key(number)).id()
    }

    fn agent(number: u32) -> AgentId {
        AgentId::new(owner(100), &format!("agent-{number}")).expect("a name")
    }

    /// A find of node 1's agent by node 2, at 20 s.
    fn search() -> Search {
        Search {
            began_ms: 20_000,
            ended_ms: 20_100,
            seeker: 2,
            capability: "doing.thing-1".to_owned(),
            found: vec![(agent(1), node(1))],
            descriptions: vec![(node(1), agent(1), 7, [1; 32])],
            sought: None,
            expected: vec![node(1)],
            connected: Vec::new(),
            undisturbed: true,
        }
    }

    #[test]
    fn trust_counts_from_the_moment_after_it_changed() {
        let mut truth = Truth::default();
        truth.trust_ms.insert(owner(100), (1_000, false));
        let trusted = |by: u32, since_ms| truth.trusted(owner(100), owner(by), since_ms);
        assert_eq!((trusted(200, 1_000), trusted(200, 1_001)), (None, Some(false)));
        assert_eq!(trusted(100, 1_001), Some(true), "its own nodes");
        assert_eq!(truth.trusted(owner(200), owner(100), 0), Some(true), "it trusts the others");
    }

    fn truth() -> Truth {
        Truth { agents: BTreeMap::from([(node(1), agent(1)), (node(3), agent(3))]), ..Truth::default() }
    }

    fn broken(search: &Search, truth: &Truth) -> Vec<&'static str> {
        all()
            .iter_mut()
            .filter_map(|invariant| invariant.check(search, truth).is_err().then(|| invariant.name()))
            .collect()
    }

    #[test]
    fn a_node_takes_one_word_of_each_sequence() {
        let mut one = one_word::OneWord::default();
        let search = search();
        assert_eq!(one.check(&search, &truth()), Ok(()));
        assert_eq!(one.check(&search, &truth()), Ok(()));
        let newer = Search { descriptions: vec![(node(1), agent(1), 8, [2; 32])], ..search.clone() };
        assert_eq!(one.check(&newer, &truth()), Ok(()));
        let other = Search { descriptions: vec![(node(1), agent(1), 7, [2; 32])], ..search.clone() };
        assert!(one.check(&Search { seeker: 3, ..other.clone() }, &truth()).is_ok(), "another was told that first");
        assert!(one.check(&other, &truth()).is_err());
    }

    #[test]
    fn each_is_broken_by_what_it_forbids_and_by_nothing_else() {
        assert_eq!(broken(&search(), &truth()), [""; 0]);
        let missing = Search { found: Vec::new(), ..search() };
        assert_eq!(broken(&missing, &truth()), ["the-living-are-found"]);
        assert_eq!(
            broken(&Search { undisturbed: false, ..missing.clone() }, &truth()),
            [""; 0],
            "while the network is disturbed"
        );
        let nobody = Search { expected: Vec::new(), ..missing };
        assert_eq!(broken(&nobody, &truth()), [""; 0], "there is nobody to be found");
        let beside = Search { connected: vec![node(1)], ..nobody };
        assert_eq!(broken(&beside, &truth()), ["the-connected-are-found"]);
        assert_eq!(broken(&Search { undisturbed: false, ..beside }, &truth()), [""; 0]);
        let forged = Search { found: vec![(agent(1), node(1)), (agent(1), node(3))], ..search() };
        assert_eq!(broken(&forged, &truth()), ["nothing-forged-is-believed"]);
        let mut gone = truth();
        gone.gone_ms.insert(node(1), 11_999);
        assert_eq!(broken(&search(), &gone), ["the-vanished-are-gone"]);
        gone.gone_ms.insert(node(1), 12_000);
        assert_eq!(broken(&search(), &gone), [""; 0], "for eight seconds it may be");
        let mut revoked = truth();
        revoked.revoked_ms.insert(owner(100), 9_999);
        assert_eq!(broken(&search(), &revoked), ["the-revoked-are-gone"]);
        revoked.revoked_ms.insert(owner(100), 10_000);
        assert_eq!(broken(&search(), &revoked), [""; 0], "for ten seconds it may be");
    }

    #[test]
    fn a_node_keeps_nothing_that_its_author_did_not_sign() {
        use althing_protocol::object;
        use althing_protocol::record::{Contact, Value};

        let under = RecordKey::contact(NETWORK, node(1));
        let signed_by = |signer: u32, ends_ms: u64| {
            let body = Contact::new(node(1), 1, NOW_MS - 1_000, ends_ms, vec!["sim:1".to_owned()]);
            Value::Contact(object::sign(body, NETWORK, "", &key(signer)).expect("a good shape")).encode()
        };
        let broken = |bytes: &[u8]| {
            let broken = all().into_iter().filter_map(|mut invariant| {
                invariant.check_stored(node(2), under, bytes).is_err().then(|| invariant.name())
            });
            broken.collect::<Vec<_>>()
        };
        assert_eq!(broken(&signed_by(1, NOW_MS + 1_000)), [""; 0]);
        assert_eq!(broken(&signed_by(1, NOW_MS - 1)), [""; 0], "whether it is over is not what counts");
        assert_eq!(broken(&signed_by(3, NOW_MS + 1_000)), ["nothing-forged-is-believed"]);
        assert_eq!(broken(b"nonsense"), ["nothing-forged-is-believed"]);
    }

    #[test]
    fn calls_are_answered_and_tasks_are_kept() {
        let good = Called {
            began_ms: 1_000,
            ended_ms: 1_100,
            caller: 2,
            agent: agent(1),
            node: node(1),
            task: Ok(("task".to_owned(), true)),
            recalled: None,
            undisturbed: true,
            trusted: Some(true),
        };
        let broken = |called: &Called| {
            let broken = all()
                .into_iter()
                .filter_map(|mut invariant| invariant.check_call(called, &truth()).is_err().then(|| invariant.name()));
            broken.collect::<Vec<_>>()
        };
        assert_eq!(broken(&good), [""; 0]);
        let refused = Called { task: Err("no".to_owned()), ..good.clone() };
        assert_eq!(broken(&refused), ["calls-are-answered"]);
        assert_eq!(broken(&Called { task: Ok(("task".to_owned(), false)), ..good.clone() }), ["calls-are-answered"]);
        assert_eq!(broken(&Called { undisturbed: false, ..refused }), [""; 0]);
        let untrusted = Called { task: Err(format!("{REFUSED}: no")), trusted: Some(false), ..good.clone() };
        assert_eq!(broken(&untrusted), [""; 0], "nobody promised it an answer");
        assert_eq!(broken(&Called { undisturbed: false, ended_ms: 66_001, ..good.clone() }), ["calls-are-answered"]);
        assert_eq!(broken(&Called { recalled: Some(good.task.clone()), ..good.clone() }), [""; 0]);
        for lost in [Err("no such task".to_owned()), Ok(("other".to_owned(), true)), Ok(("task".to_owned(), false))] {
            let lost = Called { recalled: Some(lost), ..good.clone() };
            assert_eq!(broken(&lost), ["acknowledged-tasks-are-kept"]);
            assert_eq!(broken(&Called { undisturbed: false, ..lost }), [""; 0]);
        }
    }
}
