//! A handoff: one agent gives work to another one, with what that must know to go on.

use std::collections::BTreeSet;

use minicbor::{Decode, Encode};

use super::{Authored, Kind, ObjectError, Statement, in_time, life, open_joined};
use crate::contract::DataLabel;
use crate::identity::{AgentId, PublicKey};
use crate::limits::{
    HANDOFF_DESCRIPTION_BYTES_MAX, HANDOFF_ITEMS_MAX, HANDOFF_LIFE_MAX_MS, HANDOFF_SIGN_OFF_BYTES_MAX,
    HANDOFF_SIGN_OFFS_MAX, HANDOFF_SNAPSHOT_BYTES_MAX, HANDOFF_TEXT_BYTES_MAX, TASK_ID_BYTES_MAX, WORK_NAME_BYTES_MAX,
};
use crate::sign_off::{SignOffError, SshSignature};
use crate::{Digest, Label, cbor, hex, hidden_in, sign1};

/// What the node of an agent signs when that agent gives work to another agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Handoff {
    #[n(0)]
    kind: Kind,
    /// Which handoff: a UUID of version 7. What is offered again has the same one.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub handoff_id: [u8; 16],
    /// The sender's task that ends with the recipient's result, 1 to 256 bytes.
    #[n(2)]
    pub task_id: String,
    /// Who gives the work away.
    #[n(3)]
    pub sender: HandoffSender,
    /// Who is to do it; for another agent it is no handoff.
    #[n(4)]
    pub recipient: AgentId,
    /// When it was made, Unix milliseconds.
    #[n(5)]
    pub issued_at_ms: u64,
    /// Until when it can be accepted, Unix milliseconds, at most 24 h after `issued_at_ms`.
    #[n(6)]
    pub not_after_ms: u64,
    /// What the recipient must know.
    #[n(7)]
    pub context: HandoffContext,
    /// What the sender took for granted, and did not check.
    #[n(8)]
    pub assumptions: Vec<String>,
    /// What must be true of the result.
    #[n(9)]
    pub quality_checklist: Vec<String>,
    /// What belongs to the work and is not in here.
    #[n(10)]
    pub artifacts: Vec<HandoffArtifact>,
    /// The label of everything in here, where something may be said of it.
    #[n(11)]
    pub label: Option<Label>,
    /// The digest of the signed handoff by which the sender got the work itself.
    #[cbor(n(12), with = "minicbor::bytes")]
    pub previous: Option<Digest>,
    /// What regulated work has besides.
    #[n(13)]
    pub regulation: Option<Regulation>,
}

/// Who gives work away.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HandoffSender {
    /// Which agent had it.
    #[n(0)]
    pub agent: AgentId,
    /// The session in which it had the work (P-202).
    #[cbor(n(1), with = "minicbor::bytes")]
    pub session: Option<[u8; 32]>,
}

/// What the recipient must know.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HandoffContext {
    /// What is to be done, at most 64 KiB.
    #[n(0)]
    pub task_description: String,
    /// Where the work lies, as the sender names it.
    #[n(1)]
    pub workspace_path: Option<String>,
    /// How far the work is, in a form that the two agents know, at most 512 KiB.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub state_snapshot: Option<Vec<u8>>,
    /// What was learned on the way.
    #[n(3)]
    pub agent_memory: AgentMemory,
    /// Names of tools without which the work cannot be done. It is a question, and grants nothing.
    #[n(4)]
    pub tools_required: Vec<String>,
    /// Bounds of the work.
    #[n(5)]
    pub constraints: HandoffConstraints,
}

/// What the sender learned on the way.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AgentMemory {
    /// What was decided, and why.
    #[n(0)]
    pub key_decisions: Vec<String>,
    /// What went wrong, and will again.
    #[n(1)]
    pub discovered_pitfalls: Vec<String>,
    /// What is still to be done.
    #[n(2)]
    pub pending_items: Vec<String>,
}

/// Bounds of work.
#[derive(Debug, Clone, Default, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HandoffConstraints {
    /// How many turns it may take.
    #[n(0)]
    pub max_turns: Option<u32>,
    /// When the result must be there, Unix milliseconds.
    #[n(1)]
    pub deadline_ms: Option<u64>,
    /// By which rules it is done, in the sender's words.
    #[n(2)]
    pub compliance_level: Option<String>,
}

/// Something that belongs to the work and is named by its digest.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct HandoffArtifact {
    /// How the sender calls it.
    #[n(0)]
    pub name: String,
    /// Of which media type its bytes are.
    #[n(1)]
    pub media_type: String,
    /// Its length in bytes.
    #[n(2)]
    pub size: u64,
    /// SHA-256 of its bytes.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub digest: Digest,
}

/// What regulated work has besides.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Regulation {
    /// How far everything in here may go; the stricter one of this and of the label counts.
    #[n(0)]
    pub classification: DataLabel,
    /// Where the work must stay.
    #[n(1)]
    pub region: Option<String>,
    /// The rules that apply, as their regulators number them.
    #[n(2)]
    pub regulation_refs: Vec<String>,
    /// What was recorded of the work so far.
    #[n(3)]
    pub audit: Vec<AuditEntry>,
    /// Who agreed that the work is given away.
    #[n(4)]
    pub sign_offs: Vec<SignOff>,
}

/// A record that is kept elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AuditEntry {
    /// What happened.
    #[n(0)]
    pub event: String,
    /// SHA-256 of the record.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub digest: Digest,
}

/// The agreement of one person, signed with a key of OpenSSH.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct SignOff {
    /// As what that person signs, 1 to 128 bytes in one line.
    #[n(0)]
    pub role: String,
    /// Until when it counts, Unix milliseconds.
    #[n(1)]
    pub until_ms: u64,
    /// The SSH signature over [`sign_off_statement`]: its bytes, not its text.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub signature: Vec<u8>,
}

/// Why a handoff must not go to the recipient, or not be taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApprovalError {
    /// Nobody who may has signed it off.
    #[error(
        "it is {}, and no sign-off counts: have somebody sign it who may, with `ssh-keygen -Y sign -n {}`",
        level.name(), crate::sign_off::NAMESPACE
    )]
    Missing {
        /// The level that needs one.
        level: DataLabel,
    },
    /// A sign-off is none.
    #[error("the sign-off of {role:?} does not count: {reason}")]
    Signature {
        /// Whose it claims to be.
        role: String,
        /// What is wrong with it.
        reason: SignOffError,
    },
}

/// What a person signs, byte for byte, to agree to the document with that digest.
#[must_use]
pub fn sign_off_statement(document: &Digest, role: &str, until_ms: u64) -> String {
    format!("althing handoff sign-off\ndocument: {}\nrole: {role}\nuntil: {until_ms}\n", hex(document))
}

impl SignOff {
    /// Whose agreement it is, checked.
    ///
    /// # Errors
    /// [`SignOffError`].
    pub fn verify(&self, document: &Digest, now_ms: u64) -> Result<PublicKey, SignOffError> {
        let signature = SshSignature::read(&self.signature)?;
        if !signature.verifies(sign_off_statement(document, &self.role, self.until_ms).as_bytes()) {
            return Err(SignOffError::Signature);
        }
        if now_ms > self.until_ms {
            return Err(SignOffError::Expired { ago_ms: now_ms - self.until_ms });
        }
        Ok(signature.signer)
    }
}

impl Handoff {
    /// A handoff without content, to be filled and signed.
    #[must_use]
    pub fn new(
        handoff_id: [u8; 16],
        task_id: impl Into<String>,
        (sender, recipient): (AgentId, AgentId),
        issued_at_ms: u64,
        not_after_ms: u64,
    ) -> Handoff {
        Handoff {
            kind: Kind::Handoff,
            handoff_id,
            task_id: task_id.into(),
            sender: HandoffSender { agent: sender, session: None },
            recipient,
            issued_at_ms,
            not_after_ms,
            context: HandoffContext::default(),
            assumptions: Vec::new(),
            quality_checklist: Vec::new(),
            artifacts: Vec::new(),
            label: None,
            previous: None,
            regulation: None,
        }
    }

    /// The handoff with a signature that somebody made before, verified for `network`.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn with_signature(
        self,
        network: &str,
        signer: &PublicKey,
        signature: &[u8; 64],
    ) -> Result<Authored<Handoff>, ObjectError> {
        let envelope = self.envelope(signer, signature);
        self.verified(envelope, network)
    }

    /// The handoff whose [`Handoff::envelope`] these bytes are, verified for `network`.
    ///
    /// # Errors
    /// See [`ObjectError`].
    pub fn verified(self, envelope: Vec<u8>, network: &str) -> Result<Authored<Handoff>, ObjectError> {
        open_joined(self, envelope, network, "")
    }

    /// The signed bytes with a signature that somebody made before, **not yet checked**.
    #[must_use]
    pub fn envelope(&self, signer: &PublicKey, signature: &[u8; 64]) -> Vec<u8> {
        sign1::join(self, signer, signature)
    }

    /// What people sign off: the digest of the payload without its sign-offs.
    #[must_use]
    pub fn document(&self) -> Digest {
        if self.regulation.as_ref().is_none_or(|regulation| regulation.sign_offs.is_empty()) {
            return cbor::digest(self);
        }
        let mut bare = self.clone();
        if let Some(regulation) = &mut bare.regulation {
            regulation.sign_offs.clear();
        }
        cbor::digest(&bare)
    }

    /// Checks that it can be accepted at `now_ms`.
    ///
    /// # Errors
    /// [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.issued_at_ms, self.not_after_ms, now_ms)
    }

    /// The members without which nobody can go on with the work, in the companion's words; none if it is complete.
    #[must_use]
    pub fn missing(&self) -> Vec<&'static str> {
        let regulated = self.regulation.as_ref();
        let empty = [
            ("context.task_description", self.context.task_description.trim().is_empty()),
            ("quality_checklist", self.quality_checklist.is_empty()),
            ("audit", regulated.is_some_and(|it| it.audit.is_empty())),
            ("region", regulated.is_some_and(|it| it.region.is_none())),
            ("regulation_refs", regulated.is_some_and(|it| it.regulation_refs.is_empty())),
        ];
        empty.into_iter().filter_map(|(member, is_empty)| is_empty.then_some(member)).collect()
    }

    /// How far it may go: the strictest of its label, its classification, and of what a call that carries it says.
    #[must_use]
    pub fn level(&self, of_call: Option<Label>) -> Option<DataLabel> {
        let said = [of_call, self.label].into_iter().flatten().map(|label| label.level);
        said.chain(self.regulation.as_ref().map(|it| it.classification)).max()
    }

    /// Checks its sign-offs: each is valid or over, and where it is confidential or restricted, one counts that was made with
    /// one of the keys of `signers`.
    ///
    /// # Errors
    /// [`ApprovalError`].
    pub fn check_approval(
        &self,
        of_call: Option<Label>,
        signers: &BTreeSet<PublicKey>,
        now_ms: u64,
    ) -> Result<(), ApprovalError> {
        let sign_offs = self.regulation.as_ref().map(|it| it.sign_offs.as_slice()).unwrap_or_default();
        let mut counts = false;
        if !sign_offs.is_empty() {
            // Hashed only here: it may be a megabyte, and most work has none.
            let document = self.document();
            for sign_off in sign_offs {
                match sign_off.verify(&document, now_ms) {
                    Ok(signer) => counts |= signers.contains(&signer),
                    Err(SignOffError::Expired { .. }) => {}
                    Err(reason) => return Err(ApprovalError::Signature { role: sign_off.role.clone(), reason }),
                }
            }
        }
        match self.level(of_call).filter(|level| *level >= DataLabel::Confidential) {
            Some(level) if !counts => Err(ApprovalError::Missing { level }),
            _ => Ok(()),
        }
    }
}

impl Authored<Handoff> {
    /// The 64 bytes of its signature: with signer and network all that a view needs beside the content.
    #[must_use]
    pub fn signature(&self) -> [u8; 64] {
        *self.bytes.last_chunk::<64>().expect("an envelope ends with its signature")
    }
}

impl Statement for Handoff {
    const KIND: Kind = Kind::Handoff;
    fn kind(&self) -> Kind {
        self.kind
    }
    fn check(&self) -> Result<(), ObjectError> {
        if self.handoff_id[6] >> 4 != 7 || self.handoff_id[8] >> 6 != 0b10 {
            return Err(ObjectError::Shape("the id of a handoff is a UUID of version 7".to_owned()));
        }
        life(self.issued_at_ms, self.not_after_ms, HANDOFF_LIFE_MAX_MS)?;
        fits("task_id", &self.task_id, TASK_ID_BYTES_MAX)?;
        let HandoffContext { task_description, workspace_path, state_snapshot, agent_memory, tools_required, .. } =
            &self.context;
        if task_description.len() > HANDOFF_DESCRIPTION_BYTES_MAX {
            return Err(too_long("task_description", task_description.len(), HANDOFF_DESCRIPTION_BYTES_MAX));
        }
        let length = state_snapshot.as_ref().map_or(0, Vec::len);
        if length > HANDOFF_SNAPSHOT_BYTES_MAX {
            return Err(too_long("state_snapshot", length, HANDOFF_SNAPSHOT_BYTES_MAX));
        }
        for (name, text) in
            [("workspace_path", workspace_path), ("compliance_level", &self.context.constraints.compliance_level)]
        {
            text.iter().try_for_each(|text| fits(name, text, HANDOFF_TEXT_BYTES_MAX))?;
        }
        for (name, texts) in [
            ("key_decisions", &agent_memory.key_decisions),
            ("discovered_pitfalls", &agent_memory.discovered_pitfalls),
            ("pending_items", &agent_memory.pending_items),
            ("assumptions", &self.assumptions),
            ("quality_checklist", &self.quality_checklist),
        ] {
            all_fit(name, texts, HANDOFF_TEXT_BYTES_MAX)?;
        }
        all_fit("tools_required", tools_required, WORK_NAME_BYTES_MAX)?;
        few("artifacts", self.artifacts.len(), HANDOFF_ITEMS_MAX)?;
        for artifact in &self.artifacts {
            fits("artifacts.name", &artifact.name, WORK_NAME_BYTES_MAX)?;
            fits("artifacts.media_type", &artifact.media_type, WORK_NAME_BYTES_MAX)?;
        }
        self.regulation.as_ref().map_or(Ok(()), Regulation::check)
    }
}

impl Regulation {
    fn check(&self) -> Result<(), ObjectError> {
        self.region.iter().try_for_each(|region| fits("region", region, WORK_NAME_BYTES_MAX))?;
        all_fit("regulation_refs", &self.regulation_refs, WORK_NAME_BYTES_MAX)?;
        few("audit", self.audit.len(), HANDOFF_ITEMS_MAX)?;
        self.audit.iter().try_for_each(|entry| fits("audit.event", &entry.event, WORK_NAME_BYTES_MAX))?;
        few("sign_offs", self.sign_offs.len(), HANDOFF_SIGN_OFFS_MAX)?;
        for sign_off in &self.sign_offs {
            fits("sign_offs.role", &sign_off.role, WORK_NAME_BYTES_MAX)?;
            // It is a line of what people sign: with a second one, they would sign more than they see.
            if sign_off.role.chars().any(char::is_control) || hidden_in(&sign_off.role).is_some() {
                return Err(ObjectError::Shape("the role of a sign-off has characters that nobody sees".to_owned()));
            }
            if !(1..=HANDOFF_SIGN_OFF_BYTES_MAX).contains(&sign_off.signature.len()) {
                return Err(too_long("sign_offs.signature", sign_off.signature.len(), HANDOFF_SIGN_OFF_BYTES_MAX));
            }
        }
        Ok(())
    }
}

fn too_long(name: &str, length: usize, most: usize) -> ObjectError {
    ObjectError::Shape(format!("{name} of a handoff has {length} bytes, and 1 to {most} are allowed"))
}

fn fits(name: &str, text: &str, most: usize) -> Result<(), ObjectError> {
    if (1..=most).contains(&text.len()) { Ok(()) } else { Err(too_long(name, text.len(), most)) }
}

fn few(name: &str, count: usize, most: usize) -> Result<(), ObjectError> {
    if count <= most {
        return Ok(());
    }
    Err(ObjectError::Shape(format!("{name} of a handoff has {count} entries, and {most} are allowed")))
}

fn all_fit(name: &str, texts: &[String], most: usize) -> Result<(), ObjectError> {
    few(name, texts.len(), HANDOFF_ITEMS_MAX)?;
    texts.iter().try_for_each(|text| fits(name, text, most))
}
