//! What an agent's name means is decided in one place, and so is who may have that agent.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};

const RULE: &str = "`Calls::target(asker, callee, purpose)` is the only way from a name or an id to an agent: it decides \
too whether whoever asks may have that agent. What else has names, such as groups, is listed in \
tests/tidy/tests/suite/names.rs by what `resolve` is called on";

/// Where names are resolved: L3's catalogue of them, and the walk's question to it.
const WALK: &[&str] = &["node/l3-discovery/src", "node/calls/src/target.rs"];

/// Folders whose crates stand below L3 or beside it, know no agents of other nodes, and resolve names of their own.
const BELOW: &[&str] =
    &["node/fetch", "node/l1-execution", "node/l2-communication", "node/l5-coordination", "node/store"];

/// What `resolve` is called on where no agent is meant: file, receiver, what it resolves. The list may only shrink; a receiver
/// of agents is never added.
const OTHERS: &[(&str, &str, &str)] = &[
    ("node/althing/src/commands/app.rs", "parsed", "the files that an app file names"),
    ("node/operations/src/group_orders.rs", "groups", "a group"),
    ("node/operations/src/group_work/routes.rs", "groups", "a group"),
    ("node/operations/src/registries/install.rs", "client", "a name in a registry"),
    ("node/gateway/control/src/group_apps.rs", "parsed", "the files that an app file names"),
    ("node/gateway/control/src/near.rs", "groups", "a group"),
    ("node/gateway/control/src/traces.rs", "traces", "a trace"),
];

/// What `resolve` is called on, by the last word of it, and the lines: `discovery` of `self.discovery.resolve(…)` and of
/// `self.discovery().resolve(…)`, `Discovery` of `Discovery::resolve`; nothing where that is no word.
fn receivers(tokens: TokenStream) -> Vec<(String, usize)> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let mut found = Vec::new();
    for (at, token) in tokens.iter().enumerate() {
        match token {
            TokenTree::Group(group) => found.extend(receivers(group.stream())),
            TokenTree::Ident(word) if word == "resolve" => {
                let before = &tokens[..at];
                let is_path =
                    |token: &&TokenTree| matches!(token, TokenTree::Punct(mark) if ".:".contains(mark.as_char()));
                if before.last().is_some_and(|token| is_path(&token)) {
                    let mut of = before.iter().rev().skip_while(is_path);
                    // Arguments, indexes and question marks stand behind what was called.
                    let named = of.find(|token| !matches!(token, TokenTree::Group(_) | TokenTree::Punct(_)));
                    let named = named.map(ToString::to_string).unwrap_or_default();
                    found.push((named, word.span().start().line));
                }
            }
            _ => {}
        }
    }
    found
}

#[test]
fn names_are_resolved_in_the_walk_alone() {
    let (production, _) = crate::support::rust_files();
    let (mut elsewhere, mut listed) = (Vec::new(), BTreeSet::new());
    let lies_in = |file: &Path, folders: &[&str]| folders.iter().any(|folder| file.starts_with(folder));
    let above = |file: &&PathBuf| {
        (file.starts_with("node") || file.starts_with("simulations")) && !lies_in(file, WALK) && !lies_in(file, BELOW)
    };
    for file in production.iter().filter(above) {
        let tests = crate::support::test_lines(file);
        let tokens = crate::support::text(file).parse().unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        let of_product = |(_, line): &(String, usize)| !tests.iter().any(|test| test.contains(line));
        for (receiver, line) in receivers(tokens).into_iter().filter(of_product) {
            let other = OTHERS.iter().position(|(at, of, _)| file == Path::new(at) && receiver == *of);
            match other {
                Some(other) => drop(listed.insert(other)),
                None => elsewhere.push(format!("  {}:{line}: {receiver}.resolve", file.display())),
            }
        }
    }
    assert!(elsewhere.is_empty(), "{RULE}.\n{}", elsewhere.join("\n"));
    for (at, (file, receiver, _)) in OTHERS.iter().enumerate() {
        assert!(listed.contains(&at), "{file} resolves nothing by {receiver} any more: take it out of OTHERS");
    }
    for place in WALK {
        assert!(production.iter().any(|file| file.starts_with(place)), "{place} is not there any more");
    }
}

#[test]
fn a_receiver_is_found_however_it_is_written() {
    let of = |text: &str| {
        let found = receivers(text.parse().expect("tokens")).into_iter().map(|(receiver, _)| receiver);
        found.collect::<Vec<_>>()
    };
    assert_eq!(of("node.calls.resolve(name)"), ["calls"]);
    assert_eq!(of("self.calls().resolve(name).await?"), ["calls"]);
    assert_eq!(of("if let Ok(id) = node.discovery.resolve(x, y, z) {}"), ["discovery"]);
    assert_eq!(of("Discovery::resolve(&discovery, x)"), ["Discovery"]);
    assert_eq!(of("names.map(Discovery::resolve)"), ["Discovery"]);
    assert_eq!(of("json!({ \"a\": known[0]?\n    .resolve(x) })"), ["known"]);
    assert_eq!(of("fn resolve(resolve: u8) { resolve(resolve); }"), Vec::<String>::new());
}
