//! Witnesses: what they sign, what they refuse, and what a registry shows with and without them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::party::{NETWORK, Party, client};
use crate::support::{NOW, Served, open};
use althing_edge::Limits;
use althing_fetch::{Fetch, SystemResolver};
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Attestation, Audience};
use althing_protocol::tlog::{
    AddCheckpoint, Checkpoint, Head, NoteKey, NoteKeyKind, WitnessRefusal, leaf_hash, node_hash,
};
use althing_protocol::{Digest, SecretKey};
use althing_registry::http::witness_router;
use althing_registry::witness::{
    FAMILIES, NoWitness, OpenWitnessError, Witness, WitnessConfig, WitnessError, Witnesses,
};
use althing_registry_client::AttestationQuery;
use althing_store::MemoryStore;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn};
use axum::response::IntoResponse as _;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use tokio_util::sync::{CancellationToken, DropGuard};

const ORIGIN: &str = "registry.example.org/log";
const BUNDLE: &[u8] = b"the files of a bundle";

/// A witness that serves on loopback, and answers nothing while it is down.
struct Watcher {
    witness: Arc<Witness>,
    store: Arc<MemoryStore>,
    url: String,
    down: Arc<AtomicBool>,
    _stop: DropGuard,
}

fn log_key() -> SecretKey {
    SecretKey::from_seed(&[9; 32])
}

fn log() -> NoteKey {
    NoteKey::new(ORIGIN, NoteKeyKind::Note, log_key().public()).expect("a good name")
}

async fn opened(store: Arc<MemoryStore>, is_first: bool) -> Result<Witness, OpenWitnessError> {
    let config = WitnessConfig { name: "witness.example.net".to_owned(), logs: vec![log()], is_first };
    Witness::open(store, SecretKey::from_seed(&[7; 32]), config, Arc::new(|| NOW)).await
}

impl Watcher {
    async fn start() -> Watcher {
        let store = Arc::new(MemoryStore::new(&FAMILIES));
        let witness = Arc::new(opened(store.clone(), true).await.expect("it opens"));
        let (down, stop) = (Arc::new(AtomicBool::new(false)), CancellationToken::new());
        let is_down = down.clone();
        let gate = move |request: Request, next: Next| {
            let is_down = is_down.clone();
            async move {
                if is_down.load(Ordering::SeqCst) {
                    return StatusCode::BAD_GATEWAY.into_response();
                }
                next.run(request).await
            }
        };
        let router = witness_router(witness.clone()).layer(from_fn(gate));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("it listens"));
        tokio::spawn(althing_edge::serve(listener, router, Limits::default(), stop.clone()));
        let _ = rustls::crypto::ring::default_provider().install_default();
        Watcher { witness, store, url, down, _stop: stop.drop_guard() }
    }

    fn key(&self) -> NoteKey {
        self.witness.note_key().clone()
    }

    async fn asks(&self, asked: &AddCheckpoint) -> (u16, String, String) {
        let answer = reqwest::Client::new().post(format!("{}/add-checkpoint", self.url)).body(asked.to_string());
        let answer = answer.send().await.expect("an answer");
        let kind = answer.headers()["content-type"].to_str().expect("text").to_owned();
        (answer.status().as_u16(), kind, answer.text().await.expect("a body"))
    }

    fn witnesses(&self) -> Witnesses {
        let fetch = Fetch::new(Vec::new(), Arc::new(SystemResolver)).expect("a client");
        Witnesses::new(fetch, &[(self.url.clone(), self.key())]).expect("an address")
    }
}

/// A head of a log with these entries, by RFC 6962 itself.
fn head(entries: &[&[u8]]) -> Head {
    fn root(entries: &[&[u8]]) -> Digest {
        match entries {
            [] => Head::default().root,
            [one] => leaf_hash(one),
            _ => {
                let (left, right) = entries.split_at(entries.len().next_power_of_two() / 2);
                node_hash(&root(left), &root(right))
            }
        }
    }
    Head { size: entries.len() as u64, root: root(entries) }
}

fn asked(old: u64, hashes: Vec<Digest>, head: Head, key: &SecretKey) -> AddCheckpoint {
    let checkpoint = Checkpoint::sign(ORIGIN, head, key).expect("a good name").note().to_owned();
    AddCheckpoint { old, hashes, checkpoint }
}

/// P-188: each status is the one that C2SP's tlog-witness names.
#[tokio::test]
async fn a_witness_answers_as_c2sp_says() {
    let watcher = Watcher::start().await;
    let (one, two) = (head(&[b"a"]), head(&[b"a", b"b"]));
    let first = asked(0, vec![], one, &log_key());
    let (status, _, line) = watcher.asks(&first).await;
    assert_eq!(status, 200, "{line}");
    // By hand: the name, and base64 of the key's id, the time and the signature over the text.
    let encoded = line.strip_prefix("\u{2014} witness.example.net ").expect("its name").trim_end();
    let bytes = STANDARD.decode(encoded).expect("base64");
    assert_eq!(bytes.len(), 4 + 8 + 64);
    assert_eq!(bytes[..4], watcher.key().id());
    let time = u64::from_be_bytes(bytes[4..12].try_into().expect("eight bytes"));
    assert_eq!(time, NOW / 1_000);
    let text = format!("cosignature/v1\ntime {time}\n{ORIGIN}\n1\n{}\n", STANDARD.encode(one.root));
    let signature: [u8; 64] = bytes[12..].try_into().expect("64 bytes");
    assert!(watcher.key().key().verifies(text.as_bytes(), &signature));

    let stale = watcher.asks(&asked(0, vec![], two, &log_key())).await;
    assert_eq!(stale, (409, "text/x.tlog.size".to_owned(), "1\n".to_owned()));
    let proof = vec![leaf_hash(b"b")];
    assert_eq!(watcher.asks(&asked(1, proof.clone(), two, &log_key())).await.0, 200);
    assert_eq!(watcher.asks(&asked(2, vec![], two, &log_key())).await.0, 200, "the same again");
    let larger = head(&[b"a", b"x", b"c"]);
    assert_eq!(watcher.asks(&asked(2, vec![leaf_hash(b"c")], larger, &log_key())).await.0, 422, "another history");
    let (status, kind, _) = watcher.asks(&asked(2, vec![], head(&[b"a", b"x"]), &log_key())).await;
    assert_eq!((status, kind.as_str()), (409, "application/problem+json"), "two trees of one size");
    assert_eq!(watcher.asks(&asked(3, vec![], two, &log_key())).await.0, 400, "it would become smaller");
    assert_eq!(watcher.asks(&asked(1, vec![], one, &log_key())).await.0, 409, "it went back");
    assert_eq!(watcher.asks(&asked(2, vec![], two, &SecretKey::from_seed(&[1; 32]))).await.0, 403);
    let other = Checkpoint::sign("other.example/log", two, &log_key()).expect("a good name").note().to_owned();
    assert_eq!(watcher.asks(&AddCheckpoint { old: 0, hashes: vec![], checkpoint: other }).await.0, 404);
    let (status, ..) = watcher.asks(&AddCheckpoint { checkpoint: "nothing".to_owned(), ..first }).await;
    assert_eq!(status, 400);
    // What it caught is there for everybody, and the log is still the one that it signed.
    let logs = watcher.witness.logs().expect("readable");
    assert_eq!(logs[0].head, two);
    let evidence = logs[0].evidence.as_ref().expect("it was caught");
    assert!(
        evidence.contains(&STANDARD.encode(two.root)) && evidence.contains(&STANDARD.encode(head(&[b"a", b"x"]).root))
    );
}

/// P-188: of two at the same time, each of which would do alone, one is signed.
#[tokio::test]
async fn two_histories_at_the_same_time_are_not_both_signed() {
    let watcher = Watcher::start().await;
    watcher.witness.add(&asked(0, vec![], head(&[b"a"]), &log_key())).await.expect("it begins");
    let of = |last: &'static [u8]| asked(1, vec![leaf_hash(last)], head(&[b"a", last]), &log_key());
    let (one, other) = (of(b"b"), of(b"x"));
    let (one, other) = tokio::join!(watcher.witness.add(&one), watcher.witness.add(&other));
    assert!(one.is_ok());
    let refused = other.expect_err("one history");
    assert!(matches!(refused, WitnessError::Refused(WitnessRefusal::Stale { known: 2 })), "{refused}");
}

#[tokio::test]
async fn a_witness_that_lost_what_it_signed_does_not_start() {
    let watcher = Watcher::start().await;
    watcher.witness.add(&asked(0, vec![], head(&[b"a"]), &log_key())).await.expect("it begins");
    let again = opened(watcher.store.clone(), false).await.expect("it is all there");
    assert_eq!(again.logs().expect("readable")[0].head.size, 1);
    let lost = opened(Arc::new(MemoryStore::new(&FAMILIES)), false).await;
    assert!(matches!(lost.err(), Some(OpenWitnessError::Lost)));
    // The same name with another key would be another log.
    let other = NoteKey::new(ORIGIN, NoteKeyKind::Note, SecretKey::from_seed(&[1; 32]).public()).expect("a good name");
    let config = WitnessConfig { name: "witness.example.net".to_owned(), logs: vec![other], is_first: false };
    let key = SecretKey::from_seed(&[7; 32]);
    let changed = Witness::open(watcher.store.clone(), key, config, Arc::new(|| NOW)).await;
    assert!(matches!(changed.err(), Some(OpenWitnessError::OtherKey(_))));
}

fn is_cosigned(checkpoint: &Checkpoint, watcher: &Watcher) -> bool {
    checkpoint.cosigned_by(&[watcher.key()]) == 1
}

async fn shown(served: &Served) -> Checkpoint {
    client(served).checkpoint(None).await.expect("a checkpoint")
}

#[tokio::test]
async fn a_registry_shows_cosigned_checkpoints_and_goes_on_without_its_witness() {
    let (served, watcher) = (Served::start(open()).await, Watcher::start().await);
    let mut witnesses = watcher.witnesses();
    witnesses.begin(&served.registry).await.expect("nothing speaks against it");
    assert!(is_cosigned(&shown(&served).await, &watcher), "an empty log too");
    let keeping = tokio::spawn(witnesses.keep(served.registry.clone()));
    let party = Party::new(1);
    let publish = |version: &'static str| {
        let mut body = party.release("echo", version, Audience::public(), BUNDLE);
        // Later ones are newer.
        body.sequence = NOW + u64::from(version.as_bytes()[2]);
        body
    };
    let receipt = party.publishes(&served, publish("1.0.0")).await.expect("accepted");
    assert!(is_cosigned(&receipt, &watcher), "a receipt waits for its witness");
    let release = client(&served).release(NETWORK, &party.agent("echo"), &"1.0.0".parse().expect("a version")).await;
    assert!(is_cosigned(&release.expect("it is there").checkpoint, &watcher));

    // A node that wants a witness takes a page of attestations under a checkpoint that it cosigned.
    let found = Attestation::new(party.id(), party.agent("echo"), "audit", &json!(true), NOW, NOW + 60_000);
    let signed = object::sign(found, NETWORK, "", &party.key).expect("a good attestation").bytes;
    let receipt = client(&served).submit(&party.submission(signed, vec![]), &[Kind::Attestation]).await;
    assert!(is_cosigned(&receipt.expect("accepted"), &watcher));
    let query = AttestationQuery { agent: Some(party.agent("echo")), ..AttestationQuery::default() };
    let page = client(&served).attestations(NETWORK, &query, NOW, |_| None).await.expect("a page");
    assert!(page.attested.len() == 1 && is_cosigned(&page.checkpoint.expect("one for all"), &watcher));

    // While it is down, everything goes on, and what is new is under a checkpoint that it did not sign.
    watcher.down.store(true, Ordering::SeqCst);
    for version in ["1.1.0", "1.2.0"] {
        let accepted = party.publishes(&served, publish(version));
        let receipt = tokio::time::timeout(Duration::from_secs(5), accepted).await.expect("in time").expect("accepted");
        assert!(!is_cosigned(&receipt, &watcher));
    }
    assert!(!is_cosigned(&shown(&served).await, &watcher));
    let old = client(&served).release(NETWORK, &party.agent("echo"), &"1.0.0".parse().expect("a version")).await;
    assert!(is_cosigned(&old.expect("it is there").checkpoint, &watcher), "what was cosigned stays so");

    // It is asked again by itself, and signs what it missed.
    watcher.down.store(false, Ordering::SeqCst);
    let size = served.registry.checkpoint().head.size;
    let caught_up = async {
        loop {
            let shown = shown(&served).await;
            if is_cosigned(&shown, &watcher) && shown.head.size == size {
                break;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(20), caught_up).await.expect("it signs again");
    assert_eq!(watcher.witness.logs().expect("readable")[0].head.size, size);
    keeping.abort();
}

#[tokio::test]
async fn a_witness_keeps_a_registry_from_showing_two_histories() {
    let watcher = Watcher::start().await;
    let (one, other) = (Served::start(open()).await, Served::start(open()).await);
    let party = Party::new(1);
    for agent in ["echo", "billing"] {
        party.publishes(&one, party.release(agent, "1.0.0", Audience::public(), BUNDLE)).await.expect("accepted");
    }
    watcher.witnesses().begin(&one.registry).await.expect("it signs");
    // The same key over an older copy of the folder: nothing in the folder tells.
    let behind = watcher.witnesses().begin(&other.registry).await.expect_err("the witness knows more");
    assert!(matches!(&behind, NoWitness::Ahead { known: 3, size: 0, .. }), "{behind}");
    // And one that went on differently.
    for agent in ["one", "two", "three"] {
        party.publishes(&other, party.release(agent, "1.0.0", Audience::public(), BUNDLE)).await.expect("accepted");
    }
    let forked = watcher.witnesses().begin(&other.registry).await.expect_err("it is another history");
    assert!(matches!(&forked, NoWitness::Forked(name) if name == "witness.example.net"), "{forked}");
    assert!(!is_cosigned(&shown(&other).await, &watcher));
}
