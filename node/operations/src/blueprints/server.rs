//! The program behind an address of this machine, and the memory that it and what it started have. As far as the kernel shows
//! it: the programs of other users are hidden.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Whether an address is of this machine, by itself.
pub fn is_here(url: &str) -> bool {
    let Some(url) = parsed(url) else { return false };
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || host.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

/// The port of an address.
pub fn port(url: &str) -> Option<u16> {
    parsed(url)?.port_or_known_default()
}

fn parsed(url: &str) -> Option<althing_discovery::Url> {
    althing_discovery::Url::parse(url).ok()
}

/// The processes that listen on a port, and what they started.
pub fn processes(port: u16) -> BTreeSet<u32> {
    let sockets: BTreeSet<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .flat_map(|table| listening(&std::fs::read_to_string(table).unwrap_or_default(), port))
        .collect();
    if sockets.is_empty() {
        return BTreeSet::new();
    }
    let all = pids();
    let holds = |pid: &u32| {
        let held = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        held.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|to| sockets.contains(&*to.to_string_lossy()))
    };
    let listening: BTreeSet<u32> = all.iter().copied().filter(holds).collect();
    let parents: BTreeMap<u32, u32> = all.iter().filter_map(|pid| Some((*pid, parent(*pid)?))).collect();
    descended(listening, &parents)
}

/// Memory of some processes, MiB: what is in memory now. None if there is no process.
pub fn memory_mib(processes: &BTreeSet<u32>) -> Option<u64> {
    let kib = |pid: &u32| resident_kib(&std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?);
    let all: Vec<u64> = processes.iter().filter_map(kib).collect();
    (!all.is_empty()).then(|| all.iter().sum::<u64>() / 1_024)
}

/// The processor's name; empty if the kernel does not tell it.
pub fn cpu() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':').map(|(_, name)| name));
    name.unwrap_or_default().split_whitespace().collect::<Vec<_>>().join(" ")
}

fn pids() -> Vec<u32> {
    let all = std::fs::read_dir(Path::new("/proc")).into_iter().flatten().flatten();
    all.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name may hold anything, also spaces and parentheses.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// The links under which processes hold the sockets of a table that listen on a port.
fn listening(table: &str, port: u16) -> Vec<String> {
    const LISTENS: &str = "0A";
    let port = format!(":{port:04X}");
    let socket = |line: &str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
        (local.ends_with(&port) && *state == LISTENS).then(|| format!("socket:[{inode}]"))
    };
    table.lines().skip(1).filter_map(socket).collect()
}

fn descended(mut of: BTreeSet<u32>, parents: &BTreeMap<u32, u32>) -> BTreeSet<u32> {
    loop {
        let more: Vec<u32> = parents
            .iter()
            .filter(|(pid, parent)| of.contains(*parent) && !of.contains(*pid))
            .map(|(pid, _)| *pid)
            .collect();
        if more.is_empty() {
            return of;
        }
        of.extend(more);
    }
}

fn resident_kib(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    line.trim().trim_end_matches(" kB").trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_is_this_machine() {
        for here in ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:1/v1", "https://127.9.9.9/"] {
            assert!(is_here(here), "{here}");
        }
        for other in ["http://192.0.2.1/v1", "http://localhost.example.org/v1", "http://example.org", "nonsense"] {
            assert!(!is_here(other), "{other}");
        }
        assert_eq!(port("http://127.0.0.1:8000/v1"), Some(8_000));
        assert_eq!(port("http://localhost/v1"), Some(80));
    }

    #[test]
    fn a_listening_socket_is_found_by_its_port() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F40 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4711 1\n\
             1: 0100007F:1F40 0100007F:9999 01 00000000:00000000 00:00000000 00000000  1000        0 4712 1\n\
             2: 0100007F:1F41 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 4713 1\n";
        assert_eq!(listening(table, 8_000), ["socket:[4711]"]);
        assert_eq!(listening(table, 8_002), [""; 0]);
    }

    #[test]
    fn what_a_server_started_belongs_to_it() {
        let parents = BTreeMap::from([(2, 1), (3, 2), (4, 1), (5, 9)]);
        assert_eq!(descended(BTreeSet::from([2]), &parents), BTreeSet::from([2, 3]));
        assert_eq!(resident_kib("Name:\tx\nVmRSS:\t    2048 kB\n"), Some(2_048));
    }

    #[test]
    fn this_process_is_found_by_the_port_on_which_it_listens() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        let found = processes(listener.local_addr().expect("it listens").port());
        assert!(found.contains(&std::process::id()), "{found:?}");
        assert!(memory_mib(&found).is_some_and(|mib| mib > 0));
        assert_eq!(memory_mib(&BTreeSet::new()), None);
    }
}
