//! A verdict as an event of the span of its turn.

use althing_execution::evaluation;
use althing_protocol::contract::Observability;

use crate::machine::gates::{Kind, Refusal, Verdict};

/// The gate that is named where all let an answer pass.
const ALL: &str = "verify";

/// Tells a verdict, as far as the contract lets traces record it: what a check says may quote the answer, which is content.
pub(super) fn tell(verdict: &Verdict, observability: Observability) {
    let (gate, is_passed, why) = match verdict {
        Verdict::Pass => (ALL, true, None),
        Verdict::Refusal(refusal) => (refusal.gate.as_str(), false, explanation(refusal, observability)),
    };
    evaluation::tell(observability, gate, is_passed, why.as_deref());
}

fn explanation(refusal: &Refusal, observability: Observability) -> Option<String> {
    match (refusal.kind, observability) {
        (Kind::Tool | Kind::Judge, Observability::None | Observability::Calls) => None,
        (_, Observability::Content) => Some(refusal.to_agent()),
        // In words of the contract alone.
        (Kind::Rule, _) => Some(refusal.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(kind: Kind) -> Refusal {
        Refusal {
            gate: "lint/run".to_owned(),
            kind,
            place: "/secret".to_owned(),
            rule: String::new(),
            reason: "it has a secret".to_owned(),
            is_fault: false,
        }
    }

    #[test]
    fn what_a_check_says_is_content() {
        let quotes = |kind, observability| {
            let why = explanation(&refusal(kind), observability);
            (why.is_some(), why.is_some_and(|why| why.contains("/secret")))
        };
        assert_eq!(quotes(Kind::Tool, Observability::Calls), (false, false));
        assert_eq!(quotes(Kind::Judge, Observability::Content), (true, true));
        assert_eq!(quotes(Kind::Rule, Observability::Calls), (true, false));
    }
}
