//! Which agent a sentence is for: the best of those that may be called, two to choose from where two are close, or none.
//!
//! **Inputs**: candidates (agents with what their publishers say of them), rows that this node's owner labelled, a sentence;
//! if a model of embeddings made vectors of these, the vectors.
//! **Outputs**: a [`Decision`], and the scores behind it.
//!
//! **Invariants**: the same candidates and rows give the same scores, in whatever order they come. What a stranger writes of
//! its agent changes no other agent's score. A model names one of the candidates that it was shown, or none.
//!
//! **Never knows**: where candidates come from, who asks, clocks, disks, networks.

mod candidate;
mod classifier;
mod dense;
mod evaluation;
mod features;
mod keyword;
mod lexicon;
mod linear;
mod mode;
mod question;
mod router;
mod rows;
mod subject;
mod texts;
mod validation;

pub use candidate::{CANDIDATES_MAX, Candidate, STRANGERS_MAX};
pub use dense::Vectors;
pub use evaluation::{Evaluation, Mistake, counted, evaluate};
pub use features::SENTENCE_CHARS_MAX;
pub use mode::{Mode, Thresholds};
pub use question::{Answer, MODEL_CANDIDATES_MAX, Question};
pub use router::{Decision, Route, Router, Scored};
pub use rows::{FILE_BYTES_MAX, Part, ROWS_MAX, Row, RowsError, parse, split};
pub use texts::{TEXTS_MAX, Texts, texts};

#[cfg(test)]
mod tests;
