//! What an append may say of entries that are executed here. openraft asks for the index of an entry alone, and takes a committed
//! position of a later term for the later one (`has_log_id`, `update_local_committed`), so a message that contradicts this log would
//! erase what it has executed.

use std::io;

use super::records::Position;
use super::wire::Append;

/// The last entry that is executed here, or will be whatever comes: the later one, by its index, of that which is `applied` and
/// those that are `committed`, of which openraft drops nothing more. Its term is the one that it has in the log, if it is kept:
/// whoever called it committed may have named another one. `term_at` is as for [`check`].
///
/// # Errors
/// The log cannot be read.
pub fn executed(
    applied: Option<Position>,
    committed: [Option<Position>; 2],
    term_at: impl Fn(u64) -> io::Result<Option<u64>>,
) -> io::Result<Option<Position>> {
    match committed.into_iter().flatten().max_by_key(|at| at.index) {
        Some(last) if applied.is_none_or(|applied| applied.index < last.index) => {
            Ok(Some(Position { term: term_at(last.index)?.unwrap_or(last.term), ..last }))
        }
        _ => Ok(applied),
    }
}

/// Whether the entries that a message names can stand in one log with those that are executed here up to `executed`: terms never fall
/// along it, and what is executed never changes, since whoever is elected has all that a majority has. `term_at` is the term of an
/// entry of the log here, none where it is not kept any more.
///
/// # Errors
/// What contradicts the log here, or that it cannot be read.
pub fn check(
    append: &Append,
    executed: Option<Position>,
    term_at: impl Fn(u64) -> io::Result<Option<u64>>,
) -> io::Result<Result<(), String>> {
    let log: Vec<Position> = append.previous.into_iter().chain(append.entries.iter().map(|entry| entry.at)).collect();
    let wrong = |at: Position| Err(format!("the entry {} of term {} contradicts the log here", at.index, at.term));
    for said in [&log[..], append.committed.as_slice()] {
        if let Some(at) = falls(executed.iter().chain(said).copied().collect()) {
            return Ok(wrong(at));
        }
    }
    // Of entries that are executed openraft keeps those here, whatever comes.
    for at in append.previous.into_iter().chain(append.committed) {
        if executed.is_some_and(|executed| at.index < executed.index)
            && term_at(at.index)?.is_some_and(|term| term != at.term)
        {
            return Ok(wrong(at));
        }
    }
    Ok(Ok(()))
}

/// The first of these that cannot be in one log with the others: along it terms do not fall.
fn falls(mut all: Vec<Position>) -> Option<Position> {
    all.sort_unstable_by_key(|at| (at.index, at.term));
    let wrong =
        |pair: &&[Position]| pair[0].term > pair[1].term || pair[0].index == pair[1].index && pair[0] != pair[1];
    all.windows(2).find(wrong).map(|pair| pair[1])
}

#[cfg(test)]
mod tests {
    use althing_protocol::{GroupId, SecretKey};

    use super::super::records::{Ballot, EntryRecord, Payload};
    use super::*;

    fn at(term: u64, index: u64) -> Position {
        Position { term, index }
    }

    fn append(previous: Option<Position>, committed: Option<Position>, entries: &[Position]) -> Append {
        let node = SecretKey::from_seed(&[1; 32]).public();
        let entries = entries.iter().map(|at| EntryRecord { at: *at, payload: Payload::Blank }).collect();
        let leader = Ballot { term: 9, node, elected: true };
        Append { group: GroupId::from_digest([3; 32]), leader, previous, committed, entries }
    }

    /// Executed here up to (3, 10): the first five entries of term 1, of which two are not kept, then of term 3.
    fn is_taken(append: &Append) -> bool {
        let term_at = |index: u64| Ok((index >= 2).then_some(if index < 5 { 1 } else { 3 }));
        check(append, Some(at(3, 10)), term_at).expect("the log can be read").is_ok()
    }

    /// SG-2, P-141
    #[test]
    fn what_is_executed_here_is_contradicted_by_nobody() {
        // What honest leaders send: more, the same again, and to who lags behind.
        assert!(is_taken(&append(Some(at(3, 10)), Some(at(3, 10)), &[at(4, 11), at(4, 12)])));
        assert!(is_taken(&append(Some(at(1, 4)), Some(at(3, 9)), &[at(3, 5), at(3, 6)])));
        assert!(is_taken(&append(Some(at(3, 8)), Some(at(5, 14)), &[at(3, 9), at(3, 10), at(4, 11)])));
        assert!(is_taken(&append(Some(at(5, 14)), Some(at(3, 10)), &[])));
        assert!(is_taken(&append(None, None, &[at(1, 0)])), "its term is not known here any more");
        // A later term for what is executed, whichever member of the message says so.
        assert!(!is_taken(&append(Some(at(9, 7)), Some(at(9, 7)), &[])));
        assert!(!is_taken(&append(Some(at(9, 7)), None, &[at(9, 8)])));
        assert!(!is_taken(&append(Some(at(3, 7)), Some(at(9, 7)), &[])));
        assert!(!is_taken(&append(Some(at(3, 9)), None, &[at(9, 10)])));
        assert!(!is_taken(&append(Some(at(9, 10)), None, &[])));
        // An earlier term, where that of the entry here is known, and where it is above an executed one.
        assert!(!is_taken(&append(Some(at(1, 7)), None, &[])) && !is_taken(&append(Some(at(2, 3)), None, &[])));
        assert!(!is_taken(&append(Some(at(2, 12)), None, &[])));
        assert!(!is_taken(&append(Some(at(3, 10)), Some(at(2, 11)), &[at(4, 11)])));
        assert!(
            check(&append(Some(at(9, 7)), None, &[]), None, |_| Ok(None)).expect("nothing to read").is_ok(),
            "nothing is executed"
        );
    }

    /// SG-2, P-141: while entries wait to be executed, openraft believes nobody of them any more either.
    #[test]
    fn what_is_committed_here_counts_as_executed() {
        let term_at = |index: u64| Ok((index < 1_000).then_some(3));
        let last = |applied, committed| executed(applied, committed, term_at).expect("the log can be read");
        let (applied, committed) = (Some(at(3, 990)), Some(at(3, 999)));
        assert_eq!(last(applied, [committed, None]), committed);
        assert_eq!(last(applied, [None, committed]), committed);
        assert_eq!(last(committed, [applied, applied]), committed, "a snapshot took the place of the state");
        assert_eq!((last(applied, [None; 2]), last(None, [committed, applied])), (applied, committed));
        assert_eq!(last(None, [None; 2]), None);
        assert_eq!(last(applied, [Some(at(2, 999)), applied]), committed, "the log says of which term it is");
        assert_eq!(last(applied, [Some(at(4, 1_000)), committed]), Some(at(4, 1_000)), "it is not kept there");
        let forged = append(Some(at(9, 995)), Some(at(9, 995)), &[at(9, 996)]);
        let is_taken = |executed| check(&forged, executed, term_at).expect("the log can be read").is_ok();
        assert!(is_taken(applied), "nothing of it is executed yet");
        assert!(!is_taken(last(applied, [committed, None])));
        // What the leader sends next, or again.
        let honest = append(Some(at(3, 994)), Some(at(4, 1_001)), &[at(3, 995), at(3, 996)]);
        assert!(check(&honest, committed, term_at).expect("the log can be read").is_ok());
    }

    #[test]
    fn a_log_that_cannot_be_read_is_no_contradiction() {
        let unread = |_| Err(io::Error::other("the disk"));
        assert!(check(&append(Some(at(3, 4)), None, &[]), Some(at(3, 10)), unread).is_err());
        assert!(executed(None, [Some(at(3, 4)), None], unread).is_err());
    }
}
