//! Which accounts a node's programs have where nothing else contains them, remembered in the node's data.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use althing_store::file::read_bytes;
use althing_store::replace_file;

use super::machine::accounts::{AccountError, AccountRange, Assignment, Holder};

/// Where a node remembers, in its data, which accounts its programs have.
const ACCOUNTS_FILE: &str = "accounts.json";
/// The most of that which is read, bytes: more than is written of as many programs as have accounts.
const ACCOUNTS_BYTES_MAX: u64 = 4 << 20;
/// As many faults in it are named.
const UNREAD_MAX: usize = 8;

/// One of an agent's programs.
#[derive(Debug, Clone, Copy)]
pub struct ProgramOf<'a> {
    /// The agent; empty for who only looks.
    pub agent: &'a str,
    /// `runtime` is the agent's own, `tools.NAME` that of a tool server.
    pub program: &'a str,
}

/// Which accounts a node's programs have where nothing else contains them; copies assign the same.
#[derive(Debug, Clone, Default)]
pub struct Accounts {
    range: AccountRange,
    node: String,
    /// Where they are remembered; none: they are not.
    file: Option<PathBuf>,
    assigned: Arc<Mutex<Assignment>>,
}

/// Why a program has no account.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// No number is free.
    #[error(transparent)]
    NoNumber(#[from] AccountError),
    /// It is not used before it is remembered: another program would get it, and with it the files of this one.
    #[error("which account it has cannot be remembered in {}: {why}; make room there, or let the node write it", .file.display())]
    Unkept {
        /// Where.
        file: PathBuf,
        /// The system's reason.
        why: io::Error,
    },
}

/// The account of a program. Who only looks has it until this value is dropped, the program of an agent until the agent is removed.
#[derive(Debug)]
pub struct AccountHold {
    pub(super) number: u32,
    lender: Option<Accounts>,
}

impl Drop for AccountHold {
    fn drop(&mut self) {
        if let Some(lender) = &self.lender {
            lender.assigned().take_back(self.number);
        }
    }
}

impl Accounts {
    /// Those of a node, of whose data this is the folder.
    #[must_use]
    pub fn of(range: AccountRange, node: &Path) -> Accounts {
        let file = node.join(ACCOUNTS_FILE);
        let assigned = Arc::new(Mutex::new(remembered(&file)));
        Accounts { range, node: node.to_string_lossy().into_owned(), file: Some(file), assigned }
    }

    /// Frees the accounts of an agent's programs but for these: the others are gone for good.
    pub(super) fn keep(&self, agent: &str, programs: &BTreeSet<String>) {
        let mut assigned = self.assigned();
        if assigned.keep(agent, programs)
            && let Err(error) = self.remember(&assigned)
        {
            // They are free until the node is started again, and then not.
            tracing::warn!(agent, %error, "accounts of programs that are gone could not be freed for good");
        }
    }

    /// The account of a program, which is remembered before.
    pub(super) fn hold(&self, of: ProgramOf<'_>) -> Result<AccountHold, AccountsError> {
        let mut assigned = self.assigned();
        if of.agent.is_empty() {
            let number = assigned.lend(self.range, &self.node)?;
            return Ok(AccountHold { number, lender: Some(self.clone()) });
        }
        let holder = Holder { agent: of.agent.to_owned(), program: of.program.to_owned() };
        let (number, is_new) = assigned.of(self.range, &self.node, &holder)?;
        if is_new && let Err(why) = self.remember(&assigned) {
            assigned.free(&holder);
            return Err(AccountsError::Unkept { file: self.file.clone().unwrap_or_default(), why });
        }
        Ok(AccountHold { number, lender: None })
    }

    fn remember(&self, assigned: &Assignment) -> io::Result<()> {
        self.file.as_ref().map_or(Ok(()), |file| replace_file(file, &assigned.written()))
    }

    fn assigned(&self) -> MutexGuard<'_, Assignment> {
        self.assigned.lock().expect("no holder of the accounts panics")
    }
}

/// What a node remembers of its programs' accounts; what of it cannot be read is logged, and left out.
fn remembered(file: &Path) -> Assignment {
    let shown = file.display();
    let text = match read_bytes(file, ACCOUNTS_BYTES_MAX) {
        Ok(text) => text,
        Err(error) if error.is_missing() => return Assignment::default(),
        Err(error) => {
            tracing::error!(file = %shown, %error, "which accounts programs had cannot be read: they may get others");
            return Assignment::default();
        }
    };
    let (assigned, unread) = Assignment::read(&text);
    for why in unread.iter().take(UNREAD_MAX) {
        tracing::warn!(file = %shown, why, "the account of a program cannot be read: it may get another one");
    }
    assigned
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn accounts_are_remembered_and_freed_with_their_agent_and_never_shared() {
        let data = tempfile::tempdir().expect("a folder");
        let range = AccountRange { first: 70_000, count: 3 };
        let hold = |accounts: &Accounts, agent: &str, program: &str| {
            accounts.hold(ProgramOf { agent, program }).map(|held| held.number)
        };
        let accounts = Accounts::of(range, data.path());
        let before = ["runtime", "tools.x", "tools.y"].map(|program| hold(&accounts, "a", program).expect("a number"));
        let refused = hold(&accounts, "b", "runtime").expect_err("all have programs");
        assert!(refused.to_string().contains("`accounts = [70000, 6]`"), "{refused}");
        // The node is started again, and another agent first.
        let again = Accounts::of(range, data.path());
        hold(&again, "b", "runtime").expect_err("they are the first one's still");
        let after = ["tools.y", "tools.x", "runtime"].map(|program| hold(&again, "a", program).expect("as before"));
        assert!(after.iter().eq(before.iter().rev()), "{before:?}, {after:?}");
        again.keep("a", &BTreeSet::new());
        hold(&again, "b", "runtime").expect("they are free");
        let number = hold(&Accounts::of(range, data.path()), "b", "runtime").expect("it is remembered");
        assert!(before.contains(&number));
    }

    #[test]
    fn an_account_that_cannot_be_remembered_is_not_used() {
        let place = tempfile::tempdir().expect("a folder");
        let data = place.path().join("data");
        // No folder can be made where there is a file.
        fs::write(&data, "").expect("a file");
        let accounts = Accounts::of(AccountRange { first: 70_000, count: 1 }, &data);
        let of = ProgramOf { agent: "a", program: "runtime" };
        for _ in 0..2 {
            let refused = accounts.hold(of).expect_err("it cannot be written").to_string();
            assert!(refused.contains(&data.join(ACCOUNTS_FILE).display().to_string()), "{refused}");
        }
    }
}
