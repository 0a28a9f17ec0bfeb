//! What strangers make a registry do: nothing is verified for who may not publish here, nor of what would be left out; and what
//! is here is not taken again.

use crate::party::{NETWORK, Party, client, refused};
use crate::support::{NOW, Rules, Served, open, problem};
use althing_protocol::SecretKey;
use althing_protocol::limits::KEYLOG_EVENTS_MAX;
use althing_protocol::object::{self, Grant};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Audience, Presence, Role, SignIn, Submission};
use minicbor::bytes::ByteVec;
use reqwest::{Body, Method};

/// As many events as a key log may have, of which the first one alone is one: whoever verifies them says so.
fn long(party: &Party) -> Vec<ByteVec> {
    let mut events = party.log.to_bytes();
    events.resize(KEYLOG_EVENTS_MAX, vec![0xf6]);
    events.into_iter().map(ByteVec::from).collect()
}

/// SR-7: a registry for one publisher.
async fn closed(to: &Party) -> Served {
    Served::start(Rules { publisher: Some(to.id()), ..open() }).await
}

/// SR-7
#[tokio::test]
async fn nothing_is_verified_for_who_may_not_publish_and_has_nothing_here() {
    let (org, stranger) = (Party::new(1), Party::new(2));
    let served = closed(&org).await;
    let posted = async |path: &str, body: Vec<u8>| {
        problem(served.request(Method::POST, path).body(body).send().await.expect("an answer")).await
    };
    for (party, submitted, signed_in, why) in [(&org, 422, 401, "event 1"), (&stranger, 403, 403, "--publisher")] {
        let (key_log, statements) = (long(party), vec![ByteVec::from(vec![0xf6])]);
        let submission = Submission { key_log, statements, descriptions: Vec::new() };
        let sign_in = SignIn { key_log: long(party), visit: ByteVec::from(vec![0xf6]) };
        for (path, body, expected) in
            [("/submissions", submission.encode(), submitted), ("/sessions", sign_in.encode(), signed_in)]
        {
            let (status, told) = posted(path, body).await;
            assert_eq!(status, expected, "{path}: {told}");
            assert!(told["detail"].as_str().is_some_and(|detail| detail.contains(why)), "{path}: {told}");
        }
    }
}

/// SR-7
#[tokio::test]
async fn whoever_has_something_here_signs_in_and_nobody_else_learns_of_it() {
    let (org, member, reader, stranger) = (Party::new(1), Party::new(2), Party::new(3), Party::new(4));
    let served = closed(&org).await;
    let sign_in =
        async |signer: &Party, of: &Party| refused(client(&served).sign_in(NETWORK, (&signer.key, &of.log), NOW).await);
    assert_eq!(sign_in(&reader, &reader).await.0, 403, "there is nothing for it yet");
    org.is_organisation(&served, vec![member.member(&[Role::Read], &[])], 1).await;
    let release = org.release("secret", "1.0.0", Audience::listed([reader.id()]), b"files");
    org.publishes(&served, release).await.expect("accepted");
    for party in [&org, &member, &reader] {
        party.visits(&served).await;
    }
    let (status, of_stranger) = sign_in(&stranger, &stranger).await;
    assert_eq!(status, 403, "{of_stranger}");
    // Who has the key log of a reader, but not its key, is answered as if nothing were here for it.
    let (status, of_reader) = sign_in(&stranger, &reader).await;
    assert_eq!((status, of_reader.replace(&reader.id().to_string(), &stranger.id().to_string())), (403, of_stranger));
    assert_eq!(sign_in(&stranger, &member).await.0, 401, "of whom everybody knows that the roster names it");
}

/// SR-7
#[tokio::test]
async fn nothing_is_verified_of_a_node_that_hosts_nothing_of_what_is_here() {
    let (org, stranger) = (Party::new(1), Party::new(2));
    let served = closed(&org).await;
    org.publishes(&served, org.release("echo", "1.0.0", Audience::public(), b"files")).await.expect("accepted");
    let (node, other) = (SecretKey::from_seed(&[100; 32]), SecretKey::from_seed(&[101; 32]));
    let posted = async |party: &Party, agent: &str, key: &SecretKey| {
        let addresses = vec!["/ip4/192.0.2.1/tcp/1".to_owned()];
        let contact = Contact::new(node.public(), 1, NOW, NOW + 60_000, addresses);
        let contact = object::sign(contact, NETWORK, "", key).expect("a contact").bytes.into();
        let grant = Grant::new(party.agent(agent), node.public(), NOW - 1_000, NOW + 60_000);
        let grant = object::sign(grant, NETWORK, "", &party.key).expect("a grant").bytes.into();
        let body = Presence { contact, grants: vec![grant] }.encode();
        let answer = served.request(Method::POST, "/hosts").body(body).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    let (status, told) = posted(&org, "echo", &node).await;
    assert!(status == 200 && told.contains("\"agents\":1"), "{told}");
    assert_eq!(posted(&org, "echo", &other).await.0, 422, "another key signed the contact");
    for (party, agent) in [(&org, "absent"), (&stranger, "echo")] {
        let (status, told) = posted(party, agent, &other).await;
        assert!(status == 200 && told.contains("\"agents\":0"), "nobody looks at its signature: {told}");
    }
}

/// SR-2
#[tokio::test]
async fn a_bundle_that_is_here_is_neither_read_nor_written_again() {
    let (org, served) = (Party::new(1), Served::start(open()).await);
    org.publishes(&served, org.release("echo", "1.0.0", Audience::public(), b"files")).await.expect("accepted");
    let path = format!("/agents/{}/1.0.0/bundle", org.agent("echo"));
    let put = async |body: Body| {
        let answer = served.request(Method::PUT, &path).body(body).send().await.expect("an answer");
        answer.status().as_u16()
    };
    assert_eq!(put("other".into()).await, 409, "it is looked at");
    let before = served.store.writes();
    assert_eq!(put("files".into()).await, 204);
    assert_eq!(served.store.writes(), before + 1);
    // Whoever reads it waits for long.
    let endless = || Body::wrap_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
    for body in [Body::from("files"), endless(), endless()] {
        assert_eq!(put(body).await, 204);
    }
    assert_eq!(served.store.writes(), before + 1, "nothing more");
    assert_eq!(served.get(&path).await.text().await.expect("text"), "files");
}
