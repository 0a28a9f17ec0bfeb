//! The memory imports of a guest.

use althing_execution::memory::{Memory, MemoryError, Recalled};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Data;
use super::bindings::althing::agent::memory;
use super::memory_call::MemoryCall;

/// Without a memory in the contract, calls return an error and do not trap.
impl memory::Host for Data {
    async fn put(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), String>> {
        let call = MemoryCall::Put { key: &key, value: &value };
        Ok(self.keep(call, async |memory| memory.put(&key, &value).await).await)
    }

    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, String>> {
        let call = MemoryCall::Get { key: &key };
        let kept = self.keep(call, async |memory| memory.get(&key).await.map(|value| value.map(encode))).await;
        let decode = |text: String| STANDARD.decode(text).map_err(|error| error.to_string());
        Ok(kept.and_then(|value| value.map(decode).transpose()))
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<bool, String>> {
        Ok(self.keep(MemoryCall::Delete { key: &key }, async |memory| memory.delete(&key).await).await)
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Result<Vec<String>, String>> {
        Ok(self.keep(MemoryCall::Keys { prefix: &prefix }, async |memory| memory.keys(&prefix).await).await)
    }

    async fn remember(&mut self, source: String, text: String) -> wasmtime::Result<Result<u32, String>> {
        let call = MemoryCall::Remember { source: &source, text: &text };
        Ok(self.keep(call, async |memory| memory.remember(&source, &text).await).await.map(count))
    }

    async fn forget(&mut self, source: String) -> wasmtime::Result<Result<u32, String>> {
        let call = MemoryCall::Forget { source: &source };
        Ok(self.keep(call, async |memory| memory.forget(&source).await).await.map(count))
    }

    async fn recall(&mut self, question: String, most: u32) -> wasmtime::Result<Result<Vec<memory::Passage>, String>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let call = MemoryCall::Recall { question: &question, most };
        let recalled = self.keep(call, async |memory| memory.recall(&question, most).await).await;
        let passage = |recalled: Recalled| memory::Passage {
            id: recalled.id,
            source: recalled.source,
            source_hash: recalled.source_hash,
            text: recalled.text,
            kept_ms: recalled.kept_ms,
            likeness: recalled.similarity,
        };
        Ok(recalled.map(|passages| passages.into_iter().map(passage).collect()))
    }
}

impl Data {
    /// Runs a memory operation. Each one passes the gate with its arguments, like calls of models, counts as a call of the
    /// turn, and is a step of its journal.
    async fn keep<T: Serialize + DeserializeOwned>(
        &mut self,
        call: MemoryCall<'_>,
        work: impl AsyncFnOnce(Memory) -> Result<T, MemoryError>,
    ) -> Result<T, String> {
        let memory = self.calls.memory.clone();
        let memory = memory.ok_or("the contract has no `memory`: the agent keeps nothing")?;
        self.count_call()?;
        let tools = self.calls.tools.clone();
        let worked = async { work(memory).await.map_err(|error| error.to_string()) };
        tools.permitted(call.name(), &call.arguments(), worked).await
    }
}

/// A value, as it stands in a journal.
fn encode(value: Vec<u8>) -> String {
    STANDARD.encode(value)
}

fn count(passages: usize) -> u32 {
    u32::try_from(passages).unwrap_or(u32::MAX)
}
