//! Interfaces that come later, take another's place or get another name: mDNS and introductions use them.

use std::path::Path;
use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Node, Running, cast, until};

const SOON: Duration = Duration::from_secs(30);
/// From the address of an interface until who is there is found.
const FOUND_MAX: Duration = Duration::from_secs(10);

/// Machines of which the second runs an agent: a test does something to the interface of the first.
fn with_agent_on_the_second(count: usize) -> Option<(World, Node)> {
    let world = World::new(count, Multicast::Carried)?;
    let there = world.machines[1].up(&[]);
    world.machines[1].add("there", &cast::echo("there", "anyone"));
    Some((world, there))
}

fn doctor(machine: &Machine) -> String {
    machine.run(&["doctor"]).stdout
}

#[test]
fn an_interface_that_comes_up_after_the_start_is_used() {
    let Some((world, _there)) = with_agent_on_the_second(2) else { return };
    world.unplug(0, "eth0");
    let here = &world.machines[0];
    let _node = here.up(&[]);
    until(SOON, "the doctor says that it is on no LAN", || {
        let said = doctor(here);
        said.contains("leads to this machine only") || said.contains("uses no interface")
    });
    assert!(!here.finds("there"));
    world.plug(0, "eth0", "10.77.0.1");
    until(FOUND_MAX, "it is found", || here.finds("there"));
    let said = doctor(here);
    assert!(said.contains("mDNS uses eth0 (10.77.0.1"), "{said}");
}

#[test]
fn an_interface_that_takes_another_s_place_is_used() {
    let Some((world, _there)) = with_agent_on_the_second(3) else { return };
    let [here, _, third] = &world.machines[..] else { panic!("three machines") };
    let _node = here.up(&[]);
    here.add("here", &cast::echo("here", "anyone"));
    until(SOON, "it is found", || here.finds("there"));
    // From the cable to the radio.
    world.unplug(0, "eth0");
    world.plug(0, "wlan0", "10.77.0.9");
    until(SOON, "the doctor names it", || doctor(here).contains("mDNS uses wlan0 (10.77.0.9"));
    until(SOON, "it is found from the other interface", || here.finds("there"));
    // Who starts then hears of it by multicast alone.
    let _late = third.up(&[]);
    until(SOON, "it is found there", || third.finds("here"));
}

#[test]
fn an_interface_with_another_name_is_used() {
    let Some((world, _there)) = with_agent_on_the_second(3) else { return };
    let [here, _, third] = &world.machines[..] else { panic!("three machines") };
    let _node = here.up(&[]);
    here.add("here", &cast::echo("here", "anyone"));
    until(SOON, "it is found", || here.finds("there"));
    world.rename(0, "eth0", "lan0");
    until(SOON, "the doctor names it", || doctor(here).contains("mDNS uses lan0 (10.77.0.1"));
    let _late = third.up(&[]);
    until(SOON, "it is found there", || third.finds("here"));
}

#[test]
fn an_interface_that_the_configuration_names_is_missed_and_used_once_it_is_there() {
    let Some((world, _there)) = with_agent_on_the_second(2) else { return };
    world.unplug(0, "eth0");
    let here = &world.machines[0];
    here.configure("[lan]\ninterfaces = [\"lan7\"]\n");
    let _node = here.up(&[]);
    until(SOON, "the doctor misses it", || doctor(here).contains("`lan.interfaces` names lan7"));
    world.plug(0, "lan7", "10.77.0.1");
    until(FOUND_MAX, "it is found", || here.finds("there"));
    let said = doctor(here);
    assert!(said.contains("mDNS uses lan7") && !said.contains("`lan.interfaces` names"), "{said}");
}

/// Whether a machine reads a description at an address.
fn reads(machine: &Machine, url: &str) -> bool {
    let mut curl = machine.command(Path::new("curl"));
    curl.args(["-s", "-m", "5", "-o", "/dev/null", "-w", "%{http_code}", url]);
    Running::start(&mut curl).end(SOON).stdout.trim() == "200"
}

#[test]
fn introductions_follow_the_interfaces() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [here, other] = &world.machines[..] else { panic!("two machines") };
    other.configure("[things]\nlan = true\n");
    let _other = other.up(&[]);
    world.unplug(0, "eth0");
    here.configure("network = \"elsewhere\"\n");
    let _node = here.up(&["--introduce"]);
    here.add("lamp", &cast::echo("lamp", "anyone"));
    world.plug(0, "eth0", "10.77.0.1");
    until(SOON, "it is read about", || reads(other, "http://10.77.0.1:7422/.well-known/wot"));
    until(SOON, "it was announced", || {
        other.run(&["find", "lamp"]).stdout.contains("http://10.77.0.1:7422/things/lamp")
    });
    let said = doctor(here);
    assert!(said.contains("public agents are introduced at 10.77.0.1:7422"), "{said}");
    world.unplug(0, "eth0");
    world.plug(0, "wlan0", "10.77.0.9");
    until(SOON, "it is read about there", || reads(other, "http://10.77.0.9:7422/.well-known/wot"));
    until(SOON, "the doctor follows", || doctor(here).contains("public agents are introduced at 10.77.0.9:7422"));
}
