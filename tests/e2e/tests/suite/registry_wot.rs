//! The stock consumer of the Web of Things, node-wot, with the registry's directory: it knows what the directory says of
//! itself, and reads, writes, searches and hears by that alone.

use std::path::Path;
use std::time::Duration;

use althing_e2e::registry::{RegistryProcess, program};
use althing_e2e::{Machine, Running, node};

const CONSUMER: &str = include_str!("../../js/directory.cjs");
const DONE: Duration = Duration::from_secs(90);

#[test]
fn a_stock_consumer_uses_the_directory_by_its_own_description() {
    let Some(packages) = node::packages() else { return };
    let machine = Machine::new();
    let data = machine.folder().join("registry");
    let registry = RegistryProcess::start(&machine, &data, &[]);
    let mut command = machine.command(&program());
    let made = Running::start(command.args(["token", "add", "consumer", "--data"]).arg(&data)).end(DONE);
    assert_eq!(made.code, 0, "{made:?}");
    let script = machine.write("script.cjs", CONSUMER);
    let mut consumer = machine.command(Path::new("node"));
    let consumer = consumer.arg(script).arg(&registry.at).arg(made.stdout.trim()).env("NODE_PATH", packages);
    let outcome = Running::start(consumer).end(DONE);
    assert!(outcome.code == 0 && outcome.stdout.ends_with("DIRECTORY OK\n"), "{outcome:?}");
}
