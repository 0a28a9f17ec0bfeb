//! How much of what strangers show is verified: by signatures and bytes, not by requests (the generic cell rate algorithm,
//! ITU-T I.371). Who shows more waits until it is its turn again; nothing is lost by that but time.

use std::collections::BTreeMap;

use crate::machine::rank::Holder;

/// Signatures that are verified each second for those of one origin: about 1.6 % of a core.
const PER_SECOND: u64 = 200;
/// Signatures at once: those of 500 agents whose publishers changed their keys five times.
const AT_ONCE: u64 = 4_000;
/// Bytes that cost as much as a signature.
const BYTES: usize = 512;
/// Origins that are counted at one time. Each is forgotten once it may show everything again, after half a minute.
const HOLDERS_MAX: usize = 4_096;

const EACH_US: u64 = 1_000_000 / PER_SECOND;

/// What evidence of that many events and bytes costs: the events, description and grant.
#[must_use]
pub fn cost(events: usize, bytes: usize) -> u64 {
    u64::try_from((events + 2).max(bytes / BYTES)).unwrap_or(u64::MAX)
}

/// What was verified for each origin.
#[derive(Debug, Default)]
pub struct VerificationBudget {
    /// When it will have its full budget again, microseconds.
    settled_us: BTreeMap<Holder, u64>,
}

impl VerificationBudget {
    /// May something of that origin be verified now?
    #[must_use]
    pub fn has(&self, holder: Holder, now_ms: u64) -> bool {
        match self.settled_us.get(&holder) {
            Some(settled_us) => *settled_us <= now_ms * 1_000 + AT_ONCE * EACH_US,
            None => self.settled_us.len() < HOLDERS_MAX || self.settled_us.values().any(|us| *us <= now_ms * 1_000),
        }
    }

    /// Takes what something costs. False, and nothing is taken, when that origin is to wait.
    pub fn take(&mut self, holder: Holder, cost: u64, now_ms: u64) -> bool {
        if !self.has(holder, now_ms) {
            return false;
        }
        if self.settled_us.len() >= HOLDERS_MAX {
            self.settled_us.retain(|_, settled_us| *settled_us > now_ms * 1_000);
        }
        let settled_us = self.settled_us.entry(holder).or_default();
        *settled_us = (*settled_us).max(now_ms * 1_000).saturating_add(cost.saturating_mul(EACH_US));
        true
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use althing_communication::Origin;
    use proptest::prelude::*;

    use super::*;

    fn holder(number: u32) -> Holder {
        let [_, b, c, d] = number.to_be_bytes();
        Holder::Origin(Origin::Address(IpAddr::from([10, b, c, d])))
    }

    proptest! {
        /// However it comes: never more than the rate, what may come at once, and the last that was begun with something left.
        #[test]
        fn an_origin_has_its_rate_and_no_more(shown in proptest::collection::vec((0u64..5_000, 1u64..400), 1..300)) {
            let (mut verification_budget, mut now_ms, mut verified) = (VerificationBudget::default(), 0, 0);
            for (gap_ms, cost) in shown {
                now_ms += gap_ms;
                if verification_budget.take(holder(1), cost, now_ms) {
                    verified += cost;
                }
                prop_assert!(verified <= AT_ONCE + now_ms * PER_SECOND / 1_000 + 400, "{verified} at {now_ms}");
            }
        }
    }

    #[test]
    fn who_shows_too_much_waits_and_others_do_not() {
        let mut verification_budget = VerificationBudget::default();
        let taken = (0..1_000).take_while(|_| verification_budget.take(holder(1), cost(208, 50_000), 0)).count();
        assert_eq!(taken, 20, "4,000 of 210 each, and the one that began before they were used up");
        assert!(verification_budget.take(holder(2), 1, 0));
        assert!(!verification_budget.has(holder(1), 900) && verification_budget.has(holder(1), 1_100));
        assert_eq!((cost(1, 0), cost(1, 1 << 20)), (3, 2_048), "a long description costs too");
    }

    #[test]
    fn origins_that_are_counted_are_bounded_and_forgotten() {
        let mut verification_budget = VerificationBudget::default();
        let all = u32::try_from(HOLDERS_MAX).expect("few");
        assert!((0..all).all(|number| verification_budget.take(holder(number), 10, 0)));
        assert!(!verification_budget.take(holder(all), 10, 0), "no more of them");
        assert!(verification_budget.take(holder(0), 10, 0), "those that are counted go on");
        assert!(verification_budget.take(holder(all), 10, 60_000) && verification_budget.settled_us.len() == 1);
    }
}
