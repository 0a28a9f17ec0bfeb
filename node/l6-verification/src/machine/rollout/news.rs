//! What nodes of one owner tell each other of rollouts, and what a node makes of it.
//!
//! Going back wins over a promotion, whatever the clocks say and in whatever order both are heard: so nodes that know the same news
//! have the same stable version. An older version that is not here any more cannot be stable again: news are told, and undo a
//! promotion, for as long as its older version has conversations.

use althing_protocol::cbor::{self, CborError};
use althing_protocol::{AgentId, Digest, PublicKey, PublisherId};
use minicbor::{Decode, Encode};

use super::run::{Change, Reason};
use super::split::Split;
use super::versions::{REVERSALS_MAX, Reversal, Versions};

/// News of one message.
pub const NEWS_MAX: usize = 256;
/// Bytes of one message: each of its news has 114 at most.
pub const NEWS_BYTES_MAX: usize = 32 << 10;

/// What came of a version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Encode, Decode)]
#[cbor(index_only)]
pub enum RolloutWord {
    /// It went back, and is not tried again.
    #[n(0)]
    Back,
    /// It is stable, and the one before it still has conversations.
    #[n(1)]
    Promoted,
}

/// What a node tells of a version of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Encode, Decode)]
#[cbor(map)]
pub struct RolloutNews {
    /// Which one of the owner's, by its name.
    #[n(0)]
    pub agent: String,
    /// The digest of its file and code.
    #[cbor(n(1), with = "minicbor::bytes")]
    pub version: Digest,
    /// What came of it.
    #[n(2)]
    pub word: RolloutWord,
    /// When, by the clock of the node that tells it, Unix milliseconds. Which of two news were told first decides nothing; the oldest
    /// are left out, and forgotten, where there is no room for all.
    #[n(3)]
    pub at_ms: u64,
}

#[derive(Encode, Decode)]
#[cbor(map)]
struct NewsMessage {
    #[n(0)]
    news: Vec<RolloutNews>,
}

/// Why bytes are no news of rollouts.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NewsError {
    /// Not strict CBOR.
    #[error("the news of rollouts are not strict CBOR: {0}")]
    Cbor(#[from] CborError),
    /// Strict CBOR of another shape.
    #[error("the news of rollouts have the wrong shape: {0}")]
    Shape(String),
}

/// A message with as many of these as it has room for: the newest.
#[must_use]
pub fn encode_news(mut news: Vec<RolloutNews>) -> Vec<u8> {
    news.sort_by_key(|one| std::cmp::Reverse(one.at_ms));
    news.truncate(NEWS_MAX);
    written(news)
}

/// Reads a message of another node.
///
/// # Errors
/// [`NewsError`].
pub fn decode_news(bytes: &[u8]) -> Result<Vec<RolloutNews>, NewsError> {
    cbor::check(bytes, NEWS_BYTES_MAX)?;
    let NewsMessage { news } = minicbor::decode(bytes).map_err(|error| NewsError::Shape(error.to_string()))?;
    if news.len() > NEWS_MAX {
        return Err(NewsError::Shape(format!("there are more than {NEWS_MAX}")));
    }
    // Any owner's agents have such names.
    let owner = PublisherId::from_digest([0; 32]);
    for one in &news {
        AgentId::new(owner, &one.agent).map_err(|error| NewsError::Shape(error.to_string()))?;
    }
    // Members that are not known would be lost.
    if written(news.clone()) == bytes {
        Ok(news)
    } else {
        Err(NewsError::Shape("it has members that this version does not know".to_owned()))
    }
}

fn written(news: Vec<RolloutNews>) -> Vec<u8> {
    minicbor::to_vec(NewsMessage { news }).expect("writing to a vector cannot fail")
}

/// Whether a promotion is an earlier one that is known here: of a version that was replaced since, and is tried again. The clocks of
/// two nodes do not tell which of their promotions is the later one. It does that the other node promoted afterwards what is stable
/// here, or knows of no more promotions of that version.
fn is_known(versions: &Versions, news: &RolloutNews, beside: &[RolloutNews]) -> bool {
    let promoted = || beside.iter().filter(|other| other.agent == news.agent && other.word == RolloutWord::Promoted);
    let told = promoted().filter(|other| other.version == news.version && other.at_ms != news.at_ms).count() + 1;
    let known = versions.told_promotions().into_iter().filter(|(split, _)| split.to == news.version).count();
    told <= known || promoted().any(|later| later.version == versions.stable && later.at_ms > news.at_ms)
}

impl Versions {
    /// What other nodes of the owner are told of these, which are the agent's of that name: versions that went back here or on
    /// another node; and those that were promoted, for as long as that can be undone.
    #[must_use]
    pub fn news(&self, agent: &str) -> Vec<RolloutNews> {
        let of = |version: &Digest, word: RolloutWord, at_ms: u64| RolloutNews {
            agent: agent.to_owned(),
            version: *version,
            word,
            at_ms,
        };
        let back = self.reversals.iter().map(|(version, reversal)| of(version, RolloutWord::Back, reversal.at_ms));
        let promoted =
            self.told_promotions().into_iter().map(|(split, at_ms)| of(&split.to, RolloutWord::Promoted, at_ms));
        back.chain(promoted).collect()
    }

    /// Promotions that others are told of, with their times: not those that a later one took back.
    fn told_promotions(&self) -> Vec<(&Split, u64)> {
        let promoted = self.splits().filter_map(|split| Some((split, split.promoted_ms()?)));
        let promoted: Vec<(&Split, u64)> = promoted.collect();
        let is_undone = |at: usize, from: Digest| promoted[at + 1..].iter().any(|(later, _)| later.to == from);
        let told = promoted.iter().enumerate().filter(|(at, (split, _))| {
            self.is_draining(split) && !self.reversals.contains_key(&split.to) && !is_undone(*at, split.from)
        });
        told.map(|(_, told)| *told).collect()
    }

    /// Hears what node `from` of the same owner tells of this agent; `beside` is all that it told with that. What went back there goes
    /// back here, also where it was promoted meanwhile and the version before it is still here; what was promoted there is promoted
    /// here, if it is tried here, more often than is known, and nobody told that it went back. Gives what is to be written; nothing
    /// where that was known, or says nothing of what is here.
    pub fn hear(&mut self, news: &RolloutNews, beside: &[RolloutNews], from: PublicKey, now_ms: u64) -> Option<Change> {
        self.see(now_ms);
        match news.word {
            RolloutWord::Back => self.hear_back(news, from),
            RolloutWord::Promoted if is_known(self, news, beside) => None,
            RolloutWord::Promoted => self.hear_promoted(news.version, from),
        }
    }

    /// Remembers that a version went back on another node, and does nothing else: of an agent whose calls are not divided here no
    /// other version is here. Whether that is to be written.
    pub fn remember_back(&mut self, news: &RolloutNews, from: PublicKey, now_ms: u64) -> bool {
        self.see(now_ms);
        let at_ms = news.at_ms.min(self.latest_ms);
        let oldest_ms = self.reversals.values().map(|reversal| reversal.at_ms).min();
        // It would be forgotten at once, and heard again.
        let is_too_old = self.reversals.len() >= REVERSALS_MAX && oldest_ms.is_some_and(|oldest_ms| at_ms <= oldest_ms);
        let is_new = news.word == RolloutWord::Back && !self.reversals.contains_key(&news.version) && !is_too_old;
        if is_new {
            self.remember(news.version, Reversal { at_ms, reason: Reason::Elsewhere { node: from } });
        }
        is_new
    }

    fn hear_promoted(&mut self, version: Digest, from: PublicKey) -> Option<Change> {
        if self.reversals.contains_key(&version) {
            return None;
        }
        let from_ms = self.latest_ms.saturating_add(1);
        let rollout = self.running_mut().filter(|rollout| rollout.split().to == version)?;
        let change = rollout.promote_as_on(from, from_ms);
        self.replace(version, from_ms);
        Some(change)
    }

    fn hear_back(&mut self, news: &RolloutNews, from: PublicKey) -> Option<Change> {
        let (version, reason) = (news.version, Reason::Elsewhere { node: from });
        let is_tried = self.running().is_some_and(|rollout| rollout.split().to == version);
        if self.reversals.contains_key(&version) || !(is_tried || version == self.stable) {
            return self.remember_back(news, from, 0).then_some(Change::Evidence);
        }
        self.remember(version, Reversal { at_ms: self.latest_ms, reason });
        if is_tried && let Some(rollout) = self.running_mut() {
            rollout.go_back(reason);
        } else if !self.fall_back(reason) {
            return Some(Change::Evidence);
        }
        self.revision = self.revision.saturating_add(1);
        Some(Change::WentBack(reason))
    }

    /// The newest version before the stable one that may answer is stable again. False where none is here any more.
    fn fall_back(&mut self, reason: Reason) -> bool {
        let splits: Vec<&Split> = self.splits().collect();
        let (mut to, mut at) = (self.stable, splits.len());
        while self.reversals.contains_key(&to) {
            let before = splits[..at].iter().rposition(|split| split.to == to && self.is_draining(split));
            let Some(before) = before else { return false };
            (to, at) = (splits[before].from, before);
        }
        self.drains.truncate(at);
        if let Some(rollout) = &mut self.rollout {
            rollout.undo(to, reason);
        }
        self.stable = to;
        true
    }
}
