//! Tells a torn last write from damage in the middle of RocksDB's write-ahead log.
//!
//! A power cut may leave half of the last write on disk, with a wrong checksum. RocksDB then either refuses to open
//! (every mode that is strict about checksums) or drops everything from the first bad byte on, in whatever file it lies,
//! and says nothing. So when RocksDB refuses, the log is read here: the damage is a torn last write if no other write
//! begins after it. Anything else was promised to somebody, and is reported.
//!
//! The format is RocksDB's `db/log_format.h`: blocks of 32 KiB; records of a masked CRC-32C, a length, a type and the
//! payload; kinds 5–8, 11 and 131 have a log number behind the type; no record crosses a block, so that a long write
//! is a first record, middle ones and a last.
//!
//! Payloads are what others sent: one may hold the bytes of a valid record. So a record is only looked for where RocksDB
//! can have begun one, which is where the one before ends, and at the beginning of a block. Where a damaged record ends
//! is known when two of its checksum, length and kind prove the third, or else by a length that can be one.

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
/// Those with which no write begins: the later parts of one.
const CONTINUING: [u8; 4] = [3, 4, 7, 8];
/// The largest log that is read into memory; RocksDB's are bounded by `wal_bytes` and one batch.
const LOG_BYTES_MAX: u64 = 256 << 20;

/// What the write-ahead log looks like.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Tail {
    /// Every record is as it was written.
    Sound,
    /// The last record is not, and nothing follows it.
    Torn {
        /// The file.
        path: PathBuf,
        /// From the torn record to the end of the file.
        bytes: u64,
    },
    /// A record is damaged and others follow it.
    Damaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        detail: String,
    },
}

/// Reads every log file in `database`, oldest first.
pub(super) fn inspect(database: &Path) -> io::Result<Tail> {
    let mut torn: Option<(PathBuf, usize, u64)> = None;
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
        if let Some(next) = next_write(&bytes, behind(&bytes, offset)) {
            let detail =
                format!("the write-ahead log is damaged at byte {offset}; writes follow it from byte {next} on");
            return Ok(Tail::Damaged { path, detail });
        }
        torn = Some((path, offset, (bytes.len() - offset) as u64));
    }
    Ok(torn.map_or(Tail::Sound, |(path, _, bytes)| Tail::Torn { path, bytes }))
}

/// The log files, oldest first.
fn logs(database: &Path) -> io::Result<Vec<PathBuf>> {
    let mut logs = Vec::new();
    for entry in fs::read_dir(database)? {
        let path = entry?.path();
        let number = path.file_stem().and_then(|stem| stem.to_str()).and_then(|stem| stem.parse::<u64>().ok());
        if let Some(number) = number.filter(|_| path.extension().is_some_and(|kind| kind == "log")) {
            logs.push((number, path));
        }
    }
    logs.sort();
    Ok(logs.into_iter().map(|(_, path)| path).collect())
}

/// Where the first record begins that is not as it was written.
fn first_bad(log: &[u8]) -> Option<usize> {
    let mut at = 0;
    while at < log.len() {
        let rest = &log[at..block_end(at).min(log.len())];
        if rest.len() < HEADER_BYTES || rest.iter().all(|byte| *byte == 0) {
            // Padding at the end of a block, or space that was reserved and never written.
            at = block_end(at);
            continue;
        }
        match record_bytes(rest) {
            Some(bytes) => at += bytes,
            None => return Some(at),
        }
    }
    None
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
            None => at = behind(log, at),
        }
    }
    None
}

/// Where the next record can begin behind the damaged one at `at`.
fn behind(log: &[u8], at: usize) -> usize {
    let block = &log[at..block_end(at).min(log.len())];
    damaged_bytes(block, at).map_or_else(|| block_end(at), |bytes| at + bytes)
}

/// The length of the damaged record at `at`, with which `block` begins, as far as it can be known.
fn damaged_bytes(block: &[u8], at: usize) -> Option<usize> {
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
    if stored == mask(!crc) {
        return Some(block.len());
    }
    // Or the checksum, or the payload; unless the header lies in two sectors, of which the first was never written.
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

/// A checksum that is not finished, with more bytes.
fn extend(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

const CRC_TABLE: [u32; 256] = {
    let mut table = [0; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = (crc >> 1) ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

#[cfg(test)]
mod tests;
