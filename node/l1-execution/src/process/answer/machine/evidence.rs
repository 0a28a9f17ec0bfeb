//! What an answer said so far of its task, and whether a piece of it may be missing. Neither forgets anything.

use super::decoder::{Hint, SkippedItem};

/// Of which task the answer is, by the agent's id of it.
#[derive(Debug)]
pub enum Subject {
    /// Of none that is known.
    Nothing,
    /// The message continues that task; the answer named none.
    Continuation(String),
    /// A message alone named the task, in an answer that did not break off: if the agent knows no such task, that message is
    /// all of the answer.
    Message(String),
    /// The answer named it: only a last state ends it.
    Task(String),
}

/// Whether a piece of the answer may be missing.
#[derive(Debug, Default)]
pub enum Pieces {
    /// None.
    #[default]
    Whole,
    /// The first thing that was passed over, and the most that any of them may have been.
    Gap(SkippedItem),
    /// The same, and a last state was withheld for it since.
    Withheld {
        /// What was passed over.
        gap: SkippedItem,
        /// How often the task was asked for.
        asks: u32,
    },
}

/// What may have been passed over, of all there was.
#[derive(Debug, Default)]
pub struct Losses {
    /// What the agent said with a last state.
    pub word: bool,
    /// Anything else.
    pub more: bool,
}

impl Losses {
    /// Notes what something that was passed over may have been.
    pub fn note(&mut self, hint: Hint) {
        self.word |= matches!(hint, Hint::LastWord | Hint::ArtifactAndWord);
        self.more |= hint != Hint::LastWord;
    }
}

impl Subject {
    /// The task, if it is known.
    pub fn task(&self) -> Option<&str> {
        match self {
            Subject::Nothing => None,
            Subject::Continuation(task) | Subject::Message(task) | Subject::Task(task) => Some(task),
        }
    }

    /// Whether the answer named its task.
    pub fn is_named(&self) -> bool {
        matches!(self, Subject::Message(_) | Subject::Task(_))
    }

    /// From now on a message alone is not all of the answer.
    pub fn expect_more(&mut self) {
        if let Subject::Message(task) = self {
            *self = Subject::Task(std::mem::take(task));
        }
    }
}

impl Pieces {
    /// The first thing that was passed over.
    pub fn gap(&self) -> Option<&SkippedItem> {
        match self {
            Pieces::Whole => None,
            Pieces::Gap(gap) | Pieces::Withheld { gap, .. } => Some(gap),
        }
    }

    /// Something was passed over, and may have been a piece.
    pub fn note_gap(&mut self, item: SkippedItem) {
        match self {
            Pieces::Whole => *self = Pieces::Gap(item),
            Pieces::Gap(gap) | Pieces::Withheld { gap, .. } => gap.hint = gap.hint.max(item.hint),
        }
    }

    /// A last state is withheld for the gap that there is.
    pub fn withhold(&mut self) {
        *self = match std::mem::take(self) {
            Pieces::Gap(gap) => Pieces::Withheld { gap, asks: 0 },
            other => other,
        };
    }
}
