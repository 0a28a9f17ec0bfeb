use althing_protocol::{CallerId, SecretKey};
use proptest::prelude::*;

use super::*;

fn scope(owner: u8) -> Scope {
    Scope::of(CallerId::Node(SecretKey::from_seed(&[owner; 32]).public()))
}

fn summary(number: u32, owner: u8, bytes: u64) -> Summary {
    Summary {
        agent: "echo".to_owned(),
        scope: scope(owner),
        context_id: "c".to_owned(),
        state: TaskState::Completed,
        changed_ms: i64::from(number),
        bytes,
        message_id: format!("m-{number}"),
        failure: None,
        doubts: None,
        departed: false,
        resumes: false,
        waits_ms: None,
        crowd: None,
    }
}

/// Room for 20 tasks, 10 of one scope, and for as many bytes as `bytes` says.
fn small(bytes: u64) -> Listing {
    Listing::limited(
        scope(9),
        Limits {
            all: Amount { tasks: 20, bytes: bytes * 4 },
            of_agent: Amount { tasks: 20, bytes: bytes * 2 },
            of_scope: Amount { tasks: 10, bytes },
        },
    )
}

/// Writes a task as the store does; gives what was forgotten for it.
fn keep(listing: &mut Listing, number: u32, summary: &Summary) -> Vec<String> {
    let id = number.to_string();
    let gone = listing.surplus(&id, summary);
    gone.iter().for_each(|id| listing.forget(id));
    listing.note(&id, summary);
    gone.iter().map(|id| id.to_string()).collect()
}

proptest! {
    /// Tasks come in groups, of which each chooses what is forgotten before any of them is noted.
    #[test]
    fn however_many_come_at_one_time_no_more_are_kept_than_may_be(
        groups in prop::collection::vec(prop::collection::vec(1u8..4, 1..5), 1..60)
    ) {
        let mut listing = small(u64::MAX / 8);
        let (mut number, mut most) = (0, 0);
        for owners in groups {
            let group: Vec<(String, Summary)> = owners
                .iter()
                .map(|owner| { number += 1; (number.to_string(), summary(number, *owner, 100)) })
                .collect();
            let forgotten: Vec<Vec<Arc<str>>> = group.iter().map(|(id, summary)| listing.surplus(id, summary)).collect();
            for ((id, summary), forgotten) in group.iter().zip(forgotten) {
                forgotten.iter().for_each(|id| listing.forget(id));
                listing.note(id, summary);
                prop_assert!(listing.metas.contains_key(id.as_str()), "the newest is kept");
            }
            let room = group.len() - 1;
            prop_assert!(listing.metas.len() <= 20 + room);
            // Of one scope what is too much goes with its own next.
            most = most.max(room);
            prop_assert!(listing.scopes.values().all(|of_one| of_one.ages.len() <= 10 + most));
            // All say the same.
            let listed: usize = listing.orders.values().map(BTreeSet::len).sum();
            let aged: usize = listing.scopes.values().map(|aged| aged.ages.len()).sum();
            prop_assert_eq!((listed, aged), (listing.metas.len(), listing.metas.len()));
            prop_assert_eq!(listing.began.len(), listing.metas.len());
        }
    }

    /// Tasks of any size come one after the other, and some grow when their turn ends.
    #[test]
    fn however_large_tasks_are_no_more_bytes_are_kept_than_may_be(
        tasks in prop::collection::vec((1u8..6, 0u64..900, any::<bool>(), 0u32..40), 1..120)
    ) {
        let mut listing = small(1_000);
        for (number, (owner, bytes, other_agent, again)) in (0u32..).zip(tasks) {
            let number = if listing.metas.contains_key(again.to_string().as_str()) { again } else { 100 + number };
            let known = listing.summary(&number.to_string());
            let mut wanted = known.unwrap_or_else(|| summary(number, owner, bytes));
            wanted.bytes = bytes;
            if other_agent && !listing.metas.contains_key(number.to_string().as_str()) {
                wanted.agent = "other".to_owned();
            }
            keep(&mut listing, number, &wanted);
            prop_assert_eq!(listing.summary(&number.to_string()), Some(wanted), "what is written is kept");
            let sum = |chosen: &dyn Fn(&Meta) -> bool| -> u64 {
                listing.metas.values().filter(|meta| chosen(meta)).map(|meta| meta.bytes).sum()
            };
            prop_assert_eq!(sum(&|_| true), listing.all.bytes);
            prop_assert!(listing.all.bytes <= 4_000);
            for owner in 1..6 {
                prop_assert!(sum(&|meta| meta.list.1 == scope(owner)) <= 1_000);
            }
            for agent in ["echo", "other"] {
                prop_assert!(sum(&|meta| meta.list.0 == agent) <= 2_000);
            }
        }
    }
}

#[test]
fn the_oldest_of_the_same_scope_goes_first() {
    let mut listing = Listing::limited(
        scope(9),
        Limits {
            all: Amount { tasks: 4, bytes: u64::MAX },
            of_agent: Amount { tasks: 4, bytes: u64::MAX },
            of_scope: Amount { tasks: 3, bytes: u64::MAX },
        },
    );
    for number in 1..=3 {
        assert_eq!(keep(&mut listing, number, &summary(number, 1, 1)), [""; 0]);
    }
    assert_eq!(keep(&mut listing, 4, &summary(4, 1, 1)), ["1"], "its own oldest");
    assert_eq!(keep(&mut listing, 5, &summary(5, 2, 1)), [""; 0]);
    assert_eq!(keep(&mut listing, 6, &summary(6, 2, 1)), ["2"], "the oldest of who has most");
}

#[test]
fn large_tasks_push_out_only_their_own_scopes() {
    let mut listing = small(1_000);
    for number in 1..=5 {
        keep(&mut listing, number, &summary(number, 1, 100));
    }
    for number in 10..=12 {
        keep(&mut listing, number, &summary(number, 2, 300));
    }
    let mut grown = summary(12, 2, 500);
    grown.changed_ms = 20;
    assert_eq!(keep(&mut listing, 12, &grown), ["10"], "also when a task grows while it is worked on");
    assert_eq!(keep(&mut listing, 13, &summary(13, 2, 1_000)), ["11", "12"]);
    assert_eq!(listing.scopes[&scope(1)].amount, Amount { tasks: 5, bytes: 500 });
}

#[test]
fn others_tasks_never_push_out_those_of_this_nodes_owner() {
    let mut listing = small(1_000);
    let mut own = summary(1, 9, 900);
    own.agent = "mine".to_owned();
    keep(&mut listing, 1, &own);
    for number in 10..60 {
        let mut theirs = summary(number, 10 + u8::try_from(number % 20).expect("small"), 400);
        theirs.agent = format!("agent-{}", number % 5);
        keep(&mut listing, number, &theirs);
    }
    assert!(listing.metas.contains_key("1"), "it is the oldest, and its scope takes most");
    assert!(listing.all.bytes <= 4_000);
}

#[test]
fn a_message_leads_to_the_task_that_it_began_until_that_is_forgotten() {
    let mut listing = small(1_000);
    keep(&mut listing, 1, &summary(1, 1, 10));
    assert_eq!(listing.began_by("echo", scope(1), "m-1"), Some("1"));
    assert_eq!(listing.began_by("echo", scope(2), "m-1"), None, "another's message");
    assert_eq!(listing.began_by("other", scope(1), "m-1"), None, "another agent's");
    listing.forget("1");
    assert_eq!(listing.began_by("echo", scope(1), "m-1"), None);
    assert!(listing.began.is_empty());
}

#[test]
fn tasks_that_changed_at_one_time_are_all_listed_page_after_page() {
    let mut listing = small(u64::MAX / 8);
    for number in 0..9 {
        // Three of each millisecond.
        let changed_ms = i64::from(number / 3);
        listing.note(&number.to_string(), &Summary { changed_ms, ..summary(number, 1, 10) });
    }
    let scope = scope(1);
    let filter = Filter { agent: "echo", scope, context_id: None, state: None, after_ms: None };
    for size in 1..=9 {
        let (mut listed, mut token) = (Vec::new(), String::new());
        loop {
            let page = listing.page(&filter, Some(&*token).filter(|token| !token.is_empty()), size).expect("a token");
            assert_eq!(page.total, 9);
            listed.extend(page.ids);
            token = page.next;
            if token.is_empty() {
                break;
            }
        }
        assert_eq!(listed, ["6", "7", "8", "3", "4", "5", "0", "1", "2"], "in pages of {size}");
    }
}

/// SG-12: however many tasks a page may have, what is decoded for it is bounded.
#[test]
fn a_page_ends_by_what_its_tasks_take_on_disk() {
    let mut listing = small(u64::MAX / 8);
    let bytes = PAGE_BYTES_MAX / 3;
    for number in 0..9 {
        listing.note(&number.to_string(), &summary(number, 1, if number == 4 { PAGE_BYTES_MAX * 2 } else { bytes }));
    }
    let scope = scope(1);
    let filter = Filter { agent: "echo", scope, context_id: None, state: None, after_ms: None };
    let (mut pages, mut token) = (Vec::new(), String::new());
    loop {
        let page = listing.page(&filter, Some(&*token).filter(|token| !token.is_empty()), 100).expect("a token");
        pages.push(page.ids.concat());
        token = page.next;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(pages, ["876", "5", "4", "321", "0"], "a task that is larger than a page is one by itself");
}

/// A row as it was before tasks could move.
#[derive(Serialize)]
struct UnmovedRow {
    agent: String,
    scope: Scope,
    context_id: String,
    state: TaskState,
    changed_ms: i64,
    bytes: u64,
    message_id: String,
    failure: Option<NotedFailure>,
}

#[test]
fn a_row_from_before_tasks_could_move_is_read_and_written_as_before() {
    let Summary { agent, scope, context_id, state, changed_ms, bytes, message_id, failure, .. } = summary(1, 1, 10);
    let row = UnmovedRow { agent, scope, context_id, state, changed_ms, bytes, message_id, failure };
    let (mut before, mut again) = (Vec::new(), Vec::new());
    ciborium::into_writer(&row, &mut before).expect("memory takes any");
    let read: Summary = ciborium::from_reader(&before[..]).expect("a row of before");
    assert_eq!(read, summary(1, 1, 10));
    ciborium::into_writer(&read, &mut again).expect("memory takes any");
    assert_eq!(again, before);
}

#[test]
fn a_task_that_was_handed_over_is_not_listed_and_makes_room_before_those_that_wait() {
    let mut listing = small(u64::MAX / 8);
    let filter = |context| Filter { agent: "echo", scope: scope(1), context_id: context, state: None, after_ms: None };
    let waits = |number: u32| Summary { state: TaskState::InputRequired, ..summary(number, 1, 10) };
    let gone = |number: u32| Summary { departed: true, ..waits(number) };
    keep(&mut listing, 1, &waits(1));
    keep(&mut listing, 2, &gone(2));
    let listed = |listing: &Listing| listing.page(&filter(None), None, 10).expect("a page").ids;
    assert_eq!(listed(&listing), ["1"]);
    assert_eq!(listing.departed(&filter(Some("c"))), None, "one of its context is here");
    assert_eq!(listing.began_by("echo", scope(1), "m-2"), Some("2"), "its message, sent again, finds it");
    keep(&mut listing, 1, &gone(1));
    assert_eq!(listed(&listing), [""; 0]);
    assert_eq!(listing.departed(&filter(Some("c"))), Some("2"), "the newest");
    assert_eq!((listing.departed(&filter(Some("d"))), listing.departed(&filter(None))), (None, None));

    for number in 3..=10 {
        keep(&mut listing, number, &waits(number));
    }
    assert_eq!(keep(&mut listing, 11, &waits(11)), ["1"], "the oldest of those that went away");
    assert_eq!(keep(&mut listing, 12, &waits(12)), ["2"]);
    assert_eq!(keep(&mut listing, 13, &waits(13)), ["3"], "and then the oldest of the others");
}

#[test]
fn a_context_has_tasks_until_the_last_one_is_gone() {
    let mut listing = small(1_000);
    for number in 1..=2 {
        listing.note(&number.to_string(), &summary(number, 1, 10));
    }
    let has = |listing: &Listing, owner: u8, context: &str| listing.has_context("echo", scope(owner), context);
    assert_eq!([has(&listing, 1, "c"), has(&listing, 2, "c"), has(&listing, 1, "d")], [true, false, false]);
    listing.forget("1");
    assert!(has(&listing, 1, "c"));
    listing.forget("2");
    assert!(!has(&listing, 1, "c"));
}
