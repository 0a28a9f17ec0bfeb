//! What becomes a leaf.

use althing_protocol::audit::{AuditLeaf, BodyRole};

/// A body before it was sealed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DraftBody {
    /// What it is of the leaf.
    pub role: BodyRole,
    /// Its bytes. Of a leaf's bodies at most 1 MiB is kept in all: of one that goes over it the salt alone, with which whoever
    /// has the body shows that it is the one.
    pub bytes: Vec<u8>,
}

/// A leaf with its bodies beside it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeafDraft {
    /// All of the leaf but its commitments, which are made here.
    pub leaf: AuditLeaf,
    /// About whom the bodies are: the person whose data they hold. Erased together with all others of this subject. None for
    /// what is about nobody.
    pub subject: Option<String>,
    /// At most one of each role.
    pub bodies: Vec<DraftBody>,
}

impl LeafDraft {
    /// A leaf without bodies.
    #[must_use]
    pub fn new(leaf: AuditLeaf) -> LeafDraft {
        LeafDraft { leaf, subject: None, bodies: Vec::new() }
    }

    /// The same about somebody.
    #[must_use]
    pub fn about(mut self, subject: &str) -> LeafDraft {
        self.subject = Some(subject.to_owned());
        self
    }

    /// The same with a body.
    #[must_use]
    pub fn with(mut self, role: BodyRole, bytes: impl Into<Vec<u8>>) -> LeafDraft {
        self.bodies.push(DraftBody { role, bytes: bytes.into() });
        self
    }
}
