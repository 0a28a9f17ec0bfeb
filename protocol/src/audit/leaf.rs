//! A leaf of an owner's audit log: one thing that happened, who allowed it, and what came of it. The checkpoint of the log is
//! signed, the leaf is not.

use minicbor::{Decode, Encode};

use super::body::BodyCommitment;
use super::verdict::AuditVerdict;
use crate::cbor::CborError;
use crate::limits::{
    AUDIT_BODIES_MAX, AUDIT_LEAF_BYTES_MAX, AUDIT_POLICIES_MAX, AUDIT_PRINCIPALS_MAX, AUDIT_TEXT_BYTES_MAX,
    AUDIT_VERDICTS_MAX,
};
use crate::{AgentId, Digest, Label, cbor, hidden_in};

/// The number of leaves among the kinds of objects: no object has it.
const KIND: u8 = 23;
/// Bytes of most leaves.
const LEAF_BYTES: usize = 512;

/// Why bytes are no leaf, or no ask.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AuditError {
    /// It is not deterministic CBOR within its limit.
    #[error("entry of an audit log refused: {0}")]
    Cbor(#[from] CborError),
    /// It is CBOR, but not of this shape.
    #[error("entry of an audit log refused: {0}")]
    Shape(String),
}

impl AuditError {
    pub(super) fn unknown_members() -> AuditError {
        AuditError::Shape("members that this version does not know".to_owned())
    }
}

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum AuditStage {
    /// Somebody was asked.
    #[n(0)]
    Asked,
    /// The question was answered, or its time was over.
    #[n(1)]
    Answered,
    /// Something was denied.
    #[n(2)]
    Denied,
    /// A call is about to be made.
    #[n(3)]
    Intent,
    /// Something came of it.
    #[n(4)]
    Outcome,
    /// A person changed something.
    #[n(5)]
    Changed,
    /// An agent started.
    #[n(6)]
    Started,
    /// It ended.
    #[n(7)]
    Ended,
    /// A turn with none of these before, or that gates judged.
    #[n(8)]
    Turn,
}

impl AuditStage {
    /// All of them, ascending.
    pub const ALL: [AuditStage; 9] = [
        AuditStage::Asked,
        AuditStage::Answered,
        AuditStage::Denied,
        AuditStage::Intent,
        AuditStage::Outcome,
        AuditStage::Changed,
        AuditStage::Started,
        AuditStage::Ended,
        AuditStage::Turn,
    ];

    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AuditStage::Asked => "asked",
            AuditStage::Answered => "answered",
            AuditStage::Denied => "denied",
            AuditStage::Intent => "intent",
            AuditStage::Outcome => "outcome",
            AuditStage::Changed => "changed",
            AuditStage::Started => "started",
            AuditStage::Ended => "ended",
            AuditStage::Turn => "turn",
        }
    }
}

/// What came of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum AuditOutcome {
    /// It was done; of an answer, it was approved.
    #[n(0)]
    Done,
    /// It failed.
    #[n(1)]
    Failed,
    /// It was refused.
    #[n(2)]
    Refused,
    /// Nobody knows whether it was done.
    #[n(3)]
    InDoubt,
    /// Its time was over before anybody answered.
    #[n(4)]
    Expired,
}

impl AuditOutcome {
    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AuditOutcome::Done => "done",
            AuditOutcome::Failed => "failed",
            AuditOutcome::Refused => "refused",
            AuditOutcome::InDoubt => "inDoubt",
            AuditOutcome::Expired => "expired",
        }
    }
}

/// A leaf. Digests are SHA-256.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct AuditLeaf {
    #[n(0)]
    kind: u8,
    /// When it happened, Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
    /// What happened.
    #[n(2)]
    pub stage: AuditStage,
    /// On whose behalf, the origin first; of an answer or a change, who did it.
    #[n(3)]
    pub principals: Vec<String>,
    /// The person who answers for the agent.
    #[n(4)]
    pub accountable: Option<String>,
    /// Which agent.
    #[n(5)]
    pub agent: Option<AgentId>,
    /// In which version.
    #[n(6)]
    pub version: Option<String>,
    /// The digest of its contract.
    #[cbor(n(7), with = "minicbor::bytes")]
    pub contract: Option<Digest>,
    /// The digest of the manifest that it is bound to.
    #[cbor(n(8), with = "minicbor::bytes")]
    pub binding: Option<Digest>,
    /// The digest of the policy set in force.
    #[cbor(n(9), with = "minicbor::bytes")]
    pub policy: Option<Digest>,
    /// The ids of the policies that decided.
    #[n(10)]
    pub deciding: Vec<String>,
    /// `server/tool`, or what was done or changed.
    #[n(11)]
    pub action: Option<String>,
    /// The digest of the tool's definition.
    #[cbor(n(12), with = "minicbor::bytes")]
    pub definition: Option<Digest>,
    /// The label of what was given: of a call its arguments, of a turn its message.
    #[n(13)]
    pub label: Option<Label>,
    /// The label of all that the turn had been given afterwards.
    #[n(14)]
    pub label_after: Option<Label>,
    /// The digest of what a person was asked ([`Ask`](super::Ask)).
    #[cbor(n(15), with = "minicbor::bytes")]
    pub consent: Option<Digest>,
    /// The digest of the row of the turn's journal; of a turn that of the row of its task.
    #[cbor(n(16), with = "minicbor::bytes")]
    pub row: Option<Digest>,
    /// The digest of the trace's id.
    #[cbor(n(17), with = "minicbor::bytes")]
    pub trace: Option<Digest>,
    /// What came of it.
    #[n(18)]
    pub outcome: Option<AuditOutcome>,
    /// The bodies beside the log, ascending by their roles.
    #[n(19)]
    pub bodies: Vec<BodyCommitment>,
    /// What gates said of a turn, ascending, each once: of an answer that was made again both words may be there.
    #[cbor(n(20), skip_if = "Vec::is_empty")]
    pub verdicts: Vec<AuditVerdict>,
}

impl AuditLeaf {
    /// A leaf that says nothing else yet.
    #[must_use]
    pub fn new(stage: AuditStage, at_ms: u64) -> AuditLeaf {
        AuditLeaf {
            kind: KIND,
            at_ms,
            stage,
            principals: Vec::new(),
            accountable: None,
            agent: None,
            version: None,
            contract: None,
            binding: None,
            policy: None,
            deciding: Vec::new(),
            action: None,
            definition: None,
            label: None,
            label_after: None,
            consent: None,
            row: None,
            trace: None,
            outcome: None,
            bodies: Vec::new(),
            verdicts: Vec::new(),
        }
    }

    /// The bytes in the log.
    ///
    /// # Errors
    /// [`AuditError`]: a reader would refuse it.
    pub fn encode(&self) -> Result<Vec<u8>, AuditError> {
        self.check()?;
        let mut bytes = Vec::with_capacity(LEAF_BYTES);
        minicbor::encode(self, &mut bytes).expect("writing to a vector cannot fail");
        if bytes.len() > AUDIT_LEAF_BYTES_MAX {
            return Err(CborError::Size { len: bytes.len(), max: AUDIT_LEAF_BYTES_MAX }.into());
        }
        Ok(bytes)
    }

    /// Reads a leaf.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn read(bytes: &[u8]) -> Result<AuditLeaf, AuditError> {
        cbor::check(bytes, AUDIT_LEAF_BYTES_MAX)?;
        let leaf: AuditLeaf = minicbor::decode(bytes).map_err(|error| AuditError::Shape(error.to_string()))?;
        if leaf.encode()? != bytes {
            return Err(AuditError::unknown_members());
        }
        Ok(leaf)
    }

    fn check(&self) -> Result<(), AuditError> {
        if self.kind != KIND {
            return Err(AuditError::Shape(format!("it has the kind {}, and a leaf has {KIND}", self.kind)));
        }
        self.check_sizes()?;
        let stage = self.stage;
        let of_agent = matches!(
            stage,
            AuditStage::Intent | AuditStage::Outcome | AuditStage::Started | AuditStage::Ended | AuditStage::Turn
        );
        let of_person = matches!(stage, AuditStage::Asked | AuditStage::Answered);
        let has_action = !matches!(stage, AuditStage::Started | AuditStage::Ended | AuditStage::Turn);
        let has_outcome =
            matches!(stage, AuditStage::Answered | AuditStage::Outcome | AuditStage::Ended | AuditStage::Turn);
        let wrong = |what: &str| Err(AuditError::Shape(format!("a leaf of the stage {stage:?} {what}")));
        if of_agent && self.agent.is_none() {
            return wrong("names no agent");
        }
        if has_action != self.action.is_some() {
            return wrong(if has_action { "names no action" } else { "has an action" });
        }
        if has_outcome != self.outcome.is_some() {
            return wrong(if has_outcome { "has no outcome" } else { "has an outcome" });
        }
        if of_person && self.consent.is_none() {
            return wrong("does not say what was asked");
        }
        if stage != AuditStage::Turn && !self.verdicts.is_empty() {
            return wrong("has verdicts");
        }
        Ok(())
    }

    fn check_sizes(&self) -> Result<(), AuditError> {
        for (what, count, most) in [
            ("principals", self.principals.len(), AUDIT_PRINCIPALS_MAX),
            ("deciding policies", self.deciding.len(), AUDIT_POLICIES_MAX),
            ("bodies", self.bodies.len(), AUDIT_BODIES_MAX),
            ("verdicts", self.verdicts.len(), AUDIT_VERDICTS_MAX),
        ] {
            if count > most {
                return Err(AuditError::Shape(format!("a leaf has {count} {what}, and {most} is the most")));
            }
        }
        if !self.bodies.is_sorted_by(|one, next| one.role < next.role) {
            return Err(AuditError::Shape("the bodies of a leaf do not ascend".to_owned()));
        }
        if !self.verdicts.is_sorted_by(|one, next| one < next) {
            return Err(AuditError::Shape("the verdicts of a leaf do not ascend".to_owned()));
        }
        let single = [&self.accountable, &self.version, &self.action].into_iter().flatten();
        let gates = self.verdicts.iter().map(|verdict| &verdict.gate);
        let mut texts = self.principals.iter().chain(&self.deciding).chain(single).chain(gates);
        texts.try_for_each(|text| check_text("a text of a leaf", text))
    }
}

/// Refuses a text that is empty, too long, or that people do not see as it is.
pub(super) fn check_text(what: &str, text: &str) -> Result<(), AuditError> {
    if !(1..=AUDIT_TEXT_BYTES_MAX).contains(&text.len()) {
        let bytes = text.len();
        return Err(AuditError::Shape(format!("{what} has {bytes} bytes, not 1 to {AUDIT_TEXT_BYTES_MAX}")));
    }
    if text.chars().any(char::is_control) || hidden_in(text).is_some() {
        return Err(AuditError::Shape(format!("{what} has characters that nobody sees")));
    }
    Ok(())
}
