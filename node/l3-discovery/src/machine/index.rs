//! What the catalogue is searched by: names, capabilities, actions, targets, and free text (BM25 in memory).

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{AgentId, PublicKey};
use althing_td::Description;
use bm25::{DefaultTokenizer, Embedder, EmbedderBuilder, Language, LanguageMode};

use crate::machine::node::Candidate;

/// Words that a description usually has; BM25 weighs longer ones down against this.
const USUAL_WORDS: f32 = 60.0;

/// Numbers of documents.
pub(crate) type Numbers = BTreeSet<u32>;

/// The index. An agent on a node is a document with a number; a number is not used twice.
pub struct Index {
    embedder: Embedder<u32, DefaultTokenizer>,
    words: Words,
    documents: BTreeMap<u32, Document>,
    names: Postings,
    capabilities: Postings,
    actions: Postings,
    targets: Postings,
    next: u32,
}

/// An agent on a node.
struct Document {
    node: PublicKey,
    candidate: Candidate,
    /// The words of its description, for when it is taken out.
    words: Box<[u32]>,
}

/// The words of a description, each once, and how much each says about it (BM25).
pub struct Weighed(Vec<(u32, f32)>);

impl Weighed {
    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// True for a description that says nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The documents that have each word, in ascending order. (The scorer of the crate `bm25` keeps each word that was ever seen,
/// so that whoever changes its descriptions again and again would fill the memory.)
#[derive(Default)]
struct Words(BTreeMap<u32, Vec<(u32, f32)>>);

impl Words {
    /// The highest number is added last.
    fn add(&mut self, number: u32, words: &Weighed) {
        words.0.iter().for_each(|(word, weight)| self.0.entry(*word).or_default().push((number, *weight)));
    }

    fn remove(&mut self, number: u32, words: &[u32]) {
        for word in words {
            let Some(documents) = self.0.get_mut(word) else { continue };
            if let Ok(at) = documents.binary_search_by_key(&number, |(document, _)| *document) {
                documents.remove(at);
            }
            if documents.is_empty() {
                self.0.remove(word);
            }
        }
    }

    /// The documents, of `all` there are, that have one of these words, in ascending order, and how well each fits.
    fn score(&self, words: impl Iterator<Item = u32>, all: usize) -> Vec<(u32, f32)> {
        let lists = words.filter_map(|word| self.0.get(&word));
        lists.fold(Vec::new(), |hits, documents| {
            let having = documents.len() as f32;
            // How much the word says at all: the rarer, the more.
            let rarity = (1.0 + (all as f32 - having + 0.5) / (having + 0.5)).ln();
            merged(&hits, documents.iter().map(|(document, weight)| (*document, rarity * weight)))
        })
    }
}

/// Two lists in ascending order; what is in both is added up.
fn merged(hits: &[(u32, f32)], more: impl Iterator<Item = (u32, f32)>) -> Vec<(u32, f32)> {
    let (mut all, mut hits) = (Vec::with_capacity(hits.len()), hits.iter().copied().peekable());
    for (document, score) in more {
        all.extend(std::iter::from_fn(|| hits.next_if(|(other, _)| *other < document)));
        let before = hits.next_if(|(other, _)| *other == document).map_or(0.0, |(_, before)| before);
        all.push((document, before + score));
    }
    all.extend(hits);
    all
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
            words: Words::default(),
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
    /// The words of a description, as [`Index::add`] wants them.
    #[must_use]
    pub fn words(&self, description: &Description) -> Weighed {
        let embedding = self.embedder.embed(beginning(&description.search_text()));
        let mut words: Vec<(u32, f32)> = embedding.iter().map(|word| (word.index, word.value)).collect();
        // A word that comes again weighs the same each time.
        words.sort_unstable_by_key(|(word, _)| *word);
        words.dedup_by_key(|(word, _)| *word);
        words.shrink_to_fit();
        Weighed(words)
    }

    /// Adds an agent on a node, with the words of its description; its number takes it out again.
    pub fn add(&mut self, candidate: Candidate, words: Weighed) -> u32 {
        let number = self.next;
        self.next += 1;
        self.words.add(number, &words);
        self.names.add(candidate.verified.agent.name().to_owned(), number);
        for capability in candidate.description.capabilities() {
            self.capabilities.add(capability.id.clone(), number);
            capability.action.iter().for_each(|action| self.actions.add(action.to_lowercase(), number));
            capability.target.iter().for_each(|target| self.targets.add(target.to_lowercase(), number));
        }
        let words = words.0.into_iter().map(|(word, _)| word).collect();
        self.documents.insert(number, Document { node: candidate.verified.node, candidate, words });
        number
    }

    /// Takes an agent on a node out.
    pub fn remove(&mut self, number: u32) {
        let Some(Document { candidate, words, .. }) = self.documents.remove(&number) else { return };
        self.words.remove(number, &words);
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
        let wanted = self.embedder.embed(text);
        let mut hits = self.words.score(wanted.iter().map(|word| word.index), self.documents.len());
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

    pub(crate) fn document(&self, number: u32) -> Option<(&PublicKey, &Candidate)> {
        self.documents.get(&number).map(|document| (&document.node, &document.candidate))
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = u32> {
        self.documents.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn weighed(words: &[u32]) -> Weighed {
        Weighed(words.iter().map(|word| (*word, 1.0)).collect())
    }

    #[test]
    fn words_that_nobody_has_any_more_are_forgotten() {
        let mut words = Words::default();
        for number in 0..1_000 {
            let own = weighed(&[1, 10 + number, 5_000 + number]);
            words.add(number, &own);
            if number >= 10 {
                words.remove(number - 10, &[1, number, 4_990 + number]);
            }
        }
        assert_eq!(words.0.len(), 21);
        assert_eq!(words.0[&1].len(), 10);
    }

    #[test]
    fn the_rarer_a_word_the_more_it_says_and_all_that_fit_add_up() {
        let mut words = Words::default();
        for (number, of) in [&[1_u32, 2][..], &[1], &[1, 3], &[4]].into_iter().enumerate() {
            words.add(u32::try_from(number).expect("few"), &weighed(of));
        }
        let best = |wanted: &[u32]| {
            let mut hits = words.score(wanted.iter().copied(), 4);
            assert!(hits.is_sorted_by_key(|(document, _)| *document));
            hits.sort_by(|a, b| b.1.total_cmp(&a.1));
            hits.into_iter().map(|(document, _)| document).collect::<Vec<u32>>()
        };
        assert_eq!(best(&[1, 3])[0], 2);
        assert_eq!(best(&[1, 4])[0], 3);
        assert_eq!(best(&[1]).len(), 3);
        assert_eq!(best(&[9]), [0; 0]);
    }
}
