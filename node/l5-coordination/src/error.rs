//! Why something about groups fails.

use althing_failure::{GroupStep, Kind, Remedy};
use althing_protocol::group::{EndorsementError, GroupId};
use althing_protocol::{ObjectError, PublicKey};
use althing_store::{ReadError, WriteError};

use crate::consensus::ReplicaError;
use crate::machine::outcome::Refusal;

/// Why an operation on a group failed.
#[derive(Debug, thiserror::Error)]
pub enum GroupError {
    /// This node is no member of it.
    #[error("this node is no member of the group {0}")]
    NoSuchGroup(GroupId),
    /// The node is a member already.
    #[error("this node belongs to the group {0} already")]
    AlreadyHere(GroupId),
    /// No group here has that name.
    #[error("this node belongs to no group called {0:?}")]
    NotFound(String),
    /// Several have it.
    #[error("this node knows several groups called {name:?}: give the id of the one that is meant. {}", ids(.groups))]
    Ambiguous {
        /// The name.
        name: String,
        /// Their ids, and how this node stands to each.
        groups: Vec<(GroupId, &'static str)>,
    },
    /// Another group here has that name.
    #[error(
        "this node belongs to a group called {0:?} already: {1}. Give the new one another name, or leave that one before"
    )]
    NameTaken(String, GroupId),
    /// Another node leads.
    #[error("only the leader can hand over the lead; {}", .0.map_or_else(|| "none is known now".to_owned(), |leader| format!("it is {leader} now")))]
    NotLeading(Option<PublicKey>),
    /// The group ended.
    #[error("the group {0} was dissolved")]
    Dissolved(GroupId),
    /// The group refused it.
    #[error("the group refused: {0}")]
    Refused(#[from] Refusal),
    /// An attempt was executed, and the answer to it was lost.
    #[error(
        "the group has executed it, and the answer was lost: whether it was done or refused, only the group's state tells"
    )]
    OutcomeUnknown,
    /// No leader answered in time.
    #[error(
        "the group {group} did not answer within {seconds} s: {why}. It needs a majority of its voters; try again when they are \
         there. Whether the commands were executed is not known"
    )]
    NoAnswer {
        /// Which group.
        group: GroupId,
        /// How long it was tried.
        seconds: u64,
        /// What went wrong last.
        why: String,
    },
    /// A majority of its voters cannot be reached, so that it decides nothing.
    #[error(
        "the group {name} has {} of {voters} voters ({}): it decides nothing until {} are there{}",
        voters - missing.len(),
        silent(missing, *silent_s),
        voters / 2 + 1,
        unsure(*begun)
    )]
    NoMajority {
        /// Its name.
        name: String,
        /// Its voters.
        voters: usize,
        /// Those of them that cannot be reached.
        missing: Vec<PublicKey>,
        /// For how many seconds nobody has led.
        silent_s: u64,
        /// Whether something was sent before that was known.
        begun: bool,
    },
    /// What is to be signed breaks a rule.
    #[error(transparent)]
    Object(#[from] ObjectError),
    /// An invitation's signatures.
    #[error(transparent)]
    Endorsement(#[from] EndorsementError),
    /// The ticket cannot be read.
    #[error("this is no ticket of a group: {0}")]
    Ticket(String),
    /// The ticket is for another node.
    #[error("the ticket is for the node {invited}, and this is {here}")]
    ForAnother {
        /// For whom it is.
        invited: PublicKey,
        /// This node.
        here: PublicKey,
    },
    /// The group is of another network.
    #[error("the group is of the network {theirs:?}, and this node of {here:?}")]
    Network {
        /// The group's.
        theirs: String,
        /// This node's.
        here: String,
    },
    /// The replica on this node does not run.
    #[error("the replica of the group {group} on this node does not run: {why}")]
    Stopped {
        /// Which group.
        group: GroupId,
        /// Why.
        why: String,
    },
    /// The replica refused it.
    #[error("the group: {0}")]
    Replica(#[from] ReplicaError),
    /// Membership of this node's owner cannot be shown.
    #[error("this node shows no membership of its owner: {0}")]
    NoOwner(&'static str),
    /// A charter that cannot be.
    #[error("the charter cannot be changed so: {0}")]
    Charter(String),
    /// No proposal begins so, or several do.
    #[error("{0:?} names {1} proposals of the group")]
    Proposal(String, usize),
    /// One owner alone cannot do it.
    #[error("{threshold} owners of the group must sign, and this node's owner is one of them at most")]
    Alone {
        /// How many.
        threshold: u8,
    },
    /// What is kept of groups cannot be read.
    #[error("what this node keeps of its groups cannot be read: {0}")]
    Read(#[from] ReadError),
    /// What is kept of groups cannot be written.
    #[error("what this node keeps of its groups cannot be written: {0}")]
    Write(#[from] WriteError),
    /// A row is damaged.
    #[error("what this node keeps of the group {group} is damaged: {why}")]
    Damaged {
        /// Which group.
        group: GroupId,
        /// What is wrong.
        why: String,
    },
    /// A result that a member holds is not to be had.
    #[error("the bytes that {holder} holds: {why}")]
    Content {
        /// Who holds them.
        holder: PublicKey,
        /// Why.
        why: String,
    },
    /// The charter leaves reading to the owners, and this is no node of one.
    #[error("the charter of {0:?} lets only its owners read this, and this node is none of theirs")]
    OnlyOwnersRead(String),
    /// Too many groups.
    #[error("this node belongs to {0} groups, as many as it can")]
    TooMany(usize),
}

impl GroupError {
    /// What kind of failure it is.
    #[must_use]
    pub fn kind(&self) -> Kind {
        match self {
            GroupError::NoSuchGroup(_)
            | GroupError::NotFound(_)
            | GroupError::Proposal(..)
            | GroupError::Refused(Refusal::NotAMember(_)) => Kind::NotFound,
            GroupError::Ticket(_) | GroupError::Ambiguous { .. } | GroupError::Object(_) | GroupError::Charter(_) => {
                Kind::Invalid
            }
            GroupError::NoAnswer { .. }
            | GroupError::NoMajority { .. }
            | GroupError::OutcomeUnknown
            | GroupError::Content { .. } => Kind::Unreachable,
            GroupError::Refused(_)
            | GroupError::AlreadyHere(_)
            | GroupError::NameTaken(..)
            | GroupError::Dissolved(_)
            | GroupError::Endorsement(_)
            | GroupError::ForAnother { .. }
            | GroupError::Network { .. }
            | GroupError::NoOwner(_)
            | GroupError::Alone { .. }
            | GroupError::NotLeading(_)
            | GroupError::OnlyOwnersRead(_)
            | GroupError::TooMany(_) => Kind::Refused,
            GroupError::Stopped { .. }
            | GroupError::Replica(_)
            | GroupError::Read(_)
            | GroupError::Write(_)
            | GroupError::Damaged { .. } => Kind::Failed,
        }
    }

    /// What to do next, where that is a step of its own.
    #[must_use]
    pub fn remedy(&self) -> Option<Remedy> {
        let step = match self {
            GroupError::NoSuchGroup(_) | GroupError::NotFound(_) => GroupStep::List,
            GroupError::Proposal(..) => GroupStep::ListProposals,
            GroupError::NoMajority { .. } => GroupStep::ReadStale,
            GroupError::Stopped { group, .. } => GroupStep::RejoinIfDamaged(group.to_string()),
            GroupError::Damaged { group, .. } => GroupStep::Rejoin(group.to_string()),
            GroupError::OnlyOwnersRead(name) => GroupStep::PermitReading(name.clone()),
            _ => return None,
        };
        Some(step.into())
    }
}

fn ids(groups: &[(GroupId, &'static str)]) -> String {
    groups.iter().map(|(id, standing)| format!("{id} ({standing})")).collect::<Vec<_>>().join(", ")
}

/// Who is silent, each by a name that is short enough for a line.
fn silent(missing: &[PublicKey], seconds: u64) -> String {
    let short = |node: &PublicKey| {
        let key = node.to_string();
        let key = key.strip_prefix("did:key:").unwrap_or(&key);
        format!("{}…{}", &key[..key.len().min(6)], &key[key.len().saturating_sub(6)..])
    };
    let names: Vec<String> = missing.iter().map(short).collect();
    format!("{} silent for {seconds} s", names.join(", "))
}

/// What is to be said where something was sent.
fn unsure(begun: bool) -> &'static str {
    if begun { ". Whether what was sent is executed then is not known" } else { "" }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    #[test]
    fn failures_of_groups_have_the_kinds_that_they_always_had() {
        let node = SecretKey::from_seed(&[1; 32]).public();
        let without_majority = GroupError::NoMajority {
            name: "team".to_owned(),
            voters: 3,
            missing: vec![node],
            silent_s: 24,
            begun: false,
        };
        let table = [
            (GroupError::NotFound("team".to_owned()), Kind::NotFound),
            (GroupError::Proposal("a1".to_owned(), 2), Kind::NotFound),
            (GroupError::Refused(Refusal::NotAMember(node)), Kind::NotFound),
            (GroupError::Ticket("short".to_owned()), Kind::Invalid),
            (GroupError::Ambiguous { name: "team".to_owned(), groups: Vec::new() }, Kind::Invalid),
            (GroupError::Charter("no owner".to_owned()), Kind::Invalid),
            (GroupError::OutcomeUnknown, Kind::Unreachable),
            (without_majority, Kind::Unreachable),
            (GroupError::Content { holder: node, why: "gone".to_owned() }, Kind::Unreachable),
            (GroupError::NotLeading(None), Kind::Refused),
            (GroupError::Alone { threshold: 2 }, Kind::Refused),
            (GroupError::NoOwner("none"), Kind::Refused),
            (GroupError::OnlyOwnersRead("team".to_owned()), Kind::Refused),
            (GroupError::TooMany(9), Kind::Refused),
        ];
        for (error, kind) in table {
            assert_eq!(error.kind(), kind, "{error}");
        }
    }

    #[test]
    fn failures_of_groups_name_the_next_step_and_their_texts_no_command() {
        let group = GroupId::from_digest([7; 32]);
        let table = [
            (GroupError::NoSuchGroup(group), Some(GroupStep::List)),
            (GroupError::NotFound("team".to_owned()), Some(GroupStep::List)),
            (GroupError::Proposal("a1".to_owned(), 2), Some(GroupStep::ListProposals)),
            (
                GroupError::Stopped { group, why: "torn".to_owned() },
                Some(GroupStep::RejoinIfDamaged(group.to_string())),
            ),
            (GroupError::Damaged { group, why: "torn".to_owned() }, Some(GroupStep::Rejoin(group.to_string()))),
            (GroupError::OnlyOwnersRead("team".to_owned()), Some(GroupStep::PermitReading("team".to_owned()))),
            (GroupError::TooMany(9), None),
        ];
        for (error, step) in table {
            assert_eq!(error.remedy(), step.map(Remedy::from), "{error}");
            assert!(!error.to_string().contains('`'), "{error}");
        }
    }

    #[test]
    fn who_lacks_a_majority_is_told_who_is_missing_and_how_to_read() {
        let missing = [2, 3].map(|seed| SecretKey::from_seed(&[seed; 32]).public()).to_vec();
        let error = |begun| GroupError::NoMajority {
            name: "team".to_owned(),
            voters: 3,
            missing: missing.clone(),
            silent_s: 24,
            begun,
        };
        let said = error(false).to_string();
        assert!(said.starts_with("the group team has 1 of 3 voters (z6Mk"), "{said}");
        assert!(said.ends_with(" silent for 24 s): it decides nothing until 2 are there"), "{said}");
        assert_eq!(error(false).remedy(), Some(GroupStep::ReadStale.into()));
        assert!(!said.contains("not known") && error(true).to_string().contains("not known"), "{said}");
    }
}
