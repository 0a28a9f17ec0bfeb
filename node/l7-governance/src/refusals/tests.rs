use althing_protocol::{PublisherId, digest};

use super::*;

const ACT: RefusalKind = RefusalKind::Act;
const NONE: RefusalEntry = RefusalEntry::None;
const OWN: RefusalEntry = RefusalEntry::Own;

fn sender(number: u8) -> CallerId {
    CallerId::Publisher(PublisherId::from_digest([number; 32]))
}

fn sent(number: u8, is_near: bool) -> RefusalKind {
    RefusalKind::Message { by: sender(number), is_near }
}

fn refusal(kind: RefusalKind, set: Option<Digest>, number: usize) -> Refusal {
    Refusal { kind, set, what: digest(&number.to_be_bytes()) }
}

/// What the log is to have of these.
fn noted(refusals: &Refusals, kind: RefusalKind, of: std::ops::Range<usize>) -> Vec<RefusalEntry> {
    of.map(|number| refusals.note(refusal(kind, None, number))).collect()
}

fn count(what: &'static str, by: Option<CallerId>, number: u64) -> RefusalCount {
    RefusalCount { what, by, set: None, number }
}

#[test]
fn a_refusal_is_new_once_for_each_set() {
    let refusals = Refusals::default();
    let (one, other) = (Some([1; 32]), Some([2; 32]));
    let note = |set, number| refusals.note(refusal(sent(1, false), set, number));
    assert_eq!([note(one, 7), note(one, 8)], [OWN; 2]);
    assert_eq!(note(one, 7), NONE);
    assert_eq!(note(other, 7), OWN, "another set refused it");
    assert_eq!(note(None, 7), OWN, "a file that cannot be read does");
}

#[test]
fn of_very_many_refusals_of_one_set_the_log_has_some_and_of_the_others_how_many() {
    let refusals = Refusals::default();
    let all = noted(&refusals, ACT, 0..REFUSALS_MAX + 9);
    assert_eq!(all[..REFUSALS_MAX], [OWN; REFUSALS_MAX]);
    let [one, two, four, eight] = [1, 2, 4, 8].map(|number| RefusalEntry::Count(count("acts", None, number)));
    assert_eq!(all[REFUSALS_MAX..], [one, two, NONE, four, NONE, NONE, NONE, eight, NONE]);
    assert_eq!(noted(&refusals, ACT, 0..REFUSALS_MAX), [NONE; REFUSALS_MAX], "those it has");
    assert_eq!(noted(&refusals, sent(1, false), 0..1), [OWN], "messages have room of their own");
    let next = |number| refusals.note(refusal(ACT, Some([1; 32]), number));
    assert_eq!((0..REFUSALS_MAX).map(next).collect::<Vec<_>>(), [OWN; REFUSALS_MAX], "so has the next set");
}

#[test]
fn no_sender_takes_the_room_of_another_and_no_strangers_that_of_whom_the_owner_trusts() {
    let refusals = Refusals::default();
    let all = noted(&refusals, sent(1, false), 0..SHARE_MAX + 3);
    assert_eq!(all[..SHARE_MAX], [OWN; SHARE_MAX]);
    let [one, two] = [1, 2].map(|number| RefusalEntry::Count(count("messages", Some(sender(1)), number)));
    assert_eq!(all[SHARE_MAX..], [one, two, NONE]);
    // Keys are free: as many senders as it takes fill what there is.
    for number in 2..=16 {
        let of = usize::from(number) * SHARE_MAX..usize::from(number + 1) * SHARE_MAX;
        assert_eq!(noted(&refusals, sent(number, false), of), [OWN; SHARE_MAX], "{number}");
    }
    let of_all = RefusalEntry::Count(count("messages", None, 1));
    assert_eq!(noted(&refusals, sent(17, false), 0x1_0000..0x1_0001), [of_all], "it has no share to be counted in");
    assert_eq!(noted(&refusals, sent(1, true), 0..1), [OWN], "whom the owner trusts has room");
    assert_eq!(refusals.known().others.senders.len(), 16, "no others are remembered");
}

#[test]
fn what_the_log_did_not_take_is_new_once_more() {
    let refusals = Refusals::default();
    for kind in [ACT, sent(1, false), sent(1, true)] {
        for number in 0..2 * SHARE_MAX {
            assert_eq!(noted(&refusals, kind, number..number + 1), [OWN], "nothing of it takes room");
            refusals.forget(refusal(kind, None, number), OWN);
        }
        assert_eq!(noted(&refusals, kind, 0..1), [OWN]);
        refusals.forget(refusal(kind, Some([1; 32]), 0), OWN);
        assert_eq!(noted(&refusals, kind, 0..1), [NONE], "another set did not refuse it");
    }
    assert!(refusals.take_counts().is_empty());
}

#[test]
fn what_was_not_told_of_a_count_is_told_when_nothing_else_tells_it() {
    let refusals = Refusals::default();
    noted(&refusals, ACT, 0..REFUSALS_MAX + 3);
    noted(&refusals, sent(1, false), 0..SHARE_MAX + 4);
    noted(&refusals, sent(2, true), 0..SHARE_MAX + 1);
    assert!(refusals.take_counts().is_empty(), "further ones may tell them");
    refusals.note(refusal(ACT, Some([1; 32]), 0));
    assert_eq!(refusals.take_counts(), [count("acts", None, 3)], "another set is in force");
    let told = RefusalEntry::Count(count("messages", Some(sender(2)), 1));
    refusals.forget(refusal(sent(2, true), None, SHARE_MAX), told);
    refusals.end();
    assert_eq!(refusals.take_counts(), [count("messages", Some(sender(2)), 1)], "four were told of the other one");
    refusals.end();
    assert!(refusals.take_counts().is_empty(), "once");
    for number in 0..=COUNTS_MAX as u64 {
        refusals.keep_count(count("acts", None, number));
    }
    assert_eq!(refusals.take_counts().front(), Some(&count("acts", None, 1)), "the oldest one is lost");
}

#[test]
fn the_data_of_an_agent_is_that_of_its_strictest_contract() {
    let refusals = Refusals::default();
    assert_eq!(refusals.data_of("clerk"), None);
    refusals.note_data("clerk", DataLabel::Internal);
    refusals.note_data("clerk", DataLabel::Restricted);
    refusals.note_data("clerk", DataLabel::Internal);
    assert_eq!(refusals.data_of("clerk"), Some(DataLabel::Restricted));
}
