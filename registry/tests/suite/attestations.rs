//! Attestations: who may send them, who sees them, and which count.

use std::sync::atomic::Ordering;

use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{
    Attestation, Audience, Blueprint, SaltedStatement, Standing, Subject, VerifiedAttestation,
};
use althing_protocol::{PublisherId, digest};
use althing_registry::machine::PurgedBy;
use althing_registry_client::{AttestationQuery, RegistryClient, RegistryError};
use serde_json::{Value, json};

use crate::party::{NETWORK, Party, client, refused};
use crate::support::{NOW, Served, open};

const HOUR: u64 = 60 * 60 * 1_000;

fn of(party: &Party, name: &str, version: &str) -> Subject {
    Subject::Agent(party.agent(name), Some(version.parse().expect("a version")))
}

/// A finding; of a version, of the bundle that all releases here have.
fn found(by: &Party, subject: Subject, name: &str, value: &Value) -> Attestation {
    let is_of_version = matches!(subject, Subject::Agent(_, Some(_)));
    let found = Attestation::of(by.id(), subject, name, value, NOW, NOW + HOUR);
    if is_of_version { found.made_of(digest(b"bundle")) } else { found }
}

async fn attests(served: &Served, by: &Party, body: Attestation) -> Result<Vec<u8>, RegistryError> {
    let signed = object::sign(body, NETWORK, "", &by.key).expect("a good attestation").bytes;
    client(served).submit(&by.submission(signed.clone(), vec![]), &[Kind::Attestation]).await?;
    Ok(signed)
}

async fn shown_to(client: &RegistryClient, query: &AttestationQuery, now_ms: u64) -> Vec<VerifiedAttestation> {
    let page = client.attestations(NETWORK, query, now_ms, |_| None).await.expect("a page");
    assert_eq!(page.refused, 0, "a registry shows what holds");
    page.attested
}

fn signers(all: &[VerifiedAttestation]) -> Vec<(PublisherId, &str)> {
    all.iter().map(|one| (one.attestation.body.by, one.attestation.body.name.as_str())).collect()
}

fn about(party: &Party, name: &str) -> AttestationQuery {
    AttestationQuery { agent: Some(party.agent(name)), ..AttestationQuery::default() }
}

#[tokio::test]
async fn what_somebody_finds_of_a_release_lies_beside_it() {
    // P-186, P-187
    let served = Served::start(open()).await;
    let (alice, auditor) = (Party::new(1), Party::new(2));
    let release = alice.release("echo", "1.0.0", Audience::public(), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    attests(&served, &auditor, found(&auditor, of(&alice, "echo", "1.0.0"), "audit", &json!(true)))
        .await
        .expect("kept");
    let all = Subject::Agent(alice.agent("echo"), None);
    attests(&served, &alice, found(&alice, all, "origin", &json!({ "built": "here" }))).await.expect("kept");
    let shown = shown_to(&client(&served), &about(&alice, "echo"), NOW).await;
    assert_eq!(signers(&shown), [(alice.id(), "origin"), (auditor.id(), "audit")], "the newest first");
    let by = AttestationQuery { by: Some(auditor.id()), ..about(&alice, "echo") };
    assert_eq!(signers(&shown_to(&client(&served), &by, NOW).await), [(auditor.id(), "audit")]);
    // Of another version, what is said of all versions counts.
    let other = AttestationQuery { version: Some("2.0.0".parse().expect("a version")), ..about(&alice, "echo") };
    assert_eq!(signers(&shown_to(&client(&served), &other, NOW).await), [(alice.id(), "origin")]);
    // It stays when the registry starts again.
    let served = served.again().await;
    assert_eq!(shown_to(&client(&served), &about(&alice, "echo"), NOW).await.len(), 2);
    served.now.store(NOW + HOUR + 1, Ordering::SeqCst);
    assert_eq!(shown_to(&client(&served), &about(&alice, "echo"), NOW + HOUR + 1).await.len(), 0, "they are over");
}

#[tokio::test]
async fn what_is_forged_or_of_nothing_is_refused() {
    // P-186: forged, of another context, over, of what is not there, sent by somebody else.
    let served = Served::start(open()).await;
    let (alice, auditor, thief) = (Party::new(1), Party::new(2), Party::new(3));
    let release = alice.release("echo", "1.0.0", Audience::public(), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    let body = || found(&auditor, of(&alice, "echo", "1.0.0"), "audit", &json!(true));
    let send = async |party: &Party, bytes: Vec<u8>| {
        refused(client(&served).submit(&party.submission(bytes, vec![]), &[Kind::Attestation]).await)
    };
    let forged = object::sign(body(), NETWORK, "", &thief.key).expect("signed").bytes;
    assert_eq!(send(&auditor, forged.clone()).await.0, 422, "the thief's key is not the auditor's");
    let (status, why) = send(&thief, forged).await;
    assert_eq!(status, 403);
    assert!(why.contains("who finds something signs it"), "{why}");
    let elsewhere = object::sign(body(), "another", "", &auditor.key).expect("signed").bytes;
    assert_eq!(send(&auditor, elsewhere).await.0, 422);
    let mut over = body();
    (over.not_before_ms, over.not_after_ms) = (NOW - 2 * HOUR, NOW - HOUR);
    let over = object::sign(over, NETWORK, "", &auditor.key).expect("signed").bytes;
    assert_eq!(send(&auditor, over).await.0, 422);
    for absent in [of(&alice, "echo", "1.0.1"), of(&alice, "other", "1.0.0"), Subject::Agent(thief.agent("echo"), None)]
    {
        let body = found(&auditor, absent, "audit", &json!(true));
        let (status, why) = refused(attests(&served, &auditor, body).await);
        assert_eq!(status, 404);
        assert!(why.contains("was never released here"), "{why}");
    }
    // Of another release that calls itself that version, which another registry may show.
    let body = body().made_of(digest(b"another bundle"));
    let (status, why) = refused(attests(&served, &auditor, body).await);
    assert_eq!(status, 409);
    assert!(why.contains("something else than") && why.contains("1.0.0"), "{why}");
    assert_eq!(shown_to(&client(&served), &about(&alice, "echo"), NOW).await.len(), 0);
}

#[tokio::test]
async fn a_later_one_takes_the_place_of_the_one_before() {
    // P-186
    let served = Served::start(open()).await;
    let (alice, auditor) = (Party::new(1), Party::new(2));
    let release = alice.release("echo", "1.0.0", Audience::public(), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    let of = |value: Value, sequence: u64| {
        let mut body = found(&auditor, self::of(&alice, "echo", "1.0.0"), "audit", &value);
        body.sequence = sequence;
        body
    };
    attests(&served, &auditor, of(json!(true), 5)).await.expect("kept");
    let again = attests(&served, &auditor, of(json!(true), 5)).await;
    assert!(again.is_ok(), "the same again is no error");
    let (status, why) = refused(attests(&served, &auditor, of(json!(false), 5)).await);
    assert_eq!(status, 409);
    assert!(why.contains("its sequence is 5"), "{why}");
    attests(&served, &auditor, of(json!(false), 6)).await.expect("kept");
    let shown = shown_to(&client(&served), &about(&alice, "echo"), NOW).await;
    assert_eq!(shown.iter().map(|one| one.attestation.body.finding()).collect::<Vec<_>>(), [json!(false)]);
    attests(&served, &auditor, of(Value::Null, 7)).await.expect("kept");
    assert_eq!(shown_to(&client(&served), &about(&alice, "echo"), NOW).await.len(), 0, "it was taken back");
}

#[tokio::test]
async fn what_was_taken_back_is_not_accepted_once_more() {
    // P-186: the one that takes it back may be over sooner.
    const DAY_MS: u64 = 86_400_000;
    let served = Served::start(open()).await;
    let (alice, auditor) = (Party::new(1), Party::new(2));
    let release = alice.release("echo", "1.0.0", Audience::public(), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    let of = |name: &str, value: Value, sequence: u64, days: (u64, u64)| {
        let mut body = found(&auditor, self::of(&alice, "echo", "1.0.0"), name, &value);
        (body.not_before_ms, body.not_after_ms) = (NOW + days.0 * DAY_MS, NOW + days.1 * DAY_MS);
        body.sequence = sequence;
        body
    };
    attests(&served, &auditor, of("audit", json!(true), 5, (0, 90))).await.expect("kept");
    attests(&served, &auditor, of("audit", Value::Null, 6, (0, 1))).await.expect("kept");
    served.now.store(NOW + 2 * DAY_MS, Ordering::SeqCst);
    attests(&served, &auditor, of("build", json!(true), 7, (2, 3))).await.expect("kept");
    let (status, why) = refused(attests(&served, &auditor, of("audit", json!(true), 5, (0, 90))).await);
    assert_eq!(status, 409, "{why}");
}

#[tokio::test]
async fn who_does_not_see_a_release_neither_attests_it_nor_sees_what_others_found() {
    // P-186, P-185
    let served = Served::start(open()).await;
    let (alice, reader, stranger) = (Party::new(1), Party::new(2), Party::new(3));
    let release = alice.release("secret", "1.0.0", Audience::listed([reader.id()]), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    let subject = || of(&alice, "secret", "1.0.0");
    let (status, why) = refused(attests(&served, &stranger, found(&stranger, subject(), "audit", &json!(1))).await);
    let other = of(&alice, "absent", "1.0.0");
    let absent = refused(attests(&served, &stranger, found(&stranger, other, "audit", &json!(1))).await);
    assert_eq!((status, why.replace("secret", "absent")), absent, "hidden and absent look the same");
    let said = attests(&served, &reader, found(&reader, subject(), "audit", &json!(1))).await.expect("kept");
    let query = about(&alice, "secret");
    assert_eq!(shown_to(&client(&served), &query, NOW).await.len(), 0);
    assert_eq!(shown_to(&stranger.visits(&served).await, &query, NOW).await.len(), 0);
    assert_eq!(shown_to(&reader.visits(&served).await, &query, NOW).await.len(), 1);
    assert_eq!(shown_to(&alice.visits(&served).await, &query, NOW).await.len(), 1);
    // Nor is the statement shown by its entry.
    let index = served.registry.checkpoint().head.size - 1;
    assert!(served.registry.releases().said(index, None).is_err());
    let salted = served.registry.releases().said(index, Some(reader.id())).expect("it is seen");
    let salted = SaltedStatement::decode(&salted).expect("what is not for everybody is salted");
    assert_eq!(salted.statement.to_vec(), said);
}

#[tokio::test]
async fn models_on_machines_are_for_everybody_and_found_by_their_names() {
    // P-186
    let served = Served::start(open()).await;
    let alice = Party::new(1);
    for (model, machine) in [("small", "8 cores"), ("small", "2 cores"), ("large", "8 cores")] {
        let subject = Subject::Blueprint(Blueprint { model: model.to_owned(), machine: machine.to_owned() });
        let body = found(&alice, subject, "blueprint", &json!({ "tokensPerSecond": 22.0 }));
        attests(&served, &alice, body).await.expect("kept");
    }
    let query =
        |model: Option<&str>| AttestationQuery { model: model.map(str::to_owned), ..AttestationQuery::default() };
    assert_eq!(shown_to(&client(&served), &query(None), NOW).await.len(), 3);
    assert_eq!(shown_to(&client(&served), &query(Some("small")), NOW).await.len(), 2);
    assert_eq!(shown_to(&client(&served), &query(Some("other")), NOW).await.len(), 0);
    // The directory tells of Things and agents, not of these.
    assert_eq!(served.json("/things").await, json!([]));
}

#[tokio::test]
async fn pages_go_on_where_the_one_before_ended_and_one_signer_has_so_many() {
    // P-186
    let served = Served::start(open()).await;
    let alice = Party::new(1);
    let release = alice.release("echo", "1.0.0", Audience::public(), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    let mut bodies = (0..1_025).map(|at| found(&alice, of(&alice, "echo", "1.0.0"), &format!("n{at}"), &json!(at)));
    let mut left = 1_024;
    while left > 0 {
        let count = left.min(16);
        let mut submission = alice.submission(vec![], vec![]);
        let sign = |body| object::sign(body, NETWORK, "", &alice.key).expect("signed").bytes.into();
        submission.statements = bodies.by_ref().take(count).map(sign).collect();
        client(&served).submit(&submission, &vec![Kind::Attestation; count]).await.expect("kept");
        left -= count;
    }
    let (status, why) = refused(attests(&served, &alice, bodies.next().expect("one more")).await);
    assert_eq!(status, 507);
    assert!(why.contains("1024 attestations"), "{why}");
    let (mut query, mut names) = (about(&alice, "echo"), Vec::new());
    loop {
        let page = client(&served).attestations(NETWORK, &query, NOW, |_| None).await.expect("a page");
        names.extend(page.attested.into_iter().map(|one| one.attestation.body.name));
        query.before = page.before;
        if query.before.is_none() {
            break;
        }
    }
    let wanted: Vec<String> = (0..1_024).rev().map(|at| format!("n{at}")).collect();
    assert_eq!(names, wanted);
    // A revoked release keeps what was found of it: that is why it is read.
    alice.marks(&served, "echo", "1.0.0", Standing::Revoked).await;
    assert_eq!(shown_to(&client(&served), &about(&alice, "echo"), NOW).await.len(), 64);
}

#[tokio::test]
async fn purging_a_release_takes_what_was_found_of_it() {
    // P-186
    let served = Served::start(open()).await;
    let alice = Party::new(1);
    let release = alice.release("secret", "1.0.0", Audience::listed([]), b"bundle");
    alice.publishes(&served, release).await.expect("published");
    let mut first = found(&alice, of(&alice, "secret", "1.0.0"), "audit", &json!("first"));
    first.sequence = 5;
    attests(&served, &alice, first.clone()).await.expect("kept");
    (first.sequence, first.value) = (6, json!("second").to_string());
    attests(&served, &alice, first).await.expect("kept");
    let size = served.registry.checkpoint().head.size;
    let version = "1.0.0".parse().expect("a version");
    served.registry.purging().purge(&alice.agent("secret"), &version, PurgedBy::Publisher).await.expect("purged");
    for index in [size - 2, size - 1] {
        assert!(served.registry.releases().said(index, Some(alice.id())).is_err(), "entry {index}");
    }
    assert_eq!(shown_to(&alice.visits(&served).await, &about(&alice, "secret"), NOW).await.len(), 0);
    let served = served.again().await;
    assert_eq!(shown_to(&alice.visits(&served).await, &about(&alice, "secret"), NOW).await.len(), 0);
}
