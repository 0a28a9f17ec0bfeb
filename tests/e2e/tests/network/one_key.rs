//! Two nodes that use one key, since a machine was cloned: both say so, and whoever sees both; and when one is gone, the
//! other's agents are back.

use std::process::Command;
use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, cast, until};
use nix::sys::signal::Signal;

const SOON: Duration = Duration::from_secs(60);
/// What was refused while there were two is asked for again with growing pauses.
const BACK: Duration = Duration::from_secs(60);
/// What all three say.
const SAID: &str = "another node uses this key";

/// The home of one machine becomes that of another.
fn clone_home(from: &Machine, to: &Machine) {
    for folder in ["config", "data"] {
        let copied = Command::new("cp").arg("-aT").arg(from.home().join(folder)).arg(to.home().join(folder)).status();
        assert!(copied.expect("cp runs").success());
    }
}

fn doctor(machine: &Machine) -> String {
    machine.run(&["doctor"]).stdout
}

/// A machine with an agent, its clone, and a third one that sees both.
struct Clones {
    world: World,
    nodes: Vec<Option<Node>>,
}

impl Clones {
    fn new(flags: &[&str], multicast: Multicast) -> Option<Clones> {
        let world = World::new(3, multicast)?;
        let [one, two, see] = &world.machines[..] else { panic!("three machines") };
        let seeing = see.up(&[]);
        let mut first = one.up(flags);
        one.add("far", &cast::echo("far", "anyone"));
        until(SOON, "it is found", || see.finds("far"));
        first.running.signal(Signal::SIGTERM);
        until(SOON, "it ends", || first.running.ended());
        clone_home(one, two);
        let nodes = vec![Some(one.up(flags)), Some(two.up(flags)), Some(seeing)];
        let did = |at: usize| nodes[at].as_ref().expect("it runs").did();
        assert_eq!(did(0), did(1), "they have one key");
        Some(Clones { world, nodes })
    }

    fn all_say_so(&self) {
        for machine in &self.world.machines {
            let mut said = String::new();
            until(SOON, "it says that two use one key", || {
                said = doctor(machine);
                said.contains(SAID)
            });
            for part in ["/ip4/10.77.0.1/tcp/7421", "/ip4/10.77.0.2/tcp/7421", "move `node.key`"] {
                assert!(said.contains(part), "{part}: {said}");
            }
        }
    }

    /// One of the two is gone, by this signal: the other's agent is back.
    fn end(&mut self, at: usize, signal: Signal) {
        let mut gone = self.nodes[at].take().expect("it runs");
        gone.running.signal(signal);
        until(SOON, "it ends", || gone.running.ended());
        let see = &self.world.machines[2];
        let took = until(BACK, "the other's agent is called", || {
            let called = see.run(&["call", "--anyone", "far", "hello"]);
            called.code == 0 && called.stdout.contains("hello")
        });
        println!("it was back after {took:?}");
        assert!(see.finds("far"));
        until(Duration::from_secs(150), "nobody says so any more", || {
            self.world.machines.iter().enumerate().all(|(of, machine)| of == at || !doctor(machine).contains(SAID))
        });
    }
}

#[test]
fn a_clone_is_named_on_all_sides_and_the_agents_are_back_when_one_is_gone() {
    let Some(mut clones) = Clones::new(&[], Multicast::Carried) else { return };
    clones.all_say_so();
    clones.end(1, Signal::SIGKILL);
}

#[test]
fn a_clone_is_named_without_a_lan_and_the_agents_are_back_when_the_first_is_stopped() {
    let flags = ["--no-lan", "--peer", "/ip4/10.77.0.3/tcp/7421"];
    let Some(mut clones) = Clones::new(&flags, Multicast::Dropped) else { return };
    clones.all_say_so();
    clones.end(0, Signal::SIGTERM);
}

#[test]
fn a_node_that_starts_again_or_moves_is_no_clone() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [one, see] = &world.machines[..] else { panic!("two machines") };
    let _seeing = see.up(&[]);
    let first = one.up(&[]);
    one.add("far", &cast::echo("far", "anyone"));
    until(SOON, "it is found", || see.finds("far"));
    first.running.kill();
    let _again = one.up(&[]);
    until(SOON, "it is found again", || see.finds("far"));
    assert!(!doctor(see).contains(SAID) && !doctor(one).contains(SAID));
    world.unplug(0, "eth0");
    world.plug(0, "eth0", "10.77.0.8");
    until(SOON, "it is met at its other address", || see.json(&["peers"]).to_string().contains("10.77.0.8"));
    assert!(!doctor(see).contains(SAID) && !doctor(one).contains(SAID));
}
