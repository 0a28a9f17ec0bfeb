//! A registry and its store: what it refuses to begin without, and what it says while the store is behind or ahead.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::party::{NETWORK, Party};
use crate::support::{NOW, Served, open, thing};
use althing_protocol::SecretKey;
use althing_protocol::object::{self, Kind};
use althing_protocol::registry::{Audience, Mark, Release, Standing, Submission, Version};
use althing_registry::machine::Admission;
use althing_registry::machine::things::{Amount, Expected, Quotas, ThingRefusal, Writer};
use althing_registry::service::{
    DirectoryConfig, FAMILIES, OpenError, Page, Registry, RegistryConfig, RequestError, ThingError, search,
};
use althing_registry::tokens::{Access, Tokens};
use althing_store::{Batch, Durability, Family, MemoryStore, Range, ReadError, Rows, Snapshot, Store, WriteError};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use tokio::sync::Notify;

const STATEMENTS: Family = Family("statements");
const META: Family = Family("meta");

/// When a write is held up: before its rows are on disk, or after that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    Before,
    After,
}

/// A store that a test holds up, or makes fail.
struct Held {
    store: MemoryStore,
    /// The statement that is not found when statements are read one after the other, once.
    unreadable: Mutex<Option<u64>>,
    writes: AtomicUsize,
    /// The write that is held up, from 1 on.
    held: Mutex<Option<(usize, Moment)>>,
    reached: Notify,
    go_on: Notify,
}

impl Held {
    fn new() -> Arc<Held> {
        Arc::new(Held {
            store: MemoryStore::new(&FAMILIES),
            unreadable: Mutex::default(),
            writes: AtomicUsize::default(),
            held: Mutex::default(),
            reached: Notify::new(),
            go_on: Notify::new(),
        })
    }

    /// Holds up the write that comes after so many others.
    fn hold(&self, after: usize, moment: Moment) {
        let number = self.writes.load(Ordering::SeqCst) + after + 1;
        *self.held.lock().expect("no holder panics") = Some((number, moment));
    }

    async fn is_reached(&self) {
        tokio::time::timeout(Duration::from_secs(30), self.reached.notified()).await.expect("it comes to the write");
    }

    async fn pass(&self, number: usize, moment: Moment) {
        let is_held = *self.held.lock().expect("no holder panics") == Some((number, moment));
        if is_held {
            self.reached.notify_one();
            self.go_on.notified().await;
        }
    }
}

/// The same store, as a registry has it.
struct Handle(Arc<Held>);

impl Store for Handle {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.store.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        let mut rows = self.0.store.scan(family, range)?;
        if family == STATEMENTS
            && let Some(index) = self.0.unreadable.lock().expect("no holder panics").take()
        {
            rows.retain(|(key, _)| *key != index.to_be_bytes());
        }
        Ok(rows)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.store.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        let (held, writing) = (self.0.clone(), self.0.store.write(batch, durability));
        async move {
            let number = held.writes.fetch_add(1, Ordering::SeqCst) + 1;
            held.pass(number, Moment::Before).await;
            writing.await?;
            held.pass(number, Moment::After).await;
            Ok(())
        }
        .boxed()
    }
}

async fn opened(store: Arc<dyn Store>, seed: u8, is_first: bool) -> Result<Registry, OpenError> {
    let config = RegistryConfig {
        origin: "registry.example.org/log".to_owned(),
        network: NETWORK.to_owned(),
        admission: Admission::Anyone,
        is_first,
    };
    Registry::open(store, SecretKey::from_seed(&[seed; 32]), config, Arc::new(|| NOW)).await
}

/// The same store, which nothing holds up.
fn held_store(held: &Held) -> Arc<dyn Store> {
    Arc::new(held.store.clone())
}

fn checkpoint_of(store: &MemoryStore) -> Option<String> {
    let note = store.read(META, b"checkpoint").expect("it is read")?;
    Some(String::from_utf8(note).expect("text"))
}

#[tokio::test]
async fn a_log_that_began_does_not_begin_again_over_an_empty_store() {
    let store = Arc::new(MemoryStore::new(&FAMILIES));
    let first = opened(store.clone(), 9, true).await.expect("it begins");
    let note = checkpoint_of(&store).expect("a log without entries is signed too");
    assert_eq!(note, first.checkpoint().note());
    drop(first);
    // What was begun goes on, with nothing in it; whoever says so twice begins nothing.
    for is_first in [false, true] {
        assert_eq!(opened(store.clone(), 9, is_first).await.expect("it goes on").checkpoint().head.size, 0);
    }
    let lost = opened(Arc::new(MemoryStore::new(&FAMILIES)), 9, false).await;
    let Err(error @ OpenError::NoCheckpoint { size: 0 }) = lost else { panic!("it forks") };
    assert!(error.to_string().contains("store/") && error.to_string().contains("restore"), "{error}");
    assert!(matches!(opened(store, 8, false).await, Err(OpenError::Forked { .. })), "another key");
    // Nor does it take over entries that nothing signed.
    let served = Served::start(open()).await;
    served.have("urn:a", "Lamp").await;
    let mut batch = Batch::new();
    batch.delete(META, b"checkpoint".to_vec());
    served.store.write(batch, Durability::Synced).await.expect("written");
    for is_first in [false, true] {
        let unsigned = opened(served.store.clone(), 9, is_first).await;
        assert!(matches!(unsigned, Err(OpenError::NoCheckpoint { size: 1 })));
    }
}

#[tokio::test]
async fn a_long_log_is_read_by_several_and_applied_in_its_order() {
    const ENTRIES: u64 = 300;
    let served = Served::start(open()).await;
    for number in 0..ENTRIES {
        // Of each Thing the last title counts.
        served.have(&format!("urn:{}", number % 100), &format!("Lamp {number}")).await;
    }
    let again = opened(served.store.clone(), 9, false).await.expect("it opens");
    assert_eq!(again.checkpoint().note(), served.registry.checkpoint().note());
    for id in 0..100 {
        let shown = again.directory().submitted(&format!("urn:{id}")).expect("it is there");
        assert_eq!(shown.index, 200 + id, "the newest");
    }
    let mut batch = Batch::new();
    batch.delete(STATEMENTS, 150_u64.to_be_bytes().to_vec());
    served.store.write(batch, Durability::Synced).await.expect("written");
    assert!(matches!(opened(served.store.clone(), 9, false).await, Err(OpenError::Statement(150))));
}

#[tokio::test]
async fn the_checkpoint_that_is_kept_never_gets_older() {
    let held = Held::new();
    let registry = opened(Arc::new(Handle(held.clone())), 9, true).await.expect("it begins");
    let [first, second] = [1, 2].map(|seed| marked(&Party::new(seed)).0);
    let kept = || checkpoint_of(&held.store);
    let empty = kept();
    // Entries and the checkpoint over them come on disk together, and are told of afterwards.
    held.hold(0, Moment::Before);
    let mut submitted = std::pin::pin!(registry.submit(&first));
    assert!(futures::poll!(submitted.as_mut()).is_pending());
    assert_eq!((registry.checkpoint().head.size, kept()), (0, empty));
    held.go_on.notify_one();
    assert_eq!(submitted.await.expect("accepted").len(), 4);
    assert_eq!(kept().as_deref(), Some(registry.checkpoint().note()));
    held.hold(0, Moment::After);
    let mut submitted = std::pin::pin!(registry.submit(&second));
    assert!(futures::poll!(submitted.as_mut()).is_pending());
    assert_eq!(registry.checkpoint().head.size, 4);
    let ahead = kept();
    held.go_on.notify_one();
    submitted.await.expect("accepted");
    assert_eq!(registry.checkpoint().head.size, 8);
    assert_eq!((ahead.as_deref(), kept().as_deref()), (Some(registry.checkpoint().note()), ahead.as_deref()));
}

#[tokio::test]
async fn writers_that_wait_share_one_write_and_the_first_waits_for_nobody() {
    let held = Held::new();
    let registry = opened(Arc::new(Handle(held.clone())), 9, true).await.expect("it begins");
    let submissions: Vec<Submission> = (1..=8).map(|seed| marked(&Party::new(seed)).0).collect();
    let before = held.writes.load(Ordering::SeqCst);
    held.hold(0, Moment::Before);
    let mut submitting: Vec<_> = submissions.iter().map(|one| Box::pin(registry.submit(one))).collect();
    for one in &mut submitting {
        assert!(futures::poll!(one).is_pending());
    }
    assert_eq!(held.writes.load(Ordering::SeqCst), before + 1, "the first one's, of its entries alone");
    held.go_on.notify_one();
    for receipt in futures::future::join_all(submitting).await {
        let receipt = receipt.expect("accepted");
        assert_eq!(receipt.len(), 4);
        for logged in &receipt {
            let kinds = [Kind::KeyEvent, Kind::Release, Kind::Mark];
            assert!(kinds.into_iter().any(|kind| logged.verify(kind, registry.note_key()).is_ok()), "it is proven");
        }
    }
    assert_eq!(registry.checkpoint().head.size, 32);
    assert_eq!(held.writes.load(Ordering::SeqCst), before + 2, "and one of all others'");
    // What has waited is there when it is opened again.
    let again = opened(held_store(&held), 9, false).await.expect("it goes on");
    assert_eq!(again.checkpoint(), registry.checkpoint());
}

#[tokio::test]
async fn who_goes_away_while_it_writes_for_others_leaves_them_their_answers() {
    for moment in [Moment::Before, Moment::After] {
        let held = Held::new();
        let registry = opened(Arc::new(Handle(held.clone())), 9, true).await.expect("it begins");
        let [first, second, third] = [1, 2, 3].map(|seed| marked(&Party::new(seed)).0);
        held.hold(0, Moment::Before);
        let mut leads = Box::pin(registry.submit(&first));
        assert!(futures::poll!(leads.as_mut()).is_pending());
        let (mut next, mut last) = (Box::pin(registry.submit(&second)), Box::pin(registry.submit(&third)));
        assert!(futures::poll!(next.as_mut()).is_pending() && futures::poll!(last.as_mut()).is_pending());
        held.hold(0, moment);
        held.go_on.notify_one();
        leads.await.expect("accepted");
        // The second one writes for the third one too, and goes away in the middle of it.
        assert!(futures::poll!(next.as_mut()).is_pending());
        assert_eq!(registry.checkpoint().head.size, 4);
        drop(next);
        assert_eq!(last.await.expect("accepted").len(), 4, "{moment:?}");
        assert_eq!(registry.checkpoint().head.size, 12);
        assert_eq!(registry.submit(&second).await.expect("it is known").len(), 3, "{moment:?}");
        assert_eq!(registry.checkpoint().head.size, 12, "each is an entry once");
    }
}

#[tokio::test]
async fn what_bears_on_another_waits_for_the_next_write() {
    let (held, folder) = (Held::new(), tempfile::tempdir().expect("a folder"));
    let registry = opened(Arc::new(Handle(held.clone())), 9, true).await.expect("it begins");
    let access = Access { tokens: Tokens::of(folder.path()), is_anyone: true, is_closed: false };
    let quotas = Quotas { each: Amount { things: 3, bytes: 1 << 20 }, ..Quotas::default() };
    let random = Arc::new(|| [7_u8; 16]);
    let registry = registry.with_directory(DirectoryConfig { quotas, access, random, is_tls: false });
    let directory = registry.directory();
    let writer = Writer { name: String::new(), is_admin: false };
    let put = async |id: &str, title: &str, expected| {
        directory.put_thing(id, thing(id, title).to_string().as_bytes(), &writer, expected).await
    };
    held.hold(0, Moment::Before);
    let mut first = Box::pin(put("urn:a", "one", Expected::Anything));
    assert!(futures::poll!(first.as_mut()).is_pending());
    // Two of the same Thing; one of them believes what the first one made. Then more than there is room for.
    let mut others = vec![
        Box::pin(put("urn:a", "two", Expected::Entry(0))),
        Box::pin(put("urn:a", "three", Expected::Entry(0))),
        Box::pin(put("urn:b", "b", Expected::Anything)),
        Box::pin(put("urn:c", "c", Expected::Anything)),
        Box::pin(put("urn:d", "d", Expected::Anything)),
    ];
    for one in &mut others {
        assert!(futures::poll!(one).is_pending());
    }
    held.go_on.notify_one();
    first.await.expect("written");
    let others = futures::future::join_all(others).await;
    let outcomes: Vec<_> = others.iter().map(Result::is_ok).collect();
    assert_eq!(outcomes, [true, false, true, true, false], "{others:?}");
    assert!(matches!(&others[1], Err(ThingError::Refused(ThingRefusal::Changed(_)))));
    assert!(matches!(&others[4], Err(ThingError::Refused(ThingRefusal::WriterFull { things: 3, things_max: 3, .. }))));
    let page = directory.page(&Page::default()).expect("a list");
    assert_eq!(page.descriptions.iter().map(|(id, _)| id.as_str()).collect::<Vec<_>>(), ["urn:a", "urn:b", "urn:c"]);
    let shown = directory.submitted("urn:a").expect("it is there");
    assert_eq!(shown.bytes, thing("urn:a", "two").to_string().into_bytes());
}

/// A release of `echo` and two marks of it.
fn marked(party: &Party) -> (Submission, Version) {
    let body: Release = party.release("echo", "1.0.0", Audience::public(), b"files");
    let version = body.version.clone();
    let mark = |standing, sequence| {
        let mut body = Mark::new(party.agent("echo"), version.clone(), standing, "", NOW);
        body.sequence = sequence;
        object::sign(body, NETWORK, "", &party.key).expect("a good mark").bytes
    };
    let (first, second) = (mark(Standing::Deprecated, NOW + 1), mark(Standing::Yanked, NOW + 2));
    let release = object::sign(body, NETWORK, "", &party.key).expect("a good release").bytes;
    let mut submission = party.submission(release, vec![party.described("echo", "1.0.0").bytes]);
    submission.statements.push(first.into());
    submission.statements.push(second.into());
    (submission, version)
}

#[tokio::test]
async fn entries_are_applied_once_also_where_reading_stopped() {
    let held = Held::new();
    let registry = opened(Arc::new(Handle(held.clone())), 9, true).await.expect("it begins");
    let party = Party::new(1);
    let (submission, version) = marked(&party);
    let alone = Submission { statements: submission.statements[..1].to_vec(), ..submission.clone() };
    registry.submit(&alone).await.expect("accepted");
    // The log then has four entries: keys, release, mark, mark. Whoever wrote the marks went away meanwhile, and the last one
    // is not found.
    held.hold(0, Moment::After);
    let mut leaves = Box::pin(registry.submit(&submission));
    assert!(futures::poll!(leaves.as_mut()).is_pending());
    drop(leaves);
    *held.unreadable.lock().expect("no holder panics") = Some(3);
    assert!(matches!(registry.submit(&submission).await, Err(RequestError::Damaged(3))));
    assert_eq!(registry.submit(&submission).await.expect("it is known").len(), 3);
    assert_eq!(registry.checkpoint().head.size, 4);
    let evidence = registry.releases().evidence(&party.agent("echo"), &version, None).expect("it is there");
    assert_eq!(evidence.marks.len(), 2, "no mark was applied twice");
    let verified = evidence.verify(NETWORK, &party.agent("echo"), &version, registry.note_key());
    assert_eq!(verified.map(|it| it.standing).ok(), Some(Standing::Yanked));
}

#[tokio::test]
async fn a_thing_that_is_being_deleted_is_gone_and_not_damaged() {
    let (held, folder) = (Held::new(), tempfile::tempdir().expect("a folder"));
    let open = async || {
        let registry = opened(Arc::new(Handle(held.clone())), 9, true).await.expect("it begins");
        let access = Access { tokens: Tokens::of(folder.path()), is_anyone: true, is_closed: false };
        let random = Arc::new(|| [7_u8; 16]);
        let directory = DirectoryConfig { quotas: Quotas::default(), access, random, is_tls: false };
        Arc::new(registry.with_directory(directory))
    };
    let registry = open().await;
    let writer = Writer { name: String::new(), is_admin: false };
    for id in ["urn:a", "urn:b"] {
        let body = thing(id, "Lamp").to_string();
        registry.directory().put_thing(id, body.as_bytes(), &writer, Expected::Anything).await.expect("written");
    }
    // What was written is in memory; after a start it is read from the disk.
    drop(registry);
    let registry = open().await;
    held.hold(0, Moment::After);
    let deleting = tokio::spawn({
        let (registry, writer) = (registry.clone(), writer.clone());
        async move { registry.directory().delete_thing("urn:a", &writer, Expected::Anything).await }
    });
    held.is_reached().await;
    let is_gone = |result: Result<_, ThingError>| {
        assert!(matches!(result, Err(ThingError::Refused(ThingRefusal::None(id))) if id == "urn:a"));
    };
    let list = || {
        let page = registry.directory().page(&Page::default()).expect("a list");
        page.descriptions.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    is_gone(registry.directory().retrieve("urn:a"));
    is_gone(registry.directory().submitted("urn:a"));
    assert_eq!(list(), ["urn:b"]);
    let found = search(registry.clone(), None, "$[*].id").await.expect("a search");
    assert_eq!(found.json, b"[\"urn:b\"]");
    held.go_on.notify_one();
    deleting.await.expect("it ends").expect("deleted");
    is_gone(registry.directory().retrieve("urn:a"));
    // What no entry has taken away is damaged all the same. What was read or written here is still in memory.
    let body = thing("urn:c", "Lamp").to_string();
    registry.directory().put_thing("urn:c", body.as_bytes(), &writer, Expected::Anything).await.expect("written");
    let mut batch = Batch::new();
    for entry in [1_u64, 3] {
        batch.delete(Family("things"), entry.to_be_bytes());
    }
    held.store.write(batch, Durability::Synced).await.expect("written");
    assert!(registry.directory().retrieve("urn:b").is_ok() && registry.directory().retrieve("urn:c").is_ok());
    drop(registry);
    let registry = open().await;
    let damaged = registry.directory().retrieve("urn:c");
    assert!(matches!(damaged, Err(ThingError::Request(RequestError::Damaged(3)))));
    assert!(registry.directory().page(&Page::default()).is_err());
}
