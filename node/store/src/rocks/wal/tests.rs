use proptest::prelude::*;

use super::*;
use std::{iter, ops::Range};

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
    first_bad(log).map(|at| (at, following(log, at).is_some()))
}

#[test]
fn the_checksum_is_castagnolis() {
    assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    // In one piece and byte by byte.
    let bytes: Vec<u8> = (0..=255).collect();
    for end in 0..bytes.len() {
        let whole = bytes[..end].chunks(1).fold(u32::MAX, extend);
        assert_eq!(crc32c(&bytes[..end]), !whole, "{end} bytes");
    }
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

/// Where the parts of the write at `begins` lie that ends at `end`.
fn parts(begins: usize, end: usize) -> Vec<Range<usize>> {
    iter::successors(Some(begins), |at| Some(block_end(*at)).filter(|next| *next < end))
        .map(|at| at..block_end(at).min(end))
        .collect()
}

#[test]
fn a_last_write_that_lacks_whole_parts_is_torn_where_it_begins() {
    let long = vec![7; 3 * BLOCK_BYTES];
    let (good, places) = log_with_places(&[b"one", &long]);
    let parts = parts(places[1], good.len());
    assert_eq!(parts.len(), 4);
    // Every choice of parts but none and all of them; of two kept parts the first may be the one that is missing.
    for lacking in 1..0b1111 {
        let mut torn = good.clone();
        for (_, part) in parts.iter().enumerate().filter(|(index, _)| lacking >> index & 1 == 1) {
            torn[part.clone()].fill(0);
        }
        assert_eq!(judged(&torn), Some((places[1], false)), "without the parts {lacking:04b}");
        torn.extend([0; 2 * BLOCK_BYTES]);
        assert_eq!(judged(&torn), Some((places[1], false)), "without the parts {lacking:04b}, with room behind");
    }
    // Nothing of it reached the disk.
    let mut torn = good;
    torn[places[1]..].fill(0);
    assert_eq!(judged(&torn), None);
}

#[test]
fn a_last_write_that_ends_between_its_parts_is_torn_where_it_begins() {
    let long = vec![7; 3 * BLOCK_BYTES];
    let (good, places) = log_with_places(&[b"one", &long]);
    for part in &parts(places[1], good.len())[1..] {
        for begun in 0..HEADER_BYTES {
            assert_eq!(judged(&good[..part.start + begun]), Some((places[1], false)), "{begun} bytes of {part:?}");
        }
    }
}

#[test]
fn a_write_that_lacks_parts_and_has_others_behind_it_is_damage() {
    let long = vec![7; 3 * BLOCK_BYTES];
    for behind in [&[b"three".as_slice()][..], &[&long], &[b"three", &long]] {
        let (good, places) = log_with_places(&[&[b"one".as_slice(), &long], behind].concat());
        // Without its last part it is not known where the next write begins.
        for part in &parts(places[1], places[2])[..3] {
            let mut damaged = good.clone();
            damaged[part.clone()].fill(0);
            assert_eq!(judged(&damaged), Some((places[1], true)), "without {part:?}");
        }
    }
}

#[test]
fn a_later_part_without_a_first_is_bad_and_so_is_a_write_in_another() {
    let one = record(b"one");
    for kind in [3, 4] {
        assert_eq!(judged(&[one.clone(), part(kind, b"late")].concat()), Some((one.len(), false)));
        assert_eq!(judged(&part(kind, b"late")), Some((0, false)));
        let whole = [part(2, b"a"), part(3, b"b"), part(4, b"c")].concat();
        assert_eq!(judged(&whole), None);
        assert_eq!(judged(&[whole.clone(), part(kind, b"late")].concat()), Some((whole.len(), false)));
    }
    for kind in [1, 2, 9] {
        let cut = [one.clone(), part(2, b"a"), part(kind, b"another")].concat();
        assert_eq!(judged(&cut), Some((one.len(), true)));
    }
}

#[test]
fn padding_and_reserved_space_are_sound() {
    let mut bytes = log(&[&[7; BLOCK_BYTES - HEADER_BYTES - 3]]);
    bytes.extend([0; 3]);
    bytes.extend(log(&[b"next block"]));
    bytes.extend([0; 500]);
    assert_eq!(first_bad(&bytes), None);
}

#[test]
fn zeros_before_a_whole_write_are_damage() {
    // The second write fills the block, and the third begins the next one.
    let (mut filled, places) = log_with_places(&[b"one", &[7; BLOCK_BYTES - 2 * HEADER_BYTES - 3], b"three"]);
    assert_eq!(places[2], BLOCK_BYTES);
    let mut bad = filled.clone();
    filled[places[1]..BLOCK_BYTES].fill(0);
    assert_eq!(judged(&filled), Some((places[1], true)));
    filled[..BLOCK_BYTES].fill(0);
    assert_eq!(judged(&filled), Some((0, true)));
    // Blocks of zeros between.
    let ends = bad.len();
    bad.resize(3 * BLOCK_BYTES, 0);
    bad.extend(record(b"four"));
    assert_eq!(judged(&bad), Some((ends, true)));
}

#[test]
fn a_header_of_zeros_before_other_writes_is_damage() {
    let payloads: Vec<Vec<u8>> =
        (0..400u16).map(|number| vec![number as u8 | 1; 3 + usize::from(number % 64)]).collect();
    let (good, places) = log_with_places(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>());
    assert!(good.len() < BLOCK_BYTES);
    for (number, at) in places.iter().enumerate() {
        let mut bad = good.clone();
        bad[*at..at + HEADER_BYTES].fill(0);
        // A header at the end of a sector may never have been written, with the rest of a last write behind it.
        let in_doubt = (at + HEADER_BYTES).is_multiple_of(SECTOR_BYTES);
        let followed = number + 1 < places.len() && !in_doubt;
        assert_eq!(judged(&bad), Some((*at, followed)), "write {number}");
    }
}

#[test]
fn a_sector_of_zeros_before_other_writes_is_damage() {
    let payloads: Vec<Vec<u8>> = (0..100u8).map(|number| vec![number | 1; 200]).collect();
    let (good, places) = log_with_places(&payloads.iter().map(Vec::as_slice).collect::<Vec<_>>());
    for sector in 0..places[97] / SECTOR_BYTES {
        let begins = sector * SECTOR_BYTES;
        let mut bad = good.clone();
        bad[begins..begins + SECTOR_BYTES].fill(0);
        // No write begins with a sector but the first: the header before it tells where its write ends.
        let hit = places.iter().rposition(|at| *at <= begins).expect("the first begins at 0");
        let in_doubt = places[hit] == begins;
        assert_eq!(judged(&bad), Some((places[hit], !in_doubt)), "sector {sector}");
    }
}

#[test]
fn a_record_for_a_log_that_is_used_again_is_bad() {
    for kind in NUMBERED {
        let mut numbered = part(kind, b"\x08\0\0\0payload");
        // The number counts as a part of the header.
        numbered[4] -= 4;
        assert!(record_bytes(&numbered).is_some());
        let bytes = [record(b"one"), numbered].concat();
        assert_eq!(first_bad(&bytes), Some(record(b"one").len()), "kind {kind}");
    }
}

#[test]
fn a_broken_end_of_a_log_is_a_torn_write_only_when_no_later_log_holds_a_write() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let place = |number: u32| dir.path().join(format!("{number:06}.log"));
    let whole = log(&[b"first", b"second"]);
    let offset = record(b"first").len();
    let cut = &whole[..whole.len() - 3];
    fs::write(place(4), cut).expect("writable");
    let torn = Tail::Torn { path: place(4), offset: offset as u64, bytes: (cut.len() - offset) as u64 };
    assert_eq!(inspect(dir.path()).expect("readable"), torn, "it is the last log");
    for empty in [vec![], vec![0; 5_000]] {
        fs::write(place(9), empty).expect("writable");
        assert_eq!(inspect(dir.path()).expect("readable"), torn, "nothing was written after it");
    }
    // By number: the name of the later one may come first.
    for later in [9, 1_000_000] {
        fs::write(place(later), log(&[b"third"])).expect("writable");
        match inspect(dir.path()).expect("readable") {
            Tail::Damaged { path, detail } => {
                assert_eq!(path, place(4));
                assert!(detail.contains(&format!("damaged at byte {offset}, and a later log")), "{detail}");
            }
            other => panic!("log {later} holds a write: {other:?}"),
        }
        fs::remove_file(place(later)).expect("removable");
    }
    fs::write(place(4), &whole).expect("writable");
    fs::write(place(9), log(&[b"third"])).expect("writable");
    assert_eq!(inspect(dir.path()).expect("readable"), Tail::Sound);
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

/// Which sectors a disk did not write: each for itself, or long runs of them, so that whole blocks are missing.
fn lacking_sectors() -> impl Strategy<Value = Vec<bool>> {
    prop_oneof![
        prop::collection::vec(any::<bool>(), 1..200),
        prop::collection::vec((any::<bool>(), 1usize..150), 1..6)
            .prop_map(|runs| runs.into_iter().flat_map(|(lacks, sectors)| vec![lacks; sectors]).collect()),
    ]
}

/// What is to be told of a log whose last write is torn.
fn expected(torn: &[u8], good: &[u8], begins: usize) -> Option<(usize, bool)> {
    // The bytes that are missing were zeros too.
    let whole = torn.starts_with(good);
    // A beginning too short for a header cannot be told from what fills a block.
    let nothing = torn.len() - begins < HEADER_BYTES || torn[begins..].iter().all(|byte| *byte == 0);
    (!whole && !nothing).then_some((begins, false))
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
        let (good, places) = log_with_places(&all);
        let begins = *places.last().expect("one at least");
        let mut torn = good.clone();
        torn.truncate(begins + cut.index(good.len() - begins));
        torn.extend(vec![0; reserved.unwrap_or(0)]);
        prop_assert_eq!(judged(&torn), expected(&torn, &good, begins));
    }

    /// Disks write sectors in any order: some of those that the last write touches are still as they were.
    #[test]
    fn a_last_write_that_lacks_any_sectors_is_never_damage(
        before in prop::collection::vec(hostile(), 0..3),
        last in hostile(),
        lacking in lacking_sectors(),
    ) {
        let mut all: Vec<&[u8]> = before.iter().map(Vec::as_slice).collect();
        all.push(&last);
        let (good, places) = log_with_places(&all);
        let begins = *places.last().expect("one at least");
        let mut torn = good.clone();
        for (at, byte) in torn.iter_mut().enumerate().skip(begins) {
            if lacking[(at / SECTOR_BYTES) % lacking.len()] {
                *byte = 0;
            }
        }
        prop_assert_eq!(judged(&torn), expected(&torn, &good, begins));
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
        let hit = places.iter().rposition(|begins| *begins <= at).expect("the first begins at 0");
        // What fills a block is covered by no checksum.
        let fills = log(&all[..=hit]).len() <= at;
        prop_assert_eq!(judged(&damaged), (!fills).then_some((places[hit], true)), "flipped at {}", at);
    }
}
