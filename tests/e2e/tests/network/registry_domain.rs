//! An organisation proves its domain to a registry by a real name server's TXT record.

use std::net::UdpSocket;
use std::os::unix::fs::PermissionsExt as _;

use althing_e2e::registry::{RegistryProcess, program};
use althing_e2e::world::{Multicast, World};
use althing_e2e::{Outcome, cast, dns};

fn said(outcome: &Outcome) -> String {
    format!("{}{}", outcome.stdout, outcome.stderr)
}

#[test]
fn a_domain_is_proven_by_its_txt_record() {
    let Some(mut world) = World::new(1, Multicast::Carried) else { return };
    let socket = world.inside(0, || UdpSocket::bind("127.0.0.1:53")).expect("a port of the namespace");
    let record = dns::serve(socket, "_althing.example.org");
    let machine = world.machines.remove(0);
    // The program sees another /etc/resolv.conf: it has a mount namespace of its own.
    let resolver = machine.write("resolv.conf", "nameserver 127.0.0.1\noptions timeout:1 attempts:2\n");
    let resolver = resolver.display();
    let script =
        format!("#!/bin/sh\nmount --bind {resolver} /etc/resolv.conf && exec {} \"$@\"\n", program().display());
    let script = machine.write("registry.sh", &script);
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).expect("it is ours");
    let node = machine.up_alone(&[]);
    let owner = node.owner();
    let data = machine.folder().join("registry");
    let registry = RegistryProcess::start_as(&machine, &script, &data, &["--publisher", &owner]);
    machine.json(&["registry", "add", &registry.at, "--key", &registry.key]);

    let made = machine.run(&["org", "init", "example.org"]);
    assert!(made.code == 0 && said(&made).contains("_althing.example.org"), "{made:?}");
    let path = machine.write("echo.yaml", &cast::echo("echo", "anyone"));
    let publish = || machine.run(&["publish", path.to_str().expect("a path")]);
    let unproven = publish();
    assert_eq!(unproven.code, 5, "an organisation publishes under a domain that is proven: {unproven:?}");

    // Of somebody else, then its own.
    *record.lock().expect("no holder panics") = Some("althing=urn:althing:zQmSomebodyElse".to_owned());
    let other = machine.json(&["org", "prove"]);
    assert_eq!(other["proven"], false, "{other}");
    *record.lock().expect("no holder panics") = Some(format!("althing={owner}"));
    let proven = machine.json(&["org", "prove"]);
    assert_eq!((proven["proven"].as_bool(), proven["by"].as_str()), (Some(true), Some("dns")), "{proven}");
    let published = publish();
    assert_eq!(published.code, 0, "{published:?}");
    let offered = machine.run(&["install", "example.org/echo", "--young", "--as", "two"]);
    assert!(said(&offered).contains("example.org, proven by dns"), "{offered:?}");

    // The record is taken away: a look that finds nothing is written down too.
    *record.lock().expect("no holder panics") = None;
    let lapsed = machine.json(&["org", "prove"]);
    assert_eq!(lapsed["proven"], false, "{lapsed}");
}
