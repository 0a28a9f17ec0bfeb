//! A submission whose signatures were verified. Of what the registry knows that needs the key log alone, so that many are
//! verified at one time, and judged one after the other.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::object::{self, Authored, Description, Kind, ObjectError};
use althing_protocol::registry::{Attestation, Mark, Release, Roster, Submission};
use althing_protocol::{AgentId, Digest, KeyLog, KeyLogError, PublisherId, digest};

use super::Refusal;

/// A statement with a valid signature.
#[derive(Debug, Clone)]
pub(super) enum Signed {
    Release(Authored<Release>),
    Mark(Authored<Mark>),
    Roster(Authored<Roster>),
    Attestation(Authored<Attestation>),
}

impl Signed {
    fn open(at: usize, bytes: &[u8], network: &str) -> Result<Signed, Refusal> {
        let refused = |error| Refusal::Object { at, error };
        match object::open::<Release>(bytes, network, "") {
            Ok(release) => Ok(Signed::Release(release)),
            Err(ObjectError::WrongKind { got: Kind::Mark, .. }) => {
                object::open(bytes, network, "").map(Signed::Mark).map_err(refused)
            }
            Err(ObjectError::WrongKind { got: Kind::Roster, .. }) => {
                object::open(bytes, network, "").map(Signed::Roster).map_err(refused)
            }
            Err(ObjectError::WrongKind { got: Kind::Attestation, .. }) => {
                object::open(bytes, network, "").map(Signed::Attestation).map_err(refused)
            }
            Err(ObjectError::WrongKind { got, .. }) => Err(Refusal::Kind { at, kind: got }),
            Err(error) => Err(refused(error)),
        }
    }

    /// The agent that it is about.
    pub(super) fn agent(&self) -> Option<&AgentId> {
        match self {
            Signed::Release(release) => Some(&release.body.agent),
            Signed::Mark(mark) => Some(&mark.body.agent),
            Signed::Attestation(attestation) => attestation.body.agent.as_ref(),
            Signed::Roster(_) => None,
        }
    }
}

/// A description with a valid signature, and the version that it says.
#[derive(Debug, Clone)]
pub(super) struct Described {
    pub(super) signed: Authored<Description>,
    /// None if it says none; what is wrong with it, if it is no description.
    pub(super) version: Result<Option<String>, String>,
}

/// Why a description does not count.
#[derive(Debug, Clone)]
pub(super) enum DescriptionFault {
    /// It is no valid object.
    Object(ObjectError),
    /// A key signed it that does not speak for the publisher.
    Signer(KeyLogError),
}

impl DescriptionFault {
    /// Why the statement is refused that names it.
    pub(super) fn refusal(self, at: usize) -> Refusal {
        match self {
            DescriptionFault::Object(error) => Refusal::Object { at, error },
            DescriptionFault::Signer(error) => error.into(),
        }
    }
}

/// The version that a description says; what is wrong with it, if it is none of its agent, or readers would differ on it.
fn version_of(body: &Description) -> Result<Option<String>, String> {
    althing_td::no_duplicates(&body.td).map_err(|report| report.to_string())?;
    let td = althing_td::Description::parse(&body.td).map_err(|error| error.to_string())?;
    let id = body.agent.to_string();
    match td.id() {
        Some(said) if said == id => Ok(td.version().map(str::to_owned)),
        Some(said) => Err(format!("its `id` is {said:?}, and it is of {id}")),
        None => Err(format!("it has no `id`, and is of {id}")),
    }
}

/// The events of a submission's key log.
fn events(submission: &Submission) -> Vec<&[u8]> {
    submission.key_log.iter().map(|event| event.as_slice()).collect()
}

/// A submission whose signatures were verified.
#[derive(Debug, Clone)]
pub struct Opened {
    pub(super) log: KeyLog,
    /// As far as they are right, and the first one that is not.
    pub(super) statements: Vec<Result<Signed, Refusal>>,
    /// Those that are not valid count where a release names them.
    pub(super) descriptions: BTreeMap<Digest, Result<Described, DescriptionFault>>,
}

impl Opened {
    /// The publisher whose submission it is, if its key log verifies. Nothing is verified yet.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn claimed(submission: &Submission) -> Result<PublisherId, Refusal> {
        if submission.statements.is_empty() {
            return Err(Refusal::Empty);
        }
        Ok(KeyLog::claimed(&events(submission)).ok_or(KeyLogError::Empty)?)
    }

    /// Verifies the key log of a submission, but for the events that are those of the known one.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn keys(submission: &Submission, known: Option<&KeyLog>) -> Result<KeyLog, Refusal> {
        if submission.statements.is_empty() {
            return Err(Refusal::Empty);
        }
        Ok(KeyLog::verify_onto(known, &events(submission))?)
    }

    /// Verifies the rest of a submission with that key log, or with the known one that goes on from it. Whoever shows somebody
    /// else's key log has no signature verified under another key, and none after what is wrong; what that is is told where it
    /// is judged.
    #[must_use]
    pub fn of(log: KeyLog, known: Option<&KeyLog>, submission: &Submission, (network, now_ms): (&str, u64)) -> Opened {
        let keys = known.filter(|known| known.continues(&log)).unwrap_or(&log);
        let check_signer = |bytes: &[u8]| match object::claimed_signer(bytes) {
            Ok(signer) => keys.accepts(signer, now_ms),
            // Reading it tells what is wrong.
            Err(_) => Ok(()),
        };
        let described = |bytes: &[u8]| -> Result<Described, DescriptionFault> {
            check_signer(bytes).map_err(DescriptionFault::Signer)?;
            let signed: Authored<Description> = object::open(bytes, network, "").map_err(DescriptionFault::Object)?;
            let version = version_of(&signed.body);
            Ok(Described { signed, version })
        };
        let mut statements = Vec::with_capacity(submission.statements.len());
        for (at, bytes) in submission.statements.iter().enumerate() {
            let signer = check_signer(bytes).map_err(Refusal::from);
            let one = signer.and_then(|()| Signed::open(at, bytes, network));
            let is_wrong = one.is_err();
            statements.push(one);
            if is_wrong {
                break;
            }
        }
        let descriptions = submission.descriptions.iter().map(|it| (digest(it), described(it))).collect();
        Opened { log, statements, descriptions }
    }

    /// The publishers that it is of or about: what is said of others says nothing of theirs.
    #[must_use]
    pub fn concerns(&self) -> BTreeSet<PublisherId> {
        let agents = self.statements.iter().flatten().filter_map(Signed::agent);
        agents.map(AgentId::publisher).chain([self.log.publisher()]).collect()
    }

    /// Whether it says who speaks for an organisation, which may matter to everybody.
    #[must_use]
    pub fn has_roster(&self) -> bool {
        self.statements.iter().flatten().any(|one| matches!(one, Signed::Roster(_)))
    }
}
