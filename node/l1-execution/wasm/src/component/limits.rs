//! What an instance may take.

use wasmtime::ResourceLimiter;

use super::{Data, PARTS_MAX};

/// Elements of a guest's tables.
const TABLE_MAX: usize = 1_000_000;
/// The size of a table element, bytes.
const ELEMENT_BYTES: usize = 16;

impl ResourceLimiter for Data {
    fn memory_growing(&mut self, current: usize, desired: usize, _: Option<usize>) -> wasmtime::Result<bool> {
        let more = (desired - current) as u64;
        self.over = more > self.memory_left;
        if !self.over {
            self.memory_left -= more;
        }
        Ok(!self.over)
    }

    fn table_growing(&mut self, current: usize, desired: usize, most: Option<usize>) -> wasmtime::Result<bool> {
        let bytes = |elements: usize| elements.saturating_mul(ELEMENT_BYTES);
        Ok(desired <= TABLE_MAX && self.memory_growing(bytes(current), bytes(desired), most)?)
    }

    fn instances(&self) -> usize {
        PARTS_MAX
    }

    fn memories(&self) -> usize {
        PARTS_MAX
    }

    fn tables(&self) -> usize {
        PARTS_MAX
    }
}
