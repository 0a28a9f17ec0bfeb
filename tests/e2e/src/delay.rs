//! A relay that holds up what it passes on: this kernel cannot delay packets by itself.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, Shutdown, SocketAddrV4, TcpListener, TcpStream};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Passes on TCP connections from `port`, of the network of the thread that calls it, to `to`: each byte `by` later, both
/// ways. It ends with the process.
pub fn relay(port: u16, to: SocketAddrV4, by: Duration) {
    let listener = TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)).expect("the port is free");
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(to) else { continue };
            let both = [(near.try_clone(), far.try_clone()), (Ok(far), Ok(near))];
            for (from, into) in both {
                let (Ok(from), Ok(into)) = (from, into) else { continue };
                pass(from, into, by);
            }
        }
    });
}

fn pass(mut from: TcpStream, mut into: TcpStream, by: Duration) {
    // Few enough that a sender that is faster than its receiver is held up.
    let (put, take) = sync_channel::<(Instant, Vec<u8>)>(1_024);
    std::thread::spawn(move || {
        let mut bytes = [0; 4_096];
        while let Ok(len @ 1..) = from.read(&mut bytes) {
            if put.send((Instant::now() + by, bytes[..len].to_vec())).is_err() {
                break;
            }
        }
    });
    std::thread::spawn(move || {
        for (due, bytes) in take {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            if into.write_all(&bytes).is_err() {
                break;
            }
        }
        // An error means that it is closed already.
        let _ = into.shutdown(Shutdown::Both);
    });
}
