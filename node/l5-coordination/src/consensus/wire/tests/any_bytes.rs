//! Any bytes as a message of `/althing/raft/1`, and as what is on disk: no panic, and what is read is written as it was.

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_store::{Batch, Durability, MemoryStore, Store as _};
use proptest::prelude::*;

use super::super::super::log_rows::{RAFT_LOG, RAFT_STATE};
use super::super::super::log_store::LogStore;
use super::super::super::pen::Pen;
use super::super::super::records::encode;
use super::super::super::state_store::{RAFT_SNAPSHOTS, StateStore};
use super::cases::all;
use super::shown::read_and_show;
use super::*;

const MESSAGES: [&str; 21] = [
    "append",
    "appended",
    "heartbeats",
    "heard",
    "elect",
    "elected",
    "snapshot-part",
    "snapshot-taken",
    "transfer",
    "transferred",
    "submit",
    "submitted",
    "barrier",
    "barred",
    "report-to",
    "reported",
    "compare",
    "compared",
    "accuse",
    "accused",
    "unserved",
];

/// Reads the bytes as each message.
fn every_message(bytes: &[u8]) {
    MESSAGES.iter().for_each(|message| drop(read_and_show(message, bytes)));
}

/// What a disk returns instead of a record.
fn every_record(bytes: &[u8]) {
    fn again<T: Encode<()> + for<'b> Decode<'b, ()> + PartialEq + std::fmt::Debug>(bytes: &[u8]) -> Option<T> {
        let record: T = minicbor::decode(bytes).ok()?;
        assert_eq!(minicbor::decode::<T>(&encode(&record)).ok().as_ref(), Some(&record));
        Some(record)
    }
    again::<Position>(bytes);
    again::<Ballot>(bytes);
    again::<MembersRecord>(bytes);
    if let Some(Ok(entry)) = again::<EntryRecord>(bytes).map(EntryRecord::into_entry) {
        let kept = EntryRecord::of(&entry);
        assert_eq!(kept.clone().into_entry().as_ref(), Ok(&entry), "what is kept is read again");
        assert_eq!(again::<EntryRecord>(&encode(&kept)), Some(kept));
    }
}

/// One edit: where, what, and how.
type Edit = (prop::sample::Index, u8, u8);

fn edits() -> impl Strategy<Value = Vec<Edit>> {
    prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0..6u8), 1..4)
}

fn edited(mut bytes: Vec<u8>, edits: &[Edit]) -> Vec<u8> {
    for (at, byte, how) in edits {
        let at = at.index(bytes.len() + 1);
        match how {
            0 if at < bytes.len() => bytes[at] ^= 1 << (byte % 8),
            1 if at < bytes.len() => bytes[at] = *byte,
            2 if at < bytes.len() => drop(bytes.remove(at)),
            3 => bytes.truncate(at),
            // The heads of CBOR: null, the largest number, and empty collections.
            4 => bytes.insert(at, [0xf6, 0x1b, 0x80, 0xa0][usize::from(byte % 4)]),
            _ => bytes.insert(at, *byte),
        }
    }
    bytes
}

fn position() -> impl Strategy<Value = Position> {
    (0..4u64, 0..6u64).prop_map(|(term, index)| Position { term, index })
}

fn keys() -> impl Strategy<Value = Vec<PublicKey>> {
    prop_oneof![Just(sorted(&[1, 2, 3])), Just(sorted(&[4])), prop::collection::vec((1..6u8).prop_map(key), 0..4),]
}

fn payload() -> impl Strategy<Value = Payload> {
    prop_oneof![
        2 => Just(Payload::Blank),
        2 => (any::<u64>(), prop::collection::vec(any::<u8>(), 0..9)).prop_map(|(at_ms, batch)| Payload::Batch(at_ms, batch.into())),
        1 => (prop::collection::vec(keys(), 0..4), keys()).prop_map(|(voters, learners)| Payload::Members(voters, learners)),
    ]
}

/// Appends whose entries are mostly in order.
fn appends() -> impl Strategy<Value = Append> {
    let entries = prop::collection::vec((payload(), 0..2u64, prop::bool::weighted(0.1)), 0..4);
    (1..4u64, prop::option::of(position()), prop::option::of(position()), entries, prop::bool::weighted(0.9)).prop_map(
        |(term, previous, committed, payloads, elected)| {
            let mut at = previous;
            let entries = payloads.into_iter().map(|(payload, later, is_off)| {
                let follows = at.map_or(Position { term: 0, index: 0 }, |at| Position { index: at.index + 1, ..at });
                let here = Position { term: follows.term + later, index: follows.index + u64::from(is_off) };
                at = Some(here);
                EntryRecord { at: here, payload }
            });
            let group = GroupId::from_digest([3; 32]);
            let leader = Ballot { term, node: key(1), elected };
            Append { group, leader, previous, committed, entries: entries.collect() }
        },
    )
}

/// Whether an append is sound, said in another way than the product does.
fn is_sound(append: &Append) -> bool {
    let log: Vec<Position> = append.previous.into_iter().chain(append.entries.iter().map(|entry| entry.at)).collect();
    let begins = append.previous.is_some() || log.first().is_none_or(|at| at.index == 0);
    let follows = log.windows(2).all(|pair| pair[1].index == pair[0].index + 1 && pair[1].term >= pair[0].term);
    let terms = log.iter().chain(&append.committed).all(|at| at.term <= append.leader.term);
    let members = append.entries.iter().all(|entry| match &entry.payload {
        Payload::Blank | Payload::Batch(..) => true,
        Payload::Members(voters, learners) => {
            let all: BTreeSet<_> = voters.iter().flatten().collect();
            let in_order =
                |keys: &Vec<PublicKey>| *keys == BTreeSet::from_iter(keys.clone()).into_iter().collect::<Vec<_>>();
            matches!(voters.len(), 1 | 2)
                && voters.iter().all(|set| in_order(set) && !set.is_empty())
                && in_order(learners)
                && !learners.iter().any(|node| all.contains(node))
        }
    });
    append.leader.elected && begins && follows && terms && members
}

/// The stores of a group with these bytes as its vote, an entry and a snapshot. What they make of them is theirs.
fn opened(bytes: &[u8]) {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let group = GroupId::from_digest([3; 32]);
        let row = |rest: &[u8]| [group.as_bytes().as_slice(), rest].concat();
        let families = [RAFT_LOG, RAFT_STATE, RAFT_SNAPSHOTS];
        let places = [
            (RAFT_STATE, row(b"v")),
            (RAFT_STATE, row(b"c")),
            (RAFT_STATE, row(b"p")),
            (RAFT_LOG, row(&0_u64.to_be_bytes())),
            (RAFT_SNAPSHOTS, row(b"m")),
        ];
        for (family, at) in places {
            let store = Arc::new(MemoryStore::new(&families));
            let mut batch = Batch::new();
            batch.put(family, at, bytes.to_vec());
            store.write(batch, Durability::Buffered).await.expect("it is written");
            let pen = Pen::new(store);
            drop(LogStore::open(group, pen.clone()));
            drop(StateStore::open(group, "test", pen, 64 << 20));
        }
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// P-100
    #[test]
    fn any_bytes_are_refused_or_read_as_they_are(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        every_message(&bytes);
        every_record(&bytes);
        opened(&bytes);
    }

    /// P-100, P-140
    #[test]
    fn changed_messages_are_refused_or_read_as_they_are(which in any::<prop::sample::Index>(), edits in edits()) {
        let mut cases = all();
        let case = cases.swap_remove(which.index(cases.len()));
        prop_assume!(case.bytes.len() < 1_024);
        prop_assert_eq!(read_and_show(case.message, &case.bytes).is_ok(), case.is_good);
        every_message(&edited(case.bytes, &edits));
    }

    #[test]
    fn changed_records_on_disk_are_refused_or_read(payload in payload(), at in position(), edits in edits()) {
        let record = encode(&EntryRecord { at, payload });
        every_record(&record);
        let changed = edited(record, &edits);
        every_record(&changed);
        opened(&changed);
        every_record(&edited(encode(&Ballot { term: at.term, node: key(1), elected: true }), &edits));
    }

    /// P-140: and what is taken is kept as it was sent.
    #[test]
    fn an_append_is_taken_if_it_is_sound(append in appends()) {
        prop_assert_eq!(read::<Append>(&write(&append)), Ok(append.clone()));
        prop_assert_eq!(append.check().is_ok(), is_sound(&append));
        if append.check().is_ok() {
            for record in append.entries {
                prop_assert_eq!(record.clone().into_entry().map(|entry| EntryRecord::of(&entry)), Ok(record));
            }
        }
    }
}
