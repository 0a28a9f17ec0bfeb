//! Decides calls again, and holds what comes of it against what is known of what was decided.

use std::cmp::Reverse;

use althing_execution::tools::{ContractGate, Permission, ToolGate as _};
use althing_policy::{EntityName, Entry, Kind};
use althing_protocol::audit::{AuditLeaf, AuditStage};
use althing_protocol::digest;
use althing_protocol::limits::AUDIT_POLICIES_MAX;

use super::evidence::{CallEntry, Evidence};
use super::findings::{Finding, ReviewFinding, by_contract, compared, differs, gone, short, without_policies};
use super::past::{PastCall, PastTurn};
use crate::decisions::{DecisionRecord, replayed};
use crate::desk::by_policies;
use crate::governance::Governance;
use crate::machine::consent::escaped;
use crate::policies::PolicyRequest;

/// Characters of the name of a tool, which an agent may have made up.
const NAME_CHARS: usize = 200;

/// What came of deciding a call again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReview {
    /// `server/tool`, as people see it.
    pub tool: String,
    /// Whether it holds.
    pub finding: ReviewFinding,
    /// The same in words.
    pub why: String,
}

/// Decides the calls of turns of one task again, the oldest turn first; of each turn in the order of its calls, without those of which
/// nothing was decided.
pub async fn review_calls(governance: &Governance, turns: &[PastTurn<'_>]) -> Vec<Vec<CallReview>> {
    let evidence = Evidence::of(governance, turns).await;
    let of_turn = |turn: &PastTurn<'_>| -> Vec<CallReview> {
        let reviewer = Reviewer { governance, turn, evidence: &evidence };
        let decided = turn.calls.iter().filter(|call| !call.arguments.is_empty());
        decided.map(|call| reviewer.review(call)).collect()
    };
    turns.iter().map(of_turn).collect()
}

/// Decides the calls of one turn again.
struct Reviewer<'a> {
    governance: &'a Governance,
    turn: &'a PastTurn<'a>,
    evidence: &'a Evidence,
}

impl Reviewer<'_> {
    fn review(&self, call: &PastCall<'_>) -> CallReview {
        let (finding, why) = self.finding(call);
        CallReview { tool: escaped(call.tool, NAME_CHARS), finding, why }
    }

    fn finding(&self, call: &PastCall<'_>) -> Finding {
        let permission = self.permission(call);
        let contract = by_contract(permission, call);
        // What the contract denies nothing else is asked about.
        if permission == Some(Permission::Denied) {
            return contract;
        }
        let records = self.records_of(call);
        if records.is_empty() {
            return self.unremembered(call, contract);
        }
        let again = records.iter().map(|(number, record)| self.again((*number, record), permission, &contract));
        let beside = [self.against_outcome(call, &records), self.against_log(call, &records)];
        // The first of those that are worst.
        let worst = again.chain(beside.into_iter().flatten()).min_by_key(|(finding, _)| Reverse(*finding));
        worst.unwrap_or_else(|| contract.clone())
    }

    fn permission(&self, call: &PastCall<'_>) -> Option<Permission> {
        self.turn.contract.map(|contract| ContractGate::of(contract).lists(self.turn.agent, call.tool))
    }

    /// What is remembered of what was decided of a call, the newest first: of like ones that of all of them.
    fn records_of(&self, call: &PastCall<'_>) -> Vec<&(u64, DecisionRecord)> {
        let turn = self.turn;
        let principal = EntityName::new(Kind::Agent, turn.agent.id.to_string()).to_string();
        let is_of = |record: &DecisionRecord| {
            let is_of_turn = record.task == turn.task && (turn.after_ms..=turn.ended_ms).contains(&record.at_ms);
            is_of_turn && record.principal == principal && call.is_subject_of(record)
        };
        self.evidence.records.iter().filter(|(_, record)| is_of(record)).collect()
    }

    /// What the audit log has of a call, or of like ones.
    fn entries_of<'a>(&'a self, call: &'a PastCall<'_>) -> impl Iterator<Item = &'a AuditLeaf> {
        let stage = if call.is_denied() { AuditStage::Denied } else { AuditStage::Intent };
        let trace = self.turn.trace.map(|trace| digest(trace.as_bytes()));
        let window = self.turn.after_ms..=self.turn.ended_ms;
        let is_of = move |entry: &&CallEntry| {
            let CallEntry { leaf, arguments } = entry;
            let is_of_turn = leaf.trace == trace && window.contains(&leaf.at_ms);
            let is_of_call = leaf.action.as_deref() == Some(call.tool) && arguments == call.arguments;
            is_of_turn && is_of_call && leaf.stage == stage
        };
        self.evidence.entries.iter().filter(is_of).map(|entry| &entry.leaf)
    }

    /// Of a call of which no decision is remembered: where no policies were in force its contract decided alone.
    fn unremembered(&self, call: &PastCall<'_>, (finding, why): Finding) -> Finding {
        let entry = self.entries_of(call).next();
        if let Some(set) = entry.and_then(|leaf| leaf.policy) {
            return gone(format!(
                "what was decided of it is not remembered any more; the audit log names the policies {}",
                short(&set)
            ));
        }
        let changed_ms = self.evidence.changed_ms;
        let was_without = entry.is_some() || changed_ms.is_some_and(|changed_ms| changed_ms <= self.turn.ended_ms);
        if was_without && !call.is_denied() {
            return (finding, format!("{why}, and no policies were in force"));
        }
        let fault = self.evidence.fault.as_ref().map(|fault| format!(" ({fault})")).unwrap_or_default();
        gone(format!("what was decided of it is not remembered any more{fault}"))
    }

    /// Decides again as one decision was made.
    fn again(
        &self,
        (number, record): (u64, &DecisionRecord),
        permission: Option<Permission>,
        contract: &Finding,
    ) -> Finding {
        if record.policy_answer.is_none() {
            return without_policies((number, record), permission, contract);
        }
        let policies = self.governance.policies();
        if policies.digest() != record.set {
            let set = record.set.as_ref().map_or_else(|| "none".to_owned(), short);
            return gone(format!("the policies that decided it ({set}) are not in force any more"));
        }
        let Some((request, then)) = replayed(record) else {
            return gone("its arguments are not remembered: they were too long, or erased".to_owned());
        };
        let agent = self.turn.agent;
        let fact = Entry::Agent {
            id: agent.id.to_string(),
            version: agent.version.to_string(),
            publisher: Some(agent.id.publisher().to_string()),
        };
        let request = PolicyRequest { facts: vec![fact], ..request };
        match by_policies(self.governance, &request) {
            Some((_, Some(now))) => compared((number, record), &then, &now),
            Some((_, None)) | None => gone("the policies in force cannot decide about it now".to_owned()),
        }
    }

    /// That a call was made which is remembered as denied, or that not all that was decided of such calls is remembered.
    fn against_outcome(&self, call: &PastCall<'_>, records: &[&(u64, DecisionRecord)]) -> Option<Finding> {
        // Without policies a plain permit is not remembered.
        let has_policies = records.iter().any(|(_, record)| record.policy_answer.is_some());
        if !call.is_made() || !has_policies {
            return None;
        }
        let like: Vec<&PastCall<'_>> = self.turn.calls.iter().filter(|other| call.is_like(other)).collect();
        let permits = records.iter().filter(|(_, record)| record.answer == "permit").count();
        let denial = records.iter().find(|(_, record)| record.answer == "deny");
        match denial {
            Some((number, _)) if permits == 0 && !like.iter().any(|other| other.is_denied()) => {
                Some(differs(format!("it was made, and is remembered as denied (decision {number})")))
            }
            _ => {
                let is_short = permits < like.iter().filter(|other| other.is_made()).count();
                is_short.then(|| gone("not all that was decided of such calls is remembered any more".to_owned()))
            }
        }
    }

    /// That the audit log names other policies of a call than is remembered.
    fn against_log(&self, call: &PastCall<'_>, records: &[&(u64, DecisionRecord)]) -> Option<Finding> {
        let answer = if call.is_denied() { "deny" } else { "permit" };
        let mut ended = records.iter().filter(|(_, record)| record.answer == answer);
        let is_named = |record: &DecisionRecord| {
            let policies = || record.policies.iter().take(AUDIT_POLICIES_MAX);
            self.entries_of(call).any(|leaf| leaf.policy == record.set && leaf.deciding.iter().eq(policies()))
        };
        self.entries_of(call).next()?;
        // One that was decided and not made has no entry.
        let (number, _) = ended.clone().next()?;
        (!ended.any(|(_, record)| is_named(record)))
            .then(|| differs(format!("the audit log names other policies of it than decision {number}")))
    }
}
