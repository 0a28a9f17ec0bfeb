//! Reading the log from its beginning: the state follows from it.

use std::sync::mpsc::{Receiver, sync_channel};

use althing_store::Range;

use super::rows::{self, STATEMENTS, Unread};
use super::{OpenError, Registry, Seen};
use crate::machine::Statement;

/// Entries that are read at once: what is held of them at a start does not grow with the log.
const READ_AT_ONCE: u64 = 64;
/// What one reader may be ahead, in such reads.
const AHEAD: usize = 2;
/// Readers at most.
const READERS_MAX: u64 = 8;

type Read = Result<Vec<Statement>, OpenError>;

/// Applies the entries that were not, up to `size`. Statements are read and verified on all processors; they are applied
/// in their order.
pub(super) fn replay(registry: &Registry, seen: &mut Seen, size: u64) -> Result<(), OpenError> {
    let begin = seen.next;
    let pieces = (size - begin).div_ceil(READ_AT_ONCE);
    let read = |piece: u64| read_some(registry, begin + piece * READ_AT_ONCE, size);
    let processors = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    let readers = processors.min(READERS_MAX).min(pieces);
    if readers < 2 {
        return (0..pieces).try_for_each(|piece| apply(seen, read(piece)));
    }
    std::thread::scope(|scope| {
        let start = |first: u64| {
            let (sender, receiver) = sync_channel(AHEAD);
            scope.spawn(move || {
                let mut own = (0..).map(|at| first + at * readers).take_while(|piece| *piece < pieces);
                // Nobody waits for more after one that cannot be read.
                while own.next().is_some_and(|piece| sender.send(read(piece)).is_ok()) {}
            });
            receiver
        };
        let receivers: Vec<Receiver<Read>> = (0..readers).map(start).collect();
        let mut turns = receivers.iter().cycle();
        (0..pieces).try_for_each(|_| {
            let receiver = turns.next().expect("there are some");
            apply(seen, receiver.recv().expect("a reader sends all its pieces"))
        })
    })
}

/// Statements from `first` on, some at once.
fn read_some(registry: &Registry, first: u64, size: u64) -> Read {
    let count = READ_AT_ONCE.min(size - first);
    let mut range = Range::all(usize::try_from(count).unwrap_or(usize::MAX));
    if let Some(before) = first.checked_sub(1) {
        range = range.after(before.to_be_bytes());
    }
    let rows = registry.store.scan(STATEMENTS, range)?;
    let mut rows = rows.into_iter().peekable();
    let read = |(index, entry): (u64, Vec<u8>)| {
        let network = &registry.config.network;
        let (_, row) = rows.next_if(|(key, _)| *key == index.to_be_bytes()).ok_or(OpenError::Statement(index))?;
        rows::read(&entry, &row, network).map_err(|unread| match unread {
            Unread::Damaged => OpenError::Statement(index),
            Unread::OtherNetwork => OpenError::OtherNetwork { index, network: network.clone() },
        })
    };
    (first..).zip(registry.log.entries(first, count)?).map(read).collect()
}

fn apply(seen: &mut Seen, read: Read) -> Result<(), OpenError> {
    for statement in read? {
        seen.machine.apply(seen.next, &statement);
        seen.next += 1;
    }
    Ok(())
}
