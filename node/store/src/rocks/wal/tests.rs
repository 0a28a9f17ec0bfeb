use proptest::prelude::*;

use super::*;

fn part(kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut checked = vec![kind];
    checked.extend(payload);
    let mut record = mask(crc32c(&checked)).to_le_bytes().to_vec();
    record.extend(u16::try_from(payload.len()).expect("a small payload").to_le_bytes());
    record.extend(checked);
    record
}

fn record(payload: &[u8]) -> Vec<u8> {
    part(1, payload)
}

/// A log with these writes, in blocks as RocksDB makes them, and where each write begins.
fn log_with_places(payloads: &[&[u8]]) -> (Vec<u8>, Vec<usize>) {
    let (mut log, mut places) = (Vec::new(), Vec::new());
    for payload in payloads {
        let (mut rest, mut first) = (*payload, true);
        loop {
            let room = block_end(log.len()) - log.len();
            if room < HEADER_BYTES {
                log.extend(vec![0; room]);
                continue;
            }
            if first {
                places.push(log.len());
            }
            let (now, later) = rest.split_at(rest.len().min(room - HEADER_BYTES));
            log.extend(part(
                match (first, later.is_empty()) {
                    (true, true) => 1,
                    (true, false) => 2,
                    (false, false) => 3,
                    (false, true) => 4,
                },
                now,
            ));
            (rest, first) = (later, false);
            if rest.is_empty() {
                break;
            }
        }
    }
    (log, places)
}

fn log(payloads: &[&[u8]]) -> Vec<u8> {
    log_with_places(payloads).0
}

/// What is told of a log in which something is damaged: where, and whether a write follows.
fn judged(log: &[u8]) -> Option<(usize, bool)> {
    first_bad(log).map(|at| (at, next_write(log, behind(log, at)).is_some()))
}

#[test]
fn the_checksum_is_castagnolis() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
}

#[test]
fn damage_before_a_record_is_told_from_a_torn_last_one() {
    let good = log(&[b"one", b"two", b"three"]);
    assert_eq!(judged(&good), None);
    let last = good.len() - record(b"three").len();
    for at in 0..good.len() {
        let mut bad = good.clone();
        bad[at] ^= 0x40;
        let (offset, followed) = judged(&bad).expect("every byte is covered by a checksum");
        assert_eq!(followed, at < last, "flipped at {at}, found at {offset}");
    }
}

#[test]
fn a_valid_record_inside_a_torn_write_is_no_write_that_follows() {
    let mut payload = b"what a peer sent: ".to_vec();
    payload.extend(record(b"x"));
    payload.extend([b'.'; 200]);
    let good = log(&[b"one", &payload]);
    let mut torn = good.clone();
    let end = torn.len();
    torn[end - 100..].fill(0);
    assert_eq!(judged(&torn), Some((record(b"one").len(), false)));
    // Real damage in that write, with another behind it, is found.
    let mut damaged = log(&[b"one", &payload, b"three"]);
    damaged[end - 100..end].fill(0);
    assert_eq!(judged(&damaged), Some((record(b"one").len(), true)));
}

#[test]
fn the_parts_of_a_torn_write_are_no_writes_that_follow() {
    let long = vec![7; 3 * BLOCK_BYTES];
    let (mut torn, places) = log_with_places(&[b"one", &long]);
    // The first block came to the disk last.
    torn[places[1]..BLOCK_BYTES].fill(0);
    torn[BLOCK_BYTES - 1] = 1;
    assert_eq!(judged(&torn), Some((places[1], false)));
    let (mut damaged, places) = log_with_places(&[b"one", &long, b"three"]);
    damaged[places[1]..BLOCK_BYTES].fill(0);
    damaged[BLOCK_BYTES - 1] = 1;
    assert_eq!(judged(&damaged), Some((places[1], true)));
}

#[test]
fn padding_and_reserved_space_are_sound() {
    let mut bytes = log(&[&[7; BLOCK_BYTES - HEADER_BYTES - 3]]);
    bytes.extend([0; 3]);
    bytes.extend(log(&[b"next block"]));
    bytes.extend([0; 500]);
    assert_eq!(first_bad(&bytes), None);
}

/// Payloads of random bytes, full of valid records.
fn hostile() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..40),
        (prop::sample::select(vec![1u8, 2]), prop::collection::vec(any::<u8>(), 0..24))
            .prop_map(|(kind, payload)| part(kind, &payload)),
    ];
    (prop::collection::vec(piece, 0..40), 1usize..80)
        .prop_map(|(pieces, times)| pieces.concat().repeat(times))
        .prop_map(|bytes| bytes[..bytes.len().min(3 * BLOCK_BYTES)].to_vec())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    /// Whatever the last write holds and wherever it is cut, also with room behind it that was reserved.
    #[test]
    fn a_last_write_cut_anywhere_is_never_damage(
        before in prop::collection::vec(hostile(), 0..3),
        last in hostile(),
        cut in any::<prop::sample::Index>(),
        reserved in prop::option::of(0usize..2 * BLOCK_BYTES),
    ) {
        let mut all: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        all.push(&last);
        let (mut torn, places) = log_with_places(&all);
        let begins = *places.last().expect("one at least");
        torn.truncate(begins + cut.index(torn.len() - begins));
        torn.extend(vec![0; reserved.unwrap_or(0)]);
        if let Some((at, followed)) = judged(&torn) {
            prop_assert!(at >= begins && !followed, "at {at}, the last write begins at {begins}");
        }
    }

    /// Disks write sectors in any order: some of those that the last write touches are still as they were.
    #[test]
    fn a_last_write_that_lacks_any_sectors_is_never_damage(
        before in prop::collection::vec(hostile(), 0..3),
        last in hostile(),
        lacking in prop::collection::vec(any::<bool>(), 1..200),
    ) {
        let mut all: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        all.push(&last);
        let (mut torn, places) = log_with_places(&all);
        let begins = *places.last().expect("one at least");
        for (at, byte) in torn.iter_mut().enumerate().skip(begins) {
            if lacking[(at / SECTOR_BYTES) % lacking.len()] {
                *byte = 0;
            }
        }
        if let Some((at, followed)) = judged(&torn) {
            prop_assert!(at >= begins && !followed, "at {at}, the last write begins at {begins}");
        }
    }

    /// A flipped bit in a write that others follow is found, whatever they hold.
    #[test]
    fn damage_in_the_middle_is_always_found(
        writes in prop::collection::vec(hostile(), 2..5),
        at in any::<prop::sample::Index>(),
        bit in 0u8..8,
    ) {
        let all: Vec<&[u8]> = writes.iter().map(Vec::as_slice).collect();
        let (mut damaged, places) = log_with_places(&all);
        let last = *places.last().expect("some");
        let at = at.index(last);
        damaged[at] ^= 1 << bit;
        // What fills a block is covered by no checksum.
        if let Some((found, followed)) = judged(&damaged) {
            prop_assert!(found <= at && followed, "flipped at {at}, found at {found}, the last begins at {last}");
        }
    }
}
