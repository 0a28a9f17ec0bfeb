//! `althing up`.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use althing_node::owner;
use althing_operations::{Operations, OwnerFiles};
use althing_registry::serve::Running;
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::args::Up;
use crate::commands::{Out, neighbours, print_line, text};
use crate::config::Config;
use crate::control_socket;
use crate::descriptors;
use crate::exit::Failure;
use crate::mounted;
use crate::paths::Paths;
use crate::ports::{self, Opened};
use crate::startup;
use crate::telemetry;

/// Between two looks at what a node waits for that is being stopped.
const TELL: Duration = Duration::from_millis(500);

/// Runs a node until it is told to stop.
pub async fn run(at: &Paths, up: &Up, out: &Out) -> Result<(), Failure> {
    let config = configure(at, up)?;
    descriptors::raise();
    let node = ports::node_did(at)?;
    let origin = telemetry::Origin { node, name: &at.name, network: &config.network };
    let (exporting, spans) = telemetry::start(&config.telemetry, &origin)?;
    let Opened { node, owner_changes, faces } = ports::open(at, &config, spans).await?;
    // A node has one owner, from its start on.
    let _ = node.owner_files.set(Arc::new(OwnerFiles::new(at.owner.clone(), owner_changes.clone())));
    let node = Arc::new(node);
    exporting.observe(&node);
    faces.serve(&node, &config, &at.data);
    let registry = mounted::start(&up.mounted, at, &config, node.owner().id()).await?;
    let listener = control_socket::bind(&at.socket())?;
    tokio::spawn(control_socket::serve(listener, node.clone()));
    // The stamp of when the keys were read: they may have changed while the node started.
    let known = owner_changes.borrow().stamp;
    announce(&node, registry.as_ref(), at, out);
    if !out.json {
        tokio::spawn(neighbours::tell(node.clone()));
    }
    tokio::spawn(startup::give_back_code());
    let mut terminate = signal(SignalKind::terminate()).map_err(|error| Failure::failed(error.to_string()))?;
    // The terminal was closed.
    let mut hung_up = signal(SignalKind::hangup()).map_err(|error| Failure::failed(error.to_string()))?;
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminate.recv() => {}
        _ = hung_up.recv() => {}
        () = node.run() => {}
        () = owner::follow(&at.owner, known, &owner_changes) => {}
    }
    if !out.json {
        print_line("stopping");
    }
    if let Some(registry) = registry {
        registry.shut_down().await;
    }
    stop(&node, &mut terminate, out).await;
    // An error means that it was removed already.
    let _ = std::fs::remove_file(at.socket());
    exporting.close().await;
    Ok(())
}

/// Stops the node, and says what it waits for; another Ctrl-C ends that.
async fn stop(node: &Operations, terminate: &mut Signal, out: &Out) {
    let again = async {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    tokio::select! {
        () = node.shut_down_at_once_on(again) => {}
        () = tell(node), if !out.json => {}
    }
}

/// Says what a node waits for that is being stopped, whenever that is something else.
async fn tell(node: &Operations) {
    let mut told = None;
    loop {
        tokio::time::sleep(TELL).await;
        let words = waiting_for(&node.hosting.running_turns());
        if let Some(words) = words.filter(|words| told.as_ref() != Some(words)) {
            print_line(&words);
            told = Some(words);
        }
    }
}

/// For which turns a node waits that is being stopped; none if for none.
fn waiting_for(turns: &BTreeMap<String, usize>) -> Option<String> {
    let named =
        turns.iter().map(|(agent, count)| if *count == 1 { agent.clone() } else { format!("{agent} ({count})") });
    let named: Vec<String> = named.collect();
    match turns.values().sum::<usize>() {
        0 => None,
        1 => Some(format!("waiting for 1 turn: {}; Ctrl-C again ends it", named.join(", "))),
        all => Some(format!("waiting for {all} turns: {}; Ctrl-C again ends them", named.join(", "))),
    }
}

/// The configuration file, overridden by the command line.
fn configure(at: &Paths, up: &Up) -> Result<Config, Failure> {
    let mut config = Config::read(&at.config, at.config_named)?;
    config.peers.extend(up.peers.iter().cloned());
    if let Some(gateway) = &up.gateway {
        config.gateway.listen.clone_from(gateway);
        config.gateway.fixed = true;
    }
    if !up.listen.is_empty() {
        config.node.listen.clone_from(&up.listen);
        config.node.fixed = true;
    }
    if let Some(file) = &up.network_key {
        config.network_key.clone_from(file);
    }
    if let Some(profile) = up.profile {
        config.profile = profile;
    }
    if up.introduce {
        config.introduce.enabled = true;
    }
    if up.no_lan {
        config.lan.enabled = false;
    }
    config.check().map_err(Failure::usage)?;
    config.unlock()?;
    Ok(config)
}

fn announce(node: &Operations, registry: Option<&Running>, at: &Paths, out: &Out) {
    let listening = node.communication.network().listening();
    let mounted = registry.map(|one| {
        let (url, key) = (one.url(), one.registry.note_key().to_string());
        let witness = one.witness.as_ref().map(ToString::to_string);
        json!({ "at": url, "key": key, "name": one.registry.note_key().name(), "witness": witness })
    });
    let mut value = json!({
        "node": node.key.public().did(),
        "owner": node.owner().id().to_string(),
        "gateway": node.gateway,
        "listening": listening,
        "introducing": node.lan.introductions.served().unwrap_or_default(),
        "notes": node.notes,
    });
    if let Some(mounted) = &mounted {
        value["registry"] = mounted.clone();
    }
    if out.json {
        print_line(&value.to_string());
        return;
    }
    print_line(&format!("node     {} ({})", node.key.public().did(), at.name));
    print_line(&format!("owner    {}", node.owner().id()));
    if let Some(gateway) = &node.gateway {
        print_line(&format!("gateway  {gateway}"));
    }
    if let Some(mounted) = &mounted {
        print_line(&format!("registry {}, key {}", text(mounted, "at"), text(mounted, "key")));
        if let Some(key) = mounted["witness"].as_str() {
            print_line(&format!("witness  {}, key {key}", text(mounted, "at")));
        }
    }
    for address in node.lan.introductions.served().unwrap_or_default() {
        print_line(&format!("intro    http://{address}/.well-known/wot"));
    }
    for address in listening {
        print_line(&format!("nodes    {address}"));
    }
    for note in &node.notes {
        print_line(&format!("note     {note}"));
    }
    print_line(&format!("ready; `althing{} agent add FILE` runs an agent, Ctrl-C stops the node", at.flags()));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_stops_a_node_is_told_for_which_turns_it_waits() {
        let turns = |all: &[(&str, usize)]| -> BTreeMap<String, usize> {
            all.iter().map(|(agent, count)| ((*agent).to_owned(), *count)).collect()
        };
        assert_eq!(waiting_for(&turns(&[])), None);
        let one = waiting_for(&turns(&[("weather", 1)]));
        assert_eq!(one.as_deref(), Some("waiting for 1 turn: weather; Ctrl-C again ends it"));
        let some = waiting_for(&turns(&[("maps", 2), ("weather", 1)]));
        assert_eq!(some.as_deref(), Some("waiting for 3 turns: maps (2), weather; Ctrl-C again ends them"));
    }
}
