//! Any bytes as the rows of a turn's journal and as those of a session's notes, as they are and chained as an honest node chains
//! them: what is read is told the same with and without its content, notes are what they were when they are written again, and rows
//! that are cut, huge, out of order or of another turn or session are refused.
#![no_main]

use althing_protocol::{Digest, digest};
use althing_session::{NoteRows, SessionId, recorded, summaries};
use libfuzzer_sys::fuzz_target;
use minicbor::Decoder;

const SESSION: SessionId = SessionId([5; 16]);
/// What digests of turns begin with.
const OF_TURN: &[u8] = b"althing session turn\0";
/// What the digest before the first note begins with.
const OF_NOTES: &[u8] = b"althing session notes\0";
/// Bytes of a key, and notes of a session.
const KEY_BYTES: u64 = 24;
const NOTES_MAX: usize = 256;

type Rows = Vec<(u32, Vec<u8>)>;

/// The items of a sequence of CBOR, as far as it is one.
fn items(data: &[u8]) -> Vec<&[u8]> {
    let (mut decoder, mut found) = (Decoder::new(data), Vec::new());
    while decoder.position() < data.len() {
        let from = decoder.position();
        if decoder.skip().is_err() {
            break;
        }
        found.push(&data[from..decoder.position()]);
    }
    found
}

/// When a row was made, and what it says.
fn parts(row: &[u8]) -> Option<(u64, &[u8])> {
    let mut decoder = Decoder::new(row);
    let (mut at_ms, mut body) = (0, None);
    for _ in 0..decoder.map().ok()?? {
        match decoder.u32().ok()? {
            2 => at_ms = decoder.u64().ok()?,
            key => {
                let from = decoder.position();
                decoder.skip().ok()?;
                if key == 3 {
                    body = Some(&row[from..decoder.position()]);
                }
            }
        }
    }
    Some((at_ms, body?))
}

/// What stands for the row before the first one, of a turn that begins so.
fn origin(begin: &[u8]) -> Option<Digest> {
    let mut decoder = Decoder::new(begin);
    decoder.array().ok()?;
    decoder.u32().ok()?;
    decoder.array().ok()?;
    decoder.map().ok()?;
    let mut name = OF_TURN.to_vec();
    for key in 0..2 {
        if decoder.u32().ok()? != key {
            return None;
        }
        let text = decoder.str().ok()?;
        name.extend((text.len() as u64).to_be_bytes());
        name.extend(text.as_bytes());
    }
    Some(digest(&[OF_TURN, &SESSION.0, &digest(&name)].concat()))
}

/// The rows with their own numbers, each after the one before it; the first one after what stands for its turn, if nothing else is.
fn chained(rows: &[&[u8]], mut previous: Option<Digest>) -> Option<Rows> {
    let mut made = Rows::new();
    for (seq, row) in (0..).zip(rows) {
        let (at_ms, body) = parts(row)?;
        let before = match previous {
            Some(previous) => previous,
            None => origin(body)?,
        };
        let mut bytes = minicbor::Encoder::new(Vec::new());
        let head = bytes.map(4).and_then(|to| to.u32(0)?.u32(seq)?.u32(1)?.bytes(&before)?.u32(2)?.u64(at_ms)?.u32(3));
        head.expect("writing to a vector cannot fail");
        let bytes = [&bytes.into_writer()[..], body].concat();
        previous = Some(digest(&bytes));
        made.push((seq, bytes));
    }
    Some(made)
}

/// Reads them, and gives whether they are a turn.
fn read(rows: &Rows) -> bool {
    let turn = match recorded(SESSION, rows) {
        Ok(turn) => turn,
        // What is wrong with them is told.
        Err(damage) => {
            assert!(!damage.what.is_empty());
            return false;
        }
    };
    let (message, summaries) = summaries(SESSION, rows).expect("they are the rows of a turn");
    assert_eq!((message, summaries.len()), (turn.message, rows.len()));
    assert!(turn.steps.windows(2).all(|two| two[0].seq < two[1].seq), "each step once, in order");
    true
}

/// Reads them as notes, and gives whether they are some.
fn read_notes(rows: &Rows) -> bool {
    let Ok(read) = NoteRows::read(SESSION, rows) else { return false };
    let bytes: u64 = rows.iter().map(|(_, row)| row.len() as u64 + KEY_BYTES).sum();
    assert_eq!((read.count() as usize, read.bytes()), (rows.len(), bytes));
    let other = NoteRows::read(SessionId([6; 16]), rows);
    assert!(rows.is_empty() || other.is_err(), "they are those of one session");
    let notes = read.into_notes();
    if notes.len() > NOTES_MAX {
        return true;
    }
    // Written again they are the same.
    let mut again = NoteRows::read(SESSION, &[]).expect("there are none yet");
    let mut written = Rows::new();
    for note in &notes {
        let (key, row) = again.add(note.clone(), None, 7).expect("there is room").expect("it has no key");
        written.push((u32::from_be_bytes(*key.last_chunk().expect("a key")), row));
    }
    let read = NoteRows::read(SESSION, &written).expect("as they were written");
    assert_eq!(read.into_notes(), notes);
    true
}

/// Notes of which one is missing, comes twice or is changed are not those that were written.
fn spoil_notes(items: &[&[u8]]) {
    let Some(mut rows) = chained(items, Some(digest(&[OF_NOTES, &SESSION.0].concat()))) else { return };
    if !read_notes(&rows) || rows.is_empty() {
        return;
    }
    let last = rows.len() - 1;
    let mut twice = rows.clone();
    twice.push(twice[last].clone());
    assert!(!read_notes(&twice));
    if last > 0 {
        let mut gapped = rows.clone();
        gapped.remove(last - 1);
        assert!(!read_notes(&gapped));
    }
    // Its number is there.
    rows[0].1[1] ^= 1;
    assert!(!read_notes(&rows));
}

fuzz_target!(|data: &[u8]| {
    let items = items(data);
    let as_they_are: Rows = (0..).zip(&items).map(|(seq, row)| (seq, row.to_vec())).collect();
    read(&as_they_are);
    read_notes(&as_they_are);
    spoil_notes(&items);
    let Some(mut rows) = chained(&items, None) else { return };
    if !read(&rows) || rows.len() < 2 {
        return;
    }
    // A row less in between, one that comes twice, or a changed byte: they are not the rows that were written.
    let last = rows.len() - 1;
    let mut twice = rows.clone();
    twice.push(twice[last].clone());
    assert!(!read(&twice));
    if last > 1 {
        let mut gapped = rows.clone();
        gapped.remove(last - 1);
        assert!(!read(&gapped));
    }
    rows[0].1[1] ^= 1;
    assert!(!read(&rows));
});
