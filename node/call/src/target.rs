//! Who asks for an agent, what for, and whether it may have it. How an agent is found is decided elsewhere.

use std::collections::BTreeSet;

use althing_discovery::{Among, TrustRelation};
use althing_execution::CandidateList;
use althing_failure::CallStep;
use althing_protocol::AgentId;

use crate::error::OperationError;

/// Who asks for an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asker {
    /// This node's owner, or a client of one of its faces that may call whatever the owner may.
    Owner,
    /// A client that may call some agents alone, and read what any of them says of itself.
    User(AllowedAgents),
    /// An agent of this node: it calls no stranger's agents, and is told nothing of them.
    Agent,
}

/// What was written of an agent that somebody asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// The agent of that identifier.
    Id(AgentId),
    /// The agent with that identifier or name, among those that are allowed.
    Named(String, Among),
}

impl Callee {
    /// The agent with that identifier, or that name among the agents of the owner and of whom it trusts.
    #[must_use]
    pub fn near(text: impl Into<String>) -> Callee {
        Callee::Named(text.into(), Among::Near)
    }
}

/// What an agent is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// It is called: it gets a message, or one of its tasks is asked for.
    Call,
    /// What it says of itself is read, or where it runs.
    Read,
    /// It is told what a call of it waits for: by what is known here alone, without asking another node.
    Wait,
}

/// An agent that whoever asked may have, for the purpose that it named. It is made by [`Target::decided`] alone, so that nothing
/// is called that nobody decided on.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Target {
    /// Its id, also where it was asked for by its name.
    pub agent: AgentId,
    /// How near its publisher is to this node's owner.
    pub relation: TrustRelation,
    /// How it was chosen: for the span of its call.
    pub choice: TargetChoice,
}

/// By what an agent was chosen. Among which others is found out only where somebody is told of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum TargetChoice {
    /// Its id: there was no other.
    #[default]
    Id,
    /// What was written of it: a name, which others may have too, or an id.
    Name(String),
    /// What a task of a group needs, and these could have done.
    Among(CandidateList),
}

/// The only agents that a user may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowedAgents {
    /// The user's name, which a refusal repeats.
    pub user: String,
    /// Ids of agents, or names of the owner's own.
    pub agents: BTreeSet<String>,
}

impl AllowedAgents {
    /// Whether the user may call an agent. Its name counts only if it belongs to this node's owner: anybody may give an
    /// agent any name.
    fn check(&self, target: &Target) -> Result<(), OperationError> {
        let id = target.agent.to_string();
        let own = (target.relation == TrustRelation::Own).then(|| target.agent.name());
        if self.agents.contains(&id) || own.is_some_and(|name| self.agents.contains(name)) {
            return Ok(());
        }
        let all: Vec<&str> = self.agents.iter().map(String::as_str).collect();
        let others = if own.is_none() { "; agents of other owners are allowed by their ids" } else { "" };
        let why = format!("{} may call {} only, and not {id}{others}", self.user, all.join(", "));
        Err(OperationError::caller_not_allowed(why))
    }
}

impl Asker {
    /// Whether an agent may be had for that purpose, as far as that depends on nothing else. `callee` is what was written, which
    /// a refusal repeats.
    ///
    /// # Errors
    /// `CALLER_NOT_ALLOWED`, with who may not, and why.
    pub fn may_have(&self, target: &Target, callee: &Callee, purpose: Purpose) -> Result<(), OperationError> {
        match self {
            Asker::User(allowed) if purpose == Purpose::Call => allowed.check(target),
            Asker::Agent if target.relation == TrustRelation::Stranger => {
                let written = match callee {
                    Callee::Id(agent) => agent.to_string(),
                    Callee::Named(text, _) => text.clone(),
                };
                let refused = OperationError::caller_not_allowed(of_stranger(target, &written, purpose));
                Err(refused.with_remedy(CallStep::TrustOwner(target.agent.publisher().to_string())))
            }
            Asker::Owner | Asker::User(_) | Asker::Agent => Ok(()),
        }
    }
}

/// Why an agent of this node does not have a stranger's agent.
fn of_stranger(target: &Target, written: &str, purpose: Purpose) -> String {
    let publisher = target.agent.publisher();
    match purpose {
        Purpose::Call => format!(
            "{written:?} is a stranger's, whom agents here do not ask: trust in {publisher} changes that, and lets them call \
             this node's agents too; its own node must trust this one as well, unless anyone may call it"
        ),
        Purpose::Read | Purpose::Wait => format!("{written:?} is a stranger's, of which agents here are told nothing"),
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::PublisherId;

    use super::*;
    use crate::error::Refusal;

    fn target(publisher: u8, name: &str, relation: TrustRelation) -> Target {
        let agent = AgentId::new(PublisherId::from_digest([publisher; 32]), name).expect("a name");
        Target { agent, relation, choice: TargetChoice::default() }
    }

    fn had(asker: &Asker, target: &Target, purpose: Purpose) -> Result<(), String> {
        let refused = asker.may_have(target, &Callee::near(target.agent.name()), purpose);
        refused.map_err(|error| {
            assert_eq!(error.refusal, Refusal::CallerNotAllowed, "{error}");
            error.message
        })
    }

    #[test]
    fn a_user_calls_the_agents_that_are_named() {
        let other = target(1, "other", TrustRelation::Own);
        let agents = BTreeSet::from(["echo".to_owned(), other.agent.to_string()]);
        let bound = Asker::User(AllowedAgents { user: "alice".to_owned(), agents });
        let may = |target: &Target| had(&bound, target, Purpose::Call);
        assert_eq!(may(&target(1, "echo", TrustRelation::Own)), Ok(()));
        assert_eq!(may(&other), Ok(()));
        assert_eq!(may(&Target { relation: TrustRelation::Stranger, ..other.clone() }), Ok(()), "its id is enough");
        // Whom the owner trusts may give an agent that name too.
        for relation in [TrustRelation::Trusted, TrustRelation::Stranger] {
            let namesake = target(2, "echo", relation);
            let (id, listed) = (&namesake.agent, &other.agent);
            let why = format!(
                "alice may call echo, {listed} only, and not {id}; agents of other owners are allowed by their ids"
            );
            assert_eq!(may(&namesake), Err(why));
        }
        let unnamed = target(1, "a", TrustRelation::Own);
        let why = format!("alice may call echo, {} only, and not {}", other.agent, unnamed.agent);
        assert_eq!(may(&unnamed), Err(why));
    }

    #[test]
    fn a_bound_user_reads_what_any_agent_says_of_itself() {
        let agents = BTreeSet::from(["echo".to_owned()]);
        let bound = Asker::User(AllowedAgents { user: "alice".to_owned(), agents });
        let theirs = target(2, "other", TrustRelation::Stranger);
        for purpose in [Purpose::Read, Purpose::Wait] {
            assert_eq!(had(&bound, &theirs, purpose), Ok(()), "{purpose:?}");
        }
        assert!(had(&bound, &theirs, Purpose::Call).is_err());
    }

    #[test]
    fn the_owner_has_every_agent() {
        for relation in [TrustRelation::Own, TrustRelation::Trusted, TrustRelation::Stranger] {
            for purpose in [Purpose::Call, Purpose::Read, Purpose::Wait] {
                let outcome = had(&Asker::Owner, &target(1, "echo", relation), purpose);
                assert_eq!(outcome, Ok(()), "{relation:?} {purpose:?}");
            }
        }
    }

    #[test]
    fn an_agent_has_no_strangers_agent_and_is_told_who_can_change_that() {
        for purpose in [Purpose::Call, Purpose::Read, Purpose::Wait] {
            for relation in [TrustRelation::Own, TrustRelation::Trusted] {
                let outcome = had(&Asker::Agent, &target(1, "echo", relation), purpose);
                assert_eq!(outcome, Ok(()), "{relation:?} {purpose:?}");
            }
        }
        let theirs = target(2, "echo", TrustRelation::Stranger);
        let read = had(&Asker::Agent, &theirs, Purpose::Read);
        assert_eq!(read, Err("\"echo\" is a stranger's, of which agents here are told nothing".to_owned()));
        let called = Asker::Agent.may_have(&theirs, &Callee::near("echo"), Purpose::Call).expect_err("a stranger's");
        assert!(called.message.starts_with("\"echo\" is a stranger's, whom agents here do not ask: "), "{called}");
        let publisher = theirs.agent.publisher().to_string();
        assert!(called.message.contains(&publisher) && !called.message.contains('`'), "{called}");
        assert_eq!(called.remedy, Some(Box::new(CallStep::TrustOwner(publisher).into())));
    }

    #[test]
    fn a_refusal_repeats_what_was_written() {
        let theirs = target(2, "echo", TrustRelation::Stranger);
        let refused = Asker::Agent.may_have(&theirs, &Callee::Id(theirs.agent.clone()), Purpose::Read);
        let refused = refused.expect_err("a stranger's").message;
        assert!(refused.starts_with(&format!("{:?} is", theirs.agent.to_string())), "{refused}");
    }
}
