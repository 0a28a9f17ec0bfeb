//! Requests and replies of operations between the faces, `calls` and L2.

use std::sync::Arc;

use althing_communication::{Holder, Priority};
use althing_execution::TurnRights;
use althing_protocol::{Activated, AnswerAttributes, Attributes, PublicKey};
use futures::stream::BoxStream;
use serde::Serialize;

use crate::chain::Principal;
use crate::error::OperationError;
use crate::operation::Operation;
use crate::params::Params;
use crate::target::Target;
use crate::trace::Trace;

/// An operation with its parameters, parsed and checked once. The bytes are passed on unchanged.
#[derive(Debug, Clone, PartialEq)]
pub struct OperationRequest {
    operation: Operation,
    bytes: Vec<u8>,
    /// Its parameters, parsed.
    pub params: Params,
}

impl OperationRequest {
    /// Reads the parameters of an operation.
    ///
    /// # Errors
    /// `InvalidParams` with the member that breaks a rule.
    pub fn parse(operation: Operation, bytes: Vec<u8>) -> Result<OperationRequest, OperationError> {
        let params = Params::parse(operation, &bytes)?;
        Ok(OperationRequest { operation, bytes, params })
    }

    /// That a message is sent which this node put together itself: nothing of it is read again. `about` is how many bytes its JSON
    /// has, as far as that is known.
    ///
    /// # Errors
    /// `Internal`, where it has no JSON.
    pub fn of_message(request: a2a::SendMessageRequest, about: usize) -> Result<OperationRequest, OperationError> {
        let mut bytes = Vec::with_capacity(about);
        let written = serde_json::to_writer(&mut bytes, &request);
        written.map_err(|error| OperationError::internal(error.to_string()))?;
        let params = Params::Send(Box::new(request));
        Ok(OperationRequest { operation: Operation::SendMessage, bytes, params })
    }

    /// Which operation it is.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.operation
    }

    /// Its parameters as received.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// A call of one operation of one agent.
#[derive(Debug, Clone)]
pub struct CallRequest {
    /// The agent that it calls, which whoever asks may have.
    pub target: Target,
    /// The operation with its parameters.
    pub request: OperationRequest,
    /// What travels beside the parameters.
    pub metadata: CallMetadata,
    /// The trace that it is part of.
    pub trace: Trace,
    /// How urgent it is.
    pub priority: Priority,
    /// The hash of the manifest of the agent in whose turn it is made; empty outside turns.
    pub binding_hash: Arc<str>,
    /// The one host that it may be sent to, where it names no task; none: whichever host takes it.
    pub host: Option<PublicKey>,
}

impl CallRequest {
    /// A call on behalf of `principals`, the origin first.
    #[must_use]
    pub fn new(target: Target, request: OperationRequest, principals: Vec<Principal>) -> CallRequest {
        CallRequest {
            target,
            request,
            metadata: CallMetadata { principals, ..CallMetadata::default() },
            trace: Trace::default(),
            priority: Priority::default(),
            binding_hash: Arc::default(),
            host: None,
        }
    }

    /// Which operation it calls.
    #[must_use]
    pub fn operation(&self) -> Operation {
        self.request.operation
    }

    /// Makes it part of that trace.
    #[must_use]
    pub fn in_trace(self, trace: Trace) -> CallRequest {
        CallRequest { trace, ..self }
    }

    /// Makes it part of the turn of an agent that was bound to the manifest with that hash: its spans carry it.
    #[must_use]
    pub fn in_turn_bound_by(self, binding_hash: Arc<str>) -> CallRequest {
        CallRequest { binding_hash, ..self }
    }

    /// Has it go to that host and to no other, if it is given: one that may have been sent before, under its key, to that host alone.
    #[must_use]
    pub fn for_host(self, host: Option<PublicKey>) -> CallRequest {
        CallRequest { host, ..self }
    }

    /// Sets the URIs of the A2A extensions that the client requests.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Vec<String>) -> CallRequest {
        self.metadata.extensions = extensions;
        self
    }

    /// Has those that the agent activates named there.
    #[must_use]
    pub fn naming_in(mut self, activated: Activated) -> CallRequest {
        self.metadata.activated = activated;
        self
    }

    /// Sets label, session and delegation of the call.
    #[must_use]
    pub fn with_attributes(mut self, attributes: Attributes) -> CallRequest {
        self.metadata.attributes = attributes;
        self
    }

    /// Has those of the answer added there.
    #[must_use]
    pub fn adding_to(mut self, answer: AnswerAttributes) -> CallRequest {
        self.metadata.answer = answer;
        self
    }

    /// Makes it work on a task of a group. Nothing of that is sent to another node.
    #[must_use]
    pub fn under(mut self, rights: TurnRights) -> CallRequest {
        self.metadata.rights = rights;
        self
    }

    /// Sets the priority: an agent's calls have that of its class.
    #[must_use]
    pub fn with_priority(self, priority: Priority) -> CallRequest {
        CallRequest { priority, ..self }
    }
}

/// What travels beside the parameters of an operation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CallMetadata {
    /// URIs of the A2A extensions that the client requests.
    pub extensions: Vec<String>,
    /// Those of them that the agent activates, wherever it is: named with its first answer.
    pub activated: Activated,
    /// Label, session and delegation of the call.
    pub attributes: Attributes,
    /// Those of the answer, wherever the agent is: each reply may add to them.
    pub answer: AnswerAttributes,
    /// The principal chain, the origin first: the last is the authenticated caller, those before it are what its node claims.
    pub principals: Vec<Principal>,
    /// Trust level and origin of the calling node; none if the call comes from this node.
    pub holder: Option<Holder>,
    /// The lease of the group task that the call is for, of which its turn acts; only this node sets it: its own part in groups, and
    /// agents that work under one.
    pub rights: TurnRights,
}

/// The reply to an operation.
pub enum Reply {
    /// The result's JSON.
    One(Vec<u8>),
    /// A stream of `StreamResponse`s as JSON; the first error ends it.
    Events(BoxStream<'static, Result<Vec<u8>, OperationError>>),
}

impl Reply {
    /// A result as JSON.
    ///
    /// # Errors
    /// `Internal`, where the value has no JSON.
    pub fn json(value: &impl Serialize) -> Result<Reply, OperationError> {
        serde_json::to_vec(value).map(Reply::One).map_err(|error| OperationError::internal(error.to_string()))
    }
}
