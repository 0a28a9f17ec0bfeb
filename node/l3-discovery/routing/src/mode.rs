//! How candidates are scored, and from which score on a sentence is for one.

use serde::{Deserialize, Serialize};

/// How candidates are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// By the words that they share with the sentence (BM25).
    Keyword,
    /// By the classifier.
    Vector,
    /// By both.
    Hybrid,
}

impl Mode {
    /// All of them.
    pub const ALL: [Mode; 3] = [Mode::Keyword, Mode::Vector, Mode::Hybrid];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mode::Keyword => "keyword",
            Mode::Vector => "vector",
            Mode::Hybrid => "hybrid",
        }
    }
}

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
}
