//! Promises that are held for somebody who has not sent an agent yet: in two phases, each with an end of its own.
//!
//! Pure: times are handed in. A reservation is a promise in the plan under a name that no agent has, until it is taken
//! by an agent, cancelled, or over.

use std::collections::BTreeMap;
use std::time::Duration;

use althing_protocol::{Digest, PublicKey};

/// Reservations of one node.
pub const RESERVATIONS_MAX: usize = 64;
/// Of these, for one holder.
pub const RESERVATIONS_OF_ONE_MAX: usize = 16;
/// How long one that was not confirmed may last.
pub const PREPARED_MAX: Duration = Duration::from_secs(60);
/// How long one that was confirmed may last, from when it was confirmed last.
pub const CONFIRMED_MAX: Duration = Duration::from_secs(600);

/// Why a reservation is not made, kept or taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaseError {
    /// There is none of that id for that holder: never made, taken, cancelled, or over.
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

/// One promise that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Held {
    holder: PublicKey,
    contract: Digest,
    until_ns: u64,
    confirmed: bool,
}

/// The promises that are held.
#[derive(Debug, Default)]
pub struct Reservations(BTreeMap<String, Held>);

/// The name of a reservation in the plan: no agent's name has a blank.
#[must_use]
pub fn name_of(id: &str) -> String {
    format!("reserved {id}")
}

fn until(now_ns: u64, lease: Duration, most: Duration) -> u64 {
    now_ns.saturating_add(u64::try_from(lease.min(most).as_nanos()).unwrap_or(u64::MAX))
}

impl Reservations {
    /// Whether one more may be held for `holder`.
    ///
    /// # Errors
    /// [`LeaseError::TooMany`].
    pub fn room(&self, holder: PublicKey) -> Result<(), LeaseError> {
        let own = self.0.values().filter(|held| held.holder == holder).count();
        if own >= RESERVATIONS_OF_ONE_MAX {
            return Err(LeaseError::TooMany(RESERVATIONS_OF_ONE_MAX));
        }
        if self.0.len() >= RESERVATIONS_MAX { Err(LeaseError::TooMany(RESERVATIONS_MAX)) } else { Ok(()) }
    }

    /// Holds one; how long it lasts, from `now_ns`, is at most [`PREPARED_MAX`].
    pub fn prepare(&mut self, id: &str, holder: PublicKey, contract: Digest, now_ns: u64, lease: Duration) {
        let until_ns = until(now_ns, lease, PREPARED_MAX);
        self.0.insert(id.to_owned(), Held { holder, contract, until_ns, confirmed: false });
    }

    /// Confirms one, or makes one that was confirmed last longer; at most [`CONFIRMED_MAX`] from `now_ns`.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn confirm(&mut self, id: &str, holder: PublicKey, now_ns: u64, lease: Duration) -> Result<(), LeaseError> {
        let held = self.of(id, holder, now_ns)?;
        held.confirmed = true;
        held.until_ns = until(now_ns, lease, CONFIRMED_MAX);
        Ok(())
    }

    /// Gives one back.
    ///
    /// # Errors
    /// [`LeaseError::Unknown`].
    pub fn cancel(&mut self, id: &str, holder: PublicKey, now_ns: u64) -> Result<(), LeaseError> {
        self.of(id, holder, now_ns)?;
        self.0.remove(id);
        Ok(())
    }

    /// Whether an agent of that contract may take one.
    ///
    /// # Errors
    /// See [`LeaseError`].
    pub fn may_take(&self, id: &str, contract: &Digest, now_ns: u64) -> Result<(), LeaseError> {
        let held = self.0.get(id).filter(|held| held.until_ns > now_ns).ok_or(LeaseError::Unknown)?;
        match held {
            held if !held.confirmed => Err(LeaseError::NotConfirmed),
            held if held.contract != *contract => Err(LeaseError::AnotherContract),
            _ => Ok(()),
        }
    }

    /// One was taken.
    pub fn taken(&mut self, id: &str) {
        self.0.remove(id);
    }

    /// Whether one is held still.
    #[must_use]
    pub fn is_held(&self, id: &str, now_ns: u64) -> bool {
        self.0.get(id).is_some_and(|held| held.until_ns > now_ns)
    }

    /// Takes away what is over; the ids.
    pub fn expire(&mut self, now_ns: u64) -> Vec<String> {
        let over: Vec<String> =
            self.0.iter().filter(|(_, held)| held.until_ns <= now_ns).map(|(id, _)| id.clone()).collect();
        self.0.retain(|_, held| held.until_ns > now_ns);
        over
    }

    /// How many are held.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether none is held.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn of(&mut self, id: &str, holder: PublicKey, now_ns: u64) -> Result<&mut Held, LeaseError> {
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

    // P-60, P-61
    #[test]
    fn each_phase_ends_by_itself() {
        let mut all = Reservations::default();
        all.prepare("a", key(1), [0; 32], 0, 10 * SECOND);
        assert_eq!(all.may_take("a", &[0; 32], 1), Err(LeaseError::NotConfirmed));
        assert_eq!(all.confirm("a", key(2), 1, SECOND), Err(LeaseError::Unknown), "another's");
        assert_eq!(all.confirm("a", key(1), 9_000_000_000, 100 * SECOND), Ok(()));
        assert!(all.expire(10_000_000_000).is_empty());
        assert_eq!(all.may_take("a", &[1; 32], 10_000_000_000), Err(LeaseError::AnotherContract));
        assert_eq!(all.expire(109_000_000_000), ["a"]);
        assert_eq!(all.may_take("a", &[0; 32], 1), Err(LeaseError::Unknown));
        // What is over counts as gone before anybody took it away.
        all.prepare("b", key(1), [0; 32], 0, SECOND);
        assert_eq!(all.confirm("b", key(1), 1_000_000_000, SECOND), Err(LeaseError::Unknown));
        // Nobody is given more than there is.
        all.prepare("c", key(1), [0; 32], 0, Duration::MAX);
        assert_eq!(all.expire(60_000_000_000), ["b", "c"]);
    }

    // P-61
    #[test]
    fn taken_or_cancelled_is_gone() {
        let mut all = Reservations::default();
        all.prepare("a", key(1), [7; 32], 0, SECOND);
        all.confirm("a", key(1), 0, SECOND).expect("held");
        assert_eq!(all.may_take("a", &[7; 32], 0), Ok(()));
        assert!(all.is_held("a", 0));
        all.taken("a");
        assert_eq!(all.may_take("a", &[7; 32], 0), Err(LeaseError::Unknown));
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
            all.room(holder).expect("there is room");
            all.prepare(&place.to_string(), holder, [0; 32], 0, SECOND);
        }
        assert_eq!(all.room(key(0)), Err(LeaseError::TooMany(RESERVATIONS_OF_ONE_MAX)));
        assert_eq!(all.room(key(100)), Err(LeaseError::TooMany(RESERVATIONS_MAX)));
    }
}
