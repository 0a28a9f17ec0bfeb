//! The audit log in the control API.

use std::sync::Arc;

use althing_api::{
    AUDIT_LIMIT_MAX, AuditBody, AuditDetails, AuditEntry, AuditGateVerdict, AuditList, AuditQuery, AuditWitnessEntry,
    ErasePart, EraseReply, EraseRequest, Kind, PruneReply, PruneRequest,
};
use althing_calls::Principal;
use althing_operations::Operations;
use althing_operations::governance::{
    Actor, AuditFault, AuditFilter, AuditRecord, EraseError, EraseOrder, People, PersonErasure, PruneOrder,
    PruneRefusal, RecordBody, WitnessState, erase_person, signers,
};
use althing_protocol::audit::{AuditLeaf, AuditStage, AuditVerdict, prune_text};
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentId, Digest, IdentityError, PublisherId, digest, hex};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::policies::reach;
use crate::requester::{Requester, actor};

/// Entries that are listed where nobody says how many.
const LIMIT: usize = 100;

/// Signatures of one request: with the owner those who gave them are named in one entry.
const SIGNATURES_MAX: usize = 7;

impl From<PruneRefusal> for ApiError {
    fn from(refusal: PruneRefusal) -> ApiError {
        let kind = match &refusal {
            PruneRefusal::Signature { .. } => Kind::Invalid,
            PruneRefusal::Nobody { .. }
            | PruneRefusal::Role { .. }
            | PruneRefusal::Owner { .. }
            | PruneRefusal::Text { .. }
            | PruneRefusal::Few { .. } => Kind::Refused,
        };
        ApiError::new(kind, format!("nothing is deleted: {refusal}"))
    }
}

impl From<AuditFault> for ApiError {
    fn from(error: AuditFault) -> ApiError {
        ApiError::failed(error.to_string())
    }
}

impl From<EraseError> for ApiError {
    fn from(error: EraseError) -> ApiError {
        ApiError::failed(error.to_string())
    }
}

/// `GET /audit`
pub async fn list(State(node): State<Arc<Operations>>, Parameters(query): Parameters<AuditQuery>) -> Answer<AuditList> {
    let limit = query.limit.unwrap_or(LIMIT).clamp(1, AUDIT_LIMIT_MAX);
    let filter = filter(query, node.identity.owner().id())?;
    detached(async move {
        let audit = node.governance.audit();
        let page = audit.query(&filter, limit).await?;
        let entry = |record: &AuditRecord| audit_entry(Some(record.log), record.index, &record.leaf);
        Ok(Json(AuditList {
            size: audit.checkpoint().head.size,
            key: audit.log_key().to_string(),
            witnesses: node.witnesses.states().into_iter().map(witness).collect(),
            entries: page.records.iter().map(entry).collect(),
            more: page.next.is_some(),
        }))
    })
    .await
}

/// `GET /audit/{log}/{entry}`
pub async fn show(
    State(node): State<Arc<Operations>>,
    Path((log, entry)): Path<(String, String)>,
) -> Answer<AuditDetails> {
    let numbers = log.parse::<u32>().ok().filter(|log| *log > 0).zip(entry.parse::<u64>().ok());
    let wrong = || ApiError::invalid(format!("{log}.{entry} is no number of an entry; one is like 1.17"));
    let (log, entry) = numbers.ok_or_else(wrong)?;
    let audit = node.governance.audit();
    let logs = audit.log_keys()?.len();
    let is_past = entry >= audit.checkpoint().head.size && usize::try_from(log).is_ok_and(|log| log == logs);
    if is_past || usize::try_from(log).is_ok_and(|log| log > logs) {
        return Err(ApiError::new(Kind::NotFound, format!("the audit log has no entry {log}.{entry}")));
    }
    let record = audit.record_at(log, entry)?;
    let export = audit.export(log, entry, true)?;
    let checkpoint = Checkpoint::open(&export.proof.checkpoint, &export.log).ok();
    Ok(Json(AuditDetails {
        entry: audit_entry(Some(log), entry, &record.leaf),
        bodies: record.bodies.into_iter().map(body).collect(),
        witnesses: checkpoint.map(|checkpoint| node.witnesses.signers(&checkpoint)).unwrap_or_default(),
        export: export.to_string(),
    }))
}

/// `POST /audit/erase`
pub async fn erase(
    State(node): State<Arc<Operations>>,
    Requester(principal): Requester,
    Body(EraseRequest { subject }): Body<EraseRequest>,
) -> Answer<EraseReply> {
    let person = owner(&node, &actor(&node, &principal)?)?;
    let subject = erased(&node.governance.people(), subject);
    let principals = vec![person];
    detached(async move {
        let order = EraseOrder { subject: subject.clone(), principals };
        let PersonErasure { bodies, consents, decisions } = erase_person(&node.governance, order).await?;
        let parts = [(bodies, ErasePart::Bodies), (consents, ErasePart::Consents), (decisions, ErasePart::Decisions)];
        let found = parts.into_iter().filter_map(|(is_found, part)| is_found.then_some(part)).collect();
        Ok(Json(EraseReply { subject, found }))
    })
    .await
}

/// `POST /audit/prune`
pub async fn prune(
    State(node): State<Arc<Operations>>,
    Requester(principal): Requester,
    Body(PruneRequest { before_ms, signatures }): Body<PruneRequest>,
) -> Answer<PruneReply> {
    let person = owner(&node, &actor(&node, &principal)?)?;
    let now_ms = node.clock().now_ms();
    if before_ms > now_ms {
        return Err(ApiError::invalid("that time has not come: name one before now"));
    }
    let (agreed, consent) = agreed(&node, before_ms, &signatures)?;
    detached(async move {
        let principals = std::iter::once(person).chain(agreed).collect();
        let order = PruneOrder { before_ms, principals, consent };
        Ok(Json(PruneReply { removed: node.governance.audit().prune(order).await? }))
    })
    .await
}

/// Who agreed by signing that bodies from before a time end, as the file of people wants it, and the digest of what they signed.
fn agreed(node: &Operations, before_ms: u64, signatures: &[String]) -> Result<(Vec<String>, Option<Digest>), ApiError> {
    // Until it can be read nobody knows who must agree.
    if let Some(why) = node.governance.people_fault() {
        let why = format!("nothing is deleted while the file of people cannot be read ({why}): load it again");
        return Err(ApiError::new(Kind::Refused, why));
    }
    let people = node.governance.people();
    let Some(wanted) = people.prune() else {
        return if signatures.is_empty() {
            Ok((Vec::new(), None))
        } else {
            Err(ApiError::invalid("the file of people has nobody sign for this: leave the signatures out"))
        };
    };
    if signatures.len() > SIGNATURES_MAX {
        return Err(ApiError::invalid(format!(
            "{} signatures are given, and {SIGNATURES_MAX} is the most",
            signatures.len()
        )));
    }
    let text = prune_text(&node.governance.audit().log_key(), before_ms, &wanted.role);
    let agreed = signers(&people, wanted, &text, signatures)?;
    Ok((agreed.into_iter().collect(), Some(digest(text.as_bytes()))))
}

/// How a witness stands to the log, as it is told.
fn witness(state: WitnessState) -> AuditWitnessEntry {
    let WitnessState { name, url, signed, failure, contradiction } = state;
    let (silent_ms, why) = failure.unzip();
    let (signed, signed_ms) = signed.unzip();
    AuditWitnessEntry { name, url, signed, signed_ms, silent_ms, problem: contradiction.or(why) }
}

/// The owner's name, if it is the owner who asks.
fn owner(node: &Operations, by: &Actor) -> Result<String, ApiError> {
    match by {
        Actor::Owner => Ok(node.governance.people().owner().to_owned()),
        Actor::Person { name, .. } => {
            let why =
                format!("{name} may not take away what lies beside the audit log: only the owner may, on this machine");
            Err(ApiError::new(Kind::Refused, why))
        }
    }
}

/// Who is meant by a subject: entries name the owner, who calls on this machine, as `local`, and what is kept lies under the name of
/// the person. Nobody else is meant where somebody is known by that name.
fn erased(people: &People, subject: String) -> String {
    let is_owner = subject == Principal::Local.to_string() && !people.is_person(&subject);
    if is_owner { people.owner().to_owned() } else { subject }
}

/// What narrows the list. A name without a publisher is an agent's of the owner, also of one that is gone.
fn filter(query: AuditQuery, owner: PublisherId) -> Result<AuditFilter, ApiError> {
    let AuditQuery { agent, action, person, stage, from, until, limit: _ } = query;
    let read = |agent: String| agent.parse::<AgentId>().or_else(|wrong| AgentId::new(owner, &agent).map_err(|_| wrong));
    let agent = agent.map(read).transpose();
    let stage =
        stage.map(|word| AuditStage::ALL.into_iter().find(|stage| stage.word() == word).ok_or(word)).transpose();
    Ok(AuditFilter {
        agent: agent.map_err(|error: IdentityError| ApiError::invalid(format!("`agent`: {error}")))?,
        stage: stage.map_err(|word| {
            let known: Vec<&str> = AuditStage::ALL.into_iter().map(AuditStage::word).collect();
            ApiError::invalid(format!("{word:?} is nothing that is recorded; that is {}", known.join(", ")))
        })?,
        action,
        person,
        from_ms: from,
        until_ms: until,
        ..AuditFilter::default()
    })
}

/// An entry, as it is told; `log` is which of the node's, where that is known.
#[must_use]
pub fn audit_entry(log: Option<u32>, entry: u64, leaf: &AuditLeaf) -> AuditEntry {
    let digits = |digest: Option<Digest>| digest.map(|digest| hex(&digest));
    AuditEntry {
        log,
        entry,
        at_ms: leaf.at_ms,
        stage: leaf.stage.word().to_owned(),
        principals: leaf.principals.clone(),
        accountable: leaf.accountable.clone(),
        agent: leaf.agent.as_ref().map(ToString::to_string),
        version: leaf.version.clone(),
        contract: digits(leaf.contract),
        binding: digits(leaf.binding),
        action: leaf.action.clone(),
        definition: digits(leaf.definition),
        label: leaf.label.map(reach),
        label_after: leaf.label_after.map(reach),
        policy: digits(leaf.policy),
        deciding: leaf.deciding.clone(),
        question: digits(leaf.consent),
        row: digits(leaf.row),
        trace: digits(leaf.trace),
        outcome: leaf.outcome.map(|outcome| outcome.word().to_owned()),
        verdicts: leaf
            .verdicts
            .iter()
            .map(|AuditVerdict { gate, word }| AuditGateVerdict { gate: gate.clone(), verdict: word.word().to_owned() })
            .collect(),
    }
}

fn body(body: RecordBody) -> AuditBody {
    let (role, text) = match body {
        RecordBody::Whole(body) => (body.role, Some(String::from_utf8_lossy(&body.body).into_owned())),
        RecordBody::Salt { role, .. } | RecordBody::Absent(role) => (role, None),
    };
    AuditBody { role: role.word().to_owned(), text }
}

#[cfg(test)]
mod tests {
    use althing_protocol::audit::AuditWord;

    use super::*;

    #[test]
    fn the_owner_is_erased_by_the_word_that_entries_have_too() {
        let people = People::default();
        assert_eq!(erased(&people, "local".to_owned()), people.owner());
        assert_eq!(erased(&people, "ada".to_owned()), "ada");
    }

    #[test]
    fn what_narrows_a_list_is_read_word_by_word() {
        let query = AuditQuery { stage: Some("intent".to_owned()), from: Some(3), ..AuditQuery::default() };
        let of = PublisherId::from_digest([1; 32]);
        let read = filter(query, of).expect("it is known");
        assert_eq!((read.stage, read.from_ms), (Some(AuditStage::Intent), Some(3)));
        for wrong in [
            AuditQuery { stage: Some("dance".to_owned()), ..AuditQuery::default() },
            AuditQuery { agent: Some("the clerk".to_owned()), ..AuditQuery::default() },
        ] {
            assert_eq!(filter(wrong, of).expect_err("nobody knows it").0.kind, Kind::Invalid);
        }
        let clerk = AgentId::new(of, "clerk").expect("a name");
        for named in ["clerk".to_owned(), clerk.to_string()] {
            let query = AuditQuery { agent: Some(named), ..AuditQuery::default() };
            assert_eq!(filter(query, of).expect("it is known").agent, Some(clerk.clone()));
        }
    }

    #[test]
    fn an_entry_is_told_without_what_was_said() {
        let mut leaf = AuditLeaf::new(AuditStage::Denied, 7);
        leaf.action = Some("shop/order".to_owned());
        leaf.policy = Some([1; 32]);
        let told = audit_entry(None, 4, &leaf);
        assert_eq!((told.entry, told.at_ms, told.stage.as_str()), (4, 7, "denied"));
        assert_eq!(told.policy, Some("01".repeat(32)));

        let mut leaf = AuditLeaf::new(AuditStage::Turn, 8);
        leaf.verdicts = vec![AuditVerdict { gate: "schema".to_owned(), word: AuditWord::Refused }];
        let told = audit_entry(None, 5, &leaf);
        let said = told.verdicts.iter().map(|said| (said.gate.as_str(), said.verdict.as_str()));
        assert_eq!(said.collect::<Vec<_>>(), [("schema", "refused")]);
    }
}
