//! Free-text search over descriptions: BM25 in memory.

use std::collections::BTreeMap;

use althing_protocol::{AgentId, PublicKey};
use bm25::{DefaultTokenizer, Embedder, EmbedderBuilder, Language, LanguageMode, Scorer};

/// Words that a description usually has; BM25 weighs longer ones down against this.
const USUAL_WORDS: f32 = 60.0;

/// The index. Documents are numbered; a number is not used twice.
pub struct Index {
    embedder: Embedder<u32, DefaultTokenizer>,
    scorer: Scorer<u32>,
    documents: BTreeMap<u32, (PublicKey, AgentId)>,
    next: u32,
}

impl Default for Index {
    fn default() -> Self {
        // The language is fixed: what is found must not depend on what a detector makes of ten words.
        let tokenizer = DefaultTokenizer::new(LanguageMode::Fixed(Language::English));
        let embedder = EmbedderBuilder::with_avgdl(USUAL_WORDS).tokenizer(tokenizer).build();
        Index { embedder, scorer: Scorer::new(), documents: BTreeMap::new(), next: 0 }
    }
}

impl Index {
    /// Adds a text; its number takes it out again.
    pub fn add(&mut self, node: PublicKey, agent: &AgentId, text: &str) -> u32 {
        let number = self.next;
        self.next += 1;
        self.scorer.upsert(&number, self.embedder.embed(text));
        self.documents.insert(number, (node, agent.clone()));
        number
    }

    /// Takes a text out.
    pub fn remove(&mut self, number: u32) {
        self.scorer.remove(&number);
        self.documents.remove(&number);
    }

    /// What matches `text`, the best first; equal ones in the order in which they were added.
    #[must_use]
    pub fn search(&self, text: &str) -> Vec<(u32, f32)> {
        let mut hits: Vec<(u32, f32)> =
            self.scorer.matches(&self.embedder.embed(text)).into_iter().map(|hit| (hit.id, hit.score)).collect();
        hits.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        hits
    }

    pub(crate) fn document(&self, number: u32) -> Option<&(PublicKey, AgentId)> {
        self.documents.get(&number)
    }
}
