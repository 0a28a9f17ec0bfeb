//! The official A2A client for Rust drives an agent through the gateway of its own node and of another, over each binding.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use althing_e2e::counter::Pair;
use althing_e2e::python::done;
use althing_e2e::{Running, node};
use althing_testing::cache;
use althing_testing::{remedy, skip};

/// The bindings over which the client has its conversation.
const BINDINGS: [&str; 3] = ["JSONRPC", "HTTP+JSON", "GRPC"];

/// The client, built once for its lock file; its libraries are not those of the workspace. `None`, with the reason printed,
/// when it cannot be had.
fn client() -> Option<PathBuf> {
    let build = || {
        let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("rust/Cargo.toml");
        // In a folder of its own: cargo, which runs this test, has its own locked.
        let target = cache()?.join("interop/rust-client");
        let mut building = Command::new("cargo");
        building
            .args(["build", "--quiet", "--locked", "--manifest-path"])
            .arg(&manifest)
            .arg("--target-dir")
            .arg(&target);
        building.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS");
        done(&mut building).map(|_| target.join("debug/althing-e2e-client"))
    };
    let built: Result<PathBuf, String> = build();
    built.inspect_err(|reason| skip(&format!("no Rust client of A2A: {reason}"), remedy::CRATES)).ok()
}

#[test]
fn the_official_client_drives_an_agent_here_and_on_another_node() {
    let (Some(packages), Some(client)) = (node::packages(), client()) else { return };
    let pair = Pair::start(packages);
    for gateway in pair.gateways() {
        let mut command = pair.one.command(&client);
        command.arg(format!("{gateway}/a2a/counter")).args(BINDINGS);
        let outcome = Running::start(&mut command).end(Duration::from_secs(90));
        assert!(outcome.code == 0 && outcome.stdout.ends_with("RUST OK\n"), "{outcome:?}");
    }
    pair.is_idle();
}
