//! Handoffs in the control API: the work of a task of this node goes to another agent.

use std::sync::Arc;

use althing_api::{HandoffCondition, HandoffDraft, HandoffOutcome, HandoffReply, HandoffRequest};
use althing_calls::{DraftWords, HandoffOrderError, HandoffProgress, HandoffState};
use althing_operations::Operations;
use althing_operations::governance::record_handoff;
use althing_td::{HandoffFile, handoff_json, handoff_of_json};
use axum::Json;
use axum::extract::{Path, State};

use crate::body::{Body, detached};
use crate::error::{Answer, ApiError};

/// Makes the handoff of a task, and offers it; only makes it, if a draft is asked for.
pub async fn hand_over(
    State(node): State<Arc<Operations>>,
    Path(task): Path<String>,
    Body(request): Body<HandoffRequest>,
) -> Answer<HandoffReply> {
    let HandoffRequest { agent, remaining, checklist, document, draft } = request;
    let file: HandoffFile = match document {
        Some(document) => {
            handoff_of_json(&document).map_err(|error| ApiError::invalid(format!("`document`: {error}")))?
        }
        None => node.calls.draft_handoff(&task, &agent, &DraftWords { remaining, checklist }).await?,
    };
    if draft {
        return Ok(Json(HandoffReply::Draft(HandoffDraft { document: handoff_json(&file) })));
    }
    detached(async move {
        record_handoff(&node, &file).await?;
        Ok(Json(HandoffReply::Outcome(outcome(node.calls.hand_over(&task, &agent, file).await?))))
    })
    .await
}

impl From<HandoffOrderError> for ApiError {
    fn from(error: HandoffOrderError) -> ApiError {
        ApiError::new(error.kind(), error.to_string()).with_remedy(error.remedy())
    }
}

fn outcome(progress: HandoffProgress) -> HandoffOutcome {
    let HandoffProgress { handoff, task, recipient, state } = progress;
    let (mut becomes, mut original, mut reason, mut message) = (None, None, None, None);
    let state = match state {
        HandoffState::Given { task } => {
            becomes = Some(task);
            HandoffCondition::Given
        }
        HandoffState::Waiting { why } => {
            message = Some(why);
            HandoffCondition::Waiting
        }
        HandoffState::Duplicate { original: other } => {
            original = Some(other);
            HandoffCondition::Duplicate
        }
        HandoffState::Rejected { reason: why, message: said } => {
            (reason, message) = (Some(why.word().to_owned()), Some(said));
            HandoffCondition::Rejected
        }
        HandoffState::Unanswered => HandoffCondition::Unanswered,
    };
    HandoffOutcome { handoff, task, recipient: recipient.to_string(), state, becomes, original, reason, message }
}
