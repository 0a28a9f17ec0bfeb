//! How many files this process may have open: connections, the store's tables and the control socket share them.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// As many as are ever wanted; programs that a node starts have no use for more either.
const WANTED: u64 = 65_536;
/// The gateway takes connections for one half of them, so that the store, the control socket and the mesh have the other.
const OF_GATEWAY: u64 = 2;
/// Connections that it takes all the same.
const CONNECTIONS_MIN: usize = 16;

/// Raises the soft limit, which shells set for old programs, to the hard one.
pub fn raise() {
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else { return };
    let wanted = hard.min(WANTED);
    if soft >= wanted {
        return;
    }
    if let Err(error) = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard) {
        tracing::warn!(%error, soft, wanted, "the limit of open files is not raised");
    }
}

/// Connections that a gateway takes, `most` at most, where this process may have so many files open as now.
pub fn connections(most: usize) -> usize {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(most, |(soft, _)| of(soft, most))
}

/// The same, with that limit.
fn of(soft: u64, most: usize) -> usize {
    usize::try_from(soft / OF_GATEWAY).unwrap_or(usize::MAX).min(most).max(CONNECTIONS_MIN)
}

/// What is told where the gateway takes fewer connections than it would.
pub fn note(most: usize) -> Option<String> {
    let connections = connections(most);
    (connections < most).then(|| {
        format!(
            "this account may have so few files open that the gateway takes {connections} connections instead of {most}; \
             `ulimit -Hn`, or LimitNOFILE= in a unit, raises that"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_leave_half_of_the_descriptors_to_the_rest() {
        for (soft, connections) in [(65_536, 1_024), (2_048, 1_024), (1_024, 512), (256, 128), (8, CONNECTIONS_MIN)] {
            assert_eq!(of(soft, 1_024), connections, "{soft}");
        }
        assert_eq!(of(u64::MAX, 1_024), 1_024, "no limit");
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        raise();
        let (soft, hard) = getrlimit(Resource::RLIMIT_NOFILE).expect("a limit");
        assert!(soft >= hard.min(WANTED), "{soft} of {hard}");
    }
}
