//! `althing status`, `ps`, `peers`, `describe`, `id`.

use althing_node::{Owner, owner};
use althing_protocol::SecretKey;
use serde_json::{Value, json};

use crate::commands::agent::escape;
use crate::commands::panes::{last_words, panes, refusals};
use crate::commands::{Out, rows, short, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;
use crate::ports;

/// Prints the node's status, layer by layer.
pub async fn status(at: &Paths, out: &Out) -> Result<(), Failure> {
    let status = at.connect().await?.get("/status").await?;
    out.show(&status, |status| {
        let mut lines = vec![
            format!("node     {}", text(status, "node")),
            format!("owner    {}", text(status, "owner")),
            format!("network  {}{}", text(status, "network"), if status["private"] == true { " (private)" } else { "" }),
            format!("gateway  {}", text(status, "gateway")),
        ];
        let keys = text(&status["ownerKeys"], "state");
        if !["active", "rotating"].contains(&keys.as_str()) {
            lines.push(format!("keys     {keys}; `althing doctor` tells what to do"));
        }
        let layers = &status["layers"];
        let l1 = &layers["l1Execution"];
        lines.push(format!(
            "L1 execution      {} agents, {} turns running, {} reservations held",
            l1["agents"], l1["turns"], l1["reserved"]
        ));
        let machine = &l1["machine"];
        if machine.is_object() {
            let wake = &machine["wakeUpUs"];
            lines.push(format!(
                "machine           grade {}; real-time scheduling {}; wakes within {:.0} µs (99 of 100), {:.0} µs (999 of 1,000)",
                text(machine, "grade"),
                text(machine, "realTime"),
                wake["p99"].as_f64().unwrap_or_default(),
                wake["p999"].as_f64().unwrap_or_default()
            ));
        }
        let l2 = &layers["l2Communication"];
        lines.push(format!("L2 communication  {} peers, {} streams refused", l2["peers"], l2["streamsRefused"]));
        lines.push(format!("reached           {}", reached(&l2["reach"])));
        let table = &l2["table"];
        lines.push(format!(
            "table             {} nodes; keeps {} values and {} provider records for others, {} refused",
            table["nodes"], table["values"], table["providers"], table["refused"]
        ));
        let l3 = &layers["l3Discovery"];
        lines.push(format!(
            "L3 discovery      {} nodes, {} agents, {} refused",
            l3["nodes"], l3["agents"], l3["refused"]
        ));
        lines.push(format!("calls             {} tasks running", layers["calls"]["liveTasks"]));
        let l5 = &layers["l5Coordination"];
        if l5["groups"] != 0 {
            lines.push(format!(
                "L5 coordination   {} groups, {} led here, {} without a leader; {} of their tasks here",
                l5["groups"], l5["led"], l5["withoutLeader"], l5["tasks"]
            ));
        }
        lines.extend(rows(status, "notes").iter().filter_map(Value::as_str).map(|note| format!("note     {note}")));
        lines.join("\n")
    });
    Ok(())
}

/// Lists the agents of this node, class by class, what their programs were refused, and what those said last that do not run.
pub async fn ps(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list = at.connect().await?.get("/ps").await?;
    out.show(&list, |list| {
        let shown: Vec<String> = panes(list).iter().map(|pane| table(&pane.head, &pane.rows)).collect();
        if shown.is_empty() {
            "no agent runs here; `althing agent add FILE` adds one".to_owned()
        } else {
            let below = refusals(list).into_iter().chain(last_words(list));
            let below: String = below.map(|line| format!("\n{line}")).collect();
            shown.join("\n") + &below
        }
    });
    Ok(())
}

/// Lists the connected peers.
pub async fn peers(at: &Paths, out: &Out) -> Result<(), Failure> {
    let list = at.connect().await?.get("/peers").await?;
    out.show(&list, |list| {
        let cells = |peer: &Value| {
            let round_trip = peer["roundTripMs"].as_f64().map_or_else(String::new, |ms| format!("{ms:.1} ms"));
            vec![
                short(&text(peer, "node")),
                short(&text(peer, "owner")),
                text(peer, "address"),
                text(peer, "connections"),
                round_trip,
            ]
        };
        let all: Vec<Vec<String>> = rows(list, "peers").iter().map(cells).collect();
        table(&["node", "owner", "address", "conn", "round trip"], &all)
    });
    Ok(())
}

/// How others can reach the node, in words.
fn reached(reach: &Value) -> String {
    let relays: Vec<String> = rows(reach, "relays").iter().filter_map(Value::as_str).map(short).collect();
    match reach["state"].as_str().unwrap_or_default() {
        "internet" => {
            let at = rows(reach, "confirmed").first().and_then(Value::as_str).unwrap_or_default().to_owned();
            format!("from the internet, at {at}")
        }
        "relayed" => format!("not from the internet directly; reached through {}", relays.join(", ")),
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
