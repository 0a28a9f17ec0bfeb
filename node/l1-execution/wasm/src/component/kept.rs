//! What a guest keeps beyond its tasks.

use althing_execution::memory::{Memory, MemoryError, Recalled};

use super::Data;
use super::bindings::althing::agent::memory;

/// What a contract does not let a guest keep is refused in words, not by a trap.
impl memory::Host for Data {
    async fn put(&mut self, key: String, value: Vec<u8>) -> wasmtime::Result<Result<(), String>> {
        let kept = self.kept("memory/put");
        Ok(async { worded(kept?.put(&key, &value).await) }.await)
    }

    async fn get(&mut self, key: String) -> wasmtime::Result<Result<Option<Vec<u8>>, String>> {
        let kept = self.kept("memory/get");
        Ok(async { worded(kept?.get(&key).await) }.await)
    }

    async fn delete(&mut self, key: String) -> wasmtime::Result<Result<bool, String>> {
        let kept = self.kept("memory/delete");
        Ok(async { worded(kept?.delete(&key).await) }.await)
    }

    async fn keys(&mut self, prefix: String) -> wasmtime::Result<Result<Vec<String>, String>> {
        let kept = self.kept("memory/keys");
        Ok(async { worded(kept?.keys(&prefix).await) }.await)
    }

    async fn remember(&mut self, source: String, text: String) -> wasmtime::Result<Result<u32, String>> {
        let kept = self.kept("memory/remember");
        Ok(async { worded(kept?.remember(&source, &text).await).map(count) }.await)
    }

    async fn forget(&mut self, source: String) -> wasmtime::Result<Result<u32, String>> {
        let kept = self.kept("memory/forget");
        Ok(async { worded(kept?.forget(&source).await).map(count) }.await)
    }

    async fn recall(&mut self, question: String, most: u32) -> wasmtime::Result<Result<Vec<memory::Passage>, String>> {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let kept = self.kept("memory/recall");
        let recalled = async { worded(kept?.recall(&question, most).await) }.await;
        let passage = |recalled: Recalled| memory::Passage {
            id: recalled.id,
            source: recalled.source,
            source_hash: recalled.source_hash,
            text: recalled.text,
            kept_ms: recalled.kept_ms,
            likeness: recalled.likeness,
        };
        Ok(recalled.map(|passages| passages.into_iter().map(passage).collect()))
    }
}

impl Data {
    /// A handle of its own: `self` cannot be shared while it is used. Each call counts among the turn's, and passes the
    /// gate as models' do.
    fn kept(&mut self, call: &str) -> Result<Memory, String> {
        let memory = self.calls.memory.clone();
        let memory = memory.ok_or("the contract has no `memory`: the agent keeps nothing")?;
        self.calls.tools.permits(call).map_err(|denied| denied.to_string())?;
        if self.calls_left == 0 {
            return Err("the turn has made all the calls that its contract allows".to_owned());
        }
        self.calls_left -= 1;
        Ok(memory)
    }
}

fn worded<T>(kept: Result<T, MemoryError>) -> Result<T, String> {
    kept.map_err(|error| error.to_string())
}

fn count(passages: usize) -> u32 {
    u32::try_from(passages).unwrap_or(u32::MAX)
}
