//! The decision: scores of all candidates, and which of them the sentence is for.

use std::sync::Arc;

use crate::candidate::Candidate;
use crate::classifier::{Classifier, Sampler};
use crate::dense::Vectors;
use crate::features::SENTENCE_CHARS_MAX;
use crate::keyword::Keywords;
use crate::linear::Sample;
use crate::mode::{Mode, Thresholds};
use crate::rows::Row;
use crate::subject::Subjects;

/// Two candidates whose scores differ by less are close: whoever asks is asked back.
const CLOSE: f32 = 0.05;
/// The part of keywords in a hybrid score; the rest is the classifier's.
const KEYWORD_PART: f32 = 0.25;

/// Whom a sentence is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The candidate at that place.
    To(usize),
    /// One of these two.
    Close(usize, usize),
    /// None.
    Nobody,
}

/// A candidate's scores, each 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scored {
    /// Its place among the candidates.
    pub candidate: usize,
    /// The share of the sentence that its words explain.
    pub keyword: f32,
    /// How sure the classifier is; of an agent that is known by a description alone, how alike it is, if that is more.
    pub vector: f32,
    /// The score in the mode that was asked for.
    pub score: f32,
}

/// A decision, and how it came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Route {
    /// The decision.
    pub decision: Decision,
    /// All candidates, the best first.
    pub scored: Vec<Scored>,
    /// The least score of a sentence that is for an agent.
    pub threshold: f32,
}

/// Candidates, and what was learned of them.
pub struct Router {
    candidates: Vec<Candidate>,
    keywords: Keywords,
    classifier: Classifier,
    subjects: Subjects,
    thresholds: Thresholds,
}

impl Router {
    pub(crate) fn with(
        candidates: Vec<Candidate>,
        rows: &[&Row],
        background: &[&'static str],
        vectors: Option<&Vectors>,
        subjects: Subjects,
        thresholds: Thresholds,
    ) -> Router {
        let sampler = Sampler(vectors);
        let near = candidates.iter().take_while(|candidate| candidate.near).count();
        let (nearer, strangers) = candidates.split_at(near);
        let said = nearer.iter().enumerate().flat_map(|(class, candidate)| sampler.said_by(candidate, class));
        let labelled = rows.iter().map(|row| sampler.of_row(row, nearer));
        let mut samples: Vec<Sample> =
            said.chain(labelled).chain(background.iter().map(|sentence| sampler.of_none(sentence))).collect();
        mix(&mut samples);
        let classifier = Classifier::train(&samples, near, strangers, rows, sampler);
        let keywords = Keywords::new(&texts(&candidates, rows), near);
        Router { candidates, keywords, classifier, subjects, thresholds }
    }

    /// The candidates in order, near ones first: places lead here.
    #[must_use]
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// The least scores of a sentence that is for an agent.
    #[must_use]
    pub fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Whom a sentence is for, by its dense vector too, if this router learned from such vectors. What is after
    /// [`SENTENCE_CHARS_MAX`] characters is not read.
    #[must_use]
    pub fn route(&self, mode: Mode, sentence: &str, vector: Option<&Arc<[i8]>>) -> Route {
        let mut scored = self.scored(mode, sentence, vector);
        // Stable: of two that score the same, the nearer one comes first.
        scored.sort_by(|a, b| b.score.total_cmp(&a.score));
        let threshold = self.thresholds.of(mode);
        let decision = match scored.as_slice() {
            [first, second, ..] if second.score >= threshold && first.score - second.score < CLOSE => {
                Decision::Close(first.candidate, second.candidate)
            }
            [first, ..] if first.score >= threshold && first.score > 0.0 => Decision::To(first.candidate),
            _ => Decision::Nobody,
        };
        Route { decision, scored, threshold }
    }

    /// The best candidate and its score, whether or not it is good enough.
    pub(crate) fn best(&self, mode: Mode, sentence: &str, vector: Option<&Arc<[i8]>>) -> Option<(usize, f32)> {
        let scored = self.scored(mode, sentence, vector);
        let best = scored.iter().reduce(|best, other| if other.score > best.score { other } else { best });
        best.map(|best| (best.candidate, best.score))
    }

    fn scored(&self, mode: Mode, sentence: &str, vector: Option<&Arc<[i8]>>) -> Vec<Scored> {
        let end = sentence.char_indices().nth(SENTENCE_CHARS_MAX).map_or(sentence.len(), |(end, _)| end);
        let sentence = &sentence[..end];
        let none = || vec![0.0; self.candidates.len()];
        let keywords = if mode == Mode::Vector { none() } else { self.keywords.scores(sentence) };
        let vectors = if mode == Mode::Keyword { none() } else { self.classifier.scores(sentence, vector) };
        let mut alike = none();
        if mode != Mode::Keyword {
            let shares = self.subjects.shares(sentence, vector, self.thresholds.of(mode));
            shares.into_iter().for_each(|(candidate, share)| alike[candidate] = share);
        }
        let scores = keywords.into_iter().zip(vectors).zip(alike).enumerate();
        let scored = scores.map(|(candidate, ((keyword, vector), alike))| {
            let score = match mode {
                Mode::Keyword => keyword,
                Mode::Vector => vector,
                Mode::Hybrid => KEYWORD_PART * keyword + (1.0 - KEYWORD_PART) * vector,
            };
            Scored { candidate, keyword, vector: vector.max(alike), score: score.max(alike) }
        });
        scored.collect()
    }
}

/// The text of each candidate: what it says, and the rows that are for it.
fn texts(candidates: &[Candidate], rows: &[&Row]) -> Vec<String> {
    let mut texts: Vec<String> = candidates
        .iter()
        .map(|candidate| {
            let lines = [candidate.description()].into_iter().chain(candidate.examples());
            lines.collect::<Vec<_>>().join("\n")
        })
        .collect();
    for row in rows {
        if let Some(place) = candidates.iter().position(|candidate| candidate.is(&row.agent)) {
            texts[place].push('\n');
            texts[place].push_str(&row.instruction);
        }
    }
    texts
}

/// Mixes samples of all classes, the same way each time: a learner that sees one class after the other takes longer.
fn mix(samples: &mut [Sample]) {
    samples.sort_by_cached_key(|sample| {
        let features = sample.vector.sparse.iter().map(|(feature, _)| u64::from(*feature));
        features.fold(0xcbf2_9ce4_8422_2325_u64, |hash, feature| (hash ^ feature).wrapping_mul(0x0100_0000_01b3))
    });
}
