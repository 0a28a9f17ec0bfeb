//! The sentences of which dense vectors are wanted.

use crate::candidate::{self, Candidate};
use crate::classifier::background;
use crate::rows::{self, Row};
use crate::subject::{Parts, is_alone, topics};

/// Sentences of near agents and of none of which dense vectors are taken; with more, a router learns without any.
pub const TEXTS_MAX: usize = 16_384;
/// Lines of a stranger's description of which they are taken.
const STRANGE_LINES_MAX: usize = 8;

/// The sentences that a router learns from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Texts {
    /// What near agents say, what was labelled, what is for none, and topics where an agent is known by a description alone;
    /// each once, in order.
    pub near: Vec<String>,
    /// What strangers say.
    pub strange: Vec<String>,
}

/// The sentences that a router of these candidates and rows learns from.
#[must_use]
pub fn texts(candidates: Vec<Candidate>, rows: &[Row]) -> Texts {
    let (candidates, rows) = (candidate::ordered(candidates), rows::ordered(rows));
    let (mut near, mut strange) = (Vec::new(), Vec::new());
    for candidate in &candidates {
        let (all, most) = if candidate.near { (&mut near, usize::MAX) } else { (&mut strange, STRANGE_LINES_MAX) };
        all.extend(candidate.lines().take(most).map(str::to_owned));
        all.extend(candidate.examples().map(str::to_owned));
        if is_alone(candidate, &rows) {
            all.extend(Parts::of(candidate).all());
        }
    }
    if candidates.iter().any(|candidate| is_alone(candidate, &rows)) {
        near.extend(topics().map(str::to_owned));
    }
    near.extend(rows.into_iter().map(|row| row.instruction.clone()));
    near.extend(background().map(str::to_owned));
    for all in [&mut near, &mut strange] {
        all.sort_unstable();
        all.dedup();
    }
    strange.retain(|text| near.binary_search(text).is_err());
    Texts { near, strange }
}
