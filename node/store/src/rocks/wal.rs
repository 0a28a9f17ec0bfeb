//! Tells a torn last write from damage in the middle of RocksDB's write-ahead log, before RocksDB reads it.
//!
//! A power cut may leave half of the last write on disk, with a wrong checksum. RocksDB may not report damage in the middle:
//! at a length beyond the end of the file, at zeros, and at a record type that it takes for the end it drops the rest; at
//! another type it reads for ever. So it only gets logs in which every record is valid. Damage is a torn last write if no
//! other write begins after it; a torn write is cut off. Any other damage hits acknowledged writes, and is reported.
//!
//! Every log in the directory is read, even one that RocksDB would skip because its content is in tables: such a log was
//! synced before its tables were registered, and RocksDB deletes it once it is open.
//!
//! The format is RocksDB's `db/log_format.h`: blocks of 32 KiB; records of a masked CRC-32C, a length, a type and the
//! payload; kinds 5–8, 11 and 131 have a log number behind the type; no record crosses a block, so that a long write
//! is a first record, middle ones and a last.
//!
//! Payloads come from others, and may contain the bytes of a valid record. So records are only searched for where RocksDB can
//! have begun one: at the end of the previous record, and at the beginning of a block. The end of a damaged record is known
//! if two of its checksum, length and type prove the third, or else by a plausible length.
//!
//! Disks write in any order: whole blocks of a long write may be missing (zeros) while later ones are present. RocksDB skips
//! zeros. So a write is bad from its beginning on if any of its parts is missing; if the first part is missing, from the
//! beginning of the zeros on. Zeros at the end of a log are preallocated space.
//!
//! A disk writes a sector atomically. So a wrong header in a sector that was written is not a torn write, whatever follows;
//! then every offset in its block is searched. A header whose sector is zeros from there on is ambiguous: if all that follows
//! is in the same block, it counts as the rest of a torn write.
//!
//! Time at every start: an optimised build checks 1.4 GiB/s on one idle core of a shared virtual machine, and 260 MiB/s in
//! the worst case on a busy one (2026). RocksDB flushes its buffers when the logs together reach `StoreConfig::wal_bytes`,
//! 16 MiB by default: 11 to 60 ms for those, 3 to 15 ms for the usual few MiB.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const NUMBERED_HEADER_BYTES: usize = 11;
/// The size of a sector, which a disk writes atomically.
const SECTOR_BYTES: usize = 512;
/// All record types.
const KINDS: [u8; 13] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 130, 131];
/// The types of the first part of a long write.
const FIRST: [u8; 2] = [2, 6];
/// The types of the middle parts of a long write.
const MIDDLE: [u8; 2] = [3, 7];
/// The types for recycled log files, which this program does not use. RocksDB reads for ever at one of them in other files.
const NUMBERED: [u8; 6] = [5, 6, 7, 8, 11, 131];
/// The types of the later parts of a long write.
const CONTINUING: [u8; 4] = [3, 4, 7, 8];
/// The largest log that is read into memory; RocksDB's are bounded by `wal_bytes` and one batch.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// The state of the write-ahead log.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Every write is valid.
    Sound,
    /// The last write is torn, and nothing follows it.
    Torn {
        /// The file.
        path: PathBuf,
        /// Where the torn write begins.
        offset: u64,
        /// The bytes from there to the end of the file.
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

/// The offset of the first bad write: one with a damaged record or with missing parts.
fn first_bad(log: &[u8]) -> Option<usize> {
    let mut at = 0;
    // The offset of the write whose last part was not reached yet.
    let mut unfinished = None;
    while at < log.len() {
        let rest = &log[at..block_end(at).min(log.len())];
        if rest.len() < HEADER_BYTES {
            // Padding at the end of a block.
            at = block_end(at);
            continue;
        }
        if rest.iter().all(|byte| *byte == 0) {
            // Preallocated space, unless a write continues in it or after it.
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
    // The log ends within a write.
    unfinished
}

/// The offset of a write after the bad one at `bad`, which may begin with a valid record.
fn following(log: &[u8], bad: usize) -> Option<usize> {
    let first = record_bytes(&log[bad..block_end(bad).min(log.len())]);
    next_write(log, bad + first.unwrap_or(0))
}

/// The offset of the next write in a valid record at or after `from`, skipping damage.
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

/// The offset of a write at any offset after `at` in its block. Payloads may look like one.
fn any_write(log: &[u8], at: usize) -> Option<usize> {
    let ends = block_end(at).min(log.len());
    (at + 1..ends).find(|at| {
        let rest = &log[*at..ends];
        record_bytes(rest).is_some() && !CONTINUING.contains(&rest[HEADER_BYTES - 1])
    })
}

/// Whether the damaged record at `at` cannot be a torn last write: its header, in a sector that was written, has an invalid
/// type, a length that is impossible for the type, or a length after which more data follows.
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

/// The length of the damaged record at the beginning of `block`, if its checksum, length and type prove it.
fn proven_bytes(block: &[u8]) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    // Only the type is damaged.
    let as_kind = |kind: &u8| {
        let header_bytes = header_bytes(*kind)?;
        let checked = block.get(HEADER_BYTES..header_bytes + length)?;
        (stored == mask(!extend(extend(u32::MAX, &[*kind]), checked))).then_some(header_bytes + length)
    };
    if let Some(bytes) = KINDS.iter().find_map(as_kind) {
        return Some(bytes);
    }
    let least = header_bytes(header[HEADER_BYTES - 1])?;
    // Only the length is damaged.
    let mut crc = extend(u32::MAX, block.get(HEADER_BYTES - 1..least)?);
    for (bytes, byte) in (least..).zip(&block[least..]) {
        if stored == mask(!crc) {
            return Some(bytes);
        }
        crc = extend(crc, &[*byte]);
    }
    (stored == mask(!crc)).then_some(block.len())
}

/// The length of the damaged record at `at`, the beginning of `block`, if the length in its header is plausible.
fn likely_bytes(block: &[u8], at: usize) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let least = header_bytes(header[HEADER_BYTES - 1])?;
    // Unless the header spans two sectors of which the first was never written.
    let split = (at.next_multiple_of(SECTOR_BYTES) - at).min(HEADER_BYTES);
    let torn_apart = split > 0 && split < HEADER_BYTES && header[..split].iter().all(|byte| *byte == 0);
    Some(least + length).filter(|bytes| *bytes <= block.len() && !torn_apart)
}

/// The end of the block of a byte.
fn block_end(at: usize) -> usize {
    (at / BLOCK_BYTES + 1) * BLOCK_BYTES
}

/// The length of the valid record at the beginning of `block`, with its header; `None` if there is none.
fn record_bytes(block: &[u8]) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let header_bytes = header_bytes(header[HEADER_BYTES - 1])?;
    let checked = block.get(HEADER_BYTES - 1..header_bytes + length)?;
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    (stored == mask(crc32c(checked))).then_some(header_bytes + length)
}

/// The length of the header of that record type; `None` for an unknown type.
fn header_bytes(kind: u8) -> Option<usize> {
    match kind {
        1..=4 | 9 | 10 | 130 => Some(HEADER_BYTES),
        5..=8 | 11 | 131 => Some(NUMBERED_HEADER_BYTES),
        _ => None,
    }
}

/// The masking of RocksDB, so that checksums of bytes that contain checksums are not weaker.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    !extend(u32::MAX, bytes)
}

/// Updates an unfinished checksum, eight bytes at a time, since every start checks the whole log.
fn extend(crc: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(crc, |crc, word| {
        let word = (u64::from_le_bytes(*word) ^ u64::from(crc)).to_le_bytes();
        word.iter().zip(CRC_TABLES.iter().rev()).fold(0, |sum, (byte, table)| sum ^ table[usize::from(*byte)])
    });
    rest.iter().fold(crc, |crc, byte| CRC_TABLES[0][usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

/// Tables for slicing-by-8: table n has the checksum of each byte followed by n zeros.
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
