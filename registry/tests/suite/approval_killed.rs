//! The real program is killed while it takes approvals, and while it keeps staged releases: what it acknowledged is there, what
//! it did not is there as a whole or not at all; and one history.

use std::process::Command;
use std::time::Duration;

use crate::party::{DOMAIN, Party};
use crate::real::{NETWORK, PROGRAM, Running};
use crate::support::NOW;
use althing_protocol::digest;
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Audience, Release, Role, Version};
use althing_protocol::tlog::Checkpoint;
use althing_registry::tokens::{TokenScope, Tokens};
use althing_registry_client::{RegistryError, StagedRelease};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

const ROUNDS: u8 = 8;
const LAST: u8 = ROUNDS - 1;

fn version(round: u8) -> Version {
    format!("1.{round}.0").parse().expect("a version")
}

/// The release of a round, and its description as signed.
fn release(org: &Party, round: u8) -> (Release, Vec<u8>) {
    let number = version(round).to_string();
    let mut body = org.release("billing", &number, Audience::public(), b"the files of a bundle");
    body.sequence = NOW + u64::from(round);
    let described = object::Description::new(org.agent("billing"), NOW, NOW, org.td("billing", &number));
    let described = object::sign(described, NETWORK, "", &org.key).expect("a good description");
    body.description = described.digest();
    (body, described.bytes)
}

#[tokio::test]
async fn an_approval_that_is_killed_counts_or_did_not_happen() {
    let folder = tempfile::tempdir().expect("a folder");
    let (org, member) = (Party::new(1), Party::new(2));
    let id = org.id().to_string();
    let proven = Command::new(PROGRAM).args(["domain", "add", DOMAIN, &id, "--data"]).arg(folder.path()).output();
    let proven = proven.expect("it runs");
    assert!(proven.status.success(), "{proven:?}");
    let mut before: Option<Checkpoint> = None;
    // How often it counted, and how often it did not happen.
    let mut outcomes = [0; 2];
    for round in 0..ROUNDS {
        let running = Running::start(folder.path());
        let (publisher, approver) = (running.visit(&org).await, running.visit(&member).await);
        if round == 0 {
            let members = vec![member.member(&[Role::Approve], &["billing"])];
            let roster = org.roster(members, 2, running.now_ms().await);
            let roster = object::sign(roster, NETWORK, "", &org.key).expect("a good roster");
            publisher.submit(&org.submission(roster.bytes, vec![]), &[Kind::Roster]).await.expect("a roster");
        }
        let (body, described) = release(&org, round);
        let signed = object::sign(body.clone(), NETWORK, "", &org.key).expect("a good release");
        let submission = org.submission(signed.bytes, vec![described]);
        publisher.submit(&submission, &[Kind::Release]).await.expect("accepted");
        let mut approved = body;
        approved.by = member.id();
        let approved = object::sign(approved, NETWORK, "", &member.key).expect("a good approval");
        let approval = member.submission(approved.bytes, vec![]);
        let approving = {
            let (approver, approval) = (approver.clone(), approval.clone());
            async move { approver.submit(&approval, &[Kind::Release]).await }
        };
        let acknowledged = match round {
            // Before the registry can have heard of it.
            0 => {
                drop(running);
                approving.await.ok()
            }
            // At another moment each time.
            1..LAST => {
                let approving = tokio::spawn(approving);
                tokio::time::sleep(Duration::from_micros(200 << round)).await;
                drop(running);
                approving.await.expect("it ends").ok()
            }
            // As soon as it is acknowledged.
            _ => {
                let acknowledged = approving.await.expect("it is approved");
                drop(running);
                Some(acknowledged)
            }
        };

        let running = Running::start(folder.path());
        let approver = running.visit(&member).await;
        before = Some(approver.checkpoint(before.as_ref()).await.expect("one history"));
        if let Some(acknowledged) = &acknowledged {
            approver.newer(acknowledged, before.clone().expect("it was read")).await.expect("one history");
        }
        let reader = running.client();
        match reader.release(NETWORK, &org.agent("billing"), &version(round)).await {
            Ok(shown) => {
                assert_eq!(shown.approvers.len(), 2);
                outcomes[0] += 1;
            }
            Err(RegistryError::Refused { status: 404, .. }) => {
                assert!(acknowledged.is_none(), "{} was approved", version(round));
                outcomes[1] += 1;
                let waiting = approver.pending().await.expect("a list").waiting;
                assert_eq!(waiting.len(), 1, "it waits");
                approver.submit(&approval, &[Kind::Release]).await.expect("it can be done again");
            }
            Err(error) => panic!("{}: {error}", version(round)),
        }
        approver.submit(&approval, &[Kind::Release]).await.expect("the same again is no error");
        reader.release(NETWORK, &org.agent("billing"), &version(round)).await.expect("everybody sees it");
        assert!(approver.pending().await.expect("a list").waiting.is_empty());
    }
    assert!(outcomes.iter().all(|count| *count > 0), "it counted {} times, and {} times not", outcomes[0], outcomes[1]);
}

#[tokio::test]
async fn what_is_staged_is_there_as_a_whole_after_a_kill_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a folder");
    let org = Party::new(1);
    drop(Running::start(folder.path()));
    let token =
        Tokens::of(folder.path()).add_of("ci", &[TokenScope::StageReleases], Some(org.id()), [7; 32]).expect("a token");
    let mut outcomes = [0; 2];
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    for round in 0..ROUNDS {
        // So large that it takes some time.
        let bundle: Vec<u8> =
            (0..32_768u32).flat_map(|at| digest(&[&at.to_be_bytes()[..], &[round]].concat())).collect();
        let number = version(round).to_string();
        let staged = StagedRelease {
            agent: org.agent("billing").to_string(),
            version: number.clone(),
            digest: hex(&digest(&bundle)),
            description: String::from_utf8(org.td("billing", &number)).expect("text"),
            bundle: STANDARD.encode(&bundle),
        };
        let running = Running::start(folder.path());
        let build = running.client().with_token(token.clone()).expect("on loopback");
        let staging = {
            let (build, staged) = (build.clone(), staged.clone());
            async move { build.stage(&staged).await }
        };
        let acknowledged = match round {
            // Before the registry can have heard of it.
            0 => {
                drop(running);
                staging.await.ok()
            }
            // At another moment each time.
            1..LAST => {
                let staging = tokio::spawn(staging);
                tokio::time::sleep(Duration::from_millis(3 * u64::from(round))).await;
                drop(running);
                staging.await.expect("it ends").ok()
            }
            // As soon as it is acknowledged.
            _ => {
                let acknowledged = staging.await.expect("it is staged");
                drop(running);
                Some(acknowledged)
            }
        };
        let running = Running::start(folder.path());
        let publisher = running.visit(&org).await;
        let pending = publisher.pending().await.expect("a list").staged;
        let found = pending.iter().find(|one| one.version == number);
        assert!(found.is_some() || acknowledged.is_none(), "{number} was acknowledged");
        outcomes[usize::from(found.is_none())] += 1;
        let id = match found {
            Some(found) => found.id.clone(),
            None => running
                .client()
                .with_token(token.clone())
                .expect("on loopback")
                .stage(&staged)
                .await
                .expect("it can be done again"),
        };
        let whole = publisher.staged(&id).await.expect("it is there");
        assert!(whole.bundle == staged.bundle && whole.digest == staged.digest, "all of {number} is there");
        assert!(acknowledged.is_none_or(|told| told == id));
    }
    assert!(
        outcomes.iter().all(|count| *count > 0),
        "it was there {} times, and {} times not",
        outcomes[0],
        outcomes[1]
    );
}
