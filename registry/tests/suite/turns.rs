//! What costs much takes turns: on each route that verifies, reads or searches what strangers sent or ask for, nothing is done
//! without a turn of its kind; and what has a turn is done where nobody waits.

use std::sync::Arc;

use crate::party::{DOMAIN, NETWORK, Party};
use crate::support::{NOW, Served, TD, anonymous, open, thing};
use althing_protocol::object::{self, Grant};
use althing_protocol::record::Contact;
use althing_protocol::registry::{Audience, Presence, SignIn, Visit};
use althing_protocol::{SecretKey, digest};
use althing_registry::machine::Admission;
use althing_registry::service::{
    FAMILIES, Registry, RegistryConfig, SearchError, Stage, Turn, TurnError, Turns, Visitor, hex, search,
};
use althing_store::MemoryStore;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::FutureExt as _;
use futures::future::join_all;
use reqwest::{Method, RequestBuilder};
use serde_json::{Value, json};
use tokio::task::unconstrained;

/// The files of a release.
const BUNDLE: &[u8] = b"files";

/// A kind of turns.
#[derive(Clone, Copy)]
enum Kind {
    Heavy,
    Short,
    Reads,
}

/// A turn, if one is free.
fn free(turns: &Turns, kind: Kind) -> Option<Result<Turn, TurnError>> {
    match kind {
        Kind::Heavy => unconstrained(turns.take(None)).now_or_never(),
        Kind::Short => unconstrained(turns.short(None)).now_or_never(),
        Kind::Reads => unconstrained(turns.read(None)).now_or_never(),
    }
}

/// All turns that are free.
fn all_free(turns: &Turns, kind: Kind) -> Vec<Turn> {
    std::iter::from_fn(|| free(turns, kind)).map(|turn| turn.expect("a turn")).collect()
}

/// A registry with a Thing, a release of an organisation, and one that waits for approval.
struct Scene {
    org: Party,
    served: Served,
    session: String,
    /// The id of what waits.
    waits: String,
}

impl Scene {
    async fn start() -> Scene {
        let (org, served) = (Party::new(1), Served::start(open()).await);
        served.have("urn:a", "Lamp").await;
        org.is_organisation(&served, Vec::new(), 1).await;
        org.publishes(&served, org.release("echo", "1.0.0", Audience::public(), BUNDLE)).await.expect("accepted");
        let waiting = Stage {
            agent: org.agent("waiting"),
            version: "1.0.0".parse().expect("a version"),
            description: org.td("waiting", "1.0.0"),
            bundle: BUNDLE.to_vec(),
            digest: digest(BUNDLE),
        };
        let waits = served.registry.staging().stage(Visitor::Publisher(org.id()), None, waiting, ()).await;
        let (waits, session) = (waits.expect("there is room"), org.session(&served));
        Scene { org, served, session, waits }
    }

    fn get(&self, path: &str) -> RequestBuilder {
        self.served.request(Method::GET, path)
    }

    /// A request of the organisation, which has signed in.
    fn get_signed_in(&self, path: &str) -> RequestBuilder {
        self.get(path).bearer_auth(&self.session)
    }

    fn send(&self, method: Method, path: &str, kind: &str, body: &Value) -> RequestBuilder {
        self.served.request(method, path).header("content-type", kind).body(body.to_string())
    }

    fn post(&self, path: &str, body: Vec<u8>) -> RequestBuilder {
        self.served.request(Method::POST, path).body(body)
    }

    /// The release that is here already: to take it again is no error.
    fn submission(&self) -> Vec<u8> {
        let release = self.org.release("echo", "1.0.0", Audience::public(), BUNDLE);
        let release = object::sign(release, NETWORK, "", &self.org.key).expect("a good release");
        self.org.submission(release.bytes, vec![self.org.described("echo", "1.0.0").bytes]).encode()
    }

    fn sign_in(&self) -> Vec<u8> {
        let scope = self.served.registry.note_key().to_string();
        let visit = object::sign(Visit::new(self.org.id(), NOW), NETWORK, &scope, &self.org.key).expect("a visit");
        let key_log = self.org.log.to_bytes().into_iter().map(Into::into).collect();
        SignIn { key_log, visit: visit.bytes.into() }.encode()
    }

    /// What a node tells of itself that hosts the organisation's agent.
    fn presence(&self) -> Vec<u8> {
        let node = SecretKey::from_seed(&[100; 32]);
        let contact = Contact::new(node.public(), 1, NOW, NOW + 60_000, vec!["/ip4/192.0.2.1/tcp/1".to_owned()]);
        let contact = object::sign(contact, NETWORK, "", &node).expect("a contact").bytes.into();
        let grant = Grant::new(self.org.agent("echo"), node.public(), NOW - 1_000, NOW + 60_000);
        let grant = object::sign(grant, NETWORK, "", &self.org.key).expect("a grant").bytes.into();
        Presence { contact, grants: vec![grant] }.encode()
    }

    /// What a build machine sends.
    fn staged(&self) -> Value {
        let description = String::from_utf8(self.org.td("billing", "1.0.0")).expect("text");
        json!({
            "agent": self.org.agent("billing").to_string(), "version": "1.0.0", "description": description,
            "bundle": STANDARD.encode(BUNDLE), "digest": hex(&digest(BUNDLE)),
        })
    }

    /// Asks for all of it while somebody has all turns of a kind, and then again: each answers as it should once there is a
    /// turn, and only then.
    async fn waits_for(&self, kind: Kind, asked: impl Fn() -> Vec<(u16, RequestBuilder)>) {
        let held = all_free(self.served.registry.turns(), kind);
        for busy in join_all(asked().into_iter().map(|(_, request)| request.send())).await {
            let busy = busy.expect("an answer");
            let path = busy.url().path().to_owned();
            assert!(busy.status() == 503 && busy.headers()["retry-after"] == "1", "{path}: {}", busy.status());
        }
        drop(held);
        for (expected, request) in asked() {
            let answer = request.send().await.expect("an answer");
            let (path, status) = (answer.url().path().to_owned(), answer.status().as_u16());
            let told = answer.text().await;
            assert_eq!(status, expected, "{path}: {told:?}");
        }
    }
}

/// SR-7
#[tokio::test]
async fn what_is_verified_read_or_compared_takes_a_short_turn() {
    let scene = Scene::start().await;
    let patch = json!({ "title": "Bulb" });
    let bundle = format!("/agents/{}/1.0.0/bundle", scene.org.agent("echo"));
    let asked = || {
        vec![
            (201, scene.post("/submissions", scene.submission())),
            (201, scene.post("/sessions", scene.sign_in())),
            (200, scene.post("/hosts", scene.presence())),
            (200, scene.get("/hosts")),
            (200, scene.get("/published")),
            (200, scene.get(&format!("/names/{DOMAIN}"))),
            (200, scene.get(&format!("/names/{DOMAIN}/echo"))),
            (204, scene.served.request(Method::PUT, &bundle).body(BUNDLE)),
            (201, scene.send(Method::POST, "/things", TD, &anonymous("Lamp"))),
            (201, scene.send(Method::PUT, "/things/urn:b", TD, &thing("urn:b", "Lamp"))),
            (204, scene.send(Method::PATCH, "/things/urn:a", "application/merge-patch+json", &patch)),
            (201, scene.send(Method::POST, "/staged", "application/json", &scene.staged()).bearer_auth(&scene.session)),
        ]
    };
    scene.waits_for(Kind::Short, asked).await;
}

/// SR-7
#[tokio::test]
async fn what_is_read_by_pages_takes_a_turn_of_reads() {
    let scene = Scene::start().await;
    let asked = || {
        vec![
            (200, scene.get("/things?limit=2")),
            (200, scene.get_signed_in("/staged")),
            (200, scene.get_signed_in(&format!("/staged/{}", scene.waits))),
        ]
    };
    scene.waits_for(Kind::Reads, asked).await;
}

/// SR-7
#[tokio::test]
async fn what_may_take_seconds_takes_a_heavy_turn() {
    let scene = Scene::start().await;
    let asked = || {
        vec![
            (200, scene.get("/search/jsonpath?query=$[*]")),
            (200, scene.get("/things?offset=10001")),
            (200, scene.get_signed_in("/published")),
        ]
    };
    scene.waits_for(Kind::Heavy, asked).await;
}

/// A registry that nobody has written to.
async fn registry() -> Registry {
    let config = RegistryConfig {
        origin: "registry.example.org/log".to_owned(),
        network: NETWORK.to_owned(),
        admission: Admission::Anyone,
        is_first: true,
    };
    let (store, key) = (Arc::new(MemoryStore::new(&FAMILIES)), SecretKey::from_seed(&[9; 32]));
    Registry::open(store, key, config, Arc::new(|| NOW)).await.expect("it opens")
}

/// SR-1: on one thread, so that whoever parsed the query there would have refused it at once.
#[test]
fn a_query_is_parsed_in_its_turn_and_on_a_thread_where_nobody_waits() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build();
    runtime.expect("a runtime").block_on(async {
        let registry = Arc::new(registry().await);
        let all = all_free(registry.turns(), Kind::Heavy).len();
        // The only thread for such work is at something else.
        let (go_on, going_on) = std::sync::mpsc::sync_channel::<()>(1);
        let working = tokio::task::spawn_blocking(move || going_on.recv().is_ok());
        let mut searching = Box::pin(search(registry.clone(), None, "no query"));
        assert!(futures::poll!(searching.as_mut()).is_pending(), "it was parsed at once");
        assert_eq!(all_free(registry.turns(), Kind::Heavy).len() + 1, all, "it has its turn before it is parsed");
        go_on.send(()).expect("it waits for that");
        assert!(working.await.expect("it ends"));
        let refused = searching.await;
        assert!(matches!(refused, Err(SearchError::Query { .. })), "{refused:?}");
        assert_eq!(all_free(registry.turns(), Kind::Heavy).len(), all, "it gave its turn back");
    });
}
