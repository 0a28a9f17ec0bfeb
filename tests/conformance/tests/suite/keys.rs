//! Key gossip between nodes, on both networks (SPEC P-24, P-67, P-69, P-70).

use std::collections::BTreeSet;
use std::sync::Arc;

use althing_communication::{CallError, CommunicationConfig, KEYS, Request, WallClock};
use althing_conformance::world::{Peer, World, connect, until};
use althing_conformance::{NETWORK, NOW_MS, PROTOCOL, key};
use althing_protocol::keyring::{News, Withdrawal};
use althing_protocol::object::{self, Membership};
use althing_protocol::{KeyLog, OwnerProof, PublisherId, SecretKey, keylog};
use tokio::sync::watch;

const HOUR_MS: u64 = 3_600_000;

fn owner() -> SecretKey {
    key(100)
}

fn next() -> SecretKey {
    key(101)
}

fn owner_id() -> PublisherId {
    begun().publisher()
}

fn begun() -> KeyLog {
    let event = keylog::inception(&owner(), [next().public(), key(102).public()], NOW_MS);
    KeyLog::verify(&[event.bytes]).expect("an inception")
}

fn rotated() -> KeyLog {
    begun().rotate(&next(), key(103).public(), NOW_MS, 0).expect("it may")
}

/// A node that shows a membership of the owner, signed by `signer`.
async fn member(world: &World, number: u8, signer: &SecretKey) -> Peer {
    let body = Membership::new(owner_id(), key(number).public(), NOW_MS, NOW_MS + HOUR_MS);
    let signed = object::sign(body, NETWORK, "", signer).expect("a membership");
    let network = world.join(&key(number)).await;
    // A moment later: without overlap the old key's time is over then.
    let clock = WallClock::new(|| NOW_MS + 1);
    let shown = watch::channel(Some(Arc::new(OwnerProof::new(signed.bytes, &begun())))).1;
    Peer::start_at(network, &key(number), CommunicationConfig::default(), shown, clock)
}

async fn stranger(world: &World, number: u8) -> Peer {
    let network = world.join(&key(number)).await;
    let clock = WallClock::new(|| NOW_MS + 1);
    Peer::start_at(network, &key(number), CommunicationConfig::default(), watch::channel(None).1, clock)
}

/// The owner that `asked` determines for `asking`, in a call.
async fn seen(asking: &Peer, asked: &Peer) -> Option<PublisherId> {
    let answer = asking.communication.call(asked.id(), PROTOCOL, Request::new("who", Vec::new())).await;
    let owner = String::from_utf8(answer.expect("an answer")).expect("a did or nothing");
    (!owner.is_empty()).then(|| owner.parse().expect("an id"))
}

/// Runs a case on both networks.
macro_rules! on_both {
    ($($case:ident),* $(,)?) => {
        mod simulated {
            $(#[tokio::test(start_paused = true)]
            async fn $case() { super::$case(&super::World::simulated()).await; })*
        }
        mod libp2p {
            $(#[tokio::test]
            async fn $case() { super::$case(&super::World::Libp2p).await; })*
        }
    };
}

on_both! {
    a_member_by_a_key_that_nobody_heard_of_is_asked_for_the_log,
    what_one_learns_all_who_can_be_reached_know,
    who_comes_later_hears_it_too,
    news_of_a_publisher_reach_those_who_use_it_through_those_who_do_not,
    a_log_is_heard_although_somebody_told_its_last_event_as_one_of_its_own,
    a_withdrawal_reaches_those_who_use_its_publisher_through_those_who_do_not,
    who_shows_owner_after_owner_is_verified_at_a_bounded_rate,
    of_two_branches_the_owner_s_wins_everywhere_although_the_thief_s_was_heard_first,
    one_sender_cannot_make_others_verify_without_bound,
    a_withdrawn_node_is_nobodys_and_others_are_not_touched,
    what_does_not_hold_is_left_out_of_the_news,
}

async fn a_member_by_a_key_that_nobody_heard_of_is_asked_for_the_log(world: &World) {
    // P-67, P-69
    let (member, other) = (member(world, 1, &next()).await, stranger(world, 2).await);
    member.communication.keys().watch([owner_id()]);
    member.communication.keys().learn(rotated()).expect("its own");
    connect(member.network(), other.network()).await;
    assert_eq!(seen(&member, &other).await, Some(owner_id()), "with the first call");
}

async fn what_one_learns_all_who_can_be_reached_know(world: &World) {
    // P-24, P-70: a line of four, of which each knows its neighbours only.
    let old = member(world, 1, &owner()).await;
    let mut line = Vec::new();
    for number in 2..=4 {
        line.push(stranger(world, number).await);
    }
    connect(old.network(), line[0].network()).await;
    connect(line[0].network(), line[1].network()).await;
    connect(line[1].network(), line[2].network()).await;
    connect(old.network(), line[2].network()).await;
    for peer in [&line[0], &line[2]] {
        assert_eq!(seen(&old, peer).await, Some(owner_id()));
    }
    line[1].communication.keys().watch([owner_id()]);
    line[1].communication.keys().learn(begun().revoke(&next(), NOW_MS).expect("it may")).expect("a good log");
    let knows = |peer: &Peer| peer.communication.keys().log(owner_id()).is_some_and(|log| log.revoked());
    until("all know", || line.iter().all(knows)).await;
    for peer in [&line[0], &line[2]] {
        assert_eq!(seen(&old, peer).await, None, "on the very stream that was good before");
    }
}

async fn who_comes_later_hears_it_too(world: &World) {
    // P-70
    let (early, late) = (stranger(world, 1).await, stranger(world, 2).await);
    let third = stranger(world, 3).await;
    for peer in [&early, &late, &third] {
        peer.communication.keys().watch([owner_id()]);
    }
    early.communication.keys().learn(rotated()).expect("a good log");
    connect(early.network(), late.network()).await;
    until("it was heard", || late.communication.keys().log(owner_id()).is_some()).await;
    connect(third.network(), late.network()).await;
    until("it was passed on", || third.communication.keys().log(owner_id()).is_some()).await;
}

async fn news_of_a_publisher_reach_those_who_use_it_through_those_who_do_not(world: &World) {
    // P-70: the publisher is not in use at `between`, which forwards the news and stores nothing.
    let (owning, between, using) = (stranger(world, 1).await, stranger(world, 2).await, stranger(world, 3).await);
    owning.communication.keys().watch([owner_id()]);
    using.communication.keys().set_listed(BTreeSet::from([owner_id()]));
    connect(owning.network(), between.network()).await;
    connect(between.network(), using.network()).await;
    owning.communication.keys().learn(begun().revoke(&next(), NOW_MS).expect("it may")).expect("a good log");
    until("it is known", || using.communication.keys().log(owner_id()).is_some_and(|log| log.revoked())).await;
    assert!(between.communication.keys().log(owner_id()).is_none(), "nothing of it is in use there");
    // The log of a publisher that is no longer in use is dropped, but an older one is not accepted again.
    using.communication.keys().set_listed(BTreeSet::new());
    assert!(using.communication.keys().log(owner_id()).is_none());
    assert!(using.communication.keys().learn_with_agent(Arc::new(begun()), &"".into()).is_err());
}

async fn of_two_branches_the_owner_s_wins_everywhere_although_the_thief_s_was_heard_first(world: &World) {
    // P-48: the owner has rotated once. The thief of its current key revokes in its name, and this log arrives first.
    let (thief, near, far) = (stranger(world, 1).await, stranger(world, 2).await, stranger(world, 3).await);
    let own = stranger(world, 4).await;
    for peer in [&thief, &near, &far, &own] {
        peer.communication.keys().watch([owner_id()]);
    }
    own.communication.keys().learn(rotated()).expect("the owner's own node knows its log");
    let stolen = begun().revoke(&next(), NOW_MS).expect("it holds by itself");
    thief.communication.keys().learn(stolen).expect("it is the first that is heard");
    connect(thief.network(), near.network()).await;
    connect(near.network(), far.network()).await;
    let revoked = |peer: &Peer| peer.communication.keys().log(owner_id()).is_some_and(|log| log.revoked());
    until("the thief is believed", || revoked(&near) && revoked(&far)).await;
    connect(own.network(), far.network()).await;
    // The owner's own node was never misled, and its next rotation is believed everywhere.
    assert!(!revoked(&own));
    let goes_on = rotated().rotate(&key(102), key(104).public(), NOW_MS, 0).expect("the owner has that key");
    own.communication.keys().learn(goes_on.clone()).expect("it continues");
    let knows = |peer: &Peer| peer.communication.keys().log(owner_id()).is_some_and(|log| *log == goes_on);
    until("the owner is believed", || [&thief, &near, &far, &own].into_iter().all(knows)).await;
}

async fn a_withdrawn_node_is_nobodys_and_others_are_not_touched(world: &World) {
    let (lost, kept, other) =
        (member(world, 1, &owner()).await, member(world, 2, &owner()).await, stranger(world, 3).await);
    connect(lost.network(), other.network()).await;
    connect(kept.network(), other.network()).await;
    assert_eq!(seen(&lost, &other).await, Some(owner_id()));
    kept.communication.keys().watch([owner_id()]);
    let body = Withdrawal::new(owner_id(), lost.id(), NOW_MS);
    let withdrawal = object::sign(body, "", "", &owner()).expect("a withdrawal");
    assert_eq!(kept.communication.keys().withdraw(&withdrawal.bytes, Some(&Arc::new(begun())), NOW_MS + 1), Ok(true));
    let withdrawn = || other.communication.keys().all().1.len() == 1;
    until("the other heard of it", withdrawn).await;
    assert_eq!(seen(&lost, &other).await, None);
    assert_eq!(seen(&kept, &other).await, Some(owner_id()));
}

async fn what_does_not_hold_is_left_out_of_the_news(world: &World) {
    let (hostile, other) = (stranger(world, 1).await, stranger(world, 2).await);
    other.communication.keys().watch([owner_id()]);
    connect(hostile.network(), other.network()).await;
    let tell = |body: Vec<u8>| {
        let (communication, to) = (hostile.communication.clone(), other.id());
        async move { communication.call(to, KEYS, Request::new("news", body)).await }
    };
    let events = |log: &KeyLog| log.to_bytes().into_iter().map(minicbor::bytes::ByteVec::from).collect::<Vec<_>>();
    let mut forged = events(&rotated());
    forged[1] = vec![0x84; 40].into();
    let strangers = Withdrawal::new(owner_id(), other.id(), NOW_MS);
    let strangers = object::sign(strangers, "", "", &key(1)).expect("a shape").bytes;
    let news = News { logs: vec![forged, events(&rotated())], withdrawals: vec![strangers.into()] };
    assert!(tell(news.encode()).await.is_ok());
    let (logs, withdrawals) = other.communication.keys().all();
    assert_eq!((logs, withdrawals.len()), (vec![Arc::new(rotated())], 0));
    for bad in [vec![0xff], Vec::new(), vec![0xa0]] {
        assert!(matches!(tell(bad).await, Err(CallError::Refused { .. })));
    }
    let unknown = hostile.communication.call(other.id(), KEYS, Request::new("nonsense", Vec::new())).await;
    let refused =
        matches!(unknown, Err(CallError::Refused { ref body, .. }) if body.windows(6).any(|at| at == b"-32601"));
    assert!(refused, "{unknown:?}");
}

/// News of these logs, each as it is.
fn news(logs: &[&KeyLog]) -> Vec<u8> {
    let events = |log: &&KeyLog| log.to_bytes().into_iter().map(Into::into).collect();
    News { logs: logs.iter().map(events).collect(), withdrawals: Vec::new() }.encode()
}

async fn a_log_is_heard_although_somebody_told_its_last_event_as_one_of_its_own(world: &World) {
    let (hostile, other, friend) = (stranger(world, 1).await, stranger(world, 2).await, stranger(world, 3).await);
    other.communication.keys().watch([owner_id()]);
    connect(hostile.network(), other.network()).await;
    connect(friend.network(), other.network()).await;
    let own = long(1).to_bytes();
    let theirs = rotated().to_bytes();
    let last = theirs.last().expect("an event");
    for beginning in [&own[..1], &own[..2], &theirs[..0]] {
        let events = beginning.iter().chain([last]).cloned().map(Into::into).collect();
        let poisoned = News { logs: vec![events], withdrawals: Vec::new() }.encode();
        let told = hostile.communication.call(other.id(), KEYS, Request::new("news", poisoned)).await;
        assert!(told.is_ok(), "it is left out: {told:?}");
    }
    let told = Request::new("news", news(&[&rotated()]));
    friend.communication.call(other.id(), KEYS, told).await.expect("it is heard");
    assert_eq!(other.communication.keys().log(owner_id()).map(|log| log.len()), Some(2));
}

async fn a_withdrawal_reaches_those_who_use_its_publisher_through_those_who_do_not(world: &World) {
    // The first pushes to the second, where the publisher is not in use; the third, where it is, is connected to that only.
    let (first, second, third) = (stranger(world, 1).await, stranger(world, 2).await, stranger(world, 3).await);
    third.communication.keys().watch([owner_id()]);
    connect(first.network(), second.network()).await;
    connect(second.network(), third.network()).await;
    let body = Withdrawal::new(owner_id(), key(9).public(), NOW_MS);
    let signed = object::sign(body, "", "", &owner()).expect("a withdrawal");
    let events = begun().to_bytes().into_iter().map(Into::into).collect();
    let news = News { logs: vec![events], withdrawals: vec![signed.bytes.into()] }.encode();
    first.communication.call(second.id(), KEYS, Request::new("news", news)).await.expect("it is heard");
    until("it is passed on", || third.communication.keys().all().1.len() == 1).await;
    assert_eq!(second.communication.keys().all().1.len(), 0, "it keeps nothing of those whom nobody uses there");
}

async fn who_shows_owner_after_owner_is_verified_at_a_bounded_rate(world: &World) {
    let network = world.join(&key(1)).await;
    let shows = watch::Sender::new(None);
    let clock = || WallClock::new(|| NOW_MS + 1);
    let hostile = Peer::start_at(network, &key(1), CommunicationConfig::default(), shows.subscribe(), clock());
    let other = stranger(world, 2).await;
    other.communication.trusts(|_| false);
    connect(hostile.network(), other.network()).await;
    let owned = |number: usize| {
        let seed = |at: u8| {
            let mut seed = [at; 32];
            seed[..8].copy_from_slice(&(number as u64).to_be_bytes());
            SecretKey::from_seed(&seed)
        };
        let event = keylog::inception(&seed(1), [seed(2).public(), seed(3).public()], NOW_MS);
        let log = KeyLog::verify(&[event.bytes]).expect("an inception");
        let body = Membership::new(log.publisher(), key(1).public(), NOW_MS, NOW_MS + HOUR_MS);
        let signed = object::sign(body, NETWORK, "", &seed(1)).expect("a membership");
        Arc::new(OwnerProof::new(signed.bytes, &log))
    };
    let (mut taken, tried) = (0, 600);
    let began = tokio::time::Instant::now();
    for number in 0..tried {
        shows.send_replace(Some(owned(number)));
        taken += usize::from(seen(&hostile, &other).await.is_some());
    }
    // A burst of 512 signatures, and 256 a second: two for each.
    let bound = 257 + usize::try_from(began.elapsed().as_millis()).expect("a short time") * 128 / 1_000;
    assert!(taken <= bound, "{taken} of {tried} in {:?}", began.elapsed());
}

async fn one_sender_cannot_make_others_verify_without_bound(world: &World) {
    // News of 20 logs of 200 events whose last is spoiled, again and again, of publishers that are in use.
    let (hostile, other, friend) = (stranger(world, 1).await, stranger(world, 2).await, stranger(world, 3).await);
    let trusted = friend.id();
    other.communication.trusts(move |caller| caller.node == trusted);
    let logs: Vec<KeyLog> = (0..4).map(long).collect();
    other.communication.keys().set_listed(logs.iter().map(KeyLog::publisher).collect());
    other.communication.keys().watch([owner_id()]);
    connect(hostile.network(), other.network()).await;
    connect(friend.network(), other.network()).await;
    let spoiled = |round: u8| {
        let spoil = |log: &KeyLog| {
            let mut events: Vec<minicbor::bytes::ByteVec> = log.to_bytes().into_iter().map(Into::into).collect();
            let last = events.last_mut().expect("a long log");
            let end = last.len() - 1;
            last[end] ^= round + 1;
            events
        };
        News { logs: logs.iter().map(spoil).collect(), withdrawals: Vec::new() }.encode()
    };
    let began = tokio::time::Instant::now();
    for round in 0..2 {
        let told = hostile.communication.call(other.id(), KEYS, Request::new("news", spoiled(round))).await;
        assert!(told.is_ok(), "it is left out: {told:?}");
    }
    // 1,600 signatures at 256 a second, of which 512 are at once: more than four seconds, whatever the machine.
    assert!(began.elapsed() >= std::time::Duration::from_secs(4), "{:?}", began.elapsed());
    // A trusted peer is not delayed meanwhile.
    let news = News { logs: vec![rotated().to_bytes().into_iter().map(Into::into).collect()], withdrawals: Vec::new() };
    let (before, hostile_again) = (tokio::time::Instant::now(), hostile.communication.clone());
    let to = other.id();
    let body = spoiled(7);
    let busy = tokio::spawn(async move { hostile_again.call(to, KEYS, Request::new("news", body)).await });
    friend.communication.call(other.id(), KEYS, Request::new("news", news.encode())).await.expect("it is heard");
    assert!(other.communication.keys().log(owner_id()).is_some());
    assert!(!busy.is_finished(), "after {:?} the stranger still waits", before.elapsed());
}

/// A log of 200 events of a publisher of its own.
fn long(number: u8) -> KeyLog {
    let seed = |at: usize| {
        let mut seed = [number; 32];
        seed[..8].copy_from_slice(&(at as u64 + 1).to_be_bytes());
        SecretKey::from_seed(&seed)
    };
    let first = keylog::inception(&seed(0), [seed(1).public(), seed(2).public()], NOW_MS);
    let mut log = KeyLog::verify(&[first.bytes]).expect("an inception");
    for at in 1..200 {
        log = log.rotate(&seed(at), seed(at + 2).public(), NOW_MS, 0).expect("it may");
    }
    log
}
