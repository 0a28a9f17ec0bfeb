//! From the YAML tree to a handoff: known and required keys, types and forms. Bounds are the protocol's.

use althing_protocol::contract::DataLabel;
use althing_protocol::object::{
    AgentMemory, AuditEntry, Handoff, HandoffArtifact, HandoffConstraints, HandoffContext, HandoffSender, Regulation,
    SignOff,
};
use althing_protocol::{AgentId, Digest, Label, PublicKey, sign_off};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::view::{HandoffFile, HandoffSignature};
use crate::json::excerpt;
use crate::reader::yaml::{At, Node};
use crate::reader::{Fields, FileProblem, Reader};

pub(super) const FILE_KEYS: [&str; 14] = [
    "handoff_id",
    "task_id",
    "sender",
    "recipient",
    "issued_at_ms",
    "not_after_ms",
    "context",
    "assumptions",
    "quality_checklist",
    "artifacts",
    "label",
    "previous",
    "regulation",
    "signature",
];
pub(super) const SENDER_KEYS: [&str; 2] = ["agent", "session"];
pub(super) const CONTEXT_KEYS: [&str; 6] =
    ["task_description", "workspace_path", "state_snapshot", "agent_memory", "tools_required", "constraints"];
pub(super) const MEMORY_KEYS: [&str; 3] = ["key_decisions", "discovered_pitfalls", "pending_items"];
pub(super) const CONSTRAINTS_KEYS: [&str; 3] = ["max_turns", "deadline_ms", "compliance_level"];
pub(super) const ARTIFACT_KEYS: [&str; 4] = ["name", "media_type", "size", "digest"];
pub(super) const LABEL_KEYS: [&str; 2] = ["level", "trusted"];
pub(super) const REGULATION_KEYS: [&str; 5] = ["classification", "region", "regulation_refs", "audit", "sign_offs"];
pub(super) const AUDIT_KEYS: [&str; 2] = ["event", "digest"];
pub(super) const SIGN_OFF_KEYS: [&str; 3] = ["role", "until_ms", "signature"];
pub(super) const SIGNATURE_KEYS: [&str; 3] = ["network", "signer", "value"];

const LEVELS: [DataLabel; 4] = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
/// Characters of a value that a message repeats.
const EXCERPT_CHARS: usize = 80;

/// The file as far as its shape is right, and the problems.
pub(super) fn read(root: &At) -> (Option<HandoffFile>, Vec<FileProblem>) {
    let mut reader = Reader::default();
    let file = file(&mut reader, root);
    (file, reader.problems)
}

fn file(reader: &mut Reader, root: &At) -> Option<HandoffFile> {
    let fields = reader.fields(root, "", &FILE_KEYS)?;
    let id = formed(reader, &fields, "handoff_id", "018bcfe5-6800-7000-8000-0000000000aa", uuid);
    let task = reader.needed(&fields, "task_id");
    let sender = below(reader, &fields, "sender", &SENDER_KEYS).and_then(|fields| {
        let agent = agent(reader, &fields, "agent");
        let session = digest(reader, &fields, "session");
        Some(HandoffSender { agent: agent?, session })
    });
    let recipient = agent(reader, &fields, "recipient");
    let issued_at_ms = whole(reader, &fields, "issued_at_ms");
    let not_after_ms = whole(reader, &fields, "not_after_ms");
    let context = below(reader, &fields, "context", &CONTEXT_KEYS).map(|fields| context(reader, &fields));
    let assumptions = reader.texts(&fields, "assumptions").unwrap_or_default();
    let quality_checklist = reader.texts(&fields, "quality_checklist").unwrap_or_default();
    let artifacts = reader.list(&fields, "artifacts", artifact).unwrap_or_default();
    let label = label(reader, &fields);
    let previous = digest(reader, &fields, "previous");
    let regulation = regulation(reader, &fields);
    let signature = signature(reader, &fields);
    let sender = sender?;
    let agents = (sender.agent.clone(), recipient?);
    let mut handoff = Handoff::new(id?, task?, agents, issued_at_ms?, not_after_ms?);
    handoff.sender = sender;
    handoff.context = context?;
    handoff.assumptions = assumptions;
    handoff.quality_checklist = quality_checklist;
    handoff.artifacts = artifacts;
    handoff.label = label;
    handoff.previous = previous;
    handoff.regulation = regulation;
    Some(HandoffFile { handoff, signature })
}

fn context(reader: &mut Reader, fields: &Fields<'_>) -> HandoffContext {
    let agent_memory = optional(reader, fields, "agent_memory", &MEMORY_KEYS).map(|fields| AgentMemory {
        key_decisions: reader.texts(&fields, "key_decisions").unwrap_or_default(),
        discovered_pitfalls: reader.texts(&fields, "discovered_pitfalls").unwrap_or_default(),
        pending_items: reader.texts(&fields, "pending_items").unwrap_or_default(),
    });
    let constraints = optional(reader, fields, "constraints", &CONSTRAINTS_KEYS).map(|fields| HandoffConstraints {
        max_turns: reader.number(&fields, "max_turns", 0..=u32::MAX),
        deadline_ms: reader.whole(&fields, "deadline_ms"),
        compliance_level: reader.text(&fields, "compliance_level"),
    });
    HandoffContext {
        // Without one a handoff is incomplete, which is for whoever is to take it to say.
        task_description: reader.text(fields, "task_description").unwrap_or_default(),
        workspace_path: reader.text(fields, "workspace_path"),
        state_snapshot: form(reader, fields, "state_snapshot", "bytes in base64", |text| STANDARD.decode(text).ok()),
        agent_memory: agent_memory.unwrap_or_default(),
        tools_required: reader.texts(fields, "tools_required").unwrap_or_default(),
        constraints: constraints.unwrap_or_default(),
    }
}

fn artifact(reader: &mut Reader, at: &At, path: String) -> Option<HandoffArtifact> {
    let fields = reader.fields(at, &path, &ARTIFACT_KEYS)?;
    let (name, media_type) = (reader.needed(&fields, "name"), reader.needed(&fields, "media_type"));
    let (size, digest) = (whole(reader, &fields, "size"), needed_digest(reader, &fields, "digest"));
    Some(HandoffArtifact { name: name?, media_type: media_type?, size: size?, digest: digest? })
}

fn label(reader: &mut Reader, fields: &Fields<'_>) -> Option<Label> {
    let fields = optional(reader, fields, "label", &LABEL_KEYS)?;
    let level = level(reader, &fields, "level");
    let trusted = match fields.value("trusted") {
        Some(At { node: Node::Bool(trusted), .. }) => Some(*trusted),
        Some(at) => {
            reader.wrong_type(fields.path_of("trusted"), at, "true or false");
            None
        }
        None => {
            reader.missing(&fields, "trusted");
            None
        }
    };
    Some(Label { level: level?, trusted: trusted? })
}

fn regulation(reader: &mut Reader, fields: &Fields<'_>) -> Option<Regulation> {
    let fields = optional(reader, fields, "regulation", &REGULATION_KEYS)?;
    let classification = level(reader, &fields, "classification");
    let region = reader.text(&fields, "region");
    let regulation_refs = reader.texts(&fields, "regulation_refs").unwrap_or_default();
    let audit = reader.list(&fields, "audit", |reader, at, path| {
        let fields = reader.fields(at, &path, &AUDIT_KEYS)?;
        let (event, digest) = (reader.needed(&fields, "event"), needed_digest(reader, &fields, "digest"));
        Some(AuditEntry { event: event?, digest: digest? })
    });
    let sign_offs = reader.list(&fields, "sign_offs", |reader, at, path| {
        let fields = reader.fields(at, &path, &SIGN_OFF_KEYS)?;
        let (role, until_ms) = (reader.needed(&fields, "role"), whole(reader, &fields, "until_ms"));
        let wanted = "all lines of the file that `ssh-keygen -Y sign` made";
        let signature = formed(reader, &fields, "signature", wanted, |text| sign_off::unarmor(text).ok());
        Some(SignOff { role: role?, until_ms: until_ms?, signature: signature? })
    });
    Some(Regulation {
        classification: classification?,
        region,
        regulation_refs,
        audit: audit.unwrap_or_default(),
        sign_offs: sign_offs.unwrap_or_default(),
    })
}

fn signature(reader: &mut Reader, fields: &Fields<'_>) -> Option<HandoffSignature> {
    let fields = optional(reader, fields, "signature", &SIGNATURE_KEYS)?;
    let network = reader.needed(&fields, "network");
    let signer = formed(reader, &fields, "signer", "did:key:z6Mk…", |text| PublicKey::from_did(text).ok());
    let bytes = |text: &str| <[u8; 64]>::try_from(STANDARD.decode(text).ok()?).ok();
    let value = formed(reader, &fields, "value", "64 bytes in base64", bytes);
    Some(HandoffSignature { network: network?, signer: signer?, value: value? })
}

/// A map that may be absent.
fn optional<'a>(reader: &mut Reader, fields: &Fields<'a>, key: &str, known: &[&str]) -> Option<Fields<'a>> {
    let at = fields.value(key)?;
    reader.fields(at, &fields.path_of(key), known)
}

/// A map that must be there.
fn below<'a>(reader: &mut Reader, fields: &Fields<'a>, key: &str, known: &[&str]) -> Option<Fields<'a>> {
    if !fields.has(key) {
        reader.missing(fields, key);
    }
    optional(reader, fields, key, known)
}

fn whole(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<u64> {
    if !fields.has(key) {
        reader.missing(fields, key);
    }
    reader.whole(fields, key)
}

fn level(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<DataLabel> {
    if !fields.has(key) {
        reader.missing(fields, key);
    }
    let names = LEVELS.map(DataLabel::name);
    reader.word(fields, key, (&names, ""), |word| LEVELS.into_iter().find(|level| level.name() == word))
}

fn agent(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<AgentId> {
    formed(reader, fields, key, "an agent's id, urn:althing:zQm…:name", |text| text.parse().ok())
}

fn digest(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<Digest> {
    form(reader, fields, key, "64 digits of 0-9 and a-f", unhex)
}

fn needed_digest(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<Digest> {
    formed(reader, fields, key, "a SHA-256, 64 digits of 0-9 and a-f", unhex)
}

/// A text of a certain form that must be there.
fn formed<T>(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    wanted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    if !fields.has(key) {
        reader.missing(fields, key);
    }
    form(reader, fields, key, wanted, read)
}

/// A text of a certain form, if it is there; `wanted` is that form, or an example of it.
fn form<T>(
    reader: &mut Reader,
    fields: &Fields<'_>,
    key: &str,
    wanted: &str,
    read: impl Fn(&str) -> Option<T>,
) -> Option<T> {
    let text = reader.text(fields, key)?;
    let value = read(&text);
    if value.is_none() {
        let message = format!("{:?} has another form", excerpt(&text, EXCERPT_CHARS));
        reader.refuse(fields, key, "form", message, format!("Write {wanted}"));
    }
    value
}

/// The bytes of lower-case hexadecimal digits, of the length that is asked for.
fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    if text.len() != 2 * N || !text.bytes().all(|digit| matches!(digit, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    for (at, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * at..2 * at + 2], 16).ok()?;
    }
    Some(bytes)
}

/// The bytes of a UUID in its text form.
fn uuid(text: &str) -> Option<[u8; 16]> {
    let groups: Vec<&str> = text.split('-').collect();
    let is_formed = groups.iter().map(|group| group.len()).eq([8, 4, 4, 4, 12]);
    is_formed.then(|| unhex(&groups.concat())).flatten()
}
