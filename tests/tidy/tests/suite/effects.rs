//! Nothing is done that nobody decided on: each place from which an effect is reached is listed with the gate that it passes, from
//! the effect up to the gate. Whoever reaches an effect by another way fails until that is listed too (row C1).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::OnceLock;

use crate::support::parsed;

mod calls;
mod list;

use calls::{Call, functions};
use list::{BELOW_SERVERS, DECIDES, EFFECTS, GATES, Way};

const REMEDY: &str = "an effect is reached by a way that nobody listed: have it pass a gate (`Decide`, `ToolGate`, `admit`) before it \
is reached, and list it with that gate in tests/tidy/tests/suite/effects/list.rs";

/// Where ways are looked for. The registry is there for its client, by which a node changes what others see.
const SEARCHED: &[&str] = &["node", "registry"];

/// Where a step towards an effect is taken: a function of a file.
type Place = (String, String);

/// What each function of production calls; methods of one name in one file count as one.
fn production() -> &'static BTreeMap<Place, Vec<Call>> {
    // Each test asks, and each answer parses the whole tree.
    static CALLS: OnceLock<BTreeMap<Place, Vec<Call>>> = OnceLock::new();
    CALLS.get_or_init(all_calls)
}

fn all_calls() -> BTreeMap<Place, Vec<Call>> {
    let (files, _) = crate::support::rust_files();
    let mut all: BTreeMap<Place, Vec<Call>> = BTreeMap::new();
    for file in files.iter().filter(|file| SEARCHED.iter().any(|folder| file.starts_with(folder))) {
        for function in functions(&parsed(file)) {
            all.entry((file.display().to_string(), function.name)).or_default().extend(function.calls);
        }
    }
    all
}

/// Whether a call in a file is one of a step.
fn is_of(step: &list::Step, file: &str, call: &Call) -> bool {
    let is_within = step.within.iter().any(|folder| Path::new(file).starts_with(folder));
    let is_on = step.on.is_empty() || call.on.as_deref().is_some_and(|on| step.on.contains(&on));
    is_within && is_on && call.name == step.name
}

/// Whether a function is itself a step towards the effect, whose callers are listed.
fn is_step(file: &str, function: &str) -> bool {
    let mut steps = EFFECTS.iter().flat_map(|effect| effect.steps);
    steps.any(|step| step.name == function && step.within.iter().any(|folder| Path::new(file).starts_with(folder)))
}

/// What is wrong with the callers of a step, a sentence each.
fn wrong_with(step: &list::Step, what: &str, all: &BTreeMap<Place, Vec<Call>>) -> Vec<String> {
    let mut listed: BTreeMap<(&str, &str), &Way> =
        step.callers.iter().map(|(file, function, way)| ((*file, *function), way)).collect();
    let mut wrong = Vec::new();
    for ((file, function), calls) in all {
        if !calls.iter().any(|call| is_of(step, file, call)) {
            continue;
        }
        let says = |more: &str| format!("  {what}: {file}: {function} reaches {}{more}", step.name);
        match listed.remove(&(file.as_str(), function.as_str())) {
            None => wrong.push(says(", and is not listed")),
            Some(Way::Gate(gate)) if !calls.iter().any(|call| call.name == *gate) => {
                wrong.push(says(&format!(" without its gate, `{gate}`")));
            }
            Some(Way::Through) if !is_step(file, function) => {
                wrong.push(says(" for its callers, and these are not listed"));
            }
            Some(Way::Aside("")) => wrong.push(says(" for no reason")),
            Some(Way::Gate(_) | Way::Through | Way::Tool | Way::Aside(_)) => {}
        }
    }
    let gone = |(file, function): &(&str, &str)| {
        format!("  {what}: {file}: {function} does not reach {} any more: take it out of the list", step.name)
    };
    wrong.extend(listed.keys().map(gone));
    wrong
}

#[test]
fn each_way_to_an_effect_passes_a_gate() {
    let all = production();
    let of_effect = |effect: &'static list::Effect| {
        effect.steps.iter().flat_map(|step| wrong_with(step, effect.what, all)).collect::<Vec<String>>()
    };
    let wrong: Vec<String> = EFFECTS.iter().flat_map(of_effect).collect();
    assert!(wrong.is_empty(), "{REMEDY}.\n{}", wrong.join("\n"));
}

#[test]
fn each_step_lies_where_ways_are_looked_for() {
    let all = production();
    for step in EFFECTS.iter().flat_map(|effect| effect.steps) {
        for folder in step.within {
            let is_seen = all.keys().any(|(file, _)| Path::new(file).starts_with(folder));
            assert!(is_seen, "{}: nothing is looked for in {folder}", step.name);
        }
    }
}

#[test]
fn each_gate_asks_who_decides() {
    let all = production();
    let gates: BTreeSet<&str> = GATES.iter().map(|(_, function, _)| *function).collect();
    let is_known = |name: &str| DECIDES.contains(&name) || gates.contains(name);
    for (file, function, way) in EFFECTS.iter().flat_map(|effect| effect.steps).flat_map(|step| step.callers) {
        let Way::Gate(gate) = way else { continue };
        assert!(is_known(gate), "{file}: {function}: `{gate}` is not in GATES");
    }
    for (file, function, asks) in GATES {
        let calls = all.get(&((*file).to_owned(), (*function).to_owned()));
        let calls = calls.unwrap_or_else(|| panic!("{file} has no {function} any more: take it out of GATES"));
        assert!(calls.iter().any(|call| call.name == *asks), "{file}: {function} does not ask `{asks}` any more");
        assert!(is_known(asks), "{file}: {function}: `{asks}` neither decides nor is a gate");
    }
}

#[test]
fn what_counts_as_a_server_of_tools_is_one() {
    for (file, function, way) in EFFECTS.iter().flat_map(|effect| effect.steps).flat_map(|step| step.callers) {
        if matches!(way, Way::Tool) && !BELOW_SERVERS.contains(file) {
            let serves = calls::implements(&parsed(Path::new(file)), "ToolServer");
            assert!(serves, "{file}: {function} is of no server of tools");
        }
    }
}

#[test]
fn a_new_way_is_seen_wherever_it_is_written() {
    let text = "
        impl Server { async fn straight(&self) { self.server.call_listed(1).await } }
        fn in_macro() { tokio::select! { a = self.of(2).call_listed(1) => a } }
        fn as_path() { let f = Server::call_listed; }
        fn in_closure() { run(|server| async move { server.call_listed::<u8>() }) }
        fn another() { call_listing(); let call_listed = 1; }
        #[cfg(test)] mod tests { fn tested() { server.call_listed() } }
    ";
    let file = syn::parse_file(text).expect("it parses");
    let found = functions(&file).into_iter().filter_map(|function| {
        let call = function.calls.into_iter().find(|call| call.name == "call_listed")?;
        Some(format!("{} on {}", function.name, call.on.unwrap_or_default()))
    });
    let found: Vec<String> = found.collect();
    assert_eq!(found, ["straight on server", "in_macro on of", "as_path on Server", "in_closure on server"]);
}
