//! The context of the turn that runs here, in a task-local, and the trace spans of that turn.

use std::sync::{Arc, Mutex};

use althing_protocol::contract::{DataLabel, Observability};
use althing_protocol::{AnswerAttributes, Attributes, Label};
use tokio::task_local;
use tracing::Span;

use crate::hidden::HiddenTexts;
use crate::journal::{Journal, TurnRights};
use crate::lease::{Lease, Superseded};
use crate::notes::SessionNotes;
use crate::run_notes::RunNotes;

/// The context of one turn.
#[derive(Clone, Default)]
pub(crate) struct CallContext {
    /// The hash of the manifest that the agent was bound to; every span of the turn carries it.
    pub binding_hash: Arc<str>,
    /// The task that it works on.
    pub task: Arc<str>,
    /// W3C `traceparent` of the turn, when it is traced.
    pub trace: Option<Arc<str>>,
    /// The label of the data that the agent works with, by its contract.
    pub label: DataLabel,
    /// Label, session and delegation.
    pub attributes: TurnAttributes,
    /// On whose behalf the turn runs, the origin first.
    pub principals: Arc<[String]>,
    /// What traces may record of it.
    pub observability: Observability,
    /// The lease under which it runs, and its journal.
    pub rights: TurnRights,
    /// The notes of its session.
    pub notes: Option<SessionNotes>,
    /// The texts that its agent is not shown. All copies are one.
    pub hidden: Arc<Mutex<HiddenTexts>>,
    /// What it does, for the record that its task keeps.
    pub run: RunNotes,
    /// Whether a check of its contract calls here, and not its agent.
    pub is_check: bool,
}

/// What is said of the data of a turn beside their content.
#[derive(Clone, Default)]
pub(crate) struct TurnAttributes {
    /// Of what the turn sends: session and delegation of the call that it answers, and the label of all that it was given, as of
    /// the time when this copy was made.
    sent: Arc<Attributes>,
    /// Of its answer. All copies are one.
    answer: AnswerAttributes,
}

impl TurnAttributes {
    /// Those of a turn that answers a call of which that is said, in an answer of which this is said so far.
    pub fn of(call: &Attributes, answer: &AnswerAttributes) -> TurnAttributes {
        TurnAttributes { sent: Arc::new(call.clone()), answer: answer.clone() }
    }

    /// The same, of an agent that works with data of that label: all that it says is at least as confidential.
    pub fn with_own(mut self, label: Label) -> TurnAttributes {
        self.hear(Some(label));
        self.update();
        self
    }

    /// What is said of what the turn sends.
    pub fn sent(&self) -> &Attributes {
        &self.sent
    }

    /// Adds the label of what the turn was given: it comes back with the turn's answer, and goes with what it sends from now on.
    pub fn hear(&self, label: Option<Label>) {
        self.answer.add_label(label);
    }

    /// Adds the label of what is sent with one call, and was not given to the turn.
    pub fn send(&mut self, label: Option<Label>) {
        let sent = Label::of_both(self.sent.label, label);
        if sent != self.sent.label {
            Arc::make_mut(&mut self.sent).label = sent;
        }
    }

    /// Takes up the label of what the turn was given by now.
    fn update(&mut self) {
        self.send(self.answer.label());
    }
}

/// Bytes of a text on a span.
const RECORDED_BYTES_MAX: usize = 4 << 10;

/// A span of the current turn; none where its contract disables traces.
pub(crate) fn span(make: impl FnOnce() -> Span) -> Span {
    if current().observability == Observability::None { Span::none() } else { make() }
}

/// Records content on a span, where the contract allows that.
pub(crate) fn record(span: &Span, field: &str, text: impl FnOnce() -> String) {
    if current().observability == Observability::Content && !span.is_none() {
        let text = text();
        span.record(field, &text[..text.floor_char_boundary(RECORDED_BYTES_MAX)]);
    }
}

task_local! {
    pub(crate) static CALL_CONTEXT: CallContext;
}

/// The context of the turn that runs here; the default outside turns.
pub(crate) fn current() -> CallContext {
    CALL_CONTEXT.try_with(CallContext::clone).unwrap_or_default()
}

/// The same, with the label of what the turn was given by now.
pub(crate) fn now() -> CallContext {
    let mut turn = current();
    turn.attributes.update();
    turn
}

/// On whose behalf the turn that runs here is, the origin first; nobody outside turns.
#[must_use]
pub fn current_principals() -> Arc<[String]> {
    current().principals
}

/// The lease of the turn that runs here; none outside turns, and in those that are for no task of a group.
#[must_use]
pub fn current_lease() -> Option<Lease> {
    current().rights.lease
}

/// The journal of the turn that runs here; none outside turns, and in those that leave no trace.
#[must_use]
pub fn current_journal() -> Option<Arc<dyn Journal>> {
    CALL_CONTEXT.try_with(|turn| turn.rights.journal.clone()).ok().flatten()
}

/// Whether what is called here is called by a check of the contract: the agent did not ask for it.
#[must_use]
pub fn is_check() -> bool {
    CALL_CONTEXT.try_with(|turn| turn.is_check).unwrap_or_default()
}

/// Makes the calls of a check.
pub fn in_check<F: Future>(calls: F) -> impl Future<Output = F::Output> {
    let turn = CallContext { is_check: true, ..current() };
    CALL_CONTEXT.scope(turn, calls)
}

/// Adds the label of what the turn that runs here is given.
pub(crate) fn hear(label: Option<Label>) {
    current().attributes.hear(label);
}

/// Where what the turn that runs here does is noted; outside turns nobody reads that.
pub(crate) fn run_notes() -> RunNotes {
    CALL_CONTEXT.try_with(|turn| turn.run.clone()).unwrap_or_default()
}

/// The label of all that the turn that runs here was given by now, beside the call that it answers.
pub(crate) fn label() -> Option<Label> {
    current().attributes.answer.label()
}

/// The label of whatever the turn that runs here says: that of the call that it answers, and of all that it was given by now. None
/// outside turns.
pub(crate) fn whole_label() -> Option<Label> {
    let TurnAttributes { sent, answer } = current().attributes;
    Label::of_both(sent.label, answer.label())
}

/// The same in words, for a log; empty where nothing is said.
pub(crate) fn written_label() -> String {
    whole_label().map(|label| label.to_string()).unwrap_or_default()
}

/// Whether the turn that runs here may still act.
pub(crate) fn check_lease() -> Result<(), Superseded> {
    current_lease().map_or(Ok(()), |lease| lease.check())
}

/// The hash of the manifest of the turn that runs here; empty outside turns.
pub(crate) fn binding_hash() -> Arc<str> {
    current().binding_hash
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labelled(level: DataLabel, trusted: bool) -> Attributes {
        Attributes { label: Some(Label { level, trusted }), ..Attributes::default() }
    }

    #[tokio::test]
    async fn what_a_turn_is_given_raises_the_label_of_what_it_sends_and_of_its_answer() {
        // P-201
        let call = Attributes { session: Some([1; 32]), ..labelled(DataLabel::Confidential, true) };
        let answer = AnswerAttributes::default();
        let attributes = TurnAttributes::of(&call, &answer);
        let turn = async {
            let before = now();
            assert_eq!(*before.attributes.sent(), call);
            before.attributes.hear(None);
            before.attributes.hear(labelled(DataLabel::Public, false).label);
            assert_eq!(*before.attributes.sent(), call, "as it was when it was sent");
            let after = Attributes { session: Some([1; 32]), ..labelled(DataLabel::Confidential, false) };
            assert_eq!(*now().attributes.sent(), after);
        };
        CALL_CONTEXT.scope(CallContext { attributes, ..CallContext::default() }, turn).await;
        assert_eq!(answer.get(), labelled(DataLabel::Public, false), "the session is the answer's own affair");
        assert_eq!(*now().attributes.sent(), Attributes::default(), "outside turns nothing is said");
    }

    #[tokio::test]
    async fn what_an_agent_says_is_at_least_as_confidential_as_the_data_that_it_works_with() {
        let own = Label::of_trusted(DataLabel::Confidential);
        for (call, all) in [
            (Attributes::default(), labelled(DataLabel::Confidential, true)),
            (labelled(DataLabel::Public, false), labelled(DataLabel::Confidential, false)),
            (labelled(DataLabel::Restricted, true), labelled(DataLabel::Restricted, true)),
        ] {
            let answer = AnswerAttributes::default();
            let attributes = TurnAttributes::of(&call, &answer).with_own(own);
            assert_eq!(*attributes.sent(), all);
            assert_eq!(answer.label(), Some(own), "the rest of it is there from the task");
            let turn = async { (whole_label(), written_label()) };
            let context = CallContext { attributes, ..CallContext::default() };
            let (label, words) = CALL_CONTEXT.scope(context, turn).await;
            assert_eq!(label, all.label);
            assert_eq!(words.ends_with(", not trusted"), all.label.is_some_and(|label| !label.trusted), "{words}");
        }
        assert_eq!((whole_label(), written_label()), (None, String::new()), "outside turns nothing is said");
    }
}
