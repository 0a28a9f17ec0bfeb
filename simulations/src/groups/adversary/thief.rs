//! Has the next key of an owner of the group, each time anew: shows the group a fork of that owner's key log, and signs by its
//! key. Then comes the owner's own log, which displaces the fork (P-48, P-91), and after it again what was displaced. The owner
//! has no members, so that nobody else loses anything by it.

use std::time::Duration;

use althing_protocol::group::{Author, Command, Set};
use althing_protocol::{KeyLog, PublisherId, SecretKey};
use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::{Target, is_done, keys};
use crate::mesh::Owner;

/// Between two logs, so that faults and snapshots come between them.
const EVERY: Duration = Duration::from_millis(150);
/// Forks. Each adds two events to the log, and two charters to the group.
const ROUNDS: usize = 12;
/// The number of the owner.
const ROBBED: u32 = 210;
/// The number of the key to which the forks commit.
const SPARE: u32 = 211;

/// What it writes down: the fork took effect.
const STOLEN: &str = "the group obeys a stolen key";
/// It was displaced.
const DISPLACED: &str = "the group obeys the owner again";
/// It came back, which it must not.
const BACK: &str = "the group took back what was displaced";

pub(super) fn start(target: Target) -> BoxFuture<'static, ()> {
    async move {
        let mut owner = Owner::new(crate::key(ROBBED));
        target.adopt(&owner).await;
        for _ in 0..ROUNDS {
            tokio::time::sleep(EVERY).await;
            owner = rob(&target, &owner).await;
        }
    }
    .boxed()
}

/// One fork, and how it ends; the owner after that. The key of the fork is in both branches: the charter that it signed stays
/// signed.
async fn rob(target: &Target, owner: &Owner) -> Owner {
    let now_ms = target.now_ms();
    let (rotated, spare) = (owner.rotated(now_ms), crate::key(SPARE).public());
    let stolen = owner.log.rotate(&rotated.key, spare, now_ms, 0).expect("the next key");
    if is_taken(target, &stolen).await && obeys(target, owner.id(), &rotated.key).await {
        target.books.note(format_args!("{STOLEN} of {}", owner.id()));
    }
    tokio::time::sleep(EVERY).await;
    let recovered = rotated.rotated(now_ms);
    if is_taken(target, &recovered.log).await && obeys(target, owner.id(), &recovered.key).await {
        target.books.note(format_args!("{DISPLACED}: {}", owner.id()));
        // With the key after it, too, nothing proves that the fork is the owner's.
        let twice = stolen.rotate(&recovered.key, spare, now_ms, 0).expect("the key after it");
        let mut commands: Vec<Command> = [&stolen, &twice, &rotated.log, &owner.log].map(keys).into();
        commands.extend(target.amendment(&rotated.key, None).await);
        let outcomes = target.submit(target.author(), &target.key, commands).await;
        if outcomes.iter().any(is_done) || obeys(target, owner.id(), &rotated.key).await {
            target.books.note(format_args!("{BACK}: {outcomes:?}"));
        }
    }
    recovered
}

/// Shows the group a key log; whether it says that this is the one that it knows now.
async fn is_taken(target: &Target, log: &KeyLog) -> bool {
    target.submit(target.author(), &target.key, vec![keys(log)]).await.iter().any(is_done)
}

/// Whether the group obeys an owner by this key: it writes a value, and signs a charter, which all later ones follow.
async fn obeys(target: &Target, owner: PublisherId, key: &SecretKey) -> bool {
    let set = Set { key: "robbed".to_owned(), value: b"by whom".to_vec().into(), if_version: None };
    let mut commands = vec![Command::Set(set)];
    commands.extend(target.amendment(key, None).await);
    let outcomes = target.submit(Author::Publisher(owner), key, commands).await;
    !outcomes.is_empty() && outcomes.iter().all(is_done)
}

#[cfg(test)]
mod tests {
    use super::super::tests::noted;
    use super::*;

    /// P-48, P-91, SG-4
    #[test]
    fn forks_take_effect_and_are_displaced_for_ever() {
        let noted = noted("thief");
        let count = |what: &str| noted.matches(what).count();
        assert!(count(STOLEN) >= 3 && count(DISPLACED) >= 3, "{} {}", count(STOLEN), count(DISPLACED));
        assert_eq!(count(BACK), 0);
    }
}
