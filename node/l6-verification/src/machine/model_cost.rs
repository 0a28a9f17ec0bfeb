//! What models cost in a test. Pure.

/// Tokens of which a price is said.
const PER_TOKENS: u128 = 1_000_000;

/// What the models of a run cost.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ModelCost {
    /// Tokens by their prices: a millionth of what it is in the report.
    spent: u128,
    /// Whether a model answered that does not tell its price.
    is_unknown: bool,
}

impl ModelCost {
    /// Adds tokens of a model: `price` is what a million of them cost, millionths of a currency.
    pub fn add(&mut self, tokens: u64, price: Option<u64>) {
        match price {
            _ if tokens == 0 => {}
            Some(price) => self.spent = self.spent.saturating_add(u128::from(tokens) * u128::from(price)),
            None => self.is_unknown = true,
        }
    }

    /// Adds that of another turn.
    pub fn add_all(&mut self, other: ModelCost) {
        self.spent = self.spent.saturating_add(other.spent);
        self.is_unknown |= other.is_unknown;
    }

    /// Millionths of the currency, rounded up; none where a model did not tell its price.
    #[must_use]
    pub fn micros(self) -> Option<u64> {
        let spent = u64::try_from(self.spent.div_ceil(PER_TOKENS)).unwrap_or(u64::MAX);
        (!self.is_unknown).then_some(spent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_model_does_not_tell_is_not_known_of_all() {
        let mut cost = ModelCost::default();
        assert_eq!(cost.micros(), Some(0), "no model was asked");
        cost.add(0, None);
        cost.add(400, Some(150_000));
        assert_eq!(cost.micros(), Some(60));
        let mut all = cost;
        all.add(1, Some(1));
        all.add_all(cost);
        assert_eq!(all.micros(), Some(121), "rounded up");
        all.add(1, None);
        assert_eq!(all.micros(), None);
        cost.add(u64::MAX, Some(u64::MAX));
        cost.add_all(cost);
        assert_eq!(cost.micros(), Some(u64::MAX));
    }
}
