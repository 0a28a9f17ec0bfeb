//! Introductions: what DNS-SD browsers and Web of Things consumers see of a node, and what they do not.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use althing_e2e::world::{Multicast, World};
use althing_e2e::{Machine, Running, cast, until};

const SOON: Duration = Duration::from_secs(30);

/// What a machine reads at an address, with its status and media type.
fn get(machine: &Machine, url: &str) -> (String, String, String) {
    let mut curl = machine.command(Path::new("curl"));
    curl.args(["-s", "-m", "10", "-w", "\n%{http_code} %{content_type}", url]);
    let outcome = Running::start(&mut curl).end(SOON);
    let (body, last) = outcome.stdout.trim_end().rsplit_once('\n').unwrap_or(("", outcome.stdout.trim_end()));
    let (status, kind) = last.split_once(' ').unwrap_or((last, ""));
    (status.to_owned(), kind.to_owned(), body.to_owned())
}

fn with_exposure(name: &str, exposure: &str) -> String {
    cast::echo(name, "anyone").replace("exposure: public", &format!("exposure: {exposure}"))
}

#[test]
fn public_agents_can_be_read_about_and_nothing_else() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    let node = one.up(&["--introduce"]);
    assert_eq!(node.said["introducing"][0], "10.77.0.1:7422");
    one.add("lamp", &cast::echo("lamp", "anyone"));
    one.add("secret", &with_exposure("secret", "hidden"));
    one.add("club", &with_exposure("club", "trusted"));
    let base = "http://10.77.0.1:7422";
    until(SOON, "it is there", || get(two, &format!("{base}/.well-known/wot")).0 == "200");
    let (_, kind, td) = get(two, &format!("{base}/.well-known/wot"));
    let td: serde_json::Value = serde_json::from_str(&td).expect("JSON");
    assert_eq!((kind.as_str(), td["title"].as_str()), ("application/td+json", Some("Agent lamp")));
    one.add("door", &cast::echo("door", "anyone"));
    let (_, _, node_td) = get(two, &format!("{base}/.well-known/wot"));
    assert!(althing_td::validate(node_td.as_bytes()).is_valid(), "{node_td}");
    let node_td: serde_json::Value = serde_json::from_str(&node_td).expect("JSON");
    let links: Vec<&str> =
        node_td["links"].as_array().expect("links").iter().filter_map(|l| l["href"].as_str()).collect();
    assert_eq!(links, [format!("{base}/things/door"), format!("{base}/things/lamp")]);
    let (status, _, card) = get(two, &format!("{base}/a2a/lamp/.well-known/agent-card.json"));
    let card: serde_json::Value = serde_json::from_str(&card).expect("JSON");
    // The gateway listens on loopback: a stranger cannot call it over HTTP, and its address is not disclosed.
    let urls: Vec<&str> =
        card["supportedInterfaces"].as_array().expect("a list").iter().filter_map(|i| i["url"].as_str()).collect();
    assert_eq!(status, "200");
    assert!(urls.iter().all(|url| url.starts_with("althing://")) && urls.len() == 1, "{urls:?}");
    for hidden in
        ["/things/secret", "/things/club", "/a2a/secret/.well-known/agent-card.json", "/agents", "/healthz", "/"]
    {
        let (status, _, body) = get(two, &format!("{base}{hidden}"));
        assert_eq!(status, "404", "{hidden}: {body}");
    }
    let mut post = two.command(Path::new("curl"));
    post.args(["-s", "-o", "/dev/null", "-w", "%{http_code}", "-X", "POST", &format!("{base}/things/lamp")]);
    assert_eq!(Running::start(&mut post).end(SOON).stdout.trim(), "405");
    one.run(&["agent", "remove", "lamp"]);
    until(SOON, "what is gone is gone here too", || get(two, &format!("{base}/things/lamp")).0 == "404");
}

#[test]
fn without_being_told_so_nothing_is_shown() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    let node = one.up(&[]);
    one.add("lamp", &cast::echo("lamp", "anyone"));
    assert_eq!(node.said["introducing"].as_array().map(Vec::len), Some(0));
    assert_eq!(get(two, "http://10.77.0.1:7422/.well-known/wot").0, "000");
}

/// A stock browser of DNS-SD on a machine; `None` where none is installed.
struct Avahi {
    _bus: Running,
    _daemon: Running,
}

fn avahi(machine: &Machine) -> Option<Avahi> {
    let there = |program: &str| {
        let found = Command::new("sh").args(["-c", &format!("command -v {program}")]).output();
        found.is_ok_and(|found| found.status.success())
    };
    if !["avahi-daemon", "avahi-browse", "dbus-daemon"].iter().all(|program| there(program)) {
        let what = "avahi-daemon, avahi-browse and dbus-daemon are not all installed here";
        althing_testing::skip(what, althing_testing::remedy::AVAHI);
        return None;
    }
    // A system bus of its own: nothing of this machine's is touched.
    let bus = "<busconfig><type>system</type><listen>unix:path=SOCKET</listen><auth>EXTERNAL</auth><policy context=\"default\"><allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/></policy></busconfig>";
    let socket = machine.folder().join("bus");
    let config = machine.write("bus.conf", &bus.replace("SOCKET", &socket.display().to_string()));
    let mut dbus = machine.command(Path::new("dbus-daemon"));
    let running = Running::start(dbus.arg("--nofork").arg(format!("--config-file={}", config.display())));
    until(SOON, "the bus is there", || socket.exists());
    let file = machine.write("avahi.conf", "[server]\nuse-ipv6=no\nallow-interfaces=eth0\n[wide-area]\nenable-wide-area=no\n[publish]\ndisable-publishing=yes\n");
    let mut daemon = machine.command(Path::new("avahi-daemon"));
    daemon.args(["--no-drop-root", "--no-chroot", "--no-rlimits", "-f"]).arg(file);
    daemon.env("DBUS_SYSTEM_BUS_ADDRESS", format!("unix:path={}", socket.display()));
    Some(Avahi { _bus: running, _daemon: Running::start(&mut daemon) })
}

#[test]
fn a_stock_browser_sees_public_agents() {
    let Some(world) = World::new(2, Multicast::Carried) else { return };
    let [one, two] = &world.machines[..] else { panic!("two machines") };
    let Some(_avahi) = avahi(two) else { return };
    let _node = one.up(&["--introduce"]);
    one.add("lamp", &cast::echo("lamp", "anyone"));
    one.add("secret", &with_exposure("secret", "hidden"));
    let browse = |service: &str| {
        let mut browse = two.command(Path::new("avahi-browse"));
        browse.args(["--resolve", "--terminate", "--parsable", service]);
        let bus = two.folder().join("bus");
        browse.env("DBUS_SYSTEM_BUS_ADDRESS", format!("unix:path={}", bus.display()));
        Running::start(&mut browse).end(SOON).stdout
    };
    for service in ["_wot._tcp", "_agent._tcp"] {
        let mut seen = String::new();
        until(SOON, "the browser resolves it", || {
            seen = browse(service);
            seen.lines().any(|line| line.starts_with('=') && line.contains("lamp-"))
        });
        let line = seen.lines().find(|line| line.starts_with('=') && line.contains("lamp-")).expect("just seen");
        for part in ["10.77.0.1;7422", "\"td=/things/lamp\"", "\"type=Thing\"", "\"scheme=http\""] {
            assert!(line.contains(part), "{part}: {line}");
        }
        assert!(!seen.contains("secret"), "{seen}");
    }
}

/// The titles of the Things that `find` shows.
fn things(machine: &Machine, query: &[&str]) -> Vec<String> {
    let outcome = machine.run(&[&["--json", "find"], query].concat());
    let found: serde_json::Value = serde_json::from_str(&outcome.stdout).expect("JSON");
    found["things"].as_array().expect("a list").iter().map(|thing| althing_e2e::text(&thing["title"])).collect()
}

#[test]
fn things_of_strangers_on_the_lan_are_found_where_that_is_wanted() {
    let Some(world) = World::new(3, Multicast::Carried) else { return };
    let [one, two, three] = &world.machines[..] else { panic!("three machines") };
    // A node of another network is no peer: what it introduces is somebody else's Thing.
    one.configure("network = \"elsewhere\"\n");
    let stranger = one.up(&["--introduce"]);
    one.add("lamp", &cast::echo("lamp", "anyone"));
    two.configure("[things]\nlan = true\n");
    let (_wants, _does_not) = (two.up(&[]), three.up(&[]));
    until(SOON, "it is found", || things(two, &["lamp"]) == ["Agent lamp"]);
    assert_eq!(things(two, &["--cap", "lamp.say"]), ["Agent lamp"]);
    assert!(two.found().is_empty(), "it is no agent of this mesh");
    let people = two.run(&["find", "lamp"]);
    assert!(people.code == 0 && people.stdout.contains("http://10.77.0.1:7422/things/lamp"), "{people:?}");
    assert!(things(three, &["lamp"]).is_empty(), "nobody asked for it");
    stranger.running.signal(nix::sys::signal::Signal::SIGTERM);
    until(SOON, "who says goodbye is gone", || things(two, &["lamp"]).is_empty());
}

#[test]
fn descriptions_links_and_directories_are_read_where_the_configuration_says() {
    let machine = Machine::new();
    let td = |id: &str, title: &str| {
        serde_json::json!({
            "@context": "https://www.w3.org/2022/wot/td/v1.1", "id": id, "title": title,
            "securityDefinitions": { "n": { "scheme": "nosec" } }, "security": "n",
        })
    };
    let mut link = td("urn:link", "A link");
    link["@type"] = "ThingLink".into();
    link["links"] = serde_json::json!([{ "rel": "describedby", "href": "linked.json" }]);
    let mut directory = td("urn:directory", "A directory");
    directory["@type"] = "ThingDirectory".into();
    directory["properties"] = serde_json::json!({ "things": { "forms": [{ "href": "listing.json" }] } });
    let listing = serde_json::json!([td("urn:a", "Listed pump"), td("urn:b", "Listed valve"), { "no": "description" }]);
    for (name, content) in [
        ("plain.json", td("urn:plain", "Plain pump")),
        ("link.json", link),
        ("linked.json", td("urn:linked", "Linked pump")),
        ("directory.json", directory),
        ("listing.json", listing),
    ] {
        machine.write(name, &content.to_string());
    }
    let mut server = machine.command(Path::new("python3"));
    server.args(["-u", "-m", "http.server", "0", "--bind", "127.0.0.1"]);
    let mut server = Running::start(&mut server);
    let line = server.line(SOON).expect("it says its port");
    let port = line.split(" port ").nth(1).and_then(|rest| rest.split(' ').next()).expect("a port").to_owned();
    let urls = ["plain.json", "link.json", "directory.json", "missing.json"]
        .map(|name| format!("http://127.0.0.1:{port}/{name}"));
    let config = format!("[things]\nurls = {}\n", serde_json::to_string(&urls).expect("a list"));
    machine.configure(&config);
    let _node = machine.up_alone(&[]);
    let mut found = Vec::new();
    until(SOON, "all are read", || {
        found = things(&machine, &["pump"]);
        found.len() == 3
    });
    found.sort_unstable();
    assert_eq!(found, ["Linked pump", "Listed pump", "Plain pump"]);
    assert_eq!(things(&machine, &["valve"]), ["Listed valve"]);
    // An unreadable address is reported, and a Thing is not listed as an agent.
    let doctor = machine.run(&["doctor"]);
    assert!(doctor.stdout.contains(&urls[3]) && doctor.stdout.contains("404"), "{doctor:?}");
    assert!(!urls[..3].iter().any(|url| doctor.stdout.contains(url)), "{doctor:?}");
    assert_eq!(machine.json(&["describe", "urn:plain"])["id"], "urn:plain");
    let titled = machine.run(&["describe", "Plain pump"]);
    assert!(titled.code == 4 && titled.stderr.contains("describe \"urn:plain\""), "{titled:?}");
    let called = machine.run(&["call", "Plain pump", "hello"]);
    assert!(called.code == 4 && called.stderr.contains("is a Thing") && called.stderr.contains(&urls[0]), "{called:?}");
    // An agent of that name is what is meant.
    machine.add("pump", &cast::echo("pump", "anyone"));
    assert!(machine.json(&["describe", "pump"])["id"].to_string().contains("pump"));
    let explained = machine.run(&["find", "pump", "--explain"]);
    assert!(explained.stdout.contains("4 Things are known"), "{explained:?}");
    let nothing = machine.run(&["find", "--cap", "nothing.has-this"]);
    assert!(nothing.code == 4 && nothing.stderr.contains("--explain"), "{nothing:?}");
}
