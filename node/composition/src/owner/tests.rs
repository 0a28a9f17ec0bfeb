use std::fs;

use std::sync::Arc;

use althing_failure::KeyStep;
use althing_protocol::Keyring;
use althing_protocol::keyring::Origin;
use tempfile::TempDir;

use super::*;

fn clock() -> WallClock {
    WallClock::new(|| 1_800_000_000_000)
}

/// Differs with each draw.
fn entropy() -> Entropy {
    let drawn = std::sync::atomic::AtomicU64::new(0);
    Entropy::new(move |bytes| {
        let number = drawn.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
        bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = (number as usize * 31 + at * 7) as u8);
    })
}

fn begun() -> (TempDir, Owner, Entropy) {
    let folder = TempDir::new().expect("a folder");
    let entropy = entropy();
    let owner = Owner::open(folder.path(), &clock(), &entropy).expect("a new owner");
    (folder, owner, entropy)
}

const HOUR: std::time::Duration = std::time::Duration::from_secs(3_600);

#[test]
fn of_two_that_make_a_key_at_once_both_have_the_same() {
    let folder = TempDir::new().expect("a folder");
    let path = folder.path().join("node.key");
    let theirs = path.clone();
    // The other one writes its key after this one saw that there is none.
    let late = Entropy::new(move |bytes| {
        keyfile::write_secret(&theirs, &[9; 32]).expect("the other one's");
        bytes.fill(1);
    });
    let key = secret(&path, &late).expect("the key of both");
    assert_eq!(key.public(), SecretKey::from_seed(&[9; 32]).public());
    let other = folder.path().join("other.key");
    let key = secret(&other, &entropy()).expect("a new one");
    assert_eq!(secret(&other, &entropy()).expect("it is kept").public(), key.public());
}

#[test]
fn a_rotation_changes_the_key_and_not_the_name() {
    let (folder, first, entropy) = begun();
    rotate(folder.path(), None, HOUR, &clock(), &entropy).expect("rotated");
    let second = Owner::open(folder.path(), &clock(), &entropy).expect("the rotated owner");
    assert_eq!(second.id(), first.id());
    assert_ne!(second.key.public(), first.key.public());
    let next = Files::lock(folder.path()).expect("free").next().expect("read").expect("made");
    assert!(next.belong_to(&second.log));
    rotate(folder.path(), None, HOUR, &clock(), &entropy).expect("rotated again");
    assert_eq!(Owner::open(folder.path(), &clock(), &entropy).expect("once more").log.len(), 3);
}

#[test]
fn a_rotation_that_is_cut_off_is_either_done_or_not() {
    let (folder, first, entropy) = begun();
    let before: Vec<(std::path::PathBuf, Vec<u8>)> =
        ["owner.key", "owner-next.key", "owner-after-next.key", "owner.log"]
            .map(|name| (folder.path().join(name), fs::read(folder.path().join(name)).expect("a file")))
            .to_vec();
    rotate(folder.path(), None, HOUR, &clock(), &entropy).expect("rotated");
    let after = |name: &str| fs::read(folder.path().join(name)).expect("a file");
    let (key, next, log) = (after("owner.key"), after("owner-next.key"), after("owner.log"));
    let after_next = after("owner-after-next.key");
    let put = |name: &str, bytes: &[u8]| keyfile::replace_secret(&folder.path().join(name), bytes).expect("written");
    // Which files were written when it was cut off, in the order in which they are written.
    for (staged, logged, settled) in [(1, false, 0), (2, false, 0), (3, false, 0), (3, true, 0), (3, true, 1)] {
        for (path, bytes) in &before {
            keyfile::replace_secret(path, bytes).expect("written");
        }
        let all = [("owner.key.new", &key), ("owner-next.key.new", &next), ("owner-after-next.key.new", &after_next)];
        for (name, bytes) in all.into_iter().take(staged) {
            put(name, bytes);
        }
        if logged {
            put("owner.log", &log);
        }
        if settled == 1 {
            fs::rename(folder.path().join("owner.key.new"), folder.path().join("owner.key")).expect("moved");
        }
        let owner = Owner::open(folder.path(), &clock(), &entropy).expect("it can always be opened");
        assert_eq!(owner.key.public() == first.key.public(), !logged, "{staged} {logged} {settled}");
        assert!(owner.has_next, "{staged} {logged} {settled}");
        for (name, _) in all {
            assert!(!folder.path().join(name).exists(), "{name}");
        }
    }
}

#[test]
fn a_key_without_its_log_is_refused_and_no_second_owner_is_made() {
    let (folder, _, entropy) = begun();
    let key = fs::read(folder.path().join("owner.key")).expect("a file");
    fs::remove_file(folder.path().join("owner.log")).expect("it was there");
    for _ in 0..2 {
        let refused = Owner::open(folder.path(), &clock(), &entropy).expect_err("whose key is that?");
        assert_eq!(refused.remedy(), Some(KeyStep::Import.into()));
        assert!(refused.to_string().contains("owner.log is missing"), "{refused}");
    }
    assert!(!folder.path().join("owner.log").exists(), "no other beginning was written");
    assert_eq!(fs::read(folder.path().join("owner.key")).expect("a file"), key);
}

#[test]
fn a_first_start_that_is_cut_off_is_begun_again() {
    let folder = TempDir::new().expect("a folder");
    // The keys were staged, and the log was not written.
    for name in ["owner.key.new", "owner-next.key.new"] {
        keyfile::replace_secret(&folder.path().join(name), &[9; 32]).expect("written");
    }
    let owner = Owner::open(folder.path(), &clock(), &entropy()).expect("a new owner");
    assert!(owner.has_next && owner.key.seed() != [9; 32]);
}

#[test]
fn an_owner_of_an_earlier_version_is_refused_with_what_to_do() {
    // An inception as it was: a map whose member 5 is one digest, in the envelope that has not changed.
    let mut e = minicbor::Encoder::new(Vec::new());
    e.map(5)
        .and_then(|e| e.u8(0)?.u8(4)?.u8(1)?.u8(1)?.u8(2)?.u8(0)?.u8(4)?.bytes(&[1; 32])?.u8(5)?.bytes(&[2; 32]))
        .expect("writing to a vector cannot fail");
    let payload = e.into_writer();
    let mut e = minicbor::Encoder::new(Vec::new());
    e.array(4)
        .and_then(|e| e.bytes(&[0; 38])?.map(0)?.bytes(&payload)?.bytes(&[0; 64]))
        .expect("writing to a vector cannot fail");
    let folder = TempDir::new().expect("a folder");
    keyfile::write_secret(&folder.path().join("owner.key"), &[1; 32]).expect("written");
    keyfile::write_secret(&folder.path().join("owner.log"), &encode(vec![e.into_writer()])).expect("written");
    let refused = Owner::open(folder.path(), &clock(), &entropy()).expect_err("another kind of owner").to_string();
    assert!(refused.contains("an earlier version") && refused.contains("move the files owner*"), "{refused}");
}

#[test]
fn a_revoked_owner_is_nobody_any_more() {
    let (folder, _, entropy) = begun();
    revoke(folder.path(), None, &clock()).expect("revoked");
    let refused = Owner::open(folder.path(), &clock(), &entropy).expect_err("revoked").to_string();
    assert!(refused.contains("revoked its keys"), "{refused}");
    assert!(Owner::read(folder.path()).expect("readable").log.revoked());
    for again in
        [revoke(folder.path(), None, &clock()).err(), rotate(folder.path(), None, HOUR, &clock(), &entropy).err()]
    {
        assert!(again.is_some_and(|failure| failure.to_string().contains("final")));
    }
}

#[test]
fn exported_keys_come_back_and_the_next_one_can_live_elsewhere() {
    let (folder, owner, entropy) = begun();
    let file = folder.path().join("kept.keys");
    let unmounted = folder.path().join("stick/kept.keys");
    let refused =
        export(folder.path(), &unmounted, "correct horse", true, &entropy).expect_err("no such folder").to_string();
    assert!(refused.contains("there is no folder") && !folder.path().join("stick").exists(), "{refused}");
    assert!(Owner::open(folder.path(), &clock(), &entropy).expect("nothing changed").has_next);
    export(folder.path(), &file, "correct horse", true, &entropy).expect("exported");
    assert!(!Owner::open(folder.path(), &clock(), &entropy).expect("still there").has_next);
    let refused = rotate(folder.path(), None, HOUR, &clock(), &entropy).expect_err("the next key is elsewhere");
    assert_eq!(refused.remedy(), Some(KeyStep::NameExport.into()), "{refused}");
    assert!(Exported::read(&file, "correct horsf").is_err());
    let mut bent = fs::read(&file).expect("a file");
    let last = bent.len() - 1;
    bent[last] ^= 1;
    let damaged = folder.path().join("damaged.keys");
    fs::write(&damaged, bent).expect("written");
    assert!(Exported::read(&damaged, "correct horse").is_err());
    let exported = Exported::read(&file, "correct horse").expect("read");
    let other = TempDir::new().expect("a folder");
    import(other.path(), &exported).expect("an empty folder takes it");
    let there = Owner::open(other.path(), &clock(), &entropy).expect("the same owner");
    assert_eq!((there.id(), there.has_next), (owner.id(), true));
    let outdated = exported.next.clone();
    rotate(folder.path(), exported.next, HOUR, &clock(), &entropy).expect("rotated with the key from elsewhere");
    for refused in
        [rotate(folder.path(), outdated.clone(), HOUR, &clock(), &entropy), revoke(folder.path(), outdated, &clock())]
    {
        let refused = refused.expect_err("that key has had its turn").to_string();
        assert!(refused.contains("before the last rotation"), "{refused}");
    }
    let newer = Exported::read(&file, "correct horse").expect("read");
    let refused = import(folder.path(), &newer).expect_err("what is here is newer").to_string();
    assert!(refused.contains("newer"), "{refused}");
    let (stranger, _, _) = begun();
    rotate(stranger.path(), None, HOUR, &clock(), &self::entropy()).expect("rotated");
    // Both folders drew the same first keys; a third does not.
    let third = TempDir::new().expect("a folder");
    let elsewhere = Entropy::new(|bytes| bytes.fill(9));
    assert!(Owner::open(third.path(), &clock(), &elsewhere).is_ok());
    let refused = import(third.path(), &newer).expect_err("it is somebody else's").to_string();
    assert!(refused.contains("another owner"), "{refused}");
}

#[test]
fn a_lost_key_comes_back_from_its_copy() {
    let (folder, owner, entropy) = begun();
    let file = folder.path().join("kept.keys");
    export(folder.path(), &file, "correct horse", false, &entropy).expect("exported");
    fs::remove_file(folder.path().join("owner.key")).expect("it was there");
    let refused = Owner::open(folder.path(), &clock(), &entropy).expect_err("the key is lost");
    assert_eq!(refused.remedy(), Some(KeyStep::Import.into()), "{refused}");
    let exported = Exported::read(&file, "correct horse").expect("read");
    import(folder.path(), &exported).expect("that is what it was kept for");
    let again = Owner::open(folder.path(), &clock(), &entropy).expect("as before");
    assert_eq!(again.key.public(), owner.key.public());
}

#[test]
fn a_key_of_the_owner_s_own_is_no_node_to_take_anything_from() {
    let (folder, owner, entropy) = begun();
    rotate(folder.path(), None, std::time::Duration::ZERO, &clock(), &entropy).expect("rotated");
    let rotated = Owner::open(folder.path(), &clock(), &entropy).expect("the rotated owner");
    for key in [owner.key.public(), rotated.key.public()] {
        let refused = withdraw(folder.path(), key, &clock()).expect_err("it is refused");
        assert_eq!(refused.remedy(), Some(KeyStep::Rotate.into()), "{refused}");
    }
    let after = Owner::open(folder.path(), &clock(), &entropy).expect("as before");
    assert!(after.withdrawals.is_empty());
}

#[test]
fn what_was_taken_back_stays_taken_back_across_a_rotation() {
    let (folder, owner, entropy) = begun();
    let node = SecretKey::from_seed(&[77; 32]).public();
    withdraw(folder.path(), node, &clock()).expect("withdrawn");
    withdraw(folder.path(), node, &clock()).expect("and again");
    rotate(folder.path(), None, std::time::Duration::ZERO, &clock(), &entropy).expect("rotated");
    let rotated = Owner::open(folder.path(), &clock(), &entropy).expect("the rotated owner");
    assert_eq!(rotated.withdrawals.len(), 1);
    let now_ms = clock().now_ms();
    assert!(rotated.withdrew(node, now_ms) && !rotated.withdrew(owner.key.public(), now_ms));
    assert!(!rotated.withdrew(node, now_ms + 25 * 3_600_000), "there is nothing left to withdraw");
    let mut ring = Keyring::default();
    ring.watch([owner.id()]);
    ring.learn(Arc::new(rotated.log), &Origin::default()).expect("a good log");
    let withdrawal = object::open::<Withdrawal>(&rotated.withdrawals[0], "", "").expect("as it was signed");
    assert_eq!(ring.withdraw(withdrawal, None, &Default::default(), clock().now_ms() + 1), Ok(true));
    assert!(ring.stands(owner.id(), node, clock().now_ms(), clock().now_ms()).is_err());
}
