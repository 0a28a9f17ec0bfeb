//! Any bytes as each message and answer of `/althing/raft/1`: what is read is written to the same bytes, and what passes its
//! check keeps what the check promises. Heartbeats stand for appends that pass the same checks.
#![no_main]

use althing_coordination::consensus::wire::{
    Accuse, Accused, Append, Appended, Ballot, Barrier, BarrierAnswer, Beats, BeatsHeard, Compare, Compared, Elect,
    Elected, Fetch, Fetched, NOTES_MAX, Payload, Position, ReportTo, Reported, SnapshotPart, SnapshotTaken, Submit,
    Submitted, Transfer, Transferred, Unserved, read, write,
};
use althing_protocol::group::Equivocation;
use libfuzzer_sys::fuzz_target;
use minicbor::{Decode, Encode};

/// The value in the bytes, which is written to the same bytes.
fn again<T: Encode<()> + for<'b> Decode<'b, ()>>(bytes: &[u8]) -> Option<T> {
    let value: T = read(bytes).ok()?;
    assert_eq!(write(&value), bytes, "accepted bytes encode to themselves");
    Some(value)
}

/// Whether a leader or candidate of the ballot can have that entry.
fn made(ballot: Ballot, at: Option<Position>) -> bool {
    at.is_none_or(|at| at.term <= ballot.term)
}

fn appends(append: &Append) {
    if append.check().is_err() {
        return;
    }
    assert!(append.leader.elected, "only who is elected sends entries");
    assert!(made(append.leader, append.previous) && made(append.leader, append.committed));
    let mut before = append.previous;
    for entry in &append.entries {
        assert_eq!(entry.at.index, before.map_or(0, |at| at.index + 1), "entries follow each other");
        assert!(made(append.leader, Some(entry.at)) && before.is_none_or(|at| at.term <= entry.at.term));
        if let Payload::Members(voters, learners) = &entry.payload {
            assert!((1..=2).contains(&voters.len()) && voters.iter().all(|set| !set.is_empty()));
            assert!(
                !learners.iter().any(|node| voters.iter().any(|set| set.contains(node))),
                "who votes is no learner"
            );
        }
        before = Some(entry.at);
    }
}

fuzz_target!(|data: &[u8]| {
    if let Some(append) = again::<Append>(data) {
        appends(&append);
    }
    if let Some(beats) = again::<Beats>(data)
        && beats.check().is_ok()
    {
        assert!(beats.beats.windows(2).all(|two| two[0].group < two[1].group), "each group once");
        for beat in &beats.beats {
            let append = beat.as_append(beats.leader);
            assert_eq!(again::<Append>(&write(&append)).as_ref(), Some(&append), "an append that can be sent");
            appends(&append);
        }
    }
    if let Some(elect) = again::<Elect>(data)
        && elect.check().is_ok()
    {
        assert!(!elect.candidate.elected && made(elect.candidate, elect.last));
    }
    if let Some(part) = again::<SnapshotPart>(data)
        && part.check().is_ok()
    {
        assert!(part.leader.elected && part.last.is_some() && part.members.at <= part.last);
    }
    if let Some(transfer) = again::<Transfer>(data)
        && transfer.check().is_ok()
    {
        assert!(transfer.leader.elected && made(transfer.leader, transfer.last));
    }
    if let Some(compare) = again::<Compare>(data)
        && compare.check().is_ok()
    {
        assert!((1..=NOTES_MAX).contains(&compare.entries().count()));
    }
    if let Some(Accuse { proof, .. }) = again::<Accuse>(data) {
        assert_eq!(Equivocation::decode(&proof.encode()).as_ref(), Ok(&proof));
        // Nobody guesses two signatures; whatever the bytes are, verifying them ends.
        assert!(proof.verify("fuzz").is_err());
    }
    if let Ok(proof) = Equivocation::decode(data) {
        assert_eq!(proof.encode(), data);
        let (one, other) = (proof.one.read(), proof.other.read());
        if let (Some(one), Some(other)) = (one, other)
            && let Some((index, entries)) = one.contradicts(&other)
        {
            assert!(one.entries[&index] == entries[0] && other.entries[&index] == entries[1]);
        }
    }
    again::<Compared>(data);
    again::<Accused>(data);
    again::<Appended>(data);
    again::<BeatsHeard>(data);
    again::<Elected>(data);
    again::<SnapshotTaken>(data);
    again::<Transferred>(data);
    again::<Submit>(data);
    again::<Submitted>(data);
    again::<Barrier>(data);
    again::<BarrierAnswer>(data);
    again::<ReportTo>(data);
    again::<Reported>(data);
    again::<Fetch>(data);
    again::<Fetched>(data);
    again::<Unserved>(data);
});
