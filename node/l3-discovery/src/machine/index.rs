//! What the catalogue is searched by: names, capabilities, actions, targets, and free text (BM25 in memory).

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{AgentId, PublicKey};
use bm25::{DefaultTokenizer, Embedder, EmbedderBuilder, Language, LanguageMode, Scorer};

use crate::machine::catalogue::Candidate;

/// Words that a description usually has; BM25 weighs longer ones down against this.
const USUAL_WORDS: f32 = 60.0;

/// Numbers of documents.
pub(crate) type Numbers = BTreeSet<u32>;

/// The index. An agent on a node is a document with a number; a number is not used twice.
pub struct Index {
    embedder: Embedder<u32, DefaultTokenizer>,
    scorer: Scorer<u32>,
    documents: BTreeMap<u32, (PublicKey, Candidate)>,
    names: Postings,
    capabilities: Postings,
    actions: Postings,
    targets: Postings,
    next: u32,
}

/// Which documents have a word.
#[derive(Default)]
struct Postings(BTreeMap<String, Numbers>);

impl Postings {
    fn add(&mut self, word: String, number: u32) {
        self.0.entry(word).or_default().insert(number);
    }

    fn remove(&mut self, word: &str, number: u32) {
        if let Some(numbers) = self.0.get_mut(word) {
            numbers.remove(&number);
            if numbers.is_empty() {
                self.0.remove(word);
            }
        }
    }

    fn exact(&self, word: &str) -> Numbers {
        self.0.get(word).cloned().unwrap_or_default()
    }

    fn beginning(&self, prefix: &str) -> Numbers {
        let from = self.0.range(prefix.to_owned()..).take_while(|(word, _)| word.starts_with(prefix));
        from.flat_map(|(_, numbers)| numbers.iter().copied()).collect()
    }
}

impl Default for Index {
    fn default() -> Self {
        // The language is fixed: what is found must not depend on what a detector makes of ten words.
        let tokenizer = DefaultTokenizer::new(LanguageMode::Fixed(Language::English));
        let embedder = EmbedderBuilder::with_avgdl(USUAL_WORDS).tokenizer(tokenizer).build();
        Index {
            embedder,
            scorer: Scorer::new(),
            documents: BTreeMap::new(),
            names: Postings::default(),
            capabilities: Postings::default(),
            actions: Postings::default(),
            targets: Postings::default(),
            next: 0,
        }
    }
}

/// As much of a description's words as is searched: a long one would take many times its size.
const TEXT_BYTES_MAX: usize = 8 << 10;

fn beginning(text: &str) -> &str {
    &text[..text.floor_char_boundary(TEXT_BYTES_MAX)]
}

impl Index {
    /// Adds an agent on a node; its number takes it out again.
    pub fn add(&mut self, candidate: Candidate) -> u32 {
        let number = self.next;
        self.next += 1;
        let text = candidate.description.search_text();
        self.scorer.upsert(&number, self.embedder.embed(beginning(&text)));
        self.names.add(candidate.verified.agent.name().to_owned(), number);
        for capability in candidate.description.capabilities() {
            self.capabilities.add(capability.id.clone(), number);
            capability.action.iter().for_each(|action| self.actions.add(action.to_lowercase(), number));
            capability.target.iter().for_each(|target| self.targets.add(target.to_lowercase(), number));
        }
        self.documents.insert(number, (candidate.verified.node, candidate));
        number
    }

    /// Takes an agent on a node out.
    pub fn remove(&mut self, number: u32) {
        let Some((_, candidate)) = self.documents.remove(&number) else { return };
        self.scorer.remove(&number);
        self.names.remove(candidate.verified.agent.name(), number);
        for capability in candidate.description.capabilities() {
            self.capabilities.remove(&capability.id, number);
            capability.action.iter().for_each(|action| self.actions.remove(&action.to_lowercase(), number));
            capability.target.iter().for_each(|target| self.targets.remove(&target.to_lowercase(), number));
        }
    }

    /// What matches `text`, the best first; equal ones in the order in which they were added.
    #[must_use]
    pub fn search(&self, text: &str) -> Vec<(u32, f32)> {
        let mut hits: Vec<(u32, f32)> =
            self.scorer.matches(&self.embedder.embed(text)).into_iter().map(|hit| (hit.id, hit.score)).collect();
        hits.sort_unstable_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        hits
    }

    /// Those with the capability; `billing.*` means all whose id begins with `billing.`.
    pub(crate) fn with_capability(&self, id: &str) -> Numbers {
        match id.strip_suffix('*') {
            Some(prefix) => self.capabilities.beginning(prefix),
            None => self.capabilities.exact(id),
        }
    }

    /// Those with a capability of that action.
    pub(crate) fn with_action(&self, action: &str) -> Numbers {
        self.actions.exact(&action.to_lowercase())
    }

    /// Those with a capability of that target.
    pub(crate) fn with_target(&self, target: &str) -> Numbers {
        self.targets.exact(&target.to_lowercase())
    }

    /// The ids of the agents of that name, each once.
    pub(crate) fn named(&self, name: &str) -> BTreeSet<AgentId> {
        let numbers = self.names.exact(name);
        numbers.iter().filter_map(|number| Some(self.document(*number)?.1.verified.agent.clone())).collect()
    }

    pub(crate) fn document(&self, number: u32) -> Option<&(PublicKey, Candidate)> {
        self.documents.get(&number)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.documents.keys().copied()
    }
}
