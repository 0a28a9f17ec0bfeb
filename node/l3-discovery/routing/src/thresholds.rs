//! From which score on a sentence is for an agent. Set by cross-validation where there are enough labelled rows.

use crate::candidate::Candidate;
use crate::router::{Mode, Router};
use crate::rows::Row;

/// Parts of cross-validation.
const FOLDS: usize = 5;
/// Rows for agents with which thresholds are set.
const ROWS_MIN: usize = 50;
/// Above so many rows one part is enough.
const ROWS_MANY: usize = 2_000;
/// The share of what is for no agent that is to be refused. Sentences of tomorrow are less like those of today than these are
/// like each other, hence more than what is promised.
const REFUSED: f32 = 0.95;

/// The least score of a sentence that is for an agent, 0 to 1, in each mode.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Thresholds {
    /// The share of its words that keywords explain.
    pub keyword: f32,
    /// Of the classifier.
    pub vector: f32,
    /// Of both together.
    pub hybrid: f32,
}

impl Default for Thresholds {
    fn default() -> Self {
        Thresholds { keyword: 0.3, vector: 0.35, hybrid: 0.33 }
    }
}

impl Thresholds {
    /// The threshold of a mode that has one.
    #[must_use]
    pub fn of(&self, mode: Mode) -> f32 {
        match mode {
            Mode::Keyword => self.keyword,
            Mode::Vector => self.vector,
            Mode::Hybrid => self.hybrid,
        }
    }

    /// The thresholds by cross-validation on `rows` and the sentences of `background`, all of which are in order; the default
    /// where there are too few.
    pub(crate) fn validated(near: &[Candidate], rows: &[&Row], background: &[&'static str]) -> Thresholds {
        let known = |row: &&&Row| near.iter().any(|candidate| candidate.is(&row.agent));
        if rows.iter().filter(known).count() < ROWS_MIN {
            return Thresholds::default();
        }
        let folds = if rows.len() > ROWS_MANY { 1 } else { FOLDS };
        let mut hits = [Vec::new(), Vec::new(), Vec::new()];
        for fold in 0..folds {
            let outside = |place: usize| place % FOLDS != fold;
            let learned: Vec<&Row> = kept(rows, outside);
            let router = Router::with(near.to_vec(), &learned, &kept(background, outside), Thresholds::default());
            let tested = kept(rows, |place| !outside(place)).into_iter().map(|row| {
                let wanted = near.iter().position(|candidate| candidate.is(&row.agent));
                (row.instruction.as_str(), wanted)
            });
            let tested = tested.chain(kept(background, |place| !outside(place)).into_iter().map(|text| (text, None)));
            for (sentence, wanted) in tested {
                for (mode, hits) in Mode::ALL.into_iter().zip(&mut hits) {
                    let best = router.best(mode, sentence);
                    let score = best.map_or(0.0, |(_, score)| score);
                    hits.push(Hit { score, wanted: wanted.is_some(), right: best.map(|(place, _)| place) == wanted });
                }
            }
        }
        let [keyword, vector, hybrid] = hits.map(threshold);
        Thresholds { keyword, vector, hybrid }
    }
}

fn kept<T: Copy>(all: &[T], which: impl Fn(usize) -> bool) -> Vec<T> {
    all.iter().enumerate().filter(|(place, _)| which(*place)).map(|(_, one)| *one).collect()
}

/// A tested sentence.
struct Hit {
    score: f32,
    /// Whether it is for an agent.
    wanted: bool,
    /// Whether the best agent is that one.
    right: bool,
}

/// The lowest score above [`REFUSED`] of what is for no agent, but no higher than what loses nothing that is right.
fn threshold(hits: Vec<Hit>) -> f32 {
    let mut outside: Vec<f32> = hits.iter().filter(|hit| !hit.wanted).map(|hit| hit.score).collect();
    outside.sort_unstable_by(f32::total_cmp);
    let Some(last) = outside.len().checked_sub(1) else { return Thresholds::default().vector };
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a length")]
    let refused = outside[((outside.len() as f32 * REFUSED) as usize).min(last)];
    let mut right: Vec<f32> = hits.iter().filter(|hit| hit.right && hit.wanted).map(|hit| hit.score).collect();
    right.sort_unstable_by(f32::total_cmp);
    // Where there is a gap, the middle of it.
    let next = right.iter().copied().find(|score| *score > refused).unwrap_or(refused);
    (refused + next) / 2.0
}
