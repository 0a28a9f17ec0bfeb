//! What it takes to give a program an account of its own, and how the folders of such accounts are called.
//!
//! **Input**: the text of `/proc/self/status`; names of folders. **Output**: what a keeper lacks; for which account a folder is.
//!
//! **Never knows**: who has an account.

/// What changes the account, gives it what is made for it, and ends what runs under it (capabilities(7)).
const NEEDED: [(u32, &str); 4] = [(0, "CAP_CHOWN"), (5, "CAP_KILL"), (6, "CAP_SETGID"), (7, "CAP_SETUID")];

/// The capabilities that a process of this status lacks to start another under another account, and to end it.
#[must_use]
pub fn lacking(status: &str) -> Vec<&'static str> {
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let has = effective.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or_default();
    NEEDED.into_iter().filter(|(bit, _)| has & (1_u64 << bit) == 0).map(|(_, name)| name).collect()
}

/// What the names of folders of programs with an account begin with.
const PREFIX: &str = "althing-account-";

/// What the name of the folder of a program of that account begins with.
#[must_use]
pub fn prefix(account: u32) -> String {
    format!("{PREFIX}{account}-")
}

/// For a program of which account the folder of that name is.
#[must_use]
pub fn account_of(name: &str) -> Option<u32> {
    let (account, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    account.parse().ok().filter(|account| *account > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_lacks_nothing_and_others_are_told_what() {
        let status = |bits: &str| format!("Name:\tk\nCapPrm:\t000001ffffffffff\nCapEff:\t{bits}\nCapBnd:\t0\n");
        assert!(lacking(&status("000001ffffffffff")).is_empty());
        assert!(lacking(&status("00000000000000e1")).is_empty());
        assert_eq!(lacking(&status("00000000000000c0")), ["CAP_CHOWN", "CAP_KILL"]);
        assert_eq!(lacking(&status("0")).len(), 4);
        assert_eq!(lacking("").len(), 4, "who is not known may nothing");
    }

    #[test]
    fn the_name_of_a_folder_says_for_which_account_it_is() {
        assert_eq!(account_of(&(prefix(70_000) + "ab12cd")), Some(70_000));
        for other in ["althing-account-70000", "althing-account--1-a", "althing-account-0-a", "althing-70000-41", ""] {
            assert_eq!(account_of(other), None, "{other}");
        }
    }
}
