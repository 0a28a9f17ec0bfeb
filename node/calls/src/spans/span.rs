//! A span as it is shown and sent, and what a list of traces says of each.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::PublicKey;
use serde::{Deserialize, Serialize};

/// Characters of a trace's id, of a span's id.
const TRACE_ID: usize = 32;
const SPAN_ID: usize = 16;
/// Bytes of a span's name, and of an attribute's.
const NAME_BYTES_MAX: usize = 128;
/// Bytes of an attribute's value; a longer one is cut.
pub(crate) const VALUE_BYTES_MAX: usize = 4 << 10;
/// Attributes of a span.
pub(crate) const ATTRIBUTES_MAX: usize = 64;

/// The attribute of a server's span that names the node which called, and that of a client's span which names the node
/// that was called.
const NODES: [&str; 2] = ["caller", "peer"];

/// A span that has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Span {
    /// The trace, in lower-case hexadecimal.
    pub trace: String,
    /// Its own id, in lower-case hexadecimal.
    pub id: String,
    /// The id of the span that it is part of, on this node or another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<String>,
    /// What was done.
    pub name: String,
    /// `internal`, `client`, `server`, `producer` or `consumer`.
    pub kind: String,
    /// When it began, microseconds since 1970 by its node's clock.
    pub began_us: u64,
    /// How long it took, microseconds.
    pub took_us: u64,
    /// Why it failed, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What else is known of it, by the names of OpenTelemetry's conventions where there are any.
    #[serde(default)]
    pub attributes: BTreeMap<String, String>,
}

impl Span {
    /// The nodes that the call came from and went to.
    pub fn nodes(&self) -> impl Iterator<Item = PublicKey> {
        let named = NODES.iter().filter_map(|name| self.attributes.get(*name));
        named.filter_map(|did| PublicKey::from_did(did).ok())
    }

    /// Whether it is a span of that trace, within the bounds of what a node sends.
    pub(crate) fn is_of(&self, trace: &str) -> bool {
        let hex = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte))
        };
        let bounded =
            |(name, value): (&String, &String)| name.len() <= NAME_BYTES_MAX && value.len() <= VALUE_BYTES_MAX;
        self.trace == trace
            && hex(&self.trace, TRACE_ID)
            && hex(&self.id, SPAN_ID)
            && self.parent.as_ref().is_none_or(|parent| hex(parent, SPAN_ID))
            && self.name.len() <= NAME_BYTES_MAX
            && self.kind.len() <= NAME_BYTES_MAX
            && self.failed.as_ref().is_none_or(|failed| failed.len() <= VALUE_BYTES_MAX)
            && self.attributes.len() <= ATTRIBUTES_MAX
            && self.attributes.iter().all(bounded)
    }
}

/// What a list says of a trace, as far as this node has seen it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Summary {
    /// The trace.
    pub trace: String,
    /// When its first span here began, microseconds since 1970.
    pub began_us: u64,
    /// From then to the end of its last span here, microseconds.
    pub took_us: u64,
    /// The name of its first span.
    pub name: String,
    /// The operation of its first span that has one.
    pub operation: Option<String>,
    /// The agent that was called.
    pub agent: Option<String>,
    /// Spans that are kept here.
    pub spans: usize,
    /// Other nodes that it came from, or went to.
    pub nodes: usize,
    /// Whether a span failed.
    pub failed: bool,
}

impl Summary {
    /// Of the spans of one trace; none without spans.
    pub(crate) fn of(spans: &[Span]) -> Option<Summary> {
        let first = spans.iter().min_by_key(|span| span.began_us)?;
        let end = spans.iter().map(|span| span.began_us.saturating_add(span.took_us)).max()?;
        let named = |name: &str| {
            let mut by_time: Vec<&Span> = spans.iter().filter(|span| span.attributes.contains_key(name)).collect();
            by_time.sort_by_key(|span| span.began_us);
            by_time.first().and_then(|span| span.attributes.get(name).cloned())
        };
        let nodes: BTreeSet<PublicKey> = spans.iter().flat_map(Span::nodes).collect();
        Some(Summary {
            trace: first.trace.clone(),
            began_us: first.began_us,
            took_us: end.saturating_sub(first.began_us),
            name: first.name.clone(),
            operation: named("rpc.method"),
            agent: named("agent"),
            spans: spans.len(),
            nodes: nodes.len(),
            failed: spans.iter().any(|span| span.failed.is_some()),
        })
    }
}
