//! Agents that a group's members host, in virtual time: where they are placed, what happens when a host dies or nobody
//! leads, and what nobody hosts.

use std::collections::BTreeSet;
use std::time::Duration;

use althing_conformance::groups::{GroupNode, Owner, echo_task, group_of, hand_over, leader, store};
use althing_conformance::mesh::{self, Node};
use althing_conformance::world::until;
use althing_conformance::{NETWORK, NOW_MS, key};
use althing_coordination::machine::group::Group;
use althing_coordination::machine::outcome::Refusal;
use althing_coordination::machine::placement::{AGENTS, HOSTS};
use althing_coordination::machine::work::State;
use althing_coordination::{GroupAgents, GroupError, Role};
use althing_discovery::Query;
use althing_protocol::group::{Command, Deployment, GroupId, Needs, Policy, Set, Submit, Target};
use althing_protocol::{AgentId, PublicKey, object};
use althing_simnet::{LinkConfig, SimNet};
use althing_td::Callers;

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
    // The death of a leader that hosts neither moves nothing, and it has long been noticed by then.
    let places = |nodes: &[GroupNode]| {
        ["one", "two"].map(|agent| hosts(nodes, agent).into_iter().map(|at| nodes[at].id()).collect::<BTreeSet<_>>())
    };
    let before = places(&nodes);
    let is_idle = |at: &usize| before.iter().all(|places| !places.contains(&nodes[*at].id()));
    let idle = (0..nodes.len()).find(is_idle).expect("three of five host something at most");
    hand_over(&nodes, id, idle).await;
    let (secret, kept) = nodes.remove(idle).crash(&net).await;
    leader(&nodes, id).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(places(&nodes), before);
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

const OWNER: u8 = 100;

fn role(node: &Node, id: GroupId) -> Option<Role> {
    node.groups.overview(id).ok()?.replica.map(|status| status.role)
}

/// Three whole nodes that form a group, and one of the same owner that is no member and is connected to each.
async fn whole_nodes(net: &SimNet) -> (Vec<Node>, Node, GroupId) {
    let mut members = Vec::new();
    for number in 1..=3 {
        members.push(Node::start(net, number, OWNER, &[], mesh::store()).await);
    }
    let caller = Node::start(net, 4, OWNER, &[], mesh::store()).await;
    let id = members[0].groups.create("team", Policy::default()).await.expect("a group");
    for node in &members[1..] {
        let ticket = members[0].groups.invite(id, node.id(), 60_000).expect("an invitation");
        node.groups.join(&ticket).await.expect("it joins");
    }
    for node in &members {
        caller.connect(node).await;
    }
    let votes = |node: &Node| matches!(role(node, id), Some(Role::Leader | Role::Follower));
    let leads = |node: &Node| role(node, id) == Some(Role::Leader);
    until("three vote, and one leads", || members.iter().all(votes) && members.iter().any(leads)).await;
    (members, caller, id)
}

/// Deploys an agent that says what it is told.
async fn deploy_actor(by: &Node, id: GroupId, name: &str, instances: u8) -> AgentId {
    let file = mesh::file(name, "does as it is told", &format!("acting.{name}"), "do", name);
    let describe = |mut made: Deployment| {
        made.instances = instances;
        made
    };
    let file = serde_json::to_vec(&file).expect("JSON");
    GroupAgents::of(&by.groups, id).deploy(name, file, describe).await.expect("it is deployed");
    AgentId::new(by.owner.id(), name).expect("a name")
}

/// The nodes on which an agent is found.
fn found(by: &Node, agent: &AgentId) -> BTreeSet<PublicKey> {
    let (all, _) = by.discovery.find(&Query::default());
    all.iter().filter(|found| found.candidate.verified.agent == *agent).map(|found| found.node).collect()
}

/// Each of these agents runs on that node and on no other, and answers whoever calls it by its name.
async fn assert_run(caller: &Node, ran: &[(AgentId, PublicKey)]) {
    for (agent, node) in ran {
        assert_eq!(found(caller, agent), BTreeSet::from([*node]), "{agent} moved, or ended");
        let task = caller.send(agent, "hello").await;
        assert_eq!(task["status"]["state"], "TASK_STATE_COMPLETED", "{agent}: {task}");
        assert_eq!(task["artifacts"][0]["parts"][0]["text"], "hello", "{agent}");
    }
}

/// The leader's machine is gone, and the two other members do not reach each other: for a minute nobody leads. What runs
/// goes on where it runs; the leader that is elected then moves only what ended with the machine.
#[tokio::test(start_paused = true)]
async fn what_runs_goes_on_where_it_runs_and_answers_by_name_while_nobody_leads() {
    let net = net();
    let (members, caller, id) = whole_nodes(&net).await;
    let everywhere = deploy_actor(&members[0], id, "everywhere", 0).await;
    until("it runs on each", || found(&caller, &everywhere).len() == members.len()).await;
    // The leader has heard of each member what it hosts: they say so each second.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let mut agents = Vec::new();
    for name in ["one", "two", "three"] {
        agents.push(deploy_actor(&members[0], id, name, 1).await);
    }
    let places = || agents.iter().map(|agent| found(&caller, agent)).collect::<Vec<_>>();
    let has_its_own = |places: Vec<BTreeSet<PublicKey>>| {
        places.iter().all(|nodes| nodes.len() == 1) && places.iter().flatten().collect::<BTreeSet<_>>().len() == 3
    };
    until("each runs on a member of its own", || has_its_own(places())).await;
    let leads = |node: &Node| role(node, id) == Some(Role::Leader);
    let at = members.iter().position(leads).expect("it leads");
    let [gone, left, right] = [0, 1, 2].map(|after| &members[(at + after) % 3]);
    let placed = agents.iter().zip(places()).map(|(agent, nodes)| (agent.clone(), nodes.into_iter().next()));
    let placed = placed.map(|(agent, node)| (agent, node.expect("one node")));
    let (ended, ran): (Vec<_>, Vec<_>) = placed.partition(|(_, node)| *node == gone.id());
    assert_eq!((ended.len(), ran.len()), (1, 2));

    [left, right, &caller].iter().for_each(|other| net.cut(gone.id(), other.id()));
    net.cut(left.id(), right.id());
    gone.groups.shut_down().await;
    let unanswered = left.groups.catch_up(id).await.expect_err("nobody leads");
    assert!(matches!(unanswered, GroupError::NoAnswer { .. }), "{unanswered}");
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!leads(left) && !leads(right), "there is no majority");
        assert_run(&caller, &ran).await;
    }

    net.heal(left.id(), right.id());
    left.connect(right).await;
    until("one of them leads", || leads(left) || leads(right)).await;
    let lives = |nodes: BTreeSet<PublicKey>| nodes.len() == 1 && !nodes.contains(&gone.id());
    until("another member takes what ended", || lives(found(&caller, &ended[0].0))).await;
    assert_run(&caller, &ran).await;
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

/// P-144, P-196: a member of another owner deploys in the name of the first one, places it, copies what the owner signed for
/// another group, and places what it signed itself on a node of the first one.
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
        let set = Set { key: format!("{AGENTS}{agent}"), value: signed.bytes.into(), if_version: None };
        let done = other.groups.command(id, Command::Set(set)).await;
        other.set(id, &format!("{HOSTS}{agent}"), &format!("[{here:?}]")).await;
        done.is_ok()
    };
    let of = |owner: &Owner, agent: &str, group: GroupId| {
        Deployment::new(group, owner.log.publisher(), agent, b"{}".to_vec(), NOW_MS)
    };
    let elsewhere = GroupId::from_digest([3; 32]);
    assert!(!place("forged", &of(&owner, "forged", id), id, &thief).await);
    assert!(!place("elsewhere", &of(&owner, "elsewhere", elsewhere), elsewhere, &owner).await);
    assert!(!place("other-name", &of(&owner, "real", id), id, &owner).await);
    assert!(place("theirs", &of(&thief, "theirs", id), id, &thief).await, "for its own nodes");
    let nonsense = Set { key: format!("{AGENTS}nonsense"), value: b"nonsense".to_vec().into(), if_version: None };
    assert!(other.groups.command(id, Command::Set(nonsense)).await.is_err());
    // What is right is hosted, so that the others had their time.
    deploy(&nodes[0], id, "real", 0, &[]).await;
    until("the right one runs", || hosts(&nodes, "real").len() == 3).await;
    tokio::time::sleep(Duration::from_secs(30)).await;
    for agent in ["forged", "elsewhere", "other-name", "nonsense", "theirs"] {
        assert_eq!(hosts(&nodes, agent), [] as [usize; 0], "{agent}");
    }
    assert!(!other.worker.hosted.lock().expect("no panic").contains(&"real".to_owned()), "another owner's");
}

/// P-196, SG-9: a member of another owner, which may write values, sets what the owner ended, and what it replaced, as the owner
/// signed it; also when a node of the owner was away meanwhile, and when it has started again.
#[tokio::test(start_paused = true)]
async fn what_an_owner_ended_or_replaced_is_not_brought_back_by_who_may_write() {
    let net = net();
    let (mut nodes, id) = group_of(&net, 3).await;
    let writer = GroupNode::start(&net, &key(9), &Owner::new(7), store()).await;
    nodes[0].admit(id, &writer).await;
    let value = async |node: &GroupNode, agent: &str| {
        node.groups.catch_up(id).await.expect("a leader");
        let key = format!("{AGENTS}{agent}");
        let bytes = node.groups.look(id, |state| state.values().get(&key).map(|value| value.bytes.clone()));
        bytes.expect("the group is here")
    };
    let is_refused = async |by: &GroupNode, agent: &str, bytes: &[u8]| {
        let set = Set { key: format!("{AGENTS}{agent}"), value: bytes.to_vec().into(), if_version: None };
        let done = by.groups.command(id, Command::Set(set)).await;
        matches!(done, Err(GroupError::Refused(Refusal::Invalid(why))) if why.contains("deploy it anew"))
    };
    deploy(&nodes[0], id, "ended", 0, &[]).await;
    deploy(&nodes[0], id, "replaced", 0, &[]).await;
    until("both run", || ["ended", "replaced"].iter().all(|agent| hosts(&nodes, agent).len() == 3)).await;
    let ended = value(&nodes[0], "ended").await.expect("it is deployed");
    let replaced = value(&nodes[0], "replaced").await.expect("it is deployed");
    // One node of the owner is away while it happens.
    let (secret, kept) = nodes.remove(2).crash(&net).await;
    leader(&nodes, id).await;
    GroupAgents::of(&nodes[0].groups, id).undeploy("ended").await.expect("it ends");
    deploy(&nodes[1], id, "replaced", 1, &[]).await;
    let later = value(&nodes[0], "replaced").await.expect("it is deployed");
    assert_ne!(later, replaced);
    assert!(is_refused(&writer, "ended", &ended).await && is_refused(&writer, "replaced", &replaced).await);
    nodes.push(GroupNode::start(&net, &secret, &Owner::new(101), kept).await);
    for node in &nodes {
        writer.set(id, &format!("{HOSTS}ended"), &format!("[{:?}]", node.id().did())).await;
        assert!(is_refused(&writer, "ended", &ended).await && is_refused(node, "replaced", &replaced).await);
    }
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert_eq!(hosts(&nodes, "ended"), [] as [usize; 0]);
    assert_eq!((hosts(&nodes, "replaced").len(), value(&nodes[2], "replaced").await), (1, Some(later)));
    // All of them start again from disk.
    let owner = Owner::new(101);
    for _ in 0..3 {
        let (secret, kept) = nodes.remove(0).crash(&net).await;
        nodes.push(GroupNode::start(&net, &secret, &owner, kept).await);
        tokio::time::sleep(Duration::from_secs(10)).await;
        leader(&nodes, id).await;
    }
    assert!(is_refused(&writer, "ended", &ended).await && is_refused(&writer, "replaced", &replaced).await);
    // What its owner deploys anew runs.
    deploy(&nodes[0], id, "ended", 0, &[]).await;
    until("it runs again", || hosts(&nodes, "ended").len() == 3).await;
    assert!(is_refused(&writer, "ended", &ended).await);
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

/// SG-10: an agent for its own node only, as adopted tools are, does what that node gives the group. Whoever has another node
/// of the owner does not use it.
#[tokio::test(start_paused = true)]
async fn an_agent_for_its_own_node_does_tasks_of_that_node_and_of_no_other_of_its_owner() {
    let net = net();
    let first = Node::start(&net, 1, OWNER, &[], mesh::store()).await;
    let second = Node::start(&net, 2, OWNER, &[], mesh::store()).await;
    let mut file = mesh::file("private", "does as it is told", "acting.private", "do", "private");
    (file.exposure, file.callers) = (Callers::ThisNode.exposure(), Callers::ThisNode);
    first.host(&file).await;
    let id = first.groups.create("team", Policy::default()).await.expect("a group");
    let ticket = first.groups.invite(id, second.id(), 60_000).expect("an invitation");
    second.groups.join(&ticket).await.expect("it joins");
    let end_of = async |node: &Node, number: u32, target: Target| {
        let task = Submit { needs: Needs::of(target), ..echo_task(number, "hello") };
        let task_id = task.task;
        node.groups.command(id, Command::Submit(Box::new(task))).await.expect("it is submitted");
        let end = || {
            let look = |state: &Group| {
                let task = state.work().tasks().get(&task_id).filter(|task| task.state.is_finished())?;
                Some((task.state, task.last, task.refused.of(&first.id()).map(str::to_owned)))
            };
            first.groups.look(id, look).ok().flatten()
        };
        until("it ended", || end().is_some()).await;
        end().expect("it ended")
    };
    let targets = || [Target::Capability("acting.private".to_owned()), Target::Agent("private".to_owned())];
    for (number, target) in (1..).zip(targets()) {
        let (state, _, refused) = end_of(&second, number, target).await;
        assert_eq!(state, State::Failed, "{refused:?}");
        assert!(refused.is_some_and(|why| why.contains("its own node only")), "the member refuses it");
    }
    for (number, target) in (3..).zip(targets()) {
        let ended = end_of(&first, number, target).await;
        assert_eq!(ended, (State::Completed, Some(first.id()), None));
    }
}
