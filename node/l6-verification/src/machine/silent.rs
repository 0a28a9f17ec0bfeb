//! Failures that nobody is told: a turn that was completed, and yet. Pure.
//!
//! **Input**: what is known of a turn that its agent says is complete, and of those before it. **Output**: findings by name.
//!
//! **Invariants**: nothing is found of a turn that failed, asked, or was meant to say nothing; a finding is about what was done,
//! noted or said, and words of an answer count only where its agent speaks of itself.

use std::collections::{BTreeMap, BTreeSet};

use althing_execution::CallNorm;
use althing_protocol::Digest;

/// Bytes of an answer below which an equal one says nothing: `yes` answers many questions.
pub const SAME_BYTES_MIN: usize = 64;
/// Different questions with one answer that are a finding.
const SAME_QUESTIONS: usize = 3;
/// Answers of one version that are remembered.
const ANSWERS_MAX: usize = 64;
/// Answers after such a finding of which none is made again.
const REST_ANSWERS: u32 = 1_000;
/// Calls of a turn of the cases on average, thousandths: below that few are no finding.
const CASES_MILLI_MIN: u64 = 2_000;
/// Far fewer: less than a quarter.
const FEWER: u64 = 4;
/// What is certain, in millionths.
const CERTAIN: u64 = 1_000_000;
/// How likely so many turns in a row with few calls may be by the cases and be found all the same, millionths.
const CHANCE_MAX: u64 = 100;
/// Turns in a row with few calls beyond which nothing is found: too many cases call few.
const ROW_MAX: u64 = 32;

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
    /// Turn after turn called far fewer tools than the cases.
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

    /// Whether it is found by several turns, and not by one alone: nobody can find it of a turn that has none before it.
    #[must_use]
    pub fn is_of_several_turns(self) -> bool {
        matches!(self, Finding::SameAnswer | Finding::FewTools)
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
    /// Those of them that earlier turns of its task called: it may speak of that.
    pub earlier: &'a [&'a str],
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
    found
}

/// Whether an answer says that something was not done.
fn admits(answer: &str) -> bool {
    const WORDS: &[&str] = &[
        "not",
        "cannot",
        "can't",
        "couldn't",
        "could",
        "didn't",
        "doesn't",
        "wasn't",
        "weren't",
        "isn't",
        "won't",
        "never",
        "unable",
        "unavailable",
        "impossible",
        "unsuccessful",
        "unfortunately",
        "fail",
        "fails",
        "failed",
        "failure",
        "error",
        "denied",
        "declined",
        "refused",
        "rejected",
        "blocked",
        "forbidden",
        "sorry",
    ];
    words(answer).iter().any(|word| WORDS.contains(&word.as_str()))
}

/// Whether the agent says of itself that it did what only a tool does that it may call, and did not.
fn claims_without_call(turn: &Turn<'_>, calls: &[Call<'_>]) -> bool {
    // Most agents have no such tool, and their answers are not read.
    if turn.effects.is_empty() {
        return false;
    }
    let words = words(turn.answer);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let called = || calls.iter().map(|call| call.tool).chain(turn.earlier.iter().copied());
    let was_called = |verb: &str| called().any(|tool| verb_of(tool) == Some(verb));
    let mut uncalled = turn.effects.iter().filter_map(|tool| verb_of(tool)).filter(|verb| !was_called(verb));
    uncalled.any(|verb| pasts(verb).iter().any(|past| claims(&words, verb, past)))
}

/// Whether an agent that says these words says of itself that it did so just now.
fn claims(words: &[&str], verb: &str, past: &str) -> bool {
    // With one of these it speaks of another time, or of what could be.
    const OTHERWISE: [&str; 10] =
        ["yesterday", "earlier", "already", "before", "previously", "ago", "last", "if", "when", "would"];
    const LONG_AGO: [&str; 4] = ["yesterday", "earlier", "previously", "ago"];
    let has = |begins: &[&str]| {
        let length = begins.len() + 1;
        words.windows(length).any(|some| some[..begins.len()] == *begins && some[begins.len()] == past)
    };
    let perfect: [&[&str]; 6] =
        [&["i", "have"], &["i", "have", "just"], &["i", "have", "now"], &["i've"], &["i've", "just"], &["i've", "now"]];
    // What was successfully done some time ago was not done now.
    let is_past_success = words.iter().any(|word| LONG_AGO.contains(word));
    // `I put it there` is said of what one does, too.
    let is_past = past != verb && !words.iter().any(|word| OTHERWISE.contains(word));
    perfect.into_iter().any(has) || (!is_past_success && has(&["successfully"])) || (is_past && has(&["i"]))
}

/// The first word of a tool's name, in small letters only: `order` of `shop/order_item`.
fn verb_of(tool: &str) -> Option<&str> {
    let name = tool.split_once('/')?.1;
    let end = name.find(|letter: char| !letter.is_ascii_lowercase()).unwrap_or(name.len());
    (end > 1).then(|| &name[..end])
}

/// How the participle of an English verb may be written: of those that tools are named by, few are irregular.
fn pasts(verb: &str) -> Vec<String> {
    const IRREGULAR: [(&str, &str); 11] = [
        ("send", "sent"),
        ("buy", "bought"),
        ("pay", "paid"),
        ("sell", "sold"),
        ("write", "written"),
        ("put", "put"),
        ("set", "set"),
        ("make", "made"),
        ("begin", "begun"),
        ("give", "given"),
        ("take", "taken"),
    ];
    if let Some((_, past)) = IRREGULAR.iter().find(|(known, _)| *known == verb) {
        return vec![(*past).to_owned()];
    }
    if verb.ends_with('e') {
        return vec![format!("{verb}d")];
    }
    // `applied`, `ordered`, `shipped`: which of them it is does not matter, as the others are no words.
    let doubled = verb.chars().next_back().map(|last| format!("{verb}{last}ed"));
    let with_i = verb.strip_suffix('y').map(|stem| format!("{stem}ied"));
    [Some(format!("{verb}ed")), doubled, with_i].into_iter().flatten().collect()
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
    /// Answers that are left of which nothing is found, since it was found before.
    rest: u32,
}

impl LastAnswers {
    /// Remembers an answer of at least [`SAME_BYTES_MIN`] bytes to a question; shorter ones say nothing. Finds with the third question
    /// of one answer that it answered different ones. A question that is asked again is the same, and finds nothing.
    ///
    /// Who declines politely answers so too, and any caller can have an agent do that, or repeat a text. So it is found once, and then
    /// not for the next thousand such answers, whatever they are: it begins anew after these. However much anybody asks, less than
    /// one turn in a thousand counts for this beyond the first.
    pub fn add(&mut self, question: Digest, answer: Digest, bytes: usize) -> Option<Finding> {
        if bytes < SAME_BYTES_MIN {
            return None;
        }
        if self.rest > 0 {
            self.rest -= 1;
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
        questions.insert(question);
        if questions.len() < SAME_QUESTIONS {
            return None;
        }
        *self = LastAnswers { rest: REST_ANSWERS, ..LastAnswers::default() };
        Some(Finding::SameAnswer)
    }
}

/// What is few for a version, by its cases: by what its right runs called, as turns and calls of each. None where they call hardly any
/// tool, or where many of them call few: then few calls say nothing.
#[must_use]
pub fn call_norm(runs: &[(u64, u64)]) -> Option<CallNorm> {
    let turns: u64 = runs.iter().map(|(turns, _)| turns).sum();
    let calls: u64 = runs.iter().map(|(_, calls)| calls).sum();
    let average = calls.saturating_mul(1_000).checked_div(turns)?;
    if average < CASES_MILLI_MIN {
        return None;
    }
    let few_below = average.div_ceil(1_000 * FEWER);
    let is_few = |(turns, calls): &&(u64, u64)| *calls < few_below.saturating_mul(*turns);
    let few: u64 = runs.iter().filter(is_few).map(|(turns, _)| turns).sum();
    // As Laplace estimates it: what is in no case may happen.
    let share = (few + 1).saturating_mul(CERTAIN) / (turns + 2);
    let mut chance = CERTAIN;
    for row in 1..=ROW_MAX {
        chance = chance * share / CERTAIN;
        if chance <= CHANCE_MAX {
            return Some(CallNorm { few_below, row });
        }
    }
    None
}

/// How many turns of one version in a row called few tools.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FewCalls(u64);

impl FewCalls {
    /// Counts a turn with so many calls; finds that more turns in a row called few than chance explains. The count begins anew then.
    pub fn add(&mut self, calls: u64, norm: CallNorm) -> Option<Finding> {
        self.0 = if calls < norm.few_below { self.0.saturating_add(1) } else { 0 };
        if self.0 < norm.row {
            return None;
        }
        self.0 = 0;
        Some(Finding::FewTools)
    }
}

#[cfg(test)]
mod tests;
