//! What it takes to give a program an account of its own, and how the folders of such accounts are called.
//!
//! **Input**: the text of `/proc/self/status`; names of folders. **Output**: what a keeper lacks; whose a folder is.
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

/// What the name of the folder of a keeper's program begins with.
#[must_use]
pub fn prefix(account: u32, keeper: i32) -> String {
    format!("althing-{account}-{keeper}-")
}

/// Whose program's folder has that name, if the program is of that account.
#[must_use]
pub fn keeper_of(name: &str, account: u32) -> Option<i32> {
    let (keeper, _) = name.strip_prefix(&format!("althing-{account}-"))?.split_once('-')?;
    keeper.parse().ok().filter(|keeper| *keeper > 0)
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
    fn a_folder_is_of_the_keeper_that_made_it() {
        let name = prefix(70_000, 41) + "ab12cd";
        assert_eq!(keeper_of(&name, 70_000), Some(41));
        assert_eq!(keeper_of(&name, 7_000), None);
        for other in ["althing-70000-41", "althing-70000--1-a", "althing-70000-x-a", "althing-escape", ""] {
            assert_eq!(keeper_of(other, 70_000), None, "{other}");
        }
    }
}
