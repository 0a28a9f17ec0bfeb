//! How well sentences with known agents are routed.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::dense::Vectors;
use crate::mode::Mode;
use crate::router::{Decision, Router};
use crate::rows::Row;

/// Mistakes that are listed.
const MISTAKES_MAX: usize = 50;

/// What an evaluation found.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Evaluation {
    /// The mode.
    pub mode: Mode,
    /// Whether dense vectors were used.
    pub dense: bool,
    /// Whether a model chose among the best of that mode.
    pub by_model: bool,
    /// Sentences that are for an agent.
    pub in_scope: usize,
    /// Those whose best agent is the right one, and was not refused.
    pub right: usize,
    /// Those that two agents are close for: whoever asks would be asked back.
    pub close: usize,
    /// Those that were refused.
    pub refused_in_scope: usize,
    /// Sentences that are for no agent.
    pub out_of_scope: usize,
    /// Those that were refused.
    pub refused: usize,
    /// The least score of a sentence that is for an agent.
    pub threshold: f32,
    /// Time of one route, nanoseconds, on average.
    pub route_ns: u64,
    /// The first mistakes.
    pub mistakes: Vec<Mistake>,
}

/// A sentence that was routed wrong.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Mistake {
    /// The sentence.
    pub instruction: String,
    /// Its agent; empty for none.
    pub wanted: String,
    /// The agent that was chosen; empty for none.
    pub got: String,
}

impl Evaluation {
    /// The share of sentences for agents whose best agent is the right one.
    #[must_use]
    pub fn accuracy(&self) -> Option<f64> {
        (self.in_scope > 0).then(|| self.right as f64 / self.in_scope as f64)
    }

    /// The share of sentences for no agent that were refused.
    #[must_use]
    pub fn refusal(&self) -> Option<f64> {
        (self.out_of_scope > 0).then(|| self.refused as f64 / self.out_of_scope as f64)
    }
}

/// Routes each sentence of `rows` by `mode`, by dense vectors too where `vectors` has them; `now_ns` tells a monotonic time.
#[must_use]
pub fn evaluate(
    router: &Router,
    mode: Mode,
    rows: &[Row],
    vectors: Option<&Vectors>,
    now_ns: &dyn Fn() -> u64,
) -> Evaluation {
    let begun = now_ns();
    let decided = |row: &Row| {
        let vector = vectors.and_then(|vectors| vectors.of(&row.instruction));
        router.route(mode, &row.instruction, vector).decision
    };
    let decided: Vec<Decision> = rows.iter().map(decided).collect();
    let took_ns = now_ns().saturating_sub(begun);
    Evaluation { dense: vectors.is_some(), ..counted(router, mode, rows, &decided, took_ns) }
}

/// Counts what was decided of each sentence of `rows`, which took so long for all of them.
#[must_use]
pub fn counted(router: &Router, mode: Mode, rows: &[Row], decided: &[Decision], took_ns: u64) -> Evaluation {
    let mut found = Evaluation {
        mode,
        dense: false,
        by_model: false,
        in_scope: 0,
        right: 0,
        close: 0,
        refused_in_scope: 0,
        out_of_scope: 0,
        refused: 0,
        threshold: router.thresholds().of(mode),
        route_ns: took_ns / (rows.len() as u64).max(1),
        mistakes: Vec::new(),
    };
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (place, candidate) in router.candidates().iter().enumerate().filter(|(_, candidate)| candidate.near) {
        places.insert(&candidate.name, place);
        places.insert(&candidate.id, place);
    }
    for (row, decision) in rows.iter().zip(decided.iter().copied()) {
        let got = match decision {
            Decision::To(place) | Decision::Close(place, _) => Some(place),
            Decision::Nobody => None,
        };
        let right = if row.agent.is_empty() {
            found.out_of_scope += 1;
            found.refused += usize::from(got.is_none());
            got.is_none()
        } else {
            let right = got.is_some() && got == places.get(row.agent.as_str()).copied();
            found.in_scope += 1;
            found.right += usize::from(right);
            found.close += usize::from(matches!(decision, Decision::Close(..)));
            found.refused_in_scope += usize::from(got.is_none());
            right
        };
        if !right && found.mistakes.len() < MISTAKES_MAX {
            let got = got.map_or_else(String::new, |place| router.candidates()[place].name.clone());
            found.mistakes.push(Mistake { instruction: row.instruction.clone(), wanted: row.agent.clone(), got });
        }
    }
    found
}
