//! Members of a group that break its rules, one file each. They got in as all do, their nodes speak as members do, and send
//! besides, with their own keys, what no member would. But for [`LEADERS`] none of them is believed that it leads a term that is not
//! over, for long: Raft believes that (SPEC.md, chapter 19), so that a group must not admit who does.

mod climber;
mod equivocator;
mod eraser;
mod expelled;
mod flooder;
mod hog;
mod liar;
mod replayer;
mod twofaced;
mod usurper;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::Request;
use althing_coordination::machine::outcome::Refusal;
use althing_coordination::{GroupError, RAFT};
use althing_protocol::group::{Author, Batch, Command, GroupId};
use althing_protocol::{PublicKey, SecretKey, object};
use futures::future::BoxFuture;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use tokio::task::AbortHandle;

use super::clients::Office;
use super::evidence::Books;
use super::member::Running;
use crate::NETWORK;

/// What an adversary has: a member of the group, with its key.
#[derive(Clone)]
pub struct Target {
    /// The group.
    pub group: GroupId,
    /// Its key.
    pub key: SecretKey,
    /// Its node.
    pub running: Running,
    /// The other members.
    pub honest: BTreeSet<PublicKey>,
    /// The other members' nodes, of which each may expel it.
    pub office: Arc<Office>,
    /// The seed of its draws.
    pub seed: u64,
    /// What is seen.
    pub books: Books,
}

/// An adversary, which goes on until it is dropped.
pub struct Adversary(AbortHandle);

impl Drop for Adversary {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// No adversary, where one would be drawn.
pub const NONE: &str = "none";

type Start = fn(Target) -> BoxFuture<'static, ()>;

const ALL: &[(&str, Start)] = &[
    ("climber", climber::start),
    ("equivocator", equivocator::start),
    ("eraser", eraser::start),
    ("expelled", expelled::start),
    ("flooder", flooder::start),
    ("hog", hog::start),
    ("liar", liar::start),
    ("replayer", replayer::start),
    ("usurper", usurper::start),
    ("twofaced", twofaced::start),
];

/// Those that lie as leaders. A group does not agree on anything then: they are judged by the proofs against them alone, and
/// drawn for no run.
pub const LEADERS: &[&str] = &["twofaced"];

/// The invariant that those keep.
pub const STILL_HOLDS: &str = "no-honest-node-is-accused";

/// What a run may be told: all kinds, and none.
pub fn known() -> impl Iterator<Item = &'static str> {
    ALL.iter().map(|(name, _)| *name).chain([NONE])
}

/// All kinds that are drawn.
pub const NAMES: &[&str] =
    &["climber", "equivocator", "eraser", "expelled", "flooder", "hog", "liar", "replayer", "usurper"];

/// Those that can keep a group from electing a leader, as a member can (SPEC.md, chapter 19): by long logs that they do not
/// have, by elections that no leader asked for, and by terms that are far apart. A node that was expelled can do so until a leader has taken it out of the
/// log's members. So they end when everything heals; the others go on until the last look.
pub const UNELECTABLE: &[&str] = &["climber", "eraser", "expelled", "flooder"];

/// Lets one loose.
///
/// # Panics
/// When there is none of that name.
#[must_use]
pub fn release(name: &str, target: Target) -> Adversary {
    let (_, start) = ALL.iter().find(|(known, _)| *known == name).expect("a plan names those that there are");
    Adversary(tokio::spawn(start(target)).abort_handle())
}

/// How long it waits for an answer.
const PATIENCE: Duration = Duration::from_secs(1);

impl Target {
    /// One of the other members.
    fn victim(&self, rng: &mut StdRng) -> PublicKey {
        *self.honest.iter().choose(rng).expect("there are some")
    }

    /// Sends a message of its own making; what comes of it, the invariants judge.
    async fn send(&self, to: PublicKey, operation: &str, body: Vec<u8>) -> Option<Vec<u8>> {
        let request = Request { deadline: Some(PATIENCE), ..Request::new(operation, body) };
        self.running.communication.call(to, RAFT, request).await.ok()
    }

    /// Has one of the other members expel it; whether that is done.
    async fn expel(&self, rng: &mut StdRng) -> bool {
        let Some(owner) = self.office.any(rng.random()) else { return false };
        let node = self.key.public();
        let expelled = owner.down.run_until_cancelled(owner.groups.expel(self.group, node)).await;
        // An earlier attempt may have been executed.
        matches!(expelled, Some(Ok(_) | Err(GroupError::Refused(Refusal::NotAMember(_)))))
    }

    /// Connects again to those that it lost, also when it is no member any more.
    async fn connect(&self) {
        let network = self.running.communication.network();
        for peer in self.honest.iter().filter(|peer| !network.is_connected(**peer)) {
            // One that is down is skipped.
            let _ = network.dial(Some(*peer), vec![format!("sim:{peer}")]).await;
        }
    }

    /// A batch with its signature.
    fn sign(&self, epoch: u64, session: u64, sequence: u64, command: Command) -> Vec<u8> {
        let author = Author::Node(self.key.public());
        let batch = Batch::new(epoch, author, session, sequence, vec![command]);
        object::sign(batch, NETWORK, &Batch::scope(self.group), &self.key).expect("a batch").bytes
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn all_are_named() {
        let all: Vec<&str> = super::ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(all, [super::NAMES, super::LEADERS].concat());
    }
}
