//! Whether people gave what a call needs: a yes that is there is used for it, and what is missing is asked for.
//!
//! The yes of a call that is a step of a journal is used by rows in the batch of its intent. Until these are on disk it is
//! promised to that call: the store says whether they are, and no other call gets it meanwhile. Whoever has the promise and makes no
//! call by it gives it back; that nobody answers for longer, or that others were answered, ends none.

use althing_protocol::Digest;
use althing_protocol::audit::{Ask, CallTerms};
use althing_store::{Batch, Durability};
use serde_json::Value;

use crate::audit::AuditUnavailable;
use crate::config::ASK_LIFE_MS;
use crate::consents::Consents;
use crate::governance::Governance;
use crate::grants::Grant;
use crate::leaves;
use crate::machine::arguments::canonical;
use crate::machine::consent::{AskId, DenialReason, Need, Question, QuestionState, decode_row};
use crate::machine::people::People;
use crate::machine::rules::Wants;

/// Bytes of a batch to which what was agreed to last is added.
const EARLIER_BYTES_MAX: usize = 1 << 20;

/// A call that people are asked about.
pub(crate) struct Case<'a> {
    pub(crate) terms: CallTerms,
    /// The task in whose turn it is made; empty outside of turns.
    pub(crate) task: &'a str,
    pub(crate) version: &'a str,
    /// On whose behalf, the origin first.
    pub(crate) principals: &'a [String],
    /// The person on whose behalf it is made.
    pub(crate) person: String,
    pub(crate) arguments: &'a Value,
    pub(crate) is_journalled: bool,
    /// Whether whoever makes it can wait through a restart of the node.
    pub(crate) is_resumable: bool,
    /// The digest of its id, hexadecimal; none of a call that the journal makes once.
    pub(crate) key: Option<&'a str>,
    /// Whether a yes that was used for that id is still its own.
    pub(crate) is_again: bool,
    /// The policies that decided about it.
    pub(crate) policies: &'a [String],
    /// What it was given where it left this node, of a message that comes in from there.
    pub(crate) passed: &'a [Need],
}

/// Whether people gave it.
pub(crate) enum Consultation {
    /// All of it. The rows belong into the batch of the call's intent; none where it was written already.
    Given { rows: Batch, receipt: Option<[u8; 16]> },
    /// Something waits for them.
    Waits(AskId),
    /// It will not be given, and why.
    Denied(String),
}

enum NeedState {
    Given(AskId),
    Waits(AskId),
    Denied(String),
    Missing,
}

/// Uses what people gave for a call, or asks for what is missing. `leaf` makes the rows of the intent's leaf, with the digest
/// of what was asked.
pub(crate) async fn consult(
    governance: &Governance,
    case: &Case<'_>,
    wants: &Wants,
    leaf: impl FnOnce(Option<Digest>) -> Result<Batch, AuditUnavailable> + Send,
) -> Consultation {
    let _writing = governance.writing().lock().await;
    let (people, now_ms) = (governance.people_now().0, governance.now_ms());
    let mut next = (*governance.book().now()).clone();
    if was_given(&next, case, wants) {
        return Consultation::Given { rows: Batch::new(), receipt: None };
    }
    let has_standing = !wants.consent.is_empty()
        && !case.passed.contains(&Need::Consent { person: case.person.clone() })
        && next.standing.clone().take(&case.person, (&case.terms, case.arguments), &people, now_ms).is_some()
        && !is_answered(governance, &mut next, case, now_ms);
    let (mut given, mut waits, mut missing) = (Vec::new(), Vec::new(), Vec::new());
    for need in needs(case, wants, has_standing).into_iter().filter(|need| !case.passed.contains(need)) {
        let ask = new_ask(governance, &case.terms, now_ms);
        match need_state(governance, &mut next, (case.task, now_ms), &ask, &need) {
            Ok(NeedState::Given(id)) => given.push(id),
            Ok(NeedState::Waits(id)) => waits.push(id),
            Ok(NeedState::Missing) => missing.push((ask, need)),
            Ok(NeedState::Denied(reason)) | Err(reason) => return Consultation::Denied(reason),
        }
    }
    if waits.is_empty() && missing.is_empty() {
        return take(governance, next, (case, wants, has_standing), (given, &*people, now_ms), leaf).await;
    }
    match ask(governance, next, case, (wants, missing, &*people)).await {
        Ok(asked) => Consultation::Waits(waits.into_iter().chain(asked).next().unwrap_or_default()),
        Err(reason) => Consultation::Denied(reason),
    }
}

/// Whether the person answered about this very call: that counts before what they said of its like, a no too.
fn is_answered(governance: &Governance, next: &mut Consents, case: &Case<'_>, now_ms: u64) -> bool {
    let (ask, need) = (new_ask(governance, &case.terms, now_ms), Need::Consent { person: case.person.clone() });
    let state = need_state(governance, next, (case.task, now_ms), &ask, &need);
    matches!(state, Ok(NeedState::Given(_) | NeedState::Denied(_)))
}

/// Whether everything that it needs was given before, and used for this very message.
fn was_given(consents: &Consents, case: &Case<'_>, wants: &Wants) -> bool {
    let Some(key) = case.key.filter(|_| case.is_again) else { return false };
    let needs = needs(case, wants, false);
    !needs.is_empty() && needs.iter().all(|need| consents.was_used_by(key, &case.terms, need))
}

fn new_ask(governance: &Governance, terms: &CallTerms, now_ms: u64) -> Ask {
    let not_after_ms = now_ms.saturating_add(ASK_LIFE_MS);
    Ask { id: governance.ports().entropy.bytes(), asked_at_ms: now_ms, not_after_ms, terms: terms.clone() }
}

/// How far it is with one need of a call.
fn need_state(
    governance: &Governance,
    next: &mut Consents,
    (task, now_ms): (&str, u64),
    ask: &Ask,
    need: &Need,
) -> Result<NeedState, String> {
    loop {
        let found = next.of_task(task, ask, need, |id| is_promised(governance, id));
        let Some(question) = found else { return Ok(NeedState::Missing) };
        let (id, state, end_ms) = (question.ask().id, question.state(), question.ask().not_after_ms);
        let over = |reason: DenialReason| Ok(NeedState::Denied(reason.words().to_owned()));
        match state {
            QuestionState::Open if now_ms <= end_ms => return Ok(NeedState::Waits(id)),
            QuestionState::Open => return over(DenialReason::Silence),
            QuestionState::Denied(reason) => {
                let said = next.details.get(&id).and_then(|details| details.denial.clone());
                let words = reason.words();
                return Ok(NeedState::Denied(said.map_or(words.to_owned(), |said| format!("{words}: {said}"))));
            }
            QuestionState::Approved => match stored(governance, &id)? {
                Some(stored) if stored.state() == QuestionState::Used => next.asks.replace(stored),
                _ => return Ok(NeedState::Given(id)),
            },
            QuestionState::Used => return Ok(NeedState::Missing),
        }
    }
}

/// Asks for what is missing; gives the questions.
async fn ask(
    governance: &Governance,
    mut next: Consents,
    case: &Case<'_>,
    (wants, missing, people): (&Wants, Vec<(Ask, Need)>, &People),
) -> Result<Vec<AskId>, String> {
    let (mut batch, mut asked) = (Batch::new(), Vec::new());
    for (ask, need) in missing {
        let reasons = reasons(&need, wants, case.policies);
        let opened = next.asks.open(ask.clone(), need, case.is_resumable, people);
        let id = opened.map_err(|error| error.to_string())?;
        let details = next.details.entry(id).or_default();
        details.tasks.insert(case.task.to_owned());
        if id == ask.id {
            details.arguments = canonical(case.arguments);
            details.reasons = reasons;
            case.version.clone_into(&mut details.version);
            details.principals = case.principals.to_vec();
            let leaf = governance.audit().entry(leaves::asked(&ask, details, &case.person));
            batch.append(leaf.map_err(|error| unavailable(&error))?);
        }
        next.put(&id, &mut batch);
        asked.push(id);
    }
    if !batch.is_empty() {
        governance.write(batch, Durability::Synced).await.map_err(|error| error.to_string())?;
        governance.book().publish(next);
    }
    Ok(asked)
}

/// Why that is needed. Only policies have somebody sign off.
fn reasons(need: &Need, wants: &Wants, policies: &[String]) -> Vec<String> {
    match need {
        Need::Consent { .. } => wants.consent.clone(),
        Need::SignOff { .. } if policies.is_empty() => vec!["the owner's policies want it".to_owned()],
        Need::SignOff { .. } => vec![format!("the owner's policies want it ({})", policies.join(", "))],
    }
}

/// Uses what was given.
async fn take(
    governance: &Governance,
    mut next: Consents,
    (case, wants, has_standing): (&Case<'_>, &Wants, bool),
    (given, people, now_ms): (Vec<AskId>, &People, u64),
    leaf: impl FnOnce(Option<Digest>) -> Result<Batch, AuditUnavailable> + Send,
) -> Consultation {
    let before = governance.book().now();
    let (mut rows, mut of_standing) = (Batch::new(), Batch::new());
    let mut consent = None;
    for id in &given {
        if let Err(error) = next.asks.take(id, &case.terms, people, now_ms) {
            return Consultation::Denied(error.to_string());
        }
        consent = consent.or_else(|| next.asks.get(id).map(|question| question.ask().digest()));
        if case.is_journalled {
            // Without its arguments: rows that come to the disk late bring none back that were erased meanwhile.
            next.put_question(id, &mut rows);
        } else {
            if let Some(details) = next.details.get_mut(id) {
                details.used_by = case.key.map(str::to_owned);
            }
            next.put(id, &mut rows);
            next.note_earlier(id, &mut rows);
        }
    }
    if has_standing {
        let call = (&case.terms, case.arguments);
        let Some(id) = next.standing.take(&case.person, call, people, now_ms) else {
            return Consultation::Denied("the standing yes ended just now".to_owned());
        };
        consent = consent.or_else(|| next.standing.get(&id)?.consent);
        next.put_standing(&id, &mut of_standing);
    }
    if let Some(key) = case.key {
        let is_standing = |need: &Need| has_standing && matches!(need, Need::Consent { .. });
        for need in needs(case, wants, false).iter().filter(|need| is_standing(need) || case.passed.contains(need)) {
            next.note_settlement((key, &case.terms), need, now_ms, &mut rows);
        }
    }
    match leaf(consent) {
        Ok(leaf) => rows.append(leaf),
        Err(error) => return Consultation::Denied(unavailable(&error)),
    };
    if !case.is_journalled {
        rows.append(of_standing);
        if let Err(error) = governance.write(rows, Durability::Synced).await {
            return Consultation::Denied(error.to_string());
        }
        governance.book().publish(next);
        return Consultation::Given { rows: Batch::new(), receipt: None };
    }
    if has_standing {
        // At once: rows of two turns may come to the disk in any order, and the count may not grow by that.
        if let Err(error) = governance.write(of_standing, Durability::Synced).await {
            return Consultation::Denied(error.to_string());
        }
        governance.book().publish(Consents { standing: next.standing.clone(), ..(*before).clone() });
    }
    let receipt = (!given.is_empty()).then(|| promise(governance, given, consent));
    Consultation::Given { rows, receipt }
}

fn promise(governance: &Governance, asks: Vec<AskId>, consent: Option<Digest>) -> [u8; 16] {
    let receipt = governance.ports().entropy.bytes();
    governance.book().grants().insert(receipt, Grant { asks, consent });
    receipt
}

/// Whether the yes of that receipt is promised to its call still.
pub(crate) fn is_granted(governance: &Governance, receipt: &[u8; 16]) -> bool {
    governance.book().grants().contains_key(receipt)
}

/// No call is made by the promise of that receipt: the next call that is the same may have it.
pub(crate) fn take_back(governance: &Governance, receipt: &[u8; 16]) {
    governance.book().grants().remove(receipt);
}

fn is_promised(governance: &Governance, id: &AskId) -> bool {
    governance.book().grants().values().any(|grant| grant.asks.contains(id))
}

/// Questions ended that waited, or a yes that was not used: nothing is promised of them.
pub(crate) fn forsake(governance: &Governance, over: &[AskId]) {
    governance.book().grants().retain(|_, grant| !grant.asks.iter().any(|ask| over.contains(ask)));
}

/// The digest of what was asked about the call of a receipt.
pub(crate) fn consent_of(governance: &Governance, receipt: &[u8; 16]) -> Option<Digest> {
    governance.book().grants().get(receipt).and_then(|grant| grant.consent)
}

/// A question as it is on disk.
pub(crate) fn stored(governance: &Governance, id: &AskId) -> Result<Option<Question>, String> {
    let row = Consents::stored_row(governance.ports().store.as_ref(), id).map_err(|error| error.to_string())?;
    row.map(|row| decode_row(&row)).transpose().map_err(|error| error.to_string())
}

/// Takes each yes as used whose rows are on disk, and nothing is promised of it any more. Puts what was agreed to last into the batch.
pub(crate) fn take_used(governance: &Governance, next: &mut Consents, batch: &mut Batch) -> bool {
    let approved: Vec<AskId> = next.asks.approved().map(|question| question.ask().id).collect();
    let (mut changed, mut left_out) = (false, Batch::new());
    for id in approved {
        if let Ok(Some(stored)) = stored(governance, &id)
            && stored.state() == QuestionState::Used
        {
            next.asks.replace(stored);
            // What does not fit is known until the node ends, and from the question itself after that.
            let has_room = batch.bytes() <= EARLIER_BYTES_MAX;
            next.note_earlier(&id, if has_room { &mut *batch } else { &mut left_out });
            governance.book().grants().retain(|_, grant| !grant.asks.contains(&id));
            changed = true;
        }
    }
    changed
}

/// What people must give for a call, each as a question of its own; without the consent where a standing yes gives it.
pub(crate) fn needs(case: &Case<'_>, wants: &Wants, has_standing: bool) -> Vec<Need> {
    let consent = (!wants.consent.is_empty() && !has_standing).then(|| Need::Consent { person: case.person.clone() });
    let sign_offs = wants.sign_offs.iter().map(|(role, count)| Need::SignOff {
        role: role.clone(),
        count: *count,
        but_for: case.person.clone(),
    });
    consent.into_iter().chain(sign_offs).collect()
}

/// What an agent hears where nothing can be put on record.
pub(crate) fn unavailable(error: &AuditUnavailable) -> String {
    format!("AUDIT_UNAVAILABLE: {error}")
}
