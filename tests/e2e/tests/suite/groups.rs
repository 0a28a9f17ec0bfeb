//! Groups of real processes: formed, led, killed and read back, over real connections and disks.

use std::time::Duration;

use althing_e2e::{Machine, Node, text, until};
use serde_json::Value;

pub(super) const SOON: Duration = Duration::from_secs(60);

/// Three nodes of three owners that form a group; the first one founded it.
pub(super) struct Team {
    pub(super) machines: Vec<Machine>,
    nodes: Vec<Option<Node>>,
}

impl Team {
    fn new() -> Team {
        Team::of((0..3).map(|_| Machine::new()).collect())
    }

    /// On these three machines, where no node runs yet.
    pub(super) fn of(machines: Vec<Machine>) -> Team {
        let nodes: Vec<Option<Node>> = machines.iter().map(|machine| Some(machine.up_alone(&[]))).collect();
        let formed = machines[0].json(&["group", "create", "team"]);
        assert_eq!(formed["name"], "team", "{formed}");
        let team = Team { machines, nodes };
        for at in 1..3 {
            let did = team.node(at).did();
            let ticket = text(&team.machines[0].json(&["group", "invite", "team", &did])["ticket"]);
            let joined = team.machines[at].json(&["group", "join", &ticket]);
            assert_eq!(joined["id"], formed["id"]);
        }
        until(SOON, "all three vote", || {
            (0..3).all(|at| ["leader", "follower"].contains(&team.status(at)["role"].as_str().unwrap_or_default()))
        });
        team
    }

    pub(super) fn node(&self, at: usize) -> &Node {
        self.nodes[at].as_ref().expect("it runs")
    }

    pub(super) fn status(&self, at: usize) -> Value {
        self.machines[at].json(&["group", "status", "team"])
    }

    /// The one that leads, among those that run.
    pub(super) fn leader(&self) -> usize {
        let leads = |at: &usize| self.nodes[*at].is_some() && self.status(*at)["role"] == "leader";
        let mut found = None;
        until(SOON, "somebody leads", || {
            found = (0..3).find(leads);
            found.is_some()
        });
        found.expect("it was there")
    }

    pub(super) fn kill(&mut self, at: usize) {
        self.nodes[at].take().expect("it runs").running.kill();
    }

    /// Starts a node again, beside another one that runs.
    pub(super) fn restart(&mut self, at: usize) {
        let other = self.nodes.iter().flatten().next().map(|node| node.address("/ip4/127.0.0.1"));
        let peer = other.iter().flat_map(|address| ["--peer", address.as_str()]).collect::<Vec<_>>();
        self.nodes[at] = Some(self.machines[at].up_alone(&peer));
    }

    fn get(&self, at: usize, key: &str) -> String {
        text(&self.machines[at].json(&["group", "get", "team", key])["value"])
    }
}

#[test]
fn what_a_group_acknowledged_outlives_its_leader_and_a_stop_of_all() {
    let mut team = Team::new();
    let first = team.leader();
    for number in 0..5 {
        let written = team.machines[(first + 1) % 3].json(&["group", "set", "team", &format!("k{number}"), "value"]);
        assert_eq!(written["version"].as_u64(), Some(number + 1), "{written}");
    }
    team.kill(first);
    let next = team.leader();
    assert_ne!(next, first);
    for number in 0..5 {
        assert_eq!(team.get(next, &format!("k{number}")), "value");
    }
    team.machines[next].json(&["group", "set", "team", "later", "without it"]);
    let totals = team.machines[next].json(&["status"])["layers"]["l5Coordination"].clone();
    assert_eq!(
        (totals["groups"].as_u64(), totals["led"].as_u64(), totals["withoutLeader"].as_u64()),
        (Some(1), Some(1), Some(0))
    );
    let examined = team.machines[next].run(&["doctor"]);
    assert!(examined.stdout.contains("2 of 3 voters are reached"), "{examined:?}");
    team.restart(first);
    until(SOON, "the killed one follows", || team.status(first)["role"] == "follower");
    assert_eq!(team.get(first, "later"), "without it");
    // One of three is no majority: it names nobody as leading, but who led last.
    let (last, led) = ((first + 2) % 3, team.leader());
    let led = team.node(led).did();
    (0..3).filter(|at| *at != last).for_each(|at| team.kill(at));
    until(SOON, "nobody leads", || team.status(last)["leader"].is_null());
    let status = team.status(last);
    assert!(status["lastLeader"] == led.as_str() || status["lastLeader"].is_null(), "{status}");
    until(SOON, "it says whom it reaches", || {
        let shown = team.machines[last].run(&["group", "status", "team"]);
        shown.stdout.contains("1 of 3 voters can be reached")
    });
    // Whether it accepts a task now, nobody knows; the id by which that is found out is known.
    let lost = team.machines[last].run(&["--json", "task", "submit", "team", "--cap", "no.body", "x"]);
    let error: Value = serde_json::from_str(&lost.stderr).expect("errors are JSON");
    let (task, said) = (text(&error["error"]["task"]), text(&error["error"]["message"]));
    assert!(lost.code == 6 && said.contains(&format!("`althing task show team {task}`")), "{lost:?}");
    (0..3).filter(|at| *at != last).for_each(|at| team.restart(at));
    team.leader();
    // All at once, as when the power fails.
    (0..3).for_each(|at| team.kill(at));
    (0..3).for_each(|at| team.restart(at));
    let leader = team.leader();
    assert_eq!(team.get(leader, "later"), "without it");
}

#[test]
fn a_group_is_left_expelled_from_and_dissolved() {
    let team = Team::new();
    let [founder, second, third] = [&team.machines[0], &team.machines[1], &team.machines[2]];
    // A ticket is for one node, once.
    let did = team.node(1).did();
    founder.json(&["group", "set", "team", "colour", "blue"]);
    let unset = founder.run(&["group", "unset", "team", "colur"]);
    assert!(unset.code == 4 && unset.stderr.contains("Did you mean \"colour\"?"), "{unset:?}");
    for no_node in ["nonsense", &team.node(0).owner()] {
        let refused = founder.run(&["group", "invite", "team", no_node]);
        assert!(
            refused.code == 2 && refused.stderr.contains("a node is did:key:…, as `althing id` shows"),
            "{refused:?}"
        );
    }
    let ended = founder.run(&["group", "serve", "team", "--as", "nope", "--end"]);
    assert!(ended.code == 4 && ended.stderr.contains("no agent \"nope\""), "{ended:?}");
    let ticket = text(&founder.json(&["group", "invite", "team", &did])["ticket"]);
    assert_eq!(third.run(&["group", "join", &ticket]).code, 5, "it is for another");
    assert_eq!(second.run(&["group", "join", &ticket]).code, 5, "it is a member");
    assert_eq!(third.run(&["group", "join", "althing-group-nonsense"]).code, 2);
    // Only the charter's owner expels.
    let outcome = second.run(&["group", "expel", "team", &team.node(2).did()]);
    assert_eq!(outcome.code, 5, "{outcome:?}");
    founder.json(&["group", "expel", "team", &team.node(2).did()]);
    until(SOON, "the expelled one notices", || {
        let list = third.json(&["group", "list"]);
        list["groups"][0]["standing"] == "gone"
    });
    let outcome = third.run(&["group", "set", "team", "a", "b"]);
    assert_eq!(outcome.code, 4, "{outcome:?}");
    second.json(&["group", "set", "team", "a", "b"]);
    let asked = second.run(&["group", "leave", "team"]);
    assert!(asked.code == 5 && asked.stderr.contains("go to other members"), "what moves is shown before: {asked:?}");
    let asked = second.run(&["group", "leave", "team", "--forget"]);
    assert!(asked.code == 5 && asked.stderr.contains("is not asked"), "{asked:?}");
    second.json(&["group", "leave", "team", "--yes"]);
    assert_eq!(second.json(&["group", "list"])["groups"][0]["standing"], "gone");
    until(SOON, "the founder is alone", || {
        founder.json(&["group", "status", "team"])["members"].as_array().map(Vec::len) == Some(1)
    });
    assert_eq!(team.get(0, "a"), "b", "two members are no majority of two: the founder goes on alone");
    assert_eq!(founder.run(&["group", "dissolve", "team"]).code, 2, "--yes is missing");
    founder.json(&["group", "dissolve", "team", "--yes"]);
    until(SOON, "it is dissolved", || founder.json(&["group", "list"])["groups"][0]["standing"] == "dissolved");
    let outcome = founder.run(&["group", "get", "team", "a"]);
    assert_eq!(outcome.code, 5, "{outcome:?}");
}

/// A ticket from before the end of a group, and whatever its members do, is worth nothing after it; also when all of them have
/// started again, and one of them was away.
#[test]
fn a_dissolved_group_takes_nobody_in_and_obeys_nobody_when_its_nodes_start_again() {
    let mut team = Team::new();
    let guest = Machine::new();
    let did = guest.up_alone(&[]).did();
    let ticket = text(&team.machines[0].json(&["group", "invite", "team", &did])["ticket"]);
    team.machines[0].json(&["group", "set", "team", "a", "b"]);
    team.kill(2);
    team.leader();
    team.machines[0].json(&["group", "dissolve", "team", "--yes"]);
    let standing = |team: &Team, at: usize| text(&team.machines[at].json(&["group", "list"])["groups"][0]["standing"]);
    until(SOON, "both know it", || (0..2).all(|at| standing(&team, at) == "dissolved"));
    (0..2).for_each(|at| team.kill(at));
    (0..3).for_each(|at| team.restart(at));
    assert_eq!([standing(&team, 0), standing(&team, 1)], ["dissolved", "dissolved"]);
    until(SOON, "the one that was away learns it", || standing(&team, 2) == "dissolved");
    let over = |machine: &Machine, arguments: &[&str]| {
        let refused = machine.run(arguments);
        assert!(refused.code == 5 && refused.stderr.contains("was dissolved"), "{arguments:?}: {refused:?}");
    };
    for machine in &team.machines {
        over(machine, &["group", "get", "team", "a"]);
        over(machine, &["group", "set", "team", "a", "c"]);
        over(machine, &["group", "invite", "team", &did]);
        over(machine, &["group", "expel", "team", &did]);
        over(machine, &["task", "submit", "team", "--agent", "echo", "hello"]);
    }
    // The guest is connected to a member, and has the ticket yet.
    let _node = guest.up_alone(&["--peer", &team.node(0).address("/ip4/127.0.0.1")]);
    over(&guest, &["group", "join", &ticket]);
    assert_eq!(guest.json(&["group", "list"])["groups"].as_array().map(Vec::len), Some(0));
}

const ECHO: &str = "name: echo\ndescription: Says what it is told\nruntime: { native: { builtin: echo } }\ncontract: { class: { latency: srt } }\ncallers: anyone\n";

/// Each task has a token of its own, its result is that of the last one, and what was asked for happens though a member dies.
#[test]
fn a_group_works_on_while_members_are_killed_and_completes_each_task_once() {
    let mut team = Team::new();
    for machine in &team.machines {
        machine.add("echo", ECHO);
    }
    let submit = |team: &Team, at: usize, more: &[&str]| {
        let mut all = vec!["task", "submit", "team", "--agent", "echo", "--lease", "2"];
        all.extend(more);
        text(&team.machines[at].json(&all)["task"])
    };
    let leader = team.leader();
    let other = (leader + 1) % 3;
    let waited = team.machines[other].run(&["task", "submit", "team", "--agent", "echo", "--wait", "hello there"]);
    assert_eq!((waited.code, waited.stdout.trim()), (0, "hello there"), "{waited:?}");
    let nobody = submit(&team, other, &["--label", "no-such-label", "x"]);
    let first = submit(&team, other, &["--key", "once", "first"]);
    assert_eq!(submit(&team, other, &["--key", "once", "first"]), first, "the key stands for the first one");
    team.kill(leader);
    let tasks: Vec<String> =
        (0..6).map(|number| submit(&team, other, &["--after", &first, &format!("t{number}")])).collect();
    until(SOON, "all complete", || {
        tasks.iter().all(|task| team.machines[other].json(&["task", "show", "team", task])["state"] == "completed")
    });
    let waits = submit(&team, other, &["--after", &nobody, "x"]);
    let circle = team.machines[other].run(&["task", "deps", "team", &nobody, "--after", &waits]);
    assert_eq!(circle.code, 5, "each would wait for the other: {circle:?}");
    assert!(circle.stderr.contains("which waits for it"), "{circle:?}");
    // Why nobody has the one with the label, as the leader sees it; and it can be cancelled.
    let leader = team.leader();
    let shown = team.machines[leader].json(&["task", "show", "team", &nobody, "--explain"]);
    assert_eq!(shown["state"], "ready");
    let verdicts = shown["candidates"].as_array().expect("a list");
    assert!(verdicts.iter().any(|one| text(&one["verdict"]).contains("no-such-label")), "{shown}");
    assert!(verdicts.iter().any(|one| one["reason"] == "noLabel"), "{shown}");
    team.machines[other].json(&["task", "cancel", "team", &nobody]);
    let listed = team.machines[leader].json(&["task", "list", "team", "--all"]);
    let canceled = listed["tasks"].as_array().expect("a list").iter().find(|task| task["task"] == nobody.as_str());
    assert_eq!(canceled.expect("it is listed")["state"], "canceled");
    assert_eq!(team.machines[leader].run(&["task", "submit", "team", "text"]).code, 2, "no capability, no agent");
    assert_eq!(team.machines[leader].run(&["task", "show", "team", "nonsense"]).code, 2);
    assert_eq!(team.machines[leader].run(&["task", "show", "team", &"0".repeat(32)]).code, 4);
}

/// A task is given to no agent that would not answer its submitter; when there is no other it fails with the reasons, and no
/// attempt is used up.
#[test]
fn a_task_that_no_agent_may_do_fails_with_the_reasons_and_its_owners_own_is_done() {
    let team = Team::new();
    let clerk = ECHO.replace("name: echo", "name: clerk").replace("callers: anyone", "callers: own");
    team.machines[2].add("clerk", &clerk);
    let leader = &team.machines[team.leader()];
    // Who waits for what nobody can do is told so, and by which name to cancel it.
    let waits = ["task", "submit", "team", "--cap", "clerk.nothing", "--deadline", "5", "--wait", "hello"];
    let waited = leader.run(&waits);
    assert!(waited.code == 1 && waited.stderr.contains("the task is "), "{waited:?}");
    assert!(waited.stderr.contains("no member has the capability clerk.nothing"), "{waited:?}");
    let task = text(&team.machines[1].json(&["task", "submit", "team", "--agent", "clerk", "hello"])["task"]);
    until(SOON, "the leader says whom the clerk does not answer", || {
        let shown = leader.json(&["task", "show", "team", &task, "--explain"]);
        let verdicts = shown["candidates"].as_array().cloned().unwrap_or_default();
        verdicts.iter().any(|one| text(&one["verdict"]).contains("does not answer"))
    });
    until(SOON, "it is abandoned", || leader.json(&["task", "show", "team", &task])["state"] == "failed");
    let shown = leader.json(&["task", "show", "team", &task]);
    assert_eq!((shown["attempt"].as_u64(), shown["fencingToken"].as_u64()), (Some(1), Some(0)), "{shown}");
    let why = text(&shown["why"]);
    assert!(why.contains("no member is left that may do it") && why.contains("does not answer"), "{why}");
    let own = team.machines[2].run(&["task", "submit", "team", "--agent", "clerk", "--wait", "hello"]);
    assert_eq!((own.code, own.stdout.trim()), (0, "hello"), "{own:?}");
}

/// Which of the tasks that want a resource gets it is decided by an owner, or by the votes of most members; who was outvoted is
/// recorded.
#[test]
fn people_decide_and_members_vote_which_task_gets_a_resource() {
    let team = Team::new();
    let [owner, second, third] = [&team.machines[0], &team.machines[1], &team.machines[2]];
    for (resource, rule) in [("release", "human"), ("budget", "vote")] {
        owner.json(&["task", "resources", "team", resource, "--rule", rule]);
    }
    // They wait: nobody hosts the agent yet.
    let submit = |resource: &str, said: &str| {
        text(&second.json(&["task", "submit", "team", "--agent", "echo", "--resource", resource, said])["task"])
    };
    let tasks =
        [submit("release", "one"), submit("release", "two"), submit("budget", "three"), submit("budget", "four")];
    let listed = || third.json(&["task", "resources", "team"]);
    let next = |resource: &str| {
        let list = listed();
        let one = list["resources"].as_array().expect("a list").iter().find(|one| one["resource"] == resource).cloned();
        let waiting = one.expect("it is listed")["waiting"].as_array().expect("a list").clone();
        assert_eq!(waiting.len(), 2, "{list}");
        waiting.iter().find(|task| task["next"] == true).map(|task| text(&task["task"]))
    };
    assert_eq!((next("release"), next("budget")), (None, None), "nothing is decided");
    let choose =
        |by: &Machine, how: &str, resource: &str, task: &str| by.run(&["task", how, "team", resource, task]).code;
    assert_eq!(choose(second, "decide", "release", &tasks[1]), 5, "its owner does not own the group");
    assert_eq!(choose(owner, "vote", "release", &tasks[1]), 5, "that is not its rule");
    assert_eq!(choose(owner, "decide", "release", &tasks[2]), 5, "that task does not want it");
    assert_eq!(choose(owner, "decide", "release", &tasks[1]), 0);
    assert_eq!(choose(third, "vote", "budget", &tasks[2]), 0);
    assert_eq!(choose(owner, "vote", "budget", &tasks[3]), 0);
    assert_eq!(choose(second, "vote", "budget", &tasks[3]), 0);
    assert_eq!((next("release").as_ref(), next("budget").as_ref()), (Some(&tasks[1]), Some(&tasks[3])));
    let shown = third.run(&["task", "resources", "team"]);
    assert!(shown.stdout.contains("is next, 2 votes"), "{shown:?}");
    owner.add("echo", ECHO);
    until(SOON, "all are done", || {
        tasks.iter().all(|task| third.json(&["task", "show", "team", task])["state"] == "completed")
    });
    let decisions = listed()["decisions"].as_array().expect("a list").clone();
    let of = |rule: &str| decisions.iter().find(|one| one["rule"] == rule).expect("it was recorded").clone();
    assert_eq!((text(&of("human")["task"]), &of("human")["others"][0]), (tasks[1].clone(), &Value::from(&*tasks[0])));
    assert_eq!((text(&of("vote")["task"]), of("vote")["dissentTotal"].as_u64()), (tasks[3].clone(), Some(1)));
}

/// What people pipe is on standard output, and they see what they sign before they have signed it.
#[test]
fn a_ticket_stands_alone_on_standard_output_and_who_signs_is_told_what() {
    let team = Team::new();
    let [first, second, third] = [&team.machines[0], &team.machines[1], &team.machines[2]];
    let dids: Vec<String> = (0..3).map(|at| team.node(at).did()).collect();
    first.json(&["group", "create", "pact", "--owner", &dids[1], "--k", "2"]);
    let again = first.run(&["group", "create", "pact"]);
    assert_eq!(again.code, 5, "the name is taken: {again:?}");
    let invited = first.run(&["group", "invite", "pact", &dids[1]]);
    let ticket = invited.stdout.trim();
    assert!(invited.code == 0 && ticket.lines().count() == 1 && ticket.starts_with("althing-group-"), "{invited:?}");
    assert!(invited.stderr.contains("other owners must sign this first"), "{invited:?}");
    assert_eq!(second.run(&["group", "join", ticket]).code, 0);
    let status = first.run(&["group", "status", "pact"]);
    let owners = status.stdout.lines().filter(|line| line.starts_with("owner ")).count();
    assert!(owners == 2 && status.stdout.contains("owners and members write; at most 5 members vote"), "{status:?}");

    assert_eq!(first.run(&["group", "invite", "pact", &dids[2]]).code, 0);
    let waiting = second.json(&["group", "proposals", "pact"]);
    let id = text(&waiting["proposals"][0]["id"]);
    assert_eq!(second.run(&["group", "endorse", "pact", ""]).code, 4, "nothing names nothing");
    assert_eq!(second.run(&["group", "endorse", "pact", "zz"]).code, 4);
    let signed = second.run(&["group", "endorse", "pact", &id[..12]]);
    assert!(signed.code == 0 && signed.stdout.trim().starts_with("althing-group-"), "{signed:?}");
    assert!(signed.stderr.contains(&format!("signs: invite {}", dids[2])), "{signed:?}");
    assert_eq!(third.run(&["group", "join", signed.stdout.trim()]).code, 0);

    leave_to_owners([first, second, third]);
}

/// What the charter of `pact` leaves to its owners, the first two, is refused to the third one, with what to do about it.
fn leave_to_owners([first, second, third]: [&Machine; 3]) {
    assert_eq!(first.run(&["group", "amend", "pact", "--assign", "owners", "--read", "owners"]).code, 0);
    let waiting = second.json(&["group", "proposals", "pact"]);
    let proposal = &waiting["proposals"][0];
    assert_eq!(text(&proposal["about"]), "owners give the group work; owners read", "{waiting}");
    assert_eq!(second.run(&["group", "endorse", "pact", &text(&proposal["id"])[..12]]).code, 0);
    until(SOON, "all know the charter", || {
        let rules = |of: &&Machine| {
            let charter = of.json(&["group", "status", "pact"])["charter"].clone();
            charter["assign"] == "owners" && charter["read"] == "owners" && charter["write"] == "members"
        };
        [first, second, third].iter().all(rules)
    });
    let status = third.run(&["group", "status", "pact"]);
    assert!(status.stdout.contains("only owners give it work; only owners read"), "{status:?}");
    assert_eq!(third.run(&["group", "set", "pact", "colour", "red"]).code, 0, "every member writes");
    assert_eq!(first.json(&["group", "get", "pact", "colour"])["value"], "red");
    let submit = ["task", "submit", "pact", "--agent", "nobody", "hello"];
    let given = third.run(&submit);
    assert!(given.code == 5 && given.stderr.contains("`althing group amend pact --assign members`"), "{given:?}");
    let task = text(&second.json(&submit)["task"]);
    let reads: [&[&str]; 4] = [
        &["group", "get", "pact", "colour"],
        &["group", "get", "pact", "colour", "--stale"],
        &["group", "keys", "pact"],
        &["task", "show", "pact", task.as_str()],
    ];
    for read in reads {
        let refused = third.run(read);
        assert!(
            refused.code == 5 && refused.stderr.contains("`althing group amend pact --read members`"),
            "{read:?}: {refused:?}"
        );
    }
    assert_eq!(third.json(&["task", "list", "pact"])["total"], 0, "nothing is its own");
    assert_eq!(first.json(&["task", "list", "pact"])["total"], 1);
}
