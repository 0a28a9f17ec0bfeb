//! Tells a torn last write from damage in the middle of RocksDB's write-ahead log, before RocksDB reads it.
//!
//! A power cut may leave half of the last write on disk, with a wrong checksum. Of damage in the middle RocksDB may say
//! nothing: where a length reaches beyond the end of the file, at zeros, and at a kind it takes for the end it drops what
//! follows; with another kind it reads for ever. So it is given logs only in which every record was found as it was
//! written. The damage is a torn last write if no other write begins after it, and that one is cut off. Anything else
//! was promised to somebody, and is reported.
//!
//! Every log in the directory is read, also one that RocksDB would pass over because all of it is in tables: such a log
//! was synced before its tables were entered, and RocksDB deletes it when it is open.
//!
//! The format is RocksDB's `db/log_format.h`: blocks of 32 KiB; records of a masked CRC-32C, a length, a type and the
//! payload; kinds 5–8, 11 and 131 have a log number behind the type; no record crosses a block, so that a long write
//! is a first record, middle ones and a last.
//!
//! Payloads are what others sent: one may hold the bytes of a valid record. So a record is only looked for where RocksDB
//! can have begun one, which is where the one before ends, and at the beginning of a block. Where a damaged record ends
//! is known when two of its checksum, length and kind prove the third, or else by a length that can be one.
//!
//! Disks write in any order: of a long write whole blocks may be missing, which then are zeros, while later ones are
//! there. RocksDB skips zeros. So a write is bad from its beginning on when its parts are not all there; where its first
//! part is missing, from the beginning of the zeros on. Zeros at the end of a log are room that was reserved.
//!
//! A disk writes a sector whole or not at all. So a header that is wrong in a sector that was written is no torn write,
//! whatever follows; then every place in its block is looked at. What stays in doubt is a header whose whole sector is
//! zeros from there on: if all that follows lies in the same block, it is taken for the rest of a torn write.
//!
//! Time at every start: an optimised build reads and checks 1.4 GiB/s on one free core of a shared virtual machine, and
//! 260 MiB/s was the worst seen on a busy one (2026). RocksDB writes its buffers out when the logs together reach
//! `StoreConfig::wal_bytes`, 16 MiB by default: 11 to 60 ms for those, 3 to 15 ms for the usual few MiB.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const NUMBERED_HEADER_BYTES: usize = 11;
/// What a disk writes whole or not at all.
const SECTOR_BYTES: usize = 512;
/// Every kind of record.
const KINDS: [u8; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130, 131];
/// Those with which a write begins that has other parts.
const FIRST: [u8; 2] = [2, 6];
/// Those that neither begin a write nor end one.
const MIDDLE: [u8; 2] = [3, 7];
/// Those for logs whose files are used again, which this program's are not. RocksDB never ends reading one that does not
/// belong.
const NUMBERED: [u8; 6] = [5, 6, 7, 8, 11, 131];
/// Those with which no write begins: the later parts of one.
const CONTINUING: [u8; 4] = [3, 4, 7, 8];
/// The largest log that is read into memory; RocksDB's are bounded by `wal_bytes` and one batch.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// What the write-ahead log looks like.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Every write is as it was written.
    Sound,
    /// The last write is not, and nothing follows it.
    Torn {
        /// The file.
        path: PathBuf,
        /// Where the torn write begins.
        offset: u64,
        /// From there to the end of the file.
        bytes: u64,
    },
    /// A write is damaged and others follow it.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        detail: String,
    },
}

/// Reads every log file in `database`, oldest first.
pub(super) fn inspect(database: &Path) -> io::Result<Tail> {
    let mut torn: Option<(PathBuf, u64, u64)> = None;
    for path in logs(database)? {
        if fs::metadata(&path)?.len() > LOG_BYTES_MAX {
            let detail = "the write-ahead log is larger than this program ever writes".to_owned();
            return Ok(Tail::Damaged { path, detail });
        }
        let bytes = fs::read(&path)?;
        if let Some((path, offset, _)) = torn.take_if(|_| next_write(&bytes, 0).is_some()) {
            let detail = format!("the write-ahead log is damaged at byte {offset}, and a later log holds writes");
            return Ok(Tail::Damaged { path, detail });
        }
        let Some(offset) = first_bad(&bytes) else { continue };
        if let Some(next) = following(&bytes, offset) {
            let detail =
                format!("the write-ahead log is damaged at byte {offset}; writes follow it from byte {next} on");
            return Ok(Tail::Damaged { path, detail });
        }
        torn = Some((path, offset as u64, (bytes.len() - offset) as u64));
    }
    Ok(torn.map_or(Tail::Sound, |(path, offset, bytes)| Tail::Torn { path, offset, bytes }))
}

/// Cuts a torn write off.
pub(super) fn cut(path: &Path, offset: u64) -> io::Result<()> {
    let log = fs::File::options().write(true).open(path)?;
    log.set_len(offset)?;
    log.sync_all()
}

/// The log files, oldest first; none where there is no database yet.
fn logs(database: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    let entries = match fs::read_dir(database) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|kind| kind == "log")) {
            logs.push((number, path));
        }
    }
    logs.sort();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

/// Where the first write begins that is not as it was written: with a damaged record, or with parts that are missing.
fn first_bad(log: &[u8]) -> Option<usize> {
    let mut at = 0;
    // Where the write begins whose last part is not reached yet.
    let mut unfinished = None;
    while at < log.len() {
        let rest = &log[at..block_end(at).min(log.len())];
        if rest.len() < HEADER_BYTES {
            // Padding at the end of a block.
            at = block_end(at);
            continue;
        }
        if rest.iter().all(|byte| *byte == 0) {
            // Space that was reserved and never written, unless a write goes on in it or behind it.
            return unfinished.or(log[at..].iter().any(|byte| *byte != 0).then_some(at));
        }
        let begins = unfinished.unwrap_or(at);
        let Some(bytes) = record_bytes(rest) else { return Some(begins) };
        let kind = rest[HEADER_BYTES - 1];
        if NUMBERED.contains(&kind) || CONTINUING.contains(&kind) != unfinished.is_some() {
            return Some(begins);
        }
        if FIRST.contains(&kind) {
            unfinished = Some(at);
        } else if !MIDDLE.contains(&kind) {
            unfinished = None;
        }
        at += bytes;
    }
    // The log ends in a write that is not at its end.
    unfinished
}

/// Where a write begins behind the bad one at `bad`, which may begin with a valid record.
fn following(log: &[u8], bad: usize) -> Option<usize> {
    let first = record_bytes(&log[bad..block_end(bad).min(log.len())]);
    next_write(log, bad + first.unwrap_or(0))
}

/// Where a write begins, in a valid record at `from` or behind it, however damaged what lies between is.
fn next_write(log: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < log.len() {
        let rest = &log[at..block_end(at).min(log.len())];
        if rest.len() < HEADER_BYTES || rest.iter().all(|byte| *byte == 0) {
            at = block_end(at);
            continue;
        }
        match record_bytes(rest) {
            Some(_) if !CONTINUING.contains(&rest[HEADER_BYTES - 1]) => return Some(at),
            Some(bytes) => at += bytes,
            None => match proven_bytes(rest) {
                Some(bytes) => at += bytes,
                None => {
                    if let Some(found) = is_no_cut(log, at).then(|| any_write(log, at)).flatten() {
                        return Some(found);
                    }
                    at = likely_bytes(rest, at).map_or_else(|| block_end(at), |bytes| at + bytes);
                }
            },
        }
    }
    None
}

/// Where a write begins at any place behind `at` in its block. What a write holds may look like one.
fn any_write(log: &[u8], at: usize) -> Option<usize> {
    let ends = block_end(at).min(log.len());
    (at + 1..ends).find(|at| {
        let rest = &log[*at..ends];
        record_bytes(rest).is_some() && !CONTINUING.contains(&rest[HEADER_BYTES - 1])
    })
}

/// Whether the damaged record at `at` is none that a power cut leaves of a last write: in a sector that was written its
/// header has no kind, or a length that a write of that kind cannot have or that leaves something behind the write.
fn is_no_cut(log: &[u8], at: usize) -> bool {
    let Some(header) = log[at..].first_chunk::<HEADER_BYTES>() else { return false };
    let written = |byte: usize| {
        let sector = byte / SECTOR_BYTES * SECTOR_BYTES;
        log[sector.max(at)..(sector + SECTOR_BYTES).min(log.len())].iter().any(|byte| *byte != 0)
    };
    if !written(at + HEADER_BYTES - 1) {
        return false;
    }
    let kind = header[HEADER_BYTES - 1];
    let Some(header_bytes) = header_bytes(kind) else { return true };
    if !written(at + 4) {
        return false;
    }
    let ends = at + header_bytes + usize::from(u16::from_le_bytes([header[4], header[5]]));
    if FIRST.contains(&kind) || MIDDLE.contains(&kind) {
        return ends != block_end(at);
    }
    ends > block_end(at) || log.get(ends..).is_some_and(|rest| rest.iter().any(|byte| *byte != 0))
}

/// The length of the damaged record that `block` begins with, when its checksum, length and kind prove it.
fn proven_bytes(block: &[u8]) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    // The kind alone is damaged.
    let as_kind = |kind: &u8| {
        let header_bytes = header_bytes(*kind)?;
        let checked = block.get(HEADER_BYTES..header_bytes + length)?;
        (stored == mask(!extend(extend(u32::MAX, &[*kind]), checked))).then_some(header_bytes + length)
    };
    if let Some(bytes) = KINDS.iter().find_map(as_kind) {
        return Some(bytes);
    }
    let least = header_bytes(header[HEADER_BYTES - 1])?;
    // The length alone is.
    let mut crc = extend(u32::MAX, block.get(HEADER_BYTES - 1..least)?);
    for (bytes, byte) in (least..).zip(&block[least..]) {
        if stored == mask(!crc) {
            return Some(bytes);
        }
        crc = extend(crc, &[*byte]);
    }
    (stored == mask(!crc)).then_some(block.len())
}

/// The length of the damaged record at `at`, with which `block` begins, if it has the one that its header says.
fn likely_bytes(block: &[u8], at: usize) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let least = header_bytes(header[HEADER_BYTES - 1])?;
    // Unless the header lies in two sectors, of which the first was never written.
    let split = (at.next_multiple_of(SECTOR_BYTES) - at).min(HEADER_BYTES);
    let torn_apart = split > 0 && split < HEADER_BYTES && header[..split].iter().all(|byte| *byte == 0);
    Some(least + length).filter(|bytes| *bytes <= block.len() && !torn_apart)
}

/// Where the block of a byte ends.
fn block_end(at: usize) -> usize {
    (at / BLOCK_BYTES + 1) * BLOCK_BYTES
}

/// The length of the record that `block` begins with, header included; `None` when there is no valid one.
fn record_bytes(block: &[u8]) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let header_bytes = header_bytes(header[HEADER_BYTES - 1])?;
    let checked = block.get(HEADER_BYTES - 1..header_bytes + length)?;
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    (stored == mask(crc32c(checked))).then_some(header_bytes + length)
}

/// The length of the header of a record of that kind; `None` where there is no such kind.
fn header_bytes(kind: u8) -> Option<usize> {
    match kind {
        1..=4 | 9 | 10 | 130 => Some(HEADER_BYTES),
        5..=8 | 11 | 131 => Some(NUMBERED_HEADER_BYTES),
        _ => None,
    }
}

/// RocksDB stores checksums so that a checksum of bytes that hold a checksum is no weaker.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    !extend(u32::MAX, bytes)
}

/// A checksum that is not finished, with more bytes; eight at a time, since every start checks all of the log.
fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| {
        let word = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        word.iter().zip(CRC_TABLES.iter().rev()).fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    rest.iter().fold(crc, |crc, byte| CRC_TABLES[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// For each byte its checksum, in the first; in the others with as many zeros behind it as tables lie before.
static CRC_TABLES: [[u32; 256]; 8] = {
    let mut tables = [[0; 256]; 8];
    let mut index = 0;
    while index < 8 * 256 {
        let (zeros, byte) = (index / 256, index % 256);
        let mut crc = if zeros == 0 { byte as u32 } else { tables[zeros - 1][byte] };
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        tables[zeros][byte] = crc;
        index += 1;
    }
    tables
};

#[cfg(test)]
mod tests;
