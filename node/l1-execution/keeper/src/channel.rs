//! The channel between a node and a keeper: the job with its descriptors one way, lines of JSON the other.

use std::io::{self, IoSlice, IoSliceMut, Read as _, Write as _};
use std::net::TcpListener;
use std::os::fd::{AsFd as _, AsRawFd as _, BorrowedFd, OwnedFd, RawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use nix::sys::socket::{ControlMessage, ControlMessageOwned, MsgFlags, recvmsg, sendmsg};
use serde::Serialize;

use crate::job::{JOB_BYTES_MAX, Job};
use crate::linux::sys;

/// Descriptors of one message.
pub const DESCRIPTORS_MAX: usize = 64;
/// How long the other end may take to read a message.
const READ_MAX: Duration = Duration::from_secs(10);
/// Before a job: its length.
const HEADER_BYTES: usize = 4;

/// Sends a job with its descriptors, which stay open here.
///
/// # Errors
/// When the job is longer than [`JOB_BYTES_MAX`], or the keeper does not read it.
pub fn send_job(mut channel: &UnixStream, job: &Job, descriptors: &[BorrowedFd<'_>]) -> io::Result<()> {
    let text = serde_json::to_vec(job)?;
    let length = u32::try_from(text.len()).ok().filter(|length| *length as usize <= JOB_BYTES_MAX);
    let length = length.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "its environment is too long"))?;
    channel.set_write_timeout(Some(READ_MAX))?;
    let numbers: Vec<RawFd> = descriptors.iter().map(|descriptor| descriptor.as_raw_fd()).collect();
    give(channel.as_fd(), &length.to_be_bytes(), &numbers)?;
    channel.write_all(&text)
}

/// Reads a job, and takes its descriptors; none if the node is gone before it sent one.
///
/// # Errors
/// When what comes is no job.
pub fn read_job(mut channel: &UnixStream) -> io::Result<Option<(Job, Vec<OwnedFd>)>> {
    let wrong = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
    let mut header = [0_u8; HEADER_BYTES];
    let (read, descriptors) = take(channel.as_fd(), &mut header)?;
    if read == 0 {
        return Ok(None);
    }
    channel.read_exact(&mut header[read..])?;
    let length = u32::from_be_bytes(header) as usize;
    if length > JOB_BYTES_MAX {
        return Err(wrong(format!("a job of {length} bytes")));
    }
    let mut text = vec![0; length];
    channel.read_exact(&mut text)?;
    let job: Job = serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))?;
    if job.descriptors.len() != descriptors.len() {
        return Err(wrong(format!("{} of {} descriptors", descriptors.len(), job.descriptors.len())));
    }
    Ok(Some((job, descriptors)))
}

/// Hands listening sockets to the node.
pub(crate) fn give_listeners(stream: BorrowedFd<'_>, listeners: &[TcpListener]) -> io::Result<()> {
    let numbers: Vec<RawFd> = listeners.iter().map(|listener| listener.as_raw_fd()).collect();
    give(stream, &[0], &numbers)
}

/// Takes the listening sockets that a program's keeper hands to the node once the program runs; none are there if it has no
/// loopback of its own.
///
/// # Errors
/// Those of the stream.
pub fn take_listeners(stream: &UnixStream) -> io::Result<Vec<TcpListener>> {
    stream.set_nonblocking(true)?;
    match take(stream.as_fd(), &mut [0]) {
        Ok((_, descriptors)) => Ok(descriptors.into_iter().map(TcpListener::from).collect()),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// Writes one line of JSON.
pub(crate) fn tell(mut to: impl io::Write, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Sends bytes, with descriptors beside the first of them.
pub(crate) fn give(channel: BorrowedFd<'_>, bytes: &[u8], descriptors: &[RawFd]) -> io::Result<()> {
    let rights = [ControlMessage::ScmRights(descriptors)];
    let beside = if descriptors.is_empty() { &[][..] } else { &rights[..] };
    let sent = sendmsg::<()>(channel.as_raw_fd(), &[IoSlice::new(bytes)], beside, MsgFlags::MSG_NOSIGNAL, None)?;
    if sent == bytes.len() { Ok(()) } else { Err(io::ErrorKind::WriteZero.into()) }
}

/// Receives bytes, and the descriptors beside them; how many bytes there were.
pub(crate) fn take(channel: BorrowedFd<'_>, bytes: &mut [u8]) -> io::Result<(usize, Vec<OwnedFd>)> {
    let mut room = nix::cmsg_space!([RawFd; DESCRIPTORS_MAX]);
    let mut into = [IoSliceMut::new(bytes)];
    let message = recvmsg::<()>(channel.as_raw_fd(), &mut into, Some(&mut room), MsgFlags::MSG_CMSG_CLOEXEC)?;
    let mut descriptors = Vec::new();
    for beside in message.cmsgs()? {
        if let ControlMessageOwned::ScmRights(numbers) = beside {
            descriptors.extend(numbers.into_iter().map(sys::own));
        }
    }
    Ok((message.bytes, descriptors))
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;
    use crate::job::{Descriptor, Limits};

    fn job(descriptors: Vec<Descriptor>) -> Job {
        Job {
            command: vec!["true".to_owned()],
            folder: "/".into(),
            environment: [("LONG".to_owned(), "x".repeat(100_000))].into(),
            descriptors,
            orphan_ms: 7,
            limits: Limits::default(),
            bridge: None,
            enclosure: None,
        }
    }

    #[test]
    fn a_job_arrives_with_its_descriptors() {
        let (node, keeper) = UnixStream::pair().expect("a channel");
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(b"here").expect("it is written");
        let sent = job(vec![Descriptor::Output]);
        send_job(&node, &sent, &[file.as_fd()]).expect("it is sent");
        let (read, descriptors) = read_job(&keeper).expect("it is read").expect("a job");
        assert_eq!(read, sent);
        let [descriptor] = <[OwnedFd; 1]>::try_from(descriptors).expect("one descriptor");
        let length = File::from(descriptor).metadata().expect("it is open").len();
        assert_eq!(length, 4);
    }

    #[test]
    fn a_job_without_its_descriptors_is_refused_and_no_job_is_none() {
        let (node, keeper) = UnixStream::pair().expect("a channel");
        send_job(&node, &job(vec![Descriptor::Output]), &[]).expect("it is sent");
        let refused = read_job(&keeper).expect_err("a descriptor is missing");
        assert_eq!(refused.to_string(), "0 of 1 descriptors");
        drop(node);
        assert!(read_job(&keeper).expect("it is read").is_none());
    }
}
