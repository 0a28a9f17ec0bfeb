//! A linear classifier, one against the rest: for each class a hyperplane between its sentences and all others (L2-regularised
//! squared hinge loss, by dual coordinate descent: Hsieh et al. 2008, the algorithm of LIBLINEAR). One against the rest, since
//! a sentence that belongs to no class is then on the far side of every plane (Shu et al. 2017).

use crate::features::{FEATURE_BITS, Sparse};

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
    pub vector: Sparse,
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
    /// A row for each feature, a weight for each class.
    weights: Vec<f32>,
    bias: Vec<f32>,
}

impl Linear {
    /// Trains on `samples`, in their order. Where there are more features than [`WEIGHTS_MAX`] has room for, some share a row.
    pub fn train(samples: &[Sample], classes: usize, others: Others) -> Linear {
        let mut rows = vec![0_u32; 1 << FEATURE_BITS];
        let most = (WEIGHTS_MAX / classes.max(1)).max(1);
        let mut count = 0;
        for (feature, _) in samples.iter().flat_map(|sample| &sample.vector) {
            let row = &mut rows[*feature as usize];
            if *row == 0 {
                *row = u32::try_from(count % most).unwrap_or_default() + 1;
                count += 1;
            }
        }
        let kept = count.min(most);
        let mut linear = Linear { classes, rows, weights: vec![0.0; kept * classes], bias: vec![0.0; classes] };
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
                // A vector has length 1, the bias another 1.
                let length = if sample.vector.is_empty() { 1.0 } else { 2.0 };
                let before = *dual;
                *dual = (before - gradient / (length + slack)).max(0.0);
                let step = (*dual - before) * side;
                bias += step;
                for (feature, value) in &sample.vector {
                    plane[self.row(*feature) - 1] += step * value;
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

    fn dot(&self, plane: &[f32], vector: &Sparse) -> f32 {
        vector.iter().map(|(feature, value)| plane[self.row(*feature) - 1] * value).sum()
    }

    /// On which side of each class's plane the sentence is: 1 is as sure as the class's own sentences, -1 as sure as others.
    pub fn margins(&self, vector: &Sparse) -> Vec<f32> {
        let mut margins = self.bias.clone();
        for (feature, value) in vector {
            let row = self.row(*feature);
            if row > 0 {
                let weights = &self.weights[(row - 1) * self.classes..row * self.classes];
                margins.iter_mut().zip(weights).for_each(|(margin, weight)| *margin += weight * value);
            }
        }
        margins
    }
}
