//! What is refused before RocksDB is opened, and how the refusal reads.

use crate::support::{FAMILIES, LEFT, RIGHT, files, open, put};
use althing_store::{Family, OpenError, RocksStore, Store, StoreConfig};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::{os::unix::fs::PermissionsExt, path::Path, process::Command, time::Duration};
use tokio::time::Instant;

/// For a holder that ends.
const WAITED: Duration = Duration::from_secs(5);

fn refusal(dir: &Path) -> OpenError {
    match RocksStore::open(dir, &FAMILIES, StoreConfig::default()) {
        Ok(_) => panic!("the store must not open"),
        Err(error) => error,
    }
}

#[test]
fn the_directory_is_closed_to_others() {
    let parent = tempfile::tempdir().expect("a temporary directory");
    let dir = parent.path().join("data/store");
    drop(open(&dir));
    for made in [&dir, &parent.path().join("data")] {
        assert_eq!(fs::metadata(made).expect("it exists").permissions().mode() & 0o777, 0o700);
    }
}

#[test]
fn a_second_opening_names_the_holder() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = open(dir.path());
    let error = refusal(dir.path());
    let pid = std::process::id();
    assert!(matches!(error, OpenError::Locked { holder: Some(holder), .. } if holder == pid), "{error}");
    let program = std::env::current_exe().expect("this program");
    let program = program.file_name().expect("a file").to_string_lossy().into_owned();
    let name = if cfg!(target_os = "linux") { program.as_str() } else { "another program" };
    let told = format!("{name} (pid {pid}) has the store at {} open", dir.path().display());
    assert!(error.to_string().starts_with(&told), "{error}");
    let snapshot = store.snapshot();
    drop(store);
    assert!(matches!(refusal(dir.path()), OpenError::Locked { .. }), "a snapshot keeps the store open");
    drop(snapshot);
    drop(open(dir.path()));
}

/// As after `kill -9`: the kernel takes the process down for a while after it was killed, and its lock with it.
#[tokio::test(start_paused = true)]
async fn a_holder_that_ends_is_waited_for_and_one_that_runs_is_not() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(open(dir.path()));
    let path = dir.path().join("LOCK");
    let file = File::options().write(true).open(&path).expect("it is there");
    let held = Flock::lock(file, FlockArg::LockExclusiveNonblock).map_err(|(_, error)| error).expect("nobody has it");
    let begun = Instant::now();
    let refused = RocksStore::open_after(dir.path(), &FAMILIES, StoreConfig::default()).await;
    assert!(matches!(refused, Err(OpenError::Locked { .. })) && begun.elapsed().is_zero(), "this process runs");

    let mut child = Command::new("true").spawn().expect("it starts");
    fs::write(&path, child.id().to_string()).expect("writable");
    child.wait().expect("it ends");
    let refused = RocksStore::open_after(dir.path(), &FAMILIES, StoreConfig::default()).await;
    assert!(
        matches!(refused, Err(OpenError::Locked { .. })) && begun.elapsed() >= WAITED,
        "it is not waited for for ever"
    );
    let (opened, ()) = tokio::join!(RocksStore::open_after(dir.path(), &FAMILIES, StoreConfig::default()), async {
        tokio::time::sleep(WAITED / 2).await;
        drop(held);
    });
    opened.expect("its holder has ended");
}

#[test]
fn a_newer_format_is_refused_untouched() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(open(dir.path()));
    let newer = "althing-store 7\nwritten-by 3.2.1\nanything\n";
    fs::write(dir.path().join("FORMAT"), newer).expect("writable");
    let before = files(dir.path(), "log");
    let error = refusal(dir.path());
    assert!(matches!(&error, OpenError::Newer { found: 7, written_by, .. } if written_by == "3.2.1"), "{error}");
    assert!(error.to_string().contains("start it with althing 3.2.1 or newer"), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).expect("readable"), newer);
    assert_eq!(files(dir.path(), "log"), before);
}

#[test]
fn a_format_file_that_is_cut_garbled_or_gone_is_damage() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(open(dir.path()));
    let format = dir.path().join("FORMAT");
    let good = fs::read(&format).expect("readable");
    for bad in [&b""[..], &good[..good.len() / 2], &good[..good.len() - 1], &[0xff; 40], &[b'x'; 4096]] {
        fs::write(&format, bad).expect("writable");
        let error = refusal(dir.path());
        assert!(matches!(&error, OpenError::Damaged { path, .. } if *path == format), "{error}");
    }
    fs::remove_file(&format).expect("removable");
    assert!(matches!(refusal(dir.path()), OpenError::Damaged { .. }));
    fs::write(&format, good).expect("writable");
    drop(open(dir.path()));
}

#[test]
fn a_database_that_is_gone_is_damage_and_not_a_new_store() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    put(&open(dir.path()), LEFT, "key", "value");
    let gone = dir.path().join("elsewhere");
    fs::rename(dir.path().join("db/CURRENT"), &gone).expect("movable");
    assert!(matches!(refusal(dir.path()), OpenError::Damaged { .. }));
    fs::rename(&gone, dir.path().join("db/CURRENT")).expect("movable");
    assert_eq!(open(dir.path()).read(LEFT, b"key"), Ok(Some(b"value".to_vec())));
    fs::remove_dir_all(dir.path().join("db")).expect("removable");
    assert!(matches!(refusal(dir.path()), OpenError::Damaged { .. }));
}

#[test]
fn a_creation_that_was_cut_short_is_finished() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    drop(open(dir.path()));
    let format = dir.path().join("FORMAT");
    let ready = fs::read_to_string(&format).expect("readable");
    let creating = ready.replace("state ready", "state creating");
    let database = dir.path().join("db");
    let unfinished: [&dyn Fn(); 3] = [
        &|| fs::remove_dir_all(&database).expect("removable"),
        // RocksDB names its first list of files in CURRENT, then makes a log.
        &|| {
            files(dir.path(), "log").iter().for_each(|log| fs::remove_file(log).expect("removable"));
            fs::remove_file(database.join("CURRENT")).expect("removable");
        },
        &|| {},
    ];
    for cut in unfinished {
        cut();
        fs::write(&format, &creating).expect("writable");
        drop(open(dir.path()));
        assert_eq!(fs::read_to_string(&format).expect("readable"), ready);
    }
    put(&open(dir.path()), LEFT, "key", "value");
}

#[test]
fn families_come_and_stay() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    put(&open(dir.path()), RIGHT, "key", "value");
    let third = Family("third");
    let store = RocksStore::open(dir.path(), &[LEFT, third], StoreConfig::default()).expect("a sound store opens");
    put(&store, third, "key", "value");
    assert!(store.read(RIGHT, b"key").is_err(), "it was not named");
    drop(store);
    assert_eq!(open(dir.path()).read(RIGHT, b"key"), Ok(Some(b"value".to_vec())));
}

#[test]
fn a_place_that_cannot_be_a_store_is_named() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let file = dir.path().join("file");
    fs::write(&file, "").expect("writable");
    let error = refusal(&file);
    assert!(matches!(&error, OpenError::Io { path, .. } if *path == file), "{error}");
    assert!(error.to_string().contains("cannot create the directory"), "{error}");
}
