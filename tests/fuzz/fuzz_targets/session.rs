//! Any bytes as the rows of a turn's journal, as they are and chained as an honest node chains them: what is read is told the same
//! with and without its content, and rows that are cut, huge, out of order or of another turn are refused.
#![no_main]

use althing_protocol::{Digest, digest};
use althing_session::{SessionId, recorded, summaries};
use libfuzzer_sys::fuzz_target;
use minicbor::Decoder;

const SESSION: SessionId = SessionId([5; 16]);
/// What digests of turns begin with.
const OF_TURN: &[u8] = b"althing session turn\0";

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

/// The rows with their own numbers, each after the one before it.
fn chained(rows: &[&[u8]]) -> Option<Rows> {
    let mut made = Rows::new();
    let mut previous = None;
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

fuzz_target!(|data: &[u8]| {
    let items = items(data);
    let as_they_are: Rows = (0..).zip(&items).map(|(seq, row)| (seq, row.to_vec())).collect();
    read(&as_they_are);
    let Some(mut rows) = chained(&items) else { return };
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
