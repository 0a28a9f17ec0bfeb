//! The handle to the memory of one agent.

use std::collections::BTreeMap;
use std::sync::Arc;

use althing_protocol::Label;
use serde_json::{Value, json};
use tracing::Instrument as _;

use super::embed::Embedder;
use super::error::MemoryError;
use super::*;
use crate::context;

/// The memory of one agent.
#[derive(Clone)]
pub struct Memory {
    pub(super) namespace: Arc<Namespace>,
    pub(super) embedder: Arc<Embedder>,
    pub(super) recall: usize,
    /// The agent; none for the operator of the node.
    pub(super) agent: Option<String>,
    /// A header that was not adopted yet.
    pub(super) pending: Option<Header>,
}

impl Memory {
    /// Puts the terms of the contract into force, durably. Until then nothing has changed.
    ///
    /// # Errors
    /// [`MemoryError::Write`].
    pub async fn adopt(&self) -> Result<(), MemoryError> {
        match &self.pending {
            Some(header) => self.namespace.adopt(header.clone()).await,
            None => Ok(()),
        }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        self.namespace.now_ms()
    }

    /// The namespace, if the agent may still use it.
    fn checked_namespace(&self) -> Result<&Arc<Namespace>, MemoryError> {
        if let Some(agent) = &self.agent {
            check_access(&self.namespace.name, agent, &self.namespace.header())?;
        }
        if !self.namespace.is_open() {
            return Err(MemoryError::Damaged(self.namespace.name.clone()));
        }
        Ok(&self.namespace)
    }

    /// The namespace, if the turn that runs here may still change it.
    fn writable_namespace(&self) -> Result<&Arc<Namespace>, MemoryError> {
        context::check_lease()?;
        self.checked_namespace()
    }

    /// The name of the namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.namespace.name
    }

    /// Passages that are recalled for each message.
    #[must_use]
    pub fn recall_default(&self) -> usize {
        self.recall
    }

    /// Stores a value under a key, replacing the previous one.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn put(&self, key: &str, value: &[u8]) -> Result<(), MemoryError> {
        check_length("a key", key.len(), KEY_BYTES_MAX)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(MemoryError::Length { what: "a value", bytes: value.len(), most: VALUE_BYTES_MAX });
        }
        let entry = Entry::Value { key: key.to_owned(), value: value.to_vec(), label: context::whole_label() };
        self.writable_namespace()?.change(vec![entry], Forget::Nothing, |_| Value::Null).await.map(drop)
    }

    /// The value under a key. The turn that runs here hears its label.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn get(&self, key: &str) -> Result<Option<Vec<u8>>, MemoryError> {
        match self.checked_namespace()?.read(&Name::Value(key.to_owned())).await? {
            Some((_, Entry::Value { value, label, .. })) => {
                context::hear(label);
                Ok(Some(value))
            }
            Some((_, Entry::Passage { .. })) | None => Ok(None),
        }
    }

    /// Deletes the value under a key; false when there was none.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn delete(&self, key: &str) -> Result<bool, MemoryError> {
        let forget = Forget::One(Name::Value(key.to_owned()));
        let forgotten = self.writable_namespace()?.change(Vec::new(), forget, |forgotten| json!(forgotten > 0)).await?;
        Ok(forgotten > 0)
    }

    /// The keys with that prefix, in order, at most [`KEYS_MAX`]. The turn that runs here hears their labels.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn keys(&self, prefix: &str) -> Result<Vec<String>, MemoryError> {
        let prefix = prefix.to_owned();
        let keys = move |rows: namespace::Rows<'_>, _| {
            let key = |(name, known): (&Name, &namespace::RowInfo)| match name {
                Name::Value(key) if key.starts_with(&prefix) => Some((key.clone(), known.label)),
                _ => None,
            };
            let (keys, labels): (Vec<String>, Vec<Option<Label>>) = rows.filter_map(key).take(KEYS_MAX).unzip();
            (keys, labels.into_iter().fold(None, Label::of_both))
        };
        let (keys, label) = self.checked_namespace()?.read_index(keys).await?;
        context::hear(label);
        Ok(keys)
    }

    /// Stores a text under the name of its source, replacing that source; gives the number of its passages.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn remember(&self, source: &str, text: &str) -> Result<usize, MemoryError> {
        check_length("the name of a source", source.len(), SOURCE_BYTES_MAX)?;
        check_length("a text", text.trim().len(), TEXT_BYTES_MAX)?;
        let pieces = machine::chunks(text);
        let vectors = self.embedder.embed(&pieces).await.map_err(|error| MemoryError::Embedding(error.to_string()))?;
        let (source_hash, label) = (hex(&digest(text.as_bytes())), context::whole_label());
        let entry = |(place, (text, vector)): (usize, (&&str, Vec<i8>))| Entry::Passage {
            id: machine::passage_id(source, text),
            source: source.to_owned(),
            source_hash: source_hash.clone(),
            place: u32::try_from(place).unwrap_or(u32::MAX),
            text: (*text).to_owned(),
            by: self.agent.clone().unwrap_or_else(|| OPERATOR.to_owned()),
            vector: vector.into_iter().map(i8::cast_unsigned).collect(),
            label,
        };
        let entries: Vec<Entry> = pieces.iter().zip(vectors).enumerate().map(entry).collect();
        let count = entries.len();
        self.writable_namespace()?.change(entries, Forget::Source(source.to_owned()), |_| json!(count)).await?;
        Ok(count)
    }

    /// Deletes a source, which cannot be cited any more; gives the number of its passages.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn forget(&self, source: &str) -> Result<usize, MemoryError> {
        let forget = Forget::Source(source.to_owned());
        self.writable_namespace()?.change(Vec::new(), forget, |forgotten| json!(forgotten)).await
    }

    /// The sources, with the number of passages of each.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn sources(&self) -> Result<BTreeMap<String, usize>, MemoryError> {
        let count = |rows: namespace::Rows<'_>, _| {
            let mut sources = BTreeMap::new();
            for (source, _) in rows.filter_map(|(_, known)| known.passage.as_ref()) {
                *sources.entry(source.clone()).or_default() += 1;
            }
            sources
        };
        self.checked_namespace()?.read_index(count).await
    }

    /// Stored bytes.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn bytes(&self) -> Result<u64, MemoryError> {
        self.checked_namespace()?.read_index(|_, bytes| bytes).await
    }

    /// The passages most similar to a question, best first.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn recall(&self, question: &str, most: usize) -> Result<Vec<Recalled>, MemoryError> {
        // The names are those of OpenTelemetry's conventions for GenAI.
        let span = context::span(|| {
            tracing::info_span!(
                "retrieval",
                otel.kind = "internal",
                gen_ai.operation.name = "retrieval",
                gen_ai.data_source.id = self.namespace(),
                althing.memory.passages = tracing::field::Empty,
                althing.binding.hash = &*context::binding_hash(),
            )
        });
        let within = span.clone();
        async move {
            let question = &question[..question.floor_char_boundary(QUESTION_BYTES_MAX)];
            let recalled = self.nearest(question, most.min(RECALLED_MAX)).await?;
            within.record("althing.memory.passages", recalled.len());
            context::run_notes().add_passages(recalled.iter().map(|passage| passage.id.as_str()));
            Ok(recalled)
        }
        .instrument(span)
        .await
    }

    async fn nearest(&self, question: &str, most: usize) -> Result<Vec<Recalled>, MemoryError> {
        let any =
            self.checked_namespace()?.read_index(|mut rows, _| rows.any(|(_, known)| known.passage.is_some())).await?;
        if question.trim().is_empty() || most == 0 || !any {
            return Ok(Vec::new());
        }
        let vectors =
            self.embedder.embed(&[question]).await.map_err(|error| MemoryError::Embedding(error.to_string()))?;
        let Some(vector) = vectors.into_iter().next() else { return Ok(Vec::new()) };
        let near = move |rows: namespace::Rows<'_>, _| {
            let passages: Vec<(&str, &[i8])> = rows
                .filter_map(|(name, known)| match (name, &known.passage) {
                    (Name::Passage(id), Some((_, vector))) => Some((id.as_str(), vector.as_slice())),
                    _ => None,
                })
                .collect();
            let nearest = machine::nearest(&vector, passages.iter().copied(), most);
            nearest.into_iter().map(|(id, similarity)| (id.to_owned(), similarity)).collect::<Vec<_>>()
        };
        let mut recalled = Vec::new();
        for (id, similarity) in self.checked_namespace()?.read_index(near).await? {
            // It may have been deleted meanwhile.
            recalled.extend(self.passage(&id).await?.map(|passage| Recalled { similarity, ..passage }));
        }
        Ok(recalled)
    }

    /// The passage of an id. The turn that runs here hears its label.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub async fn passage(&self, id: &str) -> Result<Option<Recalled>, MemoryError> {
        Ok(match self.checked_namespace()?.read(&Name::Passage(id.to_owned())).await? {
            Some((kept_ms, Entry::Passage { id, source, source_hash, place, text, by, label, .. })) => {
                context::hear(label);
                Some(Recalled { id, source, source_hash, place, text, by, kept_ms, similarity: 1.0 })
            }
            Some((_, Entry::Value { .. })) | None => None,
        })
    }

    /// When and why a passage or a value was removed, if its tombstone is still there.
    ///
    /// # Errors
    /// See [`MemoryError`].
    pub fn tombstone(&self, name: &str) -> Result<Option<(u64, Removal)>, MemoryError> {
        let namespace = self.checked_namespace()?;
        match namespace.tombstone(&Name::Passage(name.to_owned()))? {
            None => namespace.tombstone(&Name::Value(name.to_owned())),
            removed => Ok(removed),
        }
    }
}

fn check_length(what: &'static str, bytes: usize, most: usize) -> Result<(), MemoryError> {
    if (1..=most).contains(&bytes) { Ok(()) } else { Err(MemoryError::Length { what, bytes, most }) }
}

#[cfg(test)]
mod tests {
    use althing_protocol::contract::{self, DataLabel};
    use althing_protocol::{AnswerAttributes, Attributes};
    use althing_store::MemoryStore;

    use super::*;
    use crate::context::{CALL_CONTEXT, CallContext, TurnAttributes};

    /// The memory of an agent, opened anew.
    fn opened(store: &Arc<MemoryStore>) -> Memory {
        let entropy = Arc::new(|bytes: &mut [u8]| bytes.fill(7));
        let memories = Memories::new(store.clone(), Arc::new(|| 1), entropy, Arc::new(|_: &str| Ok(None)));
        memories.open("clerk", &contract::Memory::default(), Arc::new(Embedder::Words)).expect("it opens")
    }

    /// The label of what a turn is given that does this to answer a call of that label.
    async fn heard(label: Option<Label>, work: impl Future<Output = ()>) -> Option<Label> {
        let (call, answer) = (Attributes { label, ..Attributes::default() }, AnswerAttributes::default());
        let attributes = TurnAttributes::of(&call, &answer);
        CALL_CONTEXT.scope(CallContext { attributes, ..CallContext::default() }, work).await;
        answer.label()
    }

    #[tokio::test]
    async fn what_is_kept_has_the_label_of_its_turn_and_gives_it_back_to_each_that_reads_it() {
        let store = Arc::new(MemoryStore::new(&[MEMORY]));
        let kept = opened(&store);
        let strict = Label { level: DataLabel::Restricted, trusted: false };
        let keeping = async {
            kept.put("price", b"ninety").await.expect("kept");
            kept.remember("rules", "A dog costs ninety euro of tax in a year.").await.expect("kept");
        };
        assert_eq!(heard(Some(strict), keeping).await, None, "who writes is given nothing");
        kept.put("open", b"to all").await.expect("by the operator");
        drop(kept);

        let again = opened(&store);
        let got = async { drop(again.get("price").await.expect("read")) };
        assert_eq!(heard(None, got).await, Some(strict));
        let listed = async { drop(again.keys("").await.expect("read")) };
        assert_eq!(heard(None, listed).await, Some(strict), "names say something too");
        let recalled = async { assert_eq!(again.recall("tax for a dog", 1).await.expect("read").len(), 1) };
        assert_eq!(heard(None, recalled).await, Some(strict));
        let other = async {
            drop(again.get("open").await.expect("read"));
            drop(again.keys("o").await.expect("read"));
            drop(again.get("nothing").await.expect("read"));
        };
        assert_eq!(heard(None, other).await, None);
        let replaced = async { again.put("price", b"ten").await.expect("kept") };
        let public = Label::of_trusted(DataLabel::Public);
        assert_eq!(heard(Some(public), replaced).await, None);
        let got = async { drop(again.get("price").await.expect("read")) };
        assert_eq!(heard(None, got).await, Some(public), "it is another value");
    }
}
