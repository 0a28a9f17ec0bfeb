use a2a::{Artifact, Message, Part, Role, TaskState};
use althing_execution::notes::{Note, NoteKind};
use althing_protocol::{CallerId, SecretKey};
use althing_store::{LARGE_BATCH_BYTES_MAX, MemoryStore};
use althing_testing_store::FaultStore;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::journal::SESSION_HEADS;
use crate::machine::record::{RECORD_BYTES_MAX, WORKING_BYTES_MAX};
use crate::machine::session::SessionId;
use crate::machine::size::stored_bytes;
use crate::push::{PUSH_CONFIGS, PUSH_OUTBOX};
use crate::tasks::answers::ANSWERS;
use crate::tasks::{HANDOFFS_IN, HANDOFFS_OUT};

const NOW_MS: i64 = 1_700_000_000_000;

fn scope() -> Scope {
    Scope::of(CallerId::Node(SecretKey::from_seed(&[1; 32]).public()))
}

fn store() -> Arc<MemoryStore> {
    let families = [TASKS, TASK_SUMMARIES, ANSWERS, PUSH_CONFIGS, PUSH_OUTBOX, SESSION_HEADS, SESSION_ROWS];
    Arc::new(MemoryStore::new(&[&families[..], &[HANDOFFS_IN, HANDOFFS_OUT]].concat()))
}

fn record(id: &str, parts: Vec<Part>) -> Record {
    let now = DateTime::from_timestamp_millis(NOW_MS).expect("a time");
    let task = task::submitted(id.to_owned(), "c".to_owned(), Message::new(Role::User, parts), now);
    Record::new(task, "echo", scope())
}

async fn open(store: &Arc<MemoryStore>) -> TaskStore {
    TaskStore::open(store.clone(), scope(), NOW_MS + 1).await.expect("no task keeps the store from opening")
}

/// Writes a record as it is, past every check, with nothing beside it.
async fn put(store: &MemoryStore, id: &str, value: Vec<u8>) {
    let mut batch = Batch::large();
    batch.put(TASKS, id.as_bytes(), value);
    store.write(batch, Durability::Synced).await.expect("it fits");
}

fn why(record: &Record) -> &str {
    record.task.status.message.as_ref().and_then(Message::text).expect("a message")
}

#[tokio::test]
async fn an_interrupted_task_that_fills_a_batch_does_not_keep_the_node_from_starting() {
    let store = store();
    let mut huge = record("huge", vec![Part::text("")]);
    let empty = Encoded::of(&huge).expect("it can be stored").len();
    let room = LARGE_BATCH_BYTES_MAX - 100 - empty - "huge".len();
    huge.task.history = Some(vec![Message::new(Role::User, vec![Part::text("x".repeat(room))])]);
    let bytes = Encoded::of(&huge).expect("it can be stored").bytes;
    assert!((LARGE_BATCH_BYTES_MAX - 300..LARGE_BATCH_BYTES_MAX).contains(&bytes.len()), "{}", bytes.len());
    put(&store, "huge", bytes).await;
    for start in 0..2 {
        let kept = open(&store).await.read("huge").expect("it is readable").expect("it is there");
        assert_eq!(kept.task.status.state, TaskState::Failed, "start {start}");
        assert!(why(&kept).contains("the node ended"), "{}", why(&kept));
        assert_eq!(kept.task.history.map(|history| history.len()), Some(1), "nothing of it is lost");
    }
}

#[tokio::test]
async fn a_task_that_cannot_be_read_is_set_aside_and_the_others_are_there() {
    let store = store();
    put(&store, "a", b"no CBOR at all".to_vec()).await;
    put(&store, "b", Encoded::of(&record("b", vec![Part::text("hi")])).expect("it can be stored").bytes).await;
    // Also where it could be read once: its row was damaged meanwhile, its summary was not.
    let tasks = open(&store).await;
    tasks.write(Encoded::of(&record("c", vec![Part::text("hi")])).expect("it can be stored")).await.expect("written");
    put(&store, "c", vec![0xff; 100]).await;
    let tasks = open(&store).await;
    assert!(tasks.read("a").expect("it is not listed").is_none());
    assert_eq!(tasks.read("b").expect("readable").expect("there").task.status.state, TaskState::Failed);
    assert!(tasks.read("c").is_err());
    // And a summary that cannot be read is made anew.
    let mut batch = Batch::new();
    batch.put(TASK_SUMMARIES, b"b", b"nonsense").put(TASK_SUMMARIES, b"d", b"of no task");
    store.write(batch, Durability::Synced).await.expect("written");
    let tasks = open(&store).await;
    assert_eq!(tasks.read("b").expect("readable").expect("there").task.id, "b");
    assert!(tasks.read("d").expect("there is none").is_none());
}

#[tokio::test]
async fn a_task_has_another_change_once_it_is_written_again_or_noted_as_failed() {
    let (store, mut task) = (store(), record("t", vec![Part::text("hi")]));
    let tasks = open(&store).await;
    assert_eq!(tasks.change("t"), None, "it is not there");
    let write = async |task: &Record| {
        tasks.write(Encoded::of(task).expect("it can be stored")).await.expect("written");
        tasks.change("t").expect("it is there")
    };
    let first = write(&task).await;
    tasks.write(Encoded::of(&record("u", Vec::new())).expect("it can be stored")).await.expect("written");
    assert_eq!(tasks.change("t"), Some(first), "it was another one");
    task.remembered = Some("more".to_owned());
    let second = write(&task).await;
    tasks.note_failures(&["t".to_owned()], NotedFailure::Unreadable, NOW_MS + 2).await;
    let third = tasks.change("t").expect("it is there");
    tasks.note_wait("t", Some(1)).await;
    let all = [Some(first), Some(second), Some(third), tasks.change("t")];
    let distinct: std::collections::BTreeSet<Option<u64>> = all.into_iter().collect();
    assert_eq!(distinct.len(), 4, "{all:?}");
}

/// A disk at its reserve: what is there can be read, nothing can be written.
fn full(store: &MemoryStore) -> Arc<FaultStore> {
    let full = FaultStore::over(store.clone());
    full.set_full(true);
    Arc::new(full)
}

#[tokio::test]
async fn a_disk_at_its_reserve_does_not_keep_the_node_from_starting() {
    for summarised in [true, false] {
        let store = store();
        let encoded = Encoded::of(&record("t", vec![Part::text("hi")])).expect("it can be stored");
        match summarised {
            true => open(&store).await.write(encoded).await.expect("written"),
            false => put(&store, "t", encoded.bytes).await,
        }
        let tasks = TaskStore::open(full(&store), scope(), NOW_MS + 1).await.expect("it starts all the same");
        let kept = tasks.read("t").expect("readable").expect("it is there");
        assert_eq!(kept.task.status.state, TaskState::Failed);
        // With space it is noted for good.
        open(&store).await;
        let kept = TaskStore::open(full(&store), scope(), NOW_MS + 9).await.expect("open").read("t");
        let at = kept.expect("readable").expect("there").task.status.timestamp;
        assert_eq!(at.map(|at| at.timestamp_millis()), Some(NOW_MS + 1));
    }
}

/// Counts what a start reads at one time.
struct Counting {
    store: Arc<MemoryStore>,
    most: std::sync::atomic::AtomicUsize,
}

impl Store for Counting {
    fn read(&self, family: Family, key: &[u8]) -> Result<Option<Vec<u8>>, ReadError> {
        self.store.read(family, key)
    }
    fn scan(&self, family: Family, range: Range) -> Result<althing_store::Rows, ReadError> {
        let rows = self.store.scan(family, range)?;
        let bytes = rows.iter().map(|(key, value)| key.len() + value.len()).sum();
        self.most.fetch_max(bytes, std::sync::atomic::Ordering::Relaxed);
        Ok(rows)
    }
    fn snapshot(&self) -> Box<dyn althing_store::Snapshot> {
        self.store.snapshot()
    }
    fn write(
        &self,
        batch: Batch,
        durability: Durability,
    ) -> futures::future::BoxFuture<'static, Result<(), WriteError>> {
        self.store.write(batch, durability)
    }
}

#[tokio::test]
async fn a_start_reads_no_more_at_once_than_the_largest_task_takes() {
    let store = store();
    let text = "x".repeat(800_000);
    for number in 0..24 {
        let encoded = Encoded::of(&record(&format!("{number:02}"), vec![Part::text(&*text)]));
        put(&store, &format!("{number:02}"), encoded.expect("it can be stored").bytes).await;
    }
    for (start, most) in [(0, 900_000), (1, 24 * 1_024)] {
        let counting = Arc::new(Counting { store: store.clone(), most: Default::default() });
        let tasks = TaskStore::open(counting.clone(), scope(), NOW_MS).await.expect("open");
        let read = counting.most.load(std::sync::atomic::Ordering::Relaxed);
        assert!(read <= most, "start {start}: {read} bytes at once");
        assert!((0..24).all(|number| tasks.is_of(&format!("{number:02}"), "echo")));
    }
}

#[test]
fn of_the_messages_whose_tasks_are_evicted_those_with_keys_are_remembered() {
    let of = |message_id: String| {
        let mut record = record("t", vec![Part::text("hi")]);
        record.task.history.as_mut().expect("it has one")[0].message_id = message_id;
        Summary::of(&record, 10)
    };
    let key = "5e".repeat(32);
    let remembered = answered(&[of("m-1".to_owned()), of(key.clone())]);
    let name = answers::name_of("echo", &String::from(scope()), &key);
    let at_ms = u64::try_from(NOW_MS).expect("a time");
    let payer = answers::payer_of_task(None, scope());
    assert_eq!(remembered, [(name, AnswerRow::of_deleted(at_ms).paid_by(payer))]);
}

#[tokio::test]
async fn the_notes_of_a_context_go_with_its_last_task() {
    let tasks = open(&store()).await;
    for id in ["a", "b"] {
        tasks
            .write(Encoded::of(&record(id, vec![Part::text("hi")])).expect("it can be stored"))
            .await
            .expect("written");
    }
    let context = context_of("echo", &String::from(scope()), "c");
    let session = SessionId([1; 16]);
    let note = Note { kind: NoteKind::Done, text: "half".to_owned(), label: None };
    let seal = RowSeal::of(None);
    tasks.notes().add((session, context), &seal, note.clone(), None, 1).await.expect("written");
    let [first, last] = ["a", "b"].map(|id| tasks.summary(id).expect("it is there"));
    tasks.lock().forget("a");
    assert!(tasks.ended(&tasks.lock(), &[first]).is_empty(), "another task of the context is there");
    tasks.lock().forget("b");
    let ended = tasks.ended(&tasks.lock(), &[last]);
    assert_eq!(ended, [context]);
    assert_eq!(tasks.notes().all(session, &seal, 1), Ok(vec![note]));
    tasks.notes().forget(&ended).await;
    assert_eq!(tasks.notes().all(session, &seal, 1), Ok(Vec::new()));
}

/// JSON that takes more as CBOR than as JSON, and JSON that takes less.
fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!(0.1)),
        any::<f64>().prop_filter_map("finite", |number| number.is_finite().then(|| json!(number))),
        any::<i64>().prop_map(|number| json!(number)),
        any::<bool>().prop_map(|value| json!(value)),
        Just(Value::Null),
        "\\PC{0,20}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 64, 16, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..16).prop_map(Value::from),
            prop::collection::btree_map("\\PC{0,8}", inner, 0..8)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..ProptestConfig::default() })]

    /// Whatever the checks of a message, of artifacts and of words let in fits a batch with the longest failure
    /// message, and with the keys of all tasks that are forgotten with it.
    #[test]
    fn what_is_let_in_always_fits_a_batch_with_the_longest_failure(
        said in values(),
        repeated in 1usize..600_000,
        made in prop::collection::vec((values(), 1usize..200_000), 0..6),
        word in values(),
    ) {
        let many = |value: &Value, count: usize| {
            // As many as a message, or an artifact, of that size could hold.
            let one = value.to_string().len() + 1;
            Part::data(Value::Array(vec![value.clone(); (count / one).max(1)]))
        };
        let mut record = record("0190b7d4-0000-7000-8000-000000000000", vec![many(&said, repeated * 3)]);
        record.remembered = Some("r".repeat(task::REMEMBERED_BYTES_MAX));
        let mut stored = Encoded::of(&record).expect("it can be stored").len();
        prop_assume!(stored <= WORKING_BYTES_MAX);
        // As many of a value as metadata may hold: it comes after the turn began.
        let mut count = task::METADATA_BYTES_MAX / word.to_string().len().max(1);
        while record.task.metadata.is_none() {
            let many = Value::Array(vec![word.clone(); count]);
            // What is too much is not taken.
            let _ = task::merge(&mut record.task.metadata, Some([("all".to_owned(), many)].into()));
            count = count * 9 / 10;
        }
        let metadata = stored_bytes(&record.task.metadata);
        prop_assert!(metadata <= task::METADATA_STORED_BYTES_MAX, "{metadata} bytes");
        for (number, (value, count)) in made.iter().enumerate() {
            let artifact = Artifact {
                artifact_id: format!("a{number}"),
                name: None,
                description: None,
                parts: vec![many(value, *count)],
                metadata: None,
                extensions: None,
            };
            stored += stored_bytes(&artifact);
            if stored <= WORKING_BYTES_MAX {
                record.task.artifacts.get_or_insert_default().push(artifact);
            }
        }
        // The longest word that an agent may say: as many of a value as pass the check.
        let mut count = task::STATUS_MESSAGE_BYTES_MAX;
        let word = loop {
            let message = Message::new(Role::Agent, vec![many(&word, count)]);
            let json = serde_json::to_vec(&message).expect("JSON").len();
            if json <= task::STATUS_MESSAGE_BYTES_MAX && stored_bytes(&message) <= task::STATUS_MESSAGE_STORED_BYTES_MAX {
                break message;
            }
            count = count * 9 / 10;
        };
        let now = DateTime::from_timestamp_millis(NOW_MS).expect("a time");
        for message in [word, Message::new(Role::Agent, vec![Part::text("w".repeat(task::REASON_BYTES_MAX))])] {
            task::set_status(&mut record.task, TaskState::Failed, Some(message), now);
            let encoded = Encoded::of(&record).expect("it can be stored");
            prop_assert!(encoded.len() <= RECORD_BYTES_MAX, "{} bytes", encoded.len());
            let mut batch = Batch::new();
            batch.put(TASKS, encoded.id.as_bytes(), encoded.bytes);
            batch.put(TASK_SUMMARIES, encoded.id.as_bytes(), encode(&encoded.summary));
            batch.put(SESSION_ROWS, refusals::key(&encoded.id), vec![0; refusals::ROW_BYTES_MAX + (1 << 10)]);
            for _ in 0..crate::machine::listing::FORGOTTEN_AT_ONCE {
                delete(&mut batch, &encoded.id);
            }
            prop_assert!(batch.bytes() <= LARGE_BATCH_BYTES_MAX, "{} bytes", batch.bytes());
        }
    }

    /// What an artifact takes when it comes in pieces is never more than was counted of its pieces.
    #[test]
    fn pieces_that_are_joined_take_no_more_than_was_counted(
        pieces in prop::collection::vec(prop_oneof![Just(1usize), Just(23), Just(24), Just(255), Just(65_535), 0usize..70_000], 1..12)
    ) {
        let mut record = record("t", vec![Part::text("hi")]);
        let mut counted = Encoded::of(&record).expect("it can be stored").len();
        let now = DateTime::from_timestamp_millis(NOW_MS).expect("a time");
        for (at, length) in pieces.into_iter().enumerate() {
            let artifact = Artifact {
                artifact_id: "a".to_owned(),
                name: None,
                description: None,
                parts: vec![Part::text("p".repeat(length))],
                metadata: None,
                extensions: None,
            };
            counted += stored_bytes(&artifact);
            let made = althing_execution::agent::Made::Artifact { artifact, append: at > 0, last: false };
            task::step(&mut record.task, made, now).expect("a step");
        }
        // The first artifact brings the list that holds it.
        prop_assert!(Encoded::of(&record).expect("it can be stored").len() <= counted + 16);
    }
}
