//! A linear classifier, one against the rest: for each class a hyperplane between its sentences and all others (L2-regularised
//! squared hinge loss, by dual coordinate descent: Hsieh et al. 2008, the algorithm of LIBLINEAR). One against the rest, since
//! a sentence that belongs to no class is then on the far side of every plane (Shu et al. 2017).

use crate::features::{FEATURE_BITS, Features};

/// Rounds over all sentences at most.
const ROUNDS_MAX: usize = 40;
/// A round in which no gradient was larger is the last.
const TOLERANCE: f32 = 0.02;
/// How dearly an error is paid, beside the simplicity of the plane.
const COST: f32 = 5.0;
/// How much more a class of few sentences counts, at most.
const BALANCE_MAX: f32 = 8.0;
/// Weights that are kept at most, of 4 bytes each.
const WEIGHTS_MAX: usize = 8 << 20;

/// A sentence to learn from.
#[derive(Debug, Clone)]
pub(crate) struct Sample {
    pub vector: Features,
    /// Its class; none if it belongs to no class.
    pub class: Option<usize>,
    /// How much it counts: 1 for a sentence.
    pub weight: f32,
}

/// What a class learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Others {
    /// The sentences of all other classes, and those of no class.
    All,
    /// Those of no class only.
    OfNone,
}

/// The trained classifier.
pub(crate) struct Linear {
    classes: usize,
    /// For each feature the number of its row in `weights`, from 1; 0 for one that was never seen.
    rows: Vec<u32>,
    /// How long dense vectors are; 0 without any.
    dimensions: usize,
    /// A row for each feature, then for each dimension; a weight for each class.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Trains on `samples`, in their order. Where there are more features than [`WEIGHTS_MAX`] has room for, some share a row.
    pub fn train(samples: &[Sample], classes: usize, others: Others) -> Linear {
        let mut rows = vec![0_u32; 1 << FEATURE_BITS];
        let most = (WEIGHTS_MAX / classes.max(1)).max(1);
        let mut count = 0;
        for (feature, _) in samples.iter().flat_map(|sample| &sample.vector.sparse) {
            let row = &mut rows[*feature as usize];
            if *row == 0 {
                *row = u32::try_from(count % most).unwrap_or_default() + 1;
                count += 1;
            }
        }
        let dense = samples.iter().filter_map(|sample| sample.vector.dense.as_ref());
        let dimensions = dense.map(|dense| dense.values.len()).max().unwrap_or(0);
        let kept = count.min(most) + dimensions;
        let (weights, bias) = (vec![0.0; kept * classes], vec![0.0; classes]);
        let mut linear = Linear { classes, rows, dimensions, weights, bias };
        for class in 0..classes {
            let seen =
                |sample: &&Sample| others == Others::All || sample.class.is_none() || sample.class == Some(class);
            let samples: Vec<&Sample> = samples.iter().filter(seen).collect();
            let (plane, bias) = linear.plane(&samples, class, kept);
            linear.bias[class] = bias;
            plane.iter().enumerate().for_each(|(row, weight)| linear.weights[row * classes + class] = *weight);
        }
        linear
    }

    /// The plane of one class.
    fn plane(&self, samples: &[&Sample], class: usize, rows: usize) -> (Vec<f32>, f32) {
        let weight = |own: bool| -> f32 {
            samples.iter().filter(|sample| (sample.class == Some(class)) == own).map(|sample| sample.weight).sum()
        };
        let balance = (weight(false) / weight(true).max(1.0)).sqrt().clamp(1.0, BALANCE_MAX);
        let (mut plane, mut bias) = (vec![0.0_f32; rows], 0.0_f32);
        let mut duals = vec![0.0_f32; samples.len()];
        for _ in 0..ROUNDS_MAX {
            let mut largest = 0.0_f32;
            for (sample, dual) in samples.iter().zip(&mut duals) {
                let is_own = sample.class == Some(class);
                let side = if is_own { 1.0 } else { -1.0 };
                let slack = 0.5 / (COST * sample.weight * if is_own { balance } else { 1.0 });
                let gradient = side * (bias + self.dot(&plane, &sample.vector)) - 1.0 + *dual * slack;
                let projected = if *dual == 0.0 { gradient.min(0.0) } else { gradient };
                largest = largest.max(projected.abs());
                if projected == 0.0 {
                    continue;
                }
                // The bias is a feature of length 1.
                let length = 1.0 + sample.vector.square();
                let before = *dual;
                *dual = (before - gradient / (length + slack)).max(0.0);
                let step = (*dual - before) * side;
                bias += step;
                for (feature, value) in &sample.vector.sparse {
                    plane[self.row(*feature) - 1] += step * value;
                }
                if let Some(dense) = &sample.vector.dense {
                    let step = step * dense.scale;
                    let weights = plane[rows - self.dimensions..].iter_mut();
                    weights.zip(dense.values.iter()).for_each(|(weight, value)| *weight += step * f32::from(*value));
                }
            }
            if largest < TOLERANCE {
                break;
            }
        }
        (plane, bias)
    }

    fn row(&self, feature: u32) -> usize {
        self.rows[feature as usize] as usize
    }

    fn dot(&self, plane: &[f32], vector: &Features) -> f32 {
        let sparse: f32 = vector.sparse.iter().map(|(feature, value)| plane[self.row(*feature) - 1] * value).sum();
        sparse + vector.dense.as_ref().map_or(0.0, |dense| dense.dot(&plane[plane.len() - self.dimensions..]))
    }

    /// On which side of each class's plane the sentence is: 1 is as sure as the class's own sentences, -1 as sure as others.
    pub fn margins(&self, vector: &Features) -> Vec<f32> {
        let mut margins = self.bias.clone();
        for (feature, value) in &vector.sparse {
            let row = self.row(*feature);
            if row > 0 {
                let weights = &self.weights[(row - 1) * self.classes..row * self.classes];
                margins.iter_mut().zip(weights).for_each(|(margin, weight)| *margin += weight * value);
            }
        }
        // One of another length was made by another model.
        if let Some(dense) = vector.dense.as_ref().filter(|dense| dense.values.len() == self.dimensions) {
            let rows = self.weights[self.weights.len() - self.dimensions * self.classes..].chunks(self.classes.max(1));
            for (value, weights) in dense.values.iter().zip(rows) {
                let value = f32::from(*value) * dense.scale;
                margins.iter_mut().zip(weights).for_each(|(margin, weight)| *margin += weight * value);
            }
        }
        margins
    }
}
