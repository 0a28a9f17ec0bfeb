//! The rows of turns whose agents are code that runs again: from where, and at what time.

use althing_execution::journal::{Clock, Reading};
use althing_protocol::Label;
use minicbor::bytes::ByteVec;
use minicbor::{Decode, Encode};

/// From where a turn goes on, or a part of it: the parts follow one another.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct CheckpointRow {
    /// The number of the step that follows.
    #[n(0)]
    pub step: u32,
    /// How many parts follow this one.
    #[n(1)]
    pub more: u32,
    /// How many bytes of the whole are what the agent gave; the rest is its runtime's.
    #[n(2)]
    pub state_bytes: u32,
    /// The bytes of this part.
    #[n(3)]
    pub bytes: ByteVec,
    /// The label of all that the turn was given by then.
    #[n(4)]
    pub label: Option<Label>,
}

/// What clocks said, in their order.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct ReadsRow {
    /// Eight bytes of each reading, the most significant first: nanoseconds, and above them a bit that is set for the clock that
    /// only goes forward.
    #[n(0)]
    bytes: ByteVec,
}

/// The bit of a reading that tells its clock.
const IS_MONOTONIC: u64 = 1 << 63;

impl ReadsRow {
    /// A row of these.
    #[must_use]
    pub fn of(readings: &[Reading]) -> ReadsRow {
        let word = |reading: &Reading| match reading.clock {
            Clock::Wall => reading.ns & !IS_MONOTONIC,
            Clock::Monotonic => reading.ns | IS_MONOTONIC,
        };
        let bytes: Vec<u8> = readings.iter().flat_map(|reading| word(reading).to_be_bytes()).collect();
        ReadsRow { bytes: bytes.into() }
    }

    /// What was read; none if the bytes are no readings.
    #[must_use]
    pub fn readings(&self) -> Option<Vec<Reading>> {
        let (words, rest) = self.bytes.as_chunks::<8>();
        let reading = |bytes: &[u8; 8]| {
            let word = u64::from_be_bytes(*bytes);
            let clock = if word & IS_MONOTONIC == 0 { Clock::Wall } else { Clock::Monotonic };
            Reading { clock, ns: word & !IS_MONOTONIC }
        };
        rest.is_empty().then(|| words.iter().map(reading).collect())
    }
}
