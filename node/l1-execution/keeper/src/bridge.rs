//! Connections of the node to a program that can only listen on a port: they come by a Unix socket, and are led to the port.

use std::io;
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use crate::pause::pause;

/// Before a connection is taken again where the last could not be, milliseconds.
const PAUSE_MS: u16 = 100;
/// Connections at once.
const CONNECTIONS_MAX: usize = 256;

/// Leads each connection of a socket to a port of this network's loopback, as long as this process lives.
pub(crate) fn lead(listener: UnixListener, port: u16) {
    thread::spawn(move || {
        // Each connection has one of these.
        let places = Arc::new(());
        loop {
            let node = match listener.accept() {
                Ok((node, _)) => node,
                Err(error) if is_of_one(&error) => continue,
                // Descriptors or memory are short: what is open may end meanwhile.
                Err(_) => {
                    pause(PAUSE_MS);
                    continue;
                }
            };
            // A connection that is not led is closed, and the node tries again.
            if Arc::strong_count(&places) <= CONNECTIONS_MAX {
                let place = places.clone();
                thread::spawn(move || {
                    // An error ends the connection at both ends.
                    let _ = join(&node, port);
                    drop(place);
                });
            }
        }
    });
}

/// Whether only one connection failed, before it was there.
fn is_of_one(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::Interrupted)
}

/// Carries bytes both ways until both ends are done, or one of them is gone.
fn join(node: &UnixStream, port: u16) -> io::Result<()> {
    let program = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    program.set_nodelay(true)?;
    let (from_node, to_program) = (node.try_clone()?, program.try_clone()?);
    let there = thread::spawn(move || {
        let _ = io::copy(&mut &from_node, &mut &to_program);
        // It asks no more. Whether it still listens is seen by who writes to it.
        let _ = to_program.shutdown(Shutdown::Write);
        if is_gone(&from_node) {
            let _ = to_program.shutdown(Shutdown::Both);
        }
    });
    let _ = io::copy(&mut &program, &mut &*node);
    let _ = node.shutdown(Shutdown::Both);
    let _ = program.shutdown(Shutdown::Both);
    // A thread that panicked has ended too.
    let _ = there.join();
    Ok(())
}

/// Waits until the other end is closed for both directions, or this end is; whether it was the other end.
fn is_gone(stream: &UnixStream) -> bool {
    let mut ends = [PollFd::new(stream.as_fd(), PollFlags::empty())];
    // Only errors and hang-ups wake it.
    matches!(poll(&mut ends, PollTimeout::NONE), Ok(1..))
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn bytes_go_both_ways_and_each_end_is_passed_on() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let program = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        lead(UnixListener::bind(&path).expect("a socket"), program.local_addr().expect("its port").port());
        let mut node = UnixStream::connect(&path).expect("it listens");
        node.write_all(b"asked").expect("it is taken");
        node.shutdown(Shutdown::Write).expect("that was all");
        let (mut asked, _) = program.accept().expect("a connection");
        let mut read = String::new();
        asked.read_to_string(&mut read).expect("until the end");
        assert_eq!(read, "asked");
        asked.write_all(b"answered").expect("it is taken");
        drop(asked);
        let mut read = String::new();
        node.read_to_string(&mut read).expect("until the end");
        assert_eq!(read, "answered");
    }

    #[test]
    fn a_node_that_hangs_up_ends_what_the_program_does_not() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("socket");
        let program = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        lead(UnixListener::bind(&path).expect("a socket"), program.local_addr().expect("its port").port());
        // More than there is room for at once, of which the program answers none.
        let mut silent = Vec::new();
        for _ in 0..=CONNECTIONS_MAX {
            drop(UnixStream::connect(&path).expect("it listens"));
            let (mut asked, _) = program.accept().expect("a connection");
            assert_eq!(asked.read(&mut [0]).expect("the end"), 0);
            silent.push(asked);
        }
    }
}
