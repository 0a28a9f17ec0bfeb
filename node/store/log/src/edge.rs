//! The right edge of the tree: the hashes of the tiles that are not full yet, from which the next ones and the root follow.

use althing_protocol::Digest;
use althing_protocol::tlog::{Head, leaf_hash, node_hash};

use crate::tile::TILE_WIDTH;

/// A stored hash: its level, its index, and the hash.
pub(crate) type Stored = (u8, u64, Digest);

/// The right edge. At most 255 hashes for each level.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Edge {
    size: u64,
    levels: Vec<Vec<Digest>>,
}

impl Edge {
    /// The edge of a log of `size` entries, whose last tiles these are, from level 0 up.
    pub(crate) fn new(size: u64, levels: Vec<Vec<Digest>>) -> Edge {
        Edge { size, levels }
    }

    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// Adds an entry; gives the hashes to store.
    pub(crate) fn push(&mut self, entry: &[u8]) -> Vec<Stored> {
        let (mut stored, mut hash, mut index) = (Vec::new(), leaf_hash(entry), self.size);
        for level in 0.. {
            stored.push((u8::try_from(level).expect("few levels"), index, hash));
            if self.levels.len() == level {
                self.levels.push(Vec::new());
            }
            let tile = &mut self.levels[level];
            tile.push(hash);
            if tile.len() < usize::from(TILE_WIDTH) {
                break;
            }
            hash = root_of(tile);
            tile.clear();
            index /= u64::from(TILE_WIDTH);
        }
        self.size += 1;
        stored
    }

    /// The head over all entries.
    pub(crate) fn head(&self) -> Head {
        // What is left of each tile is a ragged tree whose right end is what the levels below made.
        let mut root: Option<Digest> = None;
        for tile in &self.levels {
            let all: Vec<Digest> = tile.iter().copied().chain(root).collect();
            root = if all.is_empty() { None } else { Some(root_of(&all)) };
        }
        root.map_or_else(Head::default, |root| Head { size: self.size, root })
    }
}

/// The root over consecutive hashes (RFC 6962 §2.1): the left part is the largest full one.
pub(crate) fn root_of(hashes: &[Digest]) -> Digest {
    match hashes {
        [] => Head::default().root,
        [one] => *one,
        _ => {
            let (left, right) = hashes.split_at(hashes.len().next_power_of_two() / 2);
            node_hash(&root_of(left), &root_of(right))
        }
    }
}
