//! Only regular files are read, within a bound, whatever else a path leads to.

use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use althing_store::file::{FileError, read_bytes, read_text};
use nix::sys::stat::Mode;

const MAX: u64 = 4_096;

/// Paths that lead to everything but a regular file, each also by way of a symbolic link.
fn others(folder: &Path) -> Vec<PathBuf> {
    let pipe = folder.join("pipe");
    nix::unistd::mkfifo(&pipe, Mode::S_IRWXU).expect("a pipe");
    let socket = folder.join("socket");
    // The path stays when the listener is closed.
    drop(UnixListener::bind(&socket).expect("a socket"));
    let live = folder.join("live");
    std::mem::forget(UnixListener::bind(&live).expect("a socket"));
    let directory = folder.join("directory");
    std::fs::create_dir(&directory).expect("a folder");
    let mut all = vec![pipe, socket, live, directory];
    all.extend(["/dev/zero", "/dev/null", "/dev/urandom", "/dev/full", "/"].map(PathBuf::from));
    let links: Vec<PathBuf> = all
        .iter()
        .enumerate()
        .map(|(n, target)| {
            let link = folder.join(format!("link-{n}"));
            symlink(target, &link).expect("a link");
            link
        })
        .collect();
    all.extend(links);
    all
}

#[test]
fn pipes_sockets_devices_and_directories_are_refused_at_once_also_through_links() {
    let folder = tempfile::tempdir().expect("a folder");
    for path in others(folder.path()) {
        for read in [read_bytes(&path, MAX).err(), read_text(&path, u64::MAX).err()] {
            let told = read.as_ref().map(ToString::to_string).unwrap_or_default();
            assert!(matches!(read, Some(FileError::NotRegular(_))), "{}: {told}", path.display());
            assert!(told.contains("only regular files are read"), "{told}");
        }
    }
    let round = folder.path().join("round");
    symlink(&round, &round).expect("a link");
    assert!(matches!(read_bytes(&round, MAX), Err(FileError::Io(_))));
    assert!(read_bytes(&folder.path().join("none"), MAX).is_err_and(|error| error.is_missing()));
}

#[test]
fn a_regular_file_is_read_up_to_its_bound_also_through_a_link() {
    let folder = tempfile::tempdir().expect("a folder");
    let (file, link) = (folder.path().join("file"), folder.path().join("link"));
    symlink(&file, &link).expect("a link");
    for len in [0, 1, MAX as usize] {
        std::fs::write(&file, vec![b'x'; len]).expect("written");
        assert_eq!(read_bytes(&link, MAX).expect("within the bound").len(), len);
    }
    std::fs::write(&file, vec![b'x'; MAX as usize + 1]).expect("written");
    assert!(matches!(read_bytes(&file, MAX), Err(FileError::TooLong(MAX))));
    // A terabyte that takes no room on the disk.
    std::fs::File::options().write(true).open(&file).expect("open").set_len(1 << 40).expect("a sparse file");
    assert!(matches!(read_text(&link, MAX), Err(FileError::TooLong(MAX))));
    std::fs::write(&file, b"text \xff").expect("written");
    assert!(matches!(read_text(&file, MAX), Err(FileError::NotText(5))));
}

#[test]
fn a_file_that_grows_while_it_is_read_ends_at_the_bound() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("grows");
    std::fs::write(&path, b"x").expect("written");
    let (done, grown) = (AtomicBool::new(false), MAX * 1_024);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = std::fs::File::options().append(true).open(&path).expect("open");
            while !done.load(Ordering::Relaxed) {
                file.write_all(&[b'x'; 512]).expect("written");
                if file.metadata().expect("its facts").len() > grown {
                    file.set_len(1).expect("cut");
                }
            }
        });
        for _ in 0..2_000 {
            // Either is right; what is wrong is more than the bound.
            match read_bytes(&path, MAX) {
                Ok(bytes) => assert!(bytes.len() as u64 <= MAX),
                Err(error) => assert!(matches!(error, FileError::TooLong(MAX)), "{error}"),
            }
        }
        done.store(true, Ordering::Relaxed);
    });
}

#[test]
fn what_is_opened_is_not_handed_to_programs_that_are_started() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a-name-that-nothing-else-has");
    std::fs::write(&path, b"x").expect("written");
    let _open = althing_store::file::open_regular(&path).expect("a file");
    let listed = Command::new("ls").args(["-l", "/proc/self/fd"]).output().expect("ls");
    assert!(!String::from_utf8_lossy(&listed.stdout).contains("a-name-that-nothing-else-has"));
}
