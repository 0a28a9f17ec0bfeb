//! Compares with the other members what a leader sent them, and proves what contradicts itself.
//!
//! Nothing is signed, verified or decoded for this while entries arrive: the frames that carried them are kept, in memory and
//! within a bound, and read when members compare. What a member knew before it started again it does not compare.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use althing_communication::{Priority, Request};
use althing_protocol::group::{Equivocated, Equivocation, GroupId, SignedAppend};
use althing_protocol::limits::SIGNED_APPEND_BYTES_MAX;
use althing_protocol::{Digest, PublicKey};
use althing_store::{Batch, Durability, Range};
use minicbor::bytes::ByteVec;

use super::member::Member;
use super::{Groups, Shared};
use crate::RAFT;
use crate::consensus::RAFT_STATE;
use crate::consensus::wire::{self, Accuse, Accused, Compare, Compared, DIGEST_BYTES, NOTES_MAX};
use crate::error::GroupError;
use crate::machine::frame_log::Reign;

/// Between two comparisons: each with one other member.
const TICK: Duration = Duration::from_millis(500);
/// Before a member that did not answer is asked again.
const RETRY: Duration = Duration::from_secs(5);
/// How long an answer may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// Members that one compares with: those that vote first.
const PEERS_MAX: usize = 8;
/// Leaders and terms that are compared at once: the newest.
const REIGNS_MAX: usize = 4;
/// Runs of entries without a gap that are compared of each, the newest first.
const RUNS_MAX: usize = 8;
/// Proofs of one group, one for each node.
const PROOFS_MAX: usize = 16;
/// The rows of proofs in [`RAFT_STATE`]: the group's 32 bytes, this letter, and the node's 32 bytes.
const PROOF: u8 = b'e';

/// The proofs of equivocation that a node has of its groups.
pub struct Proofs<'a>(&'a Groups);

/// Keeps the frame of an append with so many entries, of a leader whom this member obeyed: what others send as leaders
/// displaces nothing.
pub(super) fn keep(member: &Member, request: &Request, entries: usize) {
    let Some(signed) = request.frame.as_ref().filter(|_| entries > 0) else { return };
    if signed.bytes.len() > SIGNED_APPEND_BYTES_MAX {
        return;
    }
    if let Some(kept) = SignedAppend::new(&signed.stream, &signed.bytes) {
        member.frames.lock().expect("no panic").keep(kept, entries);
        member.comparing.notify_one();
    }
}

fn row(group: GroupId, node: Option<PublicKey>) -> Vec<u8> {
    let node = node.as_ref().map_or(&[][..], |node| node.as_bytes().as_slice());
    [group.as_bytes().as_slice(), &[PROOF], node].concat()
}

/// Reads the proofs that were kept before the node started.
pub(super) fn load(shared: &Shared, member: &Member) {
    let rows = shared.store.scan(RAFT_STATE, Range::prefix(row(member.id, None), PROOFS_MAX));
    let rows = rows.unwrap_or_else(|error| {
        tracing::error!(group = %member.id, %error, "the proofs of equivocation could not be read");
        Vec::new()
    });
    for (_, bytes) in rows {
        match Equivocation::decode(&bytes).and_then(|proof| proof.verify(&shared.config.network)) {
            Ok(proven) => drop(member.proven.write().expect("no panic").insert(proven.leader, proven)),
            Err(error) => tracing::error!(group = %member.id, %error, "a proof of equivocation is damaged"),
        }
    }
    if !member.proven.read().expect("no panic").is_empty() {
        // The others may not know it.
        member.comparing.notify_one();
    }
}

impl<'a> Proofs<'a> {
    /// Those of the groups of a node.
    #[must_use]
    pub fn of(groups: &'a Groups) -> Proofs<'a> {
        Proofs(groups)
    }

    /// The proof against `node` in a group, if there is one: whoever has it can verify it alone.
    ///
    /// # Errors
    /// The store cannot be read.
    pub fn get(&self, group: GroupId, node: PublicKey) -> Result<Option<Vec<u8>>, GroupError> {
        Ok(self.0.shared.store.read(RAFT_STATE, &row(group, Some(node)))?)
    }

    /// What a member answers to another one that compares.
    pub(super) async fn answer(&self, member: &Member, compare: &Compare) -> Compared {
        self.read(member).await;
        let kept = member.frames.lock().expect("no panic");
        let differing = kept.differing((compare.leader, compare.term), compare.entries());
        differing.map_or(Compared::Same, |append| Compared::Differs(append.as_ref().clone()))
    }

    /// Keeps a proof against a member of the group, once it is verified.
    pub(super) async fn accept(&self, member: &Member, proof: Equivocation) -> Result<Accused, GroupError> {
        let shared = &self.0.shared;
        if member.is_proven(proof.one.leader) {
            return Ok(Accused::Kept);
        }
        let Ok(proven) = proof.verify(&shared.config.network) else { return Ok(Accused::Unproven) };
        let is_full = member.proven.read().expect("no panic").len() >= PROOFS_MAX;
        if proven.group != member.id || is_full || !member.replica()?.knows(proven.leader) {
            return Ok(Accused::Unproven);
        }
        let mut batch = Batch::new();
        batch.put(RAFT_STATE, row(member.id, Some(proven.leader)), proof.encode());
        shared.store.write(batch, Durability::Synced).await?;
        if member.proven.write().expect("no panic").insert(proven.leader, proven).is_none() {
            let Equivocated { group, leader, term, index, .. } = proven;
            tracing::error!(
                %group, %leader, term, index,
                "a member equivocated when it led the group: it does not lead here any more; its owners should expel it"
            );
        }
        member.comparing.notify_one();
        Ok(Accused::Kept)
    }

    /// Reads what was kept since, and proves what contradicts itself there.
    async fn read(&self, member: &Member) {
        let unread = member.frames.lock().expect("no panic").unread();
        for (number, append) in unread {
            // Its signature was verified when it came.
            let Some(said) = append.read() else { continue };
            let conflict = member.frames.lock().expect("no panic").note(number, said);
            if let Some((one, other)) = conflict {
                self.prove(member, one.as_ref().clone(), other.as_ref().clone()).await;
            }
        }
    }

    async fn prove(&self, member: &Member, one: SignedAppend, other: SignedAppend) {
        match self.accept(member, Equivocation { one, other }).await {
            Ok(Accused::Kept) => {}
            Ok(Accused::Unproven) => {
                tracing::debug!(group = %member.id, "what members were sent differs, and proves nothing")
            }
            Err(error) => tracing::error!(group = %member.id, %error, "a proof of equivocation could not be kept"),
        }
    }

    /// Compares what is kept of a reign with what another member has of it.
    async fn compare(&self, member: &Member, peer: PublicKey, reign: Reign) -> bool {
        let runs = member.frames.lock().expect("no panic").runs(reign, NOTES_MAX, RUNS_MAX);
        for run in runs {
            if !self.compare_run(member, peer, reign, run).await {
                return false;
            }
        }
        true
    }

    async fn compare_run(&self, member: &Member, peer: PublicKey, reign: Reign, run: (u64, Vec<Digest>)) -> bool {
        let (first, digests) = run;
        let digests: Vec<u8> = digests.iter().flat_map(|digest| digest[..DIGEST_BYTES].to_vec()).collect();
        let (group, digests) = (member.id, ByteVec::from(digests));
        let compare = Compare { group, leader: reign.0, term: reign.1, first, digests };
        let Some(body) = self.ask(peer, "compare", wire::write(&compare)).await else { return false };
        if let Ok(Compared::Differs(theirs)) = wire::read::<Compared>(&body)
            && let Ok(said) = theirs.verify(&self.0.shared.config.network)
        {
            let ours = member.frames.lock().expect("no panic").contradicting(&said);
            if let Some(ours) = ours {
                self.prove(member, ours.as_ref().clone(), theirs).await;
            }
        }
        true
    }

    async fn ask(&self, peer: PublicKey, operation: &str, body: Vec<u8>) -> Option<Vec<u8>> {
        let request = Request { deadline: Some(PATIENCE), priority: Priority::Bulk, ..Request::new(operation, body) };
        self.0.shared.communication.call(peer, RAFT, request).await.ok()
    }

    /// Tells a member what is proven, once. Whether it knows it now.
    async fn tell(&self, member: &Member, peer: PublicKey, told: &mut BTreeSet<(PublicKey, PublicKey)>) -> bool {
        let proven: Vec<PublicKey> = member.proven.read().expect("no panic").keys().copied().collect();
        for node in proven.into_iter().filter(|node| !told.contains(&(peer, *node))).collect::<Vec<_>>() {
            let Ok(Some(bytes)) = self.get(member.id, node) else { continue };
            let Ok(proof) = Equivocation::decode(&bytes) else { continue };
            let accuse = Accuse { group: member.id, proof };
            let Some(answer) = self.ask(peer, "accuse", wire::write(&accuse)).await else { return false };
            if !matches!(wire::read(&answer), Ok(Accused::Kept)) {
                // It may not know that member yet.
                return false;
            }
            told.insert((peer, node));
        }
        true
    }
}

/// The other members, those that vote first.
fn peers(shared: &Shared, member: &Member) -> Vec<PublicKey> {
    let peers = member.look(|state| {
        let voters = state.members().voters();
        let learners = state.members().iter().map(|(node, _)| node).filter(|node| !voters.contains(node));
        let others = voters.iter().chain(learners).filter(|node| **node != shared.here());
        others.copied().collect::<Vec<PublicKey>>()
    });
    peers.unwrap_or_default()
}

/// Runs until this node has no part in the group. A group in which nothing happens is left alone.
pub(super) async fn run(groups: Groups, member: Arc<Member>) {
    let mut is_behind = false;
    let (mut compared, mut told) = (BTreeMap::<PublicKey, u64>::new(), BTreeSet::new());
    loop {
        tokio::select! {
            biased;
            () = member.stop.cancelled() => return,
            () = member.comparing.notified() => {}
            () = tokio::time::sleep(RETRY), if is_behind => {}
        }
        is_behind = false;
        let mut peers = peers(&groups.shared, &member);
        told.retain(|(peer, _)| peers.contains(peer));
        // These are only told what is proven.
        let others = peers.split_off(peers.len().min(PEERS_MAX));
        // Those that compared longest ago first.
        peers.sort_by_key(|peer| compared.get(peer).copied());
        compared.retain(|peer, _| peers.contains(peer));
        for peer in others {
            is_behind |= !Proofs::of(&groups).tell(&member, peer, &mut told).await;
        }
        for peer in peers {
            if member.stop.run_until_cancelled(tokio::time::sleep(TICK)).await.is_none() {
                return;
            }
            let proofs = Proofs::of(&groups);
            proofs.read(&member).await;
            let (count, reigns) = {
                let kept = member.frames.lock().expect("no panic");
                (kept.count(), kept.reigns())
            };
            let mut is_done = proofs.tell(&member, peer, &mut told).await;
            if compared.get(&peer) != Some(&count) {
                // The leader was sent nothing by itself.
                for reign in reigns.into_iter().filter(|(leader, _)| *leader != peer).take(REIGNS_MAX) {
                    is_done &= proofs.compare(&member, peer, reign).await;
                }
            }
            if is_done {
                compared.insert(peer, count);
            }
            is_behind |= !is_done;
        }
    }
}
