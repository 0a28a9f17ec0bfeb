//! Sends others its node's state as the snapshot of a later term, in which it is the only voter, or was, as if others had left,
//! or in which its victim is no member: who believes it follows it for ever, or deletes the group (P-105).

use std::collections::BTreeSet;
use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_coordination::RAFT;
use althing_coordination::consensus::wire::{self, Ballot, MembersRecord, Position, SnapshotPart, Unserved};
use althing_coordination::machine::group::Group;
use althing_protocol::PublicKey;
use althing_protocol::group::{Endorsed, GroupId, StateMark};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Decoder, Encode};
use rand::rngs::StdRng;
use rand::{Rng as _, SeedableRng as _};

use super::{PATIENCE, Target};

/// The interval of attempts.
const EVERY: Duration = Duration::from_millis(150);

/// The first row of a snapshot (SPEC.md, chapter 19).
#[derive(Encode, Decode)]
#[cbor(map)]
struct Head {
    #[n(0)]
    group: GroupId,
    #[n(2)]
    epoch: u64,
    #[n(3)]
    dissolution: Option<Endorsed>,
    #[n(4)]
    now_ms: u64,
    #[n(5)]
    voters: Vec<PublicKey>,
    #[n(6)]
    joined: u64,
    #[n(7)]
    last_version: u64,
    #[n(8)]
    recent: Vec<Vec<PublicKey>>,
    #[n(9)]
    forgotten_ms: u64,
    #[n(10)]
    rules: u32,
    #[n(11)]
    marks: Vec<StateMark>,
}

/// What it says of the voters and members.
struct Lie {
    /// Whether it votes alone; otherwise it did before those that vote.
    is_sole: bool,
    /// The members that are said to have left.
    gone: BTreeSet<PublicKey>,
}

impl Lie {
    /// It alone votes, with or without the victim as a member; or it did; or it does since all others left but the victim.
    fn draw(target: &Target, victim: PublicKey, rng: &mut StdRng) -> Lie {
        match rng.random_range(0..4) {
            0 => Lie { is_sole: true, gone: BTreeSet::new() },
            1 => Lie { is_sole: true, gone: BTreeSet::from([victim]) },
            2 => Lie { is_sole: false, gone: BTreeSet::new() },
            _ => Lie { is_sole: true, gone: target.honest.iter().copied().filter(|peer| *peer != victim).collect() },
        }
    }

    /// Who votes in the log: those that do by the state that it shows.
    fn log_voters(&self, state: &Group, liar: PublicKey) -> BTreeSet<PublicKey> {
        if self.is_sole { BTreeSet::from([liar]) } else { state.members().voters().clone() }
    }

    /// The rows of a state of a later epoch.
    fn rows(&self, state: &Group, liar: PublicKey) -> Option<Vec<ByteVec>> {
        let mut rows = state.rows();
        let (kind, (mut head,)): (u8, (Head,)) = minicbor::decode(rows.first()?).ok()?;
        head.epoch += 1 + self.gone.len() as u64;
        if self.is_sole {
            head.voters = vec![liar];
        } else {
            head.recent = vec![vec![liar]];
        }
        rows[0] = minicbor::to_vec((kind, (head,))).ok()?;
        rows.retain(|row| member(row).is_none_or(|member| !self.gone.contains(&member)));
        Some(rows.into_iter().map(ByteVec::from).collect())
    }
}

/// Whose row it is, if it is one of a member, or says that one is silent: `[1, [key, …]]`, `[12, [key, …]]`.
fn member(row: &[u8]) -> Option<PublicKey> {
    let mut decoder = Decoder::new(row);
    let is_kind = |kind: u8| kind == 1 || kind == 12;
    let is_member = decoder.array().ok()? == Some(2) && is_kind(decoder.u8().ok()?) && decoder.array().ok()?.is_some();
    is_member.then(|| decoder.decode().ok()).flatten()
}

/// What it writes down of a snapshot that is refused, with the reason.
const REFUSED: &str = "the snapshot of a usurper is not taken";

/// Sends a message; why it is refused, if somebody says so.
pub(super) async fn refusal(target: &Target, to: PublicKey, operation: &str, body: Vec<u8>) -> Option<String> {
    let request = Request { deadline: Some(PATIENCE), ..Request::new(operation, body) };
    match target.running.communication.call(to, RAFT, request).await {
        Err(CallError::Refused { body, .. }) => wire::read::<Unserved>(&body).ok().map(|why| why.to_string()),
        _ => None,
    }
}

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let (group, node) = (target.group, target.key.public());
        let mut rng = StdRng::seed_from_u64(target.seed);
        loop {
            tokio::time::sleep(EVERY).await;
            let victim = target.victim(&mut rng);
            let lie = Lie::draw(&target, victim, &mut rng);
            let status = target.running.groups.overview(group).ok().and_then(|overview| overview.replica);
            let Some((term, applied)) = status.and_then(|status| Some((status.term + 1, status.applied?))) else {
                continue;
            };
            let told = |state: &Group| lie.rows(state, node).map(|rows| (rows, lie.log_voters(state, node)));
            let Ok(Some((rows, voters))) = target.running.groups.look(group, told) else {
                continue;
            };
            let last = Position { term, index: applied + 1_000 };
            let all: BTreeSet<PublicKey> = target.honest.difference(&lie.gone).copied().chain([node]).collect();
            let learners = all.difference(&voters).copied().collect();
            let part = SnapshotPart {
                group,
                leader: Ballot { term, node, elected: true },
                last: Some(last),
                members: MembersRecord { at: Some(last), voters: vec![voters.into_iter().collect()], learners },
                offset: 0,
                rows,
                is_last: true,
            };
            if let Some(why) = refusal(&target, victim, "snapshot", wire::write(&part)).await {
                target.books.note(format_args!("{REFUSED}: {why}"));
            }
        }
    }
    .boxed()
}

#[cfg(test)]
mod tests {
    use super::super::tests::noted;
    use super::*;

    /// P-105, SG-1: for what it says, and not because nobody can read it.
    #[test]
    fn its_snapshots_are_refused_for_the_voters_and_members_that_they_show() {
        let noted = noted("usurper");
        let refused: Vec<&str> = noted.lines().filter(|line| line.contains(REFUSED)).collect();
        for why in ["another number of voters", "this node is no member in it", "a majority of the voters here"] {
            assert!(refused.iter().any(|line| line.contains(why)), "{why}: {refused:#?}");
        }
    }
}
