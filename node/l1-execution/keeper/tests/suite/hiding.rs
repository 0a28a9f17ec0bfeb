//! What is hidden stays hidden whatever takes its place, and a socket in what may only be read is not connected to.

use std::fs;
use std::io::Write as _;
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use althing_keeper::NAME;
use althing_keeper::job::{Descriptor, Level};

use crate::enclosing::{enclosed, folder, level, without_namespaces};
use crate::support::{KEEPER, kept_with};

/// Says what it finds of a file and of one in a folder, before and after a word comes; and what lies beside them.
const LOOKS: &str = "look() { cat \"$1\" 2>/dev/null || echo nothing; }
look \"$0/key\"; look \"$0/keys/key\"; read word; look \"$0/key\"; look \"$0/keys/key\"; look \"$0/notes\"";

/// What a program finds whose folder has a file and a folder that are hidden, and others in their places by and by.
fn looks(wanted: Level, keeper: &mut Command) {
    let (own, shown) = (folder(), folder());
    let at = shown.path().canonicalize().expect("it is there");
    let write = |name: &str, text: &str| fs::write(at.join(name), text).expect("a file");
    fs::create_dir(at.join("keys")).expect("a folder");
    ["key", "keys/key", "notes"].into_iter().for_each(|name| write(name, "first\n"));
    let mut job = enclosed(&["sh", "-c", LOOKS, &at.to_string_lossy()], own.path());
    job.descriptors.push(Descriptor::Input);
    let enclosure = job.enclosure.as_mut().expect("it is enclosed");
    enclosure.grants.read.push(at.clone());
    enclosure.grants.hidden = vec![at.join("key"), at.join("keys")];
    let (input, mut word) = std::io::pipe().expect("a pipe");
    let mut kept = kept_with(&job, keeper, &[input.as_fd()]);
    if level(&mut kept, wanted).is_none() {
        return;
    }
    assert_eq!([kept.line(), kept.line()], ["nothing", "nothing"]);
    // As an editor saves, and as whoever restores a folder.
    write("new", "second\n");
    fs::rename(at.join("new"), at.join("key")).expect("it takes its place");
    fs::rename(at.join("keys"), at.join("keys.old")).expect("it makes room");
    fs::create_dir(at.join("keys")).expect("a folder");
    write("keys/key", "second\n");
    word.write_all(b"go\n").expect("it is heard");
    assert_eq!([kept.line(), kept.line(), kept.line()], ["nothing", "nothing", "first"]);
}

#[test]
fn in_a_root_of_its_own_a_program_does_not_find_what_took_the_place_of_what_is_hidden() {
    looks(Level::Namespaces, Command::new(KEEPER).arg0(NAME));
}

#[test]
fn among_the_machines_files_a_program_does_not_find_it_either() {
    looks(Level::Landlock, &mut without_namespaces());
}

/// Says for each of its arguments what came of connecting to it.
const CONNECTS: &str = "
import socket, sys
for path in sys.argv[1:]:
    try:
        socket.socket(socket.AF_UNIX).connect(path)
        print('connected', flush=True)
    except OSError as error:
        print('refused', flush=True)
";

/// What comes of connecting to sockets in a folder that may be read: one that is named among those which are not reached, one
/// beside it that may be written, and one of another folder.
fn connects(wanted: Level, keeper: &mut Command) -> Option<[String; 3]> {
    let (own, shown) = (folder(), folder());
    let at = shown.path().canonicalize().expect("it is there");
    let listen = |path: &Path| UnixListener::bind(path).expect("a socket");
    let [other, mine, beyond] = ["other", "mine", "beyond"].map(|name| at.join(name));
    let _listeners = [listen(&other), listen(&mine), listen(&beyond)];
    let words = [&other, &mine, &beyond].map(|path| path.to_string_lossy().into_owned());
    let mut command = vec!["/usr/bin/python3", "-c", CONNECTS];
    command.extend(words.iter().map(String::as_str));
    let mut job = enclosed(&command, own.path());
    let grants = &mut job.enclosure.as_mut().expect("it is enclosed").grants;
    grants.read.push(at);
    grants.write.push(mine);
    grants.sockets = vec![other];
    let mut kept = kept_with(&job, keeper, &[]);
    level(&mut kept, wanted)?;
    Some([kept.line(), kept.line(), kept.line()])
}

#[test]
fn a_socket_in_what_may_be_read_is_reached_where_it_may_be_written_alone() {
    // The third is named nowhere, and shows that the others could be connected to, before Landlock asked of sockets too.
    let Some([other, mine, _]) = connects(Level::Namespaces, Command::new(KEEPER).arg0(NAME)) else { return };
    assert_eq!([other.as_str(), mine.as_str()], ["refused", "connected"]);
}

#[test]
fn among_the_machines_files_a_program_connects_to_no_unix_socket() {
    let Some(tried) = connects(Level::Landlock, &mut without_namespaces()) else { return };
    assert_eq!(tried, ["refused"; 3]);
}
