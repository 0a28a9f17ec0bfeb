//! Which account an agent's programs have of their own, on a machine that contains them by nothing else.
//!
//! **Input**: the numbers that may be used, the node, the names of agents. **Output**: a number for each.
//!
//! **Invariants**
//! - An agent has the same number whenever its node is started: files that its programs wrote stay theirs. Only where another
//!   agent that was started before it has that number, it has the next one.
//! - Two agents of a node share no number while there are enough.
//!
//! **Never knows**: whether the machine has such an account, or ever needs one.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::digest;

/// Numbers of accounts that nobody else is to have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AccountRange {
    /// The first.
    pub first: u32,
    /// How many there are, at least one.
    pub count: u32,
}

impl Default for AccountRange {
    /// What no account of systemd, no container and no range of `/etc/subuid` has (systemd's "Users, Groups, UIDs and GIDs").
    fn default() -> Self {
        AccountRange { first: 1_879_048_192, count: 268_304_384 }
    }
}

/// The numbers that a node's agents have.
#[derive(Debug, Default)]
pub struct Assignment {
    by_agent: BTreeMap<String, u32>,
    taken: BTreeSet<u32>,
}

impl Assignment {
    /// The number of an agent of that node.
    pub fn of(&mut self, range: AccountRange, node: &str, agent: &str) -> u32 {
        if let Some(number) = self.by_agent.get(agent) {
            return *number;
        }
        let number = self.free(range, wanted(range, node, agent));
        self.taken.insert(number);
        self.by_agent.insert(agent.to_owned(), number);
        number
    }

    /// That number, or the next one that is free, the first after the last; that one if none is.
    fn free(&self, range: AccountRange, wanted: u32) -> u32 {
        if self.taken.len() as u64 >= u64::from(range.count) {
            return wanted;
        }
        let mut number = wanted;
        while self.taken.contains(&number) {
            number = if number - range.first + 1 < range.count { number + 1 } else { range.first };
        }
        number
    }
}

/// The number that follows from the names.
fn wanted(range: AccountRange, node: &str, agent: &str) -> u32 {
    let [a, b, c, d, ..] = digest(format!("{node}\n{agent}").as_bytes());
    range.first + u32::from_be_bytes([a, b, c, d]) % range.count.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_agent_keeps_its_number_and_shares_it_with_none() {
        let range = AccountRange { first: 70_000, count: 8 };
        let numbers = |names: &[&str]| {
            let mut assigned = Assignment::default();
            names.iter().map(|name| assigned.of(range, "/data", name)).collect::<Vec<u32>>()
        };
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let all = numbers(&names);
        let distinct: BTreeSet<u32> = all.iter().copied().collect();
        assert_eq!(distinct, (70_000..70_008).collect::<BTreeSet<u32>>(), "one for each");
        assert_eq!(numbers(&names), all);
        assert_eq!(numbers(&["a", "a"]), [all[0]; 2]);
        // More agents than accounts: those are shared, and in the range.
        let more = numbers(&["a", "b", "c", "d", "e", "f", "g", "h", "i"]);
        assert!((70_000..70_008).contains(&more[8]), "{more:?}");
    }

    #[test]
    fn agents_of_two_nodes_of_one_name_differ() {
        let range = AccountRange::default();
        let number = |node: &str| Assignment::default().of(range, node, "echo");
        assert_ne!(number("/home/a/node"), number("/home/b/node"));
        assert!(number("/x") >= range.first && number("/x") - range.first < range.count);
        assert_eq!(u64::from(range.first) + u64::from(range.count), 2_147_352_576);
    }
}
