//! Registries that lie are caught, and the error names what they do.

use std::sync::atomic::Ordering;

use crate::adversaries::stuffer::Stuffed;
use crate::adversaries::{forker, hider, rollback, stale_mirror, stuffer, withholder};
use crate::party::{DOMAIN, NETWORK, Party, client, client_at};
use crate::support::{NOW, Served, open};
use althing_protocol::object::ObjectError;
use althing_protocol::registry::{Audience, NameEvidenceError, ReleaseError, Standing, Version};
use althing_registry_client::{LogReader, Reference, RegistryError, Said, Watched};

fn number() -> Version {
    "1.0.0".parse().expect("a version")
}

async fn publishes(party: &Party, served: &Served, name: &str) {
    party.publishes(served, party.release(name, "1.0.0", Audience::public(), b"files")).await.expect("accepted");
}

#[tokio::test]
async fn a_forker_is_caught_with_both_checkpoints_that_it_signed() {
    let (first, second) = (Served::start(open()).await, Served::start(open()).await);
    publishes(&Party::new(1), &first, "echo").await;
    publishes(&Party::new(2), &second, "other").await;
    publishes(&Party::new(3), &second, "another").await;
    let lying = forker::Forker::between(&first.url, &second.url).await;
    let asked = client_at(&lying.liar.url, &first);
    let before = asked.checkpoint(None).await.expect("a checkpoint");
    lying.turned.store(true, Ordering::SeqCst);
    let caught = asked.checkpoint(Some(&before)).await;
    assert!(matches!(caught, Err(RegistryError::Forked { old: 2, new: 4, ref before, ref now, .. }) if before != now));
}

#[tokio::test]
async fn a_registry_that_was_set_back_is_caught() {
    let (new, old) = (Served::start(open()).await, Served::start(open()).await);
    for served in [&new, &old] {
        publishes(&Party::new(1), served, "echo").await;
    }
    publishes(&Party::new(2), &new, "other").await;
    let lying = rollback::from(&new.url, &old.url).await;
    let asked = client_at(rollback::url(&lying), &new);
    let before = asked.checkpoint(None).await.expect("a checkpoint");
    lying.turned.store(true, Ordering::SeqCst);
    let caught = asked.checkpoint(Some(&before)).await;
    assert!(matches!(caught, Err(RegistryError::WentBack { old: 4, new: 2 })), "{caught:?}");
}

#[tokio::test]
async fn a_hider_is_caught_by_its_own_log() {
    let served = Served::start(open()).await;
    let party = Party::new(1);
    publishes(&party, &served, "echo").await;
    party.marks(&served, "echo", "1.0.0", Standing::Revoked).await;
    let lying = hider::before(&served.url).await;
    let asked = client_at(&lying.url, &served);
    let agent = party.agent("echo");
    let shown = asked.release(NETWORK, &agent, &number()).await.expect("what is left is valid");
    assert_eq!(shown.standing, Standing::Good, "one release alone does not tell");
    let checkpoint = asked.checkpoint(None).await.expect("a checkpoint");
    let watched = LogReader(&asked).watch(NETWORK, &checkpoint, 0).await.expect("the entries are those of the log");
    let said: Vec<&Said> = watched.iter().map(|one| &one.said).collect();
    assert!(matches!(said[..], [Said::Other, Said::Release(..), Said::Mark(_, _, "revoked")]), "{said:?}");
    let caught = LogReader(&asked).check_marks(NETWORK, &watched).await;
    assert!(matches!(caught, Err(RegistryError::Hides { entry: 2, .. })), "{caught:?}");
    LogReader(&client(&served)).check_marks(NETWORK, &watched).await.expect("the honest one shows it");
}

/// Who hides a mark from releases and from whoever reads the log shows all the same that there is something.
#[tokio::test]
async fn a_hider_of_entries_too_shows_that_there_is_something() {
    let served = Served::start(open()).await;
    let (party, reader) = (Party::new(1), Party::new(2));
    publishes(&party, &served, "echo").await;
    party.marks(&served, "echo", "1.0.0", Standing::Revoked).await;
    let for_some = party.release("other", "1.0.0", Audience::listed(vec![reader.id()]), b"files");
    party.publishes(&served, for_some).await.expect("accepted");
    let lying = hider::hiding(&served.url, vec![2]).await;
    let (honest, asked) = (client(&served), client_at(&lying.url, &served));
    let checkpoint = honest.checkpoint(None).await.expect("a checkpoint");
    let watched = LogReader(&asked).watch(NETWORK, &checkpoint, 0).await.expect("the entries are those of the log");
    let kept_back = |watched: &[Watched]| -> Vec<u64> {
        watched.iter().filter(|one| one.is_kept_back()).map(|one| one.index).collect()
    };
    assert_eq!(kept_back(&watched), [2]);
    assert_eq!(watched[3].said, Said::Unseen, "what is for some alone is not kept back");
    LogReader(&asked).check_marks(NETWORK, &watched).await.expect("nothing else tells");
    let watched = LogReader(&honest).watch(NETWORK, &checkpoint, 0).await.expect("the same entries");
    assert!(kept_back(&watched).is_empty(), "the honest one keeps nothing back");
    // An operator's quarantine keeps back as well, and says so in an entry of its own.
    served.registry.purging().quarantine(&party.agent("echo"), None, Some("it leaks")).await.expect("hidden");
    let checkpoint = honest.checkpoint(Some(&checkpoint)).await.expect("a checkpoint");
    let watched = LogReader(&honest).watch(NETWORK, &checkpoint, 0).await.expect("the entries of the log");
    assert_eq!(kept_back(&watched), [1, 2]);
    assert!(matches!(watched.last().map(|one| &one.said), Some(Said::Quarantine(..))));
}

#[tokio::test]
async fn who_keeps_back_what_is_for_everybody_is_caught() {
    let served = Served::start(open()).await;
    let org = Party::new(1);
    // Key log, roster, finding.
    org.is_organisation(&served, vec![], 1).await;
    let checkpoint = client(&served).checkpoint(None).await.expect("a checkpoint");
    let honest = client(&served);
    LogReader(&honest).watch(NETWORK, &checkpoint, 0).await.expect("all is shown");
    for hidden in [1, 2] {
        let lying = withholder::before(&served.url, hidden).await;
        let asked = client_at(&lying.url, &served);
        let caught = LogReader(&asked).watch(NETWORK, &checkpoint, 0).await;
        assert!(matches!(caught, Err(RegistryError::Withholds(entry)) if entry == hidden), "{caught:?}");
    }
}

/// P-192: what its operator hides is an entry that whoever it is about reads.
#[tokio::test]
async fn a_quarantine_is_watched() {
    let served = Served::start(open()).await;
    let party = Party::new(1);
    publishes(&party, &served, "echo").await;
    let agent = party.agent("echo");
    served.registry.purging().quarantine(&agent, None, Some("it sends data away")).await.expect("hidden");
    let checkpoint = client(&served).checkpoint(None).await.expect("a checkpoint");
    let watched = LogReader(&client(&served)).watch(NETWORK, &checkpoint, 2).await.expect("the entries of the log");
    let wanted = Said::Quarantine(agent.clone(), None, Some("it sends data away".to_owned()));
    assert_eq!(watched.first().map(|one| &one.said), Some(&wanted));
    assert!(watched[0].is_about(party.id(), None, |_| false));
    assert!(watched[0].is_about(Party::new(2).id(), None, |named| *named == agent), "it is of a member's agent");
}

#[tokio::test]
async fn a_stale_mirror_is_caught_by_what_it_cannot_renew() {
    let served = Served::start(open()).await;
    let org = Party::new(1);
    org.is_organisation(&served, vec![], 1).await;
    publishes(&org, &served, "billing").await;
    let mirror = stale_mirror::of(&served.url).await;
    let asked = client_at(&mirror.url, &served);
    let name = Reference::parse(&format!("{DOMAIN}/billing")).expect("a name");
    let old = asked.checkpoint(None).await.expect("a checkpoint");
    asked.resolve(NETWORK, &name, NOW).await.expect("it is fresh");
    let day = 24 * 60 * 60 * 1_000;
    served.now.store(NOW + day, Ordering::SeqCst);
    org.names(&served, org.roster(vec![], 1, NOW + day)).await.expect("renewed");
    let caught = asked.resolve(NETWORK, &name, NOW + day + 1).await;
    assert!(matches!(caught, Err(RegistryError::Name(NameEvidenceError::Roster(ObjectError::Expired { .. })))));
    client(&served).resolve(NETWORK, &name, NOW + day + 1).await.expect("the registry itself has renewed it");
    // Whoever has seen a newer checkpoint keeps to it, and says so if the mirror proves nothing.
    let newer = client(&served).checkpoint(Some(&old)).await.expect("it grew");
    let caught = asked.checkpoint(Some(&newer)).await;
    assert!(matches!(&caught, Ok(kept) if *kept == newer), "{caught:?}");
}

#[tokio::test]
async fn stuffed_descriptions_are_refused() {
    let served = Served::start(open()).await;
    let party = Party::new(1);
    publishes(&party, &served, "echo").await;
    let agent = party.agent("echo");
    let of_another = party.described("echo", "1.0.1").bytes;
    let lying = stuffer::before(&served.url, Stuffed::Description(of_another)).await;
    let caught = client_at(&lying.url, &served).release(NETWORK, &agent, &number()).await;
    let named = matches!(caught, Err(RegistryError::Release(ReleaseError::Mismatch { what: "description", .. })));
    assert!(named, "{caught:?}");
    for more in [1, 4 << 20] {
        let lying = stuffer::before(&served.url, Stuffed::Bytes(more)).await;
        let caught = client_at(&lying.url, &served).release(NETWORK, &agent, &number()).await;
        let named =
            matches!(caught, Err(RegistryError::Release(ReleaseError::Cbor(_)) | RegistryError::Unreachable { .. }));
        assert!(named, "{more}: {caught:?}");
    }
}
