//! A2A's error table (specification 1.0.1 §5.4), and this project's own refusals, each with its `ErrorInfo`.

use std::sync::atomic::{AtomicU64, Ordering};

use a2a::error_code;
use althing_failure::{Kind, NodeStep, Remedy};
use althing_protocol::PublicKey;
use serde_json::{Value, json};

use crate::redirect::Redirect;

/// Why an operation failed. Each face maps it to the codes of its own protocol; [`Refusal::code`] and
/// [`Refusal::reason`] are those of A2A's error object, which JSON-RPC and the binding over libp2p share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// No such task, or none that the caller may see.
    TaskNotFound,
    /// The task is over.
    TaskNotCancelable,
    /// Push notifications are not served.
    PushNotSupported,
    /// The operation exists, but not here or not now.
    Unsupported,
    /// A media type that the agent does not accept.
    ContentType,
    /// The answer is not A2A.
    InvalidAgentResponse,
    /// Another version of A2A was asked for.
    VersionNotSupported,
    /// The body is not JSON.
    Parse,
    /// JSON, but not a request.
    InvalidRequest,
    /// A request for something that does not exist.
    MethodNotFound,
    /// The parameters break a rule.
    InvalidParams,
    /// This node failed.
    Internal,
    /// The message id was used for another message before.
    MessageIdReused,
    /// The message was answered before, and is not processed again. No task of it is kept.
    AlreadyDone {
        /// The message that answered it, as JSON, if that is kept.
        answer: Option<String>,
    },
    /// The agent does not answer this caller.
    CallerNotAllowed,
    /// Somebody must consent first, and nobody can be asked where this is said. Other nodes are told that the caller is not
    /// allowed: only where it was decided it is known to be this.
    ConsentRequired {
        /// To what, in words for whoever is to consent.
        to: String,
    },
    /// Its publisher revoked the version that is hosted.
    AgentRevoked,
    /// No such agent.
    AgentUnknown,
    /// The agent is not hosted here, or not for this caller.
    AgentNotHere,
    /// The agent's node cannot be reached.
    AgentUnreachable,
    /// No answer in time.
    DeadlineExceeded,
    /// Too much at once.
    Overloaded,
    /// The turn was left with its node, which is being stopped, and goes on when that is up again. Others are told that it is too
    /// much at once: only in this process it is known to be this.
    TurnLeft,
    /// The node's disk has no room.
    DiskFull,
    /// The node's store takes no writes at present.
    StoreStopped,
    /// Another node does what this one cannot; nothing was taken. The caller signs its call anew, for that node.
    Redirected {
        /// That node, which hosts the agent too.
        member: PublicKey,
        /// Of two redirects of one agent the one with the lower fence is older.
        fence: u64,
    },
    /// The task was handed over to another node, which the proof names: the caller signs its call anew, for that one.
    TaskMoved {
        /// The move as the node that had the task signed it, in base64url without padding (SPEC P-204).
        proof: String,
    },
    /// An error of the agent's own, by its JSON-RPC code.
    OfAgent(i32),
    /// A refusal of a newer node, by its reason.
    OfNewerNode(String),
}

impl Refusal {
    /// The refusal of that A2A or JSON-RPC code.
    fn of_code(code: i32) -> Refusal {
        let known = [
            Refusal::TaskNotFound,
            Refusal::TaskNotCancelable,
            Refusal::PushNotSupported,
            Refusal::Unsupported,
            Refusal::ContentType,
            Refusal::InvalidAgentResponse,
            Refusal::VersionNotSupported,
            Refusal::Parse,
            Refusal::InvalidRequest,
            Refusal::MethodNotFound,
            Refusal::InvalidParams,
            Refusal::Internal,
        ];
        known.into_iter().find(|known| known.code() == code).unwrap_or(Refusal::OfAgent(code))
    }

    /// This project's own refusal of that reason.
    fn of_reason(reason: &str) -> Refusal {
        let known = [
            Refusal::MessageIdReused,
            Refusal::CallerNotAllowed,
            Refusal::AgentRevoked,
            Refusal::AgentUnknown,
            Refusal::AgentNotHere,
            Refusal::AgentUnreachable,
            Refusal::DeadlineExceeded,
            Refusal::Overloaded,
            Refusal::DiskFull,
            Refusal::StoreStopped,
        ];
        let known = known.into_iter().find(|known| known.reason() == reason);
        known.unwrap_or_else(|| Refusal::OfNewerNode(reason.to_owned()))
    }

    /// Its code in A2A's error object (specification 1.0.1 §5.4).
    #[must_use]
    pub fn code(&self) -> i32 {
        match self {
            Refusal::TaskNotFound => error_code::TASK_NOT_FOUND,
            Refusal::TaskNotCancelable => error_code::TASK_NOT_CANCELABLE,
            Refusal::PushNotSupported => error_code::PUSH_NOTIFICATION_NOT_SUPPORTED,
            Refusal::Unsupported => error_code::UNSUPPORTED_OPERATION,
            Refusal::ContentType => error_code::CONTENT_TYPE_NOT_SUPPORTED,
            Refusal::InvalidAgentResponse => error_code::INVALID_AGENT_RESPONSE,
            Refusal::VersionNotSupported => error_code::VERSION_NOT_SUPPORTED,
            Refusal::Parse => error_code::PARSE_ERROR,
            Refusal::InvalidRequest => error_code::INVALID_REQUEST,
            Refusal::MethodNotFound => error_code::METHOD_NOT_FOUND,
            Refusal::InvalidParams | Refusal::MessageIdReused => error_code::INVALID_PARAMS,
            Refusal::Internal => error_code::INTERNAL_ERROR,
            Refusal::OfAgent(code) => *code,
            Refusal::CallerNotAllowed
            | Refusal::ConsentRequired { .. }
            | Refusal::AgentRevoked
            | Refusal::AgentUnknown
            | Refusal::AgentNotHere
            | Refusal::AgentUnreachable
            | Refusal::DeadlineExceeded
            | Refusal::Overloaded
            | Refusal::TurnLeft
            | Refusal::DiskFull
            | Refusal::StoreStopped
            | Refusal::AlreadyDone { .. }
            | Refusal::Redirected { .. }
            | Refusal::TaskMoved { .. }
            | Refusal::OfNewerNode(_) => SERVER_ERROR,
        }
    }

    /// Its reason in A2A's error object.
    #[must_use]
    pub fn reason(&self) -> &str {
        match self {
            Refusal::MessageIdReused => "MESSAGE_ID_REUSED",
            Refusal::AlreadyDone { .. } => ALREADY_DONE,
            Refusal::CallerNotAllowed | Refusal::ConsentRequired { .. } => "CALLER_NOT_ALLOWED",
            Refusal::AgentRevoked => "AGENT_REVOKED",
            Refusal::AgentUnknown => "AGENT_UNKNOWN",
            Refusal::AgentNotHere => "AGENT_NOT_HERE",
            Refusal::AgentUnreachable => "AGENT_UNREACHABLE",
            Refusal::DeadlineExceeded => "DEADLINE_EXCEEDED",
            Refusal::Overloaded | Refusal::TurnLeft => "OVERLOADED",
            Refusal::DiskFull => "DISK_FULL",
            Refusal::StoreStopped => "STORE_STOPPED",
            Refusal::Redirected { .. } => REDIRECTED,
            Refusal::TaskMoved { .. } => TASK_MOVED,
            Refusal::OfNewerNode(reason) => reason,
            known => a2a::errors::error_reason(known.code()),
        }
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            Refusal::AgentUnknown | Refusal::AgentNotHere | Refusal::TaskNotFound | Refusal::MethodNotFound => {
                Kind::NotFound
            }
            Refusal::CallerNotAllowed | Refusal::ConsentRequired { .. } | Refusal::AgentRevoked => Kind::Refused,
            Refusal::TaskNotCancelable | Refusal::MessageIdReused | Refusal::AlreadyDone { .. } => Kind::Conflict,
            // Whoever has too much to do, is being stopped, or lacks a majority may answer in a moment.
            Refusal::Overloaded | Refusal::TurnLeft => Kind::Busy,
            Refusal::AgentUnreachable | Refusal::DeadlineExceeded | Refusal::OfNewerNode(_) => Kind::Unreachable,
            _ => Kind::Failed,
        }
    }

    /// Whether it is of the host that refused: another one has rules, agents and versions of its own.
    #[must_use]
    pub fn is_of_host(&self) -> bool {
        matches!(
            self,
            Refusal::CallerNotAllowed
                | Refusal::ConsentRequired { .. }
                | Refusal::AgentRevoked
                | Refusal::AgentUnknown
                | Refusal::AgentNotHere
        )
    }

    /// The domain that defines the reason.
    fn domain(&self) -> &'static str {
        match self {
            Refusal::MessageIdReused
            | Refusal::AlreadyDone { .. }
            | Refusal::CallerNotAllowed
            | Refusal::ConsentRequired { .. }
            | Refusal::AgentRevoked
            | Refusal::AgentUnknown
            | Refusal::AgentNotHere
            | Refusal::AgentUnreachable
            | Refusal::DeadlineExceeded
            | Refusal::Overloaded
            | Refusal::TurnLeft
            | Refusal::DiskFull
            | Refusal::StoreStopped
            | Refusal::Redirected { .. }
            | Refusal::TaskMoved { .. }
            | Refusal::OfNewerNode(_) => ALTHING,
            _ => A2A,
        }
    }
}

/// Why an operation failed, as the caller is told.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct OperationError {
    /// Which refusal it is.
    pub refusal: Refusal,
    /// What failed, where and why; it names no command.
    pub message: String,
    /// The `data` of an agent's own error, if it has more than reason and domain.
    pub details: Vec<Value>,
    /// What to do next, where that is a step of its own: for the owner of this node. It goes over no wire.
    pub remedy: Option<Box<Remedy>>,
}

/// Domain of A2A's own errors.
const A2A: &str = "a2a-protocol.org";
/// Domain of this project's refusals.
const ALTHING: &str = "althing.dev";
/// JSON-RPC's code for server-defined errors.
const SERVER_ERROR: i32 = -32_000;
/// The reason where a message was answered before.
const ALREADY_DONE: &str = "ALREADY_DONE";
/// Bytes of the answer beside it that are read, as JSON.
const ANSWER_BYTES_MAX: usize = 64 << 10;
/// The reason of a redirect.
const REDIRECTED: &str = "REDIRECTED";
/// The reason where a task was handed over.
const TASK_MOVED: &str = "TASK_MOVED";
/// Characters of the proof of a move that are read: one is an object of some 300 bytes, and of at most 700.
const PROOF_CHARS_MAX: usize = 2_048;
/// The type of the detail that names reason and domain.
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
/// Bytes of an agent's error details, as JSON, that are passed on.
const DETAILS_BYTES_MAX: usize = 4_096;
/// Bytes of a peer's error message that are read.
const MESSAGE_BYTES_MAX: usize = 4_096;

impl OperationError {
    fn new(refusal: Refusal, message: impl Into<String>) -> OperationError {
        let there = refusal == Refusal::StoreStopped;
        let remedy = there.then(|| Box::new(NodeStep::DiagnoseThere.into()));
        OperationError { refusal, message: message.into(), details: Vec::new(), remedy }
    }

    /// The same, with what the owner of this node can do next.
    #[must_use]
    pub fn with_remedy(self, remedy: impl Into<Remedy>) -> OperationError {
        OperationError { remedy: Some(Box::new(remedy.into())), ..self }
    }

    /// Its code in A2A's error object.
    #[must_use]
    pub fn code(&self) -> i32 {
        self.refusal.code()
    }

    /// Its reason in A2A's error object.
    #[must_use]
    pub fn reason(&self) -> &str {
        self.refusal.reason()
    }

    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.refusal.kind()
    }

    /// No such task, or none that the caller may see.
    #[must_use]
    pub fn task_not_found(id: &str) -> OperationError {
        OperationError::new(Refusal::TaskNotFound, format!("there is no task {:?}", shorten(id, 100)))
    }

    /// The task has no such push notification configuration.
    #[must_use]
    pub fn push_config_not_found(id: &str) -> OperationError {
        let message = format!("the task has no push notification configuration {:?}", shorten(id, 100));
        OperationError::new(Refusal::TaskNotFound, message)
    }

    /// The task is over.
    #[must_use]
    pub fn task_not_cancelable(id: &str) -> OperationError {
        OperationError::new(Refusal::TaskNotCancelable, format!("task {id} is over and cannot be cancelled"))
    }

    /// Push notifications are not served.
    #[must_use]
    pub fn push_not_supported() -> OperationError {
        let message = "push notifications are not supported here; use SendStreamingMessage or SubscribeToTask";
        OperationError::new(Refusal::PushNotSupported, message)
    }

    /// The operation exists, but not here or not now.
    #[must_use]
    pub fn unsupported(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::Unsupported, message)
    }

    /// A media type that the agent does not accept.
    #[must_use]
    pub fn content_type(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::ContentType, message)
    }

    /// The agent answered with something that is not A2A.
    #[must_use]
    pub fn invalid_agent_response(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::InvalidAgentResponse, message)
    }

    /// No extended card is served here (A2A §3.3.4).
    #[must_use]
    pub fn no_extended_card() -> OperationError {
        OperationError::unsupported("extended agent cards are made by gateways; ask one for this agent's")
    }

    /// Another version of A2A was asked for.
    #[must_use]
    pub fn version_not_supported(version: &str) -> OperationError {
        let asked = if version.is_empty() { "no A2A-Version, which means 0.3," } else { version };
        let message = format!("{asked} is not served; send `A2A-Version: 1.0`");
        OperationError::new(Refusal::VersionNotSupported, message)
    }

    /// The body is not JSON.
    #[must_use]
    pub fn parse(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::Parse, message)
    }

    /// JSON, but not a request.
    #[must_use]
    pub fn invalid_request(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::InvalidRequest, message)
    }

    /// A request for something that does not exist.
    #[must_use]
    pub fn method_not_found(method: &str) -> OperationError {
        let message = format!("there is no method {:?}", shorten(method, 100));
        OperationError::new(Refusal::MethodNotFound, message)
    }

    /// The operation's parameters break a rule.
    #[must_use]
    pub fn invalid_params(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::InvalidParams, message)
    }

    /// The message id was used for another message before.
    #[must_use]
    pub fn message_id_reused(id: &str, task: &str) -> OperationError {
        let id = shorten(id, 100);
        let message =
            format!("another message of id {id:?} belongs to task {task}; give each message an id of its own");
        OperationError::new(Refusal::MessageIdReused, message)
    }

    /// The message of that id was answered before, with that message, as JSON, if it is kept.
    #[must_use]
    pub fn already_done(id: &str, answer: Option<String>) -> OperationError {
        let what = if answer.is_some() { "its answer is beside this" } else { "its answer is not kept any more" };
        let id = shorten(id, 100);
        let message = format!("message {id:?} was answered before, and nothing was done again: {what}");
        OperationError::new(Refusal::AlreadyDone { answer }, message)
    }

    /// This node failed. The details, with paths and sizes, are only in the node's log; the caller gets the reference of
    /// that log line.
    #[must_use]
    pub fn internal(detail: impl Into<String>) -> OperationError {
        static FAILURES: AtomicU64 = AtomicU64::new(1);
        let (reference, detail) = (FAILURES.fetch_add(1, Ordering::Relaxed), detail.into());
        tracing::error!(reference, detail, "an operation failed");
        let message = format!("this node failed; its operator finds why in the log under reference {reference}");
        OperationError::new(Refusal::Internal, message)
    }

    /// This node's disk has no room for a task.
    #[must_use]
    pub fn disk_full() -> OperationError {
        let message = "this node's disk is full and nothing was taken; its operator has to free space there";
        OperationError::new(Refusal::DiskFull, message)
    }

    /// This node's store takes no writes.
    #[must_use]
    pub fn store_stopped() -> OperationError {
        let message = "this node's store takes no writes at present and nothing was taken; it is opened again by itself, so try again \
                       in a moment";
        OperationError::new(Refusal::StoreStopped, message)
    }

    /// The agent does not answer this caller.
    #[must_use]
    pub fn caller_not_allowed(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::CallerNotAllowed, message)
    }

    /// Somebody must consent to that first, and nobody can be asked at this point.
    #[must_use]
    pub fn consent_required(to: impl Into<String>) -> OperationError {
        let to = to.into();
        let message = format!("somebody must consent to this first, and nobody can be asked at this point: {to}");
        OperationError::new(Refusal::ConsentRequired { to }, message)
    }

    /// Its publisher revoked the version that is hosted.
    #[must_use]
    pub fn revoked(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::AgentRevoked, message)
    }

    /// No such agent.
    #[must_use]
    pub fn agent_unknown(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::AgentUnknown, message)
    }

    /// The agent is not hosted here, or not for this caller.
    #[must_use]
    pub fn agent_not_here(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::AgentNotHere, message)
    }

    /// The agent's node cannot be reached.
    #[must_use]
    pub fn agent_unreachable(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::AgentUnreachable, message)
    }

    /// No answer in time.
    #[must_use]
    pub fn deadline(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::DeadlineExceeded, message)
    }

    /// Too much at once.
    #[must_use]
    pub fn busy(message: impl Into<String>) -> OperationError {
        OperationError::new(Refusal::Overloaded, message)
    }

    /// Another node does what this one cannot.
    #[must_use]
    pub fn redirected(redirect: Redirect) -> OperationError {
        let Redirect { member, fence } = redirect;
        let message =
            format!("this node took nothing, since {member} can do it: send the message to that node, or try again");
        OperationError::new(Refusal::Redirected { member, fence }, message)
    }

    /// The task was handed over to another node, which `proof` names: the move as it was signed, in base64url without
    /// padding.
    #[must_use]
    pub fn task_moved(proof: impl Into<String>) -> OperationError {
        let message = "this node handed the task over to another one, which the proof beside this names: ask that one";
        OperationError::new(Refusal::TaskMoved { proof: proof.into() }, message)
    }

    /// An agent's own error, passed on to the caller unchanged. It is never one of this project's refusals: only a node makes
    /// those.
    #[must_use]
    pub fn of_agent(code: i32, message: impl Into<String>, details: Vec<Value>) -> OperationError {
        let mut error = OperationError::new(Refusal::of_code(code), message);
        let own = error.info();
        let says = |detail: &Value, name: &str| detail[name] == own[name];
        let mut details = bounded(details);
        // The first detail identifies the error, whatever the agent left out.
        if !details.iter().any(|detail| ["@type", "reason", "domain"].iter().all(|name| says(detail, name))) {
            details.insert(0, own.clone());
        }
        error.details = if details == [own] { Vec::new() } else { details };
        error
    }

    fn info(&self) -> Value {
        let mut info = json!({ "@type": ERROR_INFO, "reason": self.refusal.reason(), "domain": self.refusal.domain() });
        if let Refusal::Redirected { member, fence } = &self.refusal {
            info["metadata"] = json!({ "member": member.did(), "fence": fence.to_string() });
        }
        if let Refusal::TaskMoved { proof } = &self.refusal {
            info["metadata"] = json!({ "proof": proof });
        }
        if let Refusal::AlreadyDone { answer: Some(answer) } = &self.refusal {
            info["metadata"] = json!({ "message": answer });
        }
        info
    }

    /// The JSON-RPC error object; also the body of an error frame.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({ "code": self.code(), "message": self.message, "data": self.all_details() })
    }

    /// Its details as A2A tells them: the `ErrorInfo` with reason and domain, then the agent's own.
    #[must_use]
    pub fn all_details(&self) -> Vec<Value> {
        if self.details.is_empty() { vec![self.info()] } else { self.details.clone() }
    }

    /// Reads the body of a peer's error frame. Anything else than an error object is an invalid agent response.
    #[must_use]
    pub fn from_peer(body: &[u8]) -> OperationError {
        OperationError::read(body).unwrap_or_else(|| {
            OperationError::invalid_agent_response("the peer refused with something that is no A2A error")
        })
    }

    fn read(body: &[u8]) -> Option<OperationError> {
        let value: Value = serde_json::from_slice(body).ok()?;
        let code = i32::try_from(value.get("code")?.as_i64()?).ok()?;
        let message = shorten(value.get("message")?.as_str()?, MESSAGE_BYTES_MAX).to_owned();
        let info = value.get("data").and_then(|data| data.get(0));
        let member = |name: &str| info.and_then(|info| info.get(name)).and_then(Value::as_str);
        if member("domain") != Some(ALTHING) {
            let details = value.get("data").and_then(Value::as_array).cloned().unwrap_or_default();
            return Some(OperationError::of_agent(code, message, details));
        }
        let reason = shorten(member("reason")?, 64);
        let elsewhere = match reason {
            REDIRECTED => info.and_then(redirect),
            TASK_MOVED => info.and_then(task_moved),
            ALREADY_DONE => info.map(already_done),
            _ => None,
        };
        Some(OperationError::new(elsewhere.unwrap_or_else(|| Refusal::of_reason(reason)), message))
    }
}

/// The redirect that a peer's `ErrorInfo` tells of, if it has both members, each in its only spelling.
fn redirect(info: &Value) -> Option<Refusal> {
    let metadata = info.get("metadata")?;
    let text = |name: &str| metadata.get(name).and_then(Value::as_str);
    let (did, number) = (text("member")?, text("fence")?);
    let (member, fence) = (PublicKey::from_did(did).ok()?, number.parse::<u64>().ok()?);
    (member.did() == did && fence.to_string() == number).then_some(Refusal::Redirected { member, fence })
}

/// The proof of a move that a peer's `ErrorInfo` tells of, if it is text of base64url. Nothing of it is verified.
fn task_moved(info: &Value) -> Option<Refusal> {
    let proof = info.get("metadata")?.get("proof")?.as_str()?;
    let fits = !proof.is_empty() && proof.len() <= PROOF_CHARS_MAX;
    let is_plain = proof.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
    (fits && is_plain).then(|| Refusal::TaskMoved { proof: proof.to_owned() })
}

/// The answer that a peer's `ErrorInfo` has of a message that was answered before. Nothing of it is checked but its length.
fn already_done(info: &Value) -> Refusal {
    let answer = info.get("metadata").and_then(|metadata| metadata.get("message")).and_then(Value::as_str);
    Refusal::AlreadyDone { answer: answer.filter(|answer| answer.len() <= ANSWER_BYTES_MAX).map(str::to_owned) }
}

/// Details within the size limit, without those in this project's domain.
fn bounded(details: Vec<Value>) -> Vec<Value> {
    let size = serde_json::to_vec(&details).map_or(usize::MAX, |json| json.len());
    if size > DETAILS_BYTES_MAX || details.iter().any(|detail| detail["domain"] == ALTHING) {
        return Vec::new();
    }
    details
}

fn shorten(text: &str, max: usize) -> &str {
    let end = (0..=max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    fn member() -> PublicKey {
        SecretKey::from_seed(&[7; 32]).public()
    }

    #[test]
    fn owners_are_told_refusals_by_their_kinds() {
        let redirected = Refusal::Redirected { member: member(), fence: 1 };
        let table = [
            (Kind::NotFound, vec![Refusal::TaskNotFound, Refusal::MethodNotFound]),
            (Kind::NotFound, vec![Refusal::AgentUnknown, Refusal::AgentNotHere]),
            (Kind::Refused, vec![Refusal::CallerNotAllowed, Refusal::AgentRevoked]),
            (Kind::Refused, vec![Refusal::ConsentRequired { to: "a word to the bank".to_owned() }]),
            (Kind::Unreachable, vec![Refusal::AgentUnreachable, Refusal::DeadlineExceeded]),
            (Kind::Busy, vec![Refusal::Overloaded, Refusal::TurnLeft]),
            (Kind::Unreachable, vec![Refusal::OfNewerNode("NEW".to_owned())]),
            (Kind::Conflict, vec![Refusal::TaskNotCancelable, Refusal::MessageIdReused]),
            (Kind::Failed, vec![Refusal::PushNotSupported, Refusal::Unsupported]),
            (Kind::Failed, vec![Refusal::ContentType, Refusal::InvalidAgentResponse, Refusal::VersionNotSupported]),
            (Kind::Failed, vec![Refusal::Parse, Refusal::InvalidRequest, Refusal::InvalidParams, Refusal::Internal]),
            (Kind::Failed, vec![Refusal::DiskFull, Refusal::StoreStopped]),
            (Kind::Conflict, vec![Refusal::AlreadyDone { answer: None }]),
            (Kind::Failed, vec![redirected, Refusal::TaskMoved { proof: "hA".to_owned() }, Refusal::OfAgent(-32_050)]),
        ];
        for (kind, refusals) in table {
            for refusal in refusals {
                assert_eq!(OperationError::new(refusal, "no").kind(), kind);
            }
        }
    }

    #[test]
    fn what_one_host_refuses_by_rules_of_its_own_another_one_may_do() {
        let own = [Refusal::CallerNotAllowed, Refusal::AgentRevoked, Refusal::AgentUnknown, Refusal::AgentNotHere];
        assert!(own.iter().all(Refusal::is_of_host));
        assert!(Refusal::ConsentRequired { to: "a word to the bank".to_owned() }.is_of_host());
        for refusal in [Refusal::TaskNotFound, Refusal::InvalidParams, Refusal::Overloaded, Refusal::AgentUnreachable] {
            assert!(!refusal.is_of_host(), "{refusal:?}");
        }
    }

    #[test]
    fn an_error_survives_the_wire() {
        let errors = [
            OperationError::task_not_found("x"),
            OperationError::version_not_supported(""),
            OperationError::caller_not_allowed("no"),
            OperationError::agent_unreachable("gone"),
            OperationError::content_type("no"),
            OperationError::redirected(Redirect { member: member(), fence: u64::MAX }),
            OperationError::task_moved("hFgm-_09"),
            OperationError::message_id_reused("m", "t"),
            OperationError::store_stopped(),
            OperationError::already_done("m", None),
            OperationError::already_done("m", Some("{}".to_owned())),
            OperationError::of_agent(-32_602, "no", vec![json!({ "field": "parts" })]),
            OperationError::of_agent(-32_050, "no", Vec::new()),
        ];
        for error in errors {
            assert_eq!(OperationError::from_peer(error.to_json().to_string().as_bytes()), error);
        }
    }

    /// P-195
    #[test]
    fn what_names_no_node_or_fence_is_no_redirect() {
        let did = member().did();
        let read = |metadata: Value| {
            let info = json!({ "@type": ERROR_INFO, "reason": REDIRECTED, "domain": ALTHING, "metadata": metadata });
            let body = json!({ "code": SERVER_ERROR, "message": "there", "data": [info] });
            OperationError::from_peer(body.to_string().as_bytes()).refusal
        };
        let good = read(json!({ "member": did, "fence": "7", "more": 1 }));
        assert_eq!(good, Refusal::Redirected { member: member(), fence: 7 });
        let (long, padded) = ("z".repeat(100_000), format!("{did} "));
        for metadata in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "member": did }),
            json!({ "fence": "7" }),
            json!({ "member": did, "fence": 7 }),
            json!({ "member": did, "fence": "+7" }),
            json!({ "member": did, "fence": "07" }),
            json!({ "member": did, "fence": "-1" }),
            json!({ "member": did, "fence": "18446744073709551616" }),
            json!({ "member": padded, "fence": "7" }),
            json!({ "member": format!("did:key:{long}"), "fence": "7" }),
            json!({ "member": "did:web:example.org", "fence": "7" }),
        ] {
            assert_eq!(read(metadata.clone()), Refusal::OfNewerNode(REDIRECTED.to_owned()), "{metadata:.200}");
        }
    }

    /// P-205
    #[test]
    fn what_has_no_proof_tells_of_no_task_that_moved() {
        let read = |metadata: Value| {
            let info = json!({ "@type": ERROR_INFO, "reason": TASK_MOVED, "domain": ALTHING, "metadata": metadata });
            let body = json!({ "code": SERVER_ERROR, "message": "there", "data": [info] });
            OperationError::from_peer(body.to_string().as_bytes()).refusal
        };
        let longest = "A".repeat(PROOF_CHARS_MAX);
        assert_eq!(read(json!({ "proof": longest, "more": 1 })), Refusal::TaskMoved { proof: longest.clone() });
        for metadata in [
            json!(null),
            json!([]),
            json!({}),
            json!({ "proof": null }),
            json!({ "proof": 7 }),
            json!({ "proof": "" }),
            json!({ "proof": "hA==" }),
            json!({ "proof": "h A" }),
            json!({ "proof": "h+/" }),
            json!({ "proof": format!("{longest}A") }),
            json!({ "member": member().did(), "fence": "7" }),
        ] {
            assert_eq!(read(metadata.clone()), Refusal::OfNewerNode(TASK_MOVED.to_owned()), "{metadata:.200}");
        }
    }

    #[test]
    fn that_a_turn_was_left_is_known_in_its_process_and_others_are_told_of_too_much_at_once() {
        let left = OperationError::new(Refusal::TurnLeft, "its node is being stopped");
        let told = OperationError::from_peer(left.to_json().to_string().as_bytes());
        assert_eq!(told, OperationError::busy(left.message));
        assert_eq!(left.refusal.rpc_code(), told.refusal.rpc_code());
    }

    /// A client that sees one may try again, as after any that says so.
    #[test]
    fn a_redirect_that_nobody_followed_is_told_as_too_much_at_once() {
        let redirected = Refusal::Redirected { member: member(), fence: 1 };
        assert_eq!(redirected.rpc_code(), Refusal::Overloaded.rpc_code());
    }

    #[test]
    fn an_internal_error_tells_nothing_but_a_reference() {
        let detail = "a batch of 4194305 bytes is over the limit: /var/lib/althing/store";
        let [one, two] = [detail, detail].map(|detail| OperationError::internal(detail).message);
        for leaked in ["4194305", "/var", "batch"] {
            assert!(!one.contains(leaked), "{one}");
        }
        assert!(one.contains("reference") && one != two, "each has a reference of its own: {one}; {two}");
    }

    #[test]
    fn an_agents_error_does_not_speak_for_its_node() {
        let refusal = OperationError::caller_not_allowed("no").to_json();
        let details = refusal["data"].as_array().cloned().expect("details");
        let error = OperationError::of_agent(-32_000, "no", details);
        assert_eq!((error.refusal.domain(), error.details.len()), (A2A, 0));
        let long = vec![json!({ "text": "x".repeat(DETAILS_BYTES_MAX) })];
        assert_eq!(OperationError::of_agent(-32_602, "no", long), OperationError::of_agent(-32_602, "no", Vec::new()));
    }

    #[test]
    fn a_peers_long_message_is_cut_where_a_character_ends() {
        for (domain, code) in [(A2A, -32_602), (ALTHING, -32_000)] {
            let info = json!({ "@type": ERROR_INFO, "reason": "OVERLOADED", "domain": domain });
            let message = format!("x{}", "ä".repeat(MESSAGE_BYTES_MAX));
            let body = json!({ "code": code, "message": message, "data": [info] });
            let error = OperationError::from_peer(body.to_string().as_bytes());
            assert_eq!((error.code(), error.message.len()), (code, MESSAGE_BYTES_MAX - 1), "{domain}");
        }
    }

    #[test]
    fn a_peers_nonsense_is_an_invalid_answer() {
        for body in
            [&b""[..], b"null", b"{}", br#"{"code":"x","message":"y"}"#, br#"{"code":99999999999,"message":""}"#]
        {
            assert_eq!(OperationError::from_peer(body).code(), error_code::INVALID_AGENT_RESPONSE);
        }
    }
}
