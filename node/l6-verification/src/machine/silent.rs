//! Failures that nobody is told: a turn that was completed, and yet. Pure.
//!
//! **Input**: what is known of a turn that its agent says is complete, and of those before it. **Output**: findings by name.
//!
//! **Invariants**: nothing is found of a turn that failed, asked, or was meant to say nothing; a finding is about what was done,
//! noted or said, and words of an answer count only where its agent speaks of itself.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::Digest;

/// Bytes of an answer below which an equal one says nothing: `yes` answers many questions.
const SAME_BYTES_MIN: usize = 64;
/// Different questions with one answer that are a finding.
const SAME_QUESTIONS: usize = 3;
/// Answers of one version that are remembered.
const ANSWERS_MAX: usize = 64;
/// Tools that the cases call on average, thousandths: below that few are no finding.
const CASES_MILLI_MIN: u64 = 2_000;
/// Far fewer: less than a quarter.
const FEWER: u64 = 4;

/// A failure that nobody was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Finding {
    /// Nothing was said.
    Silence,
    /// The model stopped in the middle of the answer.
    Cut,
    /// No call that changes something succeeded, and the answer does not say so.
    NothingDone,
    /// The result of a tool is not what the tool says that it is.
    ResultShape,
    /// The answer claims an effect, and there was no call that has it.
    ClaimWithoutCall,
    /// Different questions got the same answer.
    SameAnswer,
    /// Far fewer tools were called than in the cases.
    FewTools,
}

impl Finding {
    /// Its name, as owners read it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Finding::Silence => "said-nothing",
            Finding::Cut => "answer-cut",
            Finding::NothingDone => "no-effect-succeeded",
            Finding::ResultShape => "result-breaks-its-schema",
            Finding::ClaimWithoutCall => "effect-without-call",
            Finding::SameAnswer => "same-answer",
            Finding::FewTools => "few-tools",
        }
    }
}

/// A call of a tool in the turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Call<'a> {
    /// `server/tool`.
    pub tool: &'a str,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Whether it may change something outside.
    pub has_effect: bool,
    /// Whether its result breaks the tool's own schema of results.
    pub breaks_schema: bool,
}

/// What is known of a turn that is complete.
#[derive(Debug, Clone, Copy)]
pub struct Turn<'a> {
    /// What it answered: its texts, and its data as JSON.
    pub answer: &'a str,
    /// Whether it said anything, files too.
    pub says_something: bool,
    /// Whether it may say nothing.
    pub silence_is_meant: bool,
    /// Whether its model stopped in the middle.
    pub is_cut: bool,
    /// Its calls; none where its runtime notes none.
    pub calls: Option<&'a [Call<'a>]>,
    /// The tools with an effect that it may call, as `server/tool`.
    pub effects: &'a [&'a str],
    /// Tools that the cases call on average, thousandths, if there are cases.
    pub cases_milli: Option<u64>,
}

/// What failed in silence in one turn, without those before it.
#[must_use]
pub fn findings(turn: &Turn<'_>) -> BTreeSet<Finding> {
    let mut found = BTreeSet::new();
    let mut find = |is_found: bool, finding: Finding| {
        if is_found {
            found.insert(finding);
        }
    };
    find(!turn.says_something && !turn.silence_is_meant, Finding::Silence);
    find(turn.is_cut, Finding::Cut);
    let Some(calls) = turn.calls else { return found };
    let mut effects = calls.iter().filter(|call| call.has_effect).peekable();
    let had_effects = effects.peek().is_some();
    let none_succeeded = had_effects && !effects.any(|call| call.succeeded);
    find(none_succeeded && turn.says_something && !admits(turn.answer), Finding::NothingDone);
    find(calls.iter().any(|call| call.succeeded && call.breaks_schema), Finding::ResultShape);
    find(claims_without_call(turn, calls), Finding::ClaimWithoutCall);
    let called = u64::try_from(calls.len()).unwrap_or(u64::MAX).saturating_mul(1_000);
    let is_few = |cases: u64| cases >= CASES_MILLI_MIN && called.saturating_mul(FEWER) < cases;
    find(turn.cases_milli.is_some_and(is_few), Finding::FewTools);
    found
}

/// Whether an answer says that something was not done.
fn admits(answer: &str) -> bool {
    const WORDS: [&str; 14] = [
        "not", "cannot", "can't", "couldn't", "could", "didn't", "unable", "fail", "failed", "failure", "error",
        "denied", "refused", "sorry",
    ];
    words(answer).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Whether the agent says of itself that it did what only a tool does that it may call, and did not.
fn claims_without_call(turn: &Turn<'_>, calls: &[Call<'_>]) -> bool {
    let words = words(turn.answer);
    let says = |past: &str| {
        words.windows(3).any(|three| {
            let spoken = [three[0].as_str(), three[1].as_str(), three[2].as_str()];
            spoken == ["i", "have", past] || spoken == ["i", "successfully", past]
        }) || words.windows(2).any(|two| (two[0] == "i've" || two[0] == "successfully") && two[1] == past)
    };
    let was_called = |verb: &str| calls.iter().any(|call| verb_of(call.tool) == Some(verb));
    turn.effects.iter().filter_map(|tool| verb_of(tool)).any(|verb| !was_called(verb) && says(&past(verb)))
}

/// The first word of a tool's name, in small letters only: `order` of `shop/order_item`.
fn verb_of(tool: &str) -> Option<&str> {
    let name = tool.split_once('/')?.1;
    let end = name.find(|letter: char| !letter.is_ascii_lowercase()).unwrap_or(name.len());
    (end > 1).then(|| &name[..end])
}

/// The participle of an English verb: of those that tools are named by, few are irregular.
fn past(verb: &str) -> String {
    const IRREGULAR: [(&str, &str); 12] = [
        ("send", "sent"),
        ("buy", "bought"),
        ("pay", "paid"),
        ("sell", "sold"),
        ("write", "written"),
        ("put", "put"),
        ("set", "set"),
        ("make", "made"),
        ("begin", "begun"),
        ("submit", "submitted"),
        ("cancel", "cancelled"),
        ("transfer", "transferred"),
    ];
    if let Some((_, past)) = IRREGULAR.iter().find(|(known, _)| *known == verb) {
        return (*past).to_owned();
    }
    match verb.strip_suffix('e') {
        Some(stem) => format!("{stem}ed"),
        None => format!("{verb}ed"),
    }
}

/// The words of a text in small letters, with the apostrophes in them.
fn words(text: &str) -> Vec<String> {
    let text = text.replace('’', "'").to_lowercase();
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '\'');
    words.map(|word| word.trim_matches('\'')).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// The last answers of one version, and what they answered.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LastAnswers {
    questions: BTreeMap<Digest, BTreeSet<Digest>>,
    order: Vec<Digest>,
}

impl LastAnswers {
    /// Remembers an answer of that many bytes to a question; finds that it answered different questions before. One that is asked
    /// again is the same.
    pub fn add(&mut self, question: Digest, answer: Digest, bytes: usize) -> Option<Finding> {
        if bytes < SAME_BYTES_MIN {
            return None;
        }
        if !self.questions.contains_key(&answer) {
            if self.order.len() >= ANSWERS_MAX {
                let oldest = self.order.remove(0);
                self.questions.remove(&oldest);
            }
            self.order.push(answer);
        }
        let questions = self.questions.entry(answer).or_default();
        if questions.len() < SAME_QUESTIONS {
            questions.insert(question);
        }
        (questions.len() >= SAME_QUESTIONS).then_some(Finding::SameAnswer)
    }
}

#[cfg(test)]
mod tests;
