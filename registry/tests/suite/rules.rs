//! The rules of SPEC chapter 20 that a registry obeys, each broken once.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use althing_protocol::limits::RELEASE_MARKS_MAX;
use althing_protocol::object::{self, Authored, Description, Grant, Statement};
use althing_protocol::record::Contact;
use althing_protocol::registry::{
    Attestation, Audience, Mark, Presence, Release, ReleaseEvidence, Role, Roster, RosterMember, Standing, Submission,
    Version,
};
use althing_protocol::tlog::{Checkpoint, NoteKey};
use althing_protocol::{AgentId, KeyLog, Kind, PublisherId, SecretKey, keylog};
use althing_registry::machine::things::Quotas;
use althing_registry::machine::{Admission, Refusal};
use althing_registry::service::{DirectoryConfig, FAMILIES, Registry, RegistryConfig, RequestError};
use althing_registry::tokens::{Access, Tokens};
use althing_store::MemoryStore;
use futures::FutureExt as _;
use serde_json::json;

const NOW: u64 = 1_700_000_000_000;
const NETWORK: &str = "test";

struct Publisher {
    keys: [SecretKey; 4],
    log: KeyLog,
}

impl Publisher {
    fn new(seed: u8) -> Publisher {
        let keys = [0, 1, 2, 3].map(|at| SecretKey::from_seed(&[seed * 8 + at; 32]));
        let inception = keylog::inception(&keys[0], [keys[1].public(), keys[2].public()], NOW - 1_000);
        Publisher { log: KeyLog::verify(&[inception.bytes]).expect("an inception"), keys }
    }

    fn id(&self) -> PublisherId {
        self.log.publisher()
    }

    fn agent(&self) -> AgentId {
        AgentId::new(self.id(), "echo").expect("a name")
    }

    fn described(&self, version: &str) -> Authored<Description> {
        let td = json!({
            "@context": ["https://www.w3.org/2022/wot/td/v1.1", { "lmos": "https://eclipse.dev/lmos/protocol/v1" }],
            "@type": "lmos:Agent", "id": self.agent().to_string(), "title": "Echo", "version": { "instance": version },
            "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        });
        let body = Description::new(self.agent(), NOW, NOW, td.to_string().into_bytes());
        object::sign(body, NETWORK, "", &self.keys[0]).expect("a good description")
    }

    fn release(&self, version: &str, sequence: u64) -> Release {
        let described = self.described(version).digest();
        let mut body = Release::new(self.agent(), of(version), described, Audience::public(), NOW);
        body.sequence = sequence;
        body
    }

    fn mark(&self, version: &str, standing: Standing, sequence: u64) -> Mark {
        let mut body = Mark::new(self.agent(), of(version), standing, "", NOW);
        body.sequence = sequence;
        body
    }

    fn signs<T: Statement>(&self, body: T) -> Vec<u8> {
        object::sign(body, NETWORK, "", &self.keys[0]).expect("a good statement").bytes
    }

    fn sends(&self, statements: &[Vec<u8>]) -> Submission {
        Submission {
            key_log: self.log.to_bytes().into_iter().map(Into::into).collect(),
            statements: statements.iter().cloned().map(Into::into).collect(),
            descriptions: ["1.0.0", "1.1.0", "1.2.0"].map(|version| self.described(version).bytes.into()).to_vec(),
        }
    }
}

/// The same with a change.
fn changed<T>(mut body: T, change: impl FnOnce(&mut T)) -> T {
    change(&mut body);
    body
}

fn of(version: &str) -> Version {
    version.parse().expect("a version")
}

/// A registry over a store, with a clock that the test moves.
struct World {
    registry: Registry,
    store: Arc<MemoryStore>,
    now: Arc<AtomicU64>,
}

impl World {
    fn new() -> World {
        World::over(Arc::new(MemoryStore::new(&FAMILIES)), true)
    }

    fn over(store: Arc<MemoryStore>, is_first: bool) -> World {
        let now = Arc::new(AtomicU64::new(NOW));
        let clock = now.clone();
        let config = RegistryConfig {
            origin: "registry.example/log".to_owned(),
            network: NETWORK.to_owned(),
            admission: Admission::Anyone,
            is_first,
        };
        let clock = Arc::new(move || clock.load(Ordering::SeqCst));
        let key = SecretKey::from_seed(&[0x21; 32]);
        let opened = Registry::open(store.clone(), key, config, clock).now_or_never();
        let registry = opened.expect("memory does not wait").expect("it opens");
        let access = Access { tokens: Tokens::of(Path::new("none")), is_anyone: false, is_closed: false };
        let random = Arc::new(|| [7; 16]);
        let directory = DirectoryConfig { quotas: Quotas::default(), access, random, is_tls: false };
        World { registry: registry.with_directory(directory), store, now }
    }

    /// Submits statements; gives the kinds of entries that are new, and why nothing is.
    async fn submit(&self, submission: &Submission) -> Result<u64, Refusal> {
        let before = self.size();
        match self.registry.submit(submission).await {
            Ok(receipt) => {
                // P-169: proven under one checkpoint, which covers all.
                let key: &NoteKey = self.registry.note_key();
                assert!(receipt.len() >= submission.statements.len());
                let last = self.registry.checkpoint();
                for logged in &receipt {
                    let proven = [Kind::KeyEvent, Kind::Release, Kind::Mark, Kind::Roster]
                        .into_iter()
                        .find_map(|kind| logged.verify(kind, key).ok());
                    assert_eq!(proven.map(|checkpoint: Checkpoint| checkpoint.head), Some(last.head));
                }
                Ok(self.size() - before)
            }
            Err(RequestError::Refused(refusal)) => {
                assert_eq!(self.size(), before, "nothing of it was accepted");
                Err(refusal)
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn size(&self) -> u64 {
        self.registry.checkpoint().head.size
    }

    fn evidence(&self, publisher: &Publisher, version: &str, reader: Option<PublisherId>) -> Option<ReleaseEvidence> {
        self.registry.releases().evidence(&publisher.agent(), &of(version), reader).ok()
    }
}

/// P-167: whose statements are taken.
#[tokio::test]
async fn only_statements_of_the_publisher_whose_keys_are_shown_are_taken() {
    let (world, alice, bob) = (World::new(), Publisher::new(1), Publisher::new(2));
    let of_alice = alice.signs(alice.release("1.0.0", 1));
    let refused = async |submission: Submission| world.submit(&submission).await.expect_err("it is wrong");
    assert!(matches!(refused(bob.sends(std::slice::from_ref(&of_alice))).await, Refusal::KeyLog(_)));
    assert!(matches!(refused(bob.sends(&[bob.signs(alice.release("1.0.0", 1))])).await, Refusal::NotYours { .. }));
    let for_bob = changed(alice.release("1.0.0", 1), |it| it.by = bob.id());
    assert!(matches!(refused(alice.sends(&[alice.signs(for_bob)])).await, Refusal::NotYours { .. }));
    let described = alice.described("1.0.0").bytes;
    assert!(matches!(refused(alice.sends(&[described])).await, Refusal::Kind { kind: Kind::Description, .. }));
    let found = Attestation::new(alice.id(), alice.agent(), "audit", &json!(1), NOW, NOW + 1);
    assert!(matches!(refused(alice.sends(&[alice.signs(found)])).await, Refusal::NoReleases(_)));
    let elsewhere = object::sign(alice.release("1.0.0", 1), "other", "", &alice.keys[0]).expect("signed").bytes;
    assert!(matches!(refused(alice.sends(&[elsewhere])).await, Refusal::Object { .. }));
    let undescribed = Submission { descriptions: vec![], ..alice.sends(std::slice::from_ref(&of_alice)) };
    assert!(matches!(refused(undescribed).await, Refusal::DescriptionMissing { .. }));
    let mut roster = Roster::new(alice.id(), vec![], 1, NOW, NOW + 1_000);
    assert!(matches!(refused(bob.sends(&[bob.signs(roster.clone())])).await, Refusal::NotYourRoster { .. }));
    (roster.not_before_ms, roster.not_after_ms) = (NOW - 2_000, NOW - 1);
    assert!(matches!(refused(alice.sends(&[alice.signs(roster)])).await, Refusal::Object { .. }), "it is over");
    assert_eq!(world.size(), 0);
    assert_eq!(world.submit(&alice.sends(&[of_alice])).await, Ok(2), "the inception is an entry too");
}

/// P-167: a description is of its agent, and no two readers read it differently: everybody is given it in the directory.
#[tokio::test]
async fn a_description_of_something_else_or_with_a_member_twice_is_refused() {
    let (world, alice) = (World::new(), Publisher::new(1));
    let good = String::from_utf8(alice.described("1.0.0").body.td.to_vec()).expect("text");
    let own = alice.agent().to_string();
    for td in [
        good.replacen(&own, "urn:victim", 1),
        good.replacen(&format!("\"id\":\"{own}\","), "", 1),
        good.replacen('{', &format!("{{\"id\":\"{own}\","), 1),
        good.replacen('{', "{\"registration\":{},\"registration\":{},", 1),
        good.replacen("\"title\":\"Echo\"", "\"title\":\"Echo\",\"x:y\":{\"a\":1,\"a\":2}", 1),
    ] {
        assert_ne!(td, good);
        let body = Description::new(alice.agent(), NOW, NOW, td.clone().into_bytes());
        let described = object::sign(body, NETWORK, "", &alice.keys[0]).expect("signed");
        let release = changed(alice.release("1.0.0", 1), |it| it.description = described.digest());
        let mut sent = alice.sends(&[alice.signs(release)]);
        sent.descriptions.push(described.bytes.into());
        let refused = world.submit(&sent).await;
        assert!(matches!(refused, Err(Refusal::Description { .. })), "{td}: {refused:?}");
    }
    assert_eq!(world.size(), 0);
}

/// P-167: of two logs of a publisher the longer counts, and no other one.
#[tokio::test]
async fn a_key_that_was_rotated_out_publishes_nothing() {
    let (world, mut alice) = (World::new(), Publisher::new(1));
    assert_eq!(world.submit(&alice.sends(&[alice.signs(alice.release("1.0.0", 1))])).await, Ok(2));
    let short = alice.log.clone();
    alice.log = short.rotate(&alice.keys[1], alice.keys[3].public(), NOW - 500, 0).expect("a rotation");
    let by_new = object::sign(alice.mark("1.0.0", Standing::Deprecated, 2), NETWORK, "", &alice.keys[1]);
    assert_eq!(world.submit(&alice.sends(&[by_new.expect("signed").bytes])).await, Ok(2));
    alice.log = short.clone();
    let by_old = alice.sends(&[alice.signs(alice.mark("1.0.0", Standing::Revoked, 3))]);
    assert!(matches!(world.submit(&by_old).await, Err(Refusal::KeyLog(_))));
    alice.log = short.revoke(&alice.keys[1], NOW).expect("a revocation");
    let fork = alice.sends(&[alice.signs(alice.mark("1.0.0", Standing::Revoked, 3))]);
    assert!(matches!(world.submit(&fork).await, Err(Refusal::OtherKeyLog(_))));
}

/// A node tells that a key granted an agent to it.
fn presence(node: u8, agent: AgentId, by: &SecretKey) -> Presence {
    let node = SecretKey::from_seed(&[node; 32]);
    let addresses = vec!["/ip4/192.0.2.1/tcp/1".to_owned()];
    let contact = Contact::new(node.public(), 1, NOW, NOW + 60_000, addresses);
    let grant = Grant::new(agent, node.public(), NOW - 1_000, NOW + 60_000);
    let contact = object::sign(contact, NETWORK, "", &node).expect("a contact").bytes.into();
    Presence { contact, grants: vec![object::sign(grant, NETWORK, "", by).expect("a grant").bytes.into()] }
}

#[tokio::test]
async fn a_grant_by_a_key_that_was_rotated_out_makes_no_node_a_host() {
    let (world, alice) = (World::new(), Publisher::new(1));
    assert_eq!(world.submit(&alice.sends(&[alice.signs(alice.release("1.0.0", 1))])).await, Ok(2));
    let hosting = world.registry.host_presence();
    let hosted = |node: u8, by: &SecretKey| {
        let (agents, _) = hosting.host(&presence(node, alice.agent(), by)).expect("it is taken");
        (agents, hosting.host_count())
    };
    assert_eq!(hosted(100, &alice.keys[1]), (0, 0), "it is not the publisher's yet");
    assert_eq!(hosted(100, &alice.keys[0]), (1, 1));
    let rotated = alice.log.rotate(&alice.keys[1], alice.keys[3].public(), NOW - 500, 0).expect("a rotation");
    let by_new = object::sign(alice.mark("1.0.0", Standing::Deprecated, 2), NETWORK, "", &alice.keys[1]);
    let sent = Submission {
        key_log: rotated.to_bytes().into_iter().map(Into::into).collect(),
        ..alice.sends(&[by_new.expect("signed").bytes])
    };
    assert_eq!(world.submit(&sent).await, Ok(2));
    assert_eq!(hosted(101, &alice.keys[0]), (0, 1), "it is not the publisher's any more");
    assert_eq!(hosted(101, &alice.keys[1]), (1, 2));
}

/// P-168
#[tokio::test]
async fn a_version_never_changes_and_no_sequence_falls() {
    let (world, alice) = (World::new(), Publisher::new(1));
    assert_eq!(world.submit(&alice.sends(&[alice.signs(alice.release("1.0.0", 5))])).await, Ok(2));
    let refused = async |statement: Vec<u8>| world.submit(&alice.sends(&[statement])).await.expect_err("it is wrong");
    let other = changed(alice.release("1.0.0", 6), |it| it.made_ms = NOW - 1);
    assert!(matches!(refused(alice.signs(other)).await, Refusal::VersionTaken { .. }));
    for sequence in [0, 4, 5] {
        let late = refused(alice.signs(alice.release("1.1.0", sequence))).await;
        assert!(matches!(late, Refusal::Stale { known: 5, .. }), "{late}");
        let late = refused(alice.signs(alice.mark("1.0.0", Standing::Yanked, sequence))).await;
        assert!(matches!(late, Refusal::Stale { known: 5, .. }), "{late}");
    }
    let roster = |sequence| alice.signs(Roster::new(alice.id(), vec![], sequence, NOW, NOW + 1_000));
    assert_eq!(world.submit(&alice.sends(&[roster(3)])).await, Ok(1));
    for sequence in [0, 2] {
        assert!(matches!(refused(roster(sequence)).await, Refusal::RosterStale { known: 3, .. }));
    }
}

/// P-169
#[tokio::test]
async fn a_submission_is_taken_as_a_whole_and_once() {
    let (world, alice) = (World::new(), Publisher::new(1));
    let good = [alice.signs(alice.release("1.0.0", 1)), alice.signs(alice.mark("1.0.0", Standing::Deprecated, 2))];
    let bad = alice.signs(alice.mark("9.0.0", Standing::Yanked, 3));
    let mixed = alice.sends(&[&good[..], &[bad]].concat());
    assert!(matches!(world.submit(&mixed).await, Err(Refusal::NoRelease { .. })));
    let twice = alice.sends(&[&good[..], &good[..1]].concat());
    assert!(matches!(world.submit(&twice).await, Err(Refusal::Twice { at: 2 })));
    assert_eq!(world.submit(&alice.sends(&good)).await, Ok(3));
    world.now.store(NOW + 60_000, Ordering::SeqCst);
    assert_eq!(world.submit(&alice.sends(&good)).await, Ok(0), "each is an entry once");
    let again = world.registry.submit(&alice.sends(&good)).await.expect("it is known");
    assert_eq!(again.iter().map(|logged| logged.at_ms).collect::<Vec<_>>(), [NOW, NOW], "as of the first time");
    assert!(matches!(world.submit(&alice.sends(&[])).await, Err(Refusal::Empty)));
    // What was acknowledged is there after the registry was closed and opened, under a log that goes on.
    let before = world.registry.checkpoint().head;
    let opened = World::over(world.store.clone(), false);
    let hashes = opened.registry.growth(before.size, opened.size()).expect("a proof");
    assert_eq!(opened.registry.checkpoint().head.check_extends(&before, &hashes), Ok(()));
    assert!(opened.evidence(&alice, "1.0.0", None).is_some());
}

/// P-170
#[tokio::test]
async fn a_revocation_finds_room_and_stays() {
    let (world, alice) = (World::new(), Publisher::new(1));
    let early = alice.sends(&[alice.signs(alice.mark("1.0.0", Standing::Revoked, 1))]);
    assert!(matches!(world.submit(&early).await, Err(Refusal::NoRelease { .. })));
    assert_eq!(world.submit(&alice.sends(&[alice.signs(alice.release("1.0.0", 1))])).await, Ok(2));
    for sequence in 2..=RELEASE_MARKS_MAX as u64 {
        let standing = if sequence % 2 == 0 { Standing::Yanked } else { Standing::Good };
        let mark = alice.signs(alice.mark("1.0.0", standing, sequence));
        assert_eq!(world.submit(&alice.sends(&[mark])).await, Ok(1), "{sequence}");
    }
    let mark = async |standing, sequence| {
        world.submit(&alice.sends(&[alice.signs(alice.mark("1.0.0", standing, sequence))])).await
    };
    assert!(matches!(mark(Standing::Good, 100).await, Err(Refusal::MarksFull { .. })));
    assert_eq!(mark(Standing::Revoked, 101).await, Ok(1));
    for standing in [Standing::Good, Standing::Yanked, Standing::Revoked] {
        assert!(matches!(mark(standing, 102).await, Err(Refusal::Revoked { .. })), "{standing:?}");
    }
    let shown = world.evidence(&alice, "1.0.0", None).expect("it is there");
    let shown = ReleaseEvidence::decode(&shown.encode()).expect("it is read");
    let verified = shown.verify(NETWORK, &alice.agent(), &of("1.0.0"), world.registry.note_key());
    assert_eq!(verified.map(|it| it.standing).ok(), Some(Standing::Revoked));
}

/// P-185, and what P-178 says of who sees a release that waits.
#[tokio::test]
async fn what_a_reader_may_not_see_looks_like_what_is_not_there() {
    let (world, alice, bob, eve) = (World::new(), Publisher::new(1), Publisher::new(2), Publisher::new(3));
    let member = RosterMember {
        publisher: bob.id(),
        roles: vec![Role::Read, Role::Approve],
        names: vec!["*".parse().expect("a pattern")],
    };
    let mut roster = Roster::new(alice.id(), vec![member], 1, NOW, NOW + 3_600_000);
    let statements = [
        alice.signs(roster.clone()),
        alice.signs(changed(alice.release("1.0.0", 1), |it| it.audience = Audience::organisation())),
        alice.signs(changed(alice.release("1.1.0", 2), |it| it.audience = Audience::listed([eve.id()]))),
    ];
    assert_eq!(world.submit(&alice.sends(&statements)).await, Ok(4));
    let sees = |reader: Option<PublisherId>| {
        let versions = ["1.0.0", "1.1.0", "1.2.0"].into_iter();
        let shown: Vec<&str> = versions.filter(|version| world.evidence(&alice, version, reader).is_some()).collect();
        let listed = world.registry.releases().list(None, 100, reader).len();
        let versions = world.registry.releases().versions(&alice.agent(), reader).map_or(0, |versions| versions.len());
        assert_eq!((listed, versions), (shown.len(), shown.len()), "all ways agree");
        shown
    };
    assert_eq!(sees(None), [""; 0]);
    assert_eq!(sees(Some(alice.id())), ["1.0.0", "1.1.0"]);
    assert_eq!(sees(Some(bob.id())), ["1.0.0"]);
    assert_eq!(sees(Some(eve.id())), ["1.1.0"]);
    let hidden = world.registry.releases().evidence(&alice.agent(), &of("1.0.0"), None).expect_err("it is hidden");
    let absent = world.registry.releases().evidence(&alice.agent(), &of("9.9.9"), None).expect_err("it is not there");
    assert_eq!(hidden.to_string().replace("1.0.0", "9.9.9"), absent.to_string());
    // Two must approve from now on: nobody sees a release that one signed.
    (roster.sequence, roster.approvals) = (2, 2);
    let waiting = alice.signs(alice.release("1.2.0", 3));
    assert_eq!(world.submit(&alice.sends(&[alice.signs(roster), waiting])).await, Ok(2));
    assert_eq!(sees(None), [""; 0]);
    let approval = |by: &Publisher| by.signs(changed(alice.release("1.2.0", 1), |it| it.by = by.id()));
    let refused = world.submit(&eve.sends(&[approval(&eve)])).await;
    assert!(matches!(refused, Err(Refusal::NotYours { .. })));
    assert_eq!(world.submit(&bob.sends(&[approval(&bob)])).await, Ok(2));
    assert_eq!(sees(None), ["1.2.0"]);
}
