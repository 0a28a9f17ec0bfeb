//! `althing status`, `ps`, `peers`, `describe`, `id`.

use althing_api::{
    AgentEntries, GovernanceTotals, HealthStatus, HealthWord, LayerStatus, MachineStatus, NodeStatus, OsiLayer,
    OsiModel, PeerList, PeerStatus, ReachStatus, SessionTotals, VerificationTotals,
};
use althing_node::{Owner, owner};
use althing_protocol::SecretKey;
use serde_json::json;

use crate::commands::agent::escape;
use crate::commands::panes::{findings, last_words, panes, refusals};
use crate::commands::{Out, counted, short, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;
use crate::ports;

/// Prints the node's status, layer by layer.
pub async fn status(at: &Paths, out: &Out) -> Result<(), Failure> {
    let status: NodeStatus = at.connect().await?.read("/status").await?;
    out.show(&status, |status| {
        let mut lines = vec![
            format!("node     {}", status.node),
            format!("owner    {}", status.owner),
            format!("network  {}{}", status.network, if status.private { " (private)" } else { "" }),
            format!("gateway  {}", status.gateway.as_deref().unwrap_or_default()),
        ];
        let keys = status.owner_keys.state.as_str();
        if !["active", "rotating"].contains(&keys) {
            lines.push(format!("keys     {keys}; `althing doctor` tells what to do"));
        }
        lines.extend(layers(&status.layers));
        lines.extend(status.notes.iter().map(|note| format!("note     {note}")));
        lines.join("\n")
    });
    Ok(())
}

/// A line or more for each layer.
fn layers(layers: &LayerStatus) -> Vec<String> {
    let (l1, l2, l3) = (&layers.l1_execution, &layers.l2_communication, &layers.l3_discovery);
    let mut lines = vec![format!(
        "L1 execution      {}, {} running, {} held",
        counted(l1.agents, "agent"),
        counted(l1.turns, "turn"),
        counted(l1.reserved, "reservation")
    )];
    if let Some(MachineStatus { grade, real_time, wake_up_us: wake }) = &l1.machine {
        lines.push(format!(
            "machine           grade {grade}; real-time scheduling {real_time}; wakes within {:.0} µs (99 of 100), {:.0} µs (999 of 1,000)",
            wake.p99, wake.p999
        ));
    }
    let (peers, streams) = (counted(l2.peers, "peer"), counted(l2.streams_refused, "stream"));
    lines.push(format!("L2 communication  {peers}, {streams} refused"));
    lines.push(format!("reached           {}", reached(&l2.reach)));
    let table = &l2.table;
    lines.push(format!(
        "table             {}; keeps {} and {} for others, {} refused",
        counted(table.nodes, "node"),
        counted(table.values, "value"),
        counted(table.providers, "provider record"),
        table.refused
    ));
    let (nodes, agents) = (counted(l3.nodes, "node"), counted(l3.agents, "agent"));
    lines.push(format!("L3 discovery      {nodes}, {agents}, {} refused", l3.refused));
    lines.push(format!("calls             {} running", counted(layers.calls.live_tasks, "task")));
    lines.extend(sessions(layers.l4_session));
    let l5 = &layers.l5_coordination;
    if l5.groups != 0 {
        lines.push(format!(
            "L5 coordination   {}, {} led here, {} without a leader; {} of their tasks here",
            counted(l5.groups, "group"),
            l5.led,
            l5.without_leader,
            l5.tasks
        ));
    }
    lines.extend(verification(layers.l6_verification));
    lines.push(governance(&layers.l7_governance));
    lines.push(health(&layers.health));
    lines
}

/// What was found of answers, if anything was.
fn verification(totals: VerificationTotals) -> Option<String> {
    let VerificationTotals { silent, refused } = totals;
    (silent + refused != 0).then(|| {
        let turns = counted(silent, "turn");
        let answers = match refused {
            1 => "1 answer or output was".to_owned(),
            refused => format!("{refused} answers or outputs were"),
        };
        format!("L6 verification   {turns} may have failed in silence, {answers} refused: `althing ps`")
    })
}

/// The words of the layers, and who says more.
fn health(of: &HealthStatus) -> String {
    let words = of.words();
    let each: Vec<String> = (1..=7_u8).zip(words).map(|(layer, word)| format!("L{layer} {}", word.name())).collect();
    let more = if words.contains(&HealthWord::Wrong) { "; `althing doctor` says what is wrong" } else { "" };
    format!("health            {}{more}", each.join(", "))
}

/// Who decides, what waits for people, and whether things can be recorded.
fn governance(totals: &GovernanceTotals) -> String {
    let GovernanceTotals { policy, pending, audit_entries, audit_failure } = totals;
    let decides = if policy.is_some() { "policies and contracts decide" } else { "contracts decide, no policies" };
    let waits = match pending {
        0 => "nothing waits for people".to_owned(),
        1 => "1 call waits for people: `althing pending` shows it".to_owned(),
        calls => format!("{calls} calls wait for people: `althing pending` shows them"),
    };
    let log = match audit_failure {
        Some(_) => "nothing can be recorded: `althing doctor` tells why".to_owned(),
        None if *audit_entries == 1 => "1 entry in the audit log".to_owned(),
        None => format!("{audit_entries} entries in the audit log"),
    };
    format!("L7 governance     {decides}; {log}; {waits}")
}

/// The journals of this node, if it has any.
fn sessions(totals: SessionTotals) -> Option<String> {
    let SessionTotals { sessions, in_doubt, stopped } = totals;
    let told = match (in_doubt, stopped) {
        (0, 0) => String::new(),
        (_, 0) => format!(", {in_doubt} in doubt: `althing session list` tells of what"),
        (0, _) => format!(", {stopped} stopped: `althing session list` tells why"),
        _ => format!(", {in_doubt} in doubt, {stopped} stopped: `althing session list` tells of what, and why"),
    };
    (sessions != 0 || stopped != 0).then(|| format!("L4 session        {} journalled{told}", counted(sessions, "turn")))
}

/// Lists the agents of this node, class by class, what their programs were refused, and what those said last that do not run.
pub async fn ps(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list: AgentEntries = at.connect().await?.read("/ps").await?;
    out.show(&list, |list| {
        let shown: Vec<String> = panes(list).iter().map(|pane| table(&pane.head, &pane.rows)).collect();
        if shown.is_empty() {
            "no agent runs here; `althing agent add FILE` adds one".to_owned()
        } else {
            let below = refusals(list).into_iter().chain(last_words(list)).chain(findings(list));
            let below: String = below.map(|line| format!("\n{line}")).collect();
            shown.join("\n") + &below
        }
    });
    Ok(())
}

/// Shows the seven layers of the node.
pub async fn osi(at: &Paths, yaml: bool, out: &Out) -> Result<(), Failure> {
    let model: OsiModel = at.connect().await?.read("/osi").await?;
    out.show(&model, |model| {
        if yaml {
            return model.yaml();
        }
        let cells = |layer: &OsiLayer| {
            let OsiLayer { id, name, status, health, infrastructure, .. } = layer;
            vec![format!("L{id} {name}"), status.clone(), health.clone(), infrastructure.join(", ")]
        };
        table(&["layer", "status", "health", "by"], &model.layers.iter().map(cells).collect::<Vec<_>>())
    });
    Ok(())
}

/// Lists the connected peers.
pub async fn peers(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list: PeerList = at.connect().await?.read("/peers").await?;
    out.show(&list, |list| {
        let cells = |peer: &PeerStatus| {
            vec![
                short(&peer.node),
                peer.owner.as_deref().map(short).unwrap_or_default(),
                peer.address.clone(),
                peer.connections.to_string(),
                peer.round_trip_ms.map_or_else(String::new, |ms| format!("{ms:.1} ms")),
            ]
        };
        let all: Vec<Vec<String>> = list.peers.iter().map(cells).collect();
        table(&["node", "owner", "address", "conn", "round trip"], &all)
    });
    Ok(())
}

/// How others can reach the node, in words.
fn reached(reach: &ReachStatus) -> String {
    match reach.state.as_str() {
        "internet" => {
            let at = reach.confirmed.first().map(String::as_str).unwrap_or_default();
            format!("from the internet, at {at}")
        }
        "relayed" => {
            let relays: Vec<String> = reach.relays.iter().map(|relay| short(relay)).collect();
            format!("not from the internet directly; reached through {}", relays.join(", "))
        }
        "hidden" => "not from the internet, and no relay was found; `althing doctor` tells more".to_owned(),
        "nearby" => "from its own network; no peer on the internet has tried".to_owned(),
        "blocked" => "not even from its own network; `althing doctor` tells more".to_owned(),
        _ => "no peer has tried".to_owned(),
    }
}

/// Prints an agent's description, byte for byte as its publisher signed it (with --json and without).
pub async fn describe(at: &Paths, agent: &str, anyone: bool, out: &Out) -> Result<(), Failure> {
    let path = format!("/describe/{}?anyone={anyone}", escape(agent));
    let description = at.connect().await?.get(&path).await?;
    out.show(&description, |description| format!("{description:#}"));
    Ok(())
}

/// Prints the ids of this node and its owner; needs no running node.
pub fn id(at: &Paths, out: &Out) -> Result<(), Failure> {
    if !at.node_key().exists() {
        let message = format!("this node was never started; start it with `althing{} up`", at.flags());
        return Err(Failure::new(code::NO_NODE, message));
    }
    let key: SecretKey = owner::secret(&at.node_key(), &ports::entropy())?;
    let owner = Owner::open(&at.owner, &ports::clock(), &ports::entropy())?;
    let key = key.public();
    let value = json!({ "node": key.did(), "peerId": key.peer_id(), "owner": owner.id().to_string() });
    out.show(&value, |value| {
        let lines = ["node", "peerId", "owner"].map(|name| format!("{name:7} {}", text(value, name)));
        lines.join("\n")
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_decides_is_told_with_what_waits_and_what_cannot_be_recorded() {
        let mut totals = GovernanceTotals { policy: None, pending: 0, audit_entries: 3, audit_failure: None };
        let well =
            "L7 governance     contracts decide, no policies; 3 entries in the audit log; nothing waits for people";
        assert_eq!(governance(&totals), well);
        let one = governance(&GovernanceTotals { pending: 1, audit_entries: 1, ..totals.clone() });
        assert!(one.contains("1 entry in the audit log; 1 call waits for people"), "{one}");
        totals = GovernanceTotals { policy: Some("0a".to_owned()), pending: 2, ..totals };
        totals.audit_failure = Some("full".to_owned());
        let ill = "L7 governance     policies and contracts decide; nothing can be recorded: `althing doctor` tells why; 2 \
                   calls wait for people: `althing pending` shows them";
        assert_eq!(governance(&totals), ill);
    }

    #[test]
    fn each_layer_has_its_word() {
        let words = HealthStatus { l1: HealthWord::Well, l6: HealthWord::Wrong, ..HealthStatus::default() };
        let told = health(&words);
        assert!(told.contains("L1 well") && told.contains("L6 wrong") && told.contains("doctor"), "{told}");
        assert_eq!(verification(VerificationTotals::default()), None);
        let found = verification(VerificationTotals { silent: 1, refused: 2 }).expect("something was found");
        assert!(found.contains("1 turn may") && found.contains("2 answers or outputs were"), "{found}");
        let one = verification(VerificationTotals { silent: 0, refused: 1 }).expect("something was found");
        assert!(one.contains("0 turns may") && one.contains("1 answer or output was refused"), "{one}");
    }

    #[test]
    fn journals_are_told_where_there_are_any_and_doubt_with_the_command_that_shows_it() {
        let told = |all, in_doubt, stopped| sessions(SessionTotals { sessions: all, in_doubt, stopped });
        assert_eq!(told(0, 0, 0), None);
        assert_eq!(told(2, 0, 0).as_deref(), Some("L4 session        2 turns journalled"));
        assert_eq!(told(1, 0, 0).as_deref(), Some("L4 session        1 turn journalled"));
        let doubtful = "L4 session        2 turns journalled, 1 in doubt: `althing session list` tells of what";
        assert_eq!(told(2, 1, 0).as_deref(), Some(doubtful));
        let stopped = "L4 session        0 turns journalled, 3 stopped: `althing session list` tells why";
        assert_eq!(told(0, 0, 3).as_deref(), Some(stopped));
        let both = told(2, 1, 3).expect("there are some");
        assert!(both.contains("1 in doubt, 3 stopped: `althing session list`"), "{both}");
    }
}
