//! What a command costs that has signatures, by what it says and by what the group knows (P-89): counted before anything is
//! verified, and whatever becomes of it, so that it depends on nobody's way to execute it. What the others cost follows from
//! the tasks, while they are executed.

use althing_protocol::group::{Command, Endorsed, Motion};
use althing_protocol::{KeyLog, PublisherId};
use minicbor::bytes::ByteVec;

use super::Group;
use crate::machine::placement::AGENTS;
use crate::machine::work::SIGNATURE_STEPS;

/// How often a signature is verified while a proposal is: alone, with the others, and when it takes effect.
const OF_A_PROPOSAL: usize = 3;

/// The steps of a command that has signatures; none of any other.
pub(super) fn of(group: &Group, command: &Command) -> Option<usize> {
    let signatures = match command {
        Command::Expel(endorsed) | Command::Dissolve(endorsed) => count(endorsed),
        Command::Amend(amendment) => count(&amendment.charter) + new_events(group, &amendment.logs),
        Command::Propose(propose) => of_proposal(group, Some(&propose.motion)),
        Command::Endorse(endorse) => {
            of_proposal(group, group.proposals.get(&endorse.proposal).map(|proposal| &proposal.motion))
        }
        Command::Keys(events) => later_events(group, events),
        Command::Withdraw(_) => 1,
        // It, and the one before, which it may be the same as.
        Command::Set(set) if set.key.starts_with(AGENTS) => 2,
        _ => return None,
    };
    Some(SIGNATURE_STEPS * signatures)
}

/// Whether what a command costs follows from the tasks that it submits, links, assigns, ends and forgets.
pub(super) fn by_tasks(command: &Command) -> bool {
    matches!(
        command,
        Command::Submit(_)
            | Command::Depend(_)
            | Command::Cancel(_)
            | Command::Assign(_)
            | Command::Complete(_)
            | Command::Fail(_)
            | Command::Refuse(_)
            | Command::Abandon(_)
            | Command::RunWorkflow(_)
            | Command::Approve(_)
            | Command::CancelRun(_)
            | Command::ResumeRun(_)
            | Command::Fire(_)
    )
}

/// The publisher of a key log, by its first event. Nothing is verified.
pub(super) fn claimed(events: &[ByteVec]) -> Option<PublisherId> {
    events.first().map(|event| PublisherId::from_digest(althing_protocol::digest(event)))
}

fn count(endorsed: &Endorsed) -> usize {
    endorsed.objects().count()
}

/// A proposal has one signature of each owner at most.
fn of_proposal(group: &Group, motion: Option<&Motion>) -> usize {
    let owners = group.charter.as_ref().map_or(0, |charter| charter.owners.len());
    OF_A_PROPOSAL * owners + motion.map_or(0, |motion| new_events(group, motion.logs()))
}

/// The events of key logs of publishers that the group does not know.
fn new_events(group: &Group, logs: &[Vec<ByteVec>]) -> usize {
    let is_new = |events: &&Vec<ByteVec>| claimed(events).is_some_and(|publisher| !group.logs.contains_key(&publisher));
    logs.iter().filter(is_new).map(Vec::len).sum()
}

/// The events of a later key log that the group does not have; none if it does not know the publisher.
fn later_events(group: &Group, events: &[ByteVec]) -> usize {
    let known = claimed(events).and_then(|publisher| group.logs.get(&publisher));
    let bytes: Vec<&[u8]> = events.iter().map(|event| event.as_slice()).collect();
    known.map_or(0, |known| KeyLog::unverified(Some(known.as_ref()), &bytes))
}
