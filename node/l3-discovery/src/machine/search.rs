//! One search of the network: who is asked, how long the search waits, and when it ends. Decides; sends nothing itself.
//!
//! The DHT look-up names candidates, each of which is asked. When the look-up ended and nobody confirmed anything, some
//! connected peers are asked too: Sybils around a key can hide what is stored under it, but not what a peer says of itself.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_communication::Provider;
use althing_protocol::PublicKey;

use crate::machine::query::SearchReport;

/// Limits of one search.
#[derive(Debug, Clone, Copy)]
pub struct SearchLimits {
    /// The DHT look-up ends after this.
    pub lookup: Duration,
    /// How long answers are waited for after the look-up, while no candidate has confirmed anything.
    pub first_answer: Duration,
    /// The same, once something is known.
    pub answers: Duration,
    /// Once something is known, the search ends this long after it began.
    pub enough: Duration,
    /// Candidates of the look-up that are asked.
    pub candidates_max: usize,
    /// Connected peers that are asked beside them.
    pub peers_max: usize,
}

/// How one candidate answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CandidateAnswer {
    /// It hosts this many agents that match; their evidence was verified.
    Has(usize),
    /// It was not reached, or did not answer.
    Silent,
    /// Its answer was invalid.
    Invalid,
}

/// What happens to a search.
#[derive(Debug, Clone)]
pub enum SearchInput {
    /// The look-up named a candidate that is worth asking.
    Candidate(Provider),
    /// The look-up ended; how many requests it made, and how many were answered. Nothing when it failed or timed out.
    LookedUp(Option<(u32, u32)>),
    /// The answer to [`SearchEffect::ListPeers`]: connected peers that are worth asking, in order of preference.
    Peers(Vec<PublicKey>),
    /// A candidate answered.
    Answered(CandidateAnswer),
    /// [`Search::deadline`] has passed.
    DeadlinePassed,
}

/// What a search wants done.
#[derive(Debug, PartialEq, Eq)]
pub enum SearchEffect {
    /// Ask this node.
    Ask(Provider),
    /// List the connected peers that are worth asking.
    ListPeers,
    /// The search is over.
    End,
}

/// One search under way. Times are counted from its beginning.
#[derive(Debug)]
pub struct Search {
    limits: SearchLimits,
    /// A match was known before the search began.
    known: bool,
    looked_up: bool,
    peers_listed: bool,
    /// Candidates that the look-up named and that were asked.
    named: usize,
    asked: BTreeSet<PublicKey>,
    /// Candidates whose answers are outstanding.
    outstanding: usize,
    deadline: Duration,
    report: SearchReport,
}

impl Search {
    /// A search that begins now. `known`: a match is known already, so that the search need not wait for a first one.
    #[must_use]
    pub fn new(limits: SearchLimits, known: bool) -> Search {
        let mut search = Search {
            limits,
            known,
            looked_up: false,
            peers_listed: false,
            named: 0,
            asked: BTreeSet::new(),
            outstanding: 0,
            deadline: limits.lookup + limits.first_answer,
            report: SearchReport::default(),
        };
        search.cap_deadline();
        search
    }

    /// When the search ends at the latest, from its beginning.
    #[must_use]
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Takes what happened at `at`, counted from the beginning; gives what is to be done, in order.
    pub fn handle(&mut self, at: Duration, input: SearchInput) -> Vec<SearchEffect> {
        let mut effects = Vec::new();
        match input {
            SearchInput::Candidate(provider) => {
                if self.named < self.limits.candidates_max && self.asked.insert(provider.node) {
                    self.named += 1;
                    self.ask(provider, &mut effects);
                }
            }
            SearchInput::LookedUp(requests) => {
                self.looked_up = true;
                self.report.lookup = at;
                (self.report.requests, self.report.answered) = requests.unwrap_or_default();
                let patience = if self.has_match() { self.limits.answers } else { self.limits.first_answer };
                self.deadline = self.deadline.min(at + patience);
            }
            SearchInput::Peers(peers) => {
                let new = peers.into_iter().filter(|peer| self.asked.insert(*peer));
                let some: Vec<PublicKey> = new.take(self.limits.peers_max).collect();
                for node in &some {
                    self.ask(Provider { node: *node, addresses: Vec::new() }, &mut effects);
                }
                if !some.is_empty() {
                    self.deadline = at + self.limits.answers;
                }
            }
            SearchInput::Answered(answer) => {
                self.outstanding = self.outstanding.saturating_sub(1);
                self.count(answer);
            }
            SearchInput::DeadlinePassed => return vec![SearchEffect::End],
        }
        self.cap_deadline();
        if self.looked_up && self.outstanding == 0 {
            effects.push(self.next_step());
        }
        effects
    }

    /// How the search went, at its end.
    #[must_use]
    pub fn report(mut self, at: Duration) -> SearchReport {
        if !self.looked_up {
            self.report.lookup = at;
        }
        self.report.silent += self.outstanding;
        self.report.asked = self.asked.len();
        self.report.took = at;
        self.report
    }

    fn has_match(&self) -> bool {
        self.known || self.report.confirmed > 0
    }

    /// Once something is known, the last straggler is not waited for.
    fn cap_deadline(&mut self) {
        if self.has_match() {
            self.deadline = self.deadline.min(self.limits.enough);
        }
    }

    fn ask(&mut self, provider: Provider, effects: &mut Vec<SearchEffect>) {
        self.outstanding += 1;
        effects.push(SearchEffect::Ask(provider));
    }

    /// What follows when the look-up ended and no answer is outstanding.
    fn next_step(&mut self) -> SearchEffect {
        if self.has_match() || self.peers_listed {
            return SearchEffect::End;
        }
        self.peers_listed = true;
        SearchEffect::ListPeers
    }

    fn count(&mut self, answer: CandidateAnswer) {
        match answer {
            CandidateAnswer::Has(0) => self.report.without += 1,
            CandidateAnswer::Has(_) => self.report.confirmed += 1,
            CandidateAnswer::Silent => self.report.silent += 1,
            CandidateAnswer::Invalid => self.report.refused += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_protocol::SecretKey;
    use proptest::prelude::*;

    use super::*;

    const LIMITS: SearchLimits = SearchLimits {
        lookup: Duration::from_secs(3),
        first_answer: Duration::from_secs(2),
        answers: Duration::from_millis(300),
        enough: Duration::from_secs(1),
        candidates_max: 2,
        peers_max: 2,
    };

    fn node(seed: u8) -> PublicKey {
        SecretKey::from_seed(&[seed; 32]).public()
    }

    fn provider(seed: u8) -> Provider {
        Provider { node: node(seed), addresses: Vec::new() }
    }

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn a_search_ends_when_the_look_up_ended_and_everybody_answered() {
        let mut search = Search::new(LIMITS, false);
        assert_eq!(search.handle(ms(5), SearchInput::Candidate(provider(1))), [SearchEffect::Ask(provider(1))]);
        assert_eq!(search.handle(ms(6), SearchInput::Candidate(provider(1))), [], "it was asked");
        assert_eq!(search.handle(ms(7), SearchInput::LookedUp(Some((9, 8)))), []);
        assert_eq!(search.deadline(), ms(2_007), "the first answer is waited for longer");
        assert_eq!(
            search.handle(ms(9), SearchInput::Answered(CandidateAnswer::Has(3))),
            [SearchEffect::End],
            "something was found: no peers are asked"
        );
        let report = search.report(ms(9));
        let counts = (report.requests, report.answered, report.asked, report.confirmed, report.silent);
        assert_eq!(counts, (9, 8, 1, 1, 0));
        assert_eq!((report.lookup, report.took), (ms(7), ms(9)));
    }

    #[test]
    fn connected_peers_are_asked_once_when_the_candidates_had_nothing() {
        let mut search = Search::new(LIMITS, false);
        search.handle(ms(0), SearchInput::Candidate(provider(1)));
        search.handle(ms(1), SearchInput::Answered(CandidateAnswer::Has(0)));
        assert_eq!(search.handle(ms(2), SearchInput::LookedUp(None)), [SearchEffect::ListPeers]);
        let asked = search.handle(ms(2), SearchInput::Peers(vec![node(1), node(2), node(3), node(4)]));
        assert_eq!(asked, [SearchEffect::Ask(provider(2)), SearchEffect::Ask(provider(3))]);
        assert_eq!(search.deadline(), ms(302));
        assert_eq!(search.handle(ms(3), SearchInput::Answered(CandidateAnswer::Silent)), []);
        assert_eq!(search.handle(ms(4), SearchInput::Answered(CandidateAnswer::Invalid)), [SearchEffect::End]);
        let report = search.report(ms(4));
        assert_eq!((report.asked, report.without, report.silent, report.refused), (3, 1, 1, 1));
    }

    #[test]
    fn who_knows_something_does_not_wait_for_stragglers() {
        let mut search = Search::new(LIMITS, true);
        assert_eq!(search.deadline(), ms(1_000));
        search.handle(ms(10), SearchInput::Candidate(provider(1)));
        search.handle(ms(20), SearchInput::LookedUp(None));
        assert_eq!(search.deadline(), ms(320));
        assert_eq!(search.handle(ms(320), SearchInput::DeadlinePassed), [SearchEffect::End]);
        assert_eq!(search.report(ms(320)).silent, 1, "whoever has not answered by then was silent");
    }

    fn inputs() -> impl Strategy<Value = SearchInput> {
        prop_oneof![
            (0..6_u8).prop_map(|seed| SearchInput::Candidate(provider(seed))),
            Just(SearchInput::LookedUp(None)),
            prop::collection::vec(0..6_u8, 0..6)
                .prop_map(|seeds| SearchInput::Peers(seeds.into_iter().map(node).collect())),
            prop_oneof![Just(0), Just(1)].prop_map(|agents| SearchInput::Answered(CandidateAnswer::Has(agents))),
            Just(SearchInput::Answered(CandidateAnswer::Silent)),
        ]
    }

    proptest! {
        #[test]
        fn whatever_happens_nobody_is_asked_twice_and_not_more_than_the_limits_allow(
            known: bool,
            happened in prop::collection::vec(inputs(), 0..40),
        ) {
            let mut search = Search::new(LIMITS, known);
            let mut asked = Vec::new();
            let mut listed = 0;
            for (at, input) in (0..).zip(happened) {
                let peers = matches!(input, SearchInput::Peers(_));
                for effect in search.handle(ms(at), input) {
                    match effect {
                        SearchEffect::Ask(provider) => {
                            prop_assert!(!asked.contains(&(provider.node, true)) && !asked.contains(&(provider.node, false)));
                            asked.push((provider.node, peers));
                        }
                        SearchEffect::ListPeers => listed += 1,
                        SearchEffect::End => {}
                    }
                }
                prop_assert!(search.deadline() <= ms(at) + LIMITS.lookup + LIMITS.first_answer);
            }
            prop_assert!(asked.iter().filter(|(_, peer)| !peer).count() <= LIMITS.candidates_max);
            prop_assert!(listed <= 1);
            prop_assert_eq!(search.report(ms(99)).asked, asked.len());
        }
    }
}
