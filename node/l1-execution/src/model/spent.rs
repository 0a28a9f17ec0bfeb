//! What one turn of a model used.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::stream::Completion;
use crate::agent::AgentError;

/// The usage of one turn so far.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Spent {
    pub input_tokens: u64,
    pub output_tokens: u64,
    pub pieces: u64,
    pub estimated: bool,
    /// The records of its calls.
    pub calls: Vec<Value>,
    /// What it said.
    pub said: String,
    /// Its tokens by what a million of them cost, where that is known.
    pub charged: Vec<(Option<u64>, u64)>,
}

impl Spent {
    /// That a budget is used up, to which the turn is to blame too if it spent of it.
    pub fn exhausted(&self, why: String) -> AgentError {
        if self.charged.is_empty() { AgentError::Exhausted(why) } else { AgentError::Rejected(why) }
    }

    pub fn add(&mut self, completion: &Completion, prompt_tokens: u64) {
        let (input, output) = completion.tokens(prompt_tokens);
        // The figures of an endpoint are untrusted, and could overflow.
        self.input_tokens = self.input_tokens.saturating_add(input);
        self.output_tokens = self.output_tokens.saturating_add(output);
        self.pieces += completion.pieces;
        self.estimated |= completion.output_tokens.is_none();
        self.said.push_str(&completion.text);
        let tokens = input.saturating_add(output);
        match self.charged.iter_mut().find(|(price, _)| *price == completion.price) {
            Some((_, all)) => *all = all.saturating_add(tokens),
            None => self.charged.push((completion.price, tokens)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_that_others_used_up_is_no_fault_of_a_turn_and_one_that_it_spent_of_is() {
        let why = || "its cost budget is exhausted".to_owned();
        assert_eq!(Spent::default().exhausted(why()), AgentError::Exhausted(why()));
        let spent = Spent { charged: vec![(None, 5)], ..Spent::default() };
        assert_eq!(spent.exhausted(why()), AgentError::Rejected(why()));
    }
}
