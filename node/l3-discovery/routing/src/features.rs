//! A sentence as a sparse vector: its words, pairs of words, and runs of characters, hashed. Runs of characters match other
//! forms of a word, words of languages that nobody prepared for, and words with a typo.

use std::sync::Arc;

use crate::dense::{Dense, Vectors};

/// Characters of a sentence that are read; the rest is ignored.
pub const SENTENCE_CHARS_MAX: usize = 2_000;
/// Bits of a hashed feature.
pub(crate) const FEATURE_BITS: u32 = 17;
/// The lengths of runs of characters.
const RUNS: std::ops::RangeInclusive<usize> = 2..=6;
/// Weights of the kinds of features, before the vector is scaled to length 1.
const WORD_WEIGHT: f32 = 1.0;
const PAIR_WEIGHT: f32 = 0.3;
const RUN_WEIGHT: f32 = 0.5;

/// The part of words and runs of characters in the squared length of a sentence that has a dense vector too.
const SPARSE_PART: f32 = 0.3;

/// A sparse vector of length 1, or an empty one: features in ascending order, each once.
pub(crate) type Sparse = Vec<(u32, f32)>;

/// The words of a sentence: lower case, without accents, letters and digits only.
pub(crate) fn words(sentence: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in sentence.chars().take(SENTENCE_CHARS_MAX) {
        let Some(word) = words.last_mut() else { break };
        if letter.is_alphanumeric() {
            letter.to_lowercase().for_each(|letter| push_plain(word, letter));
        } else if !matches!(letter, '\'' | '’') && !word.is_empty() {
            // An apostrophe joins: "don't" is one word.
            words.push(String::new());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Adds a letter without its accent: people leave accents out.
fn push_plain(word: &mut String, letter: char) {
    match letter {
        'à' | 'á' | 'â' | 'ã' | 'å' | 'ä' => word.push('a'),
        'è' | 'é' | 'ê' | 'ë' => word.push('e'),
        'ì' | 'í' | 'î' | 'ï' => word.push('i'),
        'ò' | 'ó' | 'ô' | 'õ' | 'ø' | 'ö' => word.push('o'),
        'ù' | 'ú' | 'û' | 'ü' => word.push('u'),
        'ç' => word.push('c'),
        'ñ' => word.push('n'),
        'ß' => word.push_str("ss"),
        other => word.push(other),
    }
}

/// What a classifier sees of a sentence.
#[derive(Debug, Clone)]
pub(crate) struct Features {
    pub sparse: Sparse,
    /// What a model of embeddings makes of it.
    pub dense: Option<Dense>,
}

impl Features {
    /// The features of a sentence; with its dense vector, if `vectors` has it.
    pub fn of(sentence: &str, vectors: Option<&Vectors>) -> Features {
        Features::with(sentence, vectors.map(|vectors| vectors.of(sentence)))
    }

    /// The features of a sentence. `dense` is `None` for a classifier without dense vectors, and `Some(None)` where a
    /// classifier has them, but not of this sentence.
    pub fn with(sentence: &str, dense: Option<Option<&Arc<[i8]>>>) -> Features {
        let mut sparse = vector(sentence);
        if dense.is_some() {
            sparse.iter_mut().for_each(|(_, weight)| *weight *= SPARSE_PART.sqrt());
        }
        Features { sparse, dense: dense.flatten().map(|values| Dense::new(values.clone(), 1.0 - SPARSE_PART)) }
    }

    /// Its squared length.
    pub fn square(&self) -> f32 {
        let dense = self.dense.as_ref().map_or(0.0, |dense| dense.square);
        self.sparse.iter().map(|(_, weight)| weight * weight).sum::<f32>() + dense
    }
}

/// The vector of a sentence.
pub(crate) fn vector(sentence: &str) -> Sparse {
    let words = words(sentence);
    let mut all = Vec::new();
    for (place, word) in words.iter().enumerate() {
        all.push((hash(b'w', word.as_bytes(), &[]), WORD_WEIGHT));
        if let Some(next) = words.get(place + 1) {
            all.push((hash(b'p', word.as_bytes(), next.as_bytes()), PAIR_WEIGHT));
        }
        let padded = format!(" {word} ");
        let ends: Vec<usize> = padded.char_indices().map(|(at, _)| at).chain([padded.len()]).collect();
        for length in RUNS {
            for run in ends.windows(length + 1) {
                let (from, to) = (run[0], run[length]);
                all.push((hash(b'r', &padded.as_bytes()[from..to], &[]), RUN_WEIGHT));
            }
        }
    }
    all.sort_unstable_by_key(|(feature, _)| *feature);
    // A feature that comes again counts once: a sentence that repeats a word says no more.
    all.dedup_by_key(|(feature, _)| *feature);
    let length = all.iter().map(|(_, weight)| weight * weight).sum::<f32>().sqrt();
    all.iter_mut().for_each(|(_, weight)| *weight /= length.max(f32::MIN_POSITIVE));
    all
}

/// FNV-1a of kind and bytes, with a finaliser so that the low bits depend on all bytes, cut to [`FEATURE_BITS`].
fn hash(kind: u8, bytes: &[u8], more: &[u8]) -> u32 {
    let bytes = [kind].into_iter().chain(bytes.iter().copied()).chain([0]).chain(more.iter().copied());
    let hash =
        bytes.fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mixed = (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    u32::try_from(mixed >> (64 - FEATURE_BITS)).unwrap_or_default()
}
