//! From a handoff to its view.

use althing_protocol::object::{Handoff, HandoffArtifact, HandoffContext, Regulation};
use althing_protocol::{hex, sign_off};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::view::{HandoffFile, HandoffSignature};

/// The view as JSON, which [`super::parse_handoff`] reads. What a handoff does not have is left out, but for lists.
#[must_use]
pub fn handoff_json(file: &HandoffFile) -> Value {
    handoff_view(&file.handoff, file.signature.as_ref())
}

/// The same of a handoff and its signature, if it has one.
#[must_use]
pub fn handoff_view(handoff: &Handoff, signature: Option<&HandoffSignature>) -> Value {
    let Handoff { handoff_id, task_id, sender, recipient, issued_at_ms, not_after_ms, context, .. } = handoff;
    let Handoff { assumptions, quality_checklist, artifacts, label, previous, regulation, .. } = handoff;
    let session = sender.session.map(|session| json!(hex(&session)));
    members([
        ("handoff_id", Some(json!(uuid(handoff_id)))),
        ("task_id", Some(json!(task_id))),
        ("sender", Some(members([("agent", Some(json!(sender.agent.to_string()))), ("session", session)]))),
        ("recipient", Some(json!(recipient.to_string()))),
        ("issued_at_ms", Some(json!(issued_at_ms))),
        ("not_after_ms", Some(json!(not_after_ms))),
        ("context", Some(context_json(context))),
        ("assumptions", Some(json!(assumptions))),
        ("quality_checklist", Some(json!(quality_checklist))),
        ("artifacts", Some(artifacts.iter().map(artifact_json).collect())),
        ("label", label.map(|label| json!(label))),
        ("previous", previous.map(|digest| json!(hex(&digest)))),
        ("regulation", regulation.as_ref().map(regulation_json)),
        ("signature", signature.map(signature_json)),
    ])
}

/// The view of [`handoff_json`] for people: a line for each value, with the path to it.
#[must_use]
pub fn handoff_text(view: &Value) -> String {
    let mut lines = String::new();
    put(&mut lines, "", view);
    lines
}

fn put(lines: &mut String, path: &str, value: &Value) {
    let below = |key: &str| if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") };
    match value {
        Value::Object(members) => members.iter().for_each(|(key, value)| put(lines, &below(key), value)),
        Value::Array(items) => items.iter().for_each(|item| put(lines, path, item)),
        Value::String(text) => lines.push_str(&format!("{path}: {}\n", text.trim_end().replace('\n', "\n  "))),
        other => lines.push_str(&format!("{path}: {other}\n")),
    }
}

/// An object with those members that there are.
fn members<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<String, Value>>())
}

fn context_json(context: &HandoffContext) -> Value {
    let HandoffContext { task_description, workspace_path, state_snapshot, agent_memory, tools_required, constraints } =
        context;
    members([
        ("task_description", Some(json!(task_description))),
        ("workspace_path", workspace_path.as_ref().map(|path| json!(path))),
        ("state_snapshot", state_snapshot.as_ref().map(|state| json!(STANDARD.encode(state)))),
        (
            "agent_memory",
            Some(json!({
                "key_decisions": agent_memory.key_decisions,
                "discovered_pitfalls": agent_memory.discovered_pitfalls,
                "pending_items": agent_memory.pending_items,
            })),
        ),
        ("tools_required", Some(json!(tools_required))),
        (
            "constraints",
            Some(members([
                ("max_turns", constraints.max_turns.map(|turns| json!(turns))),
                ("deadline_ms", constraints.deadline_ms.map(|at| json!(at))),
                ("compliance_level", constraints.compliance_level.as_ref().map(|level| json!(level))),
            ])),
        ),
    ])
}

fn artifact_json(artifact: &HandoffArtifact) -> Value {
    let HandoffArtifact { name, media_type, size, digest } = artifact;
    json!({ "name": name, "media_type": media_type, "size": size, "digest": hex(digest) })
}

fn regulation_json(regulation: &Regulation) -> Value {
    let audit = regulation.audit.iter().map(|entry| json!({ "event": entry.event, "digest": hex(&entry.digest) }));
    let sign_offs = regulation
        .sign_offs
        .iter()
        .map(|it| json!({ "role": it.role, "until_ms": it.until_ms, "signature": sign_off::armor(&it.signature) }));
    members([
        ("classification", Some(json!(regulation.classification))),
        ("region", regulation.region.as_ref().map(|region| json!(region))),
        ("regulation_refs", Some(json!(regulation.regulation_refs))),
        ("audit", Some(audit.collect())),
        ("sign_offs", Some(sign_offs.collect())),
    ])
}

fn signature_json(signature: &HandoffSignature) -> Value {
    let HandoffSignature { network, signer, value } = signature;
    json!({ "network": network, "signer": signer.did(), "value": STANDARD.encode(value) })
}

fn uuid(id: &[u8; 16]) -> String {
    let digits = hex(id);
    let groups = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    groups.join("-")
}
