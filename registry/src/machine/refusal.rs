//! Why a registry does not accept a statement.

use althing_protocol::object::{Kind, ObjectError};
use althing_protocol::registry::{Domain, SubmissionError, Version};
use althing_protocol::{AgentId, KeyLogError, PublisherId};

/// Why a submission is refused. Nothing of it was accepted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// The bytes are no submission.
    #[error(transparent)]
    Submission(#[from] SubmissionError),
    /// It has nothing in it.
    #[error("the submission has no statement")]
    Empty,
    /// The key log is invalid, or does not accept a signer.
    #[error(transparent)]
    KeyLog(#[from] KeyLogError),
    /// The key log is none that goes on from the one that is known here.
    #[error(
        "the key log of {0} does not continue the one that this registry has: send the whole log, newest event included"
    )]
    OtherKeyLog(PublisherId),
    /// The publisher may not write here.
    #[error(
        "{0} may not publish in this registry: ask its operator to admit it (althing-registry publisher add {0}, or --publisher)"
    )]
    NotAdmitted(PublisherId),
    /// A statement is invalid.
    #[error("statement {at}: {error}")]
    Object {
        /// Its number in the submission, from 0.
        at: usize,
        /// Why.
        error: ObjectError,
    },
    /// A statement is there twice.
    #[error("statement {at} is there twice: send each statement once")]
    Twice {
        /// The number of the second one in the submission, from 0.
        at: usize,
    },
    /// A registry takes no statements of that kind.
    #[error("statement {at}: a registry takes releases, marks, rosters and attestations, and this is a {kind:?}")]
    Kind {
        /// Its number in the submission, from 0.
        at: usize,
        /// What it is.
        kind: Kind,
    },
    /// A statement is about somebody else's agent.
    #[error("only its publisher may speak for {agent}, and this is signed for {by}")]
    NotYours {
        /// The agent.
        agent: AgentId,
        /// Who signed.
        by: PublisherId,
    },
    /// The release is for an organisation that is none here.
    #[error("{agent} is released for its organisation, and its publisher has no roster here: `althing org init`")]
    Audience {
        /// The agent.
        agent: AgentId,
    },
    /// The description that a release names was not sent with it.
    #[error("the description of {agent} {version} was not sent with the release")]
    DescriptionMissing {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// The description is no Thing Description of an agent.
    #[error("the description of {agent} {version} is refused: {reason}")]
    Description {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// Why.
        reason: String,
    },
    /// The version exists, with another content.
    #[error("{agent} {version} was released before, and a version never changes: release the next one")]
    VersionTaken {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// The agent has as many versions as one may have.
    #[error("{agent} has {max} versions, and no more are kept")]
    VersionsFull {
        /// The agent.
        agent: AgentId,
        /// How many.
        max: usize,
    },
    /// The releases of the publisher take as much as those of one may.
    #[error(
        "the releases of {publisher} take their room: there were {releases} of at most {releases_max}, and their bundles have \
         {bytes} bytes of at most {bytes_max}. `althing release purge` frees the bytes of what is not for everybody; if that \
         does not help, ask the registry's operator, or publish in another registry"
    )]
    PublisherFull {
        /// The publisher.
        publisher: PublisherId,
        /// How many there were.
        releases: usize,
        /// Bytes of their bundles.
        bytes: u64,
        /// How many at most.
        releases_max: usize,
        /// Bytes at most.
        bytes_max: u64,
    },
    /// A mark names a version that is not there.
    #[error("{agent} {version} was never released here")]
    NoRelease {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// An attestation is of an agent that is not there.
    #[error("{0} was never released here")]
    NoReleases(AgentId),
    /// The reason of a quarantine.
    #[error("the reason of a quarantine has 1 to {max} bytes, and no control characters or invisible ones")]
    Reason {
        /// Bytes at most.
        max: usize,
    },
    /// An attestation is of nothing.
    #[error("statement {at} is an attestation of no agent and of no model")]
    NoSubject {
        /// Its number in the submission, from 0.
        at: usize,
    },
    /// An attestation is of another release of that version.
    #[error(
        "statement {at} is an attestation of something else than {agent} {version} here: their digests differ; look at what \
         was released here before you attest it"
    )]
    OtherContent {
        /// Its number in the submission, from 0.
        at: usize,
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// An attestation is signed for somebody else.
    #[error("statement {at} is an attestation of {by}, and {signer} sends it: who finds something signs it")]
    OtherSigner {
        /// Its number in the submission, from 0.
        at: usize,
        /// Who it says finds it.
        by: PublisherId,
        /// Who sends it.
        signer: PublisherId,
    },
    /// An attestation is older than the one that was accepted.
    #[error(
        "a newer attestation of {by} of the same was accepted before: its sequence is {known}, and this one's {given}"
    )]
    AttestationStale {
        /// The signer.
        by: PublisherId,
        /// The sequence that is known.
        known: u64,
        /// The sequence that was given.
        given: u64,
    },
    /// The signer has as many attestations as one may have.
    #[error("{by} has {max} attestations in force, and no more are kept: let some end")]
    AttestationsFull {
        /// The signer.
        by: PublisherId,
        /// How many.
        max: usize,
    },
    /// Everybody has seen it.
    #[error(
        "{agent} {version} cannot be purged: it is for everybody, or was accepted before entries were salted. A revocation \
         (althing release revoke) ends it"
    )]
    NotPurgeable {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// A revocation cannot be lifted.
    #[error("{agent} {version} is revoked, and stays so: release the next version")]
    Revoked {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// The release has as many marks as one may have.
    #[error("{agent} {version} has {max} marks, and no more are kept but a revocation")]
    MarksFull {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
        /// How many.
        max: usize,
    },
    /// Somebody approves a release twice.
    #[error("you approved {agent} {version} before, with another statement")]
    ApprovedBefore {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// A release needs no more approvals.
    #[error("{agent} {version} has all approvals that it needs")]
    ApprovedAlready {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// An approval is of something else than what was released.
    #[error("this approves something else as {agent} {version} than its publisher released: look at it again")]
    OtherRelease {
        /// The agent.
        agent: AgentId,
        /// The version.
        version: Version,
    },
    /// A roster is somebody else's.
    #[error("only {organisation} itself may name its members, and this is signed for {by}")]
    NotYourRoster {
        /// The organisation.
        organisation: PublisherId,
        /// Who signed.
        by: PublisherId,
    },
    /// A roster is older than the one that was accepted.
    #[error("a newer roster of {organisation} was accepted before: its sequence is {known}, and this one's {given}")]
    RosterStale {
        /// The organisation.
        organisation: PublisherId,
        /// The sequence that is known.
        known: u64,
        /// The sequence that was given.
        given: u64,
    },
    /// The roster is not in force.
    #[error("the roster of {organisation}: {error}; renew it (`althing org init`), and publish then")]
    RosterOver {
        /// The organisation.
        organisation: PublisherId,
        /// Why.
        error: ObjectError,
    },
    /// The domain of the roster is not proven, or not any more.
    #[error(
        "nothing is published under {domain}: it is not proven to be that of {organisation}, or not any more: \
         `althing org prove` says what to do"
    )]
    DomainNotProven {
        /// The domain.
        domain: Domain,
        /// The organisation.
        organisation: PublisherId,
    },
    /// No organisation has the domain here.
    #[error("no organisation has proven here that {0} is its own")]
    DomainUnknown(Domain),
    /// The organisation has no roster, or one that names no domain.
    #[error("{0} has no roster here that names a domain: `althing org init example.org`")]
    NoDomain(PublisherId),
    /// There are too many domains.
    #[error("this registry has {0} domains, and takes no more")]
    DomainsFull(usize),
    /// A statement is older than one that was accepted.
    #[error("a newer statement about {agent} was accepted before: its sequence is {known}, and this one's {given}")]
    Stale {
        /// The agent.
        agent: AgentId,
        /// The sequence that is known.
        known: u64,
        /// The sequence that was given.
        given: u64,
    },
}
