//! Dense vectors: what a model of embeddings makes of sentences. This crate never asks one; it is given its vectors.

use std::collections::BTreeMap;
use std::sync::Arc;

/// The vectors of sentences, all of the same length, one byte for each dimension.
#[derive(Debug, Clone, Default)]
pub struct Vectors {
    dimensions: usize,
    of: BTreeMap<String, Arc<[i8]>>,
}

impl Vectors {
    /// No vectors, of that length.
    #[must_use]
    pub fn new(dimensions: usize) -> Vectors {
        Vectors { dimensions, of: BTreeMap::new() }
    }

    /// Adds the vector of a sentence, unless its length is another one.
    pub fn put(&mut self, sentence: &str, vector: Vec<i8>) {
        if vector.len() == self.dimensions {
            self.of.insert(sentence.to_owned(), vector.into());
        }
    }

    /// The vector of a sentence.
    #[must_use]
    pub fn of(&self, sentence: &str) -> Option<&Arc<[i8]>> {
        self.of.get(sentence)
    }

    /// How long the vectors are.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }
}

/// A vector as a part of a sentence's features.
#[derive(Debug, Clone)]
pub(crate) struct Dense {
    pub values: Arc<[i8]>,
    /// What each value is multiplied by.
    pub scale: f32,
    /// Its squared length, when scaled.
    pub square: f32,
}

impl Dense {
    /// The vector, scaled to that squared length; one of zeros says nothing.
    pub fn new(values: Arc<[i8]>, square: f32) -> Dense {
        let length: f32 = values.iter().map(|value| f32::from(*value) * f32::from(*value)).sum();
        if length == 0.0 {
            return Dense { values, scale: 0.0, square: 0.0 };
        }
        Dense { values, scale: (square / length).sqrt(), square }
    }

    /// The product with another vector, for two of length 1 how alike they are; 0 with one of another model, which is of
    /// another length.
    pub fn likeness(&self, other: &Dense) -> f32 {
        if self.values.len() != other.values.len() {
            return 0.0;
        }
        let pairs = self.values.iter().zip(other.values.iter());
        let product: i64 = pairs.map(|(one, other)| i64::from(*one) * i64::from(*other)).sum();
        product as f32 * self.scale * other.scale
    }

    pub fn dot(&self, plane: &[f32]) -> f32 {
        self.scale * self.values.iter().zip(plane).map(|(value, weight)| f32::from(*value) * weight).sum::<f32>()
    }
}
