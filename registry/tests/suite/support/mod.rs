//! A registry that serves on loopback, with a clock that tests move.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use althing_edge::{Limits, Peer};
use althing_protocol::{PublisherId, SecretKey};
use althing_registry::http::at_own_names;
use althing_registry::machine::Admission;
use althing_registry::machine::things::Quotas;
use althing_registry::service::{DirectoryConfig, FAMILIES, Registry, RegistryConfig, keep_indexed};
use althing_registry::tokens::{Access, TokenScope, Tokens};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use axum::middleware::{Next, from_fn};
use futures::future::BoxFuture;
use reqwest::{Client, Method, RequestBuilder, Response, StatusCode};
use serde_json::{Value, json};
use tokio_util::sync::{CancellationToken, DropGuard};

pub const NOW: u64 = 1_700_000_000_000;
pub const TD: &str = "application/td+json";
/// The name by which the registry is asked, beside its address.
pub const HOST: &str = "registry.example.org";
/// The header that says from where a request comes, if not from this machine.
pub const FROM: &str = "x-from";

/// Who may do what.
#[derive(Debug, Clone, Copy, Default)]
pub struct Rules {
    pub is_anyone: bool,
    pub is_closed: bool,
    pub quotas: Quotas,
    /// The only publisher that may publish; everybody without one.
    pub publisher: Option<PublisherId>,
}

/// Everybody may write.
pub fn open() -> Rules {
    Rules { is_anyone: true, ..Rules::default() }
}

/// A store that counts what is read of it, and written.
pub struct Counted {
    store: MemoryStore,
    reads: AtomicU64,
    writes: AtomicU64,
}

impl Counted {
    fn new() -> Counted {
        Counted { store: MemoryStore::new(&FAMILIES), reads: AtomicU64::new(0), writes: AtomicU64::new(0) }
    }

    /// Rows that were read so far, and asked for in vain.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// Writes that began so far.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::SeqCst)
    }
}

impl Store for Counted {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.store.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let rows = self.store.scan(family, range)?;
        self.reads.fetch_add(1 + rows.len() as u64, Ordering::SeqCst);
        Ok(rows)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.store.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        self.writes.fetch_add(1, Ordering::SeqCst);
        self.store.write(batch, durability)
    }
}

/// A registry, and a client of it.
pub struct Served {
    pub registry: Arc<Registry>,
    pub client: Client,
    pub url: String,
    pub now: Arc<AtomicU64>,
    pub store: Arc<Counted>,
    folder: tempfile::TempDir,
    rules: Rules,
    stop: DropGuard,
    indexing: tokio::task::JoinHandle<()>,
}

impl Served {
    pub async fn start(rules: Rules) -> Served {
        let folder = tempfile::tempdir().expect("a folder");
        Served::over(Arc::new(Counted::new()), folder, rules, true).await
    }

    async fn over(store: Arc<Counted>, folder: tempfile::TempDir, rules: Rules, is_first: bool) -> Served {
        let now = Arc::new(AtomicU64::new(NOW));
        let clock = now.clone();
        let config = RegistryConfig {
            origin: "registry.example.org/log".to_owned(),
            network: "test".to_owned(),
            admission: rules.publisher.map_or(Admission::Anyone, |one| Admission::Publishers([one].into())),
            is_first,
        };
        let key = SecretKey::from_seed(&[9; 32]);
        let clock = Arc::new(move || clock.load(Ordering::SeqCst));
        let registry = Registry::open(store.clone(), key, config, clock).await.expect("it opens");
        let drawn = AtomicU8::new(0);
        let directory = DirectoryConfig {
            quotas: rules.quotas,
            access: Access {
                tokens: Tokens::of(folder.path()),
                is_anyone: rules.is_anyone,
                is_closed: rules.is_closed,
            },
            random: Arc::new(move || [drawn.fetch_add(1, Ordering::SeqCst); 16]),
            is_tls: false,
        };
        let registry = Arc::new(registry.with_directory(directory));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("it listens");
        let (url, stop) = (format!("http://{address}"), CancellationToken::new());
        let named = althing_edge::Access::at(address, vec![HOST.to_owned()]);
        let router = at_own_names(althing_registry::http::router(registry.clone()), named);
        let router = router.layer(from_fn(from_elsewhere));
        tokio::spawn(althing_edge::serve(listener, router, Limits::default(), stop.clone()));
        let indexing = tokio::spawn(keep_indexed(registry.clone(), folder.path().join("search")));
        // Another test may have installed it.
        let _ = rustls::crypto::ring::default_provider().install_default();
        Served { registry, client: Client::new(), url, now, store, folder, rules, stop: stop.drop_guard(), indexing }
    }

    /// The same registry, opened again from what is on disk.
    pub async fn again(self) -> Served {
        drop(self.stop);
        self.indexing.abort();
        Served::over(self.store, self.folder, self.rules, false).await
    }

    /// The folder of its index.
    pub fn index(&self) -> PathBuf {
        self.folder.path().join("search")
    }

    /// Waits until the index stands for all entries.
    pub async fn is_indexed(&self) {
        let size = self.registry.checkpoint().head.size;
        let mut indexed = self.registry.indexed();
        let waited = indexed.wait_for(|entries| *entries >= size);
        let waited = tokio::time::timeout(std::time::Duration::from_secs(60), waited).await;
        waited.expect("it is indexed soon").expect("the registry is open");
    }

    /// Ends the indexing: what is written from now on is not in the index.
    pub fn stop_indexing(&self) {
        self.indexing.abort();
    }

    pub fn token(&self, name: &str, scope: TokenScope) -> String {
        let seed = name.bytes().next().expect("a name");
        Tokens::of(self.folder.path()).add(name, &[scope], [seed; 32]).expect("a token")
    }

    pub fn token_of(&self, name: &str, scope: TokenScope, publisher: PublisherId) -> String {
        let seed = name.bytes().next().expect("a name");
        Tokens::of(self.folder.path()).add_of(name, &[scope], Some(publisher), [seed; 32]).expect("a token")
    }

    pub fn remove_token(&self, name: &str) {
        Tokens::of(self.folder.path()).remove(name).expect("it is there");
    }

    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}{path}", self.url))
    }

    pub async fn get(&self, path: &str) -> Response {
        self.request(Method::GET, path).send().await.expect("an answer")
    }

    pub async fn json(&self, path: &str) -> Value {
        let answer = self.get(path).await;
        assert_eq!(answer.status(), StatusCode::OK, "{path}");
        answer.json().await.expect("JSON")
    }

    pub async fn put(&self, id: &str, body: impl Into<reqwest::Body>) -> Response {
        let request = self.request(Method::PUT, &format!("/things/{}", escaped(id)));
        request.header("content-type", TD).body(body).send().await.expect("an answer")
    }

    /// Puts a Thing that must be accepted.
    pub async fn have(&self, id: &str, title: &str) {
        let answer = self.put(id, thing(id, title).to_string()).await;
        assert!(answer.status().is_success(), "{id}: {}", answer.text().await.expect("a reason"));
    }

    pub async fn post(&self, body: impl Into<reqwest::Body>) -> Response {
        self.request(Method::POST, "/things").header("content-type", TD).body(body).send().await.expect("an answer")
    }

    pub async fn patch(&self, id: &str, patch: &Value) -> Response {
        let request = self.request(Method::PATCH, &format!("/things/{}", escaped(id)));
        let request = request.header("content-type", "application/merge-patch+json");
        request.body(patch.to_string()).send().await.expect("an answer")
    }

    pub async fn delete(&self, id: &str) -> StatusCode {
        let request = self.request(Method::DELETE, &format!("/things/{}", escaped(id)));
        request.send().await.expect("an answer").status()
    }
}

/// Has a request come from where its header says: all that tests send comes from this machine, where a proxy may stand for
/// many.
async fn from_elsewhere(mut request: axum::extract::Request, next: Next) -> axum::response::Response {
    let from = request.headers().get(FROM).map(|from| from.to_str().expect("text").parse().expect("an address"));
    if let Some(from) = from {
        request.extensions_mut().insert(Peer(from));
    }
    next.run(request).await
}

/// A text as a part of an address.
pub fn escaped(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~:".contains(&byte);
    let one = |byte: u8| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    text.bytes().map(one).collect()
}

/// A description.
pub fn thing(id: &str, title: &str) -> Value {
    let mut td = anonymous(title);
    td["id"] = json!(id);
    td
}

/// A description without an id.
pub fn anonymous(title: &str) -> Value {
    json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1", "title": title,
        "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
    })
}

/// The problem that an answer tells.
pub async fn problem(answer: Response) -> (u16, Value) {
    let status = answer.status().as_u16();
    assert_eq!(answer.headers()["content-type"], "application/problem+json", "{status}");
    let problem: Value = answer.json().await.expect("JSON");
    assert_eq!(problem["status"], status);
    (status, problem)
}
