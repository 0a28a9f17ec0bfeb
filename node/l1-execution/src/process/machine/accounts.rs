//! Which account each program has of its own, on a machine that contains programs by nothing else.
//!
//! **Input**: the numbers that may be used, the node, the names of agents and of their programs, what was remembered. **Output**: a
//! number for each program, or why there is none.
//!
//! **Invariants**
//! - A program has the same number whenever its node is started: files that it wrote stay its own. Only where the numbers that may be
//!   used are others by now, it has another one.
//! - No two programs share a number. Where all are used, there is none.
//! - A number is free again when its agent is removed, or no longer has its program, and not before.
//!
//! **Never knows**: whether the machine has such an account, or ever needs one.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::digest;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Programs that have numbers at most: more than as many agents, each with as many tool servers, as a node may have.
pub const PROGRAMS_MAX: usize = 10_000;
/// The longest name of an agent or a program that is remembered, bytes.
const NAME_BYTES_MAX: usize = 256;
/// The form of what is remembered.
const VERSION: u64 = 1;

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

impl AccountRange {
    fn has(self, number: u32) -> bool {
        number >= self.first && number - self.first < self.count
    }

    /// How many there may be from the first on, if twice as many are too many.
    fn larger(self) -> u32 {
        self.count.saturating_mul(2).min(u32::MAX - self.first)
    }
}

/// Why a program has no account.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum AccountError {
    /// All numbers are used.
    #[error(
        "each of the {} accounts from {} on has a program already, and none is shared: name more in althing.toml (under \
         `[sandbox]`, such as `accounts = [{}, {}]`), or remove an agent",
        .0.count, .0.first, .0.first, .0.larger()
    )]
    UsedUp(AccountRange),
    /// More than [`PROGRAMS_MAX`] programs.
    #[error("{most} programs of this node have accounts, and that is the most: remove an agent", most = PROGRAMS_MAX)]
    TooMany,
}

/// A program: one agent has several.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Holder {
    /// The name of its agent.
    pub agent: String,
    /// `runtime` is the agent's own, `tools.NAME` that of a tool server.
    pub program: String,
}

/// A member of what is remembered.
#[derive(Serialize, Deserialize)]
struct Entry {
    #[serde(flatten)]
    holder: Holder,
    number: u32,
}

/// The numbers that a node's programs have.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    by_program: BTreeMap<Holder, u32>,
    taken: BTreeSet<u32>,
    /// Those of programs that are only looked at, of no agent yet.
    lent: BTreeSet<u32>,
}

impl Assignment {
    /// What was remembered, and in words what of it cannot be read: that is left out.
    pub fn read(text: &[u8]) -> (Assignment, Vec<String>) {
        let (mut read, mut unread) = (Assignment::default(), Vec::new());
        let document: Value = match serde_json::from_slice(text) {
            Ok(document) => document,
            Err(_) => return (read, vec!["it is no JSON".to_owned()]),
        };
        let members = match (&document["version"], &document["accounts"]) {
            (version, Value::Array(members)) if version.as_u64() == Some(VERSION) => members,
            (_, Value::Array(_)) => return (read, vec![format!("its `version` is not {VERSION}")]),
            _ => return (read, vec!["it has no list `accounts`".to_owned()]),
        };
        for (place, member) in members.iter().enumerate() {
            let why = match Entry::deserialize(member) {
                _ if read.by_program.len() >= PROGRAMS_MAX => "there are too many",
                Ok(entry) if !entry.holder.is_named() || entry.number == 0 => "its names or its number cannot be used",
                Ok(entry) if read.by_program.contains_key(&entry.holder) => "its program has a number already",
                Ok(entry) if read.taken.contains(&entry.number) => "its number is another program's",
                Ok(entry) => {
                    read.take(entry.holder, entry.number);
                    continue;
                }
                Err(_) => "it is no program with a number",
            };
            unread.push(format!("accounts[{place}]: {why}"));
        }
        (read, unread)
    }

    /// What is to be remembered.
    pub fn written(&self) -> Vec<u8> {
        let entry = |(holder, number): (&Holder, &u32)| Entry { holder: holder.clone(), number: *number };
        let accounts: Vec<Entry> = self.by_program.iter().map(entry).collect();
        serde_json::json!({ "version": VERSION, "accounts": accounts }).to_string().into_bytes()
    }

    /// The number of a program of that node, and whether it has it only now: then it is to be remembered before it is used.
    ///
    /// # Errors
    /// There is none for it.
    pub fn of(&mut self, range: AccountRange, node: &str, holder: &Holder) -> Result<(u32, bool), AccountError> {
        match self.by_program.get(holder).copied() {
            Some(number) if range.has(number) => return Ok((number, false)),
            Some(_) => self.free(holder),
            None if self.by_program.len() >= PROGRAMS_MAX => return Err(AccountError::TooMany),
            None => {}
        }
        let number = self.next(range, wanted(range, node, holder)).ok_or(AccountError::UsedUp(range))?;
        self.take(holder.clone(), number);
        Ok((number, true))
    }

    /// A number for a program of no agent, until it is [given back](Assignment::take_back).
    ///
    /// # Errors
    /// There is none for it.
    pub fn lend(&mut self, range: AccountRange, node: &str) -> Result<u32, AccountError> {
        let nobody = Holder { agent: String::new(), program: String::new() };
        let number = self.next(range, wanted(range, node, &nobody)).ok_or(AccountError::UsedUp(range))?;
        self.lent.insert(number);
        Ok(number)
    }

    /// Whoever had that number lent has it no longer.
    pub fn take_back(&mut self, number: u32) {
        self.lent.remove(&number);
    }

    /// Frees the number of a program, if it has one.
    pub fn free(&mut self, holder: &Holder) {
        if let Some(number) = self.by_program.remove(holder) {
            self.taken.remove(&number);
        }
    }

    /// Frees the numbers of an agent's programs but for these; whether others had any.
    pub fn keep(&mut self, agent: &str, programs: &BTreeSet<String>) -> bool {
        let is_gone = |holder: &&Holder| holder.agent == agent && !programs.contains(&holder.program);
        let gone: Vec<Holder> = self.by_program.keys().filter(is_gone).cloned().collect();
        gone.iter().for_each(|holder| self.free(holder));
        !gone.is_empty()
    }

    fn take(&mut self, holder: Holder, number: u32) {
        self.taken.insert(number);
        self.by_program.insert(holder, number);
    }

    /// That number, or the next one that is free, the first after the last.
    fn next(&self, range: AccountRange, wanted: u32) -> Option<u32> {
        // So many others are free at least.
        let tries = (self.taken.len() + self.lent.len()) as u64 + 1;
        let mut number = wanted;
        for _ in 0..tries.min(range.count.into()) {
            if !self.taken.contains(&number) && !self.lent.contains(&number) {
                return Some(number);
            }
            number = if number - range.first + 1 < range.count { number + 1 } else { range.first };
        }
        None
    }
}

impl Holder {
    fn is_named(&self) -> bool {
        [&self.agent, &self.program].iter().all(|name| !name.is_empty() && name.len() <= NAME_BYTES_MAX)
    }
}

/// The number that follows from the names.
fn wanted(range: AccountRange, node: &str, holder: &Holder) -> u32 {
    let [a, b, c, d, ..] = digest(format!("{node}\n{}\n{}", holder.agent, holder.program).as_bytes());
    range.first + u32::from_be_bytes([a, b, c, d]) % range.count.max(1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FEW: AccountRange = AccountRange { first: 70_000, count: 8 };

    fn holder(agent: &str, program: &str) -> Holder {
        Holder { agent: agent.to_owned(), program: program.to_owned() }
    }

    /// The number of an agent's own program.
    fn number(assigned: &mut Assignment, agent: &str) -> Result<u32, AccountError> {
        assigned.of(FEW, "/data", &holder(agent, "runtime")).map(|(number, _)| number)
    }

    #[test]
    fn the_programs_of_one_agent_have_a_number_each() {
        let mut assigned = Assignment::default();
        let programs = ["runtime", "tools.a", "tools.b"].map(|program| holder("agent", program));
        let numbers: BTreeSet<u32> =
            programs.iter().map(|holder| assigned.of(FEW, "/data", holder).expect("there are more").0).collect();
        assert_eq!(numbers.len(), 3);
        // Its file has one of the servers no longer.
        assert!(assigned.keep("agent", &["runtime", "tools.b"].map(str::to_owned).into()));
        assert_eq!(assigned.by_program.keys().collect::<Vec<_>>(), [&programs[0], &programs[2]]);
    }

    #[test]
    fn a_program_keeps_its_number_whoever_is_started_first() {
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let mut assigned = Assignment::default();
        let all = names.map(|name| number(&mut assigned, name).expect("one for each"));
        assert_eq!(BTreeSet::from(all), (70_000..70_008).collect::<BTreeSet<u32>>(), "one for each");
        let (mut again, unread) = Assignment::read(&assigned.written());
        assert!(unread.is_empty(), "{unread:?}");
        assert_eq!(again, assigned);
        for (name, before) in names.iter().zip(all).rev() {
            assert_eq!(again.of(FEW, "/data", &holder(name, "runtime")), Ok((before, false)), "it was remembered");
        }
    }

    #[test]
    fn where_all_are_used_there_is_none_and_what_to_write_is_said() {
        let mut assigned = Assignment::default();
        let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
        let all = names.map(|name| number(&mut assigned, name).expect("one for each"));
        let refused = number(&mut assigned, "i").expect_err("all are used");
        assert_eq!(refused, AccountError::UsedUp(FEW));
        assert!(refused.to_string().contains("`accounts = [70000, 16]`"), "{refused}");
        assert_eq!(assigned.lend(FEW, "/data"), Err(AccountError::UsedUp(FEW)), "nor for who only looks");
        let none = BTreeSet::new();
        assert!(assigned.keep("c", &none) && !assigned.keep("c", &none));
        assert_eq!(number(&mut assigned, "i"), Ok(all[2]), "that of an agent that was removed");
        let most = AccountRange { first: u32::MAX - 4, count: 4 };
        let told = AccountError::UsedUp(most).to_string();
        assert!(told.contains(&format!("accounts = [{}, 4]", u32::MAX - 4)), "{told}");
    }

    #[test]
    fn what_is_lent_is_nobody_elses_until_it_is_given_back() {
        let mut assigned = Assignment::default();
        let lent = [0; 2].map(|_| assigned.lend(FEW, "/data").expect("all are free"));
        assert_ne!(lent[0], lent[1]);
        let others = ["a", "b", "c", "d", "e", "f"].map(|name| number(&mut assigned, name).expect("six are left"));
        assert!(lent.iter().all(|number| !others.contains(number)));
        assert!(Assignment::read(&assigned.written()).0.lent.is_empty(), "it is not remembered");
        assigned.take_back(lent[1]);
        assert_eq!(number(&mut assigned, "g"), Ok(lent[1]));
    }

    #[test]
    fn a_number_that_may_not_be_used_any_more_is_exchanged() {
        let mut assigned = Assignment::default();
        let before = number(&mut assigned, "a").expect("all are free");
        let range = AccountRange { first: 90_000, count: 2 };
        let (now, is_new) = assigned.of(range, "/data", &holder("a", "runtime")).expect("all are free");
        assert!(range.has(now) && is_new && now != before);
        assert_eq!(assigned.taken, BTreeSet::from([now]));
    }

    #[test]
    fn programs_of_two_nodes_of_one_name_differ() {
        let range = AccountRange::default();
        let number = |node: &str| Assignment::default().of(range, node, &holder("echo", "runtime")).expect("one").0;
        assert_ne!(number("/home/a/node"), number("/home/b/node"));
        assert!(range.has(number("/x")));
        assert_eq!(u64::from(range.first) + u64::from(range.count), 2_147_352_576);
    }

    #[test]
    fn what_can_be_read_of_what_is_damaged_is_kept_and_the_rest_is_named() {
        let good = r#"{"agent":"a","program":"runtime","number":70001}"#;
        let members = [
            good,
            r#"{"agent":"a","program":"runtime","number":70002}"#,
            r#"{"agent":"b","program":"runtime","number":70001}"#,
            r#"{"agent":"b","program":"","number":70003}"#,
            r#"{"agent":"b","program":"runtime","number":0}"#,
            r#"{"agent":"b","program":"runtime","number":-1}"#,
            "7",
            r#"{"agent":"c","program":"tools.x","number":70004,"more":true}"#,
        ];
        let text = format!(r#"{{"version":1,"accounts":[{}]}}"#, members.join(","));
        let (read, unread) = Assignment::read(text.as_bytes());
        assert_eq!(read.by_program.values().copied().collect::<Vec<u32>>(), [70_001, 70_004]);
        assert_eq!(unread.len(), 6);
        assert_eq!(unread[1], "accounts[2]: its number is another program's");
        for nothing in ["", "[]", "{}", r#"{"version":2,"accounts":[]}"#, r#"{"version":1,"accounts":{}}"#] {
            let (read, unread) = Assignment::read(nothing.as_bytes());
            assert!(read == Assignment::default() && unread.len() == 1, "{nothing:?}: {unread:?}");
        }
    }

    proptest! {
        /// Whatever programs come, go and are started again, no two share a number, and each keeps its own.
        #[test]
        fn no_number_is_shared(steps in proptest::collection::vec((0_u8..4, 0_u8..6, 0_u8..3), 0..200)) {
            let mut assigned = Assignment::default();
            let mut known: BTreeMap<Holder, u32> = BTreeMap::new();
            let mut lent: Vec<u32> = Vec::new();
            for (step, agent, program) in steps {
                let holder = holder(&format!("agent-{agent}"), &format!("tools.{program}"));
                match step {
                    0 => match assigned.of(FEW, "/data", &holder) {
                        Ok((number, is_new)) => {
                            prop_assert_eq!(is_new, !known.contains_key(&holder));
                            prop_assert_eq!(*known.entry(holder).or_insert(number), number);
                        }
                        Err(_) => prop_assert_eq!(known.len() + lent.len(), 8),
                    },
                    1 => {
                        let had = known.keys().any(|known| known.agent == holder.agent);
                        prop_assert_eq!(assigned.keep(&holder.agent, &BTreeSet::new()), had);
                        known.retain(|known, _| known.agent != holder.agent);
                    }
                    2 => match lent.pop() {
                        Some(number) => assigned.take_back(number),
                        None => lent.extend(assigned.lend(FEW, "/data").ok()),
                    },
                    // The node is started again.
                    _ => {
                        lent.clear();
                        assigned = Assignment::read(&assigned.written()).0;
                    }
                }
                let all: BTreeSet<u32> = known.values().chain(&lent).copied().collect();
                prop_assert_eq!(all.len(), known.len() + lent.len());
                prop_assert!(all.iter().all(|number| FEW.has(*number)));
            }
        }
    }
}
