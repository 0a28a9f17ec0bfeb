//! Ranking by keywords: BM25 with the tokenizer of `find`, as the share of the sentence that an agent's words explain.

use std::collections::BTreeMap;

use bm25::{DefaultTokenizer, Embedder, EmbedderBuilder, Language, LanguageMode};

/// The highest weight of a word in a document, by BM25's usual parameters (k1 + 1).
const WEIGHT_MAX: f32 = 2.2;
/// Words that a document has at least for the average length: agents with few words do not count as long.
const USUAL_WORDS: f32 = 20.0;

/// The index of the candidates' words.
pub(crate) struct Keywords {
    embedder: Embedder<u32, DefaultTokenizer>,
    /// The documents that have a word, in order, with its weight.
    words: BTreeMap<u32, Posting>,
    documents: usize,
    /// Near documents: only these decide how rare a word is.
    near: usize,
}

#[derive(Default)]
struct Posting {
    near: usize,
    documents: Vec<(usize, f32)>,
}

impl Keywords {
    /// An index of texts, of which the first `near` are of near agents.
    pub fn new(texts: &[String], near: usize) -> Keywords {
        // The language is fixed, as in `find`: what is found must not depend on what a detector makes of ten words.
        let tokenizer = || DefaultTokenizer::new(LanguageMode::Fixed(Language::English));
        let lengths = texts.iter().take(near).map(|text| text.split_whitespace().count() as f32);
        let usual = (lengths.sum::<f32>() / near.max(1) as f32).max(USUAL_WORDS);
        let embedder = EmbedderBuilder::with_avgdl(usual).tokenizer(tokenizer()).build();
        let mut words: BTreeMap<u32, Posting> = BTreeMap::new();
        for (document, text) in texts.iter().enumerate() {
            for (word, weight) in embedded(&embedder, text) {
                let posting = words.entry(word).or_default();
                posting.near += usize::from(document < near);
                posting.documents.push((document, weight));
            }
        }
        Keywords { embedder, words, documents: texts.len(), near }
    }

    /// How much of the sentence each document explains, 0 to 1.
    pub fn scores(&self, sentence: &str) -> Vec<f32> {
        let (mut scores, mut all) = (vec![0.0; self.documents], 0.0);
        for (word, _) in embedded(&self.embedder, sentence) {
            let posting = self.words.get(&word);
            let (count, having) = (self.near as f32, posting.map_or(0, |posting| posting.near) as f32);
            let rarity = (1.0 + (count - having + 0.5) / (having + 0.5)).ln();
            all += rarity;
            for (document, weight) in posting.into_iter().flat_map(|posting| &posting.documents) {
                scores[*document] += rarity * (weight / WEIGHT_MAX).min(1.0);
            }
        }
        if all > 0.0 {
            scores.iter_mut().for_each(|score| *score /= all);
        }
        scores
    }
}

/// The words of a text, each once, with their weights.
fn embedded(embedder: &Embedder<u32, DefaultTokenizer>, text: &str) -> Vec<(u32, f32)> {
    let mut words: Vec<(u32, f32)> = embedder.embed(text).iter().map(|word| (word.index, word.value)).collect();
    words.sort_unstable_by_key(|(word, _)| *word);
    words.dedup_by_key(|(word, _)| *word);
    words
}
