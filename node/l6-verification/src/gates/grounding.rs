//! Looks up what an answer cites, for the gate that is a rule of memory.

use althing_execution::GatedTurn;
use althing_execution::agent::Made;
use althing_execution::memory::Memory;

use crate::machine::answer::Answer;
use crate::machine::gates::Opinion;
use crate::machine::grounding::{Sources, citations_artifact, cited, opinion, unread};

/// The gate of one turn whose answers must cite the memory of its agent.
pub(super) struct GroundingGate {
    memory: Memory,
    /// When the turn began, however often it is repaired, milliseconds since 1970.
    begun_ms: u64,
    /// The number of the turn in its task, from 1.
    turn: usize,
}

/// What comes of one answer.
#[derive(Default)]
pub(super) struct Grounds {
    /// What the gate says; none where there is no such gate, or nothing to judge.
    pub opinion: Option<Opinion>,
    /// The citations, which are shown with the answer; none where it cites nothing.
    pub citations: Option<Made>,
}

impl GroundingGate {
    /// The gate of this turn, if its contract asks for it.
    pub fn of(turn: &GatedTurn<'_>) -> Option<GroundingGate> {
        let is_wanted = turn.contract.memory.as_ref().is_some_and(|memory| memory.require_grounding);
        let memory = turn.memory.filter(|_| is_wanted)?.clone();
        Some(GroundingGate { begun_ms: memory.now_ms(), memory, turn: turn.number })
    }

    /// Judges an answer by what is kept now.
    pub async fn judge(&self, answer: &Answer) -> Grounds {
        let mut sources = Sources::new();
        for id in cited(answer) {
            match self.memory.passage(&id).await {
                Ok(Some(passage)) => drop(sources.insert(id, passage)),
                Ok(None) => {}
                Err(error) => {
                    tracing::warn!(%error, "what an answer cites cannot be looked up");
                    return Grounds { opinion: Some(unread()), citations: None };
                }
            }
        }
        Grounds {
            opinion: Some(opinion(answer, &sources, self.begun_ms)),
            citations: citations_artifact(&sources, self.turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use a2a::Part;
    use althing_execution::memory::{Embedder, MEMORY, Memories};
    use althing_protocol::contract;
    use althing_store::MemoryStore;

    use super::*;
    use crate::machine::gates::Word;

    #[tokio::test]
    async fn what_cannot_be_looked_up_is_not_judged_to_be_grounded() {
        let memories = Memories::new(
            Arc::new(MemoryStore::new(&[MEMORY])),
            Arc::new(|| 1),
            Arc::new(|bytes: &mut [u8]| bytes.fill(7)),
            Arc::new(|_: &str| Ok(None)),
        );
        let opened = |agent: &str, shared: &[&str]| {
            let share_with = shared.iter().map(ToString::to_string).collect();
            let terms =
                contract::Memory { namespace: Some("town".to_owned()), share_with, ..contract::Memory::default() };
            memories.open(agent, &terms, Arc::new(Embedder::Words)).expect("opened")
        };
        opened("keeper", &["clerk"]).adopt().await.expect("adopted");
        let gate = GroundingGate { memory: opened("clerk", &[]), begun_ms: 2, turn: 1 };
        let answer = Answer::of_message(&[Part::text("ninety euro [#0123456789ab]")]);
        let word = |grounds: Grounds| grounds.opinion.expect("it must cite").word;
        assert!(matches!(word(gate.judge(&answer).await), Word::Refusal { .. }), "nobody kept that");
        // The owner of the memory shares it no more.
        opened("keeper", &[]).adopt().await.expect("adopted");
        let unread = gate.judge(&answer).await;
        assert_eq!(unread.citations, None);
        assert!(matches!(word(unread), Word::Fault(_)), "it says nothing of the answer");
    }
}
