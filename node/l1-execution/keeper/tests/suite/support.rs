//! Keepers as processes of their own.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use althing_keeper::NAME;
use althing_keeper::channel::send_job;
use althing_keeper::job::{Bounds, Descriptor, Job, Limits, Told};

/// The keepers' program.
pub const KEEPER: &str = env!("CARGO_BIN_EXE_althing-keeper");

/// A keeper, the node's end of its channel, what its program writes, and what bounds it and by which Landlock, once it is told.
pub struct Kept {
    pub keeper: Child,
    pub channel: UnixStream,
    pub told: BufReader<UnixStream>,
    pub output: BufReader<std::io::PipeReader>,
    pub bounds: Bounds,
    pub landlock: u8,
}

pub fn job(words: &[&str]) -> Job {
    Job {
        command: words.iter().map(|word| (*word).to_owned()).collect(),
        folder: "/".into(),
        environment: BTreeMap::from([("PATH".to_owned(), "/usr/bin:/bin".to_owned())]),
        descriptors: vec![Descriptor::Output],
        orphan_ms: 0,
        limits: Limits::default(),
        bridge: None,
        enclosure: None,
    }
}

pub fn kept(job: &Job) -> Kept {
    kept_by(job, Command::new(KEEPER).arg0(NAME))
}

/// Kept by what that command starts.
pub fn kept_by(job: &Job, keeper: &mut Command) -> Kept {
    kept_with(job, keeper, &[])
}

/// Kept by what that command starts, with descriptors after its output.
pub fn kept_with(job: &Job, keeper: &mut Command, descriptors: &[BorrowedFd<'_>]) -> Kept {
    let (channel, theirs) = UnixStream::pair().expect("a channel");
    let (read, write) = std::io::pipe().expect("a pipe");
    let keeper = keeper.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::null()).spawn().expect("a keeper");
    send_job(&channel, job, &[&[write.as_fd()], descriptors].concat()).expect("it takes the job");
    let told = BufReader::new(channel.try_clone().expect("a second end"));
    Kept { keeper, channel, told, output: BufReader::new(read), bounds: Bounds::default(), landlock: 0 }
}

impl Kept {
    /// What it tells next; what bounds its program depends on the machine, and is put aside.
    pub fn told(&mut self) -> Told {
        let mut line = String::new();
        self.told.read_line(&mut line).expect("a line");
        let mut told = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line:?}: {error}"));
        if let Told::Started { bounds, landlock, .. } = &mut told {
            (self.bounds, self.landlock) = (std::mem::take(bounds), *landlock);
        }
        told
    }

    /// What is told next that is no refusal.
    pub fn outcome(&mut self) -> Told {
        loop {
            match self.told() {
                Told::Refused(_) | Told::MoreRefused => {}
                told => return told,
            }
        }
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a line");
        line.trim_end().to_owned()
    }
}

/// A process that is no zombie has that id.
pub fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}
