//! `GET /tap`: the messages that pass between this node and its peers, as lines.

use std::sync::Arc;

use althing_api::{TapBody, TapDirection, TapGap, TapLine, TapMessage, TapRequest};
use althing_node::{Passed, Tapped, Taps};
use althing_operations::Operations;
use althing_protocol::hex;
use axum::extract::State;
use axum::response::Response;
use futures::stream;

use crate::body::Parameters;
use crate::lines::ndjson;

/// By which nodes keep the mesh and its groups running; shown only where that is asked for.
const MAINTENANCE: [&str; 5] =
    ["/althing/placements/", "/althing/raft/", "/althing/reach/", "/althing/keys/", "/althing/trace/"];
/// Of a body that is no text, in hexadecimal digits.
const OTHER_BYTES_MAX: usize = 64;

/// Shows messages until whoever asked hangs up.
pub async fn tap(State(node): State<Arc<Operations>>, Parameters(asked): Parameters<TapRequest>) -> Response {
    let taps = node.communication.tap();
    let lines = stream::unfold((taps, node, asked), |(mut taps, node, asked)| async move {
        let line = tokio::select! {
            () = node.stop.cancelled() => None,
            line = next(&mut taps, &node, &asked) => line,
        };
        Some((line?, (taps, node, asked)))
    });
    ndjson(lines)
}

/// The next message that was asked for.
async fn next(taps: &mut Taps, node: &Operations, asked: &TapRequest) -> Option<TapLine> {
    loop {
        match taps.next().await? {
            Passed::Missed(missed) => return Some(TapLine::Gap(TapGap { missed })),
            Passed::Message(message) if is_wanted(&message, asked) => {
                return Some(TapLine::Message(Box::new(shown(&message, node))));
            }
            Passed::Message(_) => {}
        }
    }
}

fn is_wanted(message: &Tapped, asked: &TapRequest) -> bool {
    let agent = |wanted: &String| {
        message.agent.as_ref().is_some_and(|agent| agent.name() == wanted || agent.to_string() == *wanted)
    };
    asked.agent.as_ref().is_none_or(agent)
        && asked.peer.as_ref().is_none_or(|wanted| message.peer.did() == *wanted)
        && is_shown(message.protocol, asked.protocol.as_deref())
}

/// Whether messages of a protocol are shown: where one is named, those whose name has that in it.
fn is_shown(protocol: &str, wanted: Option<&str>) -> bool {
    match wanted {
        Some(wanted) => protocol.contains(wanted),
        None => !MAINTENANCE.iter().any(|maintenance| protocol.starts_with(maintenance)),
    }
}

fn shown(message: &Tapped, node: &Operations) -> TapMessage {
    TapMessage {
        at_ms: node.clock().now_ms(),
        direction: if message.incoming { TapDirection::In } else { TapDirection::Out },
        peer: message.peer.did(),
        protocol: message.protocol.to_owned(),
        kind: format!("{:?}", message.kind).to_lowercase(),
        operation: message.operation.clone(),
        agent: message.agent.as_ref().map(ToString::to_string),
        principals: message.principals.clone(),
        deadline_ms: message.deadline_ms,
        traceparent: message.traceparent.clone(),
        label: message.attributes.label,
        session: message.attributes.session.map(|session| hex(&session)),
        delegation_bytes: message.attributes.delegation.as_ref().map(Vec::len),
        bytes: message.bytes,
        body: body(message),
    }
}

/// The beginning of a body: as text if it is some, else its bytes.
fn body(message: &Tapped) -> TapBody {
    // The cut may be within a character.
    let text = match std::str::from_utf8(&message.body) {
        Ok(text) => Some(text),
        Err(error) if error.error_len().is_none() => std::str::from_utf8(&message.body[..error.valid_up_to()]).ok(),
        Err(_) => None,
    };
    match text.filter(|text| !text.contains(|c: char| c.is_control() && !c.is_whitespace())) {
        Some(text) => TapBody::Text(text.to_owned()),
        None => TapBody::Bytes { hex: hex(&message.body[..message.body.len().min(OTHER_BYTES_MAX)]) },
    }
}

#[cfg(test)]
mod tests {
    use althing_calls::CALL;
    use althing_coordination::RAFT;

    use super::is_shown;

    #[test]
    fn what_keeps_the_mesh_running_is_shown_only_where_it_is_named() {
        assert!(is_shown(CALL, None) && is_shown("/althing/describe/1", None) && is_shown("/althing/new/1", None));
        for maintenance in [RAFT, "/althing/placements/1", "/althing/keys/1", "/althing/reach/1", "/althing/trace/1"] {
            assert!(!is_shown(maintenance, None), "{maintenance}");
            assert!(is_shown(maintenance, Some("althing")), "{maintenance}");
        }
        assert!(is_shown(RAFT, Some("raft")) && !is_shown(CALL, Some("raft")));
    }
}
