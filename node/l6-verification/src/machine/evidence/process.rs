//! Evidence about two shares of bad calls that may be looked at after every call.
//!
//! A bettor begins with one coin and bets, before each block of calls, on what its calls will be like; the odds are fair, or
//! worse, as long as the null hypothesis holds. Then the coins that it has are more than 1/α at some time with a probability of
//! α at most, however long one looks (Ville's inequality). This is the e-process of Turner, Ly and Grünwald (*Safe tests for
//! 2×2 tables*, 2021): a block multiplies the coins by p(block | bet) / p(block | nearest pair of shares that the null allows).

use super::tally::{Block, Tally};

/// How much is known before the first block: so many bad calls, and as many good ones. The value that Turner and others found
/// to lose least.
const PRIOR: f64 = 0.18;

/// Besides on the shares seen until then, coins are bet on odds of a bad call that grew by these factors: shares of rare
/// failures are known only after many calls, and by then the version has done its harm.
const ODDS: [f64; 4] = [2.0, 4.0, 8.0, 16.0];

/// How often the interval is halved in which the nearest pair of shares lies: to the precision of the numbers.
const HALVINGS: u32 = 60;

/// What evidence is gathered against.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Null {
    /// The new version fails at most as often as stable: evidence against it says that it is worse.
    NoWorse,
    /// It fails more often, by this share of its calls or more (above 0, below 1): evidence against it says that it is not worse
    /// by that much.
    WorseBy(f64),
}

/// The coins of all bets against one null hypothesis.
#[derive(Debug, Clone, PartialEq)]
pub struct EProcess {
    null: Null,
    /// The calls of earlier blocks, after a record from before them.
    stable: Tally,
    new: Tally,
    /// The natural logarithm of each bet's coins; each began with the same part of the one coin.
    wealth: Vec<f64>,
    /// The logarithm of the most that all had together.
    peak: f64,
}

impl EProcess {
    /// Nothing seen yet. A record of stable's calls before, if there is one, makes the first bets better; it is no evidence.
    #[must_use]
    pub fn new(null: Null, record: Tally) -> EProcess {
        let bets = match null {
            Null::NoWorse => 1 + ODDS.len(),
            Null::WorseBy(_) => 2,
        };
        EProcess { null, stable: record, new: Tally::default(), wealth: vec![0.0; bets], peak: 0.0 }
    }

    /// One as it was, from its parts; none if they do not belong together.
    #[must_use]
    pub fn of_parts(null: Null, [stable, new]: [Tally; 2], wealth: Vec<f64>, peak: f64) -> Option<EProcess> {
        let empty = EProcess::new(null, stable);
        let fits = wealth.len() == empty.wealth.len() && wealth.iter().all(|coins| coins.is_finite());
        let counts = stable.bad <= stable.calls && new.bad <= new.calls;
        (fits && counts && peak.is_finite() && peak >= 0.0).then_some(EProcess { new, wealth, peak, ..empty })
    }

    /// The calls that it knows of, stable's with its record.
    #[must_use]
    pub fn calls(&self) -> [Tally; 2] {
        [self.stable, self.new]
    }

    /// The natural logarithm of each bet's coins, and of the most that all had together.
    #[must_use]
    pub fn wealth(&self) -> (&[f64], f64) {
        (&self.wealth, self.peak)
    }

    /// Weighs a block. One in which a version has no call says nothing of the two together, and improves the next bets only.
    pub fn add(&mut self, block: Block) {
        if block.stable.calls > 0 && block.new.calls > 0 {
            for (coins, bet) in self.wealth.iter_mut().zip(bets(self.null, self.stable, self.new)) {
                *coins += gain(self.null, block, bet);
            }
            self.peak = self.peak.max(self.ln_e());
        }
        self.stable = self.stable.plus(block.stable);
        self.new = self.new.plus(block.new);
    }

    /// The natural logarithm of the evidence: of all coins, where one coin was there at the beginning.
    #[must_use]
    pub fn ln_e(&self) -> f64 {
        let most = self.wealth.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = self.wealth.iter().map(|coins| (coins - most).exp()).sum();
        most + sum.ln() - (self.wealth.len() as f64).ln()
    }

    /// Whether the null hypothesis was refuted at any time, wrongly with a probability of `alpha` at most.
    #[must_use]
    pub fn is_refuted(&self, alpha: f64) -> bool {
        self.peak >= -alpha.ln()
    }
}

/// The share of bad calls that is expected of the next ones.
fn expected(tally: Tally) -> f64 {
    (tally.bad as f64 + PRIOR) / (tally.calls as f64 + 2.0 * PRIOR)
}

/// The shares, stable's and the new version's, that coins are bet on.
fn bets(null: Null, stable: Tally, new: Tally) -> Vec<(f64, f64)> {
    let seen = (expected(stable), expected(new));
    let equal = expected(stable.plus(new));
    match null {
        Null::NoWorse => {
            let raised = ODDS.iter().map(|factor| {
                let odds = equal / (1.0 - equal) * factor;
                (equal, odds / (1.0 + odds))
            });
            std::iter::once(seen).chain(raised).collect()
        }
        Null::WorseBy(_) => vec![seen, (equal, equal)],
    }
}

/// The logarithm of what a bet's coins are multiplied by: 0 for a bet on what the null hypothesis allows.
fn gain(null: Null, block: Block, (stable, new): (f64, f64)) -> f64 {
    let nearest = match null {
        Null::NoWorse if new > stable => nearest_equal(block, (stable, new)),
        Null::WorseBy(margin) if new < stable + margin => nearest_worse(block, (stable, new), margin),
        _ => return 0.0,
    };
    ln_ratio(block.stable, stable, nearest.0) + ln_ratio(block.new, new, nearest.1)
}

fn ln_ratio(tally: Tally, bet: f64, null: f64) -> f64 {
    let (bad, good) = (tally.bad as f64, tally.calls.saturating_sub(tally.bad) as f64);
    bad * (bet / null).ln() + good * ((1.0 - bet) / (1.0 - null)).ln()
}

/// Of all pairs of equal shares, the one nearest to the bet (in relative entropy).
fn nearest_equal(block: Block, (stable, new): (f64, f64)) -> (f64, f64) {
    let (of_stable, of_new) = (block.stable.calls as f64, block.new.calls as f64);
    let both = (of_stable * stable + of_new * new) / (of_stable + of_new);
    (both, both)
}

/// Of all pairs in which the new version's share is larger by the margin, the one nearest to the bet (in relative entropy). The
/// distance is convex, so that its slope has one zero.
fn nearest_worse(block: Block, (stable, new): (f64, f64), margin: f64) -> (f64, f64) {
    let (of_stable, of_new) = (block.stable.calls as f64, block.new.calls as f64);
    let falls = |at: f64| {
        let beside = at + margin;
        let slope = of_stable * (stable - at) / (at * (1.0 - at)) + of_new * (new - beside) / (beside * (1.0 - beside));
        slope > 0.0
    };
    let (mut low, mut high) = (0.0, 1.0 - margin);
    for _ in 0..HALVINGS {
        let middle = 0.5 * (low + high);
        if falls(middle) {
            low = middle;
        } else {
            high = middle;
        }
    }
    let at = 0.5 * (low + high);
    (at, at + margin)
}

#[cfg(test)]
mod tests;
