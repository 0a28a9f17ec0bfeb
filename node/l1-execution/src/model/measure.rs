//! Measures a model: how fast it answers through its endpoint.

use std::time::Duration;

use althing_td::ModelEndpoint;
use tokio::time::Instant;

use super::ModelError;
use super::chat::{ChatMessage, tokens};
use super::endpoint::{ChatRequest, Endpoint};

/// What the model is asked: something that it can go on with for as long as it may.
const QUESTION: &str = "Count upwards from one in words, one number on each line, and do not stop.";

/// One answer of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MeasuredAnswer {
    /// From the request to the first piece of text.
    pub first: Duration,
    /// From the request to the end.
    pub whole: Duration,
    /// The tokens of the answer.
    pub tokens: u64,
    /// Whether the endpoint did not tell how many those are: then they are the pieces that it sent.
    pub is_estimated: bool,
}

impl MeasuredAnswer {
    /// Tokens of each second after the first one; none if the answer was too short for a rate.
    #[must_use]
    pub fn tokens_per_second(&self) -> Option<f64> {
        let seconds = self.whole.checked_sub(self.first)?.as_secs_f64();
        (self.tokens > 1 && seconds > 0.0).then(|| (self.tokens - 1) as f64 / seconds)
    }
}

/// Asks a model once for an answer of `max_tokens`, and takes the time.
///
/// # Errors
/// [`ModelError::Client`]: it cannot be asked, or does not answer.
pub async fn measure(
    endpoint: &ModelEndpoint,
    secret: Option<String>,
    max_tokens: u64,
) -> Result<MeasuredAnswer, ModelError> {
    let client = Endpoint::new(&endpoint.url, &endpoint.model, secret).map_err(ModelError::Client)?;
    let messages = [ChatMessage::plain("user", QUESTION.to_owned())];
    let prompt_tokens = tokens(&messages);
    let request =
        ChatRequest { messages: &messages, functions: &[], temperature: Some(0.0), max_tokens, prompt_tokens };
    let failed = |error: super::error::EndpointError| ModelError::Client(error.to_string());
    let begun = Instant::now();
    let mut stream = client.ask(&client.body(&request)).await.map_err(failed)?;
    let mut first = None;
    while stream.next(max_tokens).await.map_err(failed)?.is_some() {
        first.get_or_insert_with(|| begun.elapsed());
    }
    let whole = begun.elapsed();
    let completion = stream.completion();
    let is_estimated = completion.output_tokens.is_none();
    let (_, tokens) = completion.tokens(prompt_tokens);
    let first = first.ok_or_else(|| ModelError::Client("it answered without a word".to_owned()))?;
    Ok(MeasuredAnswer { first, whole, tokens, is_estimated })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rate_is_that_after_the_first_token() {
        let answer = |tokens, whole| MeasuredAnswer {
            first: Duration::from_millis(500),
            whole: Duration::from_millis(whole),
            tokens,
            is_estimated: false,
        };
        assert_eq!(answer(21, 1_500).tokens_per_second(), Some(20.0));
        assert_eq!(answer(1, 1_500).tokens_per_second(), None);
        assert_eq!(answer(5, 500).tokens_per_second(), None);
    }
}
