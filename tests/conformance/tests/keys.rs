//! What nodes hear of keys from each other, on both networks (SPEC P-24, P-67, P-69, P-70).

use althing_communication::{CallError, CommunicationConfig, KEYS, Request, WallClock};
use althing_conformance::world::{Peer, World, connect, until};
use althing_conformance::{NETWORK, NOW_MS, PROTOCOL, key};
use althing_protocol::keyring::{News, Withdrawal};
use althing_protocol::object::{self, Membership};
use althing_protocol::{KeyLog, PublicKey, SecretKey, keylog};
use tokio::sync::watch;

const HOUR_MS: u64 = 3_600_000;

fn owner() -> SecretKey {
    key(100)
}

fn next() -> SecretKey {
    key(101)
}

fn begun() -> KeyLog {
    let event = keylog::inception(&owner(), next().public(), NOW_MS);
    KeyLog::verify(&[event.bytes]).expect("an inception")
}

fn rotated() -> KeyLog {
    begun().rotate(&next(), key(102).public(), NOW_MS, 0).expect("it may")
}

/// A node that shows a membership of the owner's, signed by `signer`.
async fn member(world: &World, number: u8, signer: &SecretKey) -> Peer {
    let body = Membership::new(owner().public(), key(number).public(), NOW_MS, NOW_MS + HOUR_MS);
    let signed = object::sign(body, NETWORK, "", signer).expect("a membership");
    let network = world.join(&key(number)).await;
    // A moment later: without overlap the old key's time is over then.
    let clock = WallClock::new(|| NOW_MS + 1);
    let shown = watch::channel(Some(signed.bytes)).1;
    Peer::start_at(network, &key(number), CommunicationConfig::default(), shown, clock)
}

async fn stranger(world: &World, number: u8) -> Peer {
    let network = world.join(&key(number)).await;
    let clock = WallClock::new(|| NOW_MS + 1);
    Peer::start_at(network, &key(number), CommunicationConfig::default(), watch::channel(None).1, clock)
}

/// Whose node `asked` takes `asking` for, in a call.
async fn seen(asking: &Peer, asked: &Peer) -> Option<PublicKey> {
    let answer = asking.communication.call(asked.id(), PROTOCOL, Request::new("who", Vec::new())).await;
    let owner = String::from_utf8(answer.expect("an answer")).expect("a did or nothing");
    (!owner.is_empty()).then(|| PublicKey::from_did(&owner).expect("a did"))
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
    a_withdrawn_node_is_nobodys_and_others_are_not_touched,
    what_does_not_hold_is_left_out_of_the_news,
}

async fn a_member_by_a_key_that_nobody_heard_of_is_asked_for_the_log(world: &World) {
    // P-67, P-69
    let (member, other) = (member(world, 1, &next()).await, stranger(world, 2).await);
    member.communication.keys().learn(rotated()).expect("its own");
    connect(member.network(), other.network()).await;
    assert_eq!(seen(&member, &other).await, Some(owner().public()), "with the first call");
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
        assert_eq!(seen(&old, peer).await, Some(owner().public()));
    }
    line[1].communication.keys().learn(begun().revoke(&next(), NOW_MS).expect("it may")).expect("a good log");
    let knows = |peer: &Peer| peer.communication.keys().log(owner().public()).is_some_and(|log| log.revoked());
    until("all know", || line.iter().all(knows)).await;
    for peer in [&line[0], &line[2]] {
        assert_eq!(seen(&old, peer).await, None, "on the very stream that was good before");
    }
}

async fn who_comes_later_hears_it_too(world: &World) {
    // P-70
    let (early, late) = (stranger(world, 1).await, stranger(world, 2).await);
    early.communication.keys().learn(rotated()).expect("a good log");
    connect(early.network(), late.network()).await;
    until("it was heard", || late.communication.keys().log(owner().public()).is_some()).await;
    let third = stranger(world, 3).await;
    connect(third.network(), late.network()).await;
    until("it was passed on", || third.communication.keys().log(owner().public()).is_some()).await;
}

async fn a_withdrawn_node_is_nobodys_and_others_are_not_touched(world: &World) {
    let (lost, kept, other) =
        (member(world, 1, &owner()).await, member(world, 2, &owner()).await, stranger(world, 3).await);
    connect(lost.network(), other.network()).await;
    connect(kept.network(), other.network()).await;
    assert_eq!(seen(&lost, &other).await, Some(owner().public()));
    let body = Withdrawal::new(owner().public(), lost.id(), NOW_MS);
    let withdrawal = object::sign(body, "", "", &owner()).expect("a withdrawal");
    assert_eq!(kept.communication.keys().withdraw(&withdrawal.bytes, NOW_MS + 1), Ok(true));
    let withdrawn = || other.communication.keys().all().1.len() == 1;
    until("the other heard of it", withdrawn).await;
    assert_eq!(seen(&lost, &other).await, None);
    assert_eq!(seen(&kept, &other).await, Some(owner().public()));
}

async fn what_does_not_hold_is_left_out_of_the_news(world: &World) {
    let (hostile, other) = (stranger(world, 1).await, stranger(world, 2).await);
    connect(hostile.network(), other.network()).await;
    let tell = |body: Vec<u8>| {
        let (communication, to) = (hostile.communication.clone(), other.id());
        async move { communication.call(to, KEYS, Request::new("news", body)).await }
    };
    let events = |log: &KeyLog| log.to_bytes().into_iter().map(minicbor::bytes::ByteVec::from).collect::<Vec<_>>();
    let mut forged = events(&rotated());
    forged[1] = vec![0x84; 40].into();
    let strangers = Withdrawal::new(owner().public(), other.id(), NOW_MS);
    let strangers = object::sign(strangers, "", "", &key(1)).expect("a shape").bytes;
    let news = News { logs: vec![forged, events(&rotated())], withdrawals: vec![strangers.into()] };
    assert!(tell(news.encode()).await.is_ok());
    let (logs, withdrawals) = other.communication.keys().all();
    assert_eq!((logs, withdrawals.len()), (vec![rotated()], 0));
    for bad in [vec![0xff], Vec::new(), vec![0xa0]] {
        assert!(matches!(tell(bad).await, Err(CallError::Refused { .. })));
    }
    let unknown = hostile.communication.call(other.id(), KEYS, Request::new("nonsense", Vec::new())).await;
    let refused =
        matches!(unknown, Err(CallError::Refused { ref body, .. }) if body.windows(6).any(|at| at == b"-32601"));
    assert!(refused, "{unknown:?}");
}
