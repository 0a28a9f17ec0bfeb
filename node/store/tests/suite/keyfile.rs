//! Secrets: nobody else can read them, nothing is overwritten.

use althing_store::keyfile::{KeyFileError, SECRET_BYTES_MAX, read_secret, write_secret};
use std::{
    fs,
    os::unix::fs::{PermissionsExt, symlink},
    path::Path,
};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("it exists").permissions().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("it is ours");
}

#[test]
fn a_secret_comes_back_and_only_its_owner_may_read_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("keys/of/mine/owner.key");
    write_secret(&path, b"secret").expect("a new file");
    assert_eq!(read_secret(&path).expect("as written"), b"secret");
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(&dir.path().join("keys/of/mine")), 0o700);
    let names: Vec<_> = fs::read_dir(path.parent().expect("a directory")).expect("readable").collect();
    assert_eq!(names.len(), 1, "nothing is left beside it: {names:?}");
}

#[test]
fn nothing_is_overwritten_not_even_a_dangling_link() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("key");
    write_secret(&path, b"first").expect("a new file");
    assert!(matches!(write_secret(&path, b"second"), Err(KeyFileError::Exists { .. })));
    assert_eq!(read_secret(&path).expect("as written"), b"first");
    let link = dir.path().join("link");
    symlink(dir.path().join("elsewhere"), &link).expect("a link");
    assert!(matches!(write_secret(&link, b"second"), Err(KeyFileError::Exists { .. })));
    assert_eq!(fs::read_dir(dir.path()).expect("readable").count(), 2);
}

#[test]
fn a_file_open_to_others_is_refused_with_the_command_that_closes_it() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("it's mine");
    write_secret(&path, b"secret").expect("a new file");
    for open in [0o640, 0o604, 0o620, 0o601] {
        set_mode(&path, open);
        let error = read_secret(&path).expect_err("others may touch it");
        assert!(matches!(error, KeyFileError::OpenToOthers { mode, .. } if mode == open));
        let text = error.to_string();
        let (_, command) = text.split_once("run: ").expect("it names the command");
        let ran = std::process::Command::new("sh").args(["-c", command]).status().expect("a shell");
        assert!(ran.success(), "{command}");
        assert_eq!(read_secret(&path).expect("closed again"), b"secret");
    }
    set_mode(&path, 0o400);
    assert_eq!(read_secret(&path).expect("read-only is fine"), b"secret");
}

#[test]
fn what_is_no_key_file_is_refused() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("key");
    assert!(matches!(read_secret(&path), Err(KeyFileError::Missing { .. })));
    assert!(matches!(read_secret(dir.path()), Err(KeyFileError::NotAKeyFile { .. })));
    assert!(matches!(write_secret(Path::new("/"), b"secret"), Err(KeyFileError::Io { .. })));
    let pipe = dir.path().join("pipe");
    nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    assert!(matches!(read_secret(&pipe), Err(KeyFileError::NotAKeyFile { .. })));
    let longest = vec![7; usize::try_from(SECRET_BYTES_MAX).expect("small")];
    let longer = [&longest[..], &[7]].concat();
    assert!(matches!(write_secret(&path, &longer), Err(KeyFileError::NotAKeyFile { .. })));
    assert!(!path.exists());
    write_secret(&path, &longest).expect("the limit itself is allowed");
    assert_eq!(read_secret(&path).expect("as written").len(), longest.len());
    fs::write(&path, longer).expect("writable");
    assert!(matches!(read_secret(&path), Err(KeyFileError::NotAKeyFile { .. })));
}

#[test]
fn of_many_that_write_at_once_one_succeeds() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("key");
    let wins = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..8u8)
            .map(|n| {
                let path = &path;
                scope.spawn(move || write_secret(path, &[n; 32]).map(|()| n))
            })
            .collect();
        writers.into_iter().filter_map(|writer| writer.join().expect("no panic").ok()).collect::<Vec<_>>()
    });
    assert_eq!(wins.len(), 1);
    assert_eq!(read_secret(&path).expect("as written"), [wins[0]; 32]);
}
