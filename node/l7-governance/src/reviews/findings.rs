//! Whether what was decided of a call holds. Pure.

use althing_execution::tools::Permission;
use althing_policy::{Answer, EvaluationError, Verdict};
use althing_protocol::{Digest, hex};

use super::past::PastCall;
use crate::decisions::DecisionRecord;

/// Digits of a digest that are told.
const DIGEST_CHARS: usize = 12;

/// Whether what was decided holds; the worst comes last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReviewFinding {
    /// It is decided as it was.
    Holds,
    /// By what it would be decided is not there any more.
    Gone,
    /// It is decided otherwise, or what is remembered of it contradicts what was done or is on record.
    Differs,
}

/// The same with why.
pub(super) type Finding = (ReviewFinding, String);

/// What the contract says of a call.
pub(super) fn by_contract(permission: Option<Permission>, call: &PastCall<'_>) -> Finding {
    match permission {
        None => gone("its contract is not known any more".to_owned()),
        Some(Permission::Allowed) => holds("its contract names it".to_owned()),
        Some(Permission::Ask) => holds("its contract names it and wants somebody's yes".to_owned()),
        Some(Permission::Denied) if call.is_made() => {
            differs("it was made, and its contract does not name it".to_owned())
        }
        Some(Permission::Denied) if call.is_denied() => {
            holds("it was denied, and its contract does not name it".to_owned())
        }
        Some(Permission::Denied) => gone("it failed, and its contract does not name it".to_owned()),
    }
}

/// Of a decision in which policies had no word, of a call that the contract names.
pub(super) fn without_policies(
    (number, record): (u64, &DecisionRecord),
    permission: Option<Permission>,
    contract: &Finding,
) -> Finding {
    match record.rule.as_deref() {
        None => contract.clone(),
        Some("contract") if permission.is_some() => {
            differs(format!("its contract names it, and is remembered to have denied it (decision {number})"))
        }
        Some("contract") => contract.clone(),
        Some("policy") => gone("policies could not decide about it then, and denied it for that".to_owned()),
        Some(rule) => gone(format!("it was denied by another rule (`{rule}`), which is not decided again")),
    }
}

/// What the same policies say now, beside what is remembered that they said then.
pub(super) fn compared((number, record): (u64, &DecisionRecord), then: &Answer, now: &Verdict) -> Finding {
    if now.answer != *then || !now.policies.iter().eq(&record.policies) {
        if let Some(error) = now.errors.iter().find(|error| is_unknown(error)) {
            return gone(format!("what it was about is not known any more: {error}"));
        }
        return differs(format!(
            "then {}, now {} (decision {number}): what is remembered was altered, or what policies read of tools, agents and people is \
             another",
            said(then, &record.policies),
            said(&now.answer, &now.policies)
        ));
    }
    let has_denied = record.rule.as_deref() == Some("policy");
    if (*then == Answer::Deny && record.answer != "deny") || (*then != Answer::Deny && has_denied) {
        let now = said(then, &record.policies);
        return differs(format!("policies say {now}, and {} is remembered (decision {number})", record.answer));
    }
    let rule = record.rule.as_ref().filter(|_| !has_denied);
    let rule = rule.map(|rule| format!("; another rule (`{rule}`) denied it, which is not decided again"));
    holds(format!("again {}, as then{}", said(then, &record.policies), rule.unwrap_or_default()))
}

/// Whether nothing is known of a part of what is asked, so that nobody can say what would be decided.
fn is_unknown(error: &EvaluationError) -> bool {
    matches!(error, EvaluationError::Entity { .. } | EvaluationError::Tool { .. })
}

/// An answer, what it asks for, and the policies that gave it.
fn said<'a>(answer: &Answer, policies: impl IntoIterator<Item = &'a String>) -> String {
    let demands: Vec<String> = match answer {
        Answer::Ask(demands) => demands.iter().map(ToString::to_string).collect(),
        Answer::Permit | Answer::Deny => Vec::new(),
    };
    let by: Vec<&str> = policies.into_iter().map(String::as_str).collect();
    let mut words = answer.word().to_owned();
    for (word, all) in [("for", demands.join(", ")), ("by", by.join(", "))] {
        if !all.is_empty() {
            words += &format!(" {word} {all}");
        }
    }
    words
}

pub(super) fn short(digest: &Digest) -> String {
    hex(digest).chars().take(DIGEST_CHARS).collect()
}

fn holds(why: String) -> Finding {
    (ReviewFinding::Holds, why)
}

pub(super) fn gone(why: String) -> Finding {
    (ReviewFinding::Gone, why)
}

pub(super) fn differs(why: String) -> Finding {
    (ReviewFinding::Differs, why)
}
