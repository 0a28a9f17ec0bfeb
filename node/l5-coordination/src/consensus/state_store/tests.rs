//! What comes before an entry is executed: the mark, and whether the rules are known (SG-5, SG-13).

use althing_protocol::group::{Author, Charter, Command, Declaration, Policy, RULES};
use althing_protocol::{PublisherId, SecretKey};
use althing_store::MemoryStore;
use futures::stream;

use super::super::log_rows::{RAFT_LOG, RAFT_STATE};
use super::super::records::{EntryRecord, Payload as Record};
use super::*;

/// The state of a group that was founded, by a clock that stands at that time.
fn founded(now_ms: u64) -> StateStore {
    let store = Arc::new(MemoryStore::new(&[RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS]));
    let opened = StateStore::open(GroupId::from_digest([3; 32]), "test", Pen::new(store), 64 << 20).expect("a state");
    let node = SecretKey::from_seed(&[1; 32]).public();
    let charter = Charter::first("team", [PublisherId::from_digest([1; 32])], 1, node, Policy::default(), 0, [0; 16]);
    opened.state.write().expect("no panic").group.charter = Some(charter);
    opened.by(WallClock::new(move || now_ms))
}

/// Executes one entry of that time.
async fn apply(state: &mut StateStore, index: u64, at_ms: u64) -> io::Result<()> {
    let record = EntryRecord { at: Position { term: 1, index }, payload: Record::Batch(at_ms, vec![7u8].into()) };
    let entry = record.into_entry().expect("an entry");
    state.apply(stream::iter([Ok((entry, None))])).await
}

/// P-199
#[tokio::test]
async fn a_mark_is_taken_of_the_state_before_an_entry_unless_its_time_is_long_over() {
    let mut state = founded(100 * MARK_MS);
    apply(&mut state, 0, 97 * MARK_MS).await.expect("it is executed");
    assert_eq!(comparison::last_mark(&state.view().group), None, "the log is executed again");
    let digest = comparison::digest(&state.view().group);
    apply(&mut state, 1, 98 * MARK_MS).await.expect("it is executed");
    assert_eq!(comparison::last_mark(&state.view().group), Some(StateMark { at: 98, digest }));
    apply(&mut state, 2, 99 * MARK_MS - 1).await.expect("it is executed");
    assert_eq!(comparison::last_mark(&state.view().group).map(|mark| mark.at), Some(98), "one of each ten minutes");
}

/// P-198
#[tokio::test]
async fn nothing_is_executed_by_rules_that_the_group_does_not_use_any_more() {
    let mut state = founded(MARK_MS);
    apply(&mut state, 0, 1).await.expect("it is executed");
    state.state.write().expect("no panic").group.rules = RULES + 1;
    let error = apply(&mut state, 1, 2).await.expect_err("this build does not know them");
    assert!(error.to_string().contains("update it"), "{error}");
    assert_eq!(state.view().applied.map(|id| id.index), Some(0));
}

/// P-198: the entry before may be the one by which the group goes over to them.
#[tokio::test]
async fn nothing_is_executed_with_the_entry_that_raises_the_rules() {
    let mut state = founded(MARK_MS);
    let (key, owner) = (SecretKey::from_seed(&[1; 32]), PublisherId::from_digest([1; 32]));
    let joined = state.state.write().expect("no panic").group.members.join(key.public(), owner, Vec::new(), None, 1);
    joined.expect("it is the first one");
    let declares = vec![Command::Declare(Declaration { rules: RULES + 1, mark: None })];
    let batch = CommandBatch::new(0, Author::Node(key.public()), 1, 1, declares);
    let signed = object::sign(batch, "test", &CommandBatch::scope(state.id), &key).expect("a batch");
    let entry = |index, batch: Vec<u8>| -> io::Result<EntryResponder<Types>> {
        let record = EntryRecord { at: Position { term: 1, index }, payload: Record::Batch(1, batch.into()) };
        Ok((record.into_entry().expect("an entry"), None))
    };
    // Both are there at once.
    let both = [entry(0, signed.bytes), entry(1, vec![7])];
    let error = state.apply(stream::iter(both)).await.expect_err("this build does not know them");
    assert!(error.to_string().contains("update it"), "{error}");
    assert_eq!(comparison::rules(&state.view().group), RULES + 1);
    assert_eq!(state.view().applied.map(|id| id.index), Some(0), "by other rules it would be another state");
}
