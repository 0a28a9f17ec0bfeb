//! The questions of governance, for whoever tells people of them.

use std::sync::Arc;

use althing_governance::Governance;
use althing_governance::machine::delivery::OpenQuestion;
use althing_governance::machine::people::People;
use tokio::sync::watch;

use super::delivery::Questions;

/// What waits for people on this node.
pub struct WaitingQuestions(pub Governance);

impl Questions for WaitingQuestions {
    fn open(&self) -> Vec<OpenQuestion> {
        self.0.open_questions()
    }

    fn people(&self) -> Arc<People> {
        self.0.people()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.0.asks_changed()
    }
}
