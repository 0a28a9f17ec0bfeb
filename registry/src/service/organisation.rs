//! Who asks: publishers that sign in, and holders of tokens.

use std::collections::BTreeMap;

use althing_protocol::registry::{SignIn, SignInError};
use althing_protocol::{Digest, KeyLogError, PublisherId, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;

use super::admitting::admit_listed;
use super::{Reader, Registry, RequestError};
use crate::machine::knows;
use crate::tokens::{AccessError, TokenScope};

/// How long somebody stays signed in, milliseconds.
pub const SIGN_IN_MS: u64 = 10 * 60 * 1_000;
/// Publishers that are signed in at one time, each counted as often as it signed in.
const SIGN_INS_MAX: usize = 4_096;
/// How often one publisher may be signed in at one time.
const OF_ONE_MAX: usize = 16;
/// What the token of a sign-in begins with.
const PREFIX: &str = "althing_session_";

#[derive(Debug, Clone, Copy)]
struct SignInToken {
    publisher: PublisherId,
    until_ms: u64,
}

/// Those who have signed in, by the digests of their tokens. Kept in memory alone: who is forgotten signs in again.
#[derive(Debug, Default)]
pub struct SignInTokens(BTreeMap<Digest, SignInToken>);

impl SignInTokens {
    /// Notes a sign-in. Where there is no room the one that ends first gives way: keys cost nothing, so whoever fills
    /// the table must not keep others out.
    fn begin(&mut self, token: &str, publisher: PublisherId, now_ms: u64) {
        self.0.retain(|_, sign_in| sign_in.until_ms >= now_ms);
        self.make_room(OF_ONE_MAX, |sign_in| sign_in.publisher == publisher);
        self.make_room(SIGN_INS_MAX, |_| true);
        self.0.insert(digest(token.as_bytes()), SignInToken { publisher, until_ms: now_ms + SIGN_IN_MS });
    }

    /// Ends the sign-in that ends first of those that count, if there are `max` of them.
    fn make_room(&mut self, max: usize, counts: impl Fn(&SignInToken) -> bool) {
        let counted = self.0.iter().filter(|(_, sign_in)| counts(sign_in));
        if counted.clone().count() < max {
            return;
        }
        let first = counted.min_by_key(|(key, sign_in)| (sign_in.until_ms, **key)).map(|(key, _)| *key);
        if let Some(first) = first {
            self.0.remove(&first);
        }
    }

    fn of(&self, token: &str, now_ms: u64) -> Option<PublisherId> {
        let sign_in = self.0.get(&digest(token.as_bytes()))?;
        (sign_in.until_ms >= now_ms).then_some(sign_in.publisher)
    }
}

/// Who asks, as far as it has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Visitor {
    /// Nobody in particular.
    Anybody,
    /// A publisher that signed in.
    Publisher(PublisherId),
    /// The holder of a token that reads what a publisher reads.
    Reads(PublisherId),
    /// The holder of a token that stages a publisher's releases, and nothing else.
    Stages(PublisherId),
}

impl Visitor {
    /// As whom it reads.
    #[must_use]
    pub fn reader(self) -> Reader {
        match self {
            Visitor::Publisher(publisher) | Visitor::Reads(publisher) => Some(publisher),
            Visitor::Anybody | Visitor::Stages(_) => None,
        }
    }

    /// The publisher that signed in.
    ///
    /// # Errors
    /// [`RequestError::SignInFirst`].
    pub fn publisher(self) -> Result<PublisherId, RequestError> {
        match self {
            Visitor::Publisher(publisher) => Ok(publisher),
            _ => Err(RequestError::SignInFirst),
        }
    }
}

/// Who asks a registry.
#[derive(Clone, Copy)]
pub struct Visits<'a>(pub(super) &'a Registry);

impl Visits<'_> {
    /// Refuses somebody who may not publish here and for whom nothing is here, if the key log is its own; else whether
    /// everybody may know that it is not so. Nothing is verified for that.
    ///
    /// # Errors
    /// [`RequestError::Stranger`].
    pub fn check(&self, sign_in: &SignIn) -> Result<bool, RequestError> {
        let publisher = sign_in.claimed().ok_or(SignInError::KeyLog(KeyLogError::Empty))?;
        admit_listed(self.0);
        let (seen, now_ms) = (self.0.seen(), (self.0.clock)());
        let is_known = knows(&seen.machine, publisher, now_ms);
        if is_known || seen.machine.limited().has_reader(publisher) {
            return Ok(is_known);
        }
        Err(RequestError::Stranger(publisher))
    }

    /// Signs a publisher in that shows its key; gives the token of the session.
    ///
    /// # Errors
    /// See [`RequestError`].
    pub fn sign_in(&self, sign_in: &SignIn) -> Result<String, RequestError> {
        let (is_known, now_ms) = (self.check(sign_in)?, (self.0.clock)());
        let shown = sign_in.verify(self.0.network(), self.0.note_key(), now_ms);
        let shown = match (shown, sign_in.claimed()) {
            // Whoever shows somebody else's key log learns not from the error that something is hidden here for them.
            (Err(_), Some(claimed)) if !is_known => return Err(RequestError::Stranger(claimed)),
            (shown, _) => shown?,
        };
        let publisher = shown.publisher();
        // Keys that were rotated away here, or are not known, open nothing; nor does a log that forks.
        if let Some(known) = self.0.seen().machine.key_log(publisher)
            && !shown.continues(known)
        {
            return Err(RequestError::OldKeys(publisher));
        }
        let random = self.0.directory.as_ref().map(|directory| &directory.random).ok_or(RequestError::NoSessions)?;
        let bytes = [random(), random()].concat();
        let token = format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(bytes));
        self.0.sign_ins.lock().expect("no holder panics").begin(&token, publisher, now_ms);
        Ok(token)
    }

    /// Who shows a token.
    ///
    /// # Errors
    /// [`AccessError::Unknown`].
    ///
    /// # Panics
    /// If another holder panicked.
    pub fn visitor(&self, token: Option<&str>) -> Result<Visitor, AccessError> {
        let Some(token) = token else { return Ok(Visitor::Anybody) };
        let now_ms = (self.0.clock)();
        if let Some(publisher) = self.0.sign_ins.lock().expect("no holder panics").of(token, now_ms) {
            return Ok(Visitor::Publisher(publisher));
        }
        let access = self.0.access().map_err(|_| AccessError::Unknown)?;
        Ok(match access.publisher(token)? {
            Some((TokenScope::StageReleases, publisher)) => Visitor::Stages(publisher),
            Some((_, publisher)) => Visitor::Reads(publisher),
            // It is for Things; releases that are for everybody are for its holder too.
            None => Visitor::Anybody,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sessions_end_and_are_bounded() {
        let mut sign_ins = SignInTokens::default();
        let publisher = |at: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&at.to_be_bytes());
            PublisherId::from_digest(bytes)
        };
        sign_ins.begin("one", publisher(1), 0);
        assert_eq!(sign_ins.of("one", SIGN_IN_MS), Some(publisher(1)));
        assert_eq!(sign_ins.of("one", SIGN_IN_MS + 1), None);
        assert_eq!(sign_ins.of("on", 0), None);
        for at in 0..OF_ONE_MAX as u64 {
            sign_ins.begin(&format!("more {at}"), publisher(1), at + 1);
        }
        assert_eq!(sign_ins.of("one", 20), None, "one publisher's oldest makes room");
        assert_eq!(sign_ins.of("more 0", 20), Some(publisher(1)));
        assert_eq!(sign_ins.0.len(), OF_ONE_MAX);
        sign_ins.begin("later", publisher(2), 30 + SIGN_IN_MS);
        assert_eq!(sign_ins.0.len(), 1, "what is over takes no room");
    }

    #[test]
    fn who_fills_the_table_keeps_nobody_out() {
        let mut sign_ins = SignInTokens::default();
        let publisher = |at: u64| {
            let mut bytes = [0; 32];
            bytes[..8].copy_from_slice(&at.to_be_bytes());
            PublisherId::from_digest(bytes)
        };
        for at in 0..SIGN_INS_MAX as u64 {
            sign_ins.begin(&format!("fresh {at}"), publisher(at), at);
        }
        assert_eq!(sign_ins.of("fresh 0", 5_000), Some(publisher(0)), "there is room for so many");
        sign_ins.begin("honest", publisher(9_999), 5_000);
        assert_eq!(sign_ins.of("honest", 5_000), Some(publisher(9_999)));
        assert_eq!(sign_ins.of("fresh 0", 5_000), None, "the one that ends first gives way");
        assert_eq!(sign_ins.of("fresh 1", 5_000), Some(publisher(1)), "and no other");
        assert_eq!(sign_ins.0.len(), SIGN_INS_MAX);
    }
}
