//! A registry under a crowd of connections, and on a disk that is full.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use althing_e2e::disk::Disk;
use althing_e2e::http::{Answer, authority, get, raw, request};
use althing_e2e::registry::RegistryProcess;
use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, cast, until};
use serde_json::{Value, json};

/// Connections of one address.
const CROWD: usize = 800;
/// Of them the registry serves at most so many (`docs/registry.md`).
const OF_ADDRESS_MAX: usize = 128;
/// Growth of the registry's memory that the crowd may cause.
const GROWTH_KIB_MAX: u64 = 64 << 10;
const SOON: Duration = Duration::from_secs(30);

/// Opens connections that begin a request and do not end it, or say nothing.
fn crowd(at: &str) -> Vec<TcpStream> {
    let connect = |number: usize| {
        let mut stream = TcpStream::connect(authority(at)).ok()?;
        if number.is_multiple_of(2) {
            // It may be closed already.
            let _ = stream.write_all(b"GET /things HTTP/1.1\r\nHost: regist");
        }
        stream.set_nonblocking(true).ok()?;
        Some(stream)
    };
    (0..CROWD).filter_map(connect).collect()
}

/// How many of them the registry holds.
fn open(crowd: &mut [TcpStream]) -> usize {
    let is_open = |stream: &mut TcpStream| matches!(stream.read(&mut [0]), Err(error) if error.kind() == std::io::ErrorKind::WouldBlock);
    crowd.iter_mut().map(is_open).filter(|open| *open).count()
}

/// Threat 14.
#[test]
fn a_crowd_from_one_address_keeps_nobody_out() {
    let Some(world) = World::new(3, Multicast::Carried) else { return };
    let data = world.machines[0].folder().join("registry");
    let registry = RegistryProcess::start(&world.machines[0], &data, &["--listen", "10.77.0.1:0", "--things-anyone"]);
    let at = registry.at.clone();
    world.inside(2, || assert_eq!(get(&at, "/things", &[]).status, 200));
    let before = registry.running.memory_kib();
    let mut held = world.inside(1, || crowd(&at));
    assert!(held.len() > 4 * OF_ADDRESS_MAX, "{} connected", held.len());
    until(SOON, "the others are closed", || open(&mut held) <= OF_ADDRESS_MAX);
    let (held_now, asked) = (open(&mut held), 50);
    let served = world.inside(2, || (0..asked).filter(|_| get(&at, "/things", &[]).status == 200).count());
    assert_eq!(served, asked, "an honest reader is served beside {held_now} of {CROWD} connections");
    let after = registry.running.memory_kib();
    println!("measured: {held_now} of {CROWD} connections are held; memory {before} KiB before, {after} KiB after");
    assert!(after < before + GROWTH_KIB_MAX, "memory grew from {before} to {after} KiB");
    // Requests that do not come are not waited for.
    until(SOON, "the rest are closed", || open(&mut held) == 0);
}

fn thing(number: usize) -> Value {
    json!({
        "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": format!("urn:example:{number}"), "title": "Lamp",
        "securityDefinitions": { "nosec": { "scheme": "nosec" } }, "security": "nosec",
        "description": "x".repeat(8_192),
    })
}

fn put(registry: &RegistryProcess, number: usize) -> Answer {
    let path = format!("/things/urn:example:{number}");
    let headers = [("Content-Type", "application/td+json")];
    let body = thing(number).to_string();
    raw(&registry.at, &request(&registry.at, "PUT", &path, &headers, body.as_bytes()))
}

fn has(registry: &RegistryProcess, number: usize) -> bool {
    get(&registry.at, &format!("/things/urn:example:{number}"), &[]).status == 200
}

/// Things while the disk is full; the numbers of those that were acknowledged.
fn fill_up(registry: &RegistryProcess, disk: &Disk) -> (Vec<usize>, std::path::PathBuf) {
    let mut acknowledged: Vec<usize> = (0..20).filter(|number| put(registry, *number).status == 201).collect();
    assert_eq!(acknowledged.len(), 20, "there is room");
    let fill = disk.fill();
    let mut refused = None;
    for number in 20..2_000 {
        let answer = put(registry, number);
        if answer.status != 201 {
            refused = Some(answer);
            break;
        }
        acknowledged.push(number);
    }
    let refused = refused.expect("the disk is full");
    assert!(refused.status == 503 && refused.body.contains("nothing can be written now"), "{refused:?}");
    (acknowledged, fill)
}

#[test]
fn a_full_disk_loses_nothing_and_makes_no_second_history() {
    let (machine, publisher) = (Machine::new(), Machine::new());
    let data = machine.folder().join("registry");
    let Some(disk) = Disk::mount(&data) else { return };
    let node = publisher.up_alone(&[]);
    let owner = node.owner();
    let flags = ["--things-anyone", "--publisher", &owner];
    let registry = RegistryProcess::start(&machine, &data, &flags);
    // The publisher's node keeps the newest checkpoint that it saw: what does not go on from it, it refuses.
    publisher.json(&["registry", "add", &registry.at, "--key", &registry.key]);
    let publish = |version: &str| {
        let file = cast::echo("echo", "anyone").replace("version: 1.0.0", &format!("version: {version}"));
        let path = publisher.write("echo.yaml", &file);
        publisher.run(&["publish", path.to_str().expect("a path")])
    };
    assert_eq!(publish("1.0.0").code, 0);
    let (acknowledged, fill) = fill_up(&registry, &disk);
    let refused = publish("1.1.0");
    assert!(refused.code != 0 && refused.stderr.contains("nothing can be written now"), "{refused:?}");
    assert!(acknowledged.iter().all(|number| has(&registry, *number)), "it is read from while nothing can be written");
    std::fs::remove_file(fill).expect("there is room again");
    until(SOON, "it goes on when there is room", || put(&registry, 5_000).status == 201);
    assert_eq!(publish("1.1.0").code, 0, "one history");

    // Killed while the disk is full: the same.
    let fill = disk.fill();
    let at = registry.listens().to_owned();
    registry.running.kill();
    std::fs::remove_file(fill).expect("there is room again");
    let flags = [&flags[..], &["--listen", &at]].concat();
    let registry = RegistryProcess::start(&machine, &data, &flags);
    let lost: Vec<_> = acknowledged.iter().chain(&[5_000]).filter(|number| !has(&registry, **number)).collect();
    assert!(lost.is_empty(), "of {} these are lost: {lost:?}", acknowledged.len());
    assert_eq!(publish("1.2.0").code, 0, "one history");
    let listed = publisher.run(&["release", "list"]);
    assert!(["1.0.0", "1.1.0", "1.2.0"].iter().all(|version| listed.stdout.contains(version)), "{listed:?}");
    drop(registry);
}
