//! The decisions of memory, pure: how a text is cut into passages, which passages are similar to a query, what an answer
//! cites.

use althing_protocol::{digest, hex};

/// The longest passage, bytes.
pub const PASSAGE_BYTES_MAX: usize = 1_000;
/// Hexadecimal digits of a passage's id.
pub const ID_DIGITS: usize = 12;
/// Dimensions of a built-in vector.
const DIMENSIONS: usize = 512;
/// The weight of a trigram beside that of a whole word: trigrams match other forms of a word.
const TRIGRAM_WEIGHT: f32 = 0.3;
/// Cuts a text into passages of at most [`PASSAGE_BYTES_MAX`] bytes, at ends of paragraphs, sentences or words. Only blanks
/// at the cuts are lost.
#[must_use]
pub fn chunks(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text.trim();
    while rest.len() > PASSAGE_BYTES_MAX {
        let window = &rest[..rest.floor_char_boundary(PASSAGE_BYTES_MAX)];
        let half = window.len() / 2;
        let after = |mark: &str| window.rfind(mark).map(|at| at + mark.len()).filter(|end| *end > half);
        let end = ["\n\n", ". ", "\n", " "].into_iter().find_map(after).unwrap_or(window.len());
        let (piece, more) = rest.split_at(end);
        pieces.push(piece.trim_end());
        rest = more.trim_start();
    }
    if !rest.is_empty() {
        pieces.push(rest);
    }
    pieces
}

/// The id of a passage: a digest of its source and text.
#[must_use]
pub fn passage_id(source: &str, text: &str) -> String {
    let digest = digest(format!("{source}\0{text}").as_bytes());
    hex(&digest)[..ID_DIGITS].to_owned()
}

/// The passages that an answer cites, as `[#id]`, each once, in order.
#[must_use]
pub fn citations(text: &str) -> Vec<String> {
    let (mut found, mut known) = (Vec::new(), std::collections::BTreeSet::new());
    for piece in text.split("[#").skip(1) {
        let Some((id, _)) = piece.split_once(']') else { continue };
        let is_id = id.len() == ID_DIGITS && id.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
        if is_id && known.insert(id) {
            found.push(id.to_owned());
        }
    }
    found
}

/// A feature vector of a text's words and trigrams, hashed: texts that share many of them have similar vectors. It knows no
/// meaning, hence no synonyms.
#[must_use]
pub fn features(text: &str) -> Vec<f32> {
    let mut vector = vec![0.0; DIMENSIONS];
    let mut add = |feature: &[u8], weight: f32| {
        let hash = fnv(feature);
        let place = usize::try_from(hash % DIMENSIONS as u64).unwrap_or_default();
        vector[place] += if hash >> 63 == 0 { weight } else { -weight };
    };
    for word in text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty()) {
        let word = word.to_lowercase();
        let letters: Vec<char> = word.chars().collect();
        add(word.as_bytes(), 1.0);
        for three in letters.windows(3) {
            add(format!("#{}", three.iter().collect::<String>()).as_bytes(), TRIGRAM_WEIGHT);
        }
    }
    vector
}

/// FNV-1a, 64 bits, with a finaliser so that the low bits depend on all letters. Stored vectors depend on it: never change it.
fn fnv(bytes: &[u8]) -> u64 {
    let hash = bytes
        .iter()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3));
    (hash ^ (hash >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Quantises a vector to one byte a dimension, which hardly changes similarity.
#[must_use]
pub fn quantised(vector: &[f32]) -> Vec<i8> {
    let most = vector.iter().fold(0.0_f32, |most, value| most.max(value.abs()));
    if !most.is_finite() || most == 0.0 {
        return vec![0; vector.len()];
    }
    #[expect(clippy::cast_possible_truncation, reason = "within -127 and 127")]
    let byte = |value: &f32| (value / most * 127.0).round() as i8;
    vector.iter().map(byte).collect()
}

/// The weight of each dimension: the inverse document frequency, high where few vectors are not zero. Vectors of models use
/// all dimensions, so all weights are equal there.
fn weights<'a>(all: impl Iterator<Item = &'a [i8]>, places: usize) -> Vec<f32> {
    let (mut used, mut vectors) = (vec![0_u32; places], 0_u32);
    for vector in all.filter(|vector| vector.len() == places) {
        vectors += 1;
        used.iter_mut().zip(vector).for_each(|(used, value)| *used += u32::from(*value != 0));
    }
    let weight = |used: &u32| ((1.0 + vectors as f32) / (1.0 + *used as f32)).ln() + 1.0;
    used.iter().map(weight).collect()
}

/// Cosine similarity of two weighted vectors; 0 if their lengths differ.
fn similarity(one: &[i8], other: &[i8], weights: &[f32]) -> f32 {
    if one.len() != other.len() {
        return 0.0;
    }
    let (mut dot, mut ones, mut others) = (0.0_f32, 0.0_f32, 0.0_f32);
    for ((one, other), weight) in one.iter().zip(other).zip(weights) {
        let (one, other) = (f32::from(*one) * weight, f32::from(*other) * weight);
        dot += one * other;
        ones += one * one;
        others += other * other;
    }
    if ones * others > 0.0 { dot / (ones * others).sqrt() } else { 0.0 }
}

/// The `most` nearest neighbours with their similarity, best first; ties by name, so that the order is deterministic. Those
/// without similarity are left out.
#[must_use]
pub fn nearest<'a>(
    query: &[i8],
    all: impl Iterator<Item = (&'a str, &'a [i8])> + Clone,
    most: usize,
) -> Vec<(&'a str, f32)> {
    let weights = weights(all.clone().map(|(_, vector)| vector), query.len());
    let mut scored: Vec<(&str, f32)> = all
        .map(|(name, vector)| (name, similarity(query, vector, &weights)))
        .filter(|(_, similarity)| *similarity > 0.0)
        .collect();
    scored.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(b.0)));
    scored.truncate(most);
    scored
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(text: &str) -> Vec<i8> {
        quantised(&features(text))
    }

    #[test]
    fn what_shares_words_is_alike() {
        let texts = [
            ("bikes", "Bicycles may be parked in the cellar of the town hall from seven to nine."),
            ("dogs", "A dog costs ninety euro of tax in a year, a second one twice as much."),
            ("waste", "Glass and paper are collected on the first Monday of each month."),
        ];
        let vectors: Vec<(&str, Vec<i8>)> = texts.iter().map(|(name, text)| (*name, bytes(text))).collect();
        for (question, wanted) in [
            ("Where can I park my bicycle?", "bikes"),
            ("how much tax do I pay for two dogs", "dogs"),
            ("When is waste paper collected?", "waste"),
            ("What is the tax for my dog?", "dogs"),
        ] {
            let all = vectors.iter().map(|(name, vector)| (*name, vector.as_slice()));
            assert_eq!(nearest(&bytes(question), all, 3)[0].0, wanted, "{question}");
        }
        assert!(nearest(&bytes(""), vectors.iter().map(|(n, v)| (*n, v.as_slice())), 3).is_empty());
    }

    #[test]
    fn only_whole_citations_count() {
        let text = "So [#0123456789ab], again [#0123456789ab] and [#ffffffffffff]; not [#123], [#0123456789AB], [#";
        assert_eq!(citations(text), ["0123456789ab", "ffffffffffff"]);
        assert!(citations("none at all").is_empty());
    }

    /// What is stored must mean the same for ever.
    #[test]
    fn vectors_do_not_change() {
        let bytes: Vec<u8> =
            bytes("The node keeps what it was told.").iter().map(|value| value.cast_unsigned()).collect();
        assert_eq!(hex(&digest(&bytes))[..16], *"98c26abb6f8c53fe");
    }

    proptest! {
        #[test]
        fn chunks_hold_everything(text in "[a-zé .\\n]{0,4000}") {
            let pieces = chunks(&text);
            prop_assert!(pieces.iter().all(|piece| !piece.is_empty() && piece.len() <= PASSAGE_BYTES_MAX));
            let squeeze = |text: &str| text.chars().filter(|c| !c.is_whitespace()).collect::<String>();
            prop_assert_eq!(squeeze(&pieces.concat()), squeeze(&text));
        }

        #[test]
        fn quantising_hardly_changes_likeness(a in prop::collection::vec(-1.0f32..1.0, 64), b in prop::collection::vec(-1.0f32..1.0, 64)) {
            let exact = {
                let dot = |x: &[f32], y: &[f32]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f32>();
                dot(&a, &b) / (dot(&a, &a) * dot(&b, &b)).sqrt()
            };
            prop_assert!((similarity(&quantised(&a), &quantised(&b), &[1.0; 64]) - exact).abs() < 0.02);
        }
    }
}
