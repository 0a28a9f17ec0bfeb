//! Why a question is not asked, an answer does not count, or a yes is not used.

use crate::machine::key::KeyError;

/// Why a question is not asked, an answer does not count, or a yes is not used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConsentError {
    /// More wait than one owner can answer.
    #[error("{0} questions wait for people, and that is the most: answer some first")]
    TooMany(usize),
    /// Nobody can answer it.
    #[error("nobody may answer this: {0}")]
    Nobody(String),
    /// A standing yes for whatever an agent does with a tool.
    #[error(
        "no standing yes is given for calls of which every argument is free: it would agree to whatever its agent does with \
         the tool; leave at least one argument as it is, or agree to each call by itself"
    )]
    AllFree,
    /// A standing yes whose free arguments strangers would choose.
    #[error(
        "no standing yes with free arguments is given for data from sources that nobody vouches for, since whoever wrote \
         these could choose the arguments; leave every argument as it is, or agree to each call by itself"
    )]
    FreeUntrusted,
    /// It is not well formed.
    #[error("this cannot be asked: {0}")]
    Malformed(String),
    /// There is no such question, or no longer.
    #[error("no question has this id, or it is forgotten: look at what waits")]
    Unknown,
    /// It is over.
    #[error("this question is over: {0}")]
    Over(String),
    /// A signature that cannot be read.
    #[error("the answer does not count: {0}")]
    Key(#[from] KeyError),
    /// A signature of something else.
    #[error(
        "the answer does not count: the signature is not of this question, answer, role and end; sign the text that belongs to it anew"
    )]
    Signature,
    /// A key of nobody.
    #[error("the answer does not count: {0} is the key of nobody in the file of people")]
    Stranger(String),
    /// Somebody who is not asked.
    #[error("the answer of {person} does not count: {why}")]
    NotAsked {
        /// Who answered.
        person: String,
        /// Who may.
        why: String,
    },
    /// An answer whose end has come, or is too far.
    #[error("the answer does not count: its end has come, or is after that of the question; sign it with a later one")]
    Ended,
    /// The yes is for another call.
    #[error("what was agreed to is another call: {0} differs, so that this one has to be asked about anew")]
    Differs(&'static str),
    /// The yes was used.
    #[error("this yes was used already, and counts once: ask anew")]
    Used,
    /// It is not there yet.
    #[error("nobody agreed to this yet")]
    Waits,
    /// Those who agreed may not any more.
    #[error("those who agreed do not suffice any more: {0}")]
    Lapsed(String),
}
