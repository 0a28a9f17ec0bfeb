//! What owners decide: expulsions, charters and the end of a group, by as many signatures as the charter says; and how these
//! are gathered in the log.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_protocol::group::{
    Amendment, Author, Charter, Dissolution, Endorse, Endorsed, Expulsion, Invitation, KeyLogs, Motion, Propose,
};
use althing_protocol::limits::PROPOSAL_LIFE_MAX_MS;
use althing_protocol::object::Statement;
use althing_protocol::{Digest, PublicKey, PublisherId};
use minicbor::bytes::ByteVec;

use super::{CHARTERS_MAX, Group, costs, read_log};
use crate::machine::outcome::Refusal;
use crate::machine::proposals::Proposal;

/// What a motion says.
enum Said {
    Charter(Charter),
    Expulsion(Expulsion),
    Dissolution(Dissolution),
    Invitation(Invitation),
}

/// A motion whose signatures were checked.
struct Opened {
    said: Said,
    /// The digest of what is signed.
    id: Digest,
    /// The owners that signed it.
    signers: BTreeSet<PublisherId>,
}

/// The name of a proposal: the digest of the payload that its owners sign.
pub(crate) fn name_of<T: Statement>(body: &T) -> Digest {
    althing_protocol::digest(&minicbor::to_vec(body).expect("writing to a vector cannot fail"))
}

/// The name of the proposal of this motion, whoever signed it.
pub(crate) fn name_of_motion(network: &str, scope: &str, motion: &Motion) -> Result<Digest, String> {
    let signed = motion.signed();
    let name = match motion {
        Motion::Amend(_) => signed.read::<Charter>(network, scope).map(|body| name_of(&body)),
        Motion::Expel(_) => signed.read::<Expulsion>(network, scope).map(|body| name_of(&body)),
        Motion::Dissolve(_) => signed.read::<Dissolution>(network, scope).map(|body| name_of(&body)),
        Motion::Invite(_) => signed.read::<Invitation>(network, scope).map(|body| name_of(&body)),
    };
    name.map_err(|error| error.to_string())
}

/// The owners whose signatures of a motion count now.
pub(crate) fn signers(group: &Group, motion: &Motion) -> BTreeSet<PublisherId> {
    let alone = |object: &[u8]| open(group, &motion.with(Endorsed::new([object.to_vec()])));
    motion.signed().objects().filter_map(|object| alone(object).ok()).flat_map(|opened| opened.signers).collect()
}

fn open(group: &Group, motion: &Motion) -> Result<Opened, Refusal> {
    fn of<T: Statement + PartialEq>(
        group: &Group,
        signed: &Endorsed,
        said: impl FnOnce(T) -> Said,
    ) -> Result<Opened, Refusal> {
        let (charter, scope) = (group.founded()?, group.id.to_string());
        let read = signed.signed_by::<T>(&group.network, &scope, charter, &group.logs, group.now_ms);
        let (body, signers) = read.map_err(|error| Refusal::Endorsement(error.to_string()))?;
        let id = name_of(&body);
        Ok(Opened { said: said(body), id, signers })
    }
    match motion {
        Motion::Amend(amendment) => of(group, &amendment.charter, Said::Charter),
        Motion::Expel(signed) => of(group, signed, Said::Expulsion),
        Motion::Dissolve(signed) => of(group, signed, Said::Dissolution),
        Motion::Invite(signed) => of(group, signed, Said::Invitation),
    }
}

/// The owner in whose name `author` brings a signature: nobody brings another's, so that what expired is not brought again.
fn own_signature(group: &Group, author: Author, opened: &Opened) -> Result<PublisherId, Refusal> {
    let owner = match author {
        Author::Publisher(publisher) => Some(publisher),
        Author::Node(node) => group.members.get(&node).map(|member| member.owner),
    };
    let signed = |owner: &PublisherId| opened.signers.iter().eq([owner]);
    let other = || Refusal::Author("an owner's signature is brought by itself, or by a member of its own".to_owned());
    owner.filter(signed).ok_or_else(other)
}

/// An owner asks the others to sign something. The outcome is the epoch if it is done, since no other need sign, and nothing if it
/// waits.
pub(super) fn propose(group: &mut Group, author: Author, propose: &Propose) -> Result<Option<u64>, Refusal> {
    let latest_ms = group.now_ms.saturating_add(PROPOSAL_LIFE_MAX_MS);
    if propose.expires_ms <= group.now_ms || propose.expires_ms > latest_ms {
        return Err(Refusal::Invalid("a proposal ends in the future, within 7 days".to_owned()));
    }
    if propose.motion.signed().objects().count() != 1 {
        return Err(Refusal::Endorsement("a proposal has the signature of who makes it, and no other".to_owned()));
    }
    let opened = open(group, &propose.motion)?;
    let proposer = own_signature(group, author, &opened)?;
    check(group, &propose.motion, &opened.said)?;
    match group.proposals.get(&opened.id).cloned() {
        // Two owners had the same thought.
        Some(known) => sign(group, opened, known, propose.motion.signed()),
        None => {
            let motion = propose.motion.clone();
            let proposal = Proposal { motion, proposer, expires_ms: propose.expires_ms };
            settle(group, opened.id, proposal, opened.signers.len())
        }
    }
}

/// An owner signs what was proposed. The outcome is as that of [`propose`].
pub(super) fn endorse(group: &mut Group, author: Author, endorse: &Endorse) -> Result<Option<u64>, Refusal> {
    let known = group.proposals.get(&endorse.proposal).cloned();
    let known = known.ok_or(Refusal::UnknownProposal(endorse.proposal))?;
    let signed = Endorsed::new([endorse.signed.to_vec()]);
    let opened = open(group, &known.motion.with(signed.clone()))?;
    if opened.id != endorse.proposal {
        return Err(Refusal::Endorsement("the signature is of something else than was proposed".to_owned()));
    }
    own_signature(group, author, &opened)?;
    sign(group, opened, known, &signed)
}

/// Adds a signature. Earlier ones of the same owner, and those whose keys are not valid any more, do not count.
fn sign(group: &mut Group, given: Opened, known: Proposal, signed: &Endorsed) -> Result<Option<u64>, Refusal> {
    let counts = |object: &&[u8]| {
        let alone = known.motion.with(Endorsed::new([object.to_vec()]));
        open(group, &alone).is_ok_and(|opened| opened.signers.is_disjoint(&given.signers))
    };
    let all = known.motion.signed().objects().filter(counts).chain(signed.objects());
    let motion = known.motion.with(Endorsed::new(all.map(<[u8]>::to_vec)));
    let signers = open(group, &motion)?.signers.len();
    settle(group, given.id, Proposal { motion, ..known }, signers)
}

/// Executes a motion that enough owners signed; keeps any other.
fn settle(group: &mut Group, id: Digest, proposal: Proposal, signers: usize) -> Result<Option<u64>, Refusal> {
    let is_enough = signers >= usize::from(group.founded()?.threshold);
    let epoch = match &proposal.motion {
        _ if !is_enough => None,
        Motion::Amend(amendment) => return amend(group, amendment),
        Motion::Dissolve(signed) => return dissolve(group, signed),
        // The end of the epoch removes it.
        Motion::Expel(signed) => return expel(group, signed),
        // It waits for its node.
        Motion::Invite(_) => Some(group.epoch),
    };
    group.proposals.put(id, proposal)?;
    Ok(epoch)
}

/// Whether a motion would be executed now, if enough owners had signed it.
fn check(group: &Group, motion: &Motion, said: &Said) -> Result<(), Refusal> {
    match (said, motion) {
        (Said::Charter(charter), Motion::Amend(amendment)) => next_logs(group, charter, amendment).map(drop),
        (Said::Expulsion(expulsion), _) => check_expulsion(group, expulsion),
        (Said::Dissolution(dissolution), _) => check_dissolution(group, dissolution),
        (Said::Invitation(invitation), _) if group.members.get(&invitation.node).is_some() => {
            Err(Refusal::AlreadyMember(invitation.node))
        }
        (Said::Invitation(invitation), _) => check_invitation(group, invitation),
        (Said::Charter(_), _) => Err(Refusal::Charter),
    }
}

/// Whether an invitation is one of this group that its node may use now.
pub(super) fn check_invitation(group: &Group, invitation: &Invitation) -> Result<(), Refusal> {
    let refused = |why: &str| Err(Refusal::Invitation(why.to_owned()));
    if invitation.group != group.id || invitation.charter != group.founded()?.digest() {
        return refused("it was made for another group, or under an earlier charter");
    }
    invitation.in_force(group.now_ms).map_err(|error| Refusal::Invitation(error.to_string()))?;
    if group.used.contains_key(&invitation.nonce) {
        return refused("it was used before");
    }
    if invitation.epoch > group.epoch {
        // An expulsion would not end it, and whoever joins by it would not find where it joined.
        return refused("it is of an epoch that has not begun");
    }
    match group.expelled.get(&invitation.node) {
        Some(at) if invitation.epoch <= *at => refused("the node was expelled after it was made"),
        _ => Ok(()),
    }
}

fn check_expulsion(group: &Group, expulsion: &Expulsion) -> Result<(), Refusal> {
    if expulsion.group != group.id {
        return Err(Refusal::Endorsement("it is of another group".to_owned()));
    }
    if expulsion.epoch != group.epoch {
        return Err(Refusal::Epoch { signed: expulsion.epoch, current: group.epoch });
    }
    match group.members.get(&expulsion.node) {
        None => Err(Refusal::NotAMember(expulsion.node)),
        Some(_) if group.members.len() == 1 => Err(Refusal::LastMember),
        Some(_) => Ok(()),
    }
}

/// Executes an expulsion.
pub(super) fn expel(group: &mut Group, endorsed: &Endorsed) -> Result<Option<u64>, Refusal> {
    let expulsion: Expulsion = group.verify(endorsed)?;
    check_expulsion(group, &expulsion)?;
    group.expel(expulsion.node)
}

/// Executes an amendment.
pub(super) fn amend(group: &mut Group, amendment: &Amendment) -> Result<Option<u64>, Refusal> {
    let charter: Charter = group.verify(&amendment.charter)?;
    group.logs = next_logs(group, &charter, amendment)?;
    group.members.choose_voters(charter.policy.voters_max);
    group.charters.push((amendment.charter.clone(), group.now_ms));
    group.all_owners.extend(&charter.owners);
    group.charter = Some(charter);
    // They were made under the charter before.
    group.proposals = Default::default();
    Ok(Some(group.next_epoch()))
}

/// The key logs of the group under its next charter.
fn next_logs(group: &Group, charter: &Charter, amendment: &Amendment) -> Result<KeyLogs, Refusal> {
    if !charter.continues(group.id, group.founded()?) {
        return Err(Refusal::Charter);
    }
    if group.charters.len() == CHARTERS_MAX {
        return Err(Refusal::Full(format!("it had {CHARTERS_MAX} charters")));
    }
    with_new_owners(&group.logs, amendment, charter)
}

fn check_dissolution(group: &Group, dissolution: &Dissolution) -> Result<(), Refusal> {
    let is_ours = dissolution.group == group.id && dissolution.charter == group.founded()?.digest();
    if is_ours { Ok(()) } else { Err(Refusal::Charter) }
}

/// Ends the group.
pub(super) fn dissolve(group: &mut Group, endorsed: &Endorsed) -> Result<Option<u64>, Refusal> {
    check_dissolution(group, &group.verify(endorsed)?)?;
    group.dissolution = Some(endorsed.clone());
    (group.values, group.agents, group.work, group.flows, group.proposals) = Default::default();
    Ok(Some(group.next_epoch()))
}

/// A later key log of a publisher that the group knows.
pub(super) fn keys(group: &mut Group, events: &[ByteVec]) -> Result<Option<u64>, Refusal> {
    // Who it is, is looked up before anything is verified.
    let publisher = costs::claimed(events).ok_or_else(|| Refusal::KeyLog("it has no events".to_owned()))?;
    let Some(known) = group.logs.get(&publisher) else {
        return Err(Refusal::KeyLog(format!("the group does not know the publisher {publisher}")));
    };
    let log = read_log(Some(known.as_ref()), events)?;
    group.learn(Arc::new(log));
    Ok(None)
}

/// The logs with those of the owners that a later charter adds. What is known is extended by `Command::Keys` only, and what nobody
/// needs is not verified.
fn with_new_owners(known: &KeyLogs, amendment: &Amendment, charter: &Charter) -> Result<KeyLogs, Refusal> {
    let mut logs = known.clone();
    for events in &amendment.logs {
        let is_wanted = |publisher: &PublisherId| charter.owners.contains(publisher) && !logs.contains_key(publisher);
        if let Some(publisher) = costs::claimed(events).filter(is_wanted) {
            logs.insert(publisher, Arc::new(read_log(None, events)?));
        }
    }
    match charter.owners.iter().find(|owner| !logs.contains_key(owner)) {
        Some(owner) => Err(Refusal::KeyLog(format!("the group knows none of the new owner {owner}"))),
        None => Ok(logs),
    }
}

/// The author, a voter, does not hear another one.
pub(super) fn silent(group: &mut Group, author: Author, voter: PublicKey) -> Result<Option<u64>, Refusal> {
    let now_ms = group.now_ms;
    other_voter(group, author, voter)?;
    group.members.mark(voter, now_ms);
    Ok(None)
}

/// A learner votes in the place of a voter that was silent for as long as the charter says.
pub(super) fn replace(
    group: &mut Group,
    author: Author,
    voter: PublicKey,
    learner: PublicKey,
) -> Result<Option<u64>, Refusal> {
    other_voter(group, author, voter)?;
    let wrong = |why: &str| Err(Refusal::Voter(why.to_owned()));
    let Some(after_ms) = group.founded()?.policy.replaces_after_ms() else {
        return wrong("the group's charter does not permit to replace a voter");
    };
    match group.members.silent_since(&voter) {
        None => return wrong("the voter is not silent"),
        Some(since_ms) if group.now_ms < since_ms.saturating_add(after_ms) => {
            return wrong("the voter has not been silent for as long as the charter says");
        }
        Some(_) => {}
    }
    if group.members.get(&learner).is_none() {
        return Err(Refusal::NotAMember(learner));
    }
    if group.members.voters().contains(&learner) || group.members.silent_since(&learner).is_some() {
        return wrong("who is to vote instead votes already, or is silent too");
    }
    if !may_take_the_place(group, &voter, &learner) {
        return wrong("where several owners must sign, only a node of the voter's own owner takes its place");
    }
    group.members.replace(voter, learner);
    Ok(None)
}

/// Whether `learner` may vote instead of `voter`. Who leads may keep a voter from being heard in the log; where several owners
/// must sign, that must not move a vote from one owner to another.
pub(in crate::machine) fn may_take_the_place(group: &Group, voter: &PublicKey, learner: &PublicKey) -> bool {
    let owner = |node| group.members.get(node).map(|member| member.owner);
    group.charter().is_some_and(|charter| charter.threshold == 1) || owner(voter) == owner(learner)
}

/// Whether `author` is a member that votes, and `voter` another one.
fn other_voter(group: &Group, author: Author, voter: PublicKey) -> Result<(), Refusal> {
    let voters = group.members.voters();
    match author {
        Author::Publisher(_) => Err(Refusal::Author("only a member can say whom it does not hear".to_owned())),
        Author::Node(node) if !voters.contains(&node) => Err(Refusal::NotPermitted(format!("{author} does not vote"))),
        Author::Node(node) if node == voter => Err(Refusal::Voter("no voter says so of itself".to_owned())),
        Author::Node(_) if !voters.contains(&voter) => Err(Refusal::Voter(format!("{voter} does not vote"))),
        Author::Node(_) => Ok(()),
    }
}
