//! Who may reach whom is decided in one place for each way: what decides by contracts, behind a port that others can take.

use std::collections::BTreeSet;
use std::path::Path;

const RULE: &str = "whom a node trusts, whom an agent answers, whom a client is bound to, who stands behind a call, and what was \
taken back is read by what decides by contracts alone (node/calls/src/by_contract.rs): ask `Decide` for a decision instead. Where \
these things are made, kept or carried is listed in tests/tidy/tests/suite/decisions.rs";

/// Folders of the product where nothing but what is listed may name them.
const FOLDERS: &[&str] = &["edge", "node", "simulations/src"];

/// Who decides.
const DECIDES: &str = "node/calls/src/by_contract.rs";

/// What is read to decide, and where else it may be named: the file, and what that does with it. The lists may only shrink.
const READ: &[(&str, &[(&str, &str)])] = &[
    (
        "Trust",
        &[
            ("node/althing/src/args.rs", "has a command of that name"),
            ("node/althing/src/commands/trust.rs", "has a command of that name"),
            ("node/althing/src/main.rs", "has a command of that name"),
            ("node/call/src/chain.rs", "rule about principals, as a function of it"),
            ("node/call/src/relation.rs", "rule about publishers, as a function of it"),
            ("node/composition/src/assemble.rs", "makes it at the start, of what the store has"),
            ("node/composition/src/trust.rs", "keeps it"),
            ("node/l2-communication/src/lib.rs", "exports it"),
            ("node/l2-communication/src/machine/caller.rs", "defines it"),
            ("simulations/src/run/mod.rs", "has an event of that name"),
            ("simulations/src/scenario.rs", "has an event of that name"),
        ],
    ),
    (
        "CallerRule",
        &[
            ("node/call/src/chain.rs", "rule about principals, as a function of it"),
            ("node/call/src/decide.rs", "carries it to who decides"),
            ("node/composition/src/publish.rs", "makes it, of an agent's file"),
            ("node/l2-communication/src/lib.rs", "exports it"),
            ("node/l2-communication/src/machine/caller.rs", "defines it"),
            ("node/l4-session/src/tasks/runner.rs", "carries it with the agent"),
            ("simulations/src/mesh.rs", "makes it, for agents of simulated nodes"),
            ("simulations/src/sessions/life.rs", "makes it, for the agent of simulated sessions"),
        ],
    ),
    (
        "RevocationCheck",
        &[("node/calls/src/lib.rs", "exports it"), ("node/composition/src/revocation_check.rs", "implements it")],
    ),
    (
        "AllowedAgents",
        &[
            ("node/call/src/lib.rs", "exports it"),
            ("node/call/src/target.rs", "defines it, with its rule"),
            ("node/calls/src/lib.rs", "exports it"),
            ("node/gateway/src/client.rs", "makes it, of a token's agents"),
        ],
    ),
    ("may_call", &[("node/call/src/chain.rs", "defines it")]),
    ("may_have", &[("node/call/src/target.rs", "defines it")]),
    (
        "TrustedPeers",
        &[
            ("node/composition/src/assemble.rs", "makes it"),
            ("node/composition/src/lib.rs", "exports it"),
            ("node/composition/src/node.rs", "has it for the owner, who changes it"),
            ("node/composition/src/trust.rs", "defines it"),
        ],
    ),
];

#[test]
fn what_decides_about_calls_is_read_in_one_place() {
    let (production, _) = crate::support::rust_files();
    let (mut elsewhere, mut named) = (Vec::new(), BTreeSet::new());
    for file in production.iter().filter(|file| FOLDERS.iter().any(|folder| file.starts_with(folder))) {
        let tests = crate::support::test_lines(file);
        let idents = crate::support::idents(file).into_iter();
        for (word, line) in idents.filter(|(_, line)| !tests.iter().any(|test| test.contains(line))) {
            let Some((read, places)) = READ.iter().find(|(read, _)| *read == word) else { continue };
            if file != Path::new(DECIDES) && !places.iter().any(|(at, _)| file == Path::new(at)) {
                elsewhere.push(format!("  {}:{line}: {word}", file.display()));
            }
            named.insert((*read, file.clone()));
        }
    }
    assert!(elsewhere.is_empty(), "{RULE}.\n{}", elsewhere.join("\n"));
    for (read, places) in READ {
        for (at, _) in *places {
            let is_named = named.contains(&(*read, Path::new(at).to_owned()));
            assert!(is_named, "{at} does not name {read} any more: take it out of READ");
        }
    }
}
