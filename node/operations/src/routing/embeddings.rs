//! Dense vectors of sentences: made by a model at an endpoint that speaks OpenAI's embeddings, and kept on disk for what
//! agents and rows say. The sentence that is routed is sent to the endpoint, and not kept.
//!
//! Everything that an endpoint does wrong ends in an [`EmbeddingsError`]; then the classifier decides alone.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use althing_discovery::{Fetch, FetchError, Given, Limits, Method, SystemResolver, Url};
use althing_execution::memory::embed;
use althing_protocol::digest;
use althing_routing::{SENTENCE_CHARS_MAX, TEXTS_MAX, Texts, Vectors};
use althing_store::{Batch, Durability, Family, Range, Store};
use tokio::time::Instant;

use crate::config::Embeddings;
use crate::secrets::Secrets;

/// Vectors of sentences, by the digests of the model's name and of the sentence.
pub const VECTORS: Family = Family("althing.route_vectors");
/// Vectors that are kept; more are removed, but for those in use.
const KEPT_MAX: usize = 2 * TEXTS_MAX;
/// Strangers' sentences without a vector that are remembered.
const CHOKED_MAX: usize = 4_096;
/// How long the endpoint may take for a sentence that somebody waits for.
const SENTENCE_MAX: Duration = Duration::from_secs(2);
/// How long it may take for one request of many sentences.
const REQUEST_MAX: Duration = Duration::from_secs(30);
/// After a failure it is not asked for so long.
const REST: Duration = Duration::from_secs(10);

/// Why there are no dense vectors.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EmbeddingsError {
    /// The endpoint did not answer, or with an error.
    #[error("the endpoint of embeddings did not answer: {0}")]
    Endpoint(String),
    /// Its answer is malformed.
    #[error("{0}")]
    Malformed(String),
    /// A vector has another length than the sentence's.
    #[error("the model of embeddings made vectors of {made} and of {wanted} dimensions")]
    Dimensions {
        /// Those of the sentence.
        wanted: usize,
        /// Those of another.
        made: usize,
    },
    /// It failed a moment ago.
    #[error("the endpoint of embeddings failed a moment ago, and is asked again in {0} s")]
    Resting(u64),
    /// There are not yet vectors of all that agents say.
    #[error(
        "the model of embeddings has read {read} of {all} sentences that agents are known by; the next call goes on"
    )]
    Reading {
        /// Sentences that have vectors.
        read: usize,
        /// All sentences.
        all: usize,
    },
    /// Agents and rows say too much.
    #[error("agents are known by {0} sentences; vectors are made of at most {TEXTS_MAX}")]
    Many(usize),
    /// The secret or the store cannot be read.
    #[error("embeddings: {0}")]
    Node(String),
}

/// A node's endpoint of embeddings.
pub(super) struct Embedding {
    endpoint: Embeddings,
    secrets: Option<Secrets>,
    store: Arc<dyn Store>,
    fetch: OnceLock<Fetch>,
    /// Until when it is not asked, after a failure.
    rests: Mutex<Option<Instant>>,
    /// Held while vectors of many sentences are made.
    reading: tokio::sync::Mutex<()>,
    /// Strangers' sentences for which it had no vector: they are not sent again.
    choked: Mutex<BTreeSet<Vec<u8>>>,
}

fn node(error: impl std::fmt::Display) -> EmbeddingsError {
    EmbeddingsError::Node(error.to_string())
}

impl Embedding {
    pub fn new(endpoint: Embeddings, secrets: Option<Secrets>, store: Arc<dyn Store>) -> Embedding {
        let (fetch, rests, reading, choked) = Default::default();
        Embedding { endpoint, secrets, store, fetch, rests, reading, choked }
    }

    /// The client, made when it is needed first.
    fn fetch(&self) -> Result<Fetch, EmbeddingsError> {
        if let Some(fetch) = self.fetch.get() {
            return Ok(fetch.clone());
        }
        let made = Fetch::new(Vec::new(), Arc::new(SystemResolver)).map_err(node)?;
        Ok(self.fetch.get_or_init(|| made).clone())
    }

    /// The model's name.
    pub fn model(&self) -> &str {
        &self.endpoint.model
    }

    /// The vector of a sentence.
    pub async fn of_sentence(&self, sentence: &str) -> Result<Arc<[i8]>, EmbeddingsError> {
        let mut vectors = self.ask(&[sentence], SENTENCE_MAX).await?;
        vectors.pop().map(Into::into).ok_or_else(|| EmbeddingsError::Malformed("no vector".to_owned()))
    }

    /// The vectors of what is tested; they are not kept.
    pub async fn of_tested(&self, sentences: &BTreeSet<&str>) -> Result<Vectors, EmbeddingsError> {
        let all: Vec<&str> = sentences.iter().copied().collect();
        let mut vectors: Option<Vectors> = None;
        for some in all.chunks(embed::TEXTS_MAX) {
            for (sentence, vector) in some.iter().zip(self.ask(some, REQUEST_MAX).await?) {
                put(vectors.get_or_insert_with(|| Vectors::new(vector.len())), sentence, vector)?;
            }
        }
        Ok(vectors.unwrap_or_default())
    }

    /// The vectors of what agents and rows say, of that length: all of near agents', or an error; of strangers' as many as
    /// there are. What takes longer than `patience` goes on, for the next call.
    pub async fn of_texts(
        self: &Arc<Self>,
        texts: Texts,
        dimensions: usize,
        patience: Duration,
    ) -> Result<Vectors, EmbeddingsError> {
        let all = texts.near.len();
        if all > TEXTS_MAX {
            return Err(EmbeddingsError::Many(all));
        }
        let mut vectors = Vectors::new(dimensions);
        let missing = self.kept(&texts.near, &mut vectors)?.len();
        if missing == 0 && self.strange(&texts, &mut vectors)?.is_empty() {
            return Ok(vectors);
        }
        let this = self.clone();
        let reading = tokio::spawn(async move { this.read_all(&texts, dimensions).await });
        match tokio::time::timeout(patience, reading).await {
            Err(_) => Err(EmbeddingsError::Reading { read: all - missing, all }),
            Ok(read) => read.map_err(node)?,
        }
    }

    async fn read_all(&self, texts: &Texts, dimensions: usize) -> Result<Vectors, EmbeddingsError> {
        let (all, mut vectors) = (texts.near.len(), Vectors::new(dimensions));
        let missing = self.kept(&texts.near, &mut vectors)?;
        let Ok(_reading) = self.reading.try_lock() else {
            return Err(EmbeddingsError::Reading { read: all - missing.len(), all });
        };
        for some in missing.chunks(embed::TEXTS_MAX) {
            self.read(some, &mut vectors).await?;
        }
        // Strangers' sentences come last, and in requests of their own: those that an endpoint chokes on cost nobody else's.
        for some in self.strange(texts, &mut vectors)?.chunks(embed::TEXTS_MAX) {
            if self.read(some, &mut vectors).await.is_err() {
                *self.rests.lock().expect("no holder of a time panics") = None;
                let mut choked = self.choked.lock().expect("no holder of a set panics");
                if choked.len() > CHOKED_MAX {
                    choked.clear();
                }
                choked.extend(some.iter().map(|text| self.key(text)));
            }
        }
        self.sweep(texts).await?;
        Ok(vectors)
    }

    /// Adds the vectors of strangers' sentences that are kept; gives those that the endpoint is still to be asked for.
    fn strange<'a>(&self, texts: &'a Texts, vectors: &mut Vectors) -> Result<Vec<&'a str>, EmbeddingsError> {
        let mut missing = self.kept(&texts.strange, vectors)?;
        let choked = self.choked.lock().expect("no holder of a set panics");
        missing.retain(|text| !choked.contains(&self.key(text)));
        Ok(missing)
    }

    /// Adds the vectors that are kept; gives the sentences without one.
    fn kept<'a>(&self, texts: &'a [String], vectors: &mut Vectors) -> Result<Vec<&'a str>, EmbeddingsError> {
        let mut missing = Vec::new();
        for text in texts {
            match self.store.read(VECTORS, &self.key(text)).map_err(node)? {
                // One of another length was made by another model of that name: it is made again.
                Some(kept) if kept.len() == vectors.dimensions() => {
                    vectors.put(text, kept.into_iter().map(u8::cast_signed).collect());
                }
                _ => missing.push(text.as_str()),
            }
        }
        Ok(missing)
    }

    /// Asks for the vectors of at most [`embed::TEXTS_MAX`] sentences, and keeps them.
    async fn read(&self, texts: &[&str], vectors: &mut Vectors) -> Result<(), EmbeddingsError> {
        let made = self.ask(texts, REQUEST_MAX).await?;
        let mut batch = Batch::new();
        for (text, vector) in texts.iter().zip(made) {
            let row: Vec<u8> = vector.iter().map(|value| value.cast_unsigned()).collect();
            put(vectors, text, vector)?;
            batch.put(VECTORS, self.key(text), row);
        }
        self.store.write(batch, Durability::Buffered).await.map_err(node)
    }

    fn key(&self, text: &str) -> Vec<u8> {
        [&digest(self.endpoint.model.as_bytes())[..8], &digest(text.as_bytes())[..16]].concat()
    }

    /// Removes vectors that are not in use, where there are too many.
    async fn sweep(&self, texts: &Texts) -> Result<(), EmbeddingsError> {
        let kept = self.store.scan(VECTORS, Range::all(KEPT_MAX + embed::TEXTS_MAX)).map_err(node)?;
        if kept.len() <= KEPT_MAX {
            return Ok(());
        }
        let used: BTreeSet<Vec<u8>> = texts.near.iter().chain(&texts.strange).map(|text| self.key(text)).collect();
        let mut batch = Batch::new();
        for (key, _) in kept.into_iter().filter(|(key, _)| !used.contains(key)) {
            batch.delete(VECTORS, key);
        }
        self.store.write(batch, Durability::Buffered).await.map_err(node)
    }

    /// One request, unless the last one failed a moment ago. An answer that is malformed is no reason to rest.
    async fn ask(&self, texts: &[&str], time: Duration) -> Result<Vec<Vec<i8>>, EmbeddingsError> {
        let now = Instant::now();
        let rests = *self.rests.lock().expect("no holder of a time panics");
        if let Some(left) = rests.and_then(|until| until.checked_duration_since(now)).filter(|left| !left.is_zero()) {
            return Err(EmbeddingsError::Resting(left.as_secs() + 1));
        }
        let answer = self.request(texts, time).await;
        *self.rests.lock().expect("no holder of a time panics") =
            matches!(answer, Err(EmbeddingsError::Endpoint(_))).then(|| Instant::now() + REST);
        answer
    }

    async fn request(&self, texts: &[&str], time: Duration) -> Result<Vec<Vec<i8>>, EmbeddingsError> {
        let Embeddings { url, model, secret } = &self.endpoint;
        let url = Url::parse(&format!("{}/embeddings", url.trim_end_matches('/'))).map_err(node)?;
        let secret = match (secret, &self.secrets) {
            (None, _) => None,
            (Some(name), Some(secrets)) => {
                let secret = secrets.read(name).map_err(node)?;
                Some(secret.ok_or_else(|| node(format!("there is no secret {name:?}")))?)
            }
            (Some(name), None) => return Err(node(format!("there is no secret {name:?}"))),
        };
        let cut: Vec<&str> = texts.iter().map(|text| beginning(text)).collect();
        let body = embed::asked(model, &cut).into_bytes();
        let limits = Limits { bytes: embed::ANSWER_BYTES_MAX, time };
        let sent = ("application/json", body);
        let bearer = secret.as_deref().map(str::trim);
        let answer = self.fetch()?.exchange_as(bearer, Method::POST, &url, Given::Operator, sent, limits).await;
        let (status, bytes) = answer.map_err(|error: FetchError| EmbeddingsError::Endpoint(error.to_string()))?;
        match status {
            200 => {}
            500.. => return Err(EmbeddingsError::Endpoint(format!("status {status}"))),
            // It is there, and does not like what it was asked.
            _ => {
                return Err(EmbeddingsError::Malformed(format!(
                    "the endpoint of embeddings answered with status {status}"
                )));
            }
        }
        embed::read(&bytes, texts.len()).map_err(|error| EmbeddingsError::Malformed(error.to_string()))
    }
}

/// Adds a vector of the length of the others.
fn put(vectors: &mut Vectors, text: &str, vector: Vec<i8>) -> Result<(), EmbeddingsError> {
    if vector.len() != vectors.dimensions() {
        return Err(EmbeddingsError::Dimensions { wanted: vectors.dimensions(), made: vector.len() });
    }
    vectors.put(text, vector);
    Ok(())
}

fn beginning(text: &str) -> &str {
    &text[..text.char_indices().nth(SENTENCE_CHARS_MAX).map_or(text.len(), |(end, _)| end)]
}

#[cfg(test)]
mod tests;
