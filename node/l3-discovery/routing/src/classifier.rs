//! The vector mode: what near agents' examples and labelled rows teach jointly, and what each stranger's examples teach of
//! itself only.

use std::sync::Arc;

use crate::candidate::Candidate;
use crate::dense::Vectors;
use crate::features::Features;
use crate::linear::{Linear, Others, Sample};
use crate::rows::Row;

/// Sentences that are for no agent, unless somebody teaches otherwise.
const BACKGROUND: &str = include_str!("background.txt");
/// A description counts less than an example: it is written in other words than people ask in.
const DESCRIPTION_WEIGHT: f32 = 0.5;

/// A classifier of near agents, and one of strangers.
pub(crate) struct Classifier {
    near: Linear,
    strangers: Option<Linear>,
    /// Whether it learned from dense vectors.
    dense: bool,
}

/// The sentences that are for no agent.
pub(crate) fn background() -> impl Iterator<Item = &'static str> {
    BACKGROUND.lines()
}

/// Makes samples, with dense vectors if there are any.
#[derive(Clone, Copy)]
pub(crate) struct Sampler<'a>(pub Option<&'a Vectors>);

impl<'a> Sampler<'a> {
    /// What a candidate itself says, as samples of a class.
    pub fn said_by(self, candidate: &'a Candidate, class: usize) -> impl Iterator<Item = Sample> + 'a {
        let sample = move |text: &str, weight| Sample { weight, class: Some(class), ..self.of_none(text) };
        let lines = candidate.lines().map(move |line| sample(line, DESCRIPTION_WEIGHT));
        lines.chain(candidate.examples().map(move |example| sample(example, 1.0)))
    }

    /// A row as a sample: of a near agent if it is for one, else of none.
    pub fn of_row(self, row: &Row, near: &[Candidate]) -> Sample {
        let class = near.iter().position(|candidate| candidate.is(&row.agent));
        Sample { class, ..self.of_none(&row.instruction) }
    }

    pub fn of_none(self, sentence: &str) -> Sample {
        Sample { vector: Features::of(sentence, self.0), class: None, weight: 1.0 }
    }
}

impl Classifier {
    /// Learns from samples of near agents and of none; a stranger learns from them as others' sentences. `rows` may name
    /// strangers by their identifiers.
    pub fn train(
        samples: &[Sample],
        near: usize,
        strangers: &[Candidate],
        rows: &[&Row],
        sampler: Sampler<'_>,
    ) -> Classifier {
        let (classifier, dense) = (Linear::train(samples, near, Others::All), sampler.0.is_some());
        if strangers.is_empty() {
            return Classifier { near: classifier, strangers: None, dense };
        }
        let others = samples.iter().map(|sample| Sample { class: None, ..sample.clone() });
        let said = strangers.iter().enumerate().flat_map(|(class, candidate)| sampler.said_by(candidate, class));
        let labelled = rows.iter().filter_map(|row| {
            let class = strangers.iter().position(|candidate| candidate.id == row.agent)?;
            Some(Sample { class: Some(class), ..sampler.of_none(&row.instruction) })
        });
        let samples: Vec<Sample> = others.chain(said).chain(labelled).collect();
        let strangers = Linear::train(&samples, strangers.len(), Others::OfNone);
        Classifier { near: classifier, strangers: Some(strangers), dense }
    }

    /// How sure it is that the sentence is for each candidate, 0 to 1: near ones, then strangers.
    pub fn scores(&self, sentence: &str, vector: Option<&Arc<[i8]>>) -> Vec<f32> {
        let vector = Features::with(sentence, self.dense.then_some(vector));
        let mut margins = self.near.margins(&vector);
        margins.extend(self.strangers.iter().flat_map(|strangers| strangers.margins(&vector)));
        margins.iter().map(|margin| share(*margin)).collect()
    }
}

/// A margin as a share: a half on the plane itself.
pub(crate) fn share(margin: f32) -> f32 {
    1.0 / (1.0 + (-2.0 * margin).exp())
}
