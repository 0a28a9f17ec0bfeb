//! The model: what counts, by who signed it.

use std::collections::{BTreeMap, BTreeSet};

/// Who signs, or in whose name: the node of a seed, or an owner of a number. The owner 4 is none, and never will be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Who {
    Node(u8),
    Owner(u8),
}

/// Which owners signed a statement, and whether they did so for another group.
#[derive(Debug, Clone)]
pub(super) struct Signed {
    pub(super) by: Vec<u8>,
    pub(super) elsewhere: bool,
}

/// A command. What is stale was made under the charter before; what is back, so many epochs ago.
#[derive(Debug, Clone)]
pub(super) enum What {
    Set,
    Leave,
    Join { node: u8, nonce: u8, back: u64, stale: bool, expired: bool, signed: Signed },
    Expel { node: u8, back: u64, signed: Signed },
    Amend { owners: Vec<u8>, threshold: u8, stale: bool, signed: Signed },
    Dissolve { stale: bool, signed: Signed },
}

/// A batch of one command.
#[derive(Debug, Clone)]
pub(super) struct Given {
    pub(super) author: Who,
    pub(super) signer: Who,
    pub(super) epoch: u64,
    pub(super) session: u64,
    pub(super) sequence: u64,
    pub(super) elsewhere: bool,
    pub(super) what: What,
}

/// What became of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    Done,
    /// It has its turn, and its command is refused.
    Refused,
    /// It has no turn.
    Rejected,
    /// It had its turn before.
    Again,
}

/// What the rules leave of a group. Nothing of the machine is used.
#[derive(Debug, Clone)]
pub(super) struct Model {
    pub(super) owners: BTreeSet<u8>,
    pub(super) threshold: usize,
    /// Charters so far.
    pub(super) charters: usize,
    pub(super) epoch: u64,
    pub(super) is_over: bool,
    /// The members, and whose each is.
    pub(super) members: BTreeMap<u8, u8>,
    pub(super) used: BTreeSet<u8>,
    /// Nodes that were expelled, with the epoch that this ended.
    pub(super) expelled: BTreeMap<u8, u64>,
    pub(super) turns: BTreeSet<(Who, u64, u64)>,
    pub(super) writes: u64,
}

impl Model {
    /// What becomes of a batch.
    pub(super) fn apply(&mut self, given: &Given) -> Answer {
        let turn = (given.author, given.session, given.sequence);
        let counts = !self.is_over && !given.elsewhere && given.epoch == self.epoch && given.signer == given.author;
        if !counts || !(self.hears(given) || self.joins_again(given, turn)) {
            return Answer::Rejected;
        }
        if !self.turns.insert(turn) {
            return Answer::Again;
        }
        if self.executes(given) { Answer::Done } else { Answer::Refused }
    }

    fn hears(&self, given: &Given) -> bool {
        match (given.author, &given.what) {
            (Who::Node(node), What::Join { .. }) => self.invites(node, &given.what),
            (Who::Node(node), _) => self.members.contains_key(&node),
            (Who::Owner(owner), _) => {
                self.owners.contains(&owner) || self.members.values().any(|of_member| *of_member == owner)
            }
        }
    }

    /// A join that was executed is known again, though its invitation is used.
    fn joins_again(&self, given: &Given, turn: (Who, u64, u64)) -> bool {
        matches!((given.author, &given.what), (Who::Node(_), What::Join { .. })) && self.turns.contains(&turn)
    }

    /// Whether as many different owners signed as must, and nobody else did.
    fn is_signed(&self, signed: &Signed) -> bool {
        let by: BTreeSet<u8> = signed.by.iter().copied().collect();
        !signed.elsewhere && by.is_subset(&self.owners) && by.len() >= self.threshold
    }

    /// Whether something was made under an earlier charter, if there is one.
    fn is_stale(&self, stale: bool) -> bool {
        stale && self.charters > 1
    }

    fn invites(&self, joining: u8, what: &What) -> bool {
        let What::Join { node, nonce, back, stale, expired, signed } = what else { return false };
        let made_in = self.epoch.saturating_sub(*back);
        self.is_signed(signed)
            && *node == joining
            && !expired
            && !self.is_stale(*stale)
            && !self.used.contains(nonce)
            && self.expelled.get(node).is_none_or(|ended| made_in > *ended)
    }

    fn executes(&mut self, given: &Given) -> bool {
        match (&given.what, given.author) {
            (What::Set, _) => {
                self.writes += 1;
                true
            }
            (What::Leave, Who::Node(node)) => self.remove(node),
            // Nodes of others than the founder's owner belong to the third one.
            (What::Join { nonce, .. }, Who::Node(node)) => {
                let is_new = self.members.insert(node, 2).is_none();
                is_new && self.used.insert(*nonce)
            }
            (What::Leave | What::Join { .. }, Who::Owner(_)) => false,
            (What::Expel { node, back, signed }, _) => {
                let ended = self.epoch;
                let done = self.is_signed(signed) && *back == 0 && self.remove(*node);
                if done {
                    self.expelled.insert(*node, ended);
                }
                done
            }
            (What::Amend { owners, threshold, stale, signed }, _) => {
                let done = self.is_signed(signed) && !self.is_stale(*stale);
                if done {
                    self.owners = owners.iter().copied().collect();
                    self.threshold = usize::from(*threshold);
                    self.charters += 1;
                    self.end_epoch();
                }
                done
            }
            (What::Dissolve { stale, signed }, _) => {
                let done = self.is_signed(signed) && !self.is_stale(*stale);
                if done {
                    self.is_over = true;
                    self.writes = 0;
                    self.end_epoch();
                }
                done
            }
        }
    }

    fn remove(&mut self, node: u8) -> bool {
        let done = self.members.len() > 1 && self.members.remove(&node).is_some();
        if done {
            self.end_epoch();
        }
        done
    }

    /// The turns of who is no member any more are forgotten: what it signed before is of an earlier epoch.
    fn end_epoch(&mut self) {
        self.epoch += 1;
        let members = &self.members;
        self.turns.retain(|(author, ..)| match author {
            Who::Node(node) => members.contains_key(node),
            Who::Owner(_) => true,
        });
    }
}
