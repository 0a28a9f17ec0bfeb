//! What one agent keeps: the handle through which it is kept and found again.

use std::collections::BTreeMap;
use std::sync::Arc;

use tracing::Instrument as _;

use super::embed::Embedder;
use super::error::MemoryError;
use super::*;

/// The memory of one agent.
#[derive(Clone)]
pub struct Memory {
    pub(super) space: Arc<Space>,
    pub(super) embedder: Arc<Embedder>,
    pub(super) recall: usize,
    /// Whose it is; none for whoever operates the node.
    pub(super) agent: Option<String>,
    /// Terms that were not adopted yet.
    pub(super) pending: Option<Header>,
}

impl Memory {
    /// From now on the terms of the contract hold, on disk when this returns. Before nothing has changed.
    ///
    /// # Errors
    /// [`MemoryError::Write`].
    pub async fn adopt(&self) -> Result<(), MemoryError> {
        match &self.pending {
            Some(header) => self.space.adopt(header.clone()).await,
            None => Ok(()),
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.space.now_ms()
    }

    /// The namespace, for as long as it is shared with whose memory this is.
    fn reach(&self) -> Result<&Arc<Space>, MemoryError> {
        if let Some(agent) = &self.agent {
            allowed(&self.space.namespace, agent, &self.space.header())?;
        }
        if !self.space.is_open() {
            return Err(MemoryError::Damaged(self.space.namespace.clone()));
        }
        Ok(&self.space)
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.space.namespace
    }

    /// Passages that a model is handed with each message.
    #[must_use]
    pub fn recall_default(&self) -> usize {
        self.recall
    }

    /// Keeps a value under a key, in place of what was there.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<(), MemoryError> {
        within("a key", key.len(), KEY_BYTES_MAX)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(MemoryError::Length { what: "a value", bytes: value.len(), most: VALUE_BYTES_MAX });
        }
        let entry = Entry::Value { key: key.to_owned(), value: value.to_vec() };
        self.reach()?.change(vec![entry], Forget::Nothing).await.map(drop)
    }

    /// The value under a key.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MemoryError> {
        match self.reach()?.read(&Name::Value(key.to_owned())).await? {
            Some((_, Entry::Value { value, .. })) => Ok(Some(value)),
            Some((_, Entry::Passage { .. })) | None => Ok(None),
        }
    }

    /// Forgets the value under a key; false when there was none.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn delete(&self, key: &str) -> Result<bool, MemoryError> {
        let forgotten = self.reach()?.change(Vec::new(), Forget::One(Name::Value(key.to_owned()))).await?;
        Ok(forgotten > 0)
    }

    /// Keys that begin so, in order, [`KEYS_MAX`] at most.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>, MemoryError> {
        let prefix = prefix.to_owned();
        let keys = move |rows: space::Rows<'_>, _| {
            let key = |(name, _): (&Name, &space::Known)| match name {
                Name::Value(key) if key.starts_with(&prefix) => Some(key.clone()),
                _ => None,
            };
            rows.filter_map(key).take(KEYS_MAX).collect()
        };
        self.reach()?.look(keys).await
    }

    /// Keeps a text under the name of its source, in place of what was kept of that source; how many passages it has.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn remember(&self, source: &str, text: &str) -> Result<usize, MemoryError> {
        within("the name of a source", source.len(), SOURCE_BYTES_MAX)?;
        within("a text", text.trim().len(), TEXT_BYTES_MAX)?;
        let pieces = machine::passages(text);
        let vectors = self.embedder.embed(&pieces).await.map_err(|error| MemoryError::Embedding(error.to_string()))?;
        let source_hash = hex(&digest(text.as_bytes()));
        let entry = |(place, (text, vector)): (usize, (&&str, Vec<i8>))| Entry::Passage {
            id: machine::passage_id(source, text),
            source: source.to_owned(),
            source_hash: source_hash.clone(),
            place: u32::try_from(place).unwrap_or(u32::MAX),
            text: (*text).to_owned(),
            by: self.agent.clone().unwrap_or_else(|| OPERATOR.to_owned()),
            vector: vector.into_iter().map(i8::cast_unsigned).collect(),
        };
        let entries: Vec<Entry> = pieces.iter().zip(vectors).enumerate().map(entry).collect();
        let count = entries.len();
        self.reach()?.change(entries, Forget::Source(source.to_owned())).await?;
        Ok(count)
    }

    /// Forgets a source; how many passages it had. Nothing can cite it any more.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn forget(&self, source: &str) -> Result<usize, MemoryError> {
        self.reach()?.change(Vec::new(), Forget::Source(source.to_owned())).await
    }

    /// The sources, and how many passages each has.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn sources(&self) -> Result<BTreeMap<String, usize>, MemoryError> {
        let count = |rows: space::Rows<'_>, _| {
            let mut sources = BTreeMap::new();
            for (source, _) in rows.filter_map(|(_, known)| known.passage.as_ref()) {
                *sources.entry(source.clone()).or_default() += 1;
            }
            sources
        };
        self.reach()?.look(count).await
    }

    /// Bytes that are kept.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn bytes(&self) -> Result<u64, MemoryError> {
        self.reach()?.look(|_, bytes| bytes).await
    }

    /// The passages that resemble a question most, best first.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn recall(&self, question: &str, most: usize) -> Result<Vec<Recalled>, MemoryError> {
        // The names are those of OpenTelemetry's conventions for GenAI.
        let span = crate::context::span(|| {
            tracing::info_span!(
                "retrieval",
                otel.kind = "internal",
                gen_ai.operation.name = "retrieval",
                gen_ai.data_source.id = self.namespace(),
                althing.memory.passages = tracing::field::Empty,
                althing.binding.hash = &*crate::context::binding_hash(),
            )
        });
        let within = span.clone();
        async move {
            let question = &question[..question.floor_char_boundary(QUESTION_BYTES_MAX)];
            let recalled = self.nearest(question, most.min(RECALLED_MAX)).await?;
            within.record("althing.memory.passages", recalled.len());
            Ok(recalled)
        }
        .instrument(span)
        .await
    }

    async fn nearest(&self, question: &str, most: usize) -> Result<Vec<Recalled>, MemoryError> {
        let any = self.reach()?.look(|mut rows, _| rows.any(|(_, known)| known.passage.is_some())).await?;
        if question.trim().is_empty() || most == 0 || !any {
            return Ok(Vec::new());
        }
        let vectors =
            self.embedder.embed(&[question]).await.map_err(|error| MemoryError::Embedding(error.to_string()))?;
        let Some(vector) = vectors.into_iter().next() else { return Ok(Vec::new()) };
        let near = move |rows: space::Rows<'_>, _| {
            let passages: Vec<(&str, &[i8])> = rows
                .filter_map(|(name, known)| match (name, &known.passage) {
                    (Name::Passage(id), Some((_, vector))) => Some((id.as_str(), vector.as_slice())),
                    _ => None,
                })
                .collect();
            let nearest = machine::nearest(&vector, passages.iter().copied(), most);
            nearest.into_iter().map(|(id, likeness)| (id.to_owned(), likeness)).collect::<Vec<_>>()
        };
        let mut recalled = Vec::new();
        for (id, likeness) in self.reach()?.look(near).await? {
            // It may have gone meanwhile.
            recalled.extend(self.passage(&id).await?.map(|passage| Recalled { likeness, ..passage }));
        }
        Ok(recalled)
    }

    /// The passage of an id.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn passage(&self, id: &str) -> Result<Option<Recalled>, MemoryError> {
        Ok(match self.reach()?.read(&Name::Passage(id.to_owned())).await? {
            Some((kept_ms, Entry::Passage { id, source, source_hash, place, text, by, .. })) => {
                Some(Recalled { id, source, source_hash, place, text, by, kept_ms, likeness: 1.0 })
            }
            Some((_, Entry::Value { .. })) | None => None,
        })
    }

    /// When and why a passage or a value went, as far as that is remembered.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn gone(&self, name: &str) -> Result<Option<(u64, Gone)>, MemoryError> {
        let space = self.reach()?;
        match space.gone(&Name::Passage(name.to_owned()))? {
            None => space.gone(&Name::Value(name.to_owned())),
            gone => Ok(gone),
        }
    }
}

fn within(what: &'static str, bytes: usize, most: usize) -> Result<(), MemoryError> {
    if (1..=most).contains(&bytes) { Ok(()) } else { Err(MemoryError::Length { what, bytes, most }) }
}
