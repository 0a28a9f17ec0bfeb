//! A router whose thresholds are set by cross-validation, where there are enough labelled rows.

use crate::candidate::{self, Candidate};
use crate::classifier::background;
use crate::dense::Vectors;
use crate::mode::{Mode, Thresholds};
use crate::router::Router;
use crate::rows::{self, Row};
use crate::subject::Subjects;

/// Parts of cross-validation.
const FOLDS: usize = 5;
/// Rows for agents with which thresholds are set.
const ROWS_MIN: usize = 50;
/// Above so many rows one part is enough.
const ROWS_MANY: usize = 2_000;
/// The share of what is for no agent that is to be refused. Sentences of tomorrow are less like those of today than these are
/// like each other, hence more than what is promised.
const REFUSED: f32 = 0.95;

impl Router {
    /// Learns from what candidates say and from labelled rows. A row whose agent is no candidate teaches that its sentence is
    /// for none of them. With `vectors`, learns from the dense vectors of these sentences too, as far as it has them.
    #[must_use]
    pub fn new(candidates: Vec<Candidate>, rows: &[Row], vectors: Option<&Vectors>) -> Router {
        let candidates = candidate::ordered(candidates);
        let rows = rows::ordered(rows);
        let background: Vec<&'static str> = background().collect();
        let near = candidates.iter().take_while(|candidate| candidate.near).count();
        let thresholds = validated(&candidates[..near], &rows, &background, vectors);
        let subjects = Subjects::new(&candidates, near, &rows, vectors);
        Router::with(candidates, &rows, &background, vectors, subjects, thresholds)
    }
}

/// The thresholds by cross-validation on `rows` and the sentences of `background`, all of which are in order; the default
/// where there are too few.
fn validated(near: &[Candidate], rows: &[&Row], background: &[&'static str], vectors: Option<&Vectors>) -> Thresholds {
    let known = |row: &&&Row| near.iter().any(|candidate| candidate.is(&row.agent));
    if rows.iter().filter(known).count() < ROWS_MIN {
        return Thresholds::default();
    }
    let folds = if rows.len() > ROWS_MANY { 1 } else { FOLDS };
    let mut hits = [Vec::new(), Vec::new(), Vec::new()];
    for fold in 0..folds {
        let outside = |place: usize| place % FOLDS != fold;
        let learned: Vec<&Row> = kept(rows, outside);
        let nobodys = kept(background, outside);
        // What a description alone says is not learned, and has a threshold of its own.
        let (subjects, thresholds) = (Subjects::default(), Thresholds::default());
        let router = Router::with(near.to_vec(), &learned, &nobodys, vectors, subjects, thresholds);
        let tested = kept(rows, |place| !outside(place)).into_iter().map(|row| {
            let wanted = near.iter().position(|candidate| candidate.is(&row.agent));
            (row.instruction.as_str(), wanted)
        });
        let tested = tested.chain(kept(background, |place| !outside(place)).into_iter().map(|text| (text, None)));
        for (sentence, wanted) in tested {
            for (mode, hits) in Mode::ALL.into_iter().zip(&mut hits) {
                let best = router.best(mode, sentence, vectors.and_then(|vectors| vectors.of(sentence)));
                let score = best.map_or(0.0, |(_, score)| score);
                hits.push(Hit { score, wanted: wanted.is_some(), right: best.map(|(place, _)| place) == wanted });
            }
        }
    }
    let [keyword, vector, hybrid] = hits.map(threshold);
    Thresholds { keyword, vector, hybrid }
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
