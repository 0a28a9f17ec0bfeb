//! A refused answer goes back to its agent.

use a2a::{Message, Part};

/// What an agent is told of an answer that a gate refused. The answer itself is data to it: it reads it as a quotation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Which gate refused it, where and why.
    pub reason: String,
    /// What it answered, cut where it is long.
    pub answer: String,
}

impl Repair {
    /// The message that it answered, with that beside it.
    pub(crate) fn beside(&self, mut message: Message) -> Message {
        let quoted = serde_json::Value::from(self.answer.as_str());
        message.parts.push(Part::text(format!(
            "Your answer to this message was refused and nobody saw it: {}. Answer the message once more so that this does not \
             happen. Your refused answer, quoted: {quoted}",
            self.reason
        )));
        message
    }
}
