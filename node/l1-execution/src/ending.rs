//! What an exit code says of how a program ended.

/// The exit code of what a signal ended, less the signal's number, as shells tell it.
const BY_SIGNAL: i32 = 128;

/// What the code says, if it is one of those that shells and keepers tell of signals; a program may end with it by itself too, or for
/// another one that it started.
#[must_use]
pub fn meaning(code: i32) -> Option<&'static str> {
    Some(match code - BY_SIGNAL {
        3 => "it was told to quit (SIGQUIT)",
        4 => "it crashed: its code holds what this processor does not know (SIGILL)",
        6 => "it gave up by itself (SIGABRT)",
        7 => "it crashed: it used memory that is not there, or a file that was cut off (SIGBUS)",
        8 => "it crashed: it calculated what has no result (SIGFPE)",
        9 => "it was killed (SIGKILL)",
        11 => "it crashed: it used memory that is not its own (SIGSEGV)",
        13 => "it wrote to what nobody reads (SIGPIPE)",
        15 => "it was asked to end (SIGTERM)",
        24 => "it used more time of the processor than it may (SIGXCPU)",
        25 => "it wrote a file that is larger than it may (SIGXFSZ)",
        31 => "it made a call of the system that the sandbox refuses (SIGSYS)",
        _ => return None,
    })
}

/// How a program ended, by its exit code, for people. `ran_out`: it, or what it started, was killed since it took more memory than
/// it may.
#[must_use]
pub fn ending(code: i32, ran_out: bool) -> String {
    let why = if ran_out { Some("it was killed: it took more memory than it may") } else { meaning(code) };
    match why {
        Some(why) => format!("it ended with exit status {code}: {why}"),
        None => format!("it ended with exit status {code}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_are_told_in_words_and_other_codes_as_they_are() {
        assert_eq!(ending(0, false), "it ended with exit status 0");
        assert_eq!(ending(3, false), "it ended with exit status 3");
        assert_eq!(ending(137, false), "it ended with exit status 137: it was killed (SIGKILL)");
        assert_eq!(ending(137, true), "it ended with exit status 137: it was killed: it took more memory than it may");
        for (code, word) in [(139, "not its own"), (159, "the sandbox refuses"), (134, "gave up")] {
            assert!(ending(code, false).contains(word), "{code}: {}", ending(code, false));
        }
        assert_eq!((meaning(128), meaning(1), meaning(255), meaning(i32::MIN + 128)), (None, None, None, None));
    }
}
