//! Which network interfaces mDNS uses. It is asked again whenever those of the machine may have changed: one that comes up
//! later, takes another's place or gets another name is used like one that was there at the start.

/// Names of interfaces that lead to containers and virtual machines, not to people's other machines, begin so.
const VIRTUAL: [&str; 6] = ["docker", "br-", "virbr", "vmnet", "vboxnet", "cni"];

/// An interface of this machine that is up and has an address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Whether it leads to this machine only.
    pub is_loopback: bool,
}

/// What the configuration says of interfaces.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Selection {
    wanted: Vec<String>,
}

impl Selection {
    /// Those of these names; all that lead to other machines where there are none, and the loopback where no such one is up.
    #[must_use]
    pub fn new(wanted: Vec<String>) -> Selection {
        Selection { wanted }
    }

    /// Whether an interface is used. `all` gives those that are up now: they matter only to the loopback.
    pub fn takes(&self, interface: &Interface, all: impl FnOnce() -> Vec<Interface>) -> bool {
        let stands_in = || self.wanted.is_empty() && !all().iter().any(|other| self.fits(other));
        self.fits(interface) || interface.is_loopback && stands_in()
    }

    /// Those of `all` that are used.
    #[must_use]
    pub fn of(&self, all: &[Interface]) -> Vec<Interface> {
        all.iter().filter(|interface| self.takes(interface, || all.to_vec())).cloned().collect()
    }

    /// The names of the configuration that no interface of `all` has.
    #[must_use]
    pub fn absent(&self, all: &[Interface]) -> Vec<String> {
        let is_there = |name: &String| all.iter().any(|interface| interface.name == *name);
        self.wanted.iter().filter(|name| !is_there(name)).cloned().collect()
    }

    /// Whether an interface is used, whatever others there are.
    fn fits(&self, interface: &Interface) -> bool {
        if self.wanted.is_empty() {
            !interface.is_loopback && !VIRTUAL.iter().any(|prefix| interface.name.starts_with(prefix))
        } else {
            self.wanted.contains(&interface.name)
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn interface(name: &str) -> Interface {
        Interface { name: name.to_owned(), is_loopback: name == "lo" }
    }

    fn used(selection: &Selection, all: &[&str]) -> Vec<String> {
        let all: Vec<Interface> = all.iter().map(|name| interface(name)).collect();
        selection.of(&all).into_iter().map(|used| used.name).collect()
    }

    #[test]
    fn what_comes_later_is_used_and_the_loopback_only_until_then() {
        let any = Selection::default();
        assert_eq!(used(&any, &["lo"]), ["lo"]);
        assert_eq!(used(&any, &["lo", "docker0", "br-1234"]), ["lo"], "these lead to no other machine");
        assert_eq!(used(&any, &["lo", "docker0", "wlan0"]), ["wlan0"]);
        assert_eq!(used(&any, &["lo", "wlan0", "eth0"]), ["wlan0", "eth0"]);
        assert_eq!(used(&any, &[]), [""; 0]);
    }

    #[test]
    fn an_interface_that_is_named_is_used_once_it_is_there_and_no_other_meanwhile() {
        let named = Selection::new(vec!["eth7".to_owned(), "docker0".to_owned()]);
        assert_eq!(used(&named, &["lo", "eth0"]), [""; 0]);
        assert_eq!(used(&named, &["lo", "eth0", "docker0", "eth7"]), ["docker0", "eth7"]);
        assert_eq!(named.absent(&[interface("docker0")]), ["eth7"]);
        assert_eq!(used(&Selection::new(vec!["lo".to_owned()]), &["lo", "eth0"]), ["lo"]);
    }

    proptest! {
        /// Whatever there was before: what is used follows from what is there now, and from nothing else.
        #[test]
        fn one_that_leads_to_others_is_never_left_out(names in prop::collection::btree_set("(lo|eth[0-9]|wl[a-z]{1,3}|docker0)", 0..6)) {
            let all: Vec<Interface> = names.iter().map(|name| interface(name)).collect();
            let used = Selection::default().of(&all);
            let leads = |one: &&Interface| !one.is_loopback && one.name != "docker0";
            let expected: Vec<Interface> = all.iter().filter(leads).cloned().collect();
            if expected.is_empty() {
                prop_assert!(used.iter().all(|one| one.is_loopback));
                prop_assert_eq!(used.is_empty(), !names.contains("lo"));
            } else {
                prop_assert_eq!(used, expected);
            }
        }
    }
}
