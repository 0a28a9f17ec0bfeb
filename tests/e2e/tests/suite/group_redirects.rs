//! An agent that stands for a group, on real processes of one owner: a member that cannot do a call redirects it to one that
//! can, where the caller signs anew and goes from then on.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use althing_e2e::http::{HONEST, raw, request, says};
use althing_e2e::{Machine, Node, Running, cast, text, until};
use serde_json::{Value, json};

const MODEL: &str = include_str!("../../python/model.py");
const SOON: Duration = Duration::from_secs(60);
/// Members of the group; one more node of the owner belongs to none.
const MEMBERS: usize = 3;
/// The agent that stands for the group.
const SERVED: &str = "team-echo";
/// An agent that asks it.
const ASKING: &str = "asking";

/// Nodes of one owner, all connected; the last one is no member. By the order of their keys, in which a caller that knows
/// nothing better asks them: the lowest first.
struct Desk {
    machines: Vec<Machine>,
    nodes: Vec<Option<Node>>,
}

impl Desk {
    /// Three members and another node, in a group whose agent each member hosts. None can do anything yet.
    fn new() -> Desk {
        let first = Machine::new();
        let mut nodes = vec![first.up_alone(&[])];
        let mut machines = vec![first];
        for _ in 0..MEMBERS {
            let machine = machines[0].of_same_owner();
            let peers: Vec<String> = nodes.iter().map(|node| node.address("/ip4/127.0.0.1")).collect();
            let flags: Vec<&str> = peers.iter().flat_map(|peer| ["--peer", peer.as_str()]).collect();
            nodes.push(machine.up_alone(&flags));
            machines.push(machine);
        }
        machines[0].json(&["group", "create", "team"]);
        for (machine, node) in machines.iter().zip(&nodes).take(MEMBERS).skip(1) {
            let ticket = text(&machines[0].json(&["group", "invite", "team", &node.did()])["ticket"]);
            machine.json(&["group", "join", &ticket]);
        }
        until(SOON, "all three vote", || {
            let votes = |machine: &Machine| machine.json(&["group", "status", "team"])["role"] != "learner";
            machines[..MEMBERS].iter().all(votes)
        });
        machines[0].json(&["group", "serve", "team", "--cap", "echo.say", "--as", SERVED]);
        let mut all: Vec<(Machine, Node)> = machines.into_iter().zip(nodes).collect();
        // Texts of one length have the order of the bytes in them.
        all[..MEMBERS].sort_by_key(|(_, node)| node.did());
        let (machines, nodes) = all.into_iter().map(|(machine, node)| (machine, Some(node))).unzip();
        let desk = Desk { machines, nodes };
        let members = (0..MEMBERS).collect::<Vec<_>>();
        desk.all_find(SERVED, &members);
        desk
    }

    fn did(&self, at: usize) -> String {
        self.nodes[at].as_ref().expect("it runs").did()
    }

    fn running(&self) -> Vec<usize> {
        (0..self.nodes.len()).filter(|at| self.nodes[*at].is_some()).collect()
    }

    /// Waits until each node knows that these, and no others, host an agent.
    fn all_find(&self, agent: &str, hosts: &[usize]) {
        let hosts: BTreeSet<String> = hosts.iter().map(|at| self.did(*at)).collect();
        let known = |at: &usize| {
            let found = self.machines[*at].found().into_iter().filter(|(name, _)| name == agent);
            found.map(|(_, node)| node).collect::<BTreeSet<_>>() == hosts
        };
        until(SOON, &format!("all know who hosts {agent}"), || self.running().iter().all(known));
    }

    /// The turns that the agent of the group had on a node.
    fn turns(&self, at: usize) -> u64 {
        let all = self.machines[at].json(&["ps"]);
        let agents = all["agents"].as_array().expect("a list");
        let turns = agents.iter().find(|agent| agent["name"] == SERVED).map(|agent| agent["turnsTotal"].as_u64());
        turns.flatten().unwrap_or(0)
    }

    /// Calls the agent of the group through a node, which must succeed.
    fn call(&self, at: usize, words: &str) {
        let outcome = self.machines[at].run(&["call", SERVED, words]);
        assert!(outcome.code == 0 && outcome.stdout.contains(words), "{outcome:?}");
    }

    /// Adds an agent that asks the agent of the group when it is told to; its model ends with what is returned.
    fn add_asking(&self, at: usize) -> Running {
        let machine = &self.machines[at];
        machine.write("model.py", MODEL);
        let mut model = Running::start(machine.command(Path::new("python3")).arg("model.py"));
        let port = model.line(SOON).expect("the endpoint says its port");
        let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", port.trim()), "model": "stub" });
        let asking = json!({
            "name": ASKING,
            "description": "Asks the group",
            "runtime": { "model": { "prompt": "Ask.", "endpoints": [endpoint] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": [format!("agents/{SERVED}")] },
        });
        machine.add(ASKING, &asking.to_string());
        model
    }

    /// Calls it over a node's gateway, as a stock client does, in a trace: who redirected the call, and who served it.
    fn goes(&self, at: usize, trace: &str, redirected: &[usize], served: &[usize]) {
        self.goes_by(at, (SERVED, trace), trace, redirected, served);
    }

    /// The same, by an agent that is told something.
    fn goes_by(&self, at: usize, told: (&str, &str), trace: &str, redirected: &[usize], served: &[usize]) {
        let gateway = self.nodes[at].as_ref().expect("it runs").gateway();
        let traceparent = format!("00-{trace}-b7ad6b7169203331-01");
        let headers = [HONEST[0], HONEST[1], ("traceparent", traceparent.as_str())];
        let body = json!({ "jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": says(told.1) });
        let path = format!("/a2a/{}", told.0);
        let answer = raw(&gateway, &request(&gateway, "POST", &path, &headers, body.to_string().as_bytes()));
        assert_eq!(answer.json()["result"]["task"]["status"]["state"], "TASK_STATE_COMPLETED", "{answer:?}");
        // Spans end a little after the answer that they are of.
        until(SOON, &format!("{redirected:?} redirect, {served:?} serve"), || {
            let told = self.machines[at].json(&["trace", trace]);
            let spans = told["spans"].as_array().expect("spans");
            let refused = self.answering(spans, |span| span["failed"] == "REDIRECTED");
            refused == redirected && self.answering(spans, |span| span["failed"].is_null()) == served
        });
    }

    /// The two spans of calls that a node made in a trace, in the order of their names.
    fn calls(&self, at: usize, trace: &str) -> [Value; 2] {
        let mut calls: Vec<Value> = Vec::new();
        until(SOON, "two spans of calls are told", || {
            let told = self.machines[at].json(&["trace", trace]);
            let is_call = |span: &&Value| {
                span["node"] == self.did(at).as_str()
                    && (span["name"] == "a2a.client" || span["name"] == "a2a.redirect")
            };
            calls = told["spans"].as_array().expect("spans").iter().filter(is_call).cloned().collect();
            calls.len() == 2
        });
        calls.sort_by_key(|span| text(&span["name"]));
        calls.try_into().expect("it was waited for")
    }

    /// Who redirected a call and who answered it is told, with the hosts that it could go to.
    fn tells_hosts(&self, at: usize, trace: &str) {
        let [call, redirect] = self.calls(at, trace);
        assert_eq!((&call["name"], &redirect["name"]), (&json!("a2a.client"), &json!("a2a.redirect")));
        let hosts = call["attributes"]["althing.host.candidates"].as_str().unwrap_or_default();
        assert!(hosts.contains("redirected the call") && hosts.contains("\"answered\""), "{call}");
    }

    /// The call that the asking agent made in its turn names the turn's manifest, and the hosts among which one was chosen.
    fn is_bound(&self, at: usize, trace: &str) {
        let manifest = self.machines[at].json(&["bind", "--running", ASKING])["hash"].clone();
        assert!(manifest.is_string(), "{manifest}");
        // The client that called the asking agent did so in no turn.
        let calls = self.calls(at, trace);
        let bound: Vec<&Value> =
            calls.iter().filter(|call| call["attributes"]["althing.binding.hash"] == manifest).collect();
        let [call] = bound[..] else { panic!("{calls:?}") };
        assert_eq!(call["name"], "a2a.client");
        let hosts = call["attributes"]["althing.host.candidates"].as_str().unwrap_or_default();
        assert!(hosts.contains("\"answered\"") && hosts.contains("\"not asked\""), "{call}");
    }

    /// The nodes that were called for the agent of the group and answered so.
    fn answering(&self, spans: &[Value], so: impl Fn(&Value) -> bool) -> Vec<usize> {
        let is_ours = |span: &Value| {
            let agent = span["attributes"]["agent"].as_str().unwrap_or_default();
            span["name"] == "a2a.server" && agent.ends_with(SERVED) && so(span)
        };
        let node = |span: &Value| self.running().into_iter().find(|at| span["node"] == self.did(*at).as_str());
        spans.iter().filter(|span| is_ours(span)).filter_map(node).collect()
    }
}

/// P-195
#[test]
fn a_call_goes_to_the_member_that_can_once_for_each_change_of_member() {
    let mut desk = Desk::new();
    let (first, other, able, outside) = (0, 1, 2, 3);
    desk.machines[able].add("echo", &cast::echo("echo", "own"));
    desk.all_find("echo", &[able]);

    // A member is called that cannot do it, over its own command line: it serves nothing, and the able one does.
    desk.call(first, "through a member");
    assert_eq!([first, other, able].map(|at| desk.turns(at)), [0, 0, 1]);

    // Who is no member asks the first one, which redirects it. The next call goes to the able one at once.
    desk.goes(outside, "0af7651916cd43dd8448eb211c803195", &[first], &[able]);
    desk.tells_hosts(outside, "0af7651916cd43dd8448eb211c803195");
    desk.goes(outside, "0af7651916cd43dd8448eb211c803196", &[], &[able]);
    assert_eq!([first, other, able].map(|at| desk.turns(at)), [0, 0, 3]);

    // An agent in a turn of its own asks one host and no other, which is the one that was named last.
    let _model = desk.add_asking(outside);
    let told = format!("call agents__{SERVED} {}", json!({ "message": "within a turn" }));
    desk.goes_by(outside, (ASKING, &told), "0af7651916cd43dd8448eb211c803197", &[], &[able]);
    desk.is_bound(outside, "0af7651916cd43dd8448eb211c803197");
    assert_eq!([first, other, able].map(|at| desk.turns(at)), [0, 0, 4]);

    // The able member is killed when another one can do it too.
    desk.machines[other].add("echo", &cast::echo("echo", "own"));
    desk.all_find("echo", &[other, able]);
    desk.nodes[able].take().expect("it runs").running.kill();
    for at in [first, outside] {
        until(SOON, "the other member serves", || desk.machines[at].run(&["call", SERVED, "again"]).code == 0);
    }
    let turns = desk.turns(other);
    assert!(turns >= 2, "{turns} turns on the member that can");
    assert_eq!(desk.turns(first), 0);
    // From now on nobody is redirected.
    desk.goes(outside, "0af7651916cd43dd8448eb211c803197", &[], &[other]);
    assert_eq!(desk.turns(first), 0);
}
