//! What follows from the words of all gates of a turn. Pure.
//!
//! **Input**: what each gate says of an answer. **Output**: whether it may be shown, and whether its agent may answer again.
//!
//! **Invariants**
//! - One refusal is enough, and what a gate that failed or was late could not judge is held back as if it had refused.
//! - Where a rule refuses, it is a rule that is named: a judge adds refusals and takes none back.

use std::fmt;
use std::time::Duration;

/// Characters of the place of a refusal.
const PLACE_CHARS_MAX: usize = 120;
/// Characters of the reason of a refusal.
const REASON_CHARS_MAX: usize = 400;

/// What one gate says of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Opinion {
    /// The gate: `schema`, `server/tool`, `agents/NAME`.
    pub gate: String,
    /// Who it is.
    pub kind: Kind,
    /// What it says.
    pub word: Word,
}

/// Who a gate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A rule, which says the same of the same answer.
    Rule,
    /// A tool, such as a compiler.
    Tool,
    /// An agent, which may be talked into anything.
    Judge,
}

/// The word of a gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Word {
    /// It may be shown.
    Pass,
    /// It may not.
    Refusal {
        /// Where in the answer; empty for the whole. Its names may be those of the answer.
        place: String,
        /// Where in the contract's rule, as a JSON Pointer; empty if it is one thing.
        rule: String,
        /// Why, in words for a person.
        reason: String,
    },
    /// The gate failed, for that reason.
    Fault(String),
    /// It took longer than that.
    Late(Duration),
}

impl Word {
    /// A refusal of the whole answer.
    #[must_use]
    pub fn refusal(reason: impl Into<String>) -> Word {
        Word::Refusal { place: String::new(), rule: String::new(), reason: reason.into() }
    }

    /// Whether the gate could not judge.
    fn is_fault(&self) -> bool {
        matches!(self, Word::Fault(_) | Word::Late(_))
    }
}

impl Opinion {
    /// What a rule says: it lets pass what it refuses nothing of.
    #[must_use]
    pub fn of_rule(gate: &str, refusal: Option<Word>) -> Opinion {
        Opinion { gate: gate.to_owned(), kind: Kind::Rule, word: refusal.unwrap_or(Word::Pass) }
    }
}

/// What follows from the words of all gates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The answer may be shown.
    Pass,
    /// It may not.
    Refusal(Refusal),
}

/// Why an answer is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Which gate refused, by its words in the contract.
    pub gate: String,
    /// Who it is.
    pub kind: Kind,
    /// Where in the answer; empty for the whole.
    pub place: String,
    /// Where in the contract's rule; empty if it is one thing.
    pub rule: String,
    /// Why, in the gate's words.
    pub reason: String,
    /// Whether the gate could not judge: that says nothing of the answer.
    pub is_fault: bool,
}

/// The verdict of these gates. Of several refusals the one of the most reliable gate is told, and one that judged before one that
/// could not.
#[must_use]
pub fn verdict(opinions: &[Opinion]) -> Verdict {
    let refusals = opinions.iter().filter(|opinion| opinion.word != Word::Pass);
    match refusals.min_by_key(|opinion| (opinion.word.is_fault(), opinion.kind)) {
        Some(opinion) => Verdict::Refusal(Refusal::of(opinion)),
        None => Verdict::Pass,
    }
}

impl Verdict {
    /// The gate that could not judge, where an answer is held back for that alone.
    #[must_use]
    pub fn unjudged(&self) -> Option<&str> {
        match self {
            Verdict::Refusal(Refusal { gate, is_fault: true, .. }) => Some(gate),
            Verdict::Refusal(_) | Verdict::Pass => None,
        }
    }
}

impl Refusal {
    fn of(opinion: &Opinion) -> Refusal {
        let (place, rule, reason) = match &opinion.word {
            Word::Pass => ("", "", "it refused nothing".to_owned()),
            Word::Refusal { place, rule, reason } => (place.as_str(), rule.as_str(), reason.clone()),
            Word::Fault(why) => ("", "", format!("it could not judge: {why}")),
            Word::Late(within) => ("", "", format!("it said nothing within {} ms", within.as_millis())),
        };
        Refusal {
            gate: opinion.gate.clone(),
            kind: opinion.kind,
            place: line(place, PLACE_CHARS_MAX),
            rule: line(rule, PLACE_CHARS_MAX),
            reason: line(&reason, REASON_CHARS_MAX),
            is_fault: opinion.word.is_fault(),
        }
    }

    /// What its agent is told, which may quote its answer.
    #[must_use]
    pub fn to_agent(&self) -> String {
        let place = if self.place.is_empty() { String::new() } else { format!(" at {}", self.place) };
        format!("the gate `{}` says{place}: {}", self.gate, self.reason)
    }

    /// What the sender of a message is told that it refused.
    #[must_use]
    pub fn to_sender(&self) -> String {
        format!("GATE_REFUSED: the gate `{}` did not let the message pass{}", self.gate, self.shown())
    }

    /// A rule speaks of itself; what others say may quote the answer, so that it is for the owner.
    fn shown(&self) -> String {
        match self.kind {
            Kind::Rule if self.rule.is_empty() => format!(": {}", self.reason),
            Kind::Rule => format!(": {} ({} of its schema)", self.reason, self.rule),
            Kind::Tool | Kind::Judge => "; the log of its node says why".to_owned(),
        }
    }
}

/// What callers are told.
impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "GATE_REFUSED: the gate `{}` did not let the answer pass{}", self.gate, self.shown())
    }
}

/// How often an agent may answer again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Repairs {
    /// By its contract.
    pub most: u64,
    /// How often it did.
    pub used: u64,
    /// The time that is left for the turn, if that is limited.
    pub left: Option<Duration>,
    /// How long it took to answer last.
    pub took: Duration,
}

impl Repairs {
    /// Whether it may once more: an answer that would come too late is not waited for.
    #[must_use]
    pub fn has_more(&self) -> bool {
        self.used < self.most && self.left.is_none_or(|left| left > self.took)
    }
}

/// A text on one line without control characters, cut where it is long.
fn line(text: &str, chars_max: usize) -> String {
    let mut rest = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter });
    let mut shown: String = rest.by_ref().take(chars_max).collect();
    if rest.next().is_some() {
        shown.push('…');
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opinion(gate: &str, kind: Kind, word: Word) -> Opinion {
        Opinion { gate: gate.to_owned(), kind, word }
    }

    fn refuses(reason: &str) -> Word {
        let (place, rule) = ("/total".to_owned(), "/properties/total/minimum".to_owned());
        Word::Refusal { place, rule, reason: reason.to_owned() }
    }

    fn refusal(opinions: &[Opinion]) -> Refusal {
        match verdict(opinions) {
            Verdict::Refusal(refusal) => refusal,
            Verdict::Pass => panic!("{opinions:?} let it pass"),
        }
    }

    #[test]
    fn no_judge_takes_back_what_a_rule_refuses() {
        let judge = opinion("agents/judge", Kind::Judge, Word::Pass);
        let schema = opinion("schema", Kind::Rule, refuses("it breaks `minimum`"));
        for order in [[judge.clone(), schema.clone()], [schema.clone(), judge.clone()]] {
            assert_eq!(refusal(&order).gate, "schema");
        }
        // Where both refuse, the rule is told.
        let stern = opinion("agents/judge", Kind::Judge, refuses("it is rude"));
        assert_eq!(refusal(&[stern.clone(), schema]).gate, "schema");
        assert_eq!(refusal(&[opinion("media", Kind::Rule, Word::Pass), stern]).gate, "agents/judge");
        assert_eq!(verdict(&[judge]), Verdict::Pass);
        assert_eq!(verdict(&[]), Verdict::Pass);
    }

    #[test]
    fn a_gate_that_fails_or_is_late_refuses() {
        for (word, why) in [
            (Word::Fault("no such tool".to_owned()), "could not judge: no such tool"),
            (Word::Late(Duration::from_millis(50)), "within 50 ms"),
        ] {
            let refusal = refusal(&[opinion("lint/run", Kind::Tool, word)]);
            assert!(refusal.to_agent().contains(why), "{refusal:?}");
            assert!(!refusal.to_string().contains(why), "{refusal}");
        }
    }

    #[test]
    fn a_gate_that_could_not_judge_is_told_apart_from_one_that_refused() {
        let down = || opinion("lint/run", Kind::Tool, Word::Fault("it is down".to_owned()));
        let late = opinion("schema", Kind::Rule, Word::Late(Duration::from_millis(50)));
        let stern = opinion("agents/judge", Kind::Judge, refuses("it is rude"));
        assert_eq!(verdict(&[down()]).unjudged(), Some("lint/run"));
        assert_eq!(verdict(std::slice::from_ref(&late)).unjudged(), Some("schema"));
        assert_eq!(verdict(std::slice::from_ref(&stern)).unjudged(), None);
        assert_eq!(verdict(&[]).unjudged(), None);
        // Who refused judged, whoever else could not.
        for both in [[down(), stern.clone()], [late, stern]] {
            assert_eq!((verdict(&both).unjudged(), refusal(&both).gate.as_str()), (None, "agents/judge"));
        }
    }

    #[test]
    fn callers_read_words_of_the_contract_alone() {
        let said = refusal(&[opinion("schema", Kind::Rule, refuses("it breaks `minimum`"))]);
        assert_eq!(
            said.to_string(),
            "GATE_REFUSED: the gate `schema` did not let the answer pass: it breaks `minimum` \
             (/properties/total/minimum of its schema)"
        );
        assert_eq!(said.to_agent(), "the gate `schema` says at /total: it breaks `minimum`");
        let quoting = refusal(&[opinion("agents/judge", Kind::Judge, refuses("the answer says \"secret\""))]);
        assert!(!quoting.to_string().contains("secret") && quoting.to_agent().contains("secret"), "{quoting:?}");
        let long = refusal(&[opinion("agents/judge", Kind::Judge, refuses(&"a\n".repeat(10_000)))]);
        assert_eq!(long.reason.chars().count(), REASON_CHARS_MAX + 1);
        assert!(!long.reason.contains('\n'));
    }

    #[test]
    fn it_answers_again_as_often_as_its_contract_says_while_there_is_time() {
        let repairs = |used, left_ms: Option<u64>| Repairs {
            most: 2,
            used,
            left: left_ms.map(Duration::from_millis),
            took: Duration::from_millis(10),
        };
        let cases = [(0, None, true), (1, None, true), (2, None, false), (0, Some(11), true), (0, Some(10), false)];
        for (used, left, may) in cases {
            assert_eq!(repairs(used, left).has_more(), may, "{used} {left:?}");
        }
    }
}
