//! A version of an agent, as the log has it.

use althing_protocol::object::{Authored, Description};
use althing_protocol::registry::{Audience, Reach, Release, Standing};
use althing_protocol::{Digest, PublisherId, digest};
use althing_td::is_workflow;

/// A version of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Released {
    /// The index of the release in the log.
    pub index: u64,
    /// The digest of its signed bytes.
    pub statement: Digest,
    /// Its standing.
    pub standing: Standing,
    /// Why.
    pub reason: String,
    /// The indexes and digests of its marks.
    pub marks: Vec<(u64, Digest)>,
    /// Whether nodes do not host it: it is a Thing that runs elsewhere, or a workflow. It is found by its description.
    pub is_unhosted: bool,
    /// Who may see it.
    pub audience: Audience,
    /// The digest of what its signers agree on.
    pub essence: Digest,
    /// Those beside the publisher who approve it, with the indexes and digests of their statements.
    pub approvals: Vec<(PublisherId, u64, Digest)>,
    /// Whether as many approve it as its organisation wants. Until then nobody sees it who does not approve it.
    pub is_approved: bool,
    /// The digest of its bundle.
    pub bundle: Option<Digest>,
    /// Bytes that its bundle has as its publisher says; 0 without one.
    pub bundle_bytes: u64,
    /// The digest of what it is made of.
    pub content: Digest,
    /// Why the registry's operator hides it, if it does.
    pub quarantine: Option<String>,
    /// The index of the roster under which it was approved, if its publisher is an organisation.
    pub roster: Option<u64>,
}

impl Released {
    /// A release that the log has at `index`, and nobody approves yet beside its publisher.
    pub(super) fn of(
        release: &Authored<Release>,
        description: &Authored<Description>,
        index: u64,
        quarantine: Option<String>,
    ) -> Released {
        Released {
            index,
            statement: release.digest(),
            standing: Standing::Good,
            reason: String::new(),
            marks: Vec::new(),
            is_unhosted: release.body.bundle.is_none() || is_workflow(&description.body.td),
            audience: release.body.audience.clone(),
            essence: essence(&release.body),
            approvals: Vec::new(),
            is_approved: false,
            bundle: release.body.bundle.map(|bundle| bundle.digest),
            bundle_bytes: release.body.bundle.map_or(0, |bundle| bundle.bytes),
            content: release.body.content(),
            quarantine,
            roster: None,
        }
    }

    /// The entries that are about it, the release itself first.
    pub fn entries(&self) -> impl Iterator<Item = u64> {
        let marks = self.marks.iter().map(|(index, _)| *index);
        let approvals = self.approvals.iter().map(|(_, index, _)| *index);
        std::iter::once(self.index).chain(marks).chain(approvals)
    }

    /// Whether everybody sees it.
    #[must_use]
    pub fn is_public(&self) -> bool {
        self.is_for_everybody() && self.quarantine.is_none()
    }

    /// Whether everybody sees it unless the operator hides it.
    #[must_use]
    pub fn is_for_everybody(&self) -> bool {
        self.is_approved && self.audience.reach == Reach::Public
    }
}

/// The digest of what all signers of a release agree on.
pub(super) fn essence(release: &Release) -> Digest {
    let mut body = release.clone();
    (body.by, body.sequence, body.made_ms) = (release.agent.publisher(), 0, 0);
    digest(&minicbor::to_vec(body).expect("writing to a vector cannot fail"))
}
