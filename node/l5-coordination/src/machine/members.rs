//! The members of a group, and which of them vote.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use althing_protocol::group::{Declaration, Endorsed, StateMark};
use althing_protocol::limits::GROUP_MEMBERS_MAX;
use althing_protocol::{PublicKey, PublisherId};
use minicbor::{Decode, Encode};

use super::outcome::Refusal;

/// A member.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Member {
    /// Its owner.
    #[n(0)]
    pub owner: PublisherId,
    /// How many joined before it.
    #[n(1)]
    pub order: u64,
    /// Where it can be dialled.
    #[n(2)]
    pub addresses: Vec<String>,
    /// The invitation by which it joined, and the group's time then; none for the founder.
    #[n(3)]
    pub admission: Option<Admission>,
    /// The version of the rules that it knows, as it says itself.
    #[n(4)]
    pub rules: u32,
    /// What it said of its state last.
    #[n(5)]
    pub mark: Option<StateMark>,
}

/// Why a member is one: shown to others with each snapshot.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct Admission {
    /// The owners' invitation.
    #[n(0)]
    pub invitation: Endorsed,
    /// When it was used, Unix milliseconds.
    #[n(1)]
    pub at_ms: u64,
}

/// The last sets of voters that are remembered: a change of the log's own members may come a few entries after the state's.
pub(crate) const RECENT_VOTERS: usize = 8;

/// The members of a group.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Members {
    by_node: BTreeMap<PublicKey, Member>,
    voters: BTreeSet<PublicKey>,
    /// Earlier sets of voters, the newest last.
    recent: VecDeque<BTreeSet<PublicKey>>,
    joined: u64,
    /// Members that another one did not hear when they voted, and that said nothing since; since when, Unix milliseconds.
    silent: BTreeMap<PublicKey, u64>,
    /// How many members each owner has.
    owners: BTreeMap<PublisherId, usize>,
}

/// The version of the rules that every member knows: no earlier one was ever said.
pub(crate) const RULES_FIRST: u32 = 1;
/// Marks that are kept: members declare the last one after others have taken the next.
pub const MARKS_KEPT: usize = 2;

impl Members {
    /// The member of that key.
    #[must_use]
    pub fn get(&self, node: &PublicKey) -> Option<&Member> {
        self.by_node.get(node)
    }

    /// All, by key.
    pub fn iter(&self) -> impl Iterator<Item = (&PublicKey, &Member)> {
        self.by_node.iter()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_node.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_node.is_empty()
    }

    /// Those that vote.
    #[must_use]
    pub fn voters(&self) -> &BTreeSet<PublicKey> {
        &self.voters
    }

    /// Whether the publisher owns one of them.
    #[must_use]
    pub fn owns(&self, owner: &PublisherId) -> bool {
        self.owners.contains_key(owner)
    }

    /// How many owners they have.
    #[must_use]
    pub fn owners(&self) -> usize {
        self.owners.len()
    }

    /// The highest version of the rules that all of them know.
    #[must_use]
    pub fn known_rules(&self) -> u32 {
        self.by_node.values().map(|member| member.rules).min().unwrap_or(RULES_FIRST)
    }

    /// A member says which rules it knows, and what its state was.
    pub(crate) fn declare(&mut self, node: PublicKey, declaration: Declaration) -> Result<(), Refusal> {
        let member = self.by_node.get_mut(&node).ok_or(Refusal::NotAMember(node))?;
        (member.rules, member.mark) = (declaration.rules, declaration.mark);
        Ok(())
    }

    /// Whether the log's members may become these: each set of voters is or was lately one of the state's, and each other
    /// node is a member or was a voter lately. `present` are the log's voters now, `present_learners` its others.
    #[must_use]
    pub fn justify(
        &self,
        voters: &[BTreeSet<PublicKey>],
        learners: &BTreeSet<PublicKey>,
        present: &[BTreeSet<PublicKey>],
        present_learners: &BTreeSet<PublicKey>,
    ) -> bool {
        let is_known =
            |set: &BTreeSet<PublicKey>| *set == self.voters || self.recent.contains(set) || present.contains(set);
        let is_ours = |node: &PublicKey| {
            self.by_node.contains_key(node)
                || present_learners.contains(node)
                || self.recent.iter().chain(present).any(|set| set.contains(node))
        };
        !voters.is_empty() && voters.iter().all(is_known) && learners.iter().all(is_ours)
    }

    /// Adds a member.
    pub(crate) fn join(
        &mut self,
        node: PublicKey,
        owner: PublisherId,
        addresses: Vec<String>,
        admission: Option<Admission>,
        voters_max: u8,
    ) -> Result<(), Refusal> {
        if self.by_node.contains_key(&node) {
            return Err(Refusal::AlreadyMember(node));
        }
        if self.by_node.len() == GROUP_MEMBERS_MAX {
            return Err(Refusal::Full(format!("it has {GROUP_MEMBERS_MAX} members")));
        }
        let (order, rules, mark) = (self.joined, RULES_FIRST, None);
        self.by_node.insert(node, Member { owner, order, addresses, admission, rules, mark });
        *self.owners.entry(owner).or_default() += 1;
        self.joined = self.joined.saturating_add(1);
        self.choose_voters(voters_max);
        Ok(())
    }

    /// A member can be dialled elsewhere.
    pub(crate) fn moved(&mut self, node: PublicKey, addresses: &[String]) -> Result<(), Refusal> {
        let member = self.by_node.get_mut(&node).ok_or(Refusal::NotAMember(node))?;
        addresses.clone_into(&mut member.addresses);
        Ok(())
    }

    pub(crate) fn remove(&mut self, node: PublicKey, voters_max: u8) -> Result<(), Refusal> {
        let owner = self.by_node.get(&node).ok_or(Refusal::NotAMember(node))?.owner;
        if self.by_node.len() == 1 {
            return Err(Refusal::LastMember);
        }
        self.by_node.remove(&node);
        self.silent.remove(&node);
        if let Some(count) = self.owners.get_mut(&owner) {
            *count -= 1;
        }
        self.owners.retain(|_, count| *count > 0);
        self.choose_voters(voters_max);
        Ok(())
    }

    /// Since when a member is silent, if it is.
    #[must_use]
    pub fn silent_since(&self, node: &PublicKey) -> Option<u64> {
        self.silent.get(node).copied()
    }

    /// All members that are silent, and since when.
    pub fn silent(&self) -> impl Iterator<Item = (&PublicKey, &u64)> {
        self.silent.iter()
    }

    /// A voter is not heard any more; if it is silent already, since then.
    pub(crate) fn mark(&mut self, node: PublicKey, now_ms: u64) {
        self.silent.entry(node).or_insert(now_ms);
    }

    /// A member said something.
    pub(crate) fn hear(&mut self, node: &PublicKey) {
        self.silent.remove(node);
    }

    /// A learner votes instead of a voter.
    pub(crate) fn replace(&mut self, voter: PublicKey, learner: PublicKey) {
        let mut voters = self.voters.clone();
        voters.remove(&voter);
        voters.insert(learner);
        self.set_voters(voters);
    }

    /// How many of the members vote.
    pub(crate) fn voters_wanted(&self, voters_max: u8) -> usize {
        let possible = usize::from(voters_max).min(self.by_node.len());
        if possible % 2 == 0 { possible.saturating_sub(1) } else { possible }
    }

    /// An odd number of voters: another one more would make a majority larger and no failure more tolerable. Those that
    /// vote stay, so that a change moves as few votes as possible; of the others those that are not silent go before, then
    /// those that joined first.
    pub(crate) fn choose_voters(&mut self, voters_max: u8) {
        let count = self.voters_wanted(voters_max);
        let rank = |(node, member): (&PublicKey, &Member)| {
            let (learns, is_silent) = (!self.voters.contains(node), self.silent.contains_key(node));
            (learns, learns && is_silent, member.order, *node)
        };
        let mut ranked: Vec<_> = self.by_node.iter().map(rank).collect();
        ranked.sort_unstable();
        self.set_voters(ranked.into_iter().take(count).map(|(.., node)| node).collect());
    }

    fn set_voters(&mut self, voters: BTreeSet<PublicKey>) {
        let before = std::mem::replace(&mut self.voters, voters);
        if before != self.voters && !before.is_empty() {
            self.recent.push_back(before);
            if self.recent.len() > RECENT_VOTERS {
                self.recent.pop_front();
            }
        }
    }

    pub(crate) fn recent(&self) -> impl Iterator<Item = &BTreeSet<PublicKey>> {
        self.recent.iter()
    }

    pub(crate) fn joined(&self) -> u64 {
        self.joined
    }

    /// The members of a snapshot.
    pub(crate) fn restore(
        members: impl IntoIterator<Item = (PublicKey, Member)>,
        voters: BTreeSet<PublicKey>,
        recent: VecDeque<BTreeSet<PublicKey>>,
        joined: u64,
        silent: BTreeMap<PublicKey, u64>,
    ) -> Members {
        let by_node: BTreeMap<PublicKey, Member> = members.into_iter().collect();
        let mut owners: BTreeMap<PublisherId, usize> = BTreeMap::new();
        for member in by_node.values() {
            *owners.entry(member.owner).or_default() += 1;
        }
        Members { by_node, voters, recent, joined, silent, owners }
    }
}

/// Why a node that knows only earlier rules has no part in the group.
pub(crate) fn older(rules: u32) -> String {
    format!(
        "the group executes its log by the rules of version {rules}, which this node does not say it knows; update it"
    )
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    use super::*;

    fn node(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    proptest! {
        /// P-98
        #[test]
        fn voters_are_members_odd_in_number_and_change_little(
            steps in prop::collection::vec((any::<bool>(), 0..12u8), 1..60),
            voters_max in 1..=7u8,
        ) {
            let mut members = Members::default();
            let owner = PublisherId::from_digest([1; 32]);
            members.join(node(0), owner, Vec::new(), None, voters_max).expect("the first");
            for (joins, seed) in steps {
                let before = members.clone();
                let changed = if joins {
                    members.join(node(seed), owner, Vec::new(), None, voters_max)
                } else {
                    members.remove(node(seed), voters_max)
                };
                if changed.is_err() {
                    prop_assert_eq!(&members, &before);
                }
                let voters = members.voters();
                prop_assert!(voters.len() % 2 == 1 && voters.len() <= usize::from(voters_max));
                prop_assert!(voters.iter().all(|voter| members.get(voter).is_some()));
                let most = usize::from(voters_max).min(members.len());
                prop_assert!(voters.len() + 1 >= most, "{} of {}", voters.len(), most);
                prop_assert!(before.voters().symmetric_difference(voters).count() <= 2);
            }
        }
    }
}
