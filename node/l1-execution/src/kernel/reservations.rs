//! Reservations of guarantees for agents that are not here yet: a lease in two phases (prepare, confirm), each with a timeout.
//!
//! Pure: times are parameters. A reservation is a guarantee in the plan under a name that no agent has, until an agent
//! takes it, it is cancelled, or it expires.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::{Digest, PublicKey};

/// Reservations of one node.
pub const RESERVATIONS_MAX: usize = 64;
/// Of these, for one holder.
pub const RESERVATIONS_OF_ONE_MAX: usize = 16;
/// The longest lease of an unconfirmed reservation.
pub const PREPARED_MAX: Duration = Duration::from_secs(60);
/// The longest lease of a confirmed reservation, from its last confirmation.
pub const CONFIRMED_MAX: Duration = Duration::from_secs(600);

/// Why a reservation is not made, renewed or taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// The holder has no such reservation: never made, taken, cancelled, or expired.
    #[error("there is no such reservation: it was taken, cancelled, or its time was over")]
    Unknown,
    /// There are too many.
    #[error("this node holds as many reservations as it may ({0}); cancel one, or wait until one is over")]
    TooMany(usize),
    /// It was not confirmed.
    #[error("the reservation was prepared and not confirmed")]
    NotConfirmed,
    /// It was made for another contract.
    #[error(
        "the reservation was made for another contract; what this node's policy and the agent's role make of it counts too"
    )]
    AnotherContract,
}

/// One reservation.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Reservation {
    holder: PublicKey,
    contract: Digest,
    until_ns: u64,
    confirmed: bool,
}

/// The reservations of a node.
#[derive(Debug, Default)]
pub struct Reservations(BTreeMap<String, Reservation>);

/// The name of a reservation in the plan; names of agents hold no blank.
#[must_use]
pub fn plan_name(id: &str) -> String {
    format!("reserved {id}")
}

fn until(now_ns: u64, lease: Duration, most: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(lease.min(most).as_nanos()).unwrap_or(u64::MAX))
}

impl Reservations {
    /// Checks that `holder` may make one more.
    ///
    /// # Errors
    /// [`LeaseError::TooMany`].
    pub fn check_capacity(&self, holder: PublicKey) -> Result<(), LeaseError> {
        let own = self.0.values().filter(|held| held.holder == holder).count();
        if own >= RESERVATIONS_OF_ONE_MAX {
            return Err(LeaseError::TooMany(RESERVATIONS_OF_ONE_MAX));
        }
        if self.0.len() >= RESERVATIONS_MAX { Err(LeaseError::TooMany(RESERVATIONS_MAX)) } else { Ok(()) }
    }

    /// Makes one; it expires after `lease`, at most [`PREPARED_MAX`].
    pub fn prepare(&mut self, id: &str, holder: PublicKey, contract: Digest, now_ns: u64, lease: Duration) {
        let until_ns = until(now_ns, lease, PREPARED_MAX);
        self.0.insert(id.to_owned(), Reservation { holder, contract, until_ns, confirmed: false });
    }

    /// Confirms or renews one; it expires after `lease`, at most [`CONFIRMED_MAX`].
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn confirm(&mut self, id: &str, holder: PublicKey, now_ns: u64, lease: Duration) -> Result<(), LeaseError> {
        let held = self.of(id, holder, now_ns)?;
        held.confirmed = true;
        held.until_ns = until(now_ns, lease, CONFIRMED_MAX);
        Ok(())
    }

    /// Cancels one.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn cancel(&mut self, id: &str, holder: PublicKey, now_ns: u64) -> Result<(), LeaseError> {
        self.of(id, holder, now_ns)?;
        self.0.remove(id);
        Ok(())
    }

    /// Checks that an agent of that contract may take one.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn check_claim(&self, id: &str, contract: &Digest, now_ns: u64) -> Result<(), LeaseError> {
        let held = self.0.get(id).filter(|held| held.until_ns > now_ns).ok_or(LeaseError::Unknown)?;
        match held {
            held if !held.confirmed => Err(LeaseError::NotConfirmed),
            held if held.contract != *contract => Err(LeaseError::AnotherContract),
            _ => Ok(()),
        }
    }

    /// Removes one that an agent took.
    pub fn consume(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Whether one exists.
    #[must_use]
    pub fn holds(&self, id: &str, now_ns: u64) -> bool {
        self.0.get(id).is_some_and(|held| held.until_ns > now_ns)
    }

    /// Removes expired ones; gives their ids.
    pub fn expire(&mut self, now_ns: u64) -> Vec<String> {
        let over: Vec<String> =
            self.0.iter().filter(|(_, held)| held.until_ns <= now_ns).map(|(id, _)| id.clone()).collect();
        self.0.retain(|_, held| held.until_ns > now_ns);
        over
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&mut self, id: &str, holder: PublicKey, now_ns: u64) -> Result<&mut Reservation, LeaseError> {
        let held = self.0.get_mut(id).filter(|held| held.holder == holder && held.until_ns > now_ns);
        held.ok_or(LeaseError::Unknown)
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn key(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    /// P-60, P-61
    #[test]
    fn each_phase_ends_by_itself() {
        let mut all = Reservations::default();
        all.prepare("a", key(1), [0; 32], 0, 10 * SECOND);
        assert_eq!(all.check_claim("a", &[0; 32], 1), Err(LeaseError::NotConfirmed));
        assert_eq!(all.confirm("a", key(2), 1, SECOND), Err(LeaseError::Unknown), "another's");
        assert_eq!(all.confirm("a", key(1), 9_000_000_000, 100 * SECOND), Ok(()));
        assert!(all.expire(10_000_000_000).is_empty());
        assert_eq!(all.check_claim("a", &[1; 32], 10_000_000_000), Err(LeaseError::AnotherContract));
        assert_eq!(all.expire(109_000_000_000), ["a"]);
        assert_eq!(all.check_claim("a", &[0; 32], 1), Err(LeaseError::Unknown));
        // What is over counts as gone before anybody took it away.
        all.prepare("b", key(1), [0; 32], 0, SECOND);
        assert_eq!(all.confirm("b", key(1), 1_000_000_000, SECOND), Err(LeaseError::Unknown));
        // Nobody is given more than there is.
        all.prepare("c", key(1), [0; 32], 0, Duration::MAX);
        assert_eq!(all.expire(60_000_000_000), ["b", "c"]);
    }

    /// P-61
    #[test]
    fn taken_or_cancelled_is_gone() {
        let mut all = Reservations::default();
        all.prepare("a", key(1), [7; 32], 0, SECOND);
        all.confirm("a", key(1), 0, SECOND).expect("held");
        assert_eq!(all.check_claim("a", &[7; 32], 0), Ok(()));
        assert!(all.holds("a", 0));
        all.consume("a");
        assert_eq!(all.check_claim("a", &[7; 32], 0), Err(LeaseError::Unknown));
        all.prepare("b", key(1), [7; 32], 0, SECOND);
        assert_eq!(all.cancel("b", key(2), 0), Err(LeaseError::Unknown));
        assert_eq!(all.cancel("b", key(1), 0), Ok(()));
        assert!(all.is_empty());
    }

    #[test]
    fn nobody_holds_more_than_a_share() {
        let mut all = Reservations::default();
        for place in 0..RESERVATIONS_MAX {
            let holder = key(u8::try_from(place / RESERVATIONS_OF_ONE_MAX).expect("small"));
            all.check_capacity(holder).expect("there is room");
            all.prepare(&place.to_string(), holder, [0; 32], 0, SECOND);
        }
        assert_eq!(all.check_capacity(key(0)), Err(LeaseError::TooMany(RESERVATIONS_OF_ONE_MAX)));
        assert_eq!(all.check_capacity(key(100)), Err(LeaseError::TooMany(RESERVATIONS_MAX)));
    }
}
