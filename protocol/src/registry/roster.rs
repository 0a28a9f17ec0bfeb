//! Rosters: whom an organisation lets publish, under which names.

use std::fmt;
use std::str::FromStr;

use minicbor::decode::Error as DecodeError;
use minicbor::encode::{Error as EncodeError, Write};
use minicbor::{Decode, Decoder, Encode, Encoder};

use super::Domain;
use crate::identity::{AgentId, PublisherId};
use crate::limits::{
    AGENT_NAME_MAX, ROSTER_LIFE_MAX_MS, ROSTER_MEMBERS_MAX, ROSTER_NAMES_IN_ALL_MAX, ROSTER_NAMES_MAX,
};
use crate::object::{Kind, ObjectError, Statement, in_time, life};

/// What a member of an organisation may do there.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
#[cbor(index_only)]
pub enum Role {
    /// See what is for the organisation.
    #[n(1)]
    Read,
    /// Hand in releases for approval.
    #[n(2)]
    Stage,
    /// Approve releases, and mark them.
    #[n(3)]
    Approve,
}

/// Names of agents: a name, or the beginning of names followed by `*`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct NamePattern(String);

/// Text that is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no pattern of agents' names: it looks like billing, billing-* or *")]
pub struct NamePatternError(String);

impl NamePattern {
    /// Whether a name is meant.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.strip_suffix('*').map_or(self.0 == name, |beginning| name.starts_with(beginning))
    }
}

impl FromStr for NamePattern {
    type Err = NamePatternError;

    fn from_str(text: &str) -> Result<NamePattern, NamePatternError> {
        let beginning = text.strip_suffix('*').unwrap_or(text);
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let fine = !text.is_empty() && beginning.len() <= AGENT_NAME_MAX && beginning.bytes().all(plain);
        if fine { Ok(NamePattern(text.to_owned())) } else { Err(NamePatternError(text.chars().take(80).collect())) }
    }
}

impl fmt::Display for NamePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<C> Encode<C> for NamePattern {
    fn encode<W: Write>(&self, e: &mut Encoder<W>, _: &mut C) -> Result<(), EncodeError<W::Error>> {
        e.str(&self.0)?.ok()
    }
}

impl<'b, C> Decode<'b, C> for NamePattern {
    fn decode(d: &mut Decoder<'b>, _: &mut C) -> Result<Self, DecodeError> {
        d.str()?.parse().map_err(|error: NamePatternError| DecodeError::message(error.to_string()))
    }
}

/// A member of an organisation.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RosterMember {
    /// The member.
    #[n(0)]
    pub publisher: PublisherId,
    /// What it may do, in ascending order.
    #[n(1)]
    pub roles: Vec<Role>,
    /// Which agents of its own are the organisation's, and which agents it may approve.
    #[n(2)]
    pub names: Vec<NamePattern>,
}

/// The members of an organisation. It lives a day at most: who is no longer renewed is out.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Roster {
    #[n(0)]
    kind: Kind,
    /// The organisation, whose key signs.
    #[n(1)]
    pub organisation: PublisherId,
    /// Its members, in ascending order.
    #[n(2)]
    pub members: Vec<RosterMember>,
    /// How many members must approve a release.
    #[n(3)]
    pub approvals: u8,
    /// Higher in later rosters.
    #[n(4)]
    pub sequence: u64,
    /// Unix milliseconds.
    #[n(5)]
    pub not_before_ms: u64,
    /// Unix milliseconds, at most 24 h after `not_before_ms`.
    #[n(6)]
    pub not_after_ms: u64,
    /// The domain under which people find its agents; whether it is the organisation's, others have to find out.
    #[n(7)]
    pub domain: Option<Domain>,
}

impl Roster {
    /// A roster to be signed, whose releases need one approval.
    #[must_use]
    pub fn new(
        organisation: PublisherId,
        mut members: Vec<RosterMember>,
        sequence: u64,
        not_before_ms: u64,
        not_after_ms: u64,
    ) -> Roster {
        members.sort_by_key(|member| member.publisher);
        Roster {
            kind: Kind::Roster,
            organisation,
            members,
            approvals: 1,
            sequence,
            not_before_ms,
            not_after_ms,
            domain: None,
        }
    }

    /// Whether the organisation's own key or that of a member may do this with the agent.
    #[must_use]
    pub fn allows(&self, publisher: PublisherId, role: Role, agent: &AgentId) -> bool {
        if publisher == self.organisation {
            return true;
        }
        self.members.iter().filter(|member| member.publisher == publisher).any(|member| {
            member.roles.contains(&role) && member.names.iter().any(|pattern| pattern.matches(agent.name()))
        })
    }

    /// Whether a publisher sees what is for the organisation.
    #[must_use]
    pub fn has_reader(&self, publisher: PublisherId) -> bool {
        publisher == self.organisation || self.members.iter().any(|member| member.publisher == publisher)
    }

    /// Checks that it is valid at `now_ms`.
    ///
    /// # Errors
    /// [`ObjectError::Expired`] or [`ObjectError::NotYetValid`].
    pub fn in_force(&self, now_ms: u64) -> Result<(), ObjectError> {
        in_time(self.not_before_ms, self.not_after_ms, now_ms)
    }
}

impl Statement for Roster {
    const KIND: Kind = Kind::Roster;

    fn kind(&self) -> Kind {
        self.kind
    }

    fn check(&self) -> Result<(), ObjectError> {
        let wrong = |what: String| Err(ObjectError::Shape(what));
        if self.members.len() > ROSTER_MEMBERS_MAX {
            return wrong(format!("a roster has at most {ROSTER_MEMBERS_MAX} members"));
        }
        if !self.members.is_sorted_by(|one, next| one.publisher < next.publisher) {
            return wrong("a roster lists each member once, in ascending order".to_owned());
        }
        for member in &self.members {
            let roles = (1..=3).contains(&member.roles.len()) && member.roles.is_sorted_by(|one, next| one < next);
            if !roles || member.names.len() > ROSTER_NAMES_MAX {
                return wrong(format!("a member has roles, each once, and at most {ROSTER_NAMES_MAX} names"));
            }
        }
        if self.members.iter().map(|member| member.names.len()).sum::<usize>() > ROSTER_NAMES_IN_ALL_MAX {
            return wrong(format!("the members of a roster have at most {ROSTER_NAMES_IN_ALL_MAX} names together"));
        }
        let approvers = self.members.iter().filter(|member| member.roles.contains(&Role::Approve)).count();
        if self.approvals == 0 || usize::from(self.approvals) > approvers + 1 {
            return wrong(format!("{} approvals are wanted of {approvers} members who may approve", self.approvals));
        }
        life(self.not_before_ms, self.not_after_ms, ROSTER_LIFE_MAX_MS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::identity::SecretKey;
    use crate::object;

    fn publisher(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    fn member(seed: u8, roles: &[Role], names: &[&str]) -> RosterMember {
        let names = names.iter().map(|name| name.parse().expect("a pattern")).collect();
        RosterMember { publisher: publisher(seed), roles: roles.to_vec(), names }
    }

    fn roster() -> Roster {
        let members =
            vec![member(3, &[Role::Stage, Role::Approve], &["billing", "pay-*"]), member(2, &[Role::Read], &[])];
        Roster::new(publisher(1), members, 1, 0, ROSTER_LIFE_MAX_MS)
    }

    #[test]
    fn members_do_what_their_roles_and_names_say() {
        let roster = roster();
        let agent = |name: &str| AgentId::new(publisher(3), name).expect("a name");
        for (seed, role, name, allowed) in [
            (3, Role::Approve, "billing", true),
            (3, Role::Approve, "pay-in", true),
            (3, Role::Approve, "pay", false),
            (3, Role::Approve, "billing-2", false),
            (2, Role::Stage, "billing", false),
            (1, Role::Approve, "anything", true),
            (9, Role::Read, "billing", false),
        ] {
            assert_eq!(roster.allows(publisher(seed), role, &agent(name)), allowed, "{seed} {role:?} {name}");
        }
        assert!([1, 2, 3].into_iter().all(|seed| roster.has_reader(publisher(seed))));
        assert!(!roster.has_reader(publisher(9)));
    }

    #[test]
    fn a_roster_that_contradicts_itself_is_not_signed() {
        let key = SecretKey::from_seed(&[1; 32]);
        let refused = |change: &dyn Fn(&mut Roster)| {
            let mut body = roster();
            change(&mut body);
            object::sign(body, "net", "", &key).is_err()
        };
        assert!(!refused(&|_| ()));
        assert!(!refused(&|it| it.approvals = 2), "the organisation's key is one more");
        assert!(refused(&|it| it.approvals = 3));
        assert!(refused(&|it| it.approvals = 0));
        assert!(refused(&|it| it.members.reverse()));
        assert!(refused(&|it| it.members[0].roles.clear()));
        assert!(refused(&|it| it.members[1].roles.reverse()));
        assert!(refused(&|it| it.not_after_ms += 1), "longer than a day");
    }

    #[test]
    fn the_largest_roster_that_is_signed_is_read() {
        let key = SecretKey::from_seed(&[1; 32]);
        let of = |names: usize| {
            let member = |index: usize| {
                let mut digest = [0; 32];
                digest[..8].copy_from_slice(&(index as u64).to_be_bytes());
                let names = vec!["*".parse().expect("a pattern"); names];
                let roles = vec![Role::Read, Role::Stage, Role::Approve];
                RosterMember { publisher: PublisherId::from_digest(digest), roles, names }
            };
            let members = (0..ROSTER_MEMBERS_MAX).map(member).collect();
            object::sign(Roster::new(publisher(1), members, 1, 0, 1), "net", "", &key)
        };
        let largest = of(ROSTER_NAMES_IN_ALL_MAX / ROSTER_MEMBERS_MAX).expect("it is signed");
        assert!(object::open::<Roster>(&largest.bytes, "net", "").is_ok());
        assert!(of(ROSTER_NAMES_IN_ALL_MAX / ROSTER_MEMBERS_MAX + 1).is_err(), "nobody could read it");
    }

    #[test]
    fn patterns_are_names_or_beginnings_of_names() {
        for good in ["billing", "pay-*", "*", "a"] {
            assert_eq!(good.parse::<NamePattern>().map(|it| it.to_string()).as_deref(), Ok(good));
        }
        for bad in ["", "**", "a*b", "Pay", "pay.*", "ümlaut", &"a".repeat(64)] {
            assert!(bad.parse::<NamePattern>().is_err(), "{bad}");
        }
    }
}
