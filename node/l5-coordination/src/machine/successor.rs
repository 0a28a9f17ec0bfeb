//! Whether the state of a snapshot may take the place of the one here. Who belongs to the group, who was expelled and which keys
//! there are, is signed; so whoever sends a snapshot may tell more of that than is known here, and take nothing back.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::group::{Charter, Dissolution, Endorsed, Invitation};
use althing_protocol::limits::{CLOCK_SKEW_MAX_MS, GROUP_MEMBERS_MAX};
use althing_protocol::object::Statement;
use althing_protocol::{KeyLog, PublicKey, PublisherId};

use super::agents::Last;
use super::group::{EXPELLED_MAX, Group, is_later};
use super::members::Member;

/// Why a state takes nobody's place.
type Why = &'static str;

/// Whether `later` may follow `earlier`, the state of the node `here`.
///
/// # Errors
/// Why not.
pub fn check(later: &Group, earlier: &Group, here: PublicKey) -> Result<(), Why> {
    // Whoever has left hears it from a majority (P-109), or from a log that it executes itself.
    if earlier.members.get(&here).is_some() && later.members.get(&here).is_none() {
        return Err("this node is no member in it, and nothing shows why");
    }
    check_kept(later, earlier)
}

/// Whether `later` takes nothing back that `earlier` knows, whoever has that state.
///
/// # Errors
/// What it takes back.
pub fn check_kept(later: &Group, earlier: &Group) -> Result<(), Why> {
    let begins = later.charters.starts_with(&earlier.charters);
    if !begins || later.epoch < earlier.epoch || later.now_ms < earlier.now_ms {
        return Err("it is older than the state here, or of another history");
    }
    if later.rules < earlier.rules {
        return Err("it is by earlier rules than the log here is");
    }
    check_keys(later, earlier)?;
    check_gone(later, earlier)?;
    check_agents(later, earlier)?;
    check_members(later, earlier)?;
    check_voters(later, earlier)?;
    check_signatures(later, earlier)
}

/// Each key log that is still needed is the one here, or takes its place.
fn check_keys(later: &Group, earlier: &Group) -> Result<(), Why> {
    let needed = later.needed_publishers();
    let is_kept = |publisher| {
        let (now, before) = (later.logs.get(publisher), earlier.logs.get(publisher));
        now.zip(before).is_some_and(|(now, before)| is_later(now, before))
    };
    let kept = earlier.logs.keys().filter(|publisher| needed.contains(publisher)).all(is_kept);
    if kept { Ok(()) } else { Err("it lacks keys that are known here") }
}

/// Expulsions stay, and invitations that were used stay used. An expulsion is forgotten for others only where no more were
/// remembered here either: rows do not show who signed them, so as many can be made up.
fn check_gone(later: &Group, earlier: &Group) -> Result<(), Why> {
    let oldest = later.expelled.values().min().copied().unwrap_or_default();
    let are_full = earlier.expelled.len() >= EXPELLED_MAX && later.expelled.len() >= EXPELLED_MAX;
    let is_forgotten = |at: u64| are_full && at <= oldest;
    let is_kept = |(node, at): (&PublicKey, &u64)| match later.expelled.get(node) {
        Some(now) => now >= at,
        None => is_forgotten(*at),
    };
    if !earlier.expelled.iter().all(is_kept) {
        return Err("it lacks an expulsion that is known here");
    }
    let is_over = |(nonce, until): (&[u8; 16], &u64)| *until < later.now_ms || later.used.get(nonce) == Some(until);
    if earlier.used.iter().all(is_over) { Ok(()) } else { Err("it lacks the use of an invitation that is known here") }
}

/// What was deployed last, or ended, is known: an earlier deployment is not the last one again. With the end of the group all
/// of them are over.
fn check_agents(later: &Group, earlier: &Group) -> Result<(), Why> {
    let (now, before) = (&later.agents, &earlier.agents);
    let is_kept = |(agent, owner, last): (&str, &PublisherId, Last)| match now.get(agent, owner) {
        Some(now) => now >= last,
        None => now.forgotten_ms() >= last.made_ms,
    };
    if later.dissolution.is_some() || now.forgotten_ms() >= before.forgotten_ms() && before.iter().all(is_kept) {
        Ok(())
    } else {
        Err("it lacks a deployment of an agent, or its end, that is known here")
    }
}

/// Members that were there are what they were, and others joined since, by an invitation that was not used before and that no
/// expulsion ended.
fn check_members(later: &Group, earlier: &Group) -> Result<(), Why> {
    for (node, member) in later.members.iter() {
        // Read only where it is needed, since its signatures are verified again for that.
        let invitation = || invitation(later, member);
        let is_new = || {
            earlier.charter.is_none()
                || member.admission.as_ref().is_some_and(|admission| admission.at_ms >= earlier.now_ms)
                    && invitation().is_some_and(|invitation| !earlier.used.contains_key(&invitation.nonce))
        };
        match earlier.members.get(node).filter(|before| before.order == member.order) {
            Some(before) if (before.owner, &before.admission) == (member.owner, &member.admission) => {}
            None if is_new() => {}
            _ => return Err("it has a member that is another one here, or had left"),
        }
        let expelled = later.expelled.get(node);
        if expelled.is_some_and(|at| invitation().is_none_or(|invitation| invitation.epoch <= *at)) {
            return Err("it has a member that was expelled after it was invited");
        }
    }
    let gone = earlier.members.iter().filter(|(node, member)| !is_same(later, node, member)).count();
    let charters = later.charters.len() - earlier.charters.len();
    // Each of both ends an epoch.
    if later.epoch - earlier.epoch < (gone + charters) as u64 {
        return Err("it has more changes than epochs");
    }
    Ok(())
}

fn is_same(group: &Group, node: &PublicKey, member: &Member) -> bool {
    group.members.get(node).is_some_and(|other| other.order == member.order)
}

/// The invitation by which a member joined; none for the founder.
pub fn invitation(group: &Group, member: &Member) -> Option<Invitation> {
    member.admission.as_ref()?.invitation.read(&group.network, &group.id.to_string()).ok()
}

/// There are as many voters as P-98 says, and a majority of those that vote here votes in it, and did in each set since: no row
/// shows who signed that others left. None of those here lost its vote where nothing can have taken it.
fn check_voters(later: &Group, earlier: &Group) -> Result<(), Why> {
    let Some(charter) = &later.charter else { return Ok(()) };
    if later.members.voters().len() != later.members.voters_wanted(charter.policy.voters_max) {
        return Err("it has another number of voters than its members and charter give");
    }
    if earlier.charter.is_none() {
        return Ok(());
    }
    let voted = earlier.members.voters();
    let is_known = |set: &BTreeSet<PublicKey>| set == voted || earlier.members.recent().any(|known| known == set);
    let mut since = later.members.recent().filter(|&set| !is_known(set));
    if !has_majority(later.members.voters(), earlier) || !since.all(|set| has_majority(set, earlier)) {
        return Err(EXCHANGED);
    }
    let stay = earlier.members.iter().all(|(node, member)| is_same(later, node, member));
    let is_unchanged = stay && later.charters.len() == earlier.charters.len();
    if is_unchanged && charter.policy.replaces_after_ms().is_none() && !voted.is_subset(later.members.voters()) {
        return Err("a voter lost its vote in it, though nobody left and the charter replaces none");
    }
    Ok(())
}

/// Why too many new voters are not believed.
const EXCHANGED: Why = "a majority of the voters here does not vote in it, and nothing shows why; if they were exchanged \
                        while this node was away, expel it and let it join anew";

/// Whether a majority of the voters of a state is among these.
fn has_majority(voters: &BTreeSet<PublicKey>, group: &Group) -> bool {
    let before = group.members.voters();
    before.intersection(voters).count() * 2 > before.len()
}

/// The nodes that entries removed which were executed here, the last ones: those `known` so far, and the members `before` the last
/// one, unless they are members now. They are as many as a group has members at most. Of who is no member by a snapshot alone
/// nothing shows who signed that, nor that it was expelled.
pub fn leavers(known: &[PublicKey], before: &[PublicKey], group: &Group) -> Vec<PublicKey> {
    // Mostly nobody: asked of each entry, and of up to as many members as there can be.
    let is_gone = |node: &&PublicKey| group.members.get(node).is_none();
    let new = before.iter().filter(is_gone).filter(|node| !known.contains(node));
    let mut all: Vec<PublicKey> = known.iter().filter(is_gone).chain(new).copied().collect();
    all.drain(..all.len().saturating_sub(GROUP_MEMBERS_MAX));
    all
}

/// Whether the log may have these sets of voters where the state here is `earlier` and the log had the sets `present`: in each
/// is a majority of the voters of that state, but for those between `present` and them, since the log follows the state a few
/// entries later.
///
/// # Errors
/// Why not.
pub fn check_log(log: &[BTreeSet<PublicKey>], earlier: &Group, present: &[BTreeSet<PublicKey>]) -> Result<(), Why> {
    if earlier.charter.is_none() {
        return Ok(());
    }
    let recent: Vec<&BTreeSet<PublicKey>> = earlier.members.recent().collect();
    let behind: &[&BTreeSet<PublicKey>] = match recent.iter().rposition(|set| present.contains(set)) {
        Some(at) if !present.contains(earlier.members.voters()) => &recent[at..],
        _ => &[],
    };
    let is_ours =
        |set: &BTreeSet<PublicKey>| has_majority(set, earlier) || present.contains(set) || behind.contains(&set);
    if log.iter().all(is_ours) { Ok(()) } else { Err(EXCHANGED) }
}

/// The keys of each publisher that sign what is not known here yet.
struct Signers(BTreeMap<PublisherId, BTreeSet<PublicKey>>);

impl Signers {
    /// Those that count by the logs here, and those that are new: a key that was rotated out signs nothing any more.
    fn of(later: &Group, earlier: &Group) -> Signers {
        let keys = |log: &KeyLog| -> BTreeSet<PublicKey> {
            let known = earlier.logs.get(&log.publisher());
            let in_common =
                known.map_or(0, |known| known.events().zip(log.events()).take_while(|(a, b)| a == b).count());
            let new = log.events().skip(in_common).map(|event| event.key);
            new.chain(known.into_iter().flat_map(|known| counting(known, earlier.now_ms, later.now_ms))).collect()
        };
        Signers(later.logs.iter().map(|(publisher, log)| (*publisher, keys(log))).collect())
    }

    /// What as many owners of `under` signed as must.
    fn verify<T: Statement + PartialEq>(&self, group: &Group, endorsed: &Endorsed, under: &Charter) -> Option<T> {
        let is_key_of = |owner: PublisherId, key: PublicKey| self.0.get(&owner).is_some_and(|keys| keys.contains(&key));
        endorsed.verify_by(&group.network, &group.id.to_string(), under, is_key_of).ok()
    }
}

/// The keys of a log that count at some time between these two, if it is not continued.
fn counting(log: &KeyLog, from_ms: u64, to_ms: u64) -> impl Iterator<Item = PublicKey> {
    // The key before the last one counts from the beginning of the rotation only, which may be dated ahead.
    let begins_ms = log.events().last().map_or(0, |last| last.issued_at_ms.saturating_sub(CLOCK_SKEW_MAX_MS));
    let at_ms = begins_ms.min(to_ms).max(from_ms);
    log.events().map(|event| event.key).filter(move |key| log.accepts(*key, at_ms).is_ok())
}

/// Charters, members and the end of the group that are not known here are signed by keys that still count here, or are new; and
/// members were invited under the last charter here, or a later one.
fn check_signatures(later: &Group, earlier: &Group) -> Result<(), Why> {
    let Some(last) = &earlier.charter else { return Ok(()) };
    let signers = Signers::of(later, earlier);
    let mut charters = vec![last.clone()];
    for (endorsed, _) in &later.charters[earlier.charters.len()..] {
        let next = signers.verify::<Charter>(later, endorsed, &charters[charters.len() - 1]);
        charters.push(next.ok_or("it has a charter that keys signed which do not count any more")?);
    }
    for (_, member) in later.members.iter().filter(|(node, member)| !is_same(earlier, node, member)) {
        let is_invited = member.admission.as_ref().zip(invitation(later, member)).is_some_and(|(admission, said)| {
            let under = charters.iter().find(|charter| charter.digest() == said.charter);
            under.is_some_and(|under| signers.verify(later, &admission.invitation, under) == Some(said))
        });
        if !is_invited {
            return Err("it has a member that was invited under a charter, or by keys, that do not count any more");
        }
    }
    match (&earlier.dissolution, &later.dissolution) {
        (Some(before), Some(now)) if before == now => Ok(()),
        (Some(_), _) => Err("it does not show the end of the group that is known here"),
        (None, Some(now)) if signers.verify::<Dissolution>(later, now, &charters[charters.len() - 1]).is_none() => {
            Err("it shows an end of the group that keys signed which do not count any more")
        }
        (None, _) => Ok(()),
    }
}
