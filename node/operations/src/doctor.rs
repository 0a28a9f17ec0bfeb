//! Diagnoses why something does not work, by layer (the seven of the Agent OSI model). The status is gathered from the node
//! ([`gather`]) and judged without one ([`diagnose`]).

mod call;
mod finding;
mod gather;
mod governance;
mod health;
mod health_words;
mod mesh;
mod overhead;
mod registries;
mod sessions;
mod stopped;
mod storage;
mod telemetry;
mod tool_lists;
mod verification;

use std::collections::{BTreeMap, BTreeSet};

use althing_execution::process::FILE_GIB_MAX;
use althing_execution::{Containment, Level};
use althing_failure::{AgentStep, GroupStep, KeyStep, NodeStep};
pub use call::{AgentOutage, CallPath, diagnose_call, examine_call};
pub use finding::{Finding, counted};
pub use gather::{examine, refused_tools, short};
pub use governance::GovernanceHealth;
pub use health::layer_health;
pub use health_words::{Health, HealthWords, LayerHealth};
pub use mesh::Mesh;
pub use overhead::{Overhead, OverheadRow, overhead};
pub use registries::RegistryHealth;
pub use sessions::{Sessions, TaskDoubt};
pub use storage::{Storage, loose_mode, loose_note};
pub use tool_lists::{silent_servers, tool_notes};
pub use verification::TurnFinding;

use crate::collector::CollectorTrouble;
use finding::{fine, fitting, note, wrong};
use stopped::Stop;

/// What to do about tasks of a group that want the same resource.
const DECIDE: &str = "members vote on it, or an owner decides, by the resource's rule (docs/groups.md)";

/// What to do where programs are in no control group.
const GROUP: &str = "start the node in a control group of its own, which it may divide: `systemd-run --user --scope -p \
                     Delegate=yes althing up`, or `Delegate=yes` in its unit";

/// What to do where programs could be contained more.
const CONTAIN: &str = "let this account make user namespaces (a container: --security-opt seccomp=unconfined, or its equal), or \
                       use a kernel with Landlock (5.13 or later; from 6.12 on it leaves nothing open)";

/// What to do where Landlock leaves open what newer kernels close.
const NEWER: &str = "let this account make user namespaces, or use the Linux that is named: `sandbox: required` in an agent file \
                     keeps its program from starting where files or the network are open";

/// What to do where a program may reach what is the node's own by paths that nobody knows.
const ELSEWHERE: &str =
    "do what the reason says; `sandbox: required` in an agent file keeps its program from starting until then";

/// What to do where a program is not given all that its file names.
const NARROWER: &str = "name the folders that it needs under `sandbox: read` in place of what holds them, or under `write` what it may \
                        also change and connect to; have services make their sockets elsewhere";

/// What to do where programs could fill a disk.
const DISK: &str = "give this account a quota, or the folders that programs may write a disk of their own";

/// What was found.
#[derive(Debug, Clone)]
pub struct Report {
    /// What was checked, layer by layer.
    pub findings: Vec<Finding>,
    /// The dial-backs of just now; empty where an agent was asked about.
    pub dialled_back: Vec<DialBack>,
}

/// A peer that was asked to dial this node back.
#[derive(Debug, Clone)]
pub struct DialBack {
    /// The peer's short name.
    pub peer: String,
    /// Whether it dials from the internet.
    pub from_internet: bool,
    /// Address and error of each dial, an empty error if it succeeded; or why the peer could not be asked.
    pub outcome: Result<Vec<(String, String)>, String>,
}

/// The status of a node, as far as the diagnosis needs it.
#[derive(Debug, Clone, Default)]
pub struct NodeStatus {
    /// Agents that do not run, and why.
    pub failed: Vec<(String, String)>,
    /// What a program of such an agent said last.
    pub said: BTreeMap<String, String>,
    /// Agents that `althing adopt --accept` adopts again.
    pub adopted: BTreeSet<String>,
    /// Agents that were installed, and whose releases were revoked.
    pub revoked: BTreeSet<String>,
    /// Agents that their owner stopped or revoked.
    pub halted: BTreeSet<String>,
    /// Control loops that the owner's policies do not permit.
    pub forbidden: BTreeSet<String>,
    /// Control loops that run no more jobs until they are added again.
    pub suspended: BTreeSet<String>,
    /// Agents, and tools that are withheld from them, and why.
    pub tools: Vec<(String, String)>,
    /// Agents, and services that did not accept their credentials.
    pub unauthorised: Vec<(String, String)>,
    /// Agents whose programs listen on a port.
    pub open_ports: Vec<String>,
    /// Programs that run, as `AGENT (runtime)` or `AGENT (tools.NAME)`, and how they are contained.
    pub containment: Vec<(String, Containment)>,
    /// Agents that run, and who may find them: `public`, `trusted`, `own` or `hidden`.
    pub agents: Vec<(String, String)>,
    /// Agents, and what clients of MCP see of their tools that is not as their servers wrote it.
    pub listed: Vec<(String, String)>,
    /// Agents that run, and tool servers of theirs that did not answer, and why.
    pub silent: Vec<(String, String)>,
    /// Whether data can be written.
    pub storage: Storage,
    /// The state of the owner's keys: `active`, `rotating`, `outdated` or `revoked`.
    pub owner_keys: String,
    /// Peers that refuse this node's messages, and why.
    pub refused_by: Vec<(String, String)>,
    /// Peers that are connected.
    pub peers: usize,
    /// Addresses of the configuration that cannot be reached, and why.
    pub unreachable: Vec<(String, String)>,
    /// Addresses of the configuration.
    pub configured: usize,
    /// Whether the LAN should be searched.
    pub lan: bool,
    /// Why it is not searched although it should be.
    pub lan_trouble: Option<String>,
    /// Where it is searched, whom the node remembers, and who uses one key.
    pub mesh: Mesh,
    /// The dial-backs of just now.
    pub dialled_back: Vec<DialBack>,
    /// How others can reach this node: `internet`, `relayed`, `hidden`, `nearby`, `blocked` or `unknown`.
    pub reach: String,
    /// Nodes in the table.
    pub table: usize,
    /// Turns that survive its end.
    pub sessions: Sessions,
    /// What failed in silence, or was refused by a gate.
    pub turns: Vec<TurnFinding>,
    /// What is decided, asked and recorded.
    pub governance: GovernanceHealth,
    /// What is the matter with versions of agents.
    pub rollouts: Vec<althing_node::rollouts::RolloutTrouble>,
    /// The groups that this node belongs to.
    pub groups: Vec<GroupHealth>,
    /// Entries of `things.urls` that cannot be read, and why.
    pub unread: Vec<(String, String)>,
    /// The registries that it follows.
    pub registries: Vec<RegistryHealth>,
    /// Addresses of the collector of telemetry that take nothing, and why; none where no collector is configured.
    pub collector: Option<Vec<(String, CollectorTrouble)>>,
    /// What is to be said of how its faces are configured.
    pub faces: Vec<Finding>,
}

/// A group that the node belongs to.
#[derive(Debug, Clone, Default)]
pub struct GroupHealth {
    /// Its name.
    pub name: String,
    /// Why its replica does not run, if so.
    pub failure: Option<String>,
    /// Whether somebody leads.
    pub is_led: bool,
    /// Its voters.
    pub voters: usize,
    /// Those to whom there is a connection, this node included.
    pub reached: usize,
    /// The others, each with for how long it is silent, as far as that is known.
    pub silent: Vec<String>,
    /// Schedules whose last three runs failed.
    pub alarms: Vec<String>,
    /// Resources that several tasks want, which nobody was given yet since members or a person must decide, and how many
    /// tasks wait.
    pub undecided: Vec<(String, usize)>,
    /// The last decisions between tasks that wanted the same resource, newest first, each in words.
    pub conflicts: Vec<String>,
    /// Members that equivocated when they led it, as proofs show.
    pub equivocated: Vec<String>,
    /// Members that had another state than this one at the last mark.
    pub differing: Vec<String>,
}

/// Judges a status: what is wrong, and what is not.
#[must_use]
pub fn diagnose(status: &NodeStatus) -> Vec<Finding> {
    let mut findings = Vec::new();
    runtime(status, &mut findings);
    identity(status, &mut findings);
    mesh::keys(&status.mesh, &mut findings);
    discovery(status, &mut findings);
    visibility(status, &mut findings);
    sessions::judge(&status.sessions, &mut findings);
    groups(status, &mut findings);
    verification::judge(&status.turns, &mut findings);
    findings.extend(status.rollouts.iter().map(verification::judge_rollout));
    governance::judge(&status.governance, &mut findings);
    findings.extend(status.registries.iter().map(registries::judge));
    findings.extend(status.registries.iter().flat_map(registries::judge_held));
    findings.extend(status.collector.iter().flat_map(|troubles| telemetry::judge(troubles)));
    findings.extend(status.faces.iter().cloned());
    findings
}

fn equivocated(group: &str, node: &str) -> Finding {
    wrong(
        "L5",
        format!("{node} gave members of the group {group:?} different entries when it led it, as it signed itself"),
        "compare what the members have",
    )
    .then(GroupStep::Expel { group: group.to_owned(), node: node.to_owned() })
}

fn differs(group: &str, node: &str) -> Finding {
    wrong(
        "L5",
        format!("{node} has another state of the group {group:?} than this node"),
        "compare the versions of both, and what the group's values and tasks are there. If most members differ, this node is the \
         odd one",
    )
    .then(GroupStep::RejoinOdd(group.to_owned()))
}

/// A group that is led: what it can still lose.
fn led(group: &GroupHealth) -> Finding {
    let GroupHealth { name, voters, reached, silent, .. } = group;
    let what = format!("the group {name:?} is led; {reached} of {voters} voters are reached");
    match (reached - (voters / 2 + 1), voters - reached) {
        (0, 0) => fine("L5", format!("{what}: it stops without any of them")),
        (0, _) => note(
            "L5",
            format!("{what} ({}): it bears no further loss", silent.join(", ")),
            "start the nodes that are silent",
        )
        .then(GroupStep::ReplaceSilent),
        (more, 0) => fine("L5", format!("{what}; it bears the loss of {more}")),
        (more, _) => note(
            "L5",
            format!("{what} ({}); it bears the loss of {more} more", silent.join(", ")),
            "start the nodes that are silent",
        ),
    }
}

fn groups(status: &NodeStatus, findings: &mut Vec<Finding>) {
    for group in &status.groups {
        let GroupHealth { name, voters, reached, .. } = group;
        findings.extend(group.alarms.iter().map(|schedule| {
            wrong("L5", format!("the last three runs of the schedule {schedule:?} of the group {name:?} failed"), "")
                .then(GroupStep::ShowRuns(name.clone()))
        }));
        findings.extend(group.equivocated.iter().map(|node| equivocated(name, node)));
        findings.extend(group.differing.iter().map(|node| differs(name, node)));
        findings.extend(group.undecided.iter().map(|(resource, tasks)| {
            wrong(
                "L5",
                format!(
                    "{tasks} tasks of the group {name:?} want {resource:?}, and it is not decided which one gets it"
                ),
                DECIDE,
            )
        }));
        findings
            .extend(group.conflicts.iter().map(|conflict| fine("L5", format!("in the group {name:?}, {conflict}"))));
        match &group.failure {
            Some(why) => findings.push(
                wrong("L5", format!("the group {name:?} does not run here: {why}"), "")
                    .then(GroupStep::RejoinIfDamaged(name.clone())),
            ),
            None if group.is_led && reached * 2 > *voters => findings.push(led(group)),
            None if reached * 2 > *voters => findings.push(wrong(
                "L5",
                format!("the group {name:?} has no leader, though {reached} of {voters} voters are reached"),
                "an election takes about a second; if this stays, ask on the other members",
            )),
            None => findings.push(wrong(
                "L5",
                format!("the group {name:?} can decide nothing: {reached} of {voters} voters are reached"),
                format!("start nodes of its members until {} voters are reached", voters / 2 + 1),
            )),
        }
    }
}

/// Why an agent does not run.
fn stop(status: &NodeStatus, agent: &str) -> Stop {
    match agent {
        _ if status.halted.contains(agent) => Stop::Halted,
        _ if status.forbidden.contains(agent) => Stop::Forbidden,
        _ if status.revoked.contains(agent) => Stop::Revoked,
        _ if status.adopted.contains(agent) => Stop::Adopted,
        _ if status.suspended.contains(agent) => Stop::Suspended,
        _ => Stop::Failed,
    }
}

fn runtime(status: &NodeStatus, findings: &mut Vec<Finding>) {
    let said = |agent: &String| status.said.get(agent).map(String::as_str);
    let stops =
        status.failed.iter().map(|(agent, why)| stopped::judge(&stop(status, agent), (agent, why), said(agent)));
    findings.extend(stops);
    for (agent, why) in &status.tools {
        let is_adopted = status.adopted.contains(agent);
        let bind = if is_adopted { AgentStep::AcceptTool } else { AgentStep::RebindTool };
        let remedy = "check what that server's author changed and why";
        findings
            .push(wrong("L1", format!("agent {agent:?} is not given a tool: {why}"), remedy).then(bind(agent.clone())));
    }
    for agent in &status.open_ports {
        findings.push(wrong(
            "L1",
            format!(
                "agent {agent:?} listens on a port of this machine (`port: tcp`): every account here can call it, bypassing \
                 its callers, its contract and the gateway's token"
            ),
            "let the program listen on the socket that it is handed (LISTEN_FDS, ALTHING_SOCKET), and remove `port: tcp`; \
             or let nobody else use this machine",
        ));
    }
    contained(status, findings);
    tool_lists::judge(&status.listed, &status.silent, findings);
    storage::judge(&status.storage, status.agents.len(), findings);
}

/// What programs reach.
fn contained(status: &NodeStatus, findings: &mut Vec<Finding>) {
    for (program, how) in &status.containment {
        let reach = how.reach();
        let what = format!("the program of {program} is {reach}");
        findings.push(match (how.is_off, how.level) {
            (true, _) => note(
                "L1",
                format!("the sandbox of {program} is {reach}: it reads whatever this account reads, the node's keys too"),
                "if it need not, write into its agent file what it needs under `sandbox` in place of `none`, and add it again",
            ),
            (false, Level::None) => wrong(
                "L1",
                format!("{what}; it reads whatever this account reads, the node's keys too"),
                format!("{CONTAIN}; `sandbox: required` in an agent file keeps its program from starting until then"),
            ),
            (false, Level::Account) => note(
                "L1",
                format!("{what}; it asks any host, and reads what every account may read"),
                CONTAIN,
            ),
            (false, Level::Landlock) if !how.gaps.is_empty() => note("L1", what, NEWER),
            (false, Level::Namespaces) if !how.why.is_empty() => note("L1", what, ELSEWHERE),
            (false, Level::Landlock | Level::Namespaces) => fine("L1", what),
        });
        if let Some(withheld) = how.withheld() {
            findings.push(note("L1", format!("the program of {program} is not given {withheld}"), NARROWER));
        }
        if !how.unbounded.is_empty() {
            findings.push(note("L1", format!("nothing bounds of the program of {program} {}", how.unbounded), GROUP));
        }
    }
    if !status.containment.is_empty() {
        let what =
            format!("nothing bounds how much programs write to disk, but that a file has {FILE_GIB_MAX} GiB at most");
        findings.push(note("L1", what, DISK));
    }
}

fn identity(status: &NodeStatus, findings: &mut Vec<Finding>) {
    match status.owner_keys.as_str() {
        "outdated" => findings.push(
            wrong("L2", "the owner's key on this machine was rotated away elsewhere: what it signs is refused", "")
                .then(KeyStep::BringHere),
        ),
        "withdrawn" => findings.push(wrong(
            "L2",
            "the owner has taken back what it let this node do: peers refuse its agents and do not trust it",
            "this ends by itself a day after the revocation; if it was a mistake, give the node a new key: move node.key in \
             its data directory away",
        )),
        "revoked" => findings.push(wrong(
            "L2",
            "the owner's keys were revoked: peers refuse this node's agents",
            "this is final; move the files owner* in the configuration directory away to start over with a new identity",
        )),
        state => findings.push(fine("L2", format!("the owner's keys are {state}"))),
    }
    for (agent, service) in &status.unauthorised {
        let what = format!("agent {agent:?} cannot authenticate: {service}");
        findings.push(wrong("L2", what, "").then(AgentStep::SetCredential));
    }
    for (peer, why) in &status.refused_by {
        let clock = why.contains("clock") || why.contains("expired");
        let remedy = if clock {
            "set the clocks of both machines (more than two minutes apart is too much)"
        } else {
            "fix what the reason says; if the versions differ, upgrade the older node"
        };
        findings.push(wrong("L2", format!("{peer} refuses this node's messages: {why}"), remedy));
    }
}

fn discovery(status: &NodeStatus, findings: &mut Vec<Finding>) {
    for (address, why) in &status.unreachable {
        findings.push(wrong(
            "L3",
            format!("{address}, which the configuration names, cannot be reached: {why}"),
            "check that the node runs, that the address is right, that no firewall blocks this machine, and that both have the \
             same network key or none",
        ));
    }
    for (place, why) in &status.unread {
        findings.push(wrong(
            "L3",
            format!("no Things are found at {place}, which `things.urls` names: {why}"),
            "it must be a Thing Description, a list of them, or a directory (`curl` shows it); it is read again each 30 s",
        ));
    }
    if let Some(why) = &status.lan_trouble {
        let what = format!("the LAN is not searched: {why}");
        findings.push(wrong("L3", what, "").then(NodeStep::NamePeerInstead));
    } else if status.lan {
        mesh::interfaces(&status.mesh, findings);
    }
    mesh::introductions(&status.mesh, findings);
    mesh::remembered(&status.mesh, status.peers, findings);
    if status.peers > 0 {
        let (are, nodes) = (fitting(status.peers, "is", "are"), counted(status.table, "node"));
        findings.push(fine("L3", format!("{} {are} connected, {nodes} in the table", counted(status.peers, "peer"))));
        return;
    }
    let (what, remedy) = match (status.lan && status.lan_trouble.is_none(), status.configured) {
        (true, 0) => (
            "no peer is connected: nobody on this LAN announces itself, and no address is configured",
            "start a node on another machine of this LAN with the same `network`",
        ),
        (_, 0) => ("no peer is connected: no address is configured", "have the LAN searched"),
        _ => (
            "no peer is connected, though addresses are configured",
            "see above; and compare `network` on both machines: nodes of different networks do not connect",
        ),
    };
    // Who is alone from the beginning, and looks for nobody, may want that.
    let was_connected = status.table > 0 || status.reach != "unknown";
    let is_alone = status.configured == 0 && !was_connected;
    let finding = if is_alone { note("L3", what, remedy) } else { wrong("L3", what, remedy) };
    findings.push(if status.configured == 0 { finding.then(NodeStep::NamePeer) } else { finding });
}

/// Why others do not see this node, or its agents.
fn visibility(status: &NodeStatus, findings: &mut Vec<Finding>) {
    let failures = |internet: bool| {
        let asked = status.dialled_back.iter().filter(move |asked| asked.from_internet == internet);
        asked.filter_map(|asked| asked.outcome.as_ref().ok()).flatten().filter(|(_, why)| !why.is_empty()).collect()
    };
    let first = |failures: Vec<&(String, String)>| {
        failures.first().map_or_else(String::new, |(address, why)| format!(" ({address}: {why})"))
    };
    match status.reach.as_str() {
        // What was so when there were peers.
        "internet" | "relayed" | "nearby" if status.peers == 0 => {}
        "internet" => findings.push(fine("L3", "others can dial this node from the internet")),
        "relayed" => findings.push(fine(
            "L3",
            format!("nobody on the internet can dial this node{}; it is reached through relays", first(failures(true))),
        )),
        "hidden" => findings.push(wrong(
            "L3",
            format!("nobody on the internet can dial this node{}, and no relay was found", first(failures(true))),
            "forward its port on the router and name the address in `node.announce`; or connect it to a node that can be \
             dialled, which then relays connections",
        )),
        "blocked" => findings.push(wrong(
            "L3",
            format!("peers on the same network cannot dial this node{}", first(failures(false))),
            "probably a firewall on this machine: open its port (TCP and UDP 7421, unless `node.listen` says \
             otherwise)",
        )),
        "nearby" => findings.push(fine("L3", "peers on the same network can dial this node; nobody elsewhere was asked")),
        _ if status.peers == 0 => {}
        _ => findings.push(wrong(
            "L3",
            "no peer has tried to dial this node yet",
            "it listens on loopback only, or its peers run older versions: see `node.listen`",
        )),
    }
    for (agent, exposure) in &status.agents {
        match exposure.as_str() {
            "hidden" => findings.push(fine("L3", format!("agent {agent:?} is hidden: only this node can find it"))),
            "own" => findings.push(fine("L3", format!("agent {agent:?} can be found only by its owner's nodes"))),
            "trusted" => {
                findings.push(fine("L3", format!("agent {agent:?} can be found only by peers that this node trusts")));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use althing_execution::{Enclosed, Lacks};
    use althing_td::Sandbox;

    use super::*;

    fn group(reached: usize, failure: Option<&str>) -> GroupHealth {
        let failure = failure.map(str::to_owned);
        GroupHealth { name: "team".to_owned(), failure, voters: 3, reached, ..GroupHealth::default() }
    }

    fn bare() -> Containment {
        let (why, unbounded) = ("no reason".to_owned(), String::new());
        let (level, account, is_off) = (Level::None, None, false);
        let (gaps, withheld) = (Vec::new(), Vec::new());
        Containment { level, why, gaps, account, is_off, withheld, unbounded, lacks: Lacks::default() }
    }

    fn well() -> NodeStatus {
        NodeStatus {
            agents: vec![("echo".to_owned(), "public".to_owned())],
            owner_keys: "active".to_owned(),
            peers: 2,
            lan: true,
            reach: "nearby".to_owned(),
            table: 2,
            ..NodeStatus::default()
        }
    }

    fn says_what_to_do(finding: &Finding) -> bool {
        !finding.remedy.is_empty() || finding.next.is_some()
    }

    /// The one thing that is wrong.
    fn only_fault(status: &NodeStatus) -> Finding {
        let wrong: Vec<Finding> = diagnose(status).into_iter().filter(|finding| !finding.fine).collect();
        assert_eq!(wrong.len(), 1, "{wrong:?}");
        assert!(says_what_to_do(&wrong[0]), "{wrong:?}");
        wrong[0].clone()
    }

    #[test]
    fn a_group_that_is_led_says_what_it_can_still_lose() {
        let told = |voters: usize, silent: &[&str]| {
            let silent: Vec<String> = silent.iter().map(|node| format!("{node} is silent for 30 s")).collect();
            let reached = voters - silent.len();
            let group = GroupHealth { is_led: true, voters, reached, silent, ..group(reached, None) };
            let findings = diagnose(&NodeStatus { groups: vec![group], ..well() });
            assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
            let of_group = findings.into_iter().find(|finding| finding.layer == "L5").expect("it is told");
            let does = says_what_to_do(&of_group);
            (of_group.what, does)
        };
        let led = |rest: &str| format!("the group \"team\" is led; {rest}");
        assert_eq!(told(1, &[]), (led("1 of 1 voters are reached: it stops without any of them"), false));
        assert_eq!(told(3, &[]), (led("3 of 3 voters are reached; it bears the loss of 1"), false));
        let last = led("2 of 3 voters are reached (t1 is silent for 30 s): it bears no further loss");
        assert_eq!(told(3, &["t1"]), (last, true));
        let one = led("4 of 5 voters are reached (t1 is silent for 30 s); it bears the loss of 1 more");
        assert_eq!(told(5, &["t1"]), (one, true));
    }

    #[test]
    fn of_a_program_that_does_not_run_its_last_words_are_told_once() {
        let failed = |why: &str| NodeStatus {
            failed: vec![("weather".to_owned(), why.to_owned())],
            said: BTreeMap::from([("weather".to_owned(), "No module".to_owned())]),
            ..well()
        };
        let told = only_fault(&failed("it showed no agent card"));
        assert!(told.what.ends_with("it showed no agent card; its program said: No module"), "{told:?}");
        assert_eq!(told.next, Some(AgentStep::Mend { agent: "weather".to_owned(), said: true }.into()));
        let told = only_fault(&failed("it ended; it said: No module"));
        assert!(told.what.ends_with("it ended; it said: No module"), "{told:?}");
    }

    #[test]
    fn what_of_the_node_s_own_may_show_elsewhere_is_noted_and_no_fault() {
        let why = "nobody knows what is mounted";
        let how = Containment { level: Level::Namespaces, why: why.to_owned(), ..bare() };
        let findings = diagnose(&NodeStatus { containment: vec![("maps (runtime)".to_owned(), how)], ..well() });
        assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
        let told = findings.iter().find(|finding| finding.what.contains(why)).expect("it is told");
        assert!(told.remedy.contains("`sandbox: required`"), "{told:?}");
    }

    #[test]
    fn what_nothing_bounds_is_noted_and_no_fault() {
        let why = "the number of its processes (no control groups)";
        let how = Containment { level: Level::Namespaces, unbounded: why.to_owned(), ..bare() };
        let findings = diagnose(&NodeStatus { containment: vec![("slow (runtime)".to_owned(), how)], ..well() });
        assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
        let told = findings.iter().find(|finding| finding.what.contains(why)).expect("it is told");
        assert!(told.remedy.contains("Delegate=yes"), "{told:?}");
        let told = findings.iter().find(|finding| finding.what.contains("64 GiB")).expect("it is told");
        assert!(told.remedy.contains("quota"), "{told:?}");
        assert!(!diagnose(&well()).iter().any(|finding| finding.what.contains("64 GiB")), "it runs no programs");
    }

    #[test]
    fn a_sandbox_that_is_off_or_an_account_alone_is_noted_with_what_to_do_and_no_fault() {
        let off = Containment { is_off: true, ..bare() };
        let account = Containment { level: Level::Account, account: Some(7), ..bare() };
        for (how, what, remedy) in
            [(off, "off (sandbox: none)", "under `sandbox`"), (account, "an account of its own only, 7", "Landlock")]
        {
            let findings = diagnose(&NodeStatus { containment: vec![("maps (runtime)".to_owned(), how)], ..well() });
            assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
            let told = findings.iter().find(|finding| finding.what.contains(what)).expect("it is told");
            assert!(told.remedy.contains(remedy), "{told:?}");
        }
        let none = NodeStatus { containment: vec![("maps (runtime)".to_owned(), bare())], ..well() };
        assert!(only_fault(&none).remedy.contains("`sandbox: required`"));
    }

    #[test]
    fn what_an_older_landlock_leaves_open_is_noted_with_the_kernel_that_closes_it_and_no_fault() {
        let findings = |landlock| {
            let (why, bounds, account, withheld) = Default::default();
            let enclosed = Enclosed { level: Level::Landlock, why, bounds, account, landlock, withheld };
            let how = Containment::of(&Sandbox::default(), enclosed);
            diagnose(&NodeStatus { containment: vec![("maps (runtime)".to_owned(), how)], ..well() })
        };
        let old = findings(3);
        assert!(old.iter().all(|finding| finding.fine), "{old:?}");
        let told = old.iter().find(|finding| finding.what.contains("leaves open: the network (before Linux 6.7)"));
        assert!(told.expect("it is told").remedy.contains("user namespaces"), "{old:?}");
        assert!(!findings(6).iter().any(|finding| finding.what.contains("leaves open")), "nothing is open");
    }

    #[test]
    fn a_node_that_is_well_has_no_fault() {
        assert!(diagnose(&well()).iter().all(|finding| finding.fine));
    }

    #[test]
    fn what_is_to_be_done_depends_on_where_an_agent_is_from() {
        let named = || vec![("x".to_owned(), "why".to_owned())];
        let x: BTreeSet<String> = ["x".to_owned()].into();
        let (agent, said) = (|| "x".to_owned(), false);
        for (status, step) in [
            (NodeStatus { failed: named(), ..well() }, AgentStep::Mend { agent: agent(), said }),
            (
                NodeStatus { failed: named(), adopted: x.clone(), ..well() },
                AgentStep::MendOrAccept { agent: agent(), said },
            ),
            (NodeStatus { failed: named(), revoked: x.clone(), ..well() }, AgentStep::Update { agent: agent(), said }),
            (NodeStatus { tools: named(), ..well() }, AgentStep::RebindTool(agent())),
            (NodeStatus { tools: named(), adopted: x.clone(), ..well() }, AgentStep::AcceptTool(agent())),
        ] {
            let fault = only_fault(&status);
            assert_eq!(fault.next, Some(step.into()), "{fault:?}");
        }
        // Its owner wanted that, by policies too.
        let findings = diagnose(&NodeStatus { failed: named(), forbidden: x.clone(), ..well() });
        assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
        let told = findings.into_iter().find(|finding| finding.what.contains("does not run")).expect("it is told");
        assert_eq!((told.layer, told.next), ("L7", Some(NodeStep::LoadPolicy.into())));
        let findings = diagnose(&NodeStatus { failed: named(), halted: x, ..well() });
        assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
        let told = findings.into_iter().find(|finding| finding.what.contains("does not run")).expect("it is told");
        assert_eq!(told.layer, "L7");
        assert_eq!(told.next, Some(AgentStep::AddAgain(agent()).into()), "{told:?}");
    }

    #[test]
    fn a_node_that_is_alone_and_looks_for_nobody_is_well_and_is_told_how_to_find_others() {
        let alone = NodeStatus { peers: 0, table: 0, reach: "unknown".to_owned(), ..well() };
        let findings = diagnose(&alone);
        assert!(findings.iter().all(|finding| finding.fine), "{findings:?}");
        assert!(findings.iter().any(|finding| finding.layer == "L3" && !finding.remedy.is_empty()), "{findings:?}");
        // Its peers are gone: nobody can dial it now, whatever was so before.
        let left = NodeStatus { peers: 0, ..well() };
        assert!(only_fault(&left).what.contains("no peer is connected"));
        assert!(!diagnose(&left).iter().any(|finding| finding.what.contains("can dial this node")));
    }

    #[test]
    fn each_fault_is_named_with_its_layer() {
        let named = |text: &str| vec![("x".to_owned(), text.to_owned())];
        let dialled = |internet: bool| {
            vec![DialBack {
                peer: "p".to_owned(),
                from_internet: internet,
                outcome: Ok(vec![("/ip4/5.0.0.9/tcp/7421".to_owned(), "nobody answered".to_owned())]),
            }]
        };
        let clock = "object refused: it becomes valid in 5 ms; compare the clocks of both machines";
        let cases = [
            (NodeStatus { failed: named("no such model"), ..well() }, "L1", "no such model"),
            (NodeStatus { tools: named("TOOL_CHANGED"), ..well() }, "L1", "TOOL_CHANGED"),
            (NodeStatus { silent: named("its tool server maps"), ..well() }, "L1", "its tool server maps"),
            (
                NodeStatus { containment: vec![("slow (runtime)".to_owned(), bare())], ..well() },
                "L1",
                "not contained: no reason; it reads",
            ),
            (NodeStatus { open_ports: vec!["slow".to_owned()], ..well() }, "L1", "every account here can call it"),
            (
                NodeStatus {
                    storage: Storage { unwritable: Some("no space left".to_owned()), ..Storage::default() },
                    ..well()
                },
                "L1",
                "no space left",
            ),
            (NodeStatus { owner_keys: "outdated".to_owned(), ..well() }, "L2", "rotated away"),
            (NodeStatus { groups: vec![group(1, None)], ..well() }, "L5", "1 of 3 voters"),
            (
                NodeStatus { groups: vec![GroupHealth { is_led: true, ..group(1, None) }], ..well() },
                "L5",
                "can decide nothing",
            ),
            (
                NodeStatus {
                    groups: vec![GroupHealth { alarms: vec!["nightly".to_owned()], is_led: true, ..group(3, None) }],
                    ..well()
                },
                "L5",
                "schedule \"nightly\" of the group \"team\" failed",
            ),
            (
                NodeStatus {
                    groups: vec![GroupHealth {
                        undecided: vec![("report.txt".to_owned(), 2)],
                        is_led: true,
                        ..group(3, None)
                    }],
                    ..well()
                },
                "L5",
                "2 tasks of the group \"team\" want \"report.txt\"",
            ),
            (
                NodeStatus {
                    groups: vec![GroupHealth {
                        equivocated: vec!["did:key:z6Mk".to_owned()],
                        is_led: true,
                        ..group(3, None)
                    }],
                    ..well()
                },
                "L5",
                "did:key:z6Mk gave members of the group \"team\" different entries",
            ),
            (
                NodeStatus {
                    groups: vec![GroupHealth {
                        differing: vec!["did:key:z6Mk".to_owned()],
                        is_led: true,
                        ..group(3, None)
                    }],
                    ..well()
                },
                "L5",
                "did:key:z6Mk has another state of the group \"team\"",
            ),
            (NodeStatus { unauthorised: named("m at http://m answered 401"), ..well() }, "L2", "answered 401"),
            (
                NodeStatus {
                    collector: Some(vec![("http://c/v1/logs".to_owned(), CollectorTrouble::Silent)]),
                    ..well()
                },
                "L7",
                "the collector at http://c/v1/logs takes nothing",
            ),
            (NodeStatus { groups: vec![group(2, None)], ..well() }, "L5", "though 2 of 3"),
            (NodeStatus { groups: vec![group(3, Some("a damaged row"))], ..well() }, "L5", "a damaged row"),
            (NodeStatus { owner_keys: "revoked".to_owned(), ..well() }, "L2", "revoked"),
            (NodeStatus { owner_keys: "withdrawn".to_owned(), ..well() }, "L2", "taken back"),
            (NodeStatus { refused_by: named(clock), ..well() }, "L2", "becomes valid"),
            (NodeStatus { unreachable: named("connection refused"), ..well() }, "L3", "connection refused"),
            (NodeStatus { peers: 0, reach: "unknown".to_owned(), ..well() }, "L3", "nobody on this LAN"),
            (NodeStatus { peers: 0, configured: 1, reach: "unknown".to_owned(), ..well() }, "L3", "though addresses"),
            (NodeStatus { lan_trouble: Some("no multicast".to_owned()), ..well() }, "L3", "no multicast"),
            (NodeStatus { reach: "hidden".to_owned(), dialled_back: dialled(true), ..well() }, "L3", "nobody answered"),
            (
                NodeStatus { reach: "blocked".to_owned(), dialled_back: dialled(false), ..well() },
                "L3",
                "nobody answered",
            ),
        ];
        for (status, layer, what) in cases {
            let fault = only_fault(&status);
            assert_eq!(fault.layer, layer, "{fault:?}");
            assert!(fault.what.contains(what), "{fault:?}");
        }
    }
}
