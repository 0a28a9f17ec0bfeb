//! Machines on one LAN: network namespaces around a bridge, gone when the test ends.

use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use althing_testing::remedy::NAMESPACES;
use althing_testing::skip;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::Machine;

/// All namespaces of these tests begin so; then come the test's process id and a number.
const PREFIX: &str = "althing-e2e";

/// What the LAN carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Multicast {
    Carried,
    Dropped,
}

/// Machines, each in a namespace of its own, joined by a bridge in another. No way leads out of it.
pub struct World {
    prefix: String,
    pub machines: Vec<Machine>,
}

impl World {
    /// A LAN of `count` machines; `None`, with the reason printed, where this process may not make one.
    pub fn new(count: usize, multicast: Multicast) -> Option<World> {
        if !nix::unistd::geteuid().is_root() {
            skip("network namespaces need root", NAMESPACES);
            return None;
        }
        sweep();
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let prefix = format!("{PREFIX}-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        // From here on, drop cleans up what was made.
        let mut world = World { prefix, machines: Vec::new() };
        if let Err(reason) = world.build(count, multicast) {
            skip(&format!("no network namespaces: {reason}"), NAMESPACES);
            return None;
        }
        Some(world)
    }

    fn build(&mut self, count: usize, multicast: Multicast) -> Result<(), String> {
        let hub = self.hub();
        ip(&format!("netns add {hub}"))?;
        ip(&format!("-n {hub} link add br0 type bridge mcast_snooping 0"))?;
        ip(&format!("-n {hub} link set br0 up"))?;
        for at in 0..count {
            let (machine, number) = (self.name(at), at + 1);
            ip(&format!("netns add {machine}"))?;
            ip(&format!("link add eth0 netns {machine} type veth peer name p{at} netns {hub}"))?;
            ip(&format!("-n {hub} link set p{at} master br0 up"))?;
            if multicast == Multicast::Dropped {
                ip(&format!("-n {hub} link set p{at} type bridge_slave mcast_flood off"))?;
            }
            ip(&format!("-n {machine} link set lo up"))?;
            ip(&format!("-n {machine} addr add 10.77.0.{number}/24 dev eth0"))?;
            ip(&format!("-n {machine} link set eth0 up"))?;
            ip(&format!("-n {machine} route add 224.0.0.0/4 dev eth0"))?;
            self.machines.push(Machine::within(&machine));
        }
        Ok(())
    }

    /// A machine on the internet, and others, each behind a router of its own that lets nobody in; `None`, with the reason
    /// printed, where this process may not make them.
    pub fn behind_routers(count: usize) -> Option<World> {
        let mut world = World::new(1, Multicast::Dropped)?;
        if let Err(reason) = world.build_routers(count) {
            skip(&format!("no routers: {reason}"), NAMESPACES);
            return None;
        }
        Some(world)
    }

    fn build_routers(&mut self, count: usize) -> Result<(), String> {
        let hub = self.hub();
        // Addresses as the internet routes them; no way leads out of these namespaces.
        ip(&format!("-n {} addr add 5.0.0.1/24 dev eth0", self.name(0)))?;
        ip(&format!("-n {} addr del 10.77.0.1/24 dev eth0", self.name(0)))?;
        for at in 1..=count {
            let (machine, router) = (self.name(at), format!("{}-r{at}", self.prefix));
            for made in [&machine, &router] {
                ip(&format!("netns add {made}"))?;
                ip(&format!("-n {made} link set lo up"))?;
            }
            ip(&format!("link add eth0 netns {router} type veth peer name p{at} netns {hub}"))?;
            ip(&format!("-n {hub} link set p{at} master br0 up"))?;
            ip(&format!("-n {router} addr add 5.0.{at}.1/16 dev eth0"))?;
            ip(&format!("-n {router} link set eth0 up"))?;
            ip(&format!("link add eth0 netns {machine} type veth peer name eth1 netns {router}"))?;
            ip(&format!("-n {router} addr add 192.168.{at}.1/24 dev eth1"))?;
            ip(&format!("-n {router} link set eth1 up"))?;
            ip(&format!("-n {machine} addr add 192.168.{at}.2/24 dev eth0"))?;
            ip(&format!("-n {machine} link set eth0 up"))?;
            ip(&format!("-n {machine} route add default via 192.168.{at}.1"))?;
            let rules = "echo 1 > /proc/sys/net/ipv4/ip_forward && \
                iptables -t nat -A POSTROUTING -o eth0 -j MASQUERADE && \
                iptables -A FORWARD -i eth0 -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT && \
                iptables -A FORWARD -i eth0 -j DROP && \
                iptables -A INPUT -i eth0 -m conntrack --ctstate ESTABLISHED,RELATED -j ACCEPT && \
                iptables -A INPUT -i eth0 -j DROP";
            output(Command::new("ip").args(["netns", "exec", &router, "sh", "-c", rules]))?;
            self.machines.push(Machine::within(&machine));
        }
        // The machine on the internet sees the routers as neighbours, each of another network.
        ip(&format!("-n {} addr add 5.0.0.1/16 dev eth0", self.name(0)))?;
        Ok(())
    }

    /// The router of a machine lets in what comes for a port, and hands it to one of the machine's.
    pub fn forward(&self, at: usize, port: u16, to: u16) {
        let router = format!("{}-r{at}", self.prefix);
        let rules = format!(
            "iptables -t nat -A PREROUTING -i eth0 -p tcp --dport {port} -j DNAT --to 192.168.{at}.2:{to} && \
             iptables -I FORWARD -i eth0 -p tcp --dport {to} -j ACCEPT"
        );
        output(Command::new("ip").args(["netns", "exec", &router, "sh", "-c", &rules])).expect("a router of ours");
    }

    fn hub(&self) -> String {
        format!("{}-hub", self.prefix)
    }

    fn name(&self, at: usize) -> String {
        format!("{}-{at}", self.prefix)
    }

    /// The ids of what runs on a machine.
    pub fn processes(&self, at: usize) -> String {
        ip(&format!("netns pids {}", self.name(at))).expect("a namespace of ours")
    }

    /// Blocks multicast on the LAN.
    pub fn quiet(&self) {
        for at in 0..self.machines.len() {
            ip(&format!("-n {} link set p{at} type bridge_slave mcast_flood off", self.hub()))
                .expect("the bridge is ours");
        }
    }

    /// Disconnects a machine from the LAN.
    pub fn cut(&self, at: usize) {
        ip(&format!("-n {} link set p{at} down", self.hub())).expect("the bridge is ours");
    }

    /// Connects it again.
    pub fn restore(&self, at: usize) {
        ip(&format!("-n {} link set p{at} up", self.hub())).expect("the bridge is ours");
    }

    /// Takes a machine's interface away: it is gone, with its address.
    pub fn unplug(&self, at: usize, interface: &str) {
        ip(&format!("-n {} link del {interface}", self.name(at))).expect("an interface of ours");
    }

    /// Gives a machine that has none an interface of this name, and an address there.
    pub fn plug(&self, at: usize, interface: &str, address: &str) {
        let (machine, hub) = (self.name(at), self.hub());
        for command in [
            format!("link add {interface} netns {machine} type veth peer name p{at} netns {hub}"),
            format!("-n {hub} link set p{at} master br0 up"),
            format!("-n {machine} addr add {address}/24 dev {interface}"),
            format!("-n {machine} link set {interface} up"),
            format!("-n {machine} route add 224.0.0.0/4 dev {interface}"),
        ] {
            ip(&command).unwrap_or_else(|reason| panic!("{reason}"));
        }
    }

    /// Gives a machine's interface another name.
    pub fn rename(&self, at: usize, from: &str, to: &str) {
        let machine = self.name(at);
        for command in [
            format!("-n {machine} link set {from} down"),
            format!("-n {machine} link set {from} name {to}"),
            format!("-n {machine} link set {to} up"),
            format!("-n {machine} route add 224.0.0.0/4 dev {to}"),
        ] {
            ip(&command).unwrap_or_else(|reason| panic!("{reason}"));
        }
    }

    /// Gives a machine one more address.
    pub fn add_address(&self, at: usize, address: &str) {
        ip(&format!("-n {} addr add {address}/24 dev eth0", self.name(at))).expect("a namespace of ours");
    }

    /// Takes such an address away.
    pub fn remove_address(&self, at: usize, address: &str) {
        ip(&format!("-n {} addr del {address}/24 dev eth0", self.name(at))).expect("a namespace of ours");
    }

    /// Drops packets from one machine to another, in this direction only.
    pub fn deafen(&self, at: usize, to: usize) {
        self.within(at, &["iptables", "-A", "INPUT", "-s", &format!("10.77.0.{}", to + 1), "-j", "DROP"]);
    }

    /// Drops a share of the packets to a machine.
    pub fn lose(&self, at: usize, share: f64) {
        let share = share.to_string();
        let rule = ["-m", "statistic", "--mode", "random", "--probability", &share, "-j", "DROP"];
        self.within(at, &[&["iptables", "-A", "INPUT", "-i", "eth0"][..], &rule].concat());
    }

    /// Blocks a port by the machine's own firewall.
    pub fn shut(&self, at: usize, port: u16) {
        for protocol in ["tcp", "udp"] {
            let port = port.to_string();
            self.within(at, &["iptables", "-A", "INPUT", "-i", "eth0", "-p", protocol, "--dport", &port, "-j", "DROP"]);
        }
    }

    /// Removes the drop rules of a machine.
    pub fn mend(&self, at: usize) {
        self.within(at, &["iptables", "-F"]);
    }

    /// Limits the bandwidth of a machine, kilobits a second.
    pub fn narrow(&self, at: usize, kilobits: u32) {
        let rate = format!("{kilobits}kbit");
        self.within(
            at,
            &["tc", "qdisc", "add", "dev", "eth0", "root", "tbf", "rate", &rate, "burst", "32kbit", "latency", "50ms"],
        );
    }

    /// Runs `what` on a thread whose sockets are a machine's.
    pub fn inside<T: Send>(&self, at: usize, what: impl FnOnce() -> T + Send) -> T {
        let namespace = std::fs::File::open(format!("/var/run/netns/{}", self.name(at))).expect("a namespace of ours");
        std::thread::scope(|scope| {
            let within = scope.spawn(|| {
                nix::sched::setns(namespace, nix::sched::CloneFlags::CLONE_NEWNET).expect("root may enter it");
                what()
            });
            within.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// A machine, on which no node runs, passes on connections to its port 7421 to that of another, each byte `by` later.
    pub fn delay(&self, at: usize, to: usize, by: std::time::Duration) {
        let number = u8::try_from(to + 1).expect("few machines");
        let to = std::net::SocketAddrV4::new(std::net::Ipv4Addr::new(10, 77, 0, number), 7_421);
        self.inside(at, || super::delay::relay(7_421, to, by));
    }

    fn within(&self, at: usize, command: &[&str]) {
        let mut within = Command::new("ip");
        within.args(["netns", "exec", &self.name(at)]).args(command);
        output(&mut within).unwrap_or_else(|reason| panic!("{reason}"));
    }

    /// Routes that lead out of the LAN.
    pub fn ways_out(&self, at: usize) -> String {
        let four = ip(&format!("-n {} -4 route show default", self.name(at))).expect("a namespace of ours");
        four + &ip(&format!("-n {} -6 route show default", self.name(at))).expect("a namespace of ours")
    }

    /// How often something in there tried to reach an IPv4 address to which no route leads.
    pub fn tries_to_leave(&self, at: usize) -> u64 {
        let snmp = output(Command::new("ip").args(["netns", "exec", &self.name(at), "cat", "/proc/net/snmp"]));
        let snmp = snmp.expect("/proc/net/snmp");
        let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Ip:")).map(str::split_whitespace);
        let (names, numbers) = (lines.next().expect("names"), lines.next().expect("numbers"));
        let found = names.zip(numbers).find(|(name, _)| *name == "OutNoRoutes");
        found.and_then(|(_, number)| number.parse().ok()).expect("a count of packets without a route")
    }
}

impl Drop for World {
    fn drop(&mut self) {
        self.machines.clear();
        remove(&format!("{}-", self.prefix));
    }
}

fn ip(arguments: &str) -> Result<String, String> {
    output(Command::new("ip").args(arguments.split(' ')))
}

fn output(command: &mut Command) -> Result<String, String> {
    let done = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&done.stderr).trim()))
}

fn namespaces() -> Vec<String> {
    let list = ip("netns list").unwrap_or_default();
    list.lines().filter_map(|line| line.split(' ').next()).map(str::to_owned).collect()
}

fn remove(prefix: &str) {
    for name in namespaces().iter().filter(|name| name.starts_with(prefix)) {
        if let Err(reason) = ip(&format!("netns del {name}")) {
            eprintln!("a namespace stays: {reason}");
        }
    }
}

/// Removes what a test left behind that was killed.
fn sweep() {
    for name in namespaces() {
        let Some(rest) = name.strip_prefix(&format!("{PREFIX}-")) else { continue };
        let process = rest.split('-').next().and_then(|pid| pid.parse::<u32>().ok());
        if process.is_some_and(|pid| !super::runs(pid)) {
            // Nodes outlive a test that was killed. Another test may do the same at this moment.
            for pid in ip(&format!("netns pids {name}")).unwrap_or_default().lines().filter_map(|pid| pid.parse().ok())
            {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
            let _ = ip(&format!("netns del {name}"));
        }
    }
}
