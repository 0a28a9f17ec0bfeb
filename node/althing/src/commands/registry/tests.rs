//! What people read of registries, and of what was installed from them.

use althing_api::RegistryFork;

use super::*;

fn own(text: &str) -> String {
    text.to_owned()
}

fn status(version: &str, newest: Option<&str>) -> InstallStatus {
    InstallStatus {
        name: own("echo"),
        agent: own("urn:a:echo"),
        version: own(version),
        range: own("^1"),
        registry: own("http://r/"),
        newest: newest.map(own),
        why: None,
        passed_over: Vec::new(),
        revoked: None,
        yanked: None,
        quarantined: None,
        named: None,
        passed_to: None,
        update: UpdateRule::Asked,
        tried: None,
        held: None,
    }
}

#[test]
fn a_registry_that_was_caught_is_not_said_to_be_followed_as_others() {
    let added = RegistryStatus {
        at: own("http://r/"),
        name: own("r"),
        key: own("r+1+A"),
        entries: Some(4),
        forked: None,
        witnesses: None,
    };
    assert_eq!(newly_followed(&added), "this node follows r at http://r/, 4 entries");
    let unread = RegistryStatus { entries: None, ..added.clone() };
    assert_eq!(followed(&unread), "r  http://r/  an unknown number of entries\n  key r+1+A");
    let caught = RegistryStatus { forked: Some(RegistryFork { before: own("a"), now: own("b") }), ..added };
    let said = newly_followed(&caught);
    assert!(said.contains("still asked nothing") && said.contains("registry remove http://r/"), "{said}");
}

#[test]
fn what_is_newer_than_a_revoked_version_is_said() {
    let revoked =
        InstallStatus { revoked: Some(own("x 1.0.0 was revoked by its publisher")), ..status("1.0.0", Some("1.2.0")) };
    assert_eq!(newest(&revoked), "1.2.0; REVOKED: x 1.0.0 was revoked by its publisher");
    let passed_over = vec![own("1.3.0 is yanked: it forgets")];
    let passed = InstallStatus { passed_over, ..status("1.0.0", Some("1.2.0")) };
    assert_eq!(newest(&passed), "1.2.0; not chosen: 1.3.0 is yanked: it forgets");
    let none = InstallStatus { newest: None, ..passed };
    assert!(newest(&none).starts_with("nothing in its range; not chosen"));
    assert_eq!(newest(&status("1.0.0", Some("1.0.0"))), "up to date");
    let yanked = InstallStatus { yanked: Some(own("it forgets")), ..status("1.2.0", None) };
    assert_eq!(newest(&yanked), "nothing newer; 1.2.0 was yanked: it forgets");
    let forged = InstallStatus { yanked: Some(own("x\necho is up to date")), ..status("1.2.0", None) };
    assert_eq!(unchanged("echo", &forged), r"echo stays: 1.2.0 was yanked: x\u{a}echo is up to date; nothing newer");
    let (named, passed_to) = (Some(own("example.org/a")), Some(own("urn:b")));
    let passed = InstallStatus { named, passed_to, ..status("1.0.0", Some("1.0.0")) };
    assert!(newest(&passed).starts_with("up to date; CAREFUL, example.org/a leads to urn:b now"));
    let follows = InstallStatus { update: UpdateRule::Rollout, ..status("1.0.0", Some("1.1.0")) };
    assert_eq!(newest(&follows), "1.1.0; newer ones begin a rollout");
    let held = InstallStatus { held: Some(own("1.1.0: it may do more")), ..follows.clone() };
    assert_eq!(newest(&held), "1.1.0; not tried: 1.1.0: it may do more");
    let tried = InstallStatus { tried: Some(own("1.1.0")), ..follows };
    assert_eq!(newest(&tried), "1.1.0; 1.1.0 is tried: `althing rollout show echo`");
    assert_eq!(unchanged("echo", &yanked), "echo stays: 1.2.0 was yanked: it forgets; nothing newer");
}
