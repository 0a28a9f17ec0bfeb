//! What is to be said of the LAN, of the peers that the node remembers, and of keys that two nodes use.

use super::finding::{Finding, counted, fine, fitting, note, wrong};

/// Absent peers that are named.
const ABSENT_SHOWN: usize = 3;
/// Keys of others that are named.
const KEYS_SHOWN: usize = 4;

/// What to do about a key that two nodes use.
const ONE_KEY: &str = "one of the two was made from a copy of the other's data directory: stop that one, move `node.key` in its data \
                       directory away, and start it again, with which it gets a key of its own; if nobody copied it, the key was \
                       stolen: do that on both. Until then agents of both are not found reliably";

/// Where a node looks for others, whom it remembers, and who uses one key.
#[derive(Debug, Clone, Default)]
pub struct Mesh {
    /// The interfaces at which mDNS takes part, each with its addresses; empty where none is up.
    pub interfaces: Vec<(String, Vec<String>)>,
    /// Whether these lead to this machine only.
    pub is_loopback_only: bool,
    /// Names of `lan.interfaces` that no interface has which is up and has an address.
    pub missing: Vec<String>,
    /// Where public agents are introduced; nothing where introductions are off.
    pub introducing: Option<Vec<String>>,
    /// Peers that the node remembers.
    pub remembered: usize,
    /// Those that are the owner's own, trusted or named by the configuration.
    pub near: usize,
    /// Those that are not connected, the most recent first: name, address, and why the last dial failed, if one did.
    pub absent: Vec<(String, String, Option<String>)>,
    /// Where this node and another one are that uses the same key.
    pub twin: Option<[String; 2]>,
    /// Nodes whose keys several use, with the addresses of each of these.
    pub shared_keys: Vec<(String, Vec<String>)>,
}

/// Keys that two nodes use.
pub(super) fn keys(mesh: &Mesh, findings: &mut Vec<Finding>) {
    if let Some([own, other]) = &mesh.twin {
        let what = format!("another node uses this key: this node is at {own}, the other at {other}");
        findings.push(wrong("L2", what, ONE_KEY));
    }
    findings.extend(mesh.shared_keys.iter().take(KEYS_SHOWN).map(|(node, places)| {
        let what = format!("the key of {node}: another node uses this key; they are at {}", places.join(" and at "));
        wrong("L2", what, format!("tell their owner: {ONE_KEY}"))
    }));
    if mesh.shared_keys.len() > KEYS_SHOWN {
        let more = mesh.shared_keys.len() - KEYS_SHOWN;
        findings.push(wrong("L2", format!("{more} more keys are used by two nodes each"), ONE_KEY));
    }
}

/// The interfaces at which the node is on the LAN.
pub(super) fn interfaces(mesh: &Mesh, findings: &mut Vec<Finding>) {
    if !mesh.missing.is_empty() {
        let what = format!("`lan.interfaces` names {}, which has no address here now", mesh.missing.join(", "));
        let remedy =
            "correct the name (`ip address` shows them), or bring it up: it is used within 10 s of its address";
        findings.push(wrong("L3", what, remedy));
    }
    let named = mesh.interfaces.iter().map(|(name, addresses)| format!("{name} ({})", addresses.join(", ")));
    let named = named.collect::<Vec<_>>().join(", ");
    let later = "one that comes up is used within 10 s of its address, unless `lan.interfaces` names others";
    findings.push(match (mesh.interfaces.is_empty(), mesh.is_loopback_only) {
        (true, _) => note("L3", "mDNS is on, and uses no interface: none that it may use has an address", later),
        (false, true) => note(
            "L3",
            format!("mDNS uses {named}, which leads to this machine only: no other interface has an address"),
            later,
        ),
        (false, false) => fine("L3", format!("mDNS uses {named}")),
    });
}

/// Where strangers read of public agents.
pub(super) fn introductions(mesh: &Mesh, findings: &mut Vec<Finding>) {
    let Some(addresses) = &mesh.introducing else { return };
    findings.push(if addresses.is_empty() {
        let what =
            "introductions are on, and served at no address: none of those that `introduce.listen` means is here";
        note("L3", what, "an address that comes is used within seconds")
    } else {
        fine("L3", format!("public agents are introduced at {}", addresses.join(", ")))
    });
}

/// The peers that were known before.
pub(super) fn remembered(mesh: &Mesh, connected: usize, findings: &mut Vec<Finding>) {
    if mesh.remembered == 0 {
        return;
    }
    let (all, absent) = (mesh.remembered, mesh.absent.len());
    let near = match mesh.near {
        0 => String::new(),
        near => format!(", of them {near} of this owner, trusted or named by the configuration"),
    };
    let are = |number: usize| fitting(number, "is", "are");
    let what = format!(
        "{} {} remembered from before{near}; {absent} of them {} not connected",
        counted(all, "peer"),
        are(all),
        are(absent)
    );
    if connected > 0 || absent == 0 {
        findings.push(fine("L3", what));
        return;
    }
    let named = mesh.absent.iter().take(ABSENT_SHOWN).map(|(peer, address, why)| match why {
        Some(why) => format!("{peer} at {address} ({why})"),
        None => format!("{peer} at {address}"),
    });
    let named = named.collect::<Vec<_>>().join("; ");
    let remedy = "nothing, if their machines or this one's network are off: they are dialled again and again, and met within \
                  seconds once one answers";
    findings.push(note("L3", format!("{what}, and are dialled: {named}"), remedy));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(of: impl FnOnce(&mut Vec<Finding>)) -> Vec<(bool, String)> {
        let mut findings = Vec::new();
        of(&mut findings);
        findings.into_iter().map(|finding| (finding.fine, format!("{}; {}", finding.what, finding.remedy))).collect()
    }

    #[test]
    fn a_key_that_two_nodes_use_is_named_with_both_addresses_and_what_to_do() {
        let [one, two] = ["/ip4/10.0.0.1/tcp/7421", "/ip4/10.0.0.2/tcp/7421"].map(str::to_owned);
        let own = Mesh { twin: Some([one.clone(), two.clone()]), ..Mesh::default() };
        let seen =
            Mesh { shared_keys: vec![("z6Mk…".to_owned(), vec![one.clone(), two.clone()])], ..Mesh::default() };
        for mesh in [own, seen] {
            let said = told(|findings| keys(&mesh, findings));
            assert_eq!(said.len(), 1, "{said:?}");
            for part in ["another node uses this key", one.as_str(), two.as_str(), "move `node.key`"] {
                assert!(!said[0].0 && said[0].1.contains(part), "{part}: {said:?}");
            }
        }
        let many = Mesh { shared_keys: vec![("z".to_owned(), vec![one, two]); 9], ..Mesh::default() };
        let said = told(|findings| keys(&many, findings));
        assert!(said.len() == KEYS_SHOWN + 1 && said[KEYS_SHOWN].1.contains("5 more keys"), "{said:?}");
        assert!(told(|findings| keys(&Mesh::default(), findings)).is_empty());
    }

    #[test]
    fn the_interfaces_in_use_are_named_and_what_is_not_there_is_said() {
        let up = |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), vec!["10.0.0.1".to_owned()])).collect();
        let used = Mesh { interfaces: up(&["eth0", "wlan0"]), ..Mesh::default() };
        let said = told(|findings| interfaces(&used, findings));
        assert_eq!(said, [(true, "mDNS uses eth0 (10.0.0.1), wlan0 (10.0.0.1); ".to_owned())]);
        let alone = Mesh { interfaces: up(&["lo"]), is_loopback_only: true, ..Mesh::default() };
        let said = told(|findings| interfaces(&alone, findings));
        assert!(said[0].0 && said[0].1.contains("this machine only"), "{said:?}");
        let absent = Mesh { missing: vec!["eth7".to_owned()], ..Mesh::default() };
        let said = told(|findings| interfaces(&absent, findings));
        assert!(!said[0].0 && said[0].1.contains("eth7") && said[1].1.contains("uses no interface"), "{said:?}");
    }

    #[test]
    fn where_agents_are_introduced_is_said_also_when_that_is_nowhere() {
        let at = |addresses: Option<&[&str]>| {
            let introducing = addresses.map(|all| all.iter().map(|one| (*one).to_owned()).collect());
            let mesh = Mesh { introducing, ..Mesh::default() };
            told(|findings| introductions(&mesh, findings))
        };
        assert!(at(None).is_empty());
        assert!(at(Some(&["10.0.0.1:7422"]))[0].1.contains("introduced at 10.0.0.1:7422"));
        let nowhere = at(Some(&[]));
        assert!(nowhere[0].0 && nowhere[0].1.contains("at no address"), "{nowhere:?}");
    }

    #[test]
    fn whom_a_node_remembers_is_said_and_who_is_dialled_when_it_is_alone() {
        let absent =
            |why: Option<&str>| ("z6Mk…".to_owned(), "/ip4/10.0.0.9/tcp/7421".to_owned(), why.map(str::to_owned));
        let mesh = Mesh { remembered: 5, near: 2, absent: vec![absent(Some("nobody answered")); 4], ..Mesh::default() };
        let said = told(|findings| remembered(&mesh, 1, findings));
        assert!(
            said[0].0 && said[0].1.contains("5 peers are remembered") && said[0].1.contains("4 of them"),
            "{said:?}"
        );
        let said = told(|findings| remembered(&mesh, 0, findings));
        assert!(said[0].0 && said[0].1.contains("at /ip4/10.0.0.9/tcp/7421 (nobody answered)"), "{said:?}");
        assert_eq!(said[0].1.matches("10.0.0.9").count(), ABSENT_SHOWN);
        assert!(told(|findings| remembered(&Mesh::default(), 0, findings)).is_empty());
    }
}
