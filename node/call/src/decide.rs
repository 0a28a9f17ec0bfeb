//! Who may reach whom: one decision on the caller's side, one on the receiver's. What is asked, and the answers, are here; who
//! decides is handed in from above.

use std::collections::HashMap;

use althing_communication::{Caller, CallerRule};
use althing_discovery::TrustRelation;
use althing_protocol::{AgentId, Label, PublisherId};
use futures::future::BoxFuture;
use serde_json::Value;

use crate::chain::Principal;
use crate::error::OperationError;
use crate::operation::Operation;
use crate::params::Params;
use crate::target::{Asker, Callee, Purpose, Target, TargetChoice};

/// Decides who may reach whom. What is not allowed is denied, and so is what cannot be decided.
pub trait Decide: Send + Sync {
    /// Whether something may leave this node. Asked before anything is sent.
    fn decide(&self, outgoing: &OutgoingRequest<'_>) -> Judgement;

    /// Whether something that came in is done. Asked before anything of it is read or run.
    fn decide_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement;

    /// Whether something would be done that has not come in yet, as far as others are told beforehand. By contracts where policies
    /// decide too: who then asks hears from [`Decide::decide_incoming`] why it is denied, as any caller does.
    fn foretell_incoming(&self, incoming: &IncomingRequest<'_>) -> Judgement {
        self.decide_incoming(incoming)
    }

    /// How near a publisher is to this node's owner: what a name means, and what is told of an agent, depend on it.
    fn relation(&self, publisher: PublisherId) -> TrustRelation;

    /// The owner of this node and the publishers that it trusts, the owner first.
    fn near(&self) -> Vec<PublisherId>;
}

/// What is about to leave this node.
#[derive(Debug, Clone, Copy)]
pub enum OutgoingRequest<'a> {
    /// Somebody asks for an agent, which was found.
    Target {
        /// Who asks.
        asker: &'a Asker,
        /// What was written, which a refusal repeats.
        callee: &'a Callee,
        /// The agent that it means.
        target: &'a Target,
        /// What for.
        purpose: Purpose,
    },
    /// A message is about to be sent to one of an agent's hosts.
    Message {
        /// Whose host it is.
        agent: &'a AgentId,
        /// The version that the host has, if that is known.
        version: Option<&'a str>,
        /// On whose behalf, the origin first.
        principals: &'a [Principal],
        /// What is said of the data in it.
        label: Option<Label>,
        /// What it says.
        content: Option<MessageContent<'a>>,
    },
    /// An agent's work is about to be given to another agent, wherever that is.
    HandOver {
        /// Who has the work: an agent of this node.
        from: &'a AgentId,
        /// Who is to have it.
        to: &'a AgentId,
        /// What is said of the data in it.
        label: Option<Label>,
    },
    /// An agent was asked for that nobody hosts: it is never allowed, and told why.
    Absent {
        /// What it may have been, the nearest first.
        agents: &'a [AgentId],
        /// Why nobody has it, as far as finding knows.
        why: &'a str,
    },
}

/// What came in.
#[derive(Debug, Clone, Copy)]
pub struct IncomingRequest<'a> {
    /// What it asks for.
    pub service: Service<'a>,
    /// Who proved to send it.
    pub caller: &'a Caller,
    /// On whose behalf, the origin first; empty where no chain is sent.
    pub principals: &'a [Principal],
    /// What is said of the data in it.
    pub label: Option<Label>,
    /// What it says, of a message.
    pub content: Option<MessageContent<'a>>,
}

impl<'a> IncomingRequest<'a> {
    /// One that says nothing but who sends it.
    #[must_use]
    pub fn plain(service: Service<'a>, caller: &'a Caller) -> IncomingRequest<'a> {
        IncomingRequest { service, caller, principals: &[], label: None, content: None }
    }
}

/// What a message says.
#[derive(Debug, Clone, Copy)]
pub struct MessageContent<'a> {
    /// The message itself.
    pub message: &'a a2a::Message,
    /// What its agent is handed beside it.
    pub metadata: Option<&'a HashMap<String, Value>>,
    /// Whether it may be one that was decided on before under the same id: a step of a turn that goes on sends it again, or its own
    /// turn goes on. Never of one whose sender chose the id, who could send it as often as they like.
    pub is_again: bool,
}

impl<'a> MessageContent<'a> {
    /// That of parameters that a sender wrote; none where they are not those of a message.
    #[must_use]
    pub fn of(params: &'a Params) -> Option<MessageContent<'a>> {
        match params {
            Params::Send(request) => Some(MessageContent::of_request(request)),
            _ => None,
        }
    }

    /// The same of a request that sends a message.
    #[must_use]
    pub fn of_request(request: &'a a2a::SendMessageRequest) -> MessageContent<'a> {
        MessageContent { message: &request.message, metadata: request.metadata.as_ref(), is_again: false }
    }

    /// All that its agent is handed, as JSON, without the ids of the message and of where it belongs: who sends the same once more
    /// has other ones. One without JSON is known by its id alone.
    #[must_use]
    pub fn value(&self) -> Value {
        let Ok(Value::Object(mut members)) = serde_json::to_value(self.message) else {
            return Value::from(self.message.message_id.as_str());
        };
        for id in ["messageId", "contextId", "taskId"] {
            members.remove(id);
        }
        let beside = self.metadata.into_iter().flatten().map(|(name, value)| (name.clone(), value.clone()));
        Value::Array(vec![Value::Object(members), Value::Object(beside.collect())])
    }
}

/// What this node is asked for.
#[derive(Debug, Clone, Copy)]
pub enum Service<'a> {
    /// An operation of an agent that is hosted here.
    Call {
        /// The one that is called.
        agent: &'a AgentId,
        /// Whom its file lets call it.
        callers: &'a CallerRule,
        /// What is done with it.
        operation: Operation,
    },
    /// A task of a group, which an agent that is hosted here would do.
    GroupTask {
        /// The one that would do it.
        agent: &'a AgentId,
        /// Whom its file lets call it.
        callers: &'a CallerRule,
        /// Whether another node submitted it, which may have the same owner.
        elsewhere: bool,
    },
    /// Holding resources of this node.
    Reservations,
    /// Spans of a trace: told to the caller, or believed of it.
    Traces,
    /// What this node tells of its agents to those who are at least that near.
    Discovery(TrustRelation),
    /// More requests than a stranger may make.
    Exemption,
}

/// What was decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// It may be done.
    Allow,
    /// It may not, and why.
    Deny(OperationError),
    /// It may, once somebody consents.
    Ask(Consent),
}

/// What somebody must consent to before it is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Consent {
    /// In words for whoever sent the request, and for whoever is to consent.
    pub to: String,
}

impl Decision {
    /// Where nobody can be asked: what needs consent is denied.
    ///
    /// # Errors
    /// Why it is not done.
    pub fn allowed(self) -> Result<(), OperationError> {
        match self {
            Decision::Allow => Ok(()),
            Decision::Deny(why) => Err(why),
            Decision::Ask(Consent { to }) => Err(OperationError::consent_required(to)),
        }
    }
}

impl From<Result<(), OperationError>> for Decision {
    fn from(checked: Result<(), OperationError>) -> Decision {
        checked.map_or_else(Decision::Deny, |()| Decision::Allow)
    }
}

/// A decision that is there, or one that comes. Most are there at once, and cost no future.
pub enum Judgement {
    /// It is there.
    Now(Decision),
    /// It comes, after somebody else was asked. Before it is polled, nobody is asked, and no yes is used.
    Later(BoxFuture<'static, Decision>),
}

impl Judgement {
    /// The decision, as soon as it is there.
    pub async fn decision(self) -> Decision {
        match self {
            Judgement::Now(decision) => decision,
            Judgement::Later(decision) => decision.await,
        }
    }

    /// Whether it is there and allows, for whoever cannot wait.
    #[must_use]
    pub fn allows_at_once(self) -> bool {
        matches!(self, Judgement::Now(Decision::Allow))
    }
}

impl Target {
    fn found(decide: &dyn Decide, agent: AgentId) -> Target {
        Target { relation: decide.relation(agent.publisher()), agent, choice: TargetChoice::default() }
    }

    /// An agent that was found, if it is decided that `asker` may have it for that purpose. `callee` is what was written, which a
    /// refusal repeats.
    ///
    /// # Errors
    /// Why it may not: `CALLER_NOT_ALLOWED` where contracts decide, or whatever else who decides says.
    pub async fn decided(
        decide: &dyn Decide,
        agent: AgentId,
        (asker, callee): (&Asker, &Callee),
        purpose: Purpose,
    ) -> Result<Target, OperationError> {
        let target = Target::found(decide, agent);
        let judgement = decide.decide(&OutgoingRequest::Target { asker, callee, target: &target, purpose });
        judgement.decision().await.allowed()?;
        Ok(target)
    }

    /// Whether it is decided at once that `asker` may have an agent for that purpose.
    #[must_use]
    pub fn is_allowed(decide: &dyn Decide, agent: &AgentId, asker: &Asker, purpose: Purpose) -> bool {
        let target = Target::found(decide, agent.clone());
        let callee = Callee::Id(agent.clone());
        decide.decide(&OutgoingRequest::Target { asker, callee: &callee, target: &target, purpose }).allows_at_once()
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;
    use crate::error::Refusal;

    fn denied() -> OperationError {
        OperationError::agent_unknown("nobody has it")
    }

    fn consent() -> Decision {
        Decision::Ask(Consent { to: "a word to the bank".to_owned() })
    }

    #[test]
    fn what_needs_consent_is_denied_where_nobody_can_be_asked() {
        assert_eq!(Decision::Allow.allowed(), Ok(()));
        assert_eq!(Decision::Deny(denied()).allowed(), Err(denied()));
        let asked = consent().allowed().expect_err("nobody consents");
        assert_eq!(asked.refusal, Refusal::ConsentRequired { to: "a word to the bank".to_owned() });
        assert!(asked.message.ends_with(": a word to the bank"), "{asked}");
        assert_eq!(Decision::from(Ok::<(), OperationError>(())), Decision::Allow);
        assert_eq!(Decision::from(Err::<(), OperationError>(denied())), Decision::Deny(denied()));
    }

    #[test]
    fn what_a_message_says_is_all_that_its_agent_is_handed_but_for_ids() {
        let params = |text: &str, ids: &str, beside: &str| {
            let message = format!(r#"{{"role":"ROLE_USER","parts":[{{"text":"{text}"}}],{ids}}}"#);
            let request = format!(r#"{{"message":{message},"metadata":{beside}}}"#);
            Params::parse(Operation::SendMessage, request.as_bytes()).expect("parameters")
        };
        let said = |params: &Params| MessageContent::of(params).expect("a message").value();
        let first = params("pay", r#""messageId":"1""#, "{}");
        assert_eq!(said(&first), said(&params("pay", r#""messageId":"2","taskId":"t","contextId":"c""#, "{}")));
        for other in [
            params("pay more", r#""messageId":"1""#, "{}"),
            params("pay", r#""messageId":"1""#, r#"{"to":"eve"}"#),
            params("pay", r#""messageId":"1","metadata":{"to":"eve"}"#, "{}"),
            params("pay", r#""messageId":"1","extensions":["https://e"]"#, "{}"),
            params("pay", r#""messageId":"1","referenceTaskIds":["t"]"#, "{}"),
        ] {
            assert_ne!(said(&first), said(&other));
        }
        assert!(MessageContent::of(&Params::Card).is_none());
    }

    #[test]
    fn who_cannot_wait_gets_what_is_allowed_at_once_and_nothing_else() {
        for (decision, allows) in [(Decision::Allow, true), (Decision::Deny(denied()), false), (consent(), false)] {
            assert_eq!(Judgement::Now(decision.clone()).allows_at_once(), allows, "{decision:?}");
            let later = || Judgement::Later(std::future::ready(decision.clone()).boxed());
            assert!(!later().allows_at_once(), "{decision:?}");
            assert_eq!(later().decision().now_or_never(), Some(decision.clone()));
            assert_eq!(Judgement::Now(decision.clone()).decision().now_or_never(), Some(decision));
        }
    }
}
