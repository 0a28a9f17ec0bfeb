//! Redirects: which host the calls of an agent ask first, and which redirects one call follows (SPEC P-195).
//!
//! All that is trusted in a redirect is that the host did not accept the message. Whether the node that it names hosts the
//! agent is known by that one's own evidence; how far a call follows is bounded.

use std::collections::BTreeMap;

use althing_call::Redirect;
use althing_protocol::{AgentId, PublicKey};

/// The extension by which a caller asks a host not to redirect the call.
pub(crate) const NO_REDIRECT: &str = "https://althing.dev/ext/no-redirect/v1";
/// Redirects that one call follows.
const FOLLOWED_MAX: usize = 2;
/// Moves of a task that one call follows. Each is proven, and newer than the one before; a caller that was away for long may have
/// several to catch up with.
pub(crate) const MOVES_MAX: usize = 16;
/// Agents of which the last redirect is remembered.
const AGENTS_MAX: usize = 1_024;

/// Why a redirect is not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RedirectError {
    /// The node redirected the same call.
    #[error("which redirected the call itself")]
    Back,
    /// The node could not be reached for this call.
    #[error("which could not be reached")]
    Unreached,
    /// The call was redirected too often.
    #[error("after {FOLLOWED_MAX} other redirects, which is as many as one call follows")]
    TooMany,
    /// The task moved too often.
    #[error("after {MOVES_MAX} other moves of the task, which is as many as one call follows")]
    TooManyMoves,
    /// The node is not known to host the agent.
    #[error("which is not known to host the agent")]
    NoHost,
}

/// Which hosts one call went to.
#[derive(Debug, Default)]
pub(crate) struct RedirectPath {
    /// Who redirected it.
    redirected: Vec<PublicKey>,
    /// Who could not be reached, or does not host the agent.
    unreached: Vec<PublicKey>,
    /// How often it was redirected, and how often the task had moved.
    redirects: usize,
    moves: usize,
}

impl RedirectPath {
    /// A node could not be reached, or does not host the agent.
    pub fn mark_unreachable(&mut self, node: PublicKey) {
        self.unreached.push(node);
    }

    /// Who redirected the call first.
    pub fn first(&self) -> Option<PublicKey> {
        self.redirected.first().copied()
    }

    /// A redirect is not followed: the call is for `from` alone.
    pub fn stay(&mut self, from: PublicKey) {
        self.redirected.push(from);
    }

    /// Follows a redirect: whether the call goes on to `to` after `from` redirected it. `is_host` says whether `to` hosts the
    /// agent.
    pub fn follow(&mut self, from: PublicKey, to: PublicKey, is_host: bool) -> Result<(), RedirectError> {
        self.redirects += 1;
        let is_too_long = (self.redirects > FOLLOWED_MAX).then_some(RedirectError::TooMany);
        self.step(from, to, is_host, is_too_long)
    }

    /// The same after `from` proved that the task moved to `to`.
    pub fn move_on(&mut self, from: PublicKey, to: PublicKey, is_host: bool) -> Result<(), RedirectError> {
        self.moves += 1;
        let is_too_long = (self.moves > MOVES_MAX).then_some(RedirectError::TooManyMoves);
        self.step(from, to, is_host, is_too_long)
    }

    fn step(
        &mut self,
        from: PublicKey,
        to: PublicKey,
        is_host: bool,
        is_too_long: Option<RedirectError>,
    ) -> Result<(), RedirectError> {
        self.redirected.push(from);
        if self.redirected.contains(&to) {
            return Err(RedirectError::Back);
        }
        if self.unreached.contains(&to) {
            return Err(RedirectError::Unreached);
        }
        match is_too_long {
            Some(astray) => Err(astray),
            None if is_host => Ok(()),
            None => Err(RedirectError::NoHost),
        }
    }

    /// Whether a node did not do the call.
    pub fn failed(&self, node: &PublicKey) -> bool {
        self.redirected.contains(node) || self.unreached.contains(node)
    }
}

/// The last redirect of each agent, of a bounded number of agents.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    known: BTreeMap<AgentId, Remembered>,
    /// How many were remembered since the start.
    count: u64,
}

#[derive(Debug)]
struct Remembered {
    redirect: Redirect,
    /// Which of all it was: the lowest number makes room.
    number: u64,
}

impl Redirects {
    /// Puts the host to which the agent's calls were redirected last before the others. One that is no host any more is
    /// forgotten.
    pub fn order(&mut self, agent: &AgentId, hosts: &mut [PublicKey]) {
        let Some(member) = self.member(agent) else { return };
        match hosts.iter().position(|host| *host == member) {
            Some(at) => hosts[..=at].rotate_right(1),
            None => self.forget(agent, member),
        }
    }

    /// Takes in that `from` redirected a call, and gives whom to ask: the node that it names, or the remembered one, if the
    /// redirect is older than what is remembered and the remembered node did not fail in this call. `from` itself is asked first
    /// no more.
    pub fn update(&mut self, agent: &AgentId, from: PublicKey, redirect: Redirect, path: &RedirectPath) -> PublicKey {
        self.forget(agent, from);
        match self.known.get(agent).map(|known| known.redirect) {
            Some(known) if redirect.fence < known.fence && !path.failed(&known.member) => known.member,
            _ => redirect.member,
        }
    }

    /// Remembers a redirect that is followed, unless it is older than the one that is remembered.
    pub fn note(&mut self, agent: &AgentId, redirect: Redirect) {
        if self.known.get(agent).is_some_and(|known| redirect.fence < known.redirect.fence) {
            return;
        }
        if self.known.len() >= AGENTS_MAX && !self.known.contains_key(agent) {
            let oldest = self.known.iter().min_by_key(|(_, known)| known.number).map(|(agent, _)| agent.clone());
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        self.count += 1;
        self.known.insert(agent.clone(), Remembered { redirect, number: self.count });
    }

    /// A node could not be reached, or redirects calls itself: it is asked first no more.
    pub fn forget(&mut self, agent: &AgentId, node: PublicKey) {
        if self.member(agent) == Some(node) {
            self.known.remove(agent);
        }
    }

    fn member(&self, agent: &AgentId) -> Option<PublicKey> {
        self.known.get(agent).map(|known| known.redirect.member)
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::{PublisherId, SecretKey};

    use super::*;

    fn node(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    fn agent(name: &str) -> AgentId {
        AgentId::new(PublisherId::from_digest([1; 32]), name).expect("a name")
    }

    fn to(seed: u8, fence: u64) -> Redirect {
        Redirect { member: node(seed), fence }
    }

    /// P-195
    #[test]
    fn a_call_goes_two_redirects_far_and_to_hosts_only() {
        let mut path = RedirectPath::default();
        assert_eq!(path.first(), None);
        assert_eq!(path.follow(node(1), node(2), true), Ok(()));
        assert_eq!(path.follow(node(2), node(3), true), Ok(()));
        assert_eq!(path.follow(node(3), node(4), true), Err(RedirectError::TooMany));
        assert!(path.first().is_some());
        assert_eq!(RedirectPath::default().follow(node(1), node(2), false), Err(RedirectError::NoHost));
    }

    /// P-205
    #[test]
    fn a_task_is_followed_further_than_a_redirect_and_not_for_ever() {
        let mut path = RedirectPath::default();
        assert_eq!(path.follow(node(100), node(0), true), Ok(()), "the group redirected the message that began it");
        for moved in 0..16 {
            assert_eq!(path.move_on(node(moved), node(moved + 1), true), Ok(()), "{moved}");
        }
        assert_eq!(path.move_on(node(16), node(17), true), Err(RedirectError::TooManyMoves));
        assert_eq!(RedirectPath::default().move_on(node(1), node(2), false), Err(RedirectError::NoHost));
        let mut path = RedirectPath::default();
        assert_eq!(path.move_on(node(1), node(2), true), Ok(()));
        assert_eq!(path.move_on(node(2), node(1), true), Err(RedirectError::Back));
    }

    /// P-195
    #[test]
    fn a_call_goes_in_no_circle_and_to_nobody_whom_it_did_not_reach() {
        let mut path = RedirectPath::default();
        assert_eq!(path.follow(node(1), node(2), true), Ok(()));
        assert_eq!(path.follow(node(2), node(1), true), Err(RedirectError::Back));
        assert_eq!(RedirectPath::default().follow(node(1), node(1), true), Err(RedirectError::Back), "to itself");
        let mut path = RedirectPath::default();
        path.mark_unreachable(node(2));
        assert_eq!(path.follow(node(1), node(2), true), Err(RedirectError::Unreached));
    }

    #[test]
    fn the_host_that_was_named_last_is_asked_first_until_it_fails() {
        let (mut redirects, echo) = (Redirects::default(), agent("echo"));
        let all = [node(1), node(2), node(3)];
        let first = |redirects: &mut Redirects, of: &AgentId| {
            let mut hosts = all;
            redirects.order(of, &mut hosts);
            hosts
        };
        assert_eq!(first(&mut redirects, &echo), all, "nothing is known");
        redirects.note(&echo, to(3, 7));
        assert_eq!(first(&mut redirects, &echo), [node(3), node(1), node(2)], "the others keep their order");
        assert_eq!(first(&mut redirects, &agent("other")), all, "of this agent only");
        redirects.forget(&echo, node(2));
        assert_eq!(first(&mut redirects, &echo)[0], node(3), "somebody else failed");
        redirects.forget(&echo, node(3));
        assert_eq!(first(&mut redirects, &echo), all);
        redirects.note(&echo, to(9, 8));
        assert_eq!(first(&mut redirects, &echo), all, "it is no host");
        assert_eq!(redirects.member(&echo), None, "and is forgotten");
    }

    /// P-195
    #[test]
    fn an_older_redirect_changes_nothing_while_the_newer_ones_node_serves() {
        let (mut redirects, echo) = (Redirects::default(), agent("echo"));
        let mut path = RedirectPath::default();
        assert_eq!(redirects.update(&echo, node(1), to(2, 20), &path), node(2));
        redirects.note(&echo, to(2, 20));
        assert_eq!(redirects.update(&echo, node(1), to(3, 19), &path), node(2), "what is known is newer");
        redirects.note(&echo, to(3, 19));
        assert_eq!(redirects.member(&echo), Some(node(2)));
        assert_eq!(redirects.update(&echo, node(1), to(3, 20), &path), node(3), "as new");
        // It failed in this call, and another call remembered it again meanwhile.
        path.mark_unreachable(node(2));
        assert_eq!(redirects.update(&echo, node(1), to(3, 19), &path), node(3), "there is no other way");
        redirects.note(&echo, to(3, 21));
        assert_eq!(redirects.update(&echo, node(3), to(2, 1), &path), node(2), "who redirects is forgotten");
        assert_eq!(redirects.member(&echo), None);
    }

    #[test]
    fn a_bounded_number_of_agents_is_remembered_and_the_oldest_makes_room() {
        let mut redirects = Redirects::default();
        for number in 0..AGENTS_MAX {
            redirects.note(&agent(&format!("a{number}")), to(1, 1));
        }
        redirects.note(&agent("a0"), to(2, 1));
        redirects.note(&agent("one-more"), to(1, 1));
        assert_eq!(redirects.known.len(), AGENTS_MAX);
        assert_eq!(redirects.member(&agent("a0")), Some(node(2)), "it was renewed");
        assert_eq!(redirects.member(&agent("a1")), None, "the oldest");
        assert_eq!(redirects.member(&agent("one-more")), Some(node(1)));
    }
}
