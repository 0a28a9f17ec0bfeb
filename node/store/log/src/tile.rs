//! Tiles: up to 256 consecutive hashes of one level, and their names in URLs (C2SP tlog-tiles).

use std::fmt;
use std::str::FromStr;

/// Hashes of a full tile.
pub const TILE_WIDTH: u16 = 256;
/// The level of the widest tree: 2^48 entries.
const LEVEL_MAX: u8 = 5;

/// A tile, or a bundle of entries at level 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tile {
    /// The level; each counts 256 of the one below.
    pub level: u8,
    /// Which one of its level.
    pub index: u64,
    /// How many hashes it has, 1 to 256.
    pub width: u16,
}

/// Text that names no tile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this names no tile: a path looks like 0/x001/234 or 0/x001/234.p/17")]
pub struct NoTile;

impl fmt::Display for Tile {
    /// `level/index`, and `.p/width` unless it is full.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = self.index.to_string();
        let padded = format!("{digits:0>width$}", width = digits.len().div_ceil(3) * 3);
        let groups: Vec<&str> = (0..padded.len()).step_by(3).map(|at| &padded[at..at + 3]).collect();
        let (last, before) = groups.split_last().expect("a number has a digit");
        write!(f, "{}/", self.level)?;
        for group in before {
            write!(f, "x{group}/")?;
        }
        write!(f, "{last}")?;
        if self.width < TILE_WIDTH { write!(f, ".p/{}", self.width) } else { Ok(()) }
    }
}

impl FromStr for Tile {
    type Err = NoTile;

    fn from_str(path: &str) -> Result<Tile, NoTile> {
        if path.len() > 64 {
            return Err(NoTile);
        }
        let (level, rest) = path.split_once('/').ok_or(NoTile)?;
        let (name, width) = match rest.split_once(".p/") {
            Some((name, width)) => (name, number(width).filter(|width| (1..=255).contains(width)).ok_or(NoTile)?),
            None => (rest, u64::from(TILE_WIDTH)),
        };
        let level = number(level).and_then(|level| u8::try_from(level).ok()).filter(|&level| level <= LEVEL_MAX);
        let groups: Vec<&str> = name.split('/').collect();
        let (last, before) = groups.split_last().ok_or(NoTile)?;
        let mut index: u64 = 0;
        for group in before.iter().map(|group| group.strip_prefix('x')).chain([Some(*last)]) {
            let group = group.filter(|group| group.len() == 3 && group.bytes().all(|byte| byte.is_ascii_digit()));
            let value: u64 = group.and_then(|group| group.parse().ok()).ok_or(NoTile)?;
            index = index.checked_mul(1_000).and_then(|index| index.checked_add(value)).ok_or(NoTile)?;
        }
        let width = u16::try_from(width).map_err(|_| NoTile)?;
        let tile = Tile { level: level.ok_or(NoTile)?, index, width };
        // One name for each: 000/001 is no other spelling of 001.
        if tile.to_string() == path { Ok(tile) } else { Err(NoTile) }
    }
}

fn number(text: &str) -> Option<u64> {
    let plain = text == "0" || text.bytes().next().is_some_and(|first| (b'1'..=b'9').contains(&first));
    text.parse().ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_has_one_name() {
        for (tile, name) in [
            (Tile { level: 0, index: 0, width: 256 }, "0/000"),
            (Tile { level: 1, index: 67, width: 3 }, "1/067.p/3"),
            (Tile { level: 0, index: 1_234_067, width: 256 }, "0/x001/x234/067"),
            (Tile { level: 5, index: 1_000, width: 255 }, "5/x001/000.p/255"),
        ] {
            assert_eq!(tile.to_string(), name);
            assert_eq!(name.parse(), Ok(tile));
        }
        for bad in [
            "",
            "0",
            "0/",
            "0/0",
            "0/1234",
            "00/000",
            "6/000",
            "-1/000",
            "0/x000/001",
            "0/001/002",
            "0/x001",
            "0/000.p/0",
            "0/000.p/256",
            "0/000.p/01",
            "0/000.p/",
            "0/../000",
            "0/x999/x999/x999/x999/x999/x999/999",
            "0/٠٠٠",
            "+0/000",
        ] {
            assert_eq!(bad.parse::<Tile>(), Err(NoTile), "{bad}");
        }
    }
}
