//! Two nodes, of which one has an agent that counts words, made with the official SDK for JavaScript.

use std::path::Path;
use std::time::Duration;

use super::{Machine, Node, until};

const AGENT: &str = include_str!("../js/counter.cjs");
const SOON: Duration = Duration::from_secs(30);

/// Two owners' nodes on loopback; the second has the agent and trusts the first.
pub struct Pair {
    pub one: Machine,
    two: Machine,
    caller: Node,
    host: Node,
}

impl Pair {
    /// With the packages that the agent needs.
    pub fn start(packages: &Path) -> Pair {
        let (one, two) = (Machine::new(), Machine::new());
        let caller = one.up_alone(&[]);
        let host = two.up_alone(&["--peer", &caller.address("/ip4/127.0.0.1/")]);
        two.json(&["trust", &caller.owner()]);
        // A name leads to those who are trusted only.
        one.json(&["trust", &host.owner()]);
        two.write("counter.cjs", AGENT);
        two.add("counter", &file(packages));
        until(SOON, "the program is up", || two.json(&["ps"])["agents"][0]["state"] == "ready");
        until(SOON, "the agent is found on the other node", || one.finds("counter"));
        Pair { one, two, caller, host }
    }

    /// Of the node that has not the agent, then of the one that has it.
    pub fn gateways(&self) -> [String; 2] {
        [self.caller.gateway(), self.host.gateway()]
    }

    /// Waits until no task is left.
    pub fn is_idle(&self) {
        until(SOON, "no task is left", || self.two.json(&["status"])["layers"]["calls"]["liveTasks"] == 0);
    }
}

fn file(packages: &Path) -> String {
    format!(
        "name: counter\n\
         description: Says the words that it is told\n\
         skills: [{{ id: words.count, name: Count, description: Counts words, action: count, target: words }}]\n\
         runtime: {{ process: {{ command: [node, counter.cjs], cwd: ., env: {{ NODE_PATH: {packages:?} }}, \
         startup_timeout_ms: 30000 }} }}\n\
         contract: {{ class: {{ latency: srt }} }}\n\
         callers: trusted\n"
    )
}
