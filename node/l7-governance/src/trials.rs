//! What policies would say: the cases of a test, and a request that nobody made.

pub use althing_policy::{Answer, EvaluationError, Explanation, Finding, NO_PERMIT, Outcome, Verdict};
use althing_policy::{Case, CasesError, EntityName, Kind, cases, explain, run};
use althing_protocol::near::nearest;
use serde_json::{Map, Value};

use crate::error::ChangeError;
use crate::governance::Governance;

/// Why nothing can be tried.
#[derive(Debug, thiserror::Error)]
pub enum TrialError {
    /// The policies cannot be read, or name too much.
    #[error(transparent)]
    Policies(#[from] ChangeError),
    /// No policies are in force, and none were given.
    #[error("no policies are in force, by which this could be decided: put some in force, or name a file of them")]
    None,
    /// What is asked cannot be read.
    #[error(transparent)]
    Cases(#[from] CasesError),
}

/// Decides the cases of a file by a set of policies, or by that in force.
///
/// # Errors
/// [`TrialError`].
pub fn test_policy(governance: &Governance, text: Option<&str>, file: &Value) -> Result<Vec<Outcome>, TrialError> {
    let draft = governance.policies().read(&text_of(governance, text)?, &governance.people())?;
    Ok(run(&draft.set, &draft.world, &cases(file)?))
}

/// Says how a request would be decided by the policies in force; it has the members of a case.
///
/// # Errors
/// [`TrialError`].
pub fn explain_policy(governance: &Governance, request: Map<String, Value>) -> Result<Explanation, TrialError> {
    let draft = governance.policies().read(&text_of(governance, None)?, &governance.people())?;
    let case = only_case(request)?;
    let request = case.request();
    Ok(explain(&draft.set, &draft.world, &request))
}

/// The name, as policies write it, that may have been meant by one of a request; nothing where that is known, or near to none.
#[must_use]
pub fn near_name(governance: &Governance, written: &str) -> Option<String> {
    let EntityName { kind, id } = EntityName::parse(written)?;
    let known = match kind {
        Kind::Person => governance.people().roles().into_keys().map(str::to_owned).collect(),
        _ => governance.policies().names(kind),
    };
    // Ids of one owner's agents differ in their names alone, which are short beside them.
    let owner = id.rfind(':').filter(|_| kind == Kind::Agent).map_or("", |at| &id[..=at]);
    let names = known.iter().filter_map(|known| known.strip_prefix(owner));
    let near = nearest(&id[owner.len()..], names)?;
    Some(EntityName::new(kind, format!("{owner}{near}")).to_string())
}

fn text_of(governance: &Governance, given: Option<&str>) -> Result<String, TrialError> {
    given.map(str::to_owned).or_else(|| governance.policies().text()).ok_or(TrialError::None)
}

/// The request as a case that expects whatever comes.
pub(crate) fn only_case(mut request: Map<String, Value>) -> Result<Case, TrialError> {
    request.insert("expect".to_owned(), "permit".into());
    let file = Map::from_iter([("cases".to_owned(), Value::from(vec![Value::Object(request)]))]);
    let mut all = cases(&Value::Object(file))?;
    Ok(all.pop().expect("a file of one case has one"))
}

/// What is asked for, in words; nothing where it does not ask.
#[must_use]
pub fn demand_words(verdict: &Verdict) -> Vec<String> {
    match &verdict.answer {
        Answer::Ask(demands) => demands.iter().map(ToString::to_string).collect(),
        Answer::Permit | Answer::Deny => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(request: Value) -> Result<Case, TrialError> {
        let Value::Object(members) = request else { panic!("an object") };
        only_case(members)
    }

    #[test]
    fn a_request_is_a_case_without_an_expectation() {
        let request = json!({ "principal": "Agent::\"a\"", "action": "call", "resource": "Agent::\"b\"" });
        let case = of(request).expect("it is read");
        assert_eq!((case.request().principal.id.as_str(), case.request().resource.id.as_str()), ("a", "b"));
        for wrong in [
            json!({ "action": "call", "resource": "Agent::\"b\"" }),
            json!({ "principal": "Agent::\"a\"", "action": "dance", "resource": "Agent::\"b\"" }),
            json!({ "principal": "Agent::\"a\"", "action": "call", "resource": "Agent::\"b\"", "by": "ada" }),
        ] {
            assert!(matches!(of(wrong), Err(TrialError::Cases(_))));
        }
    }
}
