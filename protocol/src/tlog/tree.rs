//! The Merkle tree of a log (RFC 6962 §2.1), and what proves its growth.

use ct_merkle::{
    ConsistencyProof, InclusionProof, RootHash, indices_for_consistency_proof, indices_for_inclusion_proof,
};
use sha2::{Digest as _, Sha256};

use crate::Digest;

/// Entries of a log; more are refused before anything is computed from their number.
pub const SIZE_MAX: u64 = 1 << 48;
/// Hashes of a proof in a log of [`SIZE_MAX`] entries.
pub const HASHES_MAX: usize = 64;

/// Why a proof is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum TreeError {
    /// The log would have too many entries.
    #[error("a log of {0} entries is beyond 2^48")]
    Size(u64),
    /// There is no such entry.
    #[error("entry {index} is not among the {size} of the log")]
    Index {
        /// Which one.
        index: u64,
        /// Entries of the log.
        size: u64,
    },
    /// A log never becomes smaller.
    #[error("the log had {old} entries, and shows {new}")]
    Smaller {
        /// Entries before.
        old: u64,
        /// Entries now.
        new: u64,
    },
    /// The proof has too many hashes, or too few.
    #[error("the proof has {given} hashes; {needed} are needed")]
    Hashes {
        /// How many it has.
        given: usize,
        /// How many it needs.
        needed: usize,
    },
    /// The hashes lead to another root.
    #[error("the hashes of the proof lead to another root")]
    Root,
}

/// The hash of an entry.
#[must_use]
pub fn leaf_hash(entry: &[u8]) -> Digest {
    Sha256::new_with_prefix([0]).chain_update(entry).finalize().into()
}

/// The hash of a node above two others.
#[must_use]
pub fn node_hash(left: &Digest, right: &Digest) -> Digest {
    Sha256::new_with_prefix([1]).chain_update(left).chain_update(right).finalize().into()
}

/// The head of a log: how many entries it has, and the hash over all of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Head {
    /// Entries.
    pub size: u64,
    /// The root of their tree.
    pub root: Digest,
}

impl std::fmt::Debug for Head {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}@{}", crate::hex(&self.root), self.size)
    }
}

impl Default for Head {
    /// The head of an empty log.
    fn default() -> Head {
        Head { size: 0, root: crate::digest(b"") }
    }
}

impl Head {
    /// Checks that the log has `entry` at `index`.
    ///
    /// # Errors
    /// [`TreeError`]: it is not shown by `hashes`.
    pub fn check_inclusion(&self, entry: &[u8], index: u64, hashes: &[Digest]) -> Result<(), TreeError> {
        let needed = inclusion_spans(self.size, index)?.len();
        let proof = InclusionProof::<Sha256>::try_from_bytes(counted(hashes, needed)?).map_err(|_| TreeError::Root)?;
        self.tree_root().verify_inclusion(&entry, index, &proof).map_err(|_| TreeError::Root)
    }

    /// Checks that this log goes on from `old`: its first entries are those.
    ///
    /// # Errors
    /// [`TreeError`]: it is not shown by `hashes`.
    pub fn check_extends(&self, old: &Head, hashes: &[Digest]) -> Result<(), TreeError> {
        let needed = consistency_spans(old.size, self.size)?.len();
        let proof =
            ConsistencyProof::<Sha256>::try_from_bytes(counted(hashes, needed)?).map_err(|_| TreeError::Root)?;
        if old.size == 0 {
            return if *old == Head::default() { Ok(()) } else { Err(TreeError::Root) };
        }
        self.tree_root().verify_consistency(&old.tree_root(), &proof).map_err(|_| TreeError::Root)
    }

    fn tree_root(&self) -> RootHash<Sha256> {
        RootHash::new(self.root.into(), self.size)
    }
}

fn counted(hashes: &[Digest], needed: usize) -> Result<Vec<u8>, TreeError> {
    if hashes.len() != needed {
        return Err(TreeError::Hashes { given: hashes.len(), needed });
    }
    Ok(hashes.concat())
}

/// Consecutive entries, of whose tree a proof needs the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The first entry.
    pub first: u64,
    /// One after the last.
    pub end: u64,
}

impl Span {
    /// The span below a node that is numbered in order of the leaves: leaf `i` is node `2 i`.
    fn of_node(node: u64, size: u64) -> Span {
        let level = node.trailing_ones();
        let first = (node >> (level + 1)) << level;
        Span { first, end: size.min(first + (1 << level)) }
    }
}

/// The spans whose roots prove that entry `index` is in a log of `size` entries, from the leaf up.
///
/// # Errors
/// [`TreeError::Size`], [`TreeError::Index`].
pub fn inclusion_spans(size: u64, index: u64) -> Result<Vec<Span>, TreeError> {
    if size > SIZE_MAX {
        return Err(TreeError::Size(size));
    }
    if index >= size {
        return Err(TreeError::Index { index, size });
    }
    Ok(indices_for_inclusion_proof(size, index).into_iter().map(|node| Span::of_node(node, size)).collect())
}

/// The spans whose roots prove that a log of `new` entries goes on from its first `old` ones.
///
/// # Errors
/// [`TreeError::Size`], [`TreeError::Smaller`].
pub fn consistency_spans(old: u64, new: u64) -> Result<Vec<Span>, TreeError> {
    if new > SIZE_MAX {
        return Err(TreeError::Size(new));
    }
    if old > new {
        return Err(TreeError::Smaller { old, new });
    }
    if old == 0 {
        return Ok(Vec::new());
    }
    Ok(indices_for_consistency_proof(old, new - old).into_iter().map(|node| Span::of_node(node, new)).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn entry(index: u64) -> [u8; 8] {
        index.to_be_bytes()
    }

    /// The root of a span, as RFC 6962 defines it.
    fn root(span: Span) -> Digest {
        match span.end - span.first {
            0 => crate::digest(b""),
            1 => leaf_hash(&entry(span.first)),
            count => {
                let half = count.next_power_of_two() / 2;
                let middle = span.first + half;
                node_hash(&root(Span { end: middle, ..span }), &root(Span { first: middle, ..span }))
            }
        }
    }

    fn head(size: u64) -> Head {
        Head { size, root: root(Span { first: 0, end: size }) }
    }

    fn roots(spans: Vec<Span>) -> Vec<Digest> {
        spans.into_iter().map(root).collect()
    }

    proptest! {
        #[test]
        fn an_entry_is_proven_and_no_other(size in 1u64..300, index in 0u64..300, other in 0u64..300, flip in 0usize..256) {
            prop_assume!(index < size);
            let hashes = roots(inclusion_spans(size, index).expect("it is there"));
            let head = head(size);
            prop_assert_eq!(head.check_inclusion(&entry(index), index, &hashes), Ok(()));
            if other != index {
                prop_assert!(head.check_inclusion(&entry(other), index, &hashes).is_err());
                prop_assert!(head.check_inclusion(&entry(index), other, &hashes).is_err());
            }
            let mut longer = hashes.clone();
            longer.push([0; 32]);
            prop_assert!(head.check_inclusion(&entry(index), index, &longer).is_err());
            if !hashes.is_empty() {
                let mut changed = hashes.clone();
                let at = flip % changed.len();
                changed[at][flip % 32] ^= 1;
                prop_assert!(head.check_inclusion(&entry(index), index, &changed).is_err());
                prop_assert!(head.check_inclusion(&entry(index), index, &hashes[1..]).is_err());
            }
        }

        #[test]
        fn growth_is_proven_and_no_other_history(old in 0u64..300, more in 0u64..300, flip in 0usize..256) {
            let (before, after) = (head(old), head(old + more));
            let hashes = roots(consistency_spans(old, old + more).expect("it grew"));
            prop_assert_eq!(after.check_extends(&before, &hashes), Ok(()));
            let forked = Head { root: crate::digest(b"another"), ..before };
            prop_assert!(after.check_extends(&forked, &hashes).is_err());
            if more > 0 {
                prop_assert!(before.check_extends(&after, &hashes).is_err());
            }
            if !hashes.is_empty() {
                let mut changed = hashes.clone();
                let at = flip % changed.len();
                changed[at][flip % 32] ^= 1;
                prop_assert!(after.check_extends(&before, &changed).is_err());
            }
        }
    }

    #[test]
    fn sizes_from_outside_are_bounded() {
        for size in [SIZE_MAX + 1, u64::MAX / 2 + 2, u64::MAX] {
            let head = Head { size, root: [0; 32] };
            assert_eq!(head.check_inclusion(b"", 0, &[]), Err(TreeError::Size(size)));
            assert_eq!(head.check_extends(&Head::default(), &[]), Err(TreeError::Size(size)));
        }
        assert!(inclusion_spans(SIZE_MAX, SIZE_MAX - 1).is_ok_and(|spans| spans.len() <= HASHES_MAX));
        assert!(consistency_spans(SIZE_MAX - 1, SIZE_MAX).is_ok_and(|spans| spans.len() <= HASHES_MAX));
        assert_eq!(inclusion_spans(0, 0), Err(TreeError::Index { index: 0, size: 0 }));
    }
}
