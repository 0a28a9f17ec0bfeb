//! One question with its answers.

use althing_protocol::audit::{AnswerWord, Ask, CallTerms, answer_text};
use althing_protocol::hex;

use super::error::ConsentError;
use crate::machine::key::PersonSignature;
use crate::machine::people::People;

/// People without a key who are named where too few can sign off.
const NAMES_SHOWN: usize = 8;

/// Who must agree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Need {
    /// The person on whose behalf the turn runs, or who is accountable for the agent.
    Consent {
        /// Who that is.
        person: String,
    },
    /// So many others, who have a role.
    SignOff {
        /// As `people.yaml` names it.
        role: String,
        /// How many of those who have it.
        count: u8,
        /// On whose behalf the turn runs: they do not count.
        but_for: String,
    },
}

impl Need {
    /// The person on whose behalf it is done: whose data it is about.
    #[must_use]
    pub fn person(&self) -> &str {
        match self {
            Need::Consent { person } => person,
            Need::SignOff { but_for, .. } => but_for,
        }
    }
}

/// Who answers, as far as that was proved.
#[derive(Debug, Clone, Copy)]
pub enum Speaker<'a> {
    /// The user of this machine: the owner, without a key.
    Local,
    /// Whoever signed, with what `ssh-keygen -Y sign -n althing-consent` wrote.
    Signature(&'a str),
}

/// An answer that counts, or counted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// Who gave it.
    pub person: String,
    /// What was said.
    pub word: AnswerWord,
    /// When, Unix milliseconds.
    pub at_ms: u64,
    /// Until when it counts, Unix milliseconds.
    pub until_ms: u64,
    /// The fingerprint of the key; none of the local user.
    pub key: Option<String>,
    /// What was signed with it, for whoever wants to check it; none of the local user.
    pub signature: Option<String>,
}

/// How far it came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum QuestionState {
    /// It waits for people.
    Open,
    /// The call may be made once.
    Approved,
    /// It may not.
    Denied(DenialReason),
    /// It was made, or was about to be.
    Used,
}

/// Why it was denied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DenialReason {
    /// Somebody said no.
    Person,
    /// Nobody answered in time, or a yes was not used in time.
    Silence,
    /// The tool is not what it was.
    Changed,
    /// Who asked cannot go on after a restart of the node.
    NotResumable,
    /// The turn in which it was asked is over.
    Withdrawn,
    /// The agent was stopped.
    Stopped,
    /// What it was about was erased.
    Erased,
}

impl DenialReason {
    /// In words, for whoever asked.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            DenialReason::Person => "somebody who was asked said no",
            DenialReason::Silence => "nobody agreed in time, which counts as no",
            DenialReason::Changed => "the tool's definition changed after the question was asked",
            DenialReason::NotResumable => "the node started again, and the agent that asked cannot go on where it was",
            DenialReason::Withdrawn => "the turn in which it was asked is over, so that nobody waits for an answer",
            DenialReason::Stopped => "its agent was stopped by its owner",
            DenialReason::Erased => "what it was about was erased with all that is kept of the person",
        }
    }
}

/// What people are asked before a call is made, with their answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    ask: Ask,
    need: Need,
    is_resumable: bool,
    answers: Vec<Answer>,
    state: QuestionState,
}

impl Question {
    /// A question that somebody can answer.
    ///
    /// # Errors
    /// [`ConsentError::Nobody`] or [`ConsentError::Malformed`].
    pub fn new(ask: Ask, need: Need, is_resumable: bool, people: &People) -> Result<Question, ConsentError> {
        ask.encode().map_err(|error| ConsentError::Malformed(error.to_string()))?;
        match &need {
            Need::Consent { person } if !people.is_person(person) => {
                return Err(ConsentError::Nobody(format!("{person:?} is not in the file of people")));
            }
            Need::SignOff { count: 0, .. } => {
                return Err(ConsentError::Malformed("a sign-off needs at least one person".to_owned()));
            }
            Need::SignOff { role, count, but_for } => {
                let (able, keyless): (Vec<&str>, Vec<&str>) =
                    people.holders(role, but_for).partition(|name| people.can_answer(name));
                if able.len() < usize::from(*count) {
                    return Err(ConsentError::Nobody(shortage((role.as_str(), *count), able.len(), &keyless)));
                }
            }
            Need::Consent { .. } => {}
        }
        Ok(Question { ask, need, is_resumable, answers: Vec::new(), state: QuestionState::Open })
    }

    /// A question as it was before, with its answers.
    pub(super) fn of_row(
        (ask, need, is_resumable): (Ask, Need, bool),
        answers: Vec<Answer>,
        state: QuestionState,
    ) -> Question {
        Question { ask, need, is_resumable, answers, state }
    }

    /// Whether who asked goes on after a restart of the node.
    #[must_use]
    pub fn is_resumable(&self) -> bool {
        self.is_resumable
    }

    /// What is asked.
    #[must_use]
    pub fn ask(&self) -> &Ask {
        &self.ask
    }

    /// Who must agree.
    #[must_use]
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// The answers so far, one of each person.
    #[must_use]
    pub fn answers(&self) -> &[Answer] {
        &self.answers
    }

    /// How far it came.
    #[must_use]
    pub fn state(&self) -> QuestionState {
        self.state
    }

    /// Whether it waits for people, or its yes was not used yet.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        matches!(self.state, QuestionState::Open | QuestionState::Approved)
    }

    /// Whether an answer of that person would count, as far as it goes by who they are.
    #[must_use]
    pub fn is_for(&self, person: &str, people: &People) -> bool {
        self.check_asked(person, people).is_ok()
    }

    /// The role in which people answer; none where they answer for themselves.
    #[must_use]
    pub fn role(&self) -> Option<&str> {
        match &self.need {
            Need::Consent { .. } => None,
            Need::SignOff { role, .. } => Some(role),
        }
    }

    /// The text that an answer signs.
    #[must_use]
    pub fn text(&self, word: AnswerWord, until_ms: u64) -> String {
        answer_text(&self.ask.digest(), word, self.role(), until_ms)
    }

    /// Takes an answer. A second one of a person is not taken.
    ///
    /// # Errors
    /// Why it does not count; the question stays as it was.
    pub(super) fn take_answer(
        &mut self,
        (word, until_ms): (AnswerWord, u64),
        speaker: Speaker<'_>,
        people: &People,
        now_ms: u64,
    ) -> Result<(), ConsentError> {
        self.check_open(now_ms)?;
        if until_ms < now_ms || until_ms > self.ask.not_after_ms {
            return Err(ConsentError::Ended);
        }
        let answer = self.answer_of((word, until_ms), speaker, people, now_ms)?;
        self.check_asked(&answer.person, people)?;
        if self.answers.iter().any(|earlier| earlier.person == answer.person) {
            let (person, why) = (answer.person, "they answered before".to_owned());
            return Err(ConsentError::NotAsked { person, why });
        }
        self.answers.push(answer);
        if word == AnswerWord::Deny {
            self.state = QuestionState::Denied(DenialReason::Person);
        } else if self.missing(people, now_ms).is_none() {
            self.state = QuestionState::Approved;
        }
        Ok(())
    }

    fn answer_of(
        &self,
        (word, until_ms): (AnswerWord, u64),
        speaker: Speaker<'_>,
        people: &People,
        at_ms: u64,
    ) -> Result<Answer, ConsentError> {
        let Speaker::Signature(text) = speaker else {
            let person = people.owner().to_owned();
            return Ok(Answer { person, word, at_ms, until_ms, key: None, signature: None });
        };
        let signature = PersonSignature::read(text)?;
        let key = signature.signer();
        let Some(person) = people.person_with(&key) else { return Err(ConsentError::Stranger(key.to_string())) };
        if !signature.verifies(self.text(word, until_ms).as_bytes()) {
            return Err(ConsentError::Signature);
        }
        let (key, signature) = (Some(key.fingerprint()), Some(text.to_owned()));
        Ok(Answer { person: person.to_owned(), word, at_ms, until_ms, key, signature })
    }

    /// Refuses the answer of somebody who is not asked.
    fn check_asked(&self, person: &str, people: &People) -> Result<(), ConsentError> {
        let about = successor(self.need.person(), people);
        let why = match &self.need {
            Need::Consent { .. } if about == person => return Ok(()),
            Need::Consent { .. } => format!("{about} is asked, on whose behalf the agent works"),
            Need::SignOff { .. } if about == person => {
                "the agent works on their behalf, and others are asked".to_owned()
            }
            Need::SignOff { role, .. } if people.has_role(person, role) => return Ok(()),
            Need::SignOff { role, .. } => format!("they do not have the role {role:?}"),
        };
        Err(ConsentError::NotAsked { person: person.to_owned(), why })
    }

    /// What is missing until it is approved, by the people as they are now.
    fn missing(&self, people: &People, now_ms: u64) -> Option<String> {
        let counts = |answer: &&Answer| {
            answer.word == AnswerWord::Approve
                && now_ms <= answer.until_ms
                && self.check_asked(&answer.person, people).is_ok()
                && match &answer.key {
                    Some(key) => people.has_key(&answer.person, key),
                    None => answer.person == people.owner(),
                }
        };
        let agree = self.answers.iter().filter(counts).count();
        match &self.need {
            Need::Consent { .. } if agree > 0 => None,
            Need::Consent { person } => Some(format!("{} must agree", successor(person, people))),
            Need::SignOff { count, .. } if agree >= usize::from(*count) => None,
            Need::SignOff { role, count, .. } => {
                Some(format!("{count} people in the role {role:?} must agree, and {agree} do"))
            }
        }
    }

    /// Uses the yes for a call.
    ///
    /// # Errors
    /// Why the call may not be made; the question stays as it was.
    pub(super) fn take(&mut self, call: &CallTerms, people: &People, now_ms: u64) -> Result<(), ConsentError> {
        match self.state {
            QuestionState::Approved => {}
            QuestionState::Open => return Err(ConsentError::Waits),
            QuestionState::Used => return Err(ConsentError::Used),
            QuestionState::Denied(reason) => return Err(ConsentError::Over(reason.words().to_owned())),
        }
        if now_ms > self.ask.not_after_ms {
            return Err(ConsentError::Over(DenialReason::Silence.words().to_owned()));
        }
        if let Some(what) = difference(&self.ask.terms, call) {
            return Err(ConsentError::Differs(what));
        }
        if let Some(missing) = self.missing(people, now_ms) {
            return Err(ConsentError::Lapsed(missing));
        }
        self.state = QuestionState::Used;
        Ok(())
    }

    /// Denies it, unless it is over; says whether that changed it.
    pub(super) fn deny(&mut self, reason: DenialReason) -> bool {
        let is_pending = self.is_pending();
        if is_pending {
            self.state = QuestionState::Denied(reason);
        }
        is_pending
    }

    fn check_open(&self, now_ms: u64) -> Result<(), ConsentError> {
        let over = match self.state {
            QuestionState::Open if now_ms <= self.ask.not_after_ms => return Ok(()),
            QuestionState::Open => DenialReason::Silence.words(),
            QuestionState::Approved => "enough people agreed",
            QuestionState::Used => "the call was made",
            QuestionState::Denied(reason) => reason.words(),
        };
        Err(ConsentError::Over(format!("{over} ({})", hex(&self.ask.id))))
    }
}

/// Why too few can sign off, and what is missing.
fn shortage((role, count): (&str, u8), able: usize, keyless: &[&str]) -> String {
    let more = keyless.len().saturating_sub(NAMES_SHOWN);
    let named = keyless.iter().take(NAMES_SHOWN).map(|name| format!("{name:?}")).collect::<Vec<_>>().join(", ");
    let missing = match (keyless.len(), more) {
        (0, _) => "give more people that role, each with a key".to_owned(),
        (_, 0) => format!("no key is there of {named}"),
        (..) => format!("no key is there of {named} and {more} more"),
    };
    format!("{count} people in the role {role:?} must, and {able} of the file of people can: {missing}")
}

/// Who answers where a person was asked: the owner where the file of people names them no more, such as by the name that the
/// owner had before; else nobody could.
fn successor<'a>(person: &'a str, people: &'a People) -> &'a str {
    if people.is_person(person) { person } else { people.owner() }
}

/// What differs between a call that was asked about and one that is to be made.
fn difference(asked: &CallTerms, call: &CallTerms) -> Option<&'static str> {
    let differs = [
        ("the agent", asked.agent != call.agent),
        ("the tool", asked.action != call.action),
        ("the tool's definition", asked.definition != call.definition),
        ("whoever has the tool", asked.server != call.server),
        ("an argument", asked.arguments != call.arguments),
        ("the label of the data", asked.label != call.label),
        ("the policy set", asked.policy != call.policy),
    ];
    let found = differs.into_iter().find_map(|(what, differs)| differs.then_some(what));
    // So that nothing that is added to the terms is forgotten here.
    found.or((asked != call).then_some("the call"))
}
