//! Purging what is not for everybody: it is gone from the disk, the log is whole, and there is one history whatever happens.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::party::{NETWORK, Party, client, refused};
use crate::support::{NOW, Served, open};
use althing_protocol::object;
use althing_protocol::registry::{Audience, Entry, EntryKind, Mark, Standing, Submission, Version};
use althing_protocol::tlog::Checkpoint;
use althing_protocol::{AgentId, SecretKey, digest};
use althing_registry::machine::things::Quotas;
use althing_registry::machine::{Admission, PurgedBy, Refusal};
use althing_registry::service::{DirectoryConfig, FAMILIES, Registry, RegistryConfig, RequestError};
use althing_registry::tokens::{Access, Tokens};
use althing_registry_client::{LogReader, Said};
use althing_store::{
    Batch, Durability, Family, Range, ReadError, RocksStore, Rows, Snapshot, Store, StoreConfig, WriteError,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::{Method, StatusCode};

/// A store on disk that loses its power at a step.
struct Cut {
    store: RocksStore,
    before_writes: AtomicBool,
    before_scrubs: AtomicBool,
}

struct Handle(Arc<Cut>);

fn cut_off<T: Send + 'static>() -> BoxFuture<'static, Result<T, WriteError>> {
    async { Err(WriteError::Stopped { dir: "here".into(), detail: "the power is off".to_owned() }) }.boxed()
}

impl Store for Handle {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.0.store.read(family, key)
    }

    fn scan(&self, family: Family, range: Range) -> Result<Rows, ReadError> {
        self.0.store.scan(family, range)
    }

    fn snapshot(&self) -> Box<dyn Snapshot> {
        self.0.store.snapshot()
    }

    fn write(&self, batch: Batch, durability: Durability) -> BoxFuture<'static, Result<(), WriteError>> {
        if self.0.before_writes.load(Ordering::SeqCst) { cut_off() } else { self.0.store.write(batch, durability) }
    }

    fn scrub(&self, rows: Vec<(Family, Vec<u8>)>) -> BoxFuture<'static, Result<(), WriteError>> {
        if self.0.before_scrubs.load(Ordering::SeqCst) { cut_off() } else { self.0.store.scrub(rows) }
    }
}

/// A registry on disk.
struct OnDisk {
    registry: Registry,
    cut: Arc<Cut>,
}

impl OnDisk {
    async fn open(folder: &Path, is_first: bool) -> OnDisk {
        let store = RocksStore::open(&folder.join("store"), &FAMILIES, StoreConfig::default()).expect("it opens");
        let cut = Arc::new(Cut { store, before_writes: AtomicBool::default(), before_scrubs: AtomicBool::default() });
        let config = RegistryConfig {
            origin: "registry.example.org/log".to_owned(),
            network: NETWORK.to_owned(),
            admission: Admission::Anyone,
            is_first,
        };
        let key = SecretKey::from_seed(&[9; 32]);
        let registry = Registry::open(Arc::new(Handle(cut.clone())), key, config, Arc::new(|| NOW)).await;
        let drawn = AtomicU64::new(if is_first { 1 } else { 1_000 });
        // As good as random for whoever looks for it in files.
        let random = move || {
            let number = drawn.fetch_add(1, Ordering::SeqCst).to_be_bytes();
            digest(&number)[..16].try_into().expect("16 bytes")
        };
        let directory = DirectoryConfig {
            quotas: Quotas::default(),
            access: Access { tokens: Tokens::of(folder), is_anyone: false, is_closed: false },
            random: Arc::new(random),
            is_tls: false,
        };
        OnDisk { registry: registry.expect("it opens").with_directory(directory), cut }
    }

    async fn submits(&self, submission: &Submission) {
        self.registry.submit(submission).await.expect("accepted");
    }

    fn entry(&self, index: u64) -> Entry {
        let size = self.registry.checkpoint().head.size;
        let width = u16::try_from(size).expect("a small log");
        let bundle = self.registry.entries(format!("0/000.p/{width}").parse().expect("a tile")).expect("readable");
        let (mut bytes, mut at) = (bundle.expect("it is there"), 0);
        loop {
            let length = usize::from(u16::from_be_bytes([bytes[0], bytes[1]]));
            let rest = bytes.split_off(2 + length);
            if at == index {
                return Entry::decode(&bytes[2..]).expect("an entry");
            }
            (bytes, at) = (rest, at + 1);
        }
    }

    async fn purges(&self, agent: &AgentId, version: &str) -> Result<(), RequestError> {
        self.registry.purging().purge(agent, &self::version(version), PurgedBy::Publisher).await
    }
}

fn version(text: &str) -> Version {
    text.parse().expect("a version")
}

/// Bytes that compress to nothing smaller, and are nowhere else.
fn noise(seed: u8) -> Vec<u8> {
    (0..8u8).flat_map(|at| digest(&[seed, at])).collect()
}

/// Whether any file below the folder has these bytes.
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

/// A publisher with a hidden release, a mark on it, its bundle, and a public release; and the bytes that must go.
async fn hidden_release(on_disk: &OnDisk, org: &Party) -> Vec<Vec<u8>> {
    let reader = Party::new(2);
    let hidden = org.release("billing", "1.0.0", Audience::listed(vec![reader.id()]), &noise(1));
    let described = org.described("billing", "1.0.0");
    let signed = object::sign(hidden, NETWORK, "", &org.key).expect("a good release");
    on_disk.submits(&org.submission(signed.bytes.clone(), vec![described.bytes.clone()])).await;
    let (agent, one) = (org.agent("billing"), version("1.0.0"));
    let releases = on_disk.registry.releases();
    let content = releases.bundle_content(&agent, &one, &noise(1), Some(org.id())).expect("it is the bundle");
    releases.keep_bundle(&agent, &one, content, Some(org.id())).await.expect("kept");
    let mut mark = Mark::new(agent.clone(), one.clone(), Standing::Deprecated, "a secret reason", NOW);
    mark.sequence = NOW + 5;
    let mark = object::sign(mark, NETWORK, "", &org.key).expect("a good mark");
    on_disk.submits(&org.submission(mark.bytes.clone(), vec![])).await;
    let public = org.release("open", "1.0.0", Audience::public(), &noise(2));
    let open = org.described("open", "1.0.0");
    let public = object::sign(public, NETWORK, "", &org.key).expect("a good release");
    on_disk.submits(&org.submission(public.bytes, vec![open.bytes])).await;
    let evidence = on_disk.registry.releases().evidence(&agent, &one, Some(reader.id())).expect("it may be seen");
    let verified = evidence.verify(NETWORK, &agent, &one, on_disk.registry.note_key());
    assert_eq!(verified.expect("salts are shown to those who may see").standing, Standing::Deprecated);
    let salt = evidence.release.salt.expect("it is salted").to_vec();
    // Signatures are the last 64 bytes.
    let tail = |bytes: &[u8]| bytes[bytes.len() - 64..].to_vec();
    vec![noise(1), tail(&signed.bytes), tail(&described.bytes), tail(&mark.bytes), salt, b"a secret reason".to_vec()]
}

/// P-190, P-191
#[tokio::test]
async fn what_is_purged_is_gone_from_the_disk_and_the_log_is_whole() {
    let folder = tempfile::tempdir().expect("a folder");
    let on_disk = OnDisk::open(folder.path(), true).await;
    let org = Party::new(1);
    let gone = hidden_release(&on_disk, &org).await;
    let before = on_disk.registry.checkpoint();
    // Key log, release, mark, public release.
    let kinds = [1, 2, 3].map(|index| on_disk.entry(index).kind);
    let (release, mark) = (althing_protocol::object::Kind::Release, althing_protocol::object::Kind::Mark);
    assert_eq!(kinds, [EntryKind::Salted(release), EntryKind::Salted(mark), EntryKind::Signed(release)]);
    for bytes in &gone {
        assert!(is_on_disk(folder.path(), bytes), "it is looked for rightly");
    }
    let (agent, one) = (org.agent("billing"), version("1.0.0"));
    let public = on_disk.purges(&org.agent("open"), "1.0.0").await;
    assert!(matches!(public, Err(RequestError::Refused(Refusal::NotPurgeable { .. }))), "everybody has seen it");
    let unknown = on_disk.purges(&agent, "3.0.0").await;
    assert!(matches!(unknown, Err(RequestError::NoVersion(..))));
    on_disk.purges(&agent, "1.0.0").await.expect("purged");
    on_disk.purges(&agent, "1.0.0").await.expect("once more is no error");
    for bytes in &gone {
        assert!(!is_on_disk(folder.path(), bytes), "{} bytes are still there", bytes.len());
    }
    let now = on_disk.registry.checkpoint();
    assert_eq!(now.head.size, before.head.size + 1, "one entry says so");
    assert_eq!(on_disk.entry(4).kind, EntryKind::Purge);
    let hashes = on_disk.registry.growth(before.head.size, now.head.size).expect("readable");
    assert_eq!(now.head.check_extends(&before.head, &hashes), Ok(()));
    is_purged(&on_disk, &org, &agent, &one, &now).await;
    drop(on_disk);
    // The same follows from the log after a start.
    let again = OnDisk::open(folder.path(), false).await;
    is_purged(&again, &org, &agent, &one, &now).await;
}

async fn is_purged(on_disk: &OnDisk, org: &Party, agent: &AgentId, one: &Version, head: &Checkpoint) {
    let releases = on_disk.registry.releases();
    assert!(matches!(releases.evidence(agent, one, Some(org.id())), Err(RequestError::NoAgent(_))));
    assert!(matches!(releases.bundle(agent, one, Some(org.id())), Err(RequestError::NoAgent(_))));
    assert!(matches!(releases.said(1, Some(org.id())), Err(RequestError::NoStatement(1))));
    assert!(matches!(releases.said(2, Some(org.id())), Err(RequestError::NoStatement(2))));
    assert!(releases.evidence(&org.agent("open"), one, None).is_ok(), "others stay");
    assert_eq!(on_disk.registry.checkpoint().head, head.head);
    // The version is used up, and what was signed before it is stale.
    let submit = async |version: &str, sequence: u64| {
        let mut body = org.release("billing", version, Audience::listed(vec![org.id()]), &noise(3));
        body.sequence = sequence;
        let described = org.described("billing", version);
        let signed = object::sign(body, NETWORK, "", &org.key).expect("a good release");
        on_disk.registry.submit(&org.submission(signed.bytes, vec![described.bytes])).await
    };
    let taken = submit("1.0.0", NOW + 9).await;
    assert!(matches!(taken, Err(RequestError::Refused(Refusal::VersionTaken { .. }))));
    let stale = submit("1.1.0", NOW + 5).await;
    assert!(matches!(stale, Err(RequestError::Refused(Refusal::Stale { .. }))));
}

/// P-191: at each step at which it may be cut off, all of it is there, or nothing.
#[tokio::test]
async fn a_purge_that_is_cut_off_is_completed_or_did_not_happen() {
    let org = Party::new(1);
    let (agent, one) = (org.agent("billing"), version("1.0.0"));
    // Nothing was written.
    let folder = tempfile::tempdir().expect("a folder");
    let on_disk = OnDisk::open(folder.path(), true).await;
    let gone = hidden_release(&on_disk, &org).await;
    let before = on_disk.registry.checkpoint();
    on_disk.cut.before_writes.store(true, Ordering::SeqCst);
    assert!(on_disk.purges(&agent, "1.0.0").await.is_err());
    drop(on_disk);
    let again = OnDisk::open(folder.path(), false).await;
    assert_eq!(again.registry.checkpoint().head, before.head);
    let evidence = again.registry.releases().evidence(&agent, &one, Some(org.id())).expect("all of it is there");
    evidence.verify(NETWORK, &agent, &one, again.registry.note_key()).expect("and proven");
    assert!(again.registry.releases().bundle(&agent, &one, Some(org.id())).is_ok());

    // It was written, and the files were not.
    again.cut.before_scrubs.store(true, Ordering::SeqCst);
    assert!(again.purges(&agent, "1.0.0").await.is_err());
    assert!(gone.iter().any(|bytes| is_on_disk(folder.path(), bytes)), "it is still in files");
    let after = again.registry.checkpoint();
    drop(again);
    let completed = OnDisk::open(folder.path(), false).await;
    for bytes in &gone {
        assert!(!is_on_disk(folder.path(), bytes), "{} bytes are still there", bytes.len());
    }
    is_purged(&completed, &org, &agent, &one, &after).await;
}

/// Who has nothing to do with it learns nothing, and purges nothing.
#[tokio::test]
async fn only_its_publisher_purges_a_release() {
    let served = Served::start(open()).await;
    let (org, reader, stranger) = (Party::new(1), Party::new(2), Party::new(3));
    let hidden = org.release("billing", "1.0.0", Audience::listed(vec![reader.id()]), b"the files");
    org.publishes(&served, hidden).await.expect("accepted");
    let (agent, one) = (org.agent("billing"), version("1.0.0"));
    let path = format!("/agents/{agent}/1.0.0");
    let unsigned = served.request(Method::DELETE, &path).send().await.expect("an answer");
    assert_eq!(unsigned.status(), StatusCode::UNAUTHORIZED);
    for other in [&reader, &stranger] {
        assert_eq!(refused(other.visits(&served).await.purge(&agent, &one).await).0, 404);
    }
    let visiting = reader.visits(&served).await;
    let reader_of = LogReader(&visiting);
    let shown = client(&served).checkpoint(None).await.expect("a checkpoint");
    let watched = reader_of.watch(NETWORK, &shown, 0).await.expect("a reader verifies salted entries");
    assert!(watched.iter().any(|one| matches!(&one.said, Said::Release(..))));
    org.visits(&served).await.purge(&agent, &one).await.expect("purged");
    let now = client(&served).checkpoint(Some(&shown)).await.expect("it goes on");
    let watched = reader_of.watch(NETWORK, &now, 0).await.expect("the log is whole");
    assert!(!watched.iter().any(|one| matches!(&one.said, Said::Release(..))), "nothing is said of it any more");
    assert_eq!(watched.len() as u64, now.head.size);
}
