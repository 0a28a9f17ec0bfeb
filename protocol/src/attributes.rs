//! What travels with calls and answers beside their content: label, session and delegation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Digest;
use crate::label::Label;

/// What is said of a call, or of an answer, beside its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The label of the data; without one, nothing is said of them.
    pub label: Option<Label>,
    /// The session that it belongs to.
    pub session: Option<Digest>,
    /// By whose authority the caller acts: 1 to [`DELEGATION_BYTES_MAX`](crate::limits::DELEGATION_BYTES_MAX) bytes, carried
    /// as they are and not read here.
    pub delegation: Option<Vec<u8>>,
}

impl Attributes {
    /// Adds what is said of more of the same: labels join, and of sessions and delegations the first one counts.
    pub fn join(&mut self, more: &Attributes) {
        self.label = match (self.label, more.label) {
            (Some(one), Some(other)) => Some(one.join(other)),
            (one, other) => one.or(other),
        };
        self.session = self.session.or(more.session);
        if self.delegation.is_none() {
            self.delegation.clone_from(&more.delegation);
        }
    }

    /// What the next frame of an answer says when those before said `before`: its label, and what is new of the rest.
    #[must_use]
    pub fn after(self, before: &Attributes) -> Attributes {
        Attributes {
            label: self.label,
            session: self.session.filter(|_| before.session.is_none()),
            delegation: self.delegation.filter(|_| before.delegation.is_none()),
        }
    }
}

/// Where whoever answers a request says what is said of the answer so far, which may grow from one event to the next, and where
/// who asked reads it. All copies are one.
#[derive(Debug, Clone, Default)]
pub struct AnswerAttributes(Arc<Mutex<Attributes>>);

impl AnswerAttributes {
    /// Adds what is said from now on, as [`Attributes::join`] does.
    pub fn add(&self, said: &Attributes) {
        if *said != Attributes::default() {
            self.lock().join(said);
        }
    }

    /// What is said by now.
    #[must_use]
    pub fn get(&self) -> Attributes {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Attributes> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for AnswerAttributes {
    fn eq(&self, other: &AnswerAttributes) -> bool {
        self.get() == other.get()
    }
}

impl Eq for AnswerAttributes {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::contract::DataLabel;

    fn labelled(level: DataLabel, trusted: bool) -> Attributes {
        Attributes { label: Some(Label { level, trusted }), ..Attributes::default() }
    }

    #[test]
    fn labels_join_and_the_first_session_and_delegation_count() {
        // P-201, P-202, P-203
        let answer = AnswerAttributes::default();
        let copy = answer.clone();
        answer.add(&Attributes::default());
        assert_eq!(copy.get(), Attributes::default());
        answer.add(&labelled(DataLabel::Confidential, true));
        answer.add(&labelled(DataLabel::Public, false));
        answer.add(&Attributes { session: Some([1; 32]), delegation: Some(vec![1]), ..Attributes::default() });
        answer.add(&Attributes { session: Some([2; 32]), delegation: Some(vec![2]), ..Attributes::default() });
        let label = Some(Label { level: DataLabel::Confidential, trusted: false });
        let said = Attributes { label, session: Some([1; 32]), delegation: Some(vec![1]) };
        assert_eq!(copy.get(), said);
        assert_eq!(copy, answer);
    }

    #[test]
    fn an_answer_repeats_its_label_and_nothing_else() {
        // P-202, P-203
        let one = Attributes { session: Some([1; 32]), ..labelled(DataLabel::Internal, true) };
        let both = Attributes { delegation: Some(vec![1]), ..one.clone() };
        assert_eq!(one.clone().after(&Attributes::default()), one);
        assert_eq!(both.clone().after(&one), Attributes { session: None, ..both.clone() });
        assert_eq!(both.clone().after(&both), labelled(DataLabel::Internal, true));
    }
}
