//! What is said to an agent that is to take work, and what it answers.

use std::sync::Arc;

use a2a::SendMessageResponse;
use althing_call::{Operation, OperationError, Reply};
use althing_protocol::object::{self, Authored, Handoff, HandoffAnswer, HandoffVerdict};
use althing_protocol::{AnswerAttributes, Label, PublicKey};

use super::way::{HandoffCall, HandoffWay};
use super::wire;

/// What an offer is answered with, verified.
pub(super) struct SignedAnswer {
    pub verdict: HandoffVerdict,
    /// The node that signed it, which hosts the recipient.
    pub host: PublicKey,
    pub bytes: Vec<u8>,
}

/// Asks for an operation of the recipient, in the name of the sender; gives the answer, and the label of what is in it.
pub(super) async fn ask(
    way: &Arc<dyn HandoffWay>,
    handoff: &Handoff,
    operation: Operation,
    params: &impl serde::Serialize,
    label: Option<Label>,
) -> Result<(Reply, AnswerAttributes), OperationError> {
    let params = serde_json::to_vec(params).map_err(|error| OperationError::internal(error.to_string()))?;
    let (from, to, answer) = (handoff.sender.agent.clone(), handoff.recipient.clone(), AnswerAttributes::default());
    let call = HandoffCall { from, to, operation, params, label, answer: answer.clone() };
    Ok((way.call(call).await?, answer))
}

/// Sends a handoff, or its commit; gives what is answered, a task or a message.
pub(super) async fn send(
    way: &Arc<dyn HandoffWay>,
    (signed, network): (&Authored<Handoff>, &str),
    acceptance: Option<u64>,
    label: Option<Label>,
) -> Result<SendMessageResponse, OperationError> {
    let request = wire::request(signed, network, acceptance);
    let (reply, _) = ask(way, &signed.body, Operation::SendMessage, &request, label).await?;
    let Reply::One(body) = reply else {
        return Err(OperationError::invalid_agent_response("it answered a handoff with a stream"));
    };
    let not_a2a = |error: serde_json::Error| OperationError::invalid_agent_response(error.to_string());
    serde_json::from_slice(&body).map_err(not_a2a)
}

/// The answer in a message, if it is one to that handoff, signed by a node that hosts the recipient.
pub(super) async fn hear(
    way: &Arc<dyn HandoffWay>,
    (signed, network): (&Authored<Handoff>, &str),
    response: &SendMessageResponse,
) -> Result<SignedAnswer, String> {
    let SendMessageResponse::Message(message) = response else {
        return Err("it answered with a task, and takes no handoffs".to_owned());
    };
    let bytes = wire::read_answer(message).ok_or("it answered with a message, and takes no handoffs")?;
    let answer = object::open::<HandoffAnswer>(&bytes, network, "").map_err(|error| error.to_string())?;
    let recipient = &signed.body.recipient;
    if answer.body.offer != signed.digest() || answer.body.recipient != *recipient {
        return Err("it answered to another handoff".to_owned());
    }
    if !way.is_host(recipient, answer.signer).await {
        return Err(format!("{} signed the answer, which does not host {recipient}", answer.signer));
    }
    let verdict = answer.body.verdict().ok_or("it said nothing")?;
    Ok(SignedAnswer { verdict, host: answer.signer, bytes })
}
