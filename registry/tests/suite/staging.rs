//! What waits for approval: who may send it, and that it is counted, whoever hangs up and however long it waits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::party::{NETWORK, Party, client_at};
use crate::support::{FROM, NOW, Rules, Served, open, problem};
use althing_fetch::{Fetch, SystemResolver};
use althing_protocol::registry::{Audience, Role};
use althing_protocol::{SecretKey, digest};
use althing_registry::machine::Admission;
use althing_registry::service::{
    FAMILIES, KEPT_BUNDLE_BYTES_MAX, Registry, RegistryConfig, RequestError, Stage, StageError, Visitor, hex,
};
use althing_registry_client::{BuildMachine, RegistryError};
use althing_store::MemoryStore;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Body, Method};
use serde_json::json;
use tokio::sync::oneshot::{self, error::TryRecvError};

const BUNDLE: &[u8] = b"the files of a bundle";
/// Releases of one publisher that wait at one time.
const MOST: usize = 32;
const DAY: u64 = 24 * 60 * 60 * 1_000;

fn stage(org: &Party, number: usize) -> Stage {
    let version = format!("1.0.{number}");
    Stage {
        agent: org.agent("billing"),
        version: version.parse().expect("a version"),
        description: org.td("billing", &version),
        bundle: BUNDLE.to_vec(),
        digest: digest(BUNDLE),
    }
}

/// The same, with a bundle of so many bytes.
fn stage_of(org: &Party, number: usize, bytes: usize) -> Stage {
    let bundle = vec![7; bytes];
    Stage { digest: digest(&bundle), bundle, ..stage(org, number) }
}

/// A registry whose disk takes a second for each write, and its clock.
async fn slow(store: &MemoryStore, now_ms: u64) -> (Registry, Arc<AtomicU64>) {
    let config = RegistryConfig {
        origin: "registry.example.org/log".to_owned(),
        network: NETWORK.to_owned(),
        admission: Admission::Anyone,
        is_first: true,
    };
    let now = Arc::new(AtomicU64::new(now_ms));
    let clock = now.clone();
    let (key, clock) = (SecretKey::from_seed(&[9; 32]), Arc::new(move || clock.load(Ordering::SeqCst)));
    let registry = Registry::open(Arc::new(store.clone()), key, config, clock).await.expect("it opens");
    (registry, now)
}

fn store() -> MemoryStore {
    MemoryStore::new(&FAMILIES).with_sync_delay(Duration::from_secs(1))
}

/// Begins something, and hangs up.
async fn begin(doing: impl Future) {
    let mut doing = Box::pin(doing);
    assert!(futures::poll!(doing.as_mut()).is_pending(), "it takes a moment");
}

/// SR-2
#[tokio::test(start_paused = true)]
async fn what_is_staged_is_counted_though_whoever_sent_it_hangs_up() {
    let (org, store) = (Party::new(1), store());
    let (registry, _) = slow(&store, NOW).await;
    let (staging, visitor) = (registry.staging(), Visitor::Stages(org.id()));
    let mut ids = Vec::new();
    for number in 1..MOST {
        ids.push(staging.stage(visitor, None, stage(&org, number), ()).await.expect("there is room"));
    }
    // What came with it is kept until it is done.
    let (held, mut left) = oneshot::channel::<()>();
    begin(staging.stage(visitor, None, stage(&org, MOST), held)).await;
    assert_eq!(left.try_recv(), Err(TryRecvError::Empty));
    let one_more = staging.stage(visitor, None, stage(&org, MOST + 1), ()).await;
    assert!(matches!(one_more, Err(RequestError::Stage(StageError::Full(_)))), "{one_more:?}");
    assert!(left.await.is_err(), "nobody holds it any more");
    assert_eq!(staging.staged(org.id()).await.expect("a list").len(), MOST);

    begin(staging.unstage(org.id(), &ids[0])).await;
    staging.stage(visitor, None, stage(&org, MOST + 1), ()).await.expect("there is room again");
    let one_more = staging.stage(visitor, None, stage(&org, MOST + 2), ()).await;
    assert!(matches!(one_more, Err(RequestError::Stage(StageError::Full(_)))), "{one_more:?}");
    let (again, _) = slow(&store, NOW).await;
    let refused = again.staging().stage(visitor, None, stage(&org, MOST + 2), ()).await;
    assert!(matches!(refused, Err(RequestError::Stage(StageError::Full(_)))), "as after a restart: {refused:?}");
}

/// SR-2
#[tokio::test(start_paused = true)]
async fn what_waited_too_long_is_taken_away_when_it_is_listed_and_when_a_registry_starts() {
    let (org, other, store) = (Party::new(1), Party::new(2), store());
    let (registry, now) = slow(&store, NOW).await;
    let staging = registry.staging();
    for party in [&org, &other] {
        staging.stage(Visitor::Stages(party.id()), None, stage(party, 1), ()).await.expect("there is room");
    }
    now.store(NOW + 30 * DAY, Ordering::SeqCst);
    let id = staging.staged(org.id()).await.expect("a list").remove(0).id;
    now.store(NOW + 30 * DAY + 1, Ordering::SeqCst);
    assert_eq!(staging.staged(other.id()).await.expect("a list"), Vec::new());
    let gone = staging.staged_one(org.id(), &id);
    assert!(matches!(gone, Err(RequestError::Stage(StageError::None(_)))), "of all: {gone:?}");

    let id = staging.stage(Visitor::Stages(org.id()), None, stage(&org, 2), ()).await.expect("there is room");
    for (days, is_there) in [(59, true), (61, false)] {
        let (again, _) = slow(&store, NOW + days * DAY).await;
        assert_eq!(again.staging().staged_one(org.id(), &id).is_ok(), is_there, "after {days} days");
    }
}

/// SR-2
#[tokio::test]
async fn who_may_not_publish_sends_no_bundle() {
    let (org, member, reader) = (Party::new(1), Party::new(2), Party::new(3));
    let served = Served::start(Rules { publisher: Some(org.id()), ..open() }).await;
    org.is_organisation(&served, vec![member.member(&[Role::Read], &[])], 1).await;
    let release = org.release("secret", "1.0.0", Audience::listed([reader.id()]), BUNDLE);
    org.publishes(&served, release).await.expect("accepted");
    let sessions = [member.session(&served), reader.session(&served)];
    // It leaves; its session goes on.
    org.names(&served, org.roster(vec![], 1, NOW + 1)).await.expect("a roster");
    for session in sessions {
        // Whoever reads it waits for long.
        let endless = Body::wrap_stream(futures::stream::pending::<Result<Vec<u8>, std::io::Error>>());
        let request = served.request(Method::POST, "/staged").bearer_auth(session).body(endless);
        let (status, told) = problem(request.send().await.expect("an answer")).await;
        assert!(status == 403 && told["detail"].as_str().is_some_and(|why| why.contains("--publisher")), "{told}");
    }
}

/// SR-2: keys cost nothing, so what waits is that of the address from which the request came.
#[tokio::test]
async fn whose_address_has_its_share_stages_nothing_more_and_others_do() {
    const MIB: usize = 1 << 20;
    let (org, other, served) = (Party::new(1), Party::new(2), Served::start(open()).await);
    let (full, free) = ("198.51.100.1", "198.51.100.2");
    // 63 MiB: of the share of 64 there is not quite one left.
    for number in 0..21 {
        let (visitor, largest) = (Visitor::Publisher(org.id()), stage_of(&org, number, KEPT_BUNDLE_BYTES_MAX));
        let staging = served.registry.staging();
        staging.stage(visitor, Some(full.to_owned()), largest, ()).await.expect("there is room");
    }
    let post = async |party: &Party, from: Option<&str>, number: usize, bytes: usize| {
        let Stage { agent, version, description, bundle, digest } = stage_of(party, number, bytes);
        let sent = json!({
            "agent": agent.to_string(), "version": version.to_string(),
            "description": String::from_utf8(description).expect("text"),
            "bundle": STANDARD.encode(bundle), "digest": hex(&digest),
        });
        let request = served.request(Method::POST, "/staged").bearer_auth(party.session(&served));
        let request = match from {
            Some(from) => request.header(FROM, from),
            None => request,
        };
        let answer = request.body(sent.to_string()).send().await.expect("an answer");
        (answer.status().as_u16(), answer.text().await.expect("text"))
    };
    for party in [&org, &other] {
        let (status, told) = post(party, Some(full), 100, MIB).await;
        assert!(status == 507 && told.contains("from your network"), "{status}: {told}");
    }
    let (status, told) = post(&other, Some(full), 101, 1).await;
    assert_eq!(status, 201, "there is room for a short one: {told}");
    // From there, and through a proxy of this machine, which stands for many.
    for (number, from) in [(102, Some(free)), (103, None)] {
        let (status, told) = post(&org, from, number, MIB).await;
        assert_eq!(status, 201, "{from:?}: {told}");
    }
}

#[tokio::test]
async fn a_member_stages_for_its_organisation_only_while_the_roster_is_in_force() {
    let (org, member) = (Party::new(1), Party::new(2));
    let served = Served::start(open()).await;
    org.is_organisation(&served, vec![member.member(&[Role::Stage], &["billing"])], 1).await;
    let (staging, visitor) = (served.registry.staging(), Visitor::Publisher(member.id()));
    served.now.store(NOW + DAY, Ordering::SeqCst);
    staging.stage(visitor, None, stage(&org, 1), ()).await.expect("the roster names it");
    served.now.store(NOW + DAY + 1, Ordering::SeqCst);
    let late = staging.stage(visitor, None, stage(&org, 2), ()).await;
    assert!(matches!(late, Err(RequestError::Stage(StageError::NotYours(_)))), "{late:?}");
}

/// SR-9
#[tokio::test]
async fn a_token_goes_over_https_or_within_this_machine() {
    let (org, served) = (Party::new(1), Served::start(open()).await);
    let fetch = || Fetch::new(Vec::new(), Arc::new(SystemResolver)).expect("a client");
    let token = || "secret".to_owned();
    let is_clear = |refused: Option<RegistryError>| {
        let refused = refused.expect("the token would be read on the way");
        let told = refused.to_string();
        assert!(matches!(refused, RegistryError::Clear { .. }) && told.contains("https://"), "{told}");
    };
    for url in ["http://192.0.2.1/", "http://registry:7480", "http://registry.lan:7480/a"] {
        is_clear(BuildMachine::new(fetch(), url, token()).err());
        is_clear(client_at(url, &served).with_token(token()).err());
        let signed_in = client_at(url, &served).sign_in(NETWORK, (&org.key, &org.log), NOW).await;
        is_clear(signed_in.err());
    }
    for url in [served.url.as_str(), "http://localhost:7480", "http://[::1]:7480", "https://registry.lan:7480"] {
        assert!(BuildMachine::new(fetch(), url, token()).is_ok(), "{url}");
        assert!(client_at(url, &served).with_token(token()).is_ok(), "{url}");
    }
}
