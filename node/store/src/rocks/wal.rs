//! Tells a torn last write from damage in the middle of RocksDB's write-ahead log.
//!
//! A power cut may leave half of the last write on disk, with a wrong checksum. RocksDB then either refuses to open
//! (every mode that is strict about checksums) or drops everything from the first bad byte on, in whatever file it lies,
//! and says nothing. So when RocksDB refuses, the log is read here: the damage is a torn last write if nothing valid
//! was written after it. Anything else was promised to somebody, and is reported.
//!
//! The format is RocksDB's `db/log_format.h`: blocks of 32 KiB; records of a masked CRC-32C, a length, a type and the
//! payload; kinds 5–8, 11 and 131 have a log number behind the type; no record crosses a block.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

const BLOCK_BYTES: usize = 32 << 10;
const HEADER_BYTES: usize = 7;
const NUMBERED_HEADER_BYTES: usize = 11;
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
        if let Some((path, offset, _)) = torn.take_if(|_| next_record(&bytes, 0).is_some()) {
            let detail = format!("the write-ahead log is damaged at byte {offset}, and a later log holds writes");
            return Ok(Tail::Damaged { path, detail });
        }
        let Some(offset) = first_bad(&bytes) else { continue };
        if let Some(next) = next_record(&bytes, offset) {
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
        let block_end = (at / BLOCK_BYTES + 1) * BLOCK_BYTES;
        let rest = &log[at..block_end.min(log.len())];
        if rest.len() < HEADER_BYTES || rest.iter().all(|byte| *byte == 0) {
            // Padding at the end of a block, or space that was reserved and never written.
            at = block_end;
            continue;
        }
        match record_bytes(rest) {
            Some(bytes) => at += bytes,
            None => return Some(at),
        }
    }
    None
}

/// Where a valid record begins behind the damage at `from`. The length of the damaged record cannot be trusted, so
/// every byte may be the beginning.
fn next_record(log: &[u8], from: usize) -> Option<usize> {
    (from..log.len()).find(|at| {
        let block_end = ((at / BLOCK_BYTES + 1) * BLOCK_BYTES).min(log.len());
        record_bytes(&log[*at..block_end]).is_some()
    })
}

/// The length of the record that `block` begins with, header included; `None` when there is no valid one.
fn record_bytes(block: &[u8]) -> Option<usize> {
    let header = block.first_chunk::<HEADER_BYTES>()?;
    let length = usize::from(u16::from_le_bytes([header[4], header[5]]));
    let header_bytes = match header[6] {
        1..=4 | 9 | 10 | 130 => HEADER_BYTES,
        5..=8 | 11 | 131 => NUMBERED_HEADER_BYTES,
        _ => return None,
    };
    let checked = block.get(HEADER_BYTES - 1..header_bytes + length)?;
    let stored = u32::from_le_bytes([header[0], header[1], header[2], header[3]]);
    (stored == mask(crc32c(checked))).then_some(header_bytes + length)
}

/// RocksDB stores checksums so that a checksum of bytes that hold a checksum is no weaker.
fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

/// CRC-32C (Castagnoli), reflected.
fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| CRC_TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
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
mod tests {
    use super::*;

    fn record(payload: &[u8]) -> Vec<u8> {
        let mut checked = vec![1];
        checked.extend(payload);
        let mut record = mask(crc32c(&checked)).to_le_bytes().to_vec();
        record.extend(u16::try_from(payload.len()).expect("a small payload").to_le_bytes());
        record.extend(checked);
        record
    }

    fn log(payloads: &[&[u8]]) -> Vec<u8> {
        payloads.iter().flat_map(|payload| record(payload)).collect()
    }

    #[test]
    fn the_checksum_is_castagnolis() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn damage_before_a_record_is_told_from_a_torn_last_one() {
        let good = log(&[b"one", b"two", b"three"]);
        assert_eq!(first_bad(&good), None);
        let last = good.len() - record(b"three").len();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x40;
            let offset = first_bad(&bad).expect("every byte is covered by a checksum");
            assert_eq!(next_record(&bad, offset).is_none(), at >= last, "flipped at {at}, found at {offset}");
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
}
