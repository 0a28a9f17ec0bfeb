//! The real program is killed while it accepts releases, and while it purges one: each time all of it is there, or nothing; and
//! one history.

use std::path::Path;
use std::time::Duration;

use crate::party::Party;
use crate::real::{NETWORK, Running};
use crate::support::NOW;
use althing_protocol::digest;
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Audience, Submission, Version};
use althing_protocol::tlog::Checkpoint;
use althing_registry_client::{RegistryClient, RegistryError};

fn noise(seed: u8) -> Vec<u8> {
    (0..8u8).flat_map(|at| digest(&[seed, at])).collect()
}

fn is_on_disk(folder: &Path, wanted: &[u8]) -> bool {
    std::fs::read_dir(folder).expect("a folder").any(|entry| {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            return is_on_disk(&path, wanted);
        }
        let bytes = std::fs::read(&path).expect("readable");
        bytes.windows(wanted.len()).any(|window| window == wanted)
    })
}

fn version(round: u8) -> Version {
    format!("1.{round}.0").parse().expect("a version")
}

/// A release of a version that only its publisher sees.
fn submission(org: &Party, round: u8) -> Submission {
    let version = version(round).to_string();
    let mut body = org.release("billing", &version, Audience::listed([org.id()]), &noise(round));
    body.sequence = NOW + u64::from(round);
    let described = object::Description::new(org.agent("billing"), NOW, NOW, org.td("billing", &version));
    let described = object::sign(described, NETWORK, "", &org.key).expect("a good description");
    body.description = described.digest();
    let signed = object::sign(body, NETWORK, "", &org.key).expect("a good release");
    org.submission(signed.bytes, vec![described.bytes])
}

/// Releases it, with its bundle.
async fn publish(client: &RegistryClient, org: &Party, round: u8) -> Version {
    client.submit(&submission(org, round), &[Kind::Release]).await.expect("accepted");
    client.keep_bundle(&org.agent("billing"), &version(round), noise(round)).await.expect("kept");
    version(round)
}

/// P-191
#[tokio::test]
async fn a_purge_that_is_killed_is_completed_or_did_not_happen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (org, mut before): (Party, Option<Checkpoint>) = (Party::new(1), None);
    let agent = org.agent("billing");
    for round in 0..8u8 {
        let running = Running::start(folder.path());
        let client = running.visit(&org).await;
        let version = publish(&client, &org, round).await;
        let purging = {
            let (client, agent, version) = (client.clone(), agent.clone(), version.clone());
            tokio::spawn(async move { client.purge(&agent, &version).await })
        };
        // Each time at another moment.
        tokio::time::sleep(Duration::from_millis(2 * u64::from(round))).await;
        drop(running);
        let is_acknowledged = purging.await.expect("it ends").is_ok();

        let running = Running::start(folder.path());
        let client = running.visit(&org).await;
        before = Some(client.checkpoint(before.as_ref()).await.expect("one history"));
        match client.release(NETWORK, &agent, &version).await {
            Ok(shown) => {
                assert!(!is_acknowledged, "{version} was purged");
                let wanted = shown.release.body.bundle.expect("it has one");
                assert_eq!(client.bundle(&agent, &version, wanted).await.expect("all of it is there"), noise(round));
            }
            Err(RegistryError::Refused { status: 404, .. }) => {
                drop(running);
                assert!(!is_on_disk(folder.path(), &noise(round)), "{version} is in files after the start");
                continue;
            }
            Err(error) => panic!("{version}: {error}"),
        }
        client.purge(&agent, &version).await.expect("it can be done again");
        drop(running);
        assert!(!is_on_disk(folder.path(), &noise(round)), "{version} is in files");
    }
}

#[tokio::test]
async fn a_release_that_was_acknowledged_is_there_after_a_kill() {
    let folder = tempfile::tempdir().expect("a folder");
    let (org, mut before): (Party, Option<Checkpoint>) = (Party::new(1), None);
    let agent = org.agent("billing");
    let mut acknowledged: Vec<Version> = Vec::new();
    for round in 0..8u8 {
        let running = Running::start(folder.path());
        let client = running.visit(&org).await;
        for version in &acknowledged {
            client.release(NETWORK, &agent, version).await.expect("it was acknowledged");
        }
        before = Some(client.checkpoint(before.as_ref()).await.expect("one history"));
        let publishing = {
            let (client, submission) = (client.clone(), submission(&org, round));
            tokio::spawn(async move { client.submit(&submission, &[Kind::Release]).await })
        };
        // Each time at another moment.
        tokio::time::sleep(Duration::from_micros(300 * u64::from(round))).await;
        drop(running);
        if let Ok(receipt) = publishing.await.expect("it ends") {
            acknowledged.push(version(round));
            before = Some(receipt);
        }
    }
    let running = Running::start(folder.path());
    let client = running.visit(&org).await;
    client.checkpoint(before.as_ref()).await.expect("one history");
    for version in &acknowledged {
        client.release(NETWORK, &agent, version).await.expect("it was acknowledged");
    }
}
