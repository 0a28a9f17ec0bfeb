//! Output gates: what an agent emits in a turn is held back until every gate released it.

use std::fmt;
use std::sync::{Mutex, MutexGuard};

use a2a::Message;
use futures::future::BoxFuture;

use super::error::AgentError;
use super::made::Made;
use super::repair::Repair;

/// Outputs of one turn that are held back, bytes of JSON.
const HELD_BYTES_MAX: usize = 2 << 20;

/// What becomes of an output.
#[derive(Debug, Clone, PartialEq)]
pub enum Hold {
    /// It is shown at once if no other gate keeps it. A part of an answer then follows what is held back before it.
    Pass(Made),
    /// It is held back until the turn has ended.
    Keep(Made),
    /// It is shown to nobody.
    Drop,
}

/// Decides what callers see of the outputs of one turn, and when. It may change what it lets through.
pub trait OutputGate: Send + Sync + 'static {
    /// Decides on the message of a turn, before the agent hears it.
    ///
    /// # Errors
    /// Why it is refused. Its text is shown to the caller.
    fn admit(&self, _message: &Message) -> Result<(), AgentError> {
        Ok(())
    }

    /// Decides on an output when the agent emits it. Decides at once; what takes time is done by [`OutputGate::release`].
    fn hold(&self, made: Made) -> Hold;

    /// Gives what may be shown of all that was held back, after the turn ended well: what the gates before this one released,
    /// in the order in which it was emitted. The turn fails with an error, and then nothing of it is shown.
    ///
    /// # Errors
    /// Why nothing may be shown. Its text is shown to the caller.
    fn release(&self, held: Vec<Made>) -> BoxFuture<'_, Result<Vec<Made>, AgentError>>;

    /// What a caller is told of a turn that failed by itself; nothing that was held back of it is shown.
    fn failure(&self, error: AgentError) -> AgentError {
        error
    }

    /// Whether [`OutputGate::repair`] may ever say something: else nothing is kept for that.
    fn may_repair(&self) -> bool {
        true
    }

    /// What the agent is told of what this gate refused last, if it may answer again in the same turn: asked once after
    /// [`OutputGate::release`] failed.
    fn repair(&self) -> Option<Repair> {
        None
    }
}

/// The gates of one turn, and what they hold back.
pub(super) struct Gates {
    gates: Vec<Box<dyn OutputGate>>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    made: Vec<Made>,
    bytes: usize,
}

impl fmt::Debug for Gates {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Gates").field("number", &self.gates.len()).finish_non_exhaustive()
    }
}

impl Gates {
    /// These gates, in their order.
    pub fn new(gates: Vec<Box<dyn OutputGate>>) -> Gates {
        Gates { gates, queue: Mutex::default() }
    }

    /// Whether the agent may hear the message of a turn.
    pub fn admit(&self, message: &Message) -> Result<(), AgentError> {
        self.gates.iter().try_for_each(|gate| gate.admit(message))
    }

    /// Asks each gate. Gives what is shown at once: what all let pass. What one drops is dropped, also if others keep it.
    pub fn hold(&self, made: Made) -> Result<Option<Made>, AgentError> {
        let (mut made, mut is_kept) = (made, false);
        for gate in &self.gates {
            made = match gate.hold(made) {
                Hold::Pass(made) => made,
                Hold::Keep(made) => {
                    is_kept = true;
                    made
                }
                Hold::Drop => return Ok(None),
            };
        }
        let mut queue = self.queue();
        if !is_kept && (queue.made.is_empty() || !made.is_answer()) {
            return Ok(Some(made));
        }
        queue.bytes = queue.bytes.saturating_add(made.bytes());
        if queue.bytes > HELD_BYTES_MAX {
            return Err(AgentError::Failed(format!("its answer has more than {HELD_BYTES_MAX} bytes")));
        }
        queue.made.push(made);
        Ok(None)
    }

    /// What may be shown of all that was held back.
    pub async fn release(&self) -> Result<Vec<Made>, AgentError> {
        let mut made = std::mem::take(&mut *self.queue()).made;
        for gate in &self.gates {
            made = gate.release(made).await?;
        }
        Ok(made)
    }

    /// What is told of a turn that failed.
    pub fn failure(&self, error: AgentError) -> AgentError {
        self.gates.iter().fold(error, |error, gate| gate.failure(error))
    }

    /// Whether the agent may ever answer again.
    pub fn may_repair(&self) -> bool {
        self.gates.iter().any(|gate| gate.may_repair())
    }

    /// What the agent is told of what was refused, if it may answer again.
    pub fn repair(&self) -> Option<Repair> {
        self.gates.iter().find_map(|gate| gate.repair())
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("no holder of the held outputs panics")
    }
}

#[cfg(test)]
#[path = "../../tests/suite/output_gates/scripted_gate.rs"]
mod scripted_gate;

#[cfg(test)]
mod tests {
    use a2a::{Artifact, Part, Role, TaskState};
    use futures::FutureExt as _;
    use serde_json::json;

    use super::scripted_gate::Scripted;
    use super::*;
    use crate::agent::Metadata;

    /// What a gate keeps, what it drops, and how it signs.
    type Script = (&'static [&'static str], &'static [&'static str], &'static str);

    fn gates(scripts: &[Script]) -> Gates {
        let gate = |&(keeps, drops, sign): &Script| -> Box<dyn OutputGate> {
            Box::new(Scripted { keeps, drops, sign: sign.to_owned() })
        };
        Gates::new(scripts.iter().map(gate).collect())
    }

    fn text(text: &str) -> Made {
        let artifact = Artifact {
            artifact_id: "a".to_owned(),
            name: None,
            description: None,
            parts: vec![Part::text(text)],
            metadata: None,
            extensions: None,
        };
        Made::Artifact { artifact, append: false, last: true }
    }

    fn message(text: &str) -> Message {
        Message::new(Role::Agent, vec![Part::text(text)])
    }

    fn released(gates: &Gates) -> Vec<Made> {
        gates.release().now_or_never().expect("these gates wait for nothing").expect("they refuse nothing")
    }

    #[test]
    fn what_all_gates_let_pass_is_shown_at_once() {
        let gates = gates(&[(&["reply"], &[], "1"), (&["status"], &[], "2")]);
        for made in [text("one"), Made::Status(TaskState::Working, None), Made::Remember("kept".to_owned())] {
            assert_eq!(gates.hold(made.clone()), Ok(Some(made)));
        }
        assert_eq!(gates.hold(Made::Status(TaskState::Completed, None)), Ok(None), "one keeps it");
    }

    #[test]
    fn a_held_answer_keeps_its_metadata_and_its_progress() {
        let gates = gates(&[(&["artifact", "progress"], &[], "end")]);
        let metadata = Metadata::from([("model".to_owned(), json!("small"))]);
        let annotated = text("answer").annotated(Some(metadata));
        let progress = Made::Status(TaskState::Working, Some(message("half of it")));
        for made in [&annotated, &progress] {
            assert_eq!(gates.hold(made.clone()), Ok(None));
        }
        assert_eq!(released(&gates), [annotated, progress, Made::Remember("end".to_owned())]);
    }

    #[test]
    fn no_part_of_an_answer_overtakes_one_that_is_held() {
        let gates = gates(&[(&["artifact"], &[], "end")]);
        let ending = Made::Status(TaskState::Completed, Some(message("that was all")));
        assert_eq!(gates.hold(text("answer")), Ok(None));
        for shown in [Made::Status(TaskState::Working, None), Made::Remember("kept".to_owned())] {
            assert_eq!(gates.hold(shown.clone()), Ok(Some(shown)), "no part of an answer");
        }
        assert_eq!(gates.hold(ending.clone()), Ok(None), "the turn would have ended before its answer");
        assert_eq!(released(&gates), [text("answer"), ending, Made::Remember("end".to_owned())]);
    }

    #[test]
    fn what_one_gate_drops_no_other_shows() {
        let orders: [[Script; 2]; 2] = [
            [(&["progress"], &[], "1"), (&[], &["progress"], "2")],
            [(&[], &["progress"], "1"), (&["progress"], &[], "2")],
        ];
        for order in orders {
            let gates = gates(&order);
            assert_eq!(gates.hold(Made::Status(TaskState::Working, Some(message("a leak")))), Ok(None));
            let signs = ["1", "2"].map(|sign| Made::Remember(sign.to_owned()));
            assert_eq!(released(&gates), signs, "each has the last word on what those before it released");
        }
    }

    #[test]
    fn all_gates_word_a_failure_in_their_order() {
        let gates = gates(&[(&[], &[], "inner"), (&[], &[], "outer")]);
        let told = gates.failure(AgentError::Failed("it broke".to_owned()));
        assert_eq!(told, AgentError::Failed("outer: inner: it broke".to_owned()));
    }

    #[test]
    fn what_was_released_makes_room_for_what_is_made_again() {
        let gates = gates(&[(&["artifact"], &[], "end")]);
        let large = "x".repeat(HELD_BYTES_MAX - 1_000);
        for _ in 0..3 {
            assert_eq!(gates.hold(text(&large)), Ok(None));
            assert_eq!(released(&gates), [text(&large), Made::Remember("end".to_owned())]);
        }
    }

    #[test]
    fn what_is_held_is_bounded_with_its_metadata() {
        let gates = gates(&[(&["artifact"], &[], "end")]);
        let half = "x".repeat(HELD_BYTES_MAX / 2);
        assert_eq!(gates.hold(text(&half)), Ok(None));
        let metadata = Metadata::from([("more".to_owned(), json!(half))]);
        let refused = gates.hold(text("short").annotated(Some(metadata))).expect_err("it is too much");
        assert!(matches!(&refused, AgentError::Failed(why) if why.contains("2097152 bytes")), "{refused}");
    }
}
