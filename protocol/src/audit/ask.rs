//! What a person is asked before a call is made, as bytes, and the text that an answer signs.

use minicbor::{Decode, Encode};

use super::leaf::{AuditError, check_text};
use crate::limits::{AUDIT_ASK_BYTES_MAX, AUDIT_ASK_LIFE_MAX_MS};
use crate::tlog::NoteKey;
use crate::{AgentId, Digest, Label, cbor, digest, hex};

/// What `ssh-keygen -Y sign -n` must be given for an answer.
pub const NAMESPACE: &str = "althing-consent";

/// A call, as far as somebody's yes is bound to it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CallTerms {
    /// Whose call it is.
    #[n(0)]
    pub agent: AgentId,
    /// `server/tool`, or what the node calls it: 1 to 256 bytes.
    #[n(1)]
    pub action: String,
    /// The digest of the tool's definition.
    #[cbor(n(2), with = "minicbor::bytes")]
    pub definition: Digest,
    /// The digest of the key, or else of the address or the program, of whoever has the tool.
    #[cbor(n(3), with = "minicbor::bytes")]
    pub server: Digest,
    /// The digest of the arguments, as JSON with sorted members and without space.
    #[cbor(n(4), with = "minicbor::bytes")]
    pub arguments: Digest,
    /// The label of the arguments.
    #[n(5)]
    pub label: Label,
    /// The digest of the policy set in force; none where none was loaded.
    #[cbor(n(6), with = "minicbor::bytes")]
    pub policy: Option<Digest>,
}

/// One question to a person: whether one call may be made.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Ask {
    /// Random, so that no answer to another question is one to this.
    #[cbor(n(0), with = "minicbor::bytes")]
    pub id: [u8; 16],
    /// When it was asked, Unix milliseconds.
    #[n(1)]
    pub asked_at_ms: u64,
    /// Until when the call may be made, Unix milliseconds; silence until then is a denial.
    #[n(2)]
    pub not_after_ms: u64,
    /// The call.
    #[n(3)]
    pub terms: CallTerms,
}

/// What is answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum AnswerWord {
    /// It may be done.
    #[n(0)]
    Approve,
    /// It may not.
    #[n(1)]
    Deny,
}

impl AnswerWord {
    /// Its word, which does not change.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            AnswerWord::Approve => "approve",
            AnswerWord::Deny => "deny",
        }
    }
}

impl Ask {
    /// Its bytes.
    ///
    /// # Errors
    /// [`AuditError::Shape`]: a reader would refuse it.
    pub fn encode(&self) -> Result<Vec<u8>, AuditError> {
        self.check()?;
        Ok(minicbor::to_vec(self).expect("writing to a vector cannot fail"))
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`AuditError`].
    pub fn read(bytes: &[u8]) -> Result<Ask, AuditError> {
        cbor::check(bytes, AUDIT_ASK_BYTES_MAX)?;
        let ask: Ask = minicbor::decode(bytes).map_err(|error| AuditError::Shape(error.to_string()))?;
        if ask.encode()? != bytes {
            return Err(AuditError::unknown_members());
        }
        Ok(ask)
    }

    /// The digest that answers sign, and by which leaves name it.
    #[must_use]
    pub fn digest(&self) -> Digest {
        digest(&minicbor::to_vec(self).expect("writing to a vector cannot fail"))
    }

    fn check(&self) -> Result<(), AuditError> {
        check_text("the action of an ask", &self.terms.action)?;
        match self.not_after_ms.checked_sub(self.asked_at_ms) {
            None => Err(AuditError::Shape("an ask ends before it begins".to_owned())),
            Some(life_ms) if life_ms > AUDIT_ASK_LIFE_MAX_MS => Err(AuditError::Shape(format!(
                "an ask lives for {life_ms} ms, and {AUDIT_ASK_LIFE_MAX_MS} is the most"
            ))),
            Some(_) => Ok(()),
        }
    }
}

/// The text that a person signs who agrees, in a role, that the bodies beside a log from before a time end. It names the key of the
/// log: a signature is of one log, and of what was recorded before that time, which never becomes more.
#[must_use]
pub fn prune_text(log: &NoteKey, before_ms: u64, role: &str) -> String {
    format!("althing prune\nlog: {log}\nbefore: {before_ms}\nrole: {role}\n")
}

/// The text that a person signs. `role` is that in which they answer; none of who answers on their own behalf.
#[must_use]
pub fn answer_text(ask: &Digest, answer: AnswerWord, role: Option<&str>, until_ms: u64) -> String {
    let (ask, answer, role) = (hex(ask), answer.word(), role.unwrap_or("-"));
    format!("althing answer\nask: {ask}\nanswer: {answer}\nrole: {role}\nuntil: {until_ms}\n")
}
