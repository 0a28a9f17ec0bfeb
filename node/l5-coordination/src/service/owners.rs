//! What the owners of a group decide, where this node's owner is one of them: it is done at once if no other need sign, and
//! proposed in the group's log otherwise.

use std::collections::BTreeSet;

use althing_protocol::group::{
    Amendment, Charter, Command, Dissolution, Endorse, Endorsed, Expulsion, GroupId, Invitation, Motion, Policy,
    Propose, Rule,
};
use althing_protocol::limits::{INVITATION_LIFE_MAX_MS, PROPOSAL_LIFE_MAX_MS};
use althing_protocol::object::Statement;
use althing_protocol::{Digest, PublicKey, PublisherId, object};
use minicbor::bytes::ByteVec;

use super::{BACKDATE_MS, Groups, Shared, contacts, events};
use crate::error::GroupError;
use crate::machine::group::Group;
use crate::machine::group::owners::{name_of, signers};
use crate::machine::outcome::Refusal;
use crate::machine::proposals::Proposal;
use crate::ticket::Ticket;

/// What became of something that this node's owner signed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signed {
    /// Enough owners signed it.
    Done,
    /// Others must sign it too: the proposal of this name.
    Waits(Digest),
}

/// What became of an invitation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Invited {
    /// A ticket for the node.
    Ticket(Box<Ticket>),
    /// Other owners must sign it too: the proposal of this name. The ticket suffices for a node of an owner whose signature is the
    /// only one that is missing, since it signs when it joins.
    Waits(Digest, Box<Ticket>),
}

/// How a charter changes. What is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Change {
    /// Further owners.
    pub add: Vec<PublisherId>,
    /// Owners that are none any more.
    pub remove: Vec<PublisherId>,
    /// How many owners must sign.
    pub threshold: Option<u8>,
    /// Who may write.
    pub write: Option<Rule>,
    /// How many members vote, at most.
    pub voters_max: Option<u8>,
    /// After how long a silent voter is replaced, milliseconds; 0: never.
    pub replace_after_ms: Option<u64>,
    /// Who may give the group work.
    pub assign: Option<Rule>,
    /// Whose nodes show all of the group to their users.
    pub read: Option<Rule>,
}

impl Change {
    /// The policy after it.
    fn policy(&self, before: &Policy) -> Policy {
        Policy {
            write: self.write.unwrap_or(before.write),
            voters_max: self.voters_max.unwrap_or(before.voters_max),
            replace_after_ms: self.replace_after_ms.or(before.replace_after_ms),
            assign: self.assign.or(before.assign),
            read: self.read.or(before.read),
        }
    }

    /// The charter after it.
    fn charter(&self, before: &Charter, group: GroupId, now_ms: u64) -> Result<Charter, GroupError> {
        let mut owners: BTreeSet<PublisherId> = before.owners.iter().copied().collect();
        if let Some(stranger) = self.remove.iter().find(|owner| !owners.contains(owner)) {
            return Err(GroupError::Charter(format!("{stranger} is no owner of the group")));
        }
        owners.extend(&self.add);
        owners.retain(|owner| !self.remove.contains(owner));
        let owners: Vec<PublisherId> = owners.into_iter().collect();
        let threshold = self.threshold.unwrap_or(before.threshold);
        if threshold == 0 || usize::from(threshold) > owners.len() {
            let text = format!("{threshold} of {} owners cannot sign; say how many must", owners.len());
            return Err(GroupError::Charter(text));
        }
        let mut charter = before.next(group, now_ms);
        (charter.owners, charter.threshold, charter.policy) = (owners, threshold, self.policy(&before.policy));
        Ok(charter)
    }
}

/// A proposal that waits for signatures, or for the node that it invites.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Waiting {
    /// Its name.
    pub id: Digest,
    /// What it says.
    pub proposal: Proposal,
    /// The owners that signed it, by their keys now.
    pub signers: BTreeSet<PublisherId>,
    /// How many must.
    pub threshold: u8,
    /// What it says, for people.
    pub about: String,
}

/// The owners of a group, of whom this node's is one.
pub struct Owners<'a> {
    groups: &'a Groups,
    group: GroupId,
}

impl<'a> Owners<'a> {
    /// The owners of `group`.
    #[must_use]
    pub fn of(groups: &'a Groups, group: GroupId) -> Owners<'a> {
        Owners { groups, group }
    }

    /// The present charter, if this node's owner is one of those that it names.
    fn charter(&self) -> Result<(Charter, u64), GroupError> {
        let owner = (self.groups.shared.owner)().log.publisher();
        let looked = self.groups.look(self.group, |state| (state.charter().cloned(), state.epoch()))?;
        let charter = looked.0.ok_or(Refusal::NotFounded)?;
        if !charter.owners.contains(&owner) {
            return Err(not_an_owner(owner).into());
        }
        Ok((charter, looked.1))
    }

    /// Proposes a statement: it is executed at once if this owner's signature is enough.
    async fn propose<T: Statement>(
        &self,
        body: T,
        life_ms: u64,
        motion: impl FnOnce(Endorsed) -> Motion,
    ) -> Result<Signed, GroupError> {
        let shared = &self.groups.shared;
        let id = name_of(&body);
        let motion = motion(shared.endorse(body, &self.group.to_string())?);
        let expires_ms = shared.clock.now_ms() + life_ms;
        let propose = Command::Propose(Box::new(Propose { motion, expires_ms }));
        let done = self.groups.command(self.group, propose).await?;
        Ok(if done.is_some() { Signed::Done } else { Signed::Waits(id) })
    }

    /// Changes the charter.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn amend(&self, change: &Change) -> Result<Signed, GroupError> {
        let (before, _) = self.charter()?;
        let charter = change.charter(&before, self.group, self.groups.shared.clock.now_ms())?;
        let known = |owner: &PublisherId| self.groups.look(self.group, |state| state.logs.contains_key(owner));
        let mut logs = Vec::new();
        for owner in &charter.owners {
            if !known(owner)? {
                logs.push(log_of(self.groups, *owner)?);
            }
        }
        self.propose(charter, LIFE_MS, |charter| Motion::Amend(Amendment { charter, logs })).await
    }

    /// Removes a node from the group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn expel(&self, node: PublicKey) -> Result<Signed, GroupError> {
        let (_, epoch) = self.charter()?;
        self.propose(Expulsion::new(self.group, node, epoch), LIFE_MS, Motion::Expel).await
    }

    /// Ends the group.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn dissolve(&self) -> Result<Signed, GroupError> {
        let (charter, _) = self.charter()?;
        self.propose(Dissolution::new(self.group, charter.digest()), LIFE_MS, Motion::Dissolve).await
    }

    /// Invites a node, for `life_ms`.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub async fn invite(&self, node: PublicKey, life_ms: u64) -> Result<Invited, GroupError> {
        let (charter, epoch) = self.charter()?;
        if charter.threshold == 1 {
            return self.groups.invite(self.group, node, life_ms).map(|ticket| Invited::Ticket(Box::new(ticket)));
        }
        let body = invitation(&self.groups.shared, self.group, &charter, epoch, node, life_ms);
        let id = name_of(&body);
        // It is of no use when it is over.
        self.propose(body, life_ms.min(LIFE_MS), Motion::Invite).await?;
        self.groups.catch_up(self.group).await?;
        let gone = || GroupError::Proposal(althing_protocol::hex(&id), 0);
        Ok(Invited::Waits(id, Box::new(self.ticket(&id)?.ok_or_else(gone)?)))
    }

    /// What waits for signatures, or for the node that it invites.
    ///
    /// # Errors
    /// See [`GroupError`].
    pub fn waiting(&self) -> Result<Vec<Waiting>, GroupError> {
        let network = &self.groups.shared.config.network;
        self.groups.look(self.group, |state| {
            let all = state.proposals().iter();
            all.filter_map(|(id, proposal)| waiting(state, network, *id, proposal)).collect()
        })
    }

    /// Signs the proposal whose name begins so, in hexadecimal; with a ticket, if it is an invitation that enough owners
    /// signed.
    ///
    /// # Errors
    /// [`GroupError::Proposal`] unless one proposal begins so.
    pub async fn endorse(&self, name: &str) -> Result<(Signed, Option<Ticket>), GroupError> {
        self.charter()?;
        let matches = |waiting: &Waiting| althing_protocol::hex(&waiting.id).starts_with(name);
        let found: Vec<Waiting> = self.waiting()?.into_iter().filter(matches).collect();
        let [Waiting { id, proposal, .. }] = found.as_slice() else {
            return Err(GroupError::Proposal(name.to_owned(), found.len()));
        };
        let signed = self.sign(&proposal.motion)?;
        let endorse = Command::Endorse(Endorse { proposal: *id, signed: signed.into() });
        if self.groups.command(self.group, endorse).await?.is_none() {
            return Ok((Signed::Waits(*id), None));
        }
        if !matches!(proposal.motion, Motion::Invite(_)) {
            return Ok((Signed::Done, None));
        }
        // The last signature may not have arrived here yet.
        self.groups.catch_up(self.group).await?;
        Ok((Signed::Done, self.ticket(id)?))
    }

    /// The ticket of an invitation that was proposed; none if its node has joined meanwhile.
    fn ticket(&self, id: &Digest) -> Result<Option<Ticket>, GroupError> {
        let network = self.groups.shared.config.network.clone();
        self.groups.look(self.group, |state| {
            let proposal = state.proposals().get(id)?;
            let (charter, signed) = (state.charter()?, signers(state, &proposal.motion));
            let is_missing = signed.len() < usize::from(charter.threshold);
            let asked = charter.owners.iter().filter(|owner| is_missing && !signed.contains(owner)).copied().collect();
            let (name, invitation) = (charter.name.clone(), proposal.motion.signed().clone());
            Some(Ticket { network, group: self.group, name, invitation, contacts: contacts(state), asked })
        })
    }

    /// The authored object by which this node's owner signs what a motion says.
    fn sign(&self, motion: &Motion) -> Result<Vec<u8>, GroupError> {
        let (network, scope) = (self.groups.shared.config.network.as_str(), self.group.to_string());
        let key = (self.groups.shared.owner)().key;
        let signed = motion.signed();
        let object = match motion {
            Motion::Amend(_) => object::sign(signed.read::<Charter>(network, &scope)?, network, &scope, &key)?.bytes,
            Motion::Expel(_) => object::sign(signed.read::<Expulsion>(network, &scope)?, network, &scope, &key)?.bytes,
            Motion::Dissolve(_) => {
                object::sign(signed.read::<Dissolution>(network, &scope)?, network, &scope, &key)?.bytes
            }
            Motion::Invite(_) => {
                object::sign(signed.read::<Invitation>(network, &scope)?, network, &scope, &key)?.bytes
            }
        };
        Ok(object)
    }
}

/// How long a proposal waits: the longest that is possible, whatever the difference of two nodes' clocks.
const LIFE_MS: u64 = PROPOSAL_LIFE_MAX_MS - BACKDATE_MS;

/// An invitation under this charter, to be signed.
fn invitation(
    shared: &Shared,
    group: GroupId,
    charter: &Charter,
    epoch: u64,
    node: PublicKey,
    life_ms: u64,
) -> Invitation {
    let now_ms = shared.clock.now_ms();
    let life_ms = life_ms.min(INVITATION_LIFE_MAX_MS - BACKDATE_MS);
    let (from, to) = (now_ms.saturating_sub(BACKDATE_MS), now_ms + life_ms);
    Invitation::new(group, charter.digest(), node, from, to, shared.entropy.bytes(), epoch)
}

/// A ticket for `node`, if this node's owner alone may sign it.
pub(super) fn invite_alone(
    groups: &Groups,
    group: GroupId,
    node: PublicKey,
    life_ms: u64,
) -> Result<Ticket, GroupError> {
    let shared = &groups.shared;
    let looked = |state: &Group| (state.charter().cloned(), contacts(state), state.epoch());
    let (charter, contacts, epoch) = groups.look(group, looked)?;
    let charter = alone(shared, charter)?;
    let body = invitation(shared, group, &charter, epoch, node, life_ms);
    let invitation = shared.endorse(body, &group.to_string())?;
    let network = shared.config.network.clone();
    Ok(Ticket { network, group, name: charter.name, invitation, contacts, asked: Vec::new() })
}

/// This node's owner is none of the group's.
fn not_an_owner(owner: PublisherId) -> Refusal {
    Refusal::NotPermitted(format!("{owner}, to whom this node belongs, is no owner of it: do it on a node of an owner"))
}

/// The charter, if this node's owner alone may act under it.
fn alone(shared: &Shared, charter: Option<Charter>) -> Result<Charter, GroupError> {
    let charter = charter.ok_or(Refusal::NotFounded)?;
    let owner = (shared.owner)().log.publisher();
    if charter.threshold > 1 {
        return Err(GroupError::Alone { threshold: charter.threshold });
    }
    if !charter.owners.contains(&owner) {
        return Err(not_an_owner(owner).into());
    }
    Ok(charter)
}

/// The invitation of a ticket, signed by this node's owner too if that is one of the owners that have not signed it.
pub(super) fn countersigned(groups: &Groups, ticket: &Ticket) -> Result<Endorsed, GroupError> {
    let owner = (groups.shared.owner)();
    if !ticket.asked.contains(&owner.log.publisher()) {
        return Ok(ticket.invitation.clone());
    }
    let own = groups.shared.endorse(ticket.invitation()?, &ticket.group.to_string())?;
    Ok(Endorsed::new(ticket.invitation.objects().chain(own.objects()).map(<[u8]>::to_vec)))
}

/// How many owners can be asked to sign when a group is formed: its founder's, and that of the node that joins next.
pub const FIRST_THRESHOLD_MAX: u8 = 2;

/// Forms a group of this node alone, that belongs to this node's owner and to `others`, of whom `threshold` must sign.
///
/// The first charter is this owner's: nobody else could sign it before there is a group. The second one follows at once.
///
/// # Errors
/// See [`GroupError`]; nothing is formed if a key log of an owner is not known here.
pub async fn create(
    groups: &Groups,
    name: &str,
    policy: Policy,
    others: &[PublisherId],
    threshold: u8,
) -> Result<GroupId, GroupError> {
    let own = (groups.shared.owner)().log.publisher();
    let others: BTreeSet<PublisherId> = others.iter().copied().filter(|owner| *owner != own).collect();
    if threshold == 0 || usize::from(threshold) > others.len() + 1 {
        let text = format!("{threshold} of {} owners cannot sign", others.len() + 1);
        return Err(GroupError::Charter(text));
    }
    if threshold > FIRST_THRESHOLD_MAX {
        let text = "at first 2 owners can sign; amend the charter to have more of them sign when each has a member";
        return Err(GroupError::Charter(text.to_owned()));
    }
    others.iter().try_for_each(|owner| log_of(groups, *owner).map(drop))?;
    let id = groups.create(name, policy).await?;
    if !others.is_empty() {
        let change = Change { add: others.into_iter().collect(), threshold: Some(threshold), ..Change::default() };
        Owners::of(groups, id).amend(&change).await?;
    }
    Ok(id)
}

/// The events of a publisher's key log, as this node knows it.
fn log_of(groups: &Groups, owner: PublisherId) -> Result<Vec<ByteVec>, GroupError> {
    let unknown = || {
        GroupError::Charter(format!(
            "this node does not know the keys of {owner}: connect to a node of its own, whose status shows its addresses"
        ))
    };
    groups.shared.communication.key_log(owner).map(|log| events(&log)).ok_or_else(unknown)
}

fn waiting(state: &Group, network: &str, id: Digest, proposal: &Proposal) -> Option<Waiting> {
    let charter = state.charter()?;
    let scope = state.id().to_string();
    let signers = signers(state, &proposal.motion);
    let about = about(charter, network, &scope, &proposal.motion).ok()?;
    Some(Waiting { id, proposal: proposal.clone(), signers, threshold: charter.threshold, about })
}

/// What a motion says, for people.
fn about(present: &Charter, network: &str, scope: &str, motion: &Motion) -> Result<String, GroupError> {
    let signed = motion.signed();
    Ok(match motion {
        Motion::Amend(_) => difference(present, &signed.read::<Charter>(network, scope)?),
        Motion::Expel(_) => format!("expel {}", signed.read::<Expulsion>(network, scope)?.node.did()),
        Motion::Dissolve(_) => "dissolve the group".to_owned(),
        Motion::Invite(_) => format!("invite {}", signed.read::<Invitation>(network, scope)?.node.did()),
    })
}

/// How a charter differs from the present one, for people.
fn difference(present: &Charter, next: &Charter) -> String {
    let mut said = Vec::new();
    let added = next.owners.iter().filter(|owner| !present.owners.contains(owner));
    said.extend(added.map(|owner| format!("add the owner {owner}")));
    let gone = present.owners.iter().filter(|owner| !next.owners.contains(owner));
    said.extend(gone.map(|owner| format!("remove the owner {owner}")));
    if next.threshold != present.threshold {
        said.push(format!("{} of {} owners sign", next.threshold, next.owners.len()));
    }
    let (before, after) = (&present.policy, &next.policy);
    if before.write != after.write {
        said.push(format!("{} write", after.write.name()));
    }
    if (before.assign, before.assigners()) != (after.assign, after.assigners()) {
        said.push(format!("{} give the group work", after.assigners().name()));
    }
    if before.read != after.read {
        said.push(format!("{} read", after.readers().name()));
    }
    if before.voters_max != after.voters_max {
        said.push(format!("at most {} members vote", after.voters_max));
    }
    if before.replace_after_ms != after.replace_after_ms {
        said.push(match after.replaces_after_ms() {
            Some(ms) => format!("a silent voter is replaced after {} s", ms / 1_000),
            None => "a silent voter is never replaced".to_owned(),
        });
    }
    if present.name != next.name {
        said.push(format!("the name is {}", next.name));
    }
    if said.is_empty() { "the same charter anew".to_owned() } else { said.join("; ") }
}
