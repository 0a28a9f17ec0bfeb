//! Embedders: an endpoint that speaks OpenAI's embeddings, or the built-in one.

use std::time::Duration;

use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use althing_protocol::Contract;
use althing_td::ModelEndpoint;

use super::machine;
use crate::binding;
use crate::http::{CONNECT_TIMEOUT, bearer, client};
use crate::secrets::{SecretLookup, SecretLookupError, granted};

/// How long an endpoint may take.
const PATIENCE: Duration = Duration::from_secs(60);
/// Texts of one request to an endpoint.
pub const TEXTS_MAX: usize = 64;
/// The longest vector.
const DIMENSIONS_MAX: usize = 4_096;
/// The longest answer, bytes: a number of a vector takes about twenty characters.
pub const ANSWER_BYTES_MAX: usize = TEXTS_MAX * DIMENSIONS_MAX * 24;

/// Why an agent file's model of embeddings cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedderError {
    /// The contract does not allow the model.
    #[error("its contract allows the models {allowed}, and its embeddings are made by {model}")]
    NotAllowed {
        /// What the policy names.
        allowed: String,
        /// What the agent file names.
        model: String,
    },
    /// The model is not cleared for the agent's data.
    #[error("its embeddings are made by {model}, which is not cleared for {label} data (`clearance`)")]
    NotCleared {
        /// What the agent file names.
        model: String,
        /// The label of the data in the contract.
        label: &'static str,
    },
    /// The endpoint's secret is not available.
    #[error(transparent)]
    Secret(#[from] SecretLookupError),
    /// No client can be made.
    #[error("{0}")]
    Client(String),
}

/// Why embedding failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbedError {
    /// The endpoint cannot be reached.
    #[error("the endpoint of embeddings cannot be reached: {0}")]
    Unreachable(String),
    /// It did not answer in time.
    #[error("the endpoint of embeddings did not answer within {} s", PATIENCE.as_secs())]
    Silent,
    /// It answered with an error.
    #[error("the endpoint of embeddings answered {0}")]
    Status(u16),
    /// Its answer is malformed.
    #[error("the endpoint of embeddings sent a malformed answer: {0}")]
    Malformed(String),
}

/// Makes vectors of texts.
pub enum Embedder {
    /// Built in: by words and trigrams, without meaning and without a model.
    Words,
    /// A model at an endpoint.
    Endpoint {
        /// The model.
        model: String,
        /// The base URL, before `/embeddings`.
        url: String,
        /// The HTTP client.
        http: reqwest::Client,
        /// The secret.
        authorization: Option<HeaderValue>,
    },
}

#[derive(Deserialize)]
struct Answer {
    data: Vec<Embedding>,
}

#[derive(Deserialize)]
struct Embedding {
    index: usize,
    embedding: Vec<f32>,
}

impl Embedder {
    /// The one of an agent: the model that its file names, which its contract must allow, or the built-in one.
    ///
    /// # Errors
    /// See [`EmbedderError`].
    pub(crate) fn of(
        named: Option<&ModelEndpoint>,
        contract: &Contract,
        secrets: &SecretLookup,
    ) -> Result<Embedder, EmbedderError> {
        let Some(named) = named else { return Ok(Embedder::Words) };
        let allowed = &contract.model.models;
        if !binding::allows(allowed, named.named(), named.version.as_deref()) {
            return Err(EmbedderError::NotAllowed { allowed: allowed.join(", "), model: named.model.clone() });
        }
        if named.clearance.unwrap_or_default() < contract.data_label {
            return Err(EmbedderError::NotCleared { model: named.model.clone(), label: contract.data_label.name() });
        }
        let secret = named.secret.as_deref().map(|secret| granted(contract, secrets, secret)).transpose()?;
        Embedder::endpoint(&named.url, &named.model, secret).map_err(EmbedderError::Client)
    }

    /// A model at an endpoint that speaks OpenAI's embeddings.
    ///
    /// # Errors
    /// The reason, for people.
    pub fn endpoint(url: &str, model: &str, secret: Option<String>) -> Result<Embedder, String> {
        let authorization = secret.map(|secret| bearer(url, &secret)).transpose()?;
        let http = client(url, CONNECT_TIMEOUT)?;
        let url = url.trim_end_matches('/').to_owned();
        Ok(Embedder::Endpoint { model: model.to_owned(), url, http, authorization })
    }

    /// Identifies the embedder of stored vectors.
    #[must_use]
    pub fn name(&self) -> String {
        match self {
            Embedder::Words => "words-1".to_owned(),
            Embedder::Endpoint { model, .. } => format!("model {model:?}"),
        }
    }

    /// A vector for each text.
    ///
    /// # Errors
    /// See [`EmbedError`].
    pub async fn embed(&self, texts: &[&str]) -> Result<Vec<Vec<i8>>, EmbedError> {
        let Embedder::Endpoint { model, url, http, authorization } = self else {
            return Ok(texts.iter().map(|text| machine::quantised(&machine::features(text))).collect());
        };
        let mut vectors = Vec::with_capacity(texts.len());
        for texts in texts.chunks(TEXTS_MAX) {
            let body = asked(model, texts);
            let mut request =
                http.post(format!("{url}/embeddings")).header(CONTENT_TYPE, "application/json").body(body);
            if let Some(authorization) = authorization {
                request = request.header(AUTHORIZATION, authorization.clone());
            }
            let bytes = timeout(PATIENCE, answer(request)).await.map_err(|_| EmbedError::Silent)??;
            vectors.extend(read(&bytes, texts.len())?);
        }
        Ok(vectors)
    }
}

/// The body of a request for the vectors of at most [`TEXTS_MAX`] texts.
#[must_use]
pub fn asked(model: &str, texts: &[&str]) -> String {
    json!({ "model": model, "input": texts, "encoding_format": "float" }).to_string()
}

async fn answer(request: reqwest::RequestBuilder) -> Result<Vec<u8>, EmbedError> {
    let unreachable = |error: reqwest::Error| EmbedError::Unreachable(error.without_url().to_string());
    let mut response = request.send().await.map_err(unreachable)?;
    if response.status() != 200 {
        return Err(EmbedError::Status(response.status().as_u16()));
    }
    let mut bytes = Vec::new();
    while let Some(more) = response.chunk().await.map_err(unreachable)? {
        bytes.extend_from_slice(&more);
        if bytes.len() > ANSWER_BYTES_MAX {
            return Err(EmbedError::Malformed(format!("more than {ANSWER_BYTES_MAX} bytes")));
        }
    }
    Ok(bytes)
}

/// The vectors of an answer in the order of the texts that were asked for, all of the same length.
///
/// # Errors
/// [`EmbedError::Malformed`].
pub fn read(bytes: &[u8], texts: usize) -> Result<Vec<Vec<i8>>, EmbedError> {
    let malformed = |reason: String| EmbedError::Malformed(reason);
    let mut answer: Answer = serde_json::from_slice(bytes).map_err(|error| malformed(error.to_string()))?;
    answer.data.sort_by_key(|embedding| embedding.index);
    if answer.data.len() != texts || answer.data.iter().enumerate().any(|(place, one)| one.index != place) {
        return Err(malformed(format!("{} vectors for {texts} texts", answer.data.len())));
    }
    let length = answer.data.first().map_or(0, |one| one.embedding.len());
    let fits = |one: &Embedding| one.embedding.len() == length && one.embedding.iter().all(|value| value.is_finite());
    if length == 0 || length > DIMENSIONS_MAX || !answer.data.iter().all(fits) {
        return Err(malformed(
            "vectors of no length, of different lengths, too long, or of what is no number".to_owned(),
        ));
    }
    Ok(answer.data.iter().map(|one| machine::quantised(&one.embedding)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_vector_for_each_text_will_do() {
        let good = br#"{"data": [{"index": 1, "embedding": [0, 1]}, {"index": 0, "embedding": [1, 0]}]}"#;
        assert_eq!(read(good, 2), Ok(vec![vec![127, 0], vec![0, 127]]));
        for bad in [
            r#"{"data": []}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 0, "embedding": [1]}]}"#,
            r#"{"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [1, 2]}]}"#,
            r#"{"data": [{"index": 0, "embedding": []}, {"index": 1, "embedding": []}]}"#,
            r#"{"data": [{"index": 0, "embedding": [1e99]}, {"index": 1, "embedding": [1]}]}"#,
            "[]",
            "{",
        ] {
            assert!(matches!(read(bad.as_bytes(), 2), Err(EmbedError::Malformed(_))), "{bad}");
        }
    }
}
