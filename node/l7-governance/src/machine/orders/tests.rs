use althing_protocol::object::{self, OrderWord};
use althing_protocol::{SecretKey, keylog};

use super::*;

const NOW_MS: u64 = 1_800_000_000_000;

fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

/// The log of the owner whose first key has that number; the two after it come next.
fn log(seed: u8) -> Arc<KeyLog> {
    let event = keylog::inception(&key(seed), [key(seed + 1).public(), key(seed + 2).public()], NOW_MS - 10_000);
    Arc::new(KeyLog::verify(&[event.bytes]).expect("an inception"))
}

fn proven(log: &Arc<KeyLog>, signer: u8, subject: OrderSubject, serial: u64) -> ProvenOrder {
    let order = object::sign(OwnerOrder::new(log.publisher(), subject, serial), "", "", &key(signer));
    ProvenOrder { order: Arc::new(order.expect("an order")), log: log.clone() }
}

fn of_echo(word: OrderWord) -> OrderSubject {
    OrderSubject::Agent("echo".to_owned(), word)
}

fn agent(log: &KeyLog, name: &str) -> AgentId {
    AgentId::new(log.publisher(), name).expect("a name")
}

#[test]
fn the_newest_word_about_an_agent_counts_in_whatever_order_words_come() {
    let own = log(1);
    let all = [
        (of_echo(OrderWord::Stop), NOW_MS),
        (OrderSubject::AllAgents(OrderWord::Revoke), NOW_MS + 1),
        (of_echo(OrderWord::Lift), NOW_MS + 2),
    ];
    for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]] {
        let mut book = OrderBook::new(own.publisher());
        for at in order {
            let (subject, serial) = all[at].clone();
            book.take(proven(&own, 1, subject, serial), NOW_MS).expect("it counts, or is older");
        }
        assert_eq!(book.word_of(&agent(&own, "echo")), OrderWord::Lift, "{order:?}");
        assert_eq!(book.word_of(&agent(&own, "other")), OrderWord::Revoke, "{order:?}");
        assert_eq!((book.word_of_all(), book.digests().len()), (OrderWord::Revoke, 2));
        assert_eq!(book.word_of(&agent(&log(9), "echo")), OrderWord::Lift, "of another owner");
    }
    // In the same millisecond the stricter one counts.
    for words in [[OrderWord::Stop, OrderWord::Lift], [OrderWord::Lift, OrderWord::Stop]] {
        let mut book = OrderBook::new(own.publisher());
        for word in words {
            book.take(proven(&own, 1, of_echo(word), NOW_MS), NOW_MS).expect("it counts, or is not stricter");
        }
        assert_eq!(book.word_of(&agent(&own, "echo")), OrderWord::Stop);
    }
}

#[test]
fn a_new_word_is_newer_than_all_that_it_is_about() {
    let own = log(1);
    let mut book = OrderBook::new(own.publisher());
    let ahead = NOW_MS + 60_000;
    book.take(proven(&own, 1, OrderSubject::AllAgents(OrderWord::Stop), ahead), NOW_MS).expect("a clock ahead");
    assert_eq!(book.next_serial(&of_echo(OrderWord::Lift), NOW_MS), ahead + 1);
    book.take(proven(&own, 1, of_echo(OrderWord::Lift), ahead + 1), NOW_MS).expect("it counts");
    assert_eq!(book.next_serial(&OrderSubject::AllAgents(OrderWord::Stop), NOW_MS), ahead + 2);
    assert_eq!(book.next_serial(&OrderSubject::PolicySet([1; 32]), NOW_MS), NOW_MS);
    assert_eq!(book.next_serial(&OrderSubject::AllAgents(OrderWord::Stop), ahead + 9), ahead + 9);
}

#[test]
fn who_does_not_speak_for_the_owner_now_orders_nothing() {
    let own = log(1);
    let mut book = OrderBook::new(own.publisher());
    let stop = || of_echo(OrderWord::Stop);
    let stolen = book.take(proven(&own, 7, stop(), NOW_MS), NOW_MS);
    assert!(matches!(stolen, Err(OrderError::Keys(KeyLogError::NotItsKey { .. }))), "{stolen:?}");
    let others = ProvenOrder { log: log(9), ..proven(&own, 1, stop(), NOW_MS) };
    assert_eq!(book.take(others, NOW_MS), Err(OrderError::Foreign(own.publisher())));
    let rotated = Arc::new(own.rotate(&key(2), key(4).public(), NOW_MS, 0).expect("it may"));
    let old = SignedOrder::of(&proven(&own, 1, stop(), NOW_MS));
    let judged = old.open(Some(&rotated)).expect("its signatures are good");
    let old = book.take(judged, NOW_MS + 1);
    assert!(matches!(old, Err(OrderError::Keys(_))), "the known keys are newer than those that it came with: {old:?}");
    let fresh = SignedOrder::of(&proven(&rotated, 2, stop(), NOW_MS));
    let judged = fresh.open(Some(&own)).expect("its signatures are good");
    assert_eq!(book.take(judged, NOW_MS + 1), Ok(true), "what came with it goes on from the known keys");
    let early = book.take(proven(&rotated, 2, stop(), NOW_MS + 120_001), NOW_MS);
    assert!(matches!(early, Err(OrderError::Early { ahead_ms: 120_001, .. })), "{early:?}");
}

#[test]
fn others_are_told_what_is_for_them_and_take_the_room_of_nobody() {
    let (own, other) = (log(1), log(5));
    let mut book = OrderBook::new(own.publisher());
    for subject in [of_echo(OrderWord::Stop), OrderSubject::PolicySet([3; 32])] {
        let private = book.take(proven(&other, 5, subject.clone(), NOW_MS), NOW_MS);
        assert_eq!(private, Err(OrderError::Private(other.publisher())));
        assert_eq!(book.take(proven(&own, 1, subject, NOW_MS), NOW_MS), Ok(true));
    }
    for number in 0..ORDERS_OF_PUBLISHER_MAX {
        let subject = OrderSubject::Agent(format!("a{number}"), OrderWord::Revoke);
        assert_eq!(book.take(proven(&other, 5, subject, NOW_MS), NOW_MS), Ok(true));
    }
    let one_more = proven(&other, 5, of_echo(OrderWord::Revoke), NOW_MS);
    assert_eq!(book.take(one_more, NOW_MS), Err(OrderError::Full(other.publisher())));
    let again = OrderSubject::Agent("a0".to_owned(), OrderWord::Lift);
    assert_eq!(book.take(proven(&other, 5, again, NOW_MS + 1), NOW_MS), Ok(true), "what is known has its place");
    assert_eq!(book.take(proven(&own, 1, of_echo(OrderWord::Revoke), NOW_MS + 1), NOW_MS), Ok(true));
    let public = book.news(false, |_| true).orders;
    let private = proven(&own, 1, OrderSubject::PolicySet([3; 32]), NOW_MS).order.digest();
    assert!(public.iter().all(|order| order.digest() != private), "a policy set is for the owner's nodes");
    assert!(book.news(true, |_| true).orders.iter().any(|order| order.digest() == private));
    assert_eq!(book.news(true, |digest| *digest == private).orders.len(), 1, "what a peer knows is left out");
}

#[test]
fn orders_are_told_and_kept_as_they_were_signed_and_noise_is_refused() {
    let own = log(1);
    let order = proven(&own, 1, of_echo(OrderWord::Revoke), NOW_MS);
    assert_eq!(order.row_key(), format!("{} echo", own.publisher()));
    let news = OrderNews::of(std::iter::once(&order));
    let told = OrderNews::decode(&news.encode()).expect("the same");
    assert_eq!((told.orders[0].claimed(), told.orders[0].signatures(None)), (Some(own.publisher()), 2));
    assert_eq!(told.orders[0].signatures(Some(&own)), 1);
    let row = SignedOrder::decode(&told.orders[0].encode()).expect("a row");
    assert_eq!(row.open(None).expect("its signatures are good"), order);
    let mut book = OrderBook::new(own.publisher());
    assert_eq!(book.restore(row.open(None).expect("a row")), Ok(true));
    assert!(book.has(&order.order.digest()));
    for bad in [Vec::new(), vec![0xff], news.encode()[..40].to_vec(), vec![0x81; 64]] {
        assert!(OrderNews::decode(&bad).is_err(), "{bad:?}");
    }
    let mut spoiled = news.encode();
    let end = spoiled.len() - 1;
    spoiled[end] ^= 1;
    let opened = OrderNews::decode(&spoiled).map(|news| news.orders[0].open(None).is_ok());
    assert_ne!(opened, Ok(true), "a signature does not hold any more");
    let empty = OrderNews { orders: vec![SignedOrder { log: Vec::new(), ..row }] };
    assert!(matches!(OrderNews::decode(&empty.encode()), Err(OrderError::Shape(_))), "without keys");
}
