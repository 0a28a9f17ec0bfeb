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
mod spendthrift;
mod thief;
mod twofaced;
mod usurper;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use althing_communication::Request;
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::{Outcome, Refusal};
use althing_coordination::{GroupError, RAFT};
use althing_protocol::group::{Amendment, Author, Batch, Command, Endorsed, GroupId};
use althing_protocol::{KeyLog, PublicKey, SecretKey, object};
use futures::future::BoxFuture;
use minicbor::bytes::ByteVec;
use rand::Rng as _;
use rand::rngs::StdRng;
use rand::seq::IteratorRandom as _;
use tokio::task::AbortHandle;

use super::clients::Office;
use super::evidence::Books;
use super::member::{OWNER, Running};
use crate::mesh::Owner;
use crate::{NETWORK, NOW_MS};

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
    ("spendthrift", spendthrift::start),
    ("thief", thief::start),
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
pub const NAMES: &[&str] = &[
    "climber",
    "equivocator",
    "eraser",
    "expelled",
    "flooder",
    "hog",
    "liar",
    "replayer",
    "spendthrift",
    "thief",
    "usurper",
];

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
/// Before something is attempted again that must come before all else.
const PAUSE: Duration = Duration::from_millis(100);

/// The command that shows a key log.
fn keys(log: &KeyLog) -> Command {
    Command::Keys(events(log))
}

fn events(log: &KeyLog) -> Vec<ByteVec> {
    log.to_bytes().into_iter().map(ByteVec::from).collect()
}

/// Whether a command was executed.
fn is_done(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Done(_))
}

impl Target {
    /// Its node, as the author of commands.
    fn author(&self) -> Author {
        Author::Node(self.key.public())
    }

    /// The time of day.
    fn now_ms(&self) -> u64 {
        NOW_MS + self.books.now_ms()
    }

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

    /// Has the group execute commands; what became of each, if somebody said so and the batch was not refused.
    async fn submit(&self, author: Author, key: &SecretKey, commands: Vec<Command>) -> Vec<Outcome> {
        let submitted = self.running.groups.submit(self.group, author, key, commands).await;
        submitted.ok().flatten().unwrap_or_default()
    }

    /// The charter after the present one, signed by one key; with one more owner, whose key log this is.
    async fn amendment(&self, key: &SecretKey, other: Option<&KeyLog>) -> Option<Command> {
        let present = self.running.read(self.group, true, |state| state.charter().cloned()).await;
        let mut charter = present.flatten()?.next(self.group, self.now_ms());
        charter.owners.extend(other.map(KeyLog::publisher));
        charter.owners.sort_unstable();
        charter.owners.dedup();
        let signed = object::sign(charter, NETWORK, &Batch::scope(self.group), key).expect("a charter").bytes;
        let logs = other.map(events).into_iter().collect();
        Some(Command::Amend(Box::new(Amendment { charter: Endorsed::new([signed]), logs })))
    }

    /// Makes somebody who has no members an owner of the group besides, and tries until that is done.
    async fn adopt(&self, other: &Owner) {
        let (owner, added) = (Owner::new(crate::key(OWNER)), other.id());
        let is_owner = |state: &Group| state.charter().is_some_and(|charter| charter.owners.contains(&added));
        while !self.running.groups.look(self.group, is_owner).unwrap_or(false) {
            if let Some(amendment) = self.amendment(&owner.key, Some(&other.log)).await {
                self.submit(self.author(), &self.key, vec![amendment]).await;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// A batch with its signature.
    fn sign(&self, epoch: u64, session: u64, sequence: u64, command: Command) -> Vec<u8> {
        let batch = Batch::new(epoch, self.author(), session, sequence, vec![command]);
        object::sign(batch, NETWORK, &Batch::scope(self.group), &self.key).expect("a batch").bytes
    }
}

#[cfg(test)]
mod tests {
    use crate::groups::plan::Plan;
    use crate::groups::{as_it_is, run_plan};

    /// The trace of a run with this adversary and without faults, in which all holds that must.
    pub(super) fn noted(name: &'static str) -> String {
        let plan = Plan { faults: Vec::new(), ..Plan::draw(1, Some(name)) };
        let outcome = run_plan(1, plan, as_it_is());
        assert!(outcome.violations.is_empty(), "{:#?}", outcome.violations);
        outcome.trace.text()
    }

    #[test]
    fn all_are_named() {
        let all: Vec<&str> = super::ALL.iter().map(|(name, _)| *name).collect();
        assert_eq!(all, [super::NAMES, super::LEADERS].concat());
    }
}
