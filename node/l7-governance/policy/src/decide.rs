//! The decision about one request.

use std::collections::BTreeSet;

use althing_protocol::Label;
use cedar_policy::{AuthorizationError, Context, Decision, Entities, RestrictedExpression};
use serde_json::{Map, Value};

use crate::demand::Demand;
use crate::gate::Gate;
use crate::kind::{EntityName, Kind};
use crate::schema::Tool;
use crate::set::{PolicySet, name_of};
use crate::value;
use crate::world::{Entry, RequestNames, World, label_uid, rank};

/// What is to be decided.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// An agent, a person or a node.
    pub principal: &'a EntityName,
    /// What is to be done.
    pub gate: Gate,
    /// What it is done with.
    pub resource: &'a EntityName,
    /// The real arguments, as they will be sent.
    pub arguments: &'a Map<String, Value>,
    /// Of all that the turn has read, the arguments included.
    pub label: Label,
    /// On whose behalf it is done, where that is known.
    pub person: Option<&'a str>,
    /// What is known of those that it names in this request alone, such as an agent's version, in the place of what the world has of
    /// them.
    pub facts: &'a [Entry],
}

/// What was decided, and by what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of the request.
    pub answer: Answer,
    /// The policies that apply and decided it; none where no permit applies.
    pub policies: BTreeSet<String>,
    /// What could not be evaluated. Where there is one, the answer is Deny.
    pub errors: Vec<EvaluationError>,
}

impl Verdict {
    /// Whether it could not be evaluated with the arguments that there were, so that others may lead to another answer.
    #[must_use]
    pub fn goes_by_arguments(&self) -> bool {
        let is_theirs = |error: &EvaluationError| {
            matches!(error, EvaluationError::Arguments { .. } | EvaluationError::Policy { .. })
        };
        !self.errors.is_empty() && self.errors.iter().all(is_theirs)
    }
}

/// What becomes of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done.
    Permit,
    /// It is done when all of these were given.
    Ask(BTreeSet<Demand>),
    /// It is not done.
    Deny,
}

impl Answer {
    /// `permit`, `ask` or `deny`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Answer::Permit => "permit",
            Answer::Ask(_) => "ask",
            Answer::Deny => "deny",
        }
    }
}

/// Why a request was denied that no policy forbids.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum EvaluationError {
    /// A policy that applies to the request cannot be evaluated on it.
    #[error("policy `{policy}` {why}: correct the policy; until then what it may apply to is denied")]
    Policy {
        /// By its id.
        policy: String,
        /// What happened.
        why: &'static str,
    },
    /// The arguments are not what the tool takes.
    #[error("{why}: call it with arguments that fit its schema")]
    Arguments {
        /// What does not fit, and where.
        why: String,
    },
    /// The policies were read before this tool was bound.
    #[error(
        "the policies in force were not checked against the tool {tool}: bind it again, or load the policies again"
    )]
    Tool {
        /// `SERVER/TOOL`.
        tool: String,
    },
    /// Nothing is known of a part of the request.
    #[error("nothing is known of {name}: add it before it acts or is used")]
    Entity {
        /// As policies write it.
        name: String,
    },
    /// The gate is not for what it was asked about.
    #[error("{gate} cannot be decided for {name}: this is a defect of the node, report it")]
    Gate {
        /// As policies write it.
        gate: &'static str,
        /// As policies write it.
        name: String,
    },
}

impl PolicySet {
    /// Permit, ask or deny. Any error denies.
    ///
    /// A forbid that applies denies. Where permits apply and one of them asks for nothing, it permits; where all of them
    /// ask, it asks for all that they ask for. Where none applies, it denies.
    #[must_use]
    pub fn decide(&self, world: &World, request: &Request<'_>) -> Verdict {
        let act = self.acts().act(&request.principal.id, request.gate, &request.resource.id);
        let Request { principal, resource, person, .. } = *request;
        let names = RequestNames { principal, action: act.map(|act| &act.action), resource, person };
        let decided = world.slice(&names, request.facts, self.literals());
        let decided = decided.map_err(|_| defect(request.gate, principal)).and_then(|slice| {
            let entities = slice.as_ref().unwrap_or(world.entities());
            translated(entities, act, request).map(|request| self.authorize(&request, entities))
        });
        let denied = |error| Verdict { answer: Answer::Deny, policies: BTreeSet::new(), errors: vec![error] };
        decided.unwrap_or_else(denied)
    }

    /// The meaning of the annotations is here, and nowhere else.
    pub(crate) fn authorize(&self, request: &cedar_policy::Request, entities: &Entities) -> Verdict {
        let part = self.part(request, entities);
        let applicable = part.as_deref().unwrap_or(self.cedar());
        let response = self.authorizer().is_authorized(request, applicable, entities);
        let policies: BTreeSet<String> = response.diagnostics().reason().map(name_of).collect();
        let mut errors: Vec<EvaluationError> = response.diagnostics().errors().map(evaluation_error).collect();
        errors.sort();
        let answer = match response.decision() {
            Decision::Allow if errors.is_empty() => self.permits(&policies),
            Decision::Allow | Decision::Deny => Answer::Deny,
        };
        Verdict { answer, policies, errors }
    }

    fn permits(&self, policies: &BTreeSet<String>) -> Answer {
        let mut all = BTreeSet::new();
        for policy in policies {
            match self.demands_of(policy) {
                Some(demands) => all.extend(demands.iter().cloned()),
                None => return Answer::Permit,
            }
        }
        if all.is_empty() { Answer::Permit } else { Answer::Ask(all) }
    }
}

/// The request as Cedar takes it, with `act` as how it is understood.
fn translated(
    entities: &Entities,
    act: Option<&Tool>,
    request: &Request<'_>,
) -> Result<cedar_policy::Request, EvaluationError> {
    let (principal, resource) = (request.principal, request.resource);
    let acts = matches!(principal.kind, Kind::Agent | Kind::Person | Kind::Node);
    let is_for_this = request.gate.resources().contains(&resource.kind);
    if !acts || !is_for_this {
        return Err(defect(request.gate, if acts { resource } else { principal }));
    }
    let uids = (principal.uid(), resource.uid());
    for (name, uid) in [(principal, &uids.0), (resource, &uids.1)] {
        if name.kind.has_members() && entities.get(uid).is_none() {
            return Err(EvaluationError::Entity { name: name.to_string() });
        }
    }
    let act = act.ok_or_else(|| EvaluationError::Tool { tool: resource.id.clone() })?;
    let context = context(act, request)?;
    let request = cedar_policy::Request::new(uids.0, act.action.clone(), uids.1, context, None);
    Ok(request.expect("only a schema refuses a request"))
}

fn defect(gate: Gate, name: &EntityName) -> EvaluationError {
    EvaluationError::Gate { gate: gate.word(), name: name.to_string() }
}

fn context(act: &Tool, request: &Request<'_>) -> Result<Context, EvaluationError> {
    let arguments = |mismatch: value::Mismatch| EvaluationError::Arguments { why: mismatch.to_string() };
    let level = request.label.level;
    let mut pairs = vec![
        ("input".to_owned(), value::input(request.arguments, &act.shape).map_err(arguments)?),
        ("label".to_owned(), RestrictedExpression::new_entity_uid(label_uid(level))),
        ("level".to_owned(), RestrictedExpression::new_long(rank(level))),
        ("trusted".to_owned(), RestrictedExpression::new_bool(request.label.trusted)),
    ];
    if let Some(person) = request.person {
        let person = RestrictedExpression::new_entity_uid(Kind::Person.uid(person));
        pairs.push(("person".to_owned(), person));
    }
    let context = Context::from_pairs(pairs);
    context.map_err(|_| EvaluationError::Arguments { why: "an argument is a number that cannot be read".to_owned() })
}

fn evaluation_error(error: &AuthorizationError) -> EvaluationError {
    let AuthorizationError::PolicyEvaluationError(error) = error;
    EvaluationError::Policy { policy: name_of(error.policy_id()), why: why(error.inner()) }
}

fn why(error: &cedar_policy::EvaluationError) -> &'static str {
    use cedar_policy::EvaluationError as Error;
    match error {
        Error::EntityDoesNotExist(_) => "reads a member of what nothing is known of",
        Error::EntityAttrDoesNotExist(_) | Error::RecordAttrDoesNotExist(_) => {
            "reads a member that is not there (`has` asks whether it is)"
        }
        Error::TypeError(_) => "compares values whose types do not fit",
        Error::IntegerOverflow(_) => "computes a number that is too large",
        Error::FailedExtensionFunctionExecution(_) => "makes a value of a text that is none of its type",
        Error::RecursionLimit(_) => "is nested too deeply",
        _ => "cannot be evaluated",
    }
}
