//! What of rollouts is on record: which version new calls of an agent get from now on, and why.

use std::sync::OnceLock;

use althing_governance::{Governance, OwnerChange, records};
use althing_protocol::{AgentId, AgentRef, Digest, PublisherId};
use althing_store::Batch;
use althing_verification::machine::rollout::{Change, Versions};

use super::divided::AgentRollout;
use crate::error::NodeError;

/// New calls of an agent are another version's.
pub(super) struct Turnover<'a> {
    /// The agent whose calls were divided.
    pub divided: &'a AgentRollout,
    /// What was done, as it is recorded.
    pub what: &'static str,
    /// The version that gets no new calls.
    pub from: Digest,
    /// The one that gets them.
    pub to: Digest,
    /// Why, in words.
    pub why: &'a str,
}

/// Makes the rows that put rollouts on record, for the write that decides them.
pub(super) struct RolloutRecords {
    owner: PublisherId,
    /// Where it is recorded, once the node has that.
    governance: OnceLock<Governance>,
}

impl RolloutRecords {
    pub fn new(owner: PublisherId) -> RolloutRecords {
        RolloutRecords { owner, governance: OnceLock::new() }
    }

    /// From now on it is recorded there.
    pub fn record_to(&self, governance: Governance) {
        // Once, while the node is assembled.
        let _ = self.governance.set(governance);
    }

    /// The rows of what is done only if it can be recorded.
    ///
    /// # Errors
    /// [`NodeError::Unrecorded`].
    pub fn rows(&self, turnover: &Turnover<'_>) -> Result<Batch, NodeError> {
        let Some(governance) = self.governance.get() else { return Ok(Batch::new()) };
        let (agent, before, after) = self.said(turnover);
        let change = OwnerChange { what: turnover.what, agent: agent.as_ref(), before: &before, after: &after };
        Ok(records::change_rows(governance, change)?)
    }

    /// The rows of what is done in any case.
    pub fn rows_in_any_case(&self, turnover: &Turnover<'_>) -> Batch {
        let Some(governance) = self.governance.get() else { return Batch::new() };
        let (agent, before, after) = self.said(turnover);
        let change = OwnerChange { what: turnover.what, agent: agent.as_ref(), before: &before, after: &after };
        records::change_rows_in_any_case(governance, change)
    }

    /// The rows of what the calls of an agent decided: what is worse goes back, whether that can be recorded or not.
    pub fn decided(&self, divided: &AgentRollout, (before, now): (Digest, &Versions), change: Change) -> Batch {
        let tried = now.rollout().map_or(before, |rollout| rollout.plan().to);
        let (what, from, why) = match change {
            Change::Promoted => ("promoting", before, "it is no worse, by its calls".to_owned()),
            Change::WentBack(reason) => ("going back", tried, reason.words()),
            Change::Share(_) | Change::Evidence => return Batch::new(),
        };
        self.rows_in_any_case(&Turnover { divided, what, from, to: now.stable(), why: &why })
    }

    /// The version that has new calls from now on, and what is said of both.
    fn said(&self, turnover: &Turnover<'_>) -> (Option<AgentRef>, String, String) {
        let Turnover { divided, from, to, why, .. } = turnover;
        let (from, to) = (divided.name_of(*from), divided.name_of(*to));
        let id = AgentId::new(self.owner, &divided.name).ok();
        let after = format!("{}: {why}", to.as_deref().unwrap_or("a version that is not here"));
        let agent = id.zip(to).map(|(id, version)| AgentRef { id, version });
        (agent, from.as_deref().unwrap_or_default().to_owned(), after)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn a_turnover_names_both_versions_and_why() {
        let (old, new) = ([1; 32], [2; 32]);
        let names = BTreeMap::from([(old, "1.0.0".into()), (new, "1.1.0".into())]);
        let divided = AgentRollout::new("shop", Versions::new(old), names);
        let records = RolloutRecords::new(PublisherId::from_digest([7; 32]));
        let back = Turnover { divided: &divided, what: "going back", from: new, to: old, why: "it crashed" };
        let (agent, before, after) = records.said(&back);
        assert_eq!(agent.map(|agent| agent.version.to_string()).as_deref(), Some("1.0.0"));
        assert_eq!((before.as_str(), after.as_str()), ("1.1.0", "1.0.0: it crashed"));
        let unknown = Turnover { to: [3; 32], ..back };
        let (agent, _, after) = records.said(&unknown);
        assert!(agent.is_none() && after.starts_with("a version that is not here"), "{after}");
        assert!(records.rows(&unknown).is_ok_and(|rows| rows.is_empty()), "nothing records it yet");
    }
}
