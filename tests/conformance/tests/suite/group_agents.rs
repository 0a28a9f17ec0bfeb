//! Agents that a group's members host, in virtual time: where they are placed, what happens when a host dies, and what
//! nobody hosts.

use std::time::Duration;

use althing_conformance::groups::{GroupNode, Owner, echo_task, group_of, leader, store};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::GroupAgents;
use althing_coordination::machine::placement::{AGENTS, HOSTS};
use althing_protocol::group::{Command, Deployment, GroupId, Needs, Submit, Target};
use althing_protocol::object;
use althing_simnet::{LinkConfig, SimNet};

fn net() -> SimNet {
    SimNet::new(1, LinkConfig::default()).named(NETWORK, NOW_MS)
}

fn hosts(nodes: &[GroupNode], agent: &str) -> Vec<usize> {
    let hosts = |node: &GroupNode| node.worker.hosted.lock().expect("no panic").iter().any(|one| one == agent);
    (0..nodes.len()).filter(|at| hosts(&nodes[*at])).collect()
}

async fn deploy(node: &GroupNode, id: GroupId, agent: &str, instances: u8, needs: &[&str]) {
    let describe = |mut made: Deployment| {
        made.instances = instances;
        made.needs = needs.iter().map(|need| (*need).to_owned()).collect();
        made
    };
    GroupAgents::of(&node.groups, id).deploy(agent, b"{}".to_vec(), describe).await.expect("it is deployed");
}

#[tokio::test(start_paused = true)]
async fn agents_are_placed_replaced_and_withdrawn() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 5).await;
    deploy(&nodes[1], id, "one", 1, &[]).await;
    deploy(&nodes[1], id, "two", 2, &["one"]).await;
    deploy(&nodes[1], id, "all", 0, &[]).await;
    until("each runs", || {
        hosts(&nodes, "one").len() == 1 && hosts(&nodes, "two").len() == 2 && hosts(&nodes, "all").len() == 5
    })
    .await;
    // Neither a restart of the leader nor a silence of all leaders moves what runs.
    let before = (hosts(&nodes, "one"), hosts(&nodes, "two"));
    let (at, _) = leader(&nodes, id).await;
    let lost = hosts(&nodes, "one").contains(&at) || hosts(&nodes, "two").contains(&at);
    let (secret, kept) = nodes.remove(at).crash(&net).await;
    leader(&nodes, id).await;
    if !lost {
        tokio::time::sleep(Duration::from_secs(30)).await;
        let moved = |old: Vec<usize>| old.into_iter().map(|one| one - usize::from(one > at)).collect::<Vec<_>>();
        assert_eq!((hosts(&nodes, "one"), hosts(&nodes, "two")), (moved(before.0), moved(before.1)));
    }
    nodes.push(GroupNode::start(&net, &secret, &Owner::new(101), kept).await);
    // A host dies: another member takes what it hosted.
    until("each runs again", || hosts(&nodes, "one").len() == 1 && hosts(&nodes, "two").len() == 2).await;
    let dying = hosts(&nodes, "one")[0];
    let _ = nodes.remove(dying).crash(&net).await;
    until("another one hosts it", || hosts(&nodes, "one").len() == 1 && hosts(&nodes, "two").len() == 2).await;
    GroupAgents::of(&nodes[0].groups, id).undeploy("two").await.expect("it ends");
    until("nobody hosts it", || hosts(&nodes, "two").is_empty()).await;
    nodes[0].groups.catch_up(id).await.expect("a leader");
    until("its placement is forgotten", || nodes[0].peek(id, &format!("{HOSTS}two")).is_none()).await;
}

/// F5: tasks start more instances within the bound, which do some of them, and end when there is nothing more to do.
#[tokio::test(start_paused = true)]
async fn tasks_start_more_instances_within_the_bound_which_end_afterwards() {
    let net = net();
    let (nodes, id) = group_of(&net, 5).await;
    let describe = |mut made: Deployment| {
        made.instances_max = Some(4);
        made
    };
    GroupAgents::of(&nodes[0].groups, id).deploy("busy", b"{}".to_vec(), describe).await.expect("it is deployed");
    until("one runs", || hosts(&nodes, "busy").len() == 1).await;
    let mut tasks = Vec::new();
    for number in 0..24 {
        let needs = Needs::of(Target::Agent("busy".to_owned()));
        let task = Submit { needs, ..echo_task(number, "sleep 3000") };
        tasks.push(task.task);
        nodes[0].groups.command(id, Command::Submit(Box::new(task))).await.expect("it is submitted");
    }
    until("three more run", || hosts(&nodes, "busy").len() == 4).await;
    nodes[0].completed(id, &tasks).await;
    let workers = nodes.iter().filter(|node| !node.worker.ended.lock().expect("no panic").is_empty()).count();
    assert!((2..=4).contains(&workers), "{workers} members worked");
    until("three have ended", || hosts(&nodes, "busy").len() == 1).await;
}

/// P-144: a member of another owner deploys in the name of the first one, places it, and copies what the owner signed for
/// another group.
#[tokio::test(start_paused = true)]
async fn nobody_hosts_what_its_own_owner_did_not_sign_for_this_group() {
    let net = net();
    let (nodes, id) = group_of(&net, 3).await;
    let (owner, thief) = (Owner::new(101), Owner::new(7));
    let other = GroupNode::start(&net, &key(9), &thief, store()).await;
    nodes[0].admit(id, &other).await;
    let here = nodes[1].id().did();
    let place = async |agent: &str, deployment: &Deployment, scope: GroupId, signer: &Owner| {
        let signed = object::sign(deployment.clone(), NETWORK, &scope.to_string(), &signer.key).expect("it is signed");
        let set = althing_protocol::group::Set {
            key: format!("{AGENTS}{agent}"),
            value: signed.bytes.into(),
            if_version: None,
        };
        other.groups.command(id, althing_protocol::group::Command::Set(set)).await.expect("members write");
        other.set(id, &format!("{HOSTS}{agent}"), &format!("[{here:?}]")).await;
    };
    let made =
        |agent: &str, group: GroupId| Deployment::new(group, owner.log.publisher(), agent, b"{}".to_vec(), NOW_MS);
    let elsewhere = GroupId::from_digest([3; 32]);
    place("forged", &made("forged", id), id, &thief).await;
    place("elsewhere", &made("elsewhere", elsewhere), elsewhere, &owner).await;
    place("other-name", &made("real", id), id, &owner).await;
    other.set(id, &format!("{AGENTS}nonsense"), "nonsense").await;
    // What is right is hosted, so that the others had their time.
    deploy(&nodes[0], id, "real", 0, &[]).await;
    until("the right one runs", || hosts(&nodes, "real").len() == 3).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    for agent in ["forged", "elsewhere", "other-name", "nonsense"] {
        assert_eq!(hosts(&nodes, agent), [] as [usize; 0], "{agent}");
    }
    assert!(!other.worker.hosted.lock().expect("no panic").contains(&"real".to_owned()), "another owner's");
}

/// P-144: what an owner deployed goes on after its key was rotated with an overlap, since its members sign it again
/// meanwhile. After a rotation without one, what the former key signed ends until the owner deploys it again.
#[tokio::test(start_paused = true)]
async fn a_rotation_with_overlap_ends_no_deployment_and_one_without_does() {
    const OVERLAP_MS: u64 = 120_000;
    let net = net();
    let (nodes, id) = group_of(&net, 1).await;
    deploy(&nodes[0], id, "one", 0, &[]).await;
    until("it runs", || hosts(&nodes, "one") == [0]).await;
    let again = async |node: GroupNode, owner: &Owner| {
        let (secret, kept) = node.crash(&net).await;
        vec![GroupNode::start(&net, &secret, owner, kept).await]
    };
    let is_signed =
        |node: &GroupNode| GroupAgents::of(&node.groups, id).list().expect("it is here").iter().all(|it| it.is_signed);
    let second = Owner::new(101).rotated_over(net.now_ms(), OVERLAP_MS);
    let nodes = again(nodes.into_iter().next().expect("one"), &second).await;
    until("it runs during the overlap", || hosts(&nodes, "one") == [0]).await;
    tokio::time::sleep(Duration::from_millis(2 * OVERLAP_MS)).await;
    assert_eq!((hosts(&nodes, "one"), is_signed(&nodes[0])), (vec![0], true), "after the overlap");
    let third = second.rotated(net.now_ms());
    let nodes = again(nodes.into_iter().next().expect("one"), &third).await;
    leader(&nodes, id).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!((hosts(&nodes, "one"), is_signed(&nodes[0])), (Vec::new(), false), "without an overlap");
    deploy(&nodes[0], id, "one", 0, &[]).await;
    until("it runs again", || hosts(&nodes, "one") == [0]).await;
    assert!(is_signed(&nodes[0]));
}
