//! The charter: who owns a group, how many of them must agree, and who may do what in it.

use minicbor::{Decode, Encode};

use super::GroupId;
use crate::Digest;
use crate::identity::{PublicKey, PublisherId};
use crate::limits::{AGENT_NAME_MAX, GROUP_OWNERS_MAX, GROUP_VOTERS_MAX, REPLACE_AFTER_MAX_MS, REPLACE_AFTER_MIN_MS};
use crate::object::{Kind, ObjectError, Statement};

/// After how long a silent voter may be replaced where a charter does not say it, milliseconds (10 min).
pub const REPLACE_AFTER_MS: u64 = 10 * 60 * 1_000;

/// Who may do something in a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum Rule {
    /// The owners.
    #[n(1)]
    Owners,
    /// The owners, the members, and the members' owners.
    #[n(2)]
    Members,
}

impl Rule {
    /// Its name, for people.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Rule::Owners => "owners",
            Rule::Members => "members",
        }
    }
}

/// What a charter permits.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Policy {
    /// Who may write values.
    #[n(0)]
    pub write: Rule,
    /// Members that vote; the others are learners. 1 to 7.
    #[n(1)]
    pub voters_max: u8,
    /// After how long a silent voter may be replaced, milliseconds; 0: never. [`REPLACE_AFTER_MS`] if absent.
    #[n(2)]
    pub replace_after_ms: Option<u64>,
    /// Who may give the group tasks, workflows and schedules. As `write` says if absent.
    #[n(3)]
    pub assign: Option<Rule>,
    /// Whose nodes show all of the group to their users. [`Rule::Members`] if absent.
    #[n(4)]
    pub read: Option<Rule>,
}

impl Policy {
    /// After how many milliseconds of silence a voter may be replaced; none: never.
    #[must_use]
    pub fn replaces_after_ms(&self) -> Option<u64> {
        Some(self.replace_after_ms.unwrap_or(REPLACE_AFTER_MS)).filter(|ms| *ms > 0)
    }

    /// Who may give the group work. A charter that does not say it leaves it to those who may write, as all did at first.
    #[must_use]
    pub fn assigners(&self) -> Rule {
        self.assign.unwrap_or(self.write)
    }

    /// Whose nodes show all of the group to their users.
    #[must_use]
    pub fn readers(&self) -> Rule {
        self.read.unwrap_or(Rule::Members)
    }
}

impl Default for Policy {
    fn default() -> Self {
        Policy { write: Rule::Members, voters_max: 5, replace_after_ms: None, assign: None, read: None }
    }
}

/// A charter. The first one founds its group; each later one names the one before it.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Charter {
    #[n(0)]
    kind: Kind,
    /// The group's name, for people.
    #[n(1)]
    pub name: String,
    /// 0 for the first, incremented by each.
    #[n(2)]
    pub sequence: u64,
    /// The group, and the digest of the charter before; absent in the first.
    #[n(3)]
    pub follows: Option<Follows>,
    /// The owners, in ascending order of their ids.
    #[n(4)]
    pub owners: Vec<PublisherId>,
    /// How many of the owners must sign what changes the group.
    #[n(5)]
    pub threshold: u8,
    /// The node that begins the group alone.
    #[n(6)]
    pub founder: PublicKey,
    /// Who may do what.
    #[n(7)]
    pub policy: Policy,
    /// Unix milliseconds.
    #[n(8)]
    pub issued_at_ms: u64,
    /// Random, so that two groups of one name and owner differ.
    #[cbor(n(9), with = "minicbor::bytes")]
    pub nonce: [u8; 16],
}

/// What a later charter follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Follows {
    /// The group.
    #[n(0)]
    pub group: GroupId,
    /// The digest of the charter before.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub charter: Digest,
}

impl Charter {
    /// The charter that founds a group.
    #[must_use]
    pub fn first(
        name: &str,
        owners: impl IntoIterator<Item = PublisherId>,
        threshold: u8,
        founder: PublicKey,
        policy: Policy,
        issued_at_ms: u64,
        nonce: [u8; 16],
    ) -> Charter {
        let mut owners: Vec<PublisherId> = owners.into_iter().collect();
        owners.sort_unstable();
        owners.dedup();
        let name = name.to_owned();
        Charter {
            kind: Kind::Charter,
            name,
            sequence: 0,
            follows: None,
            owners,
            threshold,
            founder,
            policy,
            issued_at_ms,
            nonce,
        }
    }

    /// The charter after this one of `group`, with other owners, threshold or policy.
    #[must_use]
    pub fn next(&self, group: GroupId, issued_at_ms: u64) -> Charter {
        let follows = Some(Follows { group, charter: self.digest() });
        Charter { sequence: self.sequence + 1, follows, issued_at_ms, ..self.clone() }
    }

    /// The digest of its encoding.
    #[must_use]
    pub fn digest(&self) -> Digest {
        crate::digest(&minicbor::to_vec(self).expect("writing to a vector cannot fail"))
    }

    /// Whether `self` may replace `before` in `group`: its owners' signatures are checked against those of `before`.
    #[must_use]
    pub fn continues(&self, group: GroupId, before: &Charter) -> bool {
        let expected = Follows { group, charter: before.digest() };
        self.follows == Some(expected) && self.sequence == before.sequence + 1 && self.founder == before.founder
    }
}

impl Statement for Charter {
    const KIND: Kind = Kind::Charter;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        let wrong = |what: &str| Err(ObjectError::Shape(what.to_owned()));
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        let edge = |c: char| c == '-';
        let named = (1..=AGENT_NAME_MAX).contains(&self.name.len()) && self.name.chars().all(allowed);
        if !named || self.name.starts_with(edge) || self.name.ends_with(edge) {
            return wrong("a group's name has 1 to 63 of the characters a-z, 0-9 and -, the last not at either end");
        }
        if !(1..=GROUP_OWNERS_MAX).contains(&self.owners.len()) || !self.owners.is_sorted_by(|a, b| a < b) {
            return wrong("a charter names 1 to 16 owners, each once, in ascending order");
        }
        if self.threshold == 0 || usize::from(self.threshold) > self.owners.len() {
            return wrong("the threshold of a charter is between 1 and the number of its owners");
        }
        if !(1..=GROUP_VOTERS_MAX).contains(&usize::from(self.policy.voters_max)) {
            return wrong("a group has 1 to 7 voters");
        }
        let replaces = REPLACE_AFTER_MIN_MS..=REPLACE_AFTER_MAX_MS;
        if self.policy.replaces_after_ms().is_some_and(|ms| !replaces.contains(&ms)) {
            return wrong("a silent voter is replaced after 10 seconds to 7 days, or never");
        }
        if (self.sequence == 0) != self.follows.is_none() {
            return wrong("the first charter follows none, and each other one follows one");
        }
        Ok(())
    }
}
