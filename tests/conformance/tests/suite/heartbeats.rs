//! Heartbeats of many groups in one message, over the simulated network in virtual time.

use std::time::Duration;

use althing_communication::{CallError, Request};
use althing_conformance::groups::{GroupNode, Owner, group_of, leader, settled, store};
use althing_conformance::world::connect;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::RAFT;
use althing_coordination::consensus::wire::{self, Appended, BEATS_MAX, Beat, Beats, BeatsHeard, Heard, Unserved};
use althing_protocol::group::{GroupId, Policy};
use althing_simnet::{LinkConfig, SimNet};

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

/// Three nodes and so many groups of them.
async fn groups(net: &SimNet, count: usize) -> (Vec<GroupNode>, Vec<GroupId>) {
    let (nodes, first) = group_of(net, 3).await;
    let mut ids = vec![first];
    for number in 1..count {
        let id = nodes[0].groups.create(&format!("team-{number}"), Policy::default()).await.expect("a group");
        nodes[0].admit(id, &nodes[1]).await;
        nodes[0].admit(id, &nodes[2]).await;
        settled(&nodes, id, 3).await;
        ids.push(id);
    }
    (nodes, ids)
}

async fn ask(from: &GroupNode, to: &GroupNode, beats: Vec<Beat>) -> Result<Vec<Heard>, Unserved> {
    send(from, to, Beats { leader: from.id(), beats }).await
}

async fn send(from: &GroupNode, to: &GroupNode, message: Beats) -> Result<Vec<Heard>, Unserved> {
    let request = Request::new("heartbeats", wire::write(&message));
    match from.communication.call(to.id(), RAFT, request).await {
        Ok(body) => Ok(wire::read::<BeatsHeard>(&body).expect("an answer").heard),
        Err(CallError::Refused { body, .. }) => Err(wire::read(&body).expect("why it was not served")),
        Err(other) => panic!("{other}"),
    }
}

fn term(node: &GroupNode, id: GroupId) -> u64 {
    node.groups.overview(id).expect("the group").replica.expect("it runs").term
}

/// P-150: as many messages as of one group, and not as many as there are groups; and nobody begins an election.
#[tokio::test(start_paused = true)]
async fn idle_groups_share_messages_of_heartbeats() {
    const GROUPS: usize = 48;
    let net = net();
    let (nodes, ids) = groups(&net, GROUPS).await;
    let terms: Vec<u64> = ids.iter().map(|id| term(&nodes[0], *id)).collect();
    tokio::time::sleep(Duration::from_secs(5)).await;
    for node in &nodes {
        let _ = (node.asked.take("heartbeats"), node.asked.take("append"));
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    for (at, node) in nodes.iter().enumerate() {
        let (together, alone) = (node.asked.take("heartbeats"), node.asked.take("append"));
        // Of each leader at most 50 a second; alone each group would send more than 4 a second to each follower, 192 in all.
        assert!(together <= 2 * 10 * 50 && alone < GROUPS, "node {at}: {together} together, {alone} alone");
    }
    assert_eq!(ids.iter().map(|id| term(&nodes[0], *id)).collect::<Vec<_>>(), terms, "a leader was not heard");
    for id in &ids {
        nodes[1].set(*id, "a", "b").await;
    }
}

/// P-150
#[tokio::test(start_paused = true)]
async fn each_heartbeat_is_served_by_itself_as_the_append_that_it_stands_for() {
    let net = net();
    let (nodes, ids) = groups(&net, 2).await;
    let (at, _) = leader(&nodes, ids[0]).await;
    let (lead, follow) = (&nodes[at], &nodes[(at + 1) % 3]);
    let beat = |group, term| Beat { group, term, previous: None, committed: None };
    let now = term(lead, ids[0]);
    let unknown = GroupId::from_digest([0xff; 32]);
    let heard = ask(lead, follow, vec![beat(ids[0], now), beat(unknown, 1)]).await.expect("it is served");
    assert_eq!(heard, [Heard::Taken(Appended::All), Heard::Unserved], "a group that it has, and one that it has not");
    // Another member does not lead that term, and is told who does.
    let third = &nodes[(at + 2) % 3];
    let heard = ask(third, follow, vec![beat(ids[0], now)]).await.expect("it is served");
    assert!(matches!(heard[..], [Heard::Taken(Appended::Higher(ballot))] if ballot.node == lead.id()), "{heard:?}");
    // Who repeats a leader's message does not lead by it.
    let later = Beats { leader: lead.id(), beats: vec![beat(ids[0], now + 5)] };
    let refused = send(third, follow, later).await;
    assert!(matches!(refused, Err(Unserved::Malformed(_))), "{refused:?}");
    let heard = ask(lead, follow, vec![beat(ids[0], u64::MAX)]).await.expect("it is served");
    assert_eq!(heard, [Heard::Unserved], "a term that nobody can follow");
    // Who is no member is not served either.
    let stranger = GroupNode::start(&net, &key(9), &Owner::new(55), store()).await;
    connect(stranger.communication.network(), follow.communication.network()).await;
    let heard = ask(&stranger, follow, vec![beat(ids[0], now + 5)]).await.expect("it is served");
    assert_eq!((heard.as_slice(), term(follow, ids[0])), (&[Heard::Unserved][..], now));
    nodes[0].set(ids[0], "a", "b").await;
}

/// P-150
#[tokio::test(start_paused = true)]
async fn a_message_of_heartbeats_is_bounded_and_in_order() {
    let net = net();
    let (nodes, ids) = groups(&net, 1).await;
    let beat = |number: u16| {
        let mut digest = [7; 32];
        digest[..2].copy_from_slice(&number.to_be_bytes());
        Beat { group: GroupId::from_digest(digest), term: 1, previous: None, committed: None }
    };
    let many = |count: usize| (0..u16::MAX).map(beat).take(count).collect::<Vec<_>>();
    let heard = ask(&nodes[0], &nodes[1], many(BEATS_MAX)).await.expect("it is served");
    assert_eq!(heard, vec![Heard::Unserved; BEATS_MAX]);
    for beats in [Vec::new(), many(BEATS_MAX + 1), vec![beat(2), beat(1)], vec![beat(1), beat(1)]] {
        let refused = ask(&nodes[0], &nodes[1], beats).await;
        assert!(matches!(refused, Err(Unserved::Malformed(_))), "{refused:?}");
    }
    nodes[0].set(ids[0], "a", "b").await;
}

/// P-150: what a heartbeat is refused for is told to the append that follows, so that a member that was away for long hears that
/// its group was dissolved.
#[tokio::test(start_paused = true)]
async fn a_leader_hears_why_its_heartbeats_are_not_served() {
    let net = net();
    let (nodes, ids) = groups(&net, 2).await;
    let (at, _) = leader(&nodes, ids[0]).await;
    nodes[at].groups.dissolve(ids[0]).await.expect("it is dissolved");
    let follow = &nodes[(at + 1) % 3];
    for _ in 0..400 {
        if follow.groups.overview(ids[0]).is_ok_and(|group| group.standing == "dissolved") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let late = Beat { group: ids[0], term: 1, previous: None, committed: None };
    assert_eq!(ask(&nodes[at], follow, vec![late]).await, Ok(vec![Heard::Unserved]));
    let request = Request::new("append", wire::write(&late.as_append(nodes[at].id())));
    match nodes[at].communication.call(follow.id(), RAFT, request).await {
        Err(CallError::Refused { body, .. }) => {
            assert!(matches!(wire::read(&body), Ok(Unserved::Dissolved(_))), "it shows the proof");
        }
        other => panic!("{other:?}"),
    }
    nodes[0].set(ids[1], "the other", "goes on").await;
}
