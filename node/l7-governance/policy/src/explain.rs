//! Why a request was decided as it was.

use cedar_policy::PolicyId;

use crate::decide::{Answer, Request, Verdict};
use crate::demand::Demand;
use crate::finding::Place;
use crate::set::PolicySet;
use crate::world::World;

/// A verdict with the policies behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explanation {
    /// What was decided.
    pub verdict: Verdict,
    /// The policies that decided it, in the order of the text.
    pub reasons: Vec<Reason>,
    /// One sentence that says which rule led there.
    pub rule: &'static str,
}

/// One policy that decided.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reason {
    /// By its `@id`, or `policyN`.
    pub policy: String,
    /// Where it begins.
    pub place: Option<Place>,
    /// As it was written.
    pub text: String,
    /// What it asks for.
    pub demands: Vec<Demand>,
}

/// Decides, and says why.
#[must_use]
pub fn explain(set: &PolicySet, world: &World, request: &Request<'_>) -> Explanation {
    let verdict = set.decide(world, request);
    let reason = |policy: &String| Reason {
        policy: policy.clone(),
        place: set.place_of(policy),
        text: set.cedar().policy(&PolicyId::new(policy)).and_then(cedar_policy::Policy::to_cedar).unwrap_or_default(),
        demands: set.demands_of(policy).into_iter().flatten().cloned().collect(),
    };
    let mut reasons: Vec<Reason> = verdict.policies.iter().map(reason).collect();
    reasons.sort_by_key(|reason| reason.place);
    let rule = rule(&verdict);
    Explanation { verdict, reasons, rule }
}

fn rule(verdict: &Verdict) -> &'static str {
    match &verdict.answer {
        Answer::Permit => "A permit applies that asks for nothing, and no forbid applies.",
        Answer::Ask(_) => "All permits that apply ask, and no forbid applies: all that they ask for is needed.",
        Answer::Deny if !verdict.errors.is_empty() => "It could not be decided, and what cannot be decided is denied.",
        Answer::Deny if verdict.policies.is_empty() => "No permit applies.",
        Answer::Deny => "A forbid applies, whatever permits.",
    }
}
