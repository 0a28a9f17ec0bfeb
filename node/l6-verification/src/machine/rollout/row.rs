//! The row of an agent's versions, as bytes: all that is known of them, so that each change is one write. Fractions are written
//! as the bits that they are in memory, since rows have none.

use althing_protocol::{Digest, cbor};
use minicbor::{Decode, Encode};

use super::plan::Plan;
use super::run::{Counts, Phase, Rollout};
use super::split::Split;
use super::trial::{SignalTrial, SignalTrials};
use super::versions::{DRAINS_MAX, REVERSALS_MAX, Reversal, Versions};
use super::weights::Weights;
use crate::machine::evidence::{Block, EProcess, Null, Tally};

/// Bytes of a row: the versions that went back take 10 KiB, and all else less.
pub const VERSIONS_ROW_BYTES_MAX: usize = 64 << 10;

/// Why bytes are no row of an agent's versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the row of an agent's versions is cut, too long, or no such row")]
pub struct RowError;

#[derive(Encode, Decode)]
#[cbor(map)]
struct VersionsRow {
    #[cbor(n(0), with = "minicbor::bytes")]
    stable: Digest,
    #[n(1)]
    revision: u64,
    #[n(2)]
    latest_ms: u64,
    #[n(3)]
    rollout: Option<RolloutRow>,
    #[n(4)]
    drains: Vec<Split>,
    #[n(5)]
    reversals: Vec<ReversalRow>,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct ReversalRow {
    #[cbor(n(0), with = "minicbor::bytes")]
    version: Digest,
    #[n(1)]
    reversal: Reversal,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct RolloutRow {
    #[n(0)]
    plan: Plan,
    #[n(1)]
    split: Split,
    #[n(2)]
    phase: Phase,
    #[n(3)]
    stage: u8,
    /// In the order of the signals.
    #[n(4)]
    signals: Vec<SignalRow>,
    #[n(5)]
    counts: Counts,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct SignalRow {
    #[n(0)]
    worse: ProcessRow,
    #[n(1)]
    fresh: Option<ProcessRow>,
    #[n(2)]
    past_bits: u64,
    #[n(3)]
    no_worse: ProcessRow,
    #[n(4)]
    open: Block,
    #[n(5)]
    seen: Block,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct ProcessRow {
    #[n(0)]
    stable: Tally,
    #[n(1)]
    new: Tally,
    #[n(2)]
    wealth_bits: Vec<u64>,
    #[n(3)]
    peak_bits: u64,
}

impl ProcessRow {
    fn of(process: &EProcess) -> ProcessRow {
        let [stable, new] = process.calls();
        let (wealth, peak) = process.wealth();
        let wealth_bits = wealth.iter().map(|coins| coins.to_bits()).collect();
        ProcessRow { stable, new, wealth_bits, peak_bits: peak.to_bits() }
    }

    fn process(self, null: Null) -> Option<EProcess> {
        let wealth = self.wealth_bits.into_iter().map(f64::from_bits).collect();
        EProcess::of_parts(null, [self.stable, self.new], wealth, f64::from_bits(self.peak_bits))
    }
}

impl SignalRow {
    fn of(signal: &SignalTrial) -> SignalRow {
        SignalRow {
            worse: ProcessRow::of(&signal.worse),
            fresh: signal.fresh.as_ref().map(ProcessRow::of),
            past_bits: signal.past.to_bits(),
            no_worse: ProcessRow::of(&signal.no_worse),
            open: signal.open,
            seen: signal.seen,
        }
    }

    fn trial(self, plan: &Plan) -> Option<SignalTrial> {
        let past = f64::from_bits(self.past_bits);
        let fresh = match self.fresh {
            None => None,
            Some(fresh) => Some(fresh.process(Null::NoWorse)?),
        };
        (past.is_finite() && past >= 0.0).then_some(SignalTrial {
            worse: self.worse.process(Null::NoWorse)?,
            fresh,
            past,
            no_worse: self.no_worse.process(Null::WorseBy(plan.margin()))?,
            open: self.open,
            seen: self.seen,
        })
    }
}

impl RolloutRow {
    fn of(rollout: &Rollout) -> RolloutRow {
        RolloutRow {
            plan: rollout.plan().clone(),
            split: rollout.split().clone(),
            phase: rollout.phase(),
            stage: rollout.stage(),
            signals: rollout.trial().signals.iter().map(SignalRow::of).collect(),
            counts: Counts { unwritten: 0, ..rollout.counts().clone() },
        }
    }

    fn rollout(self) -> Option<Rollout> {
        self.plan.check().ok()?;
        let fits = [self.counts.shadow, self.counts.live].iter().all(|tally| tally.bad <= tally.calls);
        let fits = fits && self.counts.weights.as_ref().is_none_or(Weights::is_sound);
        let is_one = fits && self.split.to == self.plan.to && usize::from(self.stage) < self.plan.stages();
        let signals: Option<Vec<SignalTrial>> =
            self.signals.into_iter().map(|signal| signal.trial(&self.plan)).collect();
        let trial = SignalTrials { signals: signals?.try_into().ok()? };
        is_one.then(|| Rollout::of_parts((self.plan, self.split), (self.phase, self.stage), trial, self.counts))
    }
}

/// The bytes of an agent's versions.
#[must_use]
pub fn encode_row(versions: &Versions) -> Vec<u8> {
    let reversals = versions.reversals().iter();
    let row = VersionsRow {
        stable: versions.stable(),
        revision: versions.revision(),
        latest_ms: versions.latest_ms(),
        rollout: versions.rollout().map(RolloutRow::of),
        drains: versions.drains().to_vec(),
        reversals: reversals
            .map(|(version, reversal)| ReversalRow { version: *version, reversal: *reversal })
            .collect(),
    };
    minicbor::to_vec(row).expect("writing to a vector cannot fail")
}

/// Reads what [`encode_row`] wrote.
///
/// # Errors
/// [`RowError`].
pub fn decode_row(bytes: &[u8]) -> Result<Versions, RowError> {
    cbor::check(bytes, VERSIONS_ROW_BYTES_MAX).map_err(|_| RowError)?;
    let row: VersionsRow = minicbor::decode(bytes).map_err(|_| RowError)?;
    if row.drains.len() > DRAINS_MAX || row.reversals.len() > REVERSALS_MAX {
        return Err(RowError);
    }
    let rollout = match row.rollout {
        None => None,
        Some(rollout) => Some(rollout.rollout().ok_or(RowError)?),
    };
    let reversals = row.reversals.into_iter().map(|row| (row.version, row.reversal)).collect();
    let versions = Versions::of_parts((row.stable, row.revision, row.latest_ms), rollout, row.drains, reversals);
    // What was written says which version is stable in one way only.
    if encode_row(&versions) == bytes && versions.is_one() { Ok(versions) } else { Err(RowError) }
}
