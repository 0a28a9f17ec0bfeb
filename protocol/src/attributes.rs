//! What travels with calls and answers beside their content: label, session and delegation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::Digest;
use crate::label::Label;
use crate::limits::DELEGATION_BYTES_MAX;

/// A delegation of so many bytes, which no frame carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a delegation has 1 to {DELEGATION_BYTES_MAX} bytes, and this one has {0}; give a shorter one, or none")]
pub struct DelegationError(pub usize);

/// What is said of a call, or of an answer, beside its content.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    /// The label of the data; without one, nothing is said of them.
    pub label: Option<Label>,
    /// The session that it belongs to.
    pub session: Option<Digest>,
    /// By whose authority the caller acts: 1 to [`DELEGATION_BYTES_MAX`] bytes, carried as they are and not read here.
    pub delegation: Option<Vec<u8>>,
}

impl Attributes {
    /// Checks that a frame can carry them.
    ///
    /// # Errors
    /// [`DelegationError`]: the delegation is empty or too long.
    pub fn check(&self) -> Result<(), DelegationError> {
        match self.delegation.as_ref().map(Vec::len) {
            None | Some(1..=DELEGATION_BYTES_MAX) => Ok(()),
            Some(bytes) => Err(DelegationError(bytes)),
        }
    }

    /// Adds what is said of more of the same: labels join, and of sessions and delegations the first one counts.
    pub fn join(&mut self, more: &Attributes) {
        self.label = Label::of_both(self.label, more.label);
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
    /// Adds what is said from now on, as [`Attributes::join`] does. They may be of an answer that is sent, so that what no frame
    /// carries is refused here, and not only where the answer would be lost with it.
    ///
    /// # Errors
    /// [`DelegationError`]; then nothing is added.
    pub fn add(&self, said: &Attributes) -> Result<(), DelegationError> {
        said.check()?;
        if *said != Attributes::default() {
            self.lock().join(said);
        }
        Ok(())
    }

    /// Adds the label of more data, if something is said of them.
    pub fn add_label(&self, label: Option<Label>) {
        if label.is_some() {
            let mut said = self.lock();
            said.label = Label::of_both(said.label, label);
        }
    }

    /// Adds what is said of another answer by now.
    pub fn add_all(&self, other: &AnswerAttributes) {
        if !Arc::ptr_eq(&self.0, &other.0) {
            let said = other.get();
            self.lock().join(&said);
        }
    }

    /// What is said by now.
    #[must_use]
    pub fn get(&self) -> Attributes {
        self.lock().clone()
    }

    /// The label by now.
    #[must_use]
    pub fn label(&self) -> Option<Label> {
        self.lock().label
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

    fn delegated(bytes: Vec<u8>) -> Attributes {
        Attributes { delegation: Some(bytes), ..Attributes::default() }
    }

    #[test]
    fn labels_join_and_the_first_session_and_delegation_count() {
        // P-201, P-202, P-203
        let answer = AnswerAttributes::default();
        let copy = answer.clone();
        answer.add(&Attributes::default()).expect("nothing is said");
        assert_eq!(copy.get(), Attributes::default());
        answer.add_label(None);
        answer.add(&labelled(DataLabel::Confidential, true)).expect("a label");
        answer.add_label(labelled(DataLabel::Public, false).label);
        answer.add(&Attributes { session: Some([1; 32]), ..delegated(vec![1]) }).expect("a short delegation");
        answer.add(&Attributes { session: Some([2; 32]), ..delegated(vec![2]) }).expect("a short delegation");
        let label = Some(Label { level: DataLabel::Confidential, trusted: false });
        let said = Attributes { label, session: Some([1; 32]), delegation: Some(vec![1]) };
        assert_eq!(copy.get(), said);
        assert_eq!(copy, answer);
        assert_eq!(copy.label(), label);
    }

    #[test]
    fn what_is_said_of_one_answer_is_added_to_another_and_never_to_itself() {
        // P-201
        let (one, other) = (AnswerAttributes::default(), AnswerAttributes::default());
        one.add(&Attributes { session: Some([1; 32]), ..labelled(DataLabel::Internal, true) }).expect("no delegation");
        other.add_label(labelled(DataLabel::Restricted, false).label);
        one.add_all(&one.clone());
        other.add_all(&one);
        let both = Attributes { session: Some([1; 32]), ..labelled(DataLabel::Restricted, false) };
        assert_eq!(other.get(), both);
        assert_eq!(one.label(), labelled(DataLabel::Internal, true).label, "nothing goes back");
    }

    #[test]
    fn a_delegation_that_no_frame_carries_is_refused_where_it_is_added() {
        // P-203
        let answer = AnswerAttributes::default();
        for bytes in [0, DELEGATION_BYTES_MAX + 1, 1 << 20] {
            let said = Attributes { delegation: Some(vec![1; bytes]), ..labelled(DataLabel::Restricted, false) };
            assert_eq!(answer.add(&said), Err(DelegationError(bytes)));
            assert_eq!(answer.get(), Attributes::default(), "nothing of it counts");
        }
        for bytes in [DELEGATION_BYTES_MAX, 1] {
            answer.add(&delegated(vec![1; bytes])).expect("it fits");
            assert_eq!(answer.get().delegation.map(|bytes| bytes.len()), Some(DELEGATION_BYTES_MAX), "the first one");
        }
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
