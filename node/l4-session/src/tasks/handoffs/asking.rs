//! What is said to an agent that is to take work, and what it answers.

use std::sync::Arc;

use a2a::SendMessageResponse;
use althing_call::{Operation, OperationError, OperationRequest, Reply};
use althing_protocol::object::{self, Handoff, HandoffAnswer, HandoffVerdict};
use althing_protocol::{AnswerAttributes, Label, PublicKey};

use super::way::{HandoffCall, HandoffWay};
use super::wire::{self, SignedHandoff};

/// What an offer is answered with, verified.
pub(super) struct SignedAnswer {
    pub verdict: HandoffVerdict,
    /// The node that signed it, which hosts the recipient.
    pub host: PublicKey,
    pub bytes: Vec<u8>,
    /// Whether it says that the recipient keeps the handoff until the work begins. That is not signed: whoever does not keep it is
    /// sent it again.
    pub kept: bool,
}

/// An operation with its parameters.
pub(super) fn request(
    operation: Operation,
    params: &impl serde::Serialize,
) -> Result<OperationRequest, OperationError> {
    let params = serde_json::to_vec(params).map_err(|error| OperationError::internal(error.to_string()))?;
    OperationRequest::parse(operation, params)
}

/// Asks for an operation of the recipient, in the name of the sender; gives the answer, and the label of what is in it.
pub(super) async fn ask(
    way: &Arc<dyn HandoffWay>,
    handoff: &Handoff,
    request: OperationRequest,
    label: Option<Label>,
) -> Result<(Reply, AnswerAttributes), OperationError> {
    let (from, to, answer) = (handoff.sender.agent.clone(), handoff.recipient.clone(), AnswerAttributes::default());
    let call = HandoffCall { from, to, request, label, answer: answer.clone() };
    Ok((way.call(call).await?, answer))
}

/// Sends what is said of a handoff; gives what is answered, a task or a message.
pub(super) async fn send(
    way: &Arc<dyn HandoffWay>,
    handoff: &Handoff,
    request: OperationRequest,
    label: Option<Label>,
) -> Result<SendMessageResponse, OperationError> {
    let (reply, _) = ask(way, handoff, request, label).await?;
    let Reply::One(body) = reply else {
        return Err(OperationError::invalid_agent_response("it answered a handoff with a stream"));
    };
    let not_a2a = |error: serde_json::Error| OperationError::invalid_agent_response(error.to_string());
    serde_json::from_slice(&body).map_err(not_a2a)
}

/// Offers a handoff.
pub(super) async fn offer(
    way: &Arc<dyn HandoffWay>,
    of: SignedHandoff<'_>,
    label: Option<Label>,
) -> Result<SendMessageResponse, OperationError> {
    send(way, &of.signed.body, wire::offer(of)?, label).await
}

/// The answer in a message, if it is one to that handoff, signed by a node that hosts the recipient.
pub(super) async fn hear(
    way: &Arc<dyn HandoffWay>,
    of: SignedHandoff<'_>,
    response: &SendMessageResponse,
) -> Result<SignedAnswer, String> {
    let SendMessageResponse::Message(message) = response else {
        return Err("it answered with a task, and takes no handoffs".to_owned());
    };
    let (bytes, kept) = wire::read_answer(message).ok_or("it answered with a message, and takes no handoffs")?;
    let answer = object::open::<HandoffAnswer>(&bytes, of.network, "").map_err(|error| error.to_string())?;
    let recipient = &of.signed.body.recipient;
    if answer.body.offer != *of.digest || answer.body.recipient != *recipient {
        return Err("it answered to another handoff".to_owned());
    }
    if !way.is_host(recipient, answer.signer).await {
        return Err(format!("{} signed the answer, which does not host {recipient}", answer.signer));
    }
    let verdict = answer.body.verdict().ok_or("it said nothing")?;
    Ok(SignedAnswer { verdict, host: answer.signer, bytes, kept })
}
