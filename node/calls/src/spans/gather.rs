//! Follows a trace over the nodes that it passed: this node's spans name nodes, theirs name more.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_call::{Decide, IncomingRequest, Service};
use althing_communication::refusal::said;
use althing_communication::{CallError, Caller, Communication, OpenError, Request};
use althing_discovery::Discovery;
use althing_failure::{CallStep, Kind, Remedy};
use althing_protocol::PublicKey;
use opentelemetry::trace::TraceId;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::outgoing::Calls;
use crate::spans::ring::SpanRing;
use crate::spans::service::{Question, SPANS, SPANS_BYTES_MAX, SPANS_MAX, TRACE, Told, parse};
use crate::spans::span::{Span, Summary};

/// Nodes that are asked for one trace.
const NODES_MAX: usize = 32;
/// How long a node may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// Traces that a beginning may stand for, in an error.
const ALIKE_MAX: usize = 4;
/// Characters that name a trace at least.
const BEGINNING_MIN: usize = 4;

/// Why a text names no trace.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TraceNameError {
    /// Too many traces may begin so.
    #[error("{0:?} is too short: a trace is named by {BEGINNING_MIN} of its digits at least")]
    Short(String),
    /// None begins so.
    #[error("no trace that begins with {0:?} is kept here")]
    Unknown(String),
    /// More than one begins so.
    #[error("several traces begin with {text:?}: {}", .alike.join(", "))]
    Several {
        /// What was written.
        text: String,
        /// Ids of traces that begin so, a few of them.
        alike: Vec<String>,
    },
}

impl TraceNameError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            TraceNameError::Short(_) => Kind::Invalid,
            TraceNameError::Unknown(_) | TraceNameError::Several { .. } => Kind::NotFound,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        match self {
            TraceNameError::Unknown(_) => Some(CallStep::ListTraces.into()),
            TraceNameError::Short(_) | TraceNameError::Several { .. } => None,
        }
    }
}

/// A span and the node that it is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSpan {
    /// The node.
    pub node: PublicKey,
    /// The span.
    pub span: Span,
}

/// A node that the trace passed and that told nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Untold {
    /// The node.
    pub node: PublicKey,
    /// Why.
    pub why: String,
}

/// What is known of a trace.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// Its spans, of this node and of others.
    pub spans: Vec<NodeSpan>,
    /// Nodes whose spans are missing.
    pub untold: Vec<Untold>,
    /// Whether a node left spans out, or there were more nodes than are asked.
    pub more: bool,
}

/// Recent traces, of this node and of its owner's other nodes.
#[derive(Clone)]
pub struct Traces {
    /// This node's spans.
    pub ring: Arc<SpanRing>,
    /// L2.
    pub communication: Communication,
    /// L3, which connects to nodes again.
    pub discovery: Discovery,
    /// Who decides which nodes are asked, and believed.
    pub decide: Arc<dyn Decide>,
    /// The tasks of this node, and where those are that it called others with.
    pub calls: Calls,
}

impl Traces {
    /// The newest traces that this node saw.
    #[must_use]
    pub fn recent(&self, most: usize) -> Vec<Summary> {
        self.ring.recent(most)
    }

    /// The trace that a text names: its id, or the beginning of one that this node saw.
    ///
    /// # Errors
    /// See [`TraceNameError`].
    pub fn resolve(&self, text: &str) -> Result<TraceId, TraceNameError> {
        if let Some(trace) = parse(text) {
            return Ok(trace);
        }
        if text.len() < BEGINNING_MIN {
            return Err(TraceNameError::Short(text.to_owned()));
        }
        match self.ring.beginning(text, ALIKE_MAX)[..] {
            [trace] => Ok(trace),
            [] => Err(TraceNameError::Unknown(text.to_owned())),
            ref alike => {
                let alike = alike.iter().map(ToString::to_string).collect();
                Err(TraceNameError::Several { text: text.to_owned(), alike })
            }
        }
    }

    /// The spans of a trace, of this node and of the nodes that it passed, as far as they are its owner's. If none is kept
    /// here, the owner's connected nodes are asked.
    pub async fn gather(&self, trace: TraceId) -> Gathered {
        let me = self.communication.network().local();
        let own = self.ring.of(trace, SPANS_MAX);
        let mut gathered = Gathered::default();
        let mut next: BTreeSet<PublicKey> = own.iter().flat_map(Span::nodes).collect();
        if own.is_empty() {
            next.extend(self.connected());
        }
        gathered.spans.extend(own.into_iter().map(|span| NodeSpan { node: me, span }));
        let mut asked = BTreeSet::from([me]);
        loop {
            next.retain(|node| !asked.contains(node));
            let room = (NODES_MAX + 1).saturating_sub(asked.len());
            gathered.more |= next.len() > room;
            let round: Vec<PublicKey> = std::mem::take(&mut next).into_iter().take(room).collect();
            if round.is_empty() {
                return gathered;
            }
            asked.extend(&round);
            let answers = futures::future::join_all(round.iter().map(|node| self.ask(*node, trace))).await;
            for (node, answer) in round.into_iter().zip(answers) {
                match answer {
                    Ok(told) => {
                        gathered.more |= told.more;
                        next.extend(told.spans.iter().flat_map(Span::nodes));
                        gathered.spans.extend(told.spans.into_iter().map(|span| NodeSpan { node, span }));
                    }
                    Err(why) => gathered.untold.push(Untold { node, why }),
                }
            }
        }
    }

    /// The owner's nodes that are connected.
    pub(super) fn connected(&self) -> impl Iterator<Item = PublicKey> + '_ {
        let peers = self.communication.network().peers().into_iter().map(|info| info.peer);
        peers.filter(|peer| self.is_own(*peer))
    }

    /// Whether a node has proven that it is this node's owner's.
    fn is_own(&self, node: PublicKey) -> bool {
        let caller = Caller { node, owner: self.communication.owner(node) };
        self.decide.decide_incoming(&IncomingRequest::plain(Service::Traces, &caller)).allows_at_once()
    }

    async fn ask(&self, node: PublicKey, trace: TraceId) -> Result<Told, String> {
        let name = trace.to_string();
        let mut told: Told = self.told_by(node, (SPANS, &Question { trace: name.clone() }), SPANS_BYTES_MAX).await?;
        told.spans.retain(|span| span.is_of(&name));
        told.spans.truncate(SPANS_MAX);
        Ok(told)
    }

    /// What a node of the owner says to a question, in an answer of about that many bytes at most; or why nothing, in words for a
    /// person.
    pub(super) async fn told_by<A: DeserializeOwned>(
        &self,
        node: PublicKey,
        (operation, question): (&'static str, &impl Serialize),
        bytes_max: usize,
    ) -> Result<A, String> {
        let late = |_| format!("it did not answer within {} s", PATIENCE.as_secs());
        let body = serde_json::to_vec(question).map_err(|error| error.to_string())?;
        let request = || Request { deadline: Some(PATIENCE), ..Request::new(operation, body.clone()) };
        let body = tokio::time::timeout(PATIENCE, self.call(node, request)).await.map_err(late)??;
        // The owner is known since the stream was opened. What others say is not believed.
        if !self.is_own(node) {
            return Err("it is another owner's, so what it says is not taken".to_owned());
        }
        // Beside what is told an answer has members of its own.
        if body.len() > bytes_max + 1_024 {
            return Err(format!("its answer has more than {bytes_max} bytes"));
        }
        serde_json::from_slice(&body).map_err(|_| "its answer is none to that question".to_owned())
    }

    /// Asks a node; it is connected to again where it was not.
    async fn call(&self, node: PublicKey, request: impl Fn() -> Request) -> Result<Vec<u8>, String> {
        let first = self.communication.call(node, TRACE, request()).await;
        let answer = match first {
            Err(CallError::Unreachable { reason: OpenError::NotConnected, .. })
                if self.discovery.reconnect(node).await =>
            {
                self.communication.call(node, TRACE, request()).await
            }
            answer => answer,
        };
        answer.map_err(|error| match error {
            CallError::Refused { body, .. } => said(&body).1,
            error => error.to_string(),
        })
    }
}
