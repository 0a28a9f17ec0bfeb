//! How the collector of telemetry answers, where one is configured: what is news is told once, both that something is wrong and
//! that all is well again.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Mutex;

/// What is wrong with a collector.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollectorTrouble {
    /// It answers with this status of HTTP.
    Status(u16),
    /// There is no connection.
    Unreachable,
    /// It does not answer in time.
    Silent,
    /// It answers well, but with a page for people, as a web server does that knows nothing of telemetry.
    Page,
    /// It answers well, and says that it refused so many of what it was sent.
    Rejected(u64),
}

impl fmt::Display for CollectorTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CollectorTrouble::Status(status) => write!(f, "it answers with status {status}"),
            CollectorTrouble::Unreachable => f.write_str("it cannot be reached"),
            CollectorTrouble::Silent => f.write_str("it does not answer in time"),
            CollectorTrouble::Page => f.write_str("it answers with a web page, so that something else is there"),
            CollectorTrouble::Rejected(count) => write!(f, "it refused {count} of what it was sent last"),
        }
    }
}

/// A change that is worth a line of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CollectorNews {
    /// The first address that takes nothing, and why.
    Failed(String, CollectorTrouble),
    /// All take telemetry again.
    Well,
}

/// How a collector answered last at each of its addresses.
#[derive(Debug, Default)]
pub struct Collector {
    troubles: Mutex<BTreeMap<String, CollectorTrouble>>,
}

impl Collector {
    /// It answered at an address, or did not. Gives what is new: the first trouble after none, and the end of the last one.
    /// Who answers at one address is there at all of that origin, also where nothing was sent since.
    pub fn note(&self, address: &str, answer: Result<(), CollectorTrouble>) -> Option<CollectorNews> {
        let mut troubles = self.troubles.lock().expect("no holder of the troubles panics");
        let were_none = troubles.is_empty();
        match answer {
            Ok(()) => {
                troubles.retain(|other, trouble| {
                    let is_away = matches!(trouble, CollectorTrouble::Unreachable | CollectorTrouble::Silent);
                    other != address && (!is_away || origin(other) != origin(address))
                });
                (!were_none && troubles.is_empty()).then_some(CollectorNews::Well)
            }
            Err(trouble) => {
                troubles.insert(address.to_owned(), trouble);
                were_none.then(|| CollectorNews::Failed(address.to_owned(), trouble))
            }
        }
    }

    /// The addresses that take nothing now, and why.
    #[must_use]
    pub fn troubles(&self) -> Vec<(String, CollectorTrouble)> {
        let troubles = self.troubles.lock().expect("no holder of the troubles panics");
        troubles.iter().map(|(address, trouble)| (address.clone(), *trouble)).collect()
    }
}

/// Scheme, host and port of an address.
fn origin(address: &str) -> &str {
    let path = address.match_indices('/').nth(2);
    &address[..path.map_or(address.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_trouble_and_the_end_of_the_last_one_are_told() {
        let collector = Collector::default();
        assert_eq!(collector.note("a", Ok(())), None);
        let failed = Some(CollectorNews::Failed("a".to_owned(), CollectorTrouble::Unreachable));
        assert_eq!(collector.note("a", Err(CollectorTrouble::Unreachable)), failed);
        assert_eq!(collector.note("a", Err(CollectorTrouble::Silent)), None, "it was told");
        assert_eq!(collector.note("b", Err(CollectorTrouble::Status(404))), None);
        assert_eq!(collector.troubles().len(), 2);
        assert_eq!(collector.note("a", Ok(())), None, "the other one fails yet");
        assert_eq!(collector.note("b", Ok(())), Some(CollectorNews::Well));
        assert_eq!(collector.note("b", Ok(())), None);
    }

    #[test]
    fn who_is_there_at_one_address_is_there_at_all_of_that_origin() {
        let collector = Collector::default();
        let addresses = ["http://c:1/v1/traces", "http://c:1/v1/logs", "http://d:1/v1/logs", "http://c:1/v1/metrics"];
        let troubles = [
            CollectorTrouble::Silent,
            CollectorTrouble::Unreachable,
            CollectorTrouble::Unreachable,
            CollectorTrouble::Status(404),
        ];
        for (address, trouble) in addresses.into_iter().zip(troubles) {
            let _ = collector.note(address, Err(trouble));
        }
        let answered = ["http://c:1/a", "http://c:1/b"];
        let _ = collector.note(answered[0], Err(CollectorTrouble::Page));
        let _ = collector.note(answered[1], Err(CollectorTrouble::Rejected(1)));
        assert_eq!(collector.note(addresses[0], Ok(())), None);
        let left: Vec<String> = collector.troubles().into_iter().map(|(address, _)| address).collect();
        assert_eq!(left, [answered[0], answered[1], addresses[3], addresses[2]]);
    }
}
