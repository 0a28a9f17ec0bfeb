//! What agents are about that are known by a description alone: people ask in other words than publishers describe in, so a
//! description without examples is compared with a sentence by what their words mean, and by a model of embeddings where
//! there is one.
//!
//! What is for nobody is like a description too, a little. So each description competes with a list of topics that people
//! ask about; topics that are like one of the descriptions are no competitors.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::candidate::Candidate;
use crate::dense::{Dense, Vectors};
use crate::features::words;
use crate::lexicon::{Meaning, Word};
use crate::rows::Row;

/// What people ask about, one topic a line.
const TOPICS: &str = include_str!("topics.txt");
/// A topic that is so like a description is its own.
const OWN: f32 = 0.4;
/// Words of a description, and of a sentence, that are compared.
const DESCRIPTION_WORDS_MAX: usize = 64;
const SENTENCE_WORDS_MAX: usize = 32;
/// Lines of a description that are read.
const LINES_MAX: usize = 64;
/// Clauses, and words, of which dense vectors are wanted; of a stranger's description, fewer.
const PARTS_MAX: usize = 24;
const STRANGE_PARTS_MAX: usize = 4;
/// Letters of a word of which one is wanted, and how much it says at least.
const LETTERS_MIN: usize = 3;
const WEIGHT_MIN: f32 = 0.5;

/// How much the likeness to the nearest topic counts against a description.
const TOPIC_PART: f32 = 0.5;
/// The least margin of a sentence that is for an agent. Of 325 sentences for twelve agents and 62 for none, in the English part
/// of docs/examples/routing/utterances.csv with a description for each agent, this refuses 52 of the 62.
const LEAST: f32 = 0.13;
/// The same with dense vectors: of clauses, of the two nearest words, of the words' meaning, and of topics.
const CLAUSE_PART: f32 = 0.5;
const WORD_PART: f32 = 0.5;
const MEANING_PART: f32 = 0.5;
const DENSE_TOPIC_PART: f32 = 0.75;
const DENSE_LEAST: f32 = 0.2;
/// How fast a score rises with the margin.
const SLOPE: f32 = 4.0;

/// Whether nothing but a description tells what a candidate is for.
pub(crate) fn is_alone(candidate: &Candidate, rows: &[&Row]) -> bool {
    candidate.examples().next().is_none() && !rows.iter().any(|row| candidate.is(&row.agent))
}

pub(crate) fn topics() -> impl Iterator<Item = &'static str> {
    TOPICS.lines()
}

/// The texts of a description of which dense vectors are wanted.
pub(crate) struct Parts {
    pub whole: String,
    pub clauses: Vec<String>,
    pub words: Vec<String>,
}

impl Parts {
    pub fn of(candidate: &Candidate) -> Parts {
        let most = if candidate.near { PARTS_MAX } else { STRANGE_PARTS_MAX };
        let lines = lines(candidate);
        let parted = lines.iter().skip(1).flat_map(|line| line.split([',', '.', ';', ':']));
        let parted = parted.flat_map(|part| part.split(" and ")).flat_map(|part| part.split(" or ")).map(str::trim);
        let mut clauses: Vec<String> = Vec::new();
        for clause in parted.filter(|clause| !clause.is_empty()) {
            if clauses.len() < most && clauses.iter().all(|other| other != clause) {
                clauses.push(clause.to_owned());
            }
        }
        let whole = lines.join(" ");
        let says = |word: &String| {
            word.chars().count() >= LETTERS_MIN && Word::find(word).is_none_or(|word| word.weight >= WEIGHT_MIN)
        };
        let mut single: Vec<String> = Vec::new();
        for word in words(&whole).into_iter().filter(says) {
            if single.len() < most && !single.contains(&word) {
                single.push(word);
            }
        }
        Parts { whole, clauses, words: single }
    }

    /// All of them.
    pub fn all(self) -> impl Iterator<Item = String> {
        std::iter::once(self.whole).chain(self.clauses).chain(self.words)
    }
}

/// Its name, and the lines of its description, each once.
fn lines(candidate: &Candidate) -> Vec<&str> {
    let mut found = vec![candidate.name.as_str()];
    for line in candidate.lines().map(str::trim).take(LINES_MAX) {
        if !found.iter().any(|other| other.eq_ignore_ascii_case(line)) {
            found.push(line);
        }
    }
    found
}

/// What one agent is about.
struct Subject {
    /// The places of its words in a vocabulary, and how much the likeness to each of them counts.
    words: Vec<(usize, f32)>,
    meaning: Meaning,
    /// Which topics compete with it.
    rivals: Vec<bool>,
    dense: Option<DenseSubject>,
}

/// The same, as a model of embeddings sees it.
struct DenseSubject {
    whole: Dense,
    clauses: Vec<Dense>,
    words: Vec<Dense>,
    rivals: Vec<bool>,
}

/// A vector of length 1.
fn unit(values: &Arc<[i8]>) -> Dense {
    Dense::new(values.clone(), 1.0)
}

/// What the words of some descriptions mean, each once.
#[derive(Default)]
struct Vocabulary {
    meanings: Vec<Meaning>,
    /// The places of words there, by their places in the table.
    places: BTreeMap<usize, usize>,
}

impl Vocabulary {
    /// The place of a word, which is added if it is new.
    fn place(&mut self, word: &Word) -> usize {
        let next = self.meanings.len();
        let place = *self.places.entry(word.place).or_insert(next);
        if place == next {
            self.meanings.push(Meaning::of(std::slice::from_ref(word)));
        }
        place
    }
}

impl Subject {
    fn of(candidate: &Candidate, vectors: Option<&Vectors>, vocabulary: &mut Vocabulary) -> Subject {
        let words = Word::all(&lines(candidate).join(" "), DESCRIPTION_WORDS_MAX);
        let meaning = Meaning::of(&words);
        let words = words.iter().map(|word| (vocabulary.place(word), word.weight.sqrt())).collect();
        let dense = vectors.and_then(|vectors| DenseSubject::of(&Parts::of(candidate), vectors));
        Subject { words, meaning, rivals: Vec::new(), dense }
    }
}

impl DenseSubject {
    fn of(parts: &Parts, vectors: &Vectors) -> Option<DenseSubject> {
        let whole = unit(vectors.of(&parts.whole)?);
        let all =
            |texts: &[String]| -> Vec<Dense> { texts.iter().filter_map(|text| vectors.of(text)).map(unit).collect() };
        Some(DenseSubject { whole, clauses: all(&parts.clauses), words: all(&parts.words), rivals: Vec::new() })
    }

    /// How much more like this a sentence is than like the topics that compete with it.
    fn margin(&self, sentence: &Dense, meaning: f32, topics: &[f32]) -> f32 {
        let mut words: Vec<f32> = self.words.iter().map(|word| sentence.likeness(word)).collect();
        words.sort_unstable_by(|a, b| b.total_cmp(a));
        words.truncate(2);
        let nearest = words.iter().sum::<f32>() / words.len().max(1) as f32;
        let clause = highest(self.clauses.iter().map(|clause| sentence.likeness(clause)));
        sentence.likeness(&self.whole) + CLAUSE_PART * clause + WORD_PART * nearest + MEANING_PART * meaning
            - DENSE_TOPIC_PART * rival(topics, &self.rivals)
            - DENSE_LEAST
    }
}

/// The highest of some numbers, 0 at least.
fn highest(numbers: impl Iterator<Item = f32>) -> f32 {
    numbers.fold(0.0, f32::max)
}

/// The likeness to the nearest topic that competes.
fn rival(topics: &[f32], rivals: &[bool]) -> f32 {
    highest(topics.iter().zip(rivals).filter(|(_, rival)| **rival).map(|(likeness, _)| *likeness))
}

/// Which topics compete with each of some subjects: those that are neither its own nor a near subject's. So a stranger's
/// description changes no other subject's score.
fn rivals(own: &[Vec<bool>], near: usize, topics: usize) -> Vec<Vec<bool>> {
    let taken = |topic: usize| own.iter().take(near).any(|own| own[topic]);
    let taken: Vec<bool> = (0..topics).map(taken).collect();
    own.iter().map(|own| own.iter().zip(&taken).map(|(own, taken)| !own && !taken).collect()).collect()
}

/// What the agents are about that are known by a description alone.
#[derive(Default)]
pub(crate) struct Subjects {
    /// Each with its candidate's place; near ones first.
    of: Vec<(usize, Subject)>,
    vocabulary: Vocabulary,
    topics: Vec<Meaning>,
    dense_topics: Vec<Dense>,
}

impl Subjects {
    /// Of candidates, of which the first `near` are near ones.
    pub fn new(candidates: &[Candidate], near: usize, rows: &[&Row], vectors: Option<&Vectors>) -> Subjects {
        let mut vocabulary = Vocabulary::default();
        let alone = candidates.iter().enumerate().filter(|(_, candidate)| is_alone(candidate, rows));
        let mut of: Vec<(usize, Subject)> =
            alone.map(|(place, candidate)| (place, Subject::of(candidate, vectors, &mut vocabulary))).collect();
        if of.is_empty() {
            return Subjects::default();
        }
        let topics: Vec<Meaning> =
            topics().map(|topic| Meaning::of(&Word::all(topic, DESCRIPTION_WORDS_MAX))).collect();
        let dense_topics: Vec<Dense> = vectors
            .map_or_else(Vec::new, |vectors| self::topics().filter_map(|topic| vectors.of(topic)).map(unit).collect());
        let own: Vec<Vec<bool>> = of
            .iter()
            .map(|(_, subject)| topics.iter().map(|topic| topic.likeness(&subject.meaning) >= OWN).collect())
            .collect();
        let dense_own: Vec<Vec<bool>> = of
            .iter()
            .map(|(_, subject)| {
                let like = |topic: &Dense| subject.dense.as_ref().map_or(0.0, |dense| topic.likeness(&dense.whole));
                dense_topics.iter().map(|topic| like(topic) >= OWN).collect()
            })
            .collect();
        let near = of.iter().take_while(|(place, _)| *place < near).count();
        let (rivals, dense_rivals) = (rivals(&own, near, topics.len()), rivals(&dense_own, near, dense_topics.len()));
        for ((_, subject), (rivals, dense_rivals)) in of.iter_mut().zip(rivals.into_iter().zip(dense_rivals)) {
            subject.rivals = rivals;
            if let Some(dense) = &mut subject.dense {
                dense.rivals = dense_rivals;
            }
        }
        Subjects { of, vocabulary, topics, dense_topics }
    }

    /// How surely a sentence is for each of them, 0 to 1, with the places of their candidates; the least score of a sentence
    /// that is for an agent becomes `threshold`.
    pub fn shares(&self, sentence: &str, vector: Option<&Arc<[i8]>>, threshold: f32) -> Vec<(usize, f32)> {
        if self.of.is_empty() {
            return Vec::new();
        }
        let (words, vector) = (Word::all(sentence, SENTENCE_WORDS_MAX), vector.map(unit));
        let meaning = Meaning::of(&words);
        let explained = self.explained(&words);
        let topics: Vec<f32> = self.topics.iter().map(|topic| topic.likeness(&meaning)).collect();
        let dense_topics: Vec<f32> = vector
            .as_ref()
            .map_or_else(Vec::new, |vector| self.dense_topics.iter().map(|topic| topic.likeness(vector)).collect());
        // Where a margin of 0 lies on the way from 0 to 1.
        let threshold = threshold.clamp(0.01, 0.99);
        let middle = (threshold / (1.0 - threshold)).ln();
        let shares = self.of.iter().zip(explained).map(|((place, subject), explained)| {
            let alike = meaning.likeness(&subject.meaning);
            let margin = match (&subject.dense, &vector) {
                (Some(dense), Some(vector)) => dense.margin(vector, alike, &dense_topics),
                // Of words that nobody knows nothing can be said.
                _ if words.is_empty() || subject.words.is_empty() => return (*place, 0.0),
                _ => alike + explained - TOPIC_PART * rival(&topics, &subject.rivals) - LEAST,
            };
            (*place, 1.0 / (1.0 + (-SLOPE * margin - middle).exp()))
        });
        shares.collect()
    }

    /// How much of the words each subject explains, 0 to 1: each word by the one of the subject's that is most like it.
    fn explained(&self, words: &[Word]) -> Vec<f32> {
        let (mut explained, mut all) = (vec![0.0; self.of.len()], 0.0);
        for word in words {
            all += word.weight;
            let meaning = Meaning::of(std::slice::from_ref(word));
            let like: Vec<f32> = self.vocabulary.meanings.iter().map(|own| meaning.likeness(own)).collect();
            for ((_, subject), explained) in self.of.iter().zip(&mut explained) {
                let like = highest(subject.words.iter().map(|(place, counts)| like[*place] * counts)).min(1.0);
                *explained += word.weight * like * like;
            }
        }
        if all > 0.0 {
            explained.iter_mut().for_each(|explained| *explained /= all);
        }
        explained
    }
}
