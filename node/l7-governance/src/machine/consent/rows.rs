//! The row of a question, as bytes. A row is all that is known of its question, so that each change is one write.

use althing_protocol::audit::{AnswerWord, Ask};
use althing_protocol::cbor;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

use super::question::{Answer, DenialReason, Need, Question, QuestionState};

/// Bytes of a row: 255 signatures of at most 4 KiB each.
pub const QUESTION_ROW_BYTES_MAX: usize = 2 << 20;

/// Why bytes are no row of a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RowError {
    /// They are cut, too long, or something else.
    #[error("the row of a question to people is cut, or is no such row")]
    Form,
    /// They stood at another place.
    #[error("the row of a question to people is that of another question")]
    Foreign,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct QuestionRow {
    #[n(0)]
    ask: ByteVec,
    /// The person who consents; none of a sign-off.
    #[n(1)]
    person: Option<String>,
    #[n(2)]
    sign_off: Option<SignOffRow>,
    #[n(3)]
    resumable: bool,
    #[n(4)]
    answers: Vec<AnswerRow>,
    #[n(5)]
    state: StateWord,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct SignOffRow {
    #[n(0)]
    role: String,
    #[n(1)]
    count: u8,
    #[n(2)]
    but_for: String,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct AnswerRow {
    #[n(0)]
    person: String,
    #[n(1)]
    word: AnswerWord,
    #[n(2)]
    at_ms: u64,
    #[n(3)]
    until_ms: u64,
    #[n(4)]
    key: Option<String>,
    #[n(5)]
    signature: Option<String>,
}

#[derive(Clone, Copy, Encode, Decode)]
#[cbor(index_only)]
enum StateWord {
    #[n(0)]
    Open,
    #[n(1)]
    Approved,
    #[n(2)]
    DeniedByPerson,
    #[n(3)]
    DeniedBySilence,
    #[n(4)]
    DeniedByChange,
    #[n(5)]
    DeniedByRestart,
    #[n(6)]
    Used,
    #[n(7)]
    DeniedByEnd,
    #[n(8)]
    DeniedByStop,
    #[n(9)]
    DeniedByErasure,
}

impl From<QuestionState> for StateWord {
    fn from(state: QuestionState) -> StateWord {
        match state {
            QuestionState::Open => StateWord::Open,
            QuestionState::Approved => StateWord::Approved,
            QuestionState::Denied(DenialReason::Person) => StateWord::DeniedByPerson,
            QuestionState::Denied(DenialReason::Silence) => StateWord::DeniedBySilence,
            QuestionState::Denied(DenialReason::Changed) => StateWord::DeniedByChange,
            QuestionState::Denied(DenialReason::NotResumable) => StateWord::DeniedByRestart,
            QuestionState::Denied(DenialReason::Withdrawn) => StateWord::DeniedByEnd,
            QuestionState::Denied(DenialReason::Stopped) => StateWord::DeniedByStop,
            QuestionState::Denied(DenialReason::Erased) => StateWord::DeniedByErasure,
            QuestionState::Used => StateWord::Used,
        }
    }
}

impl From<StateWord> for QuestionState {
    fn from(word: StateWord) -> QuestionState {
        match word {
            StateWord::Open => QuestionState::Open,
            StateWord::Approved => QuestionState::Approved,
            StateWord::DeniedByPerson => QuestionState::Denied(DenialReason::Person),
            StateWord::DeniedBySilence => QuestionState::Denied(DenialReason::Silence),
            StateWord::DeniedByChange => QuestionState::Denied(DenialReason::Changed),
            StateWord::DeniedByRestart => QuestionState::Denied(DenialReason::NotResumable),
            StateWord::DeniedByEnd => QuestionState::Denied(DenialReason::Withdrawn),
            StateWord::DeniedByStop => QuestionState::Denied(DenialReason::Stopped),
            StateWord::DeniedByErasure => QuestionState::Denied(DenialReason::Erased),
            StateWord::Used => QuestionState::Used,
        }
    }
}

/// The bytes of a question.
#[must_use]
pub fn encode_row(question: &Question) -> Vec<u8> {
    let ask = minicbor::to_vec(question.ask()).expect("writing to a vector cannot fail");
    let (person, sign_off) = match question.need() {
        Need::Consent { person } => (Some(person.clone()), None),
        Need::SignOff { role, count, but_for } => {
            (None, Some(SignOffRow { role: role.clone(), count: *count, but_for: but_for.clone() }))
        }
    };
    let answers = question.answers().iter().map(|answer| AnswerRow {
        person: answer.person.clone(),
        word: answer.word,
        at_ms: answer.at_ms,
        until_ms: answer.until_ms,
        key: answer.key.clone(),
        signature: answer.signature.clone(),
    });
    let row = QuestionRow {
        ask: ask.into(),
        person,
        sign_off,
        resumable: question.is_resumable(),
        answers: answers.collect(),
        state: question.state().into(),
    };
    minicbor::to_vec(row).expect("writing to a vector cannot fail")
}

/// Reads what [`encode_row`] wrote.
///
/// # Errors
/// [`RowError::Form`].
pub fn decode_row(bytes: &[u8]) -> Result<Question, RowError> {
    cbor::check(bytes, QUESTION_ROW_BYTES_MAX).map_err(|_| RowError::Form)?;
    let row: QuestionRow = minicbor::decode(bytes).map_err(|_| RowError::Form)?;
    let ask = Ask::read(&row.ask).map_err(|_| RowError::Form)?;
    let need = match (row.person, row.sign_off) {
        (Some(person), None) => Need::Consent { person },
        (None, Some(SignOffRow { role, count, but_for })) if count > 0 => Need::SignOff { role, count, but_for },
        _ => return Err(RowError::Form),
    };
    let answers = row.answers.into_iter().map(|answer| Answer {
        person: answer.person,
        word: answer.word,
        at_ms: answer.at_ms,
        until_ms: answer.until_ms,
        key: answer.key,
        signature: answer.signature,
    });
    let question = Question::of_row((ask, need, row.resumable), answers.collect(), row.state.into());
    if encode_row(&question) == bytes { Ok(question) } else { Err(RowError::Form) }
}
