//! Peers that were useful: known after a restart and after an outage, also when the node is gone through which they met.

use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, cast, until};
use nix::sys::signal::Signal;

const SOON: Duration = Duration::from_secs(30);
/// From when they can reach each other until they have met again.
const BACK_MAX: Duration = Duration::from_secs(20);

/// Where the first machine is.
const BOOTSTRAP: &str = "/ip4/10.77.0.1/tcp/7421";

/// Two machines that know the address of a third one only, which is gone since they met; each has an agent.
struct Orphans {
    world: World,
    nodes: Vec<Node>,
}

impl Orphans {
    fn new() -> Option<Orphans> {
        let world = World::new(3, Multicast::Dropped)?;
        let bootstrap = world.machines[0].up(&["--no-lan"]);
        let join = |at: usize| world.machines[at].up(&["--no-lan", "--peer", BOOTSTRAP]);
        let nodes = vec![join(1), join(2)];
        for (at, name) in [(1, "one"), (2, "two")] {
            world.machines[at].add(name, &cast::echo(name, "anyone"));
        }
        let orphans = Orphans { world, nodes };
        until(SOON, "they meet", || orphans.meet());
        until(SOON, "each remembers the other", || {
            [1, 2].iter().all(|at| doctor(orphans.at(*at)).contains("2 peers are remembered"))
        });
        bootstrap.running.kill();
        until(SOON, "the bootstrap is gone", || [1, 2].iter().all(|at| peers(orphans.at(*at)) == 1));
        Some(orphans)
    }

    fn at(&self, at: usize) -> &Machine {
        &self.world.machines[at]
    }

    fn meet(&self) -> bool {
        self.at(1).finds("two") && self.at(2).finds("one") && peers(self.at(1)) > 0 && peers(self.at(2)) > 0
    }

    /// Starts the last machine's node again.
    fn start_again(&mut self) {
        self.nodes.push(self.at(2).up(&["--no-lan", "--peer", BOOTSTRAP]));
    }
}

fn peers(machine: &Machine) -> usize {
    machine.json(&["peers"])["peers"].as_array().expect("a list").len()
}

fn doctor(machine: &Machine) -> String {
    machine.run(&["doctor"]).stdout
}

#[test]
fn a_node_that_was_stopped_finds_whom_it_knew_though_its_bootstrap_is_gone() {
    let Some(mut orphans) = Orphans::new() else { return };
    let mut stopped = orphans.nodes.pop().expect("it runs");
    stopped.running.signal(Signal::SIGTERM);
    until(SOON, "it ends", || stopped.running.ended());
    until(SOON, "the other is alone", || peers(orphans.at(1)) == 0);
    orphans.start_again();
    until(BACK_MAX, "they meet again", || orphans.meet());
}

#[test]
fn a_node_that_was_killed_finds_whom_it_knew_though_its_bootstrap_is_gone() {
    let Some(mut orphans) = Orphans::new() else { return };
    orphans.nodes.pop().expect("it runs").running.kill();
    until(SOON, "the other is alone", || peers(orphans.at(1)) == 0);
    orphans.start_again();
    until(BACK_MAX, "they meet again", || orphans.meet());
}

#[test]
fn both_find_each_other_after_both_were_killed() {
    let Some(mut orphans) = Orphans::new() else { return };
    orphans.nodes.clear();
    let one = orphans.at(1).up(&["--no-lan", "--peer", BOOTSTRAP]);
    orphans.nodes.push(one);
    orphans.start_again();
    until(BACK_MAX, "they meet again", || orphans.meet());
}

#[test]
fn an_outage_that_breaks_all_connections_is_over_within_seconds() {
    let Some(orphans) = Orphans::new() else { return };
    orphans.world.cut(2);
    // The kernels give the connection up, and both are alone; half a minute passes.
    until(Duration::from_secs(60), "both are alone", || peers(orphans.at(1)) == 0 && peers(orphans.at(2)) == 0);
    until(SOON, "the doctor says whom it dials", || {
        let said = doctor(orphans.at(1));
        said.contains("remembered") && said.contains("are dialled") && said.contains("10.77.0.3")
    });
    orphans.world.restore(2);
    until(BACK_MAX, "they meet again", || orphans.meet());
}
