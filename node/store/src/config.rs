//! The bounds of a store on disk. The defaults keep an idle node small; every figure is a capacity, not a target.

/// Bounds of a [`RocksStore`](crate::RocksStore).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreConfig {
    /// Bytes one family gathers in memory before they become a file. Default 4 MiB.
    pub write_buffer_bytes: usize,
    /// Bytes all families together gather in memory. Default 8 MiB.
    pub write_buffers_bytes: usize,
    /// Bytes of file blocks kept in memory, indexes included. Default 8 MiB.
    pub cache_bytes: usize,
    /// Bytes of write-ahead log before the families that hold it back are written out. Default 16 MiB.
    pub wal_bytes: u64,
    /// Files held open at a time. Default 64.
    pub open_files: i32,
    /// Threads that write files out and merge them. Default 2.
    pub background_threads: i32,
    /// Bytes of writes that may wait for the committing thread; a writer beyond them waits. Default 8 MiB.
    pub queue_bytes: usize,
    /// Bytes the committing thread puts into one commit at most (a single batch may be larger). Default 1 MiB.
    pub group_bytes: usize,
    /// Bytes that stay free on the disk: a write that puts rows is refused as
    /// [`WriteError::Full`](crate::WriteError::Full) when less is free, so that there is room to merge files and to
    /// delete. Default 16 MiB.
    pub reserve_bytes: u64,
}

impl Default for StoreConfig {
    fn default() -> StoreConfig {
        StoreConfig {
            write_buffer_bytes: 4 << 20,
            write_buffers_bytes: 8 << 20,
            cache_bytes: 8 << 20,
            wal_bytes: 16 << 20,
            open_files: 64,
            background_threads: 2,
            queue_bytes: 8 << 20,
            group_bytes: 1 << 20,
            reserve_bytes: 16 << 20,
        }
    }
}
