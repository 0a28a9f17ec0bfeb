//! What waits for people in the control API, and answers to it.

use std::sync::Arc;

use althing_api::{
    AnswerQuery, AnswerReply, AnswerRequest, AnswerState, AnswerText, ConsentList, ConsentRemoval, Kind, NodeStep,
    PendingEntry, PendingList, PendingSource, PendingTrouble, PendingWant, PersonQuestion, StandingConsent,
    StandingRequest,
};
use althing_calls::Principal;
use althing_operations::Operations;
use althing_operations::governance::{
    Actor, AnswerError, AskState, ConsentError, DeliveryTrouble, PendingAsk, PendingGap, PendingRelease, PendingStep,
    PendingWork, PersonSignature, SignedAnswer, StandingTerms, StandingYes, Want, asked_besides, escaped, pending,
};
use althing_protocol::hex;
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, Parameters, detached};
use crate::error::{Answer, ApiError};
use crate::policies::reach;
use crate::requester::{Requester, actor};

/// Characters of the name or the value of an argument, which an agent wrote.
const ARGUMENT_CHARS: usize = 200;

impl From<AnswerError> for ApiError {
    fn from(error: AnswerError) -> ApiError {
        let kind = match &error {
            AnswerError::Id(_) | AnswerError::Standing(_) => Kind::Invalid,
            AnswerError::Consent(ConsentError::Unknown) => Kind::NotFound,
            AnswerError::Consent(ConsentError::Over(_) | ConsentError::Used) => Kind::Conflict,
            AnswerError::Consent(
                ConsentError::Malformed(_) | ConsentError::AllFree | ConsentError::FreeUntrusted | ConsentError::Key(_),
            ) => Kind::Invalid,
            AnswerError::Consent(_)
            | AnswerError::Unsigned(_)
            | AnswerError::Another { .. }
            | AnswerError::NotGiver(_) => Kind::Refused,
            AnswerError::Audit(_) | AnswerError::Write(_) => Kind::Failed,
        };
        let is_unknown = matches!(error, AnswerError::Id(_) | AnswerError::Consent(ConsentError::Unknown));
        ApiError::new(kind, error.to_string()).with_remedy(is_unknown.then(|| NodeStep::ListPending.into()))
    }
}

/// `GET /pending`
pub async fn list(State(node): State<Arc<Operations>>) -> Json<PendingList> {
    let PendingWork { calls, mut untold, steps, releases, unread } = Box::pin(pending(&node)).await;
    let calls = calls.into_iter().map(|ask| {
        let untold = untold.remove(&ask.id).unwrap_or_default().into_iter().map(trouble).collect();
        PendingEntry { untold, ..call(ask) }
    });
    let all = calls.chain(steps.into_iter().map(step)).chain(releases.into_iter().map(release));
    let gap = |PendingGap { at, why }| althing_api::PendingGap { at, why };
    Json(PendingList { pending: all.collect(), unread: unread.into_iter().map(gap).collect() })
}

/// `POST /pending/{ask}`
pub async fn answer(
    State(node): State<Arc<Operations>>,
    Path(ask): Path<String>,
    Requester(principal): Requester,
    Body(request): Body<AnswerRequest>,
) -> Answer<AnswerReply> {
    let by = match request.signature.clone() {
        Some(signature) => signer(&node, &ask, signature)?,
        None => actor(&node, &principal)?,
    };
    detached(take(node, ask, request, by)).await.map(Json)
}

/// Takes an answer: in a task of its own, also where whoever sent it hangs up.
async fn take(node: Arc<Operations>, ask: String, request: AnswerRequest, by: Actor) -> Result<AnswerReply, ApiError> {
    let AnswerRequest { approved, reason, standing, signature: _ } = request;
    let standing = standing.map(|StandingRequest { count, until_ms, free }| StandingTerms {
        count,
        until_ms,
        free: free.into_iter().collect(),
    });
    let answer = althing_operations::governance::Answer { yes: approved, reason, standing };
    let state = match node.governance.answer(&ask, answer, by).await? {
        AskState::Open => AnswerState::Open,
        AskState::Approved | AskState::Used => AnswerState::Approved,
        AskState::Denied(_) => AnswerState::Denied,
    };
    let waits = asked_besides(&node.governance, &ask).into_iter().map(call).collect();
    Ok(AnswerReply { id: ask, state, waits })
}

/// What a user of the gateway is asked, with the texts that are signed to answer it.
///
/// # Errors
/// The user is nobody in the file of people, or nobody who is asked that.
pub fn person_question(node: &Operations, user: &str, ask: &str) -> Result<PersonQuestion, ApiError> {
    let waits = asked(node, &person(node, user)?, ask)?;
    let text = |yes: bool| node.governance.text_to_sign(ask, yes, waits.expires_ms).ok_or_else(unknown);
    let (approve, deny) = (text(true)?, text(false)?);
    Ok(PersonQuestion { question: call(waits), approve, deny })
}

/// Takes the answer of a user of the gateway, which that person signed: the JSON of an [`AnswerRequest`].
///
/// # Errors
/// As [`person_question`], or the answer does not count.
pub async fn person_answer(
    node: Arc<Operations>,
    user: &str,
    ask: &str,
    answer: &[u8],
) -> Result<AnswerReply, ApiError> {
    let request: AnswerRequest = serde_json::from_slice(answer).map_err(|_| {
        ApiError::invalid("the body is no answer: that is JSON with `approved`, `signature` and perhaps `reason`")
    })?;
    let name = person(&node, user)?;
    let until_ms = asked(&node, &name, ask)?.expires_ms;
    let signed = request.signature.clone().map(|signature| SignedAnswer { signature, until_ms });
    let reply = detached(take(node, ask.to_owned(), request, Actor::Person { name, signed })).await?;
    // What others are asked is shown to those alone who are asked it.
    Ok(AnswerReply { waits: Vec::new(), ..reply })
}

/// Who a user of the gateway is.
fn person(node: &Operations, user: &str) -> Result<String, ApiError> {
    match actor(node, &Principal::User(user.to_owned()))? {
        Actor::Person { name, .. } => Ok(name),
        Actor::Owner => Err(unknown()),
    }
}

/// What a person is asked. Whoever is not asked is told the same as where there is no such question.
fn asked(node: &Operations, person: &str, ask: &str) -> Result<PendingAsk, ApiError> {
    let waits = waiting(node, ask)?;
    if node.governance.is_asked(ask, person) { Ok(waits) } else { Err(unknown()) }
}

/// The question of that id, which waits: so long does a signed answer count.
fn waiting(node: &Operations, ask: &str) -> Result<PendingAsk, ApiError> {
    node.governance.pending_ask(ask).ok_or_else(unknown)
}

fn unknown() -> ApiError {
    AnswerError::Consent(ConsentError::Unknown).into()
}

/// `GET /pending/{ask}/text`
pub async fn text(
    State(node): State<Arc<Operations>>,
    Path(ask): Path<String>,
    Parameters(AnswerQuery { approved }): Parameters<AnswerQuery>,
) -> Answer<AnswerText> {
    let until_ms = waiting(&node, &ask)?.expires_ms;
    let text = node.governance.text_to_sign(&ask, approved, until_ms);
    Ok(Json(AnswerText { text: text.ok_or_else(unknown)? }))
}

/// `GET /consents`
pub async fn consents(State(node): State<Arc<Operations>>) -> Json<ConsentList> {
    Json(ConsentList { consents: node.governance.standing().into_iter().map(standing).collect() })
}

/// `DELETE /consents/{consent}`
pub async fn withdraw(
    State(node): State<Arc<Operations>>,
    Path(consent): Path<String>,
    Requester(principal): Requester,
) -> Answer<ConsentRemoval> {
    let by = actor(&node, &principal)?;
    detached(async move {
        let withdrawn = node.governance.withdraw_standing(&consent, by).await.map_err(|error| match error {
            AnswerError::Id(_) => ApiError::new(Kind::Invalid, error.to_string()),
            other => other.into(),
        })?;
        let unknown = || ApiError::new(Kind::NotFound, format!("no standing yes has the id {consent}, or no longer"));
        Ok(Json(standing(withdrawn.ok_or_else(unknown)?)))
    })
    .await
}

fn standing(yes: StandingYes) -> StandingConsent {
    let StandingYes { id, person, template, at_ms, until_ms, left, .. } = yes;
    let shown = |text: &str| escaped(text, ARGUMENT_CHARS);
    StandingConsent {
        id: hex(&id),
        person,
        agent: template.agent.to_string(),
        action: shown(&template.action),
        fixed: template.fixed.iter().map(|(name, value)| format!("{} = {}", shown(name), shown(value))).collect(),
        free: template.free.iter().map(|name| shown(name)).collect(),
        label: reach(template.label),
        left,
        given_ms: at_ms,
        until_ms,
    }
}

fn trouble(trouble: DeliveryTrouble) -> PendingTrouble {
    let DeliveryTrouble { person, way, attempts, reason, next_ms } = trouble;
    PendingTrouble { person, way, attempts, why: reason, next_ms }
}

/// Whoever signed an answer, which counts for as long as its question.
fn signer(node: &Operations, ask: &str, signature: String) -> Result<Actor, ApiError> {
    let refused = |error: ConsentError| ApiError::from(AnswerError::Consent(error));
    let key = PersonSignature::read(&signature).map_err(|error| refused(error.into()))?.signer();
    let people = node.governance.people();
    let name = people.person_with(&key).ok_or_else(|| refused(ConsentError::Stranger(key.to_string())))?;
    let signed = Some(SignedAnswer { signature, until_ms: waiting(node, ask)?.expires_ms });
    Ok(Actor::Person { name: name.to_owned(), signed })
}

fn call(ask: PendingAsk) -> PendingEntry {
    PendingEntry {
        id: ask.id,
        source: PendingSource::Call,
        task: ask.task,
        agent: Some(ask.agent.id.to_string()),
        action: ask.action,
        outline: ask.outline,
        label: ask.label.map(reach),
        difference: ask.difference,
        reasons: ask.reasons,
        wants: ask.wants.into_iter().map(want).collect(),
        asked_ms: Some(ask.asked_ms),
        expires_ms: Some(ask.expires_ms),
        untold: Vec::new(),
    }
}

fn want(want: Want) -> PendingWant {
    match want {
        Want::Consent { person } => PendingWant::Consent { person },
        Want::SignOff { role, count, given } => {
            PendingWant::SignOff { count: u32::from(count), given: u32::from(given), role }
        }
    }
}

fn step(asks: PendingStep) -> PendingEntry {
    let PendingStep { group, run, workflow, step, question, started_ms, due_ms } = asks;
    let group = group.to_string();
    PendingEntry {
        id: format!("{group}/{run}/{step}"),
        source: PendingSource::Workflow { group, run, step },
        task: None,
        agent: None,
        action: question,
        outline: vec![format!("of the workflow {workflow}")],
        label: None,
        difference: Vec::new(),
        reasons: Vec::new(),
        wants: Vec::new(),
        asked_ms: Some(started_ms),
        expires_ms: due_ms,
        untold: Vec::new(),
    }
}

fn release(waits: PendingRelease) -> PendingEntry {
    let PendingRelease { registry, id, agent, version, outline, wanted, staged_ms } = waits;
    PendingEntry {
        id,
        source: PendingSource::Release { registry, staged: staged_ms.is_some() },
        task: None,
        agent: Some(agent),
        action: version,
        outline,
        label: None,
        difference: Vec::new(),
        reasons: Vec::new(),
        wants: vec![PendingWant::Approval { count: wanted }],
        asked_ms: staged_ms,
        expires_ms: None,
        untold: Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use althing_operations::governance::Template;
    use althing_protocol::contract::DataLabel;
    use althing_protocol::group::GroupId;
    use althing_protocol::{AgentId, Label, PublisherId};

    use super::*;

    #[test]
    fn why_an_answer_does_not_count_is_told_by_its_kind() {
        let kind = |error: AnswerError| ApiError::from(error).0.kind;
        assert_eq!(kind(AnswerError::Consent(ConsentError::Unknown)), Kind::NotFound);
        assert_eq!(kind(AnswerError::Consent(ConsentError::Over("late".to_owned()))), Kind::Conflict);
        assert_eq!(kind(AnswerError::Consent(ConsentError::Signature)), Kind::Refused);
        for error in [ConsentError::AllFree, ConsentError::FreeUntrusted] {
            assert_eq!(kind(AnswerError::Consent(error)), Kind::Invalid);
        }
        assert_eq!(kind(AnswerError::Id("x".to_owned())), Kind::Invalid);
    }

    #[test]
    fn whoever_names_no_question_is_told_where_those_are_that_wait_and_by_no_command() {
        for error in [AnswerError::Id("x".to_owned()), AnswerError::Consent(ConsentError::Unknown)] {
            let problem = ApiError::from(error).0;
            assert!(!problem.message.contains('`'), "{}", problem.message);
            assert_eq!(problem.remedy, Some(Box::new(NodeStep::ListPending.into())));
        }
        let problem = ApiError::from(AnswerError::Consent(ConsentError::Signature)).0;
        assert_eq!(problem.remedy, None, "it is the right question");
    }

    #[test]
    fn an_argument_of_a_standing_yes_is_one_line_whatever_its_agent_called_it() {
        let template = Template {
            agent: AgentId::new(PublisherId::from_digest([3; 32]), "buyer").expect("a good name"),
            action: "shop/order".to_owned(),
            definition: [1; 32],
            server: [2; 32],
            fixed: BTreeSet::from([("item\nleft     9999 times".to_owned(), format!("{:?}", "x".repeat(900)))]),
            free: BTreeSet::from(["note\u{202e}".to_owned()]),
            label: Label { level: DataLabel::Internal, trusted: true },
        };
        let (person, consent) = ("ada".to_owned(), None);
        let told = standing(StandingYes { id: [7; 16], person, template, at_ms: 1, until_ms: 2, left: 3, consent });
        let fixed = &told.fixed[0];
        assert!(fixed.starts_with(r"item\u{a}left     9999 times = "), "{fixed}");
        assert!(fixed.contains(" …(702 characters)… "), "{fixed}");
        assert_eq!(told.free, [r"note\u{202e}"]);
    }

    #[test]
    fn steps_and_releases_are_entries_of_the_same_list() {
        let group = GroupId::from_digest([1; 32]);
        let asks = PendingStep {
            group,
            run: "0c".to_owned(),
            workflow: "review".to_owned(),
            step: "check".to_owned(),
            question: "Go on?".to_owned(),
            started_ms: 1,
            due_ms: Some(2),
        };
        let told = step(asks);
        assert_eq!((told.id, told.action.as_str()), (format!("{group}/0c/check"), "Go on?"));
        let waits = PendingRelease {
            registry: "https://r".to_owned(),
            id: "0a".to_owned(),
            agent: "urn:a".to_owned(),
            version: "1.0.0".to_owned(),
            outline: Vec::new(),
            wanted: 2,
            staged_ms: None,
        };
        let told = release(waits);
        assert_eq!(told.source, PendingSource::Release { registry: "https://r".to_owned(), staged: false });
        assert_eq!(told.wants, [PendingWant::Approval { count: 2 }]);
    }
}
