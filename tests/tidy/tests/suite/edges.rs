//! Who may import whom.

use cargo_metadata::{DependencyKind, MetadataCommand};
use std::collections::BTreeSet;

const RULE: &str = "ARCHITECTURE.md: a layer may import the layers below it, and nothing above: l1 and l2 (not each other), l3, \
then `call`, l4, l7 and l6, `calls`, `composition`, `operations`, `gateway` with its leaves, then `althing` with its leaves. `protocol`, \
`store`, `fetch` and `failure` import no other crate of the workspace, `thing-descriptions` imports `protocol` (an agent file \
contains a contract), and so do `edge` and `policy` (L7's leaf); `api` imports these and `failure` (types alone). A new edge \
is a decision: record it there, then list it in tests/tidy/tests/suite/edges.rs";

/// What production code imports: all of these, and no others.
const EDGES: &[(&str, &[&str])] = &[
    ("althing-protocol", &[]),
    ("althing-td", &["althing-protocol"]),
    ("althing-store", &[]),
    ("althing-log", &["althing-protocol", "althing-store"]),
    ("althing-keeper", &[]),
    (
        "althing-execution",
        &["althing-failure", "althing-fetch", "althing-keeper", "althing-protocol", "althing-store", "althing-td"],
    ),
    ("althing-things", &["althing-execution", "althing-fetch", "althing-protocol", "althing-td"]),
    ("althing-egress", &["althing-fetch"]),
    ("althing-knowledge", &["althing-execution", "althing-store"]),
    ("althing-mcp", &["althing-execution", "althing-keeper", "althing-td"]),
    ("althing-wasm", &["althing-execution", "althing-protocol"]),
    ("althing-guest", &[]),
    ("counter-agent", &["althing-guest"]),
    ("althing-communication", &["althing-protocol"]),
    ("althing-libp2p", &["althing-communication", "althing-protocol"]),
    ("althing-simnet", &["althing-communication", "althing-protocol"]),
    ("althing-coordination", &["althing-communication", "althing-failure", "althing-protocol", "althing-store"]),
    (
        "althing-governance",
        &[
            "althing-call",
            "althing-communication",
            "althing-discovery",
            "althing-execution",
            "althing-log",
            "althing-policy",
            "althing-protocol",
            "althing-store",
            "althing-td",
        ],
    ),
    (
        "althing-verification",
        &["althing-execution", "althing-protocol", "althing-session", "althing-store", "althing-td"],
    ),
    ("althing-policy", &["althing-protocol"]),
    ("althing-failure", &[]),
    ("althing-fetch", &[]),
    (
        "althing-registry",
        &[
            "althing-edge",
            "althing-fetch",
            "althing-log",
            "althing-protocol",
            "althing-search",
            "althing-store",
            "althing-td",
        ],
    ),
    ("althing-registry-client", &["althing-fetch", "althing-protocol", "althing-td"]),
    ("althing-search", &[]),
    ("althing-discovery", &["althing-communication", "althing-fetch", "althing-protocol", "althing-td"]),
    ("althing-routing", &[]),
    ("althing-api", &["althing-failure", "althing-protocol", "althing-td"]),
    (
        "althing-call",
        &["althing-communication", "althing-discovery", "althing-execution", "althing-failure", "althing-protocol"],
    ),
    (
        "althing-session",
        &[
            "althing-call",
            "althing-communication",
            "althing-execution",
            "althing-failure",
            "althing-protocol",
            "althing-store",
            "althing-td",
        ],
    ),
    (
        "althing-calls",
        &[
            "althing-call",
            "althing-communication",
            "althing-discovery",
            "althing-execution",
            "althing-failure",
            "althing-protocol",
            "althing-session",
            "althing-store",
        ],
    ),
    (
        "althing-simulations",
        &[
            "althing-calls",
            "althing-communication",
            "althing-coordination",
            "althing-discovery",
            "althing-execution",
            "althing-libp2p",
            "althing-node",
            "althing-operations",
            "althing-protocol",
            "althing-session",
            "althing-simnet",
            "althing-store",
            "althing-td",
            "althing-verification",
        ],
    ),
    (
        "althing-conformance",
        &[
            "althing-calls",
            "althing-communication",
            "althing-control",
            "althing-coordination",
            "althing-discovery",
            "althing-execution",
            "althing-gateway",
            "althing-governance",
            "althing-libp2p",
            "althing-mcp-server",
            "althing-operations",
            "althing-protocol",
            "althing-simnet",
            "althing-simulations",
            "althing-store",
            "althing-td",
            "althing-testing",
        ],
    ),
    (
        "althing-node",
        &[
            "althing-calls",
            "althing-communication",
            "althing-coordination",
            "althing-discovery",
            "althing-execution",
            "althing-failure",
            "althing-governance",
            "althing-protocol",
            "althing-store",
            "althing-td",
            "althing-verification",
        ],
    ),
    (
        "althing-operations",
        &[
            "althing-calls",
            "althing-communication",
            "althing-coordination",
            "althing-discovery",
            "althing-execution",
            "althing-failure",
            "althing-governance",
            "althing-node",
            "althing-protocol",
            "althing-registry-client",
            "althing-routing",
            "althing-store",
            "althing-td",
            "althing-things",
            "althing-verification",
        ],
    ),
    (
        "althing-control",
        &[
            "althing-api",
            "althing-calls",
            "althing-coordination",
            "althing-discovery",
            "althing-execution",
            "althing-node",
            "althing-operations",
            "althing-protocol",
            "althing-td",
            "althing-things",
        ],
    ),
    ("althing-edge", &["althing-protocol"]),
    ("althing-mcp-server", &["althing-calls", "althing-discovery", "althing-edge", "althing-protocol", "althing-td"]),
    ("althing-grpc", &["althing-calls", "althing-edge"]),
    (
        "althing-gateway",
        &["althing-calls", "althing-edge", "althing-grpc", "althing-mcp-server", "althing-protocol", "althing-td"],
    ),
    ("althing-client", &["althing-api", "althing-protocol", "althing-store", "althing-td"]),
    (
        "althing-demo",
        &[
            "althing-api",
            "althing-calls",
            "althing-client",
            "althing-communication",
            "althing-libp2p",
            "althing-operations",
            "althing-protocol",
            "althing-td",
        ],
    ),
    (
        "althing-contract-bench",
        &[
            "althing-calls",
            "althing-client",
            "althing-communication",
            "althing-control",
            "althing-execution",
            "althing-protocol",
            "althing-store",
            "althing-td",
            "althing-wasm",
        ],
    ),
    ("althing-bench-registry", &["althing-protocol", "althing-td"]),
    ("althing-testing", &[]),
    ("althing-testing-store", &["althing-store"]),
    ("althing-tidy", &["althing-testing"]),
];

/// The composition root and the programs that test it whole: they may import everything, and nothing imports them.
const ROOTS: &[&str] = &["althing", "althing-bench", "althing-e2e"];

/// What tests import besides.
const TEST_EDGES: &[(&str, &[&str])] = &[
    ("althing-calls", &["althing-testing-store"]),
    ("althing-control", &["althing-simnet", "althing-simulations"]),
    ("althing-execution", &["althing-testing", "althing-testing-store"]),
    ("althing-gateway", &["althing-communication", "althing-simnet", "althing-simulations"]),
    ("althing-governance", &["althing-testing-store"]),
    ("althing-grpc", &["althing-testing"]),
    ("althing-log", &["althing-testing-store"]),
    ("althing-mcp-server", &["althing-simnet", "althing-simulations"]),
    ("althing-node", &["althing-simnet", "althing-testing-store"]),
    ("althing-operations", &["althing-simnet", "althing-testing-store"]),
    ("althing-policy", &["althing-testing"]),
    ("althing-registry", &["althing-registry-client", "althing-testing"]),
    ("althing-session", &["althing-testing-store"]),
    ("althing-store", &["althing-testing"]),
    ("althing-keeper", &["althing-testing"]),
    ("althing-td", &["althing-testing"]),
    ("althing-verification", &["althing-testing"]),
    ("althing-wasm", &["althing-store", "althing-td"]),
    ("althing-simulations", &["althing-testing"]),
];

/// (importer, imported, whether for tests only), among the crates of the workspace.
fn found() -> (BTreeSet<String>, Vec<(String, String, bool)>) {
    let manifest = crate::support::root().join("Cargo.toml");
    let metadata = MetadataCommand::new().manifest_path(manifest).no_deps().exec().expect("cargo metadata");
    let members: BTreeSet<String> = metadata.packages.iter().map(|package| package.name.to_string()).collect();
    let mut edges = Vec::new();
    for package in &metadata.packages {
        for dependency in package.dependencies.iter().filter(|dependency| members.contains(&dependency.name)) {
            let for_tests = dependency.kind == DependencyKind::Development;
            edges.push((package.name.to_string(), dependency.name.clone(), for_tests));
        }
    }
    (members, edges)
}

fn is_listed(list: &[(&str, &[&str])], from: &str, to: &str) -> bool {
    list.iter().any(|(importer, imported)| *importer == from && imported.contains(&to))
}

#[test]
fn every_edge_is_listed() {
    let (_, edges) = found();
    for (from, to, for_tests) in &edges {
        assert!(!ROOTS.contains(&to.as_str()), "{from} imports {to}, which is a root.\n{RULE}");
        let allowed = ROOTS.contains(&from.as_str())
            || is_listed(EDGES, from, to)
            || (*for_tests && (from == to || is_listed(TEST_EDGES, from, to)));
        let kind = if *for_tests { "[dev-dependencies]" } else { "[dependencies]" };
        assert!(allowed, "{from} imports {to} in {kind}, which is not listed.\n{RULE}");
    }
}

#[test]
fn every_listed_edge_is_used() {
    let (_, edges) = found();
    let mut unused = Vec::new();
    for (list, for_tests) in [(EDGES, false), (TEST_EDGES, true)] {
        for (from, to) in list.iter().flat_map(|(from, imported)| imported.iter().map(move |to| (*from, *to))) {
            if !edges.iter().any(|(f, t, tests)| (f.as_str(), t.as_str(), *tests) == (from, to, for_tests)) {
                unused.push(format!("{from} → {to}"));
            }
        }
    }
    assert!(
        unused.is_empty(),
        "nobody uses {}: take them out of the list in tests/tidy/tests/suite/edges.rs",
        unused.join(", ")
    );
}

#[test]
fn every_crate_is_listed() {
    let (members, _) = found();
    let listed: BTreeSet<&str> = EDGES.iter().map(|(name, _)| *name).chain(ROOTS.iter().copied()).collect();
    for member in &members {
        assert!(listed.contains(member.as_str()), "{member} is not listed.\n{RULE}");
    }
    for name in listed {
        assert!(members.contains(name), "there is no crate {name}: take it out of tests/tidy/tests/suite/edges.rs");
    }
}
