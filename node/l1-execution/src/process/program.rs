//! A program that a keeper keeps: it ends with this value, and with the node, with all that it started. What it is refused is
//! logged while it runs.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use althing_keeper::channel::send_job;
use althing_keeper::job::{Job, Order, Told};
use althing_keeper::{Failure, Level, NAME, executable, order};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_util::task::AbortOnDropHandle;

use super::egress::Outlet;
use super::environment::environment;
use crate::containment::{Enclosed, Refusals};
use crate::ending::ending;

/// The longest line of a keeper, bytes.
const LINE_BYTES_MAX: u64 = 64 << 10;
/// What a keeper tells of a program beside its refusals: that it started, failed or ended.
const TOLD_MAX: usize = 4;
/// How long a keeper may take to start a program, on a busy machine with many files to grant.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a keeper may take to end what it has killed, and itself: the rest hangs in a device.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);

/// A program that is started or runs.
pub struct Program {
    keeper: Child,
    /// Leads the keeper's process group, in which the program begins.
    group: Pid,
    /// The end of the channel that is this node's, to write. The program is ended with this value; it ends too when no process
    /// has this end any more.
    orders: UnixStream,
    told: mpsc::Receiver<Told>,
    /// Whether it, or what it started, was killed for the memory that it took.
    ran_out: bool,
    /// The number of the account that it has where nothing else contains it.
    account: Option<u32>,
    /// What it is not given where it has files of its own.
    withheld: Vec<PathBuf>,
    /// Where it asks hosts, until it runs.
    outlet: Option<Outlet>,
    /// Serves that while it runs.
    serving: Option<AbortOnDropHandle<()>>,
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// It could not be started.
    Failed(Failure),
    /// It ran. Where a signal ended it, its exit code is 128 and the signal's number.
    Ended(ExitStatus),
    /// Its keeper does not say whether it runs, for so long; it is killed with the keeper.
    Silent(Duration),
}

/// Why a program does not run, or does not run any more.
impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Failed(failure) => write!(f, "{failure}"),
            End::Ended(status) => match status.code() {
                Some(code) => f.write_str(&ending(code, false)),
                // A signal ended its keeper.
                None => write!(f, "its keeper ended with {status}"),
            },
            End::Silent(waited) => write!(
                f,
                "{NAME} did not start it within {} s: this machine may lack memory, or hang in a disk",
                waited.as_secs()
            ),
        }
    }
}

impl Program {
    /// Gives a job to a keeper, with the descriptors that it names, but for that of the outlet. They stay open here. What the
    /// program is refused is added to the refusals, and logged as that of the agent. The keeper reads the job meanwhile, so not for
    /// a thread on which others wait; in a runtime.
    ///
    /// # Errors
    /// When no keeper can be started, or it does not take the job.
    pub fn start(
        job: &Job,
        descriptors: &[BorrowedFd<'_>],
        outlet: Option<Outlet>,
        (agent, refusals): (&str, &Refusals),
    ) -> io::Result<Program> {
        let (orders, theirs) = UnixStream::pair()?;
        let keeper = Command::new(executable()?)
            .arg0(NAME)
            .env_clear()
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .spawn()?;
        let group = keeper.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let group = group.ok_or_else(|| io::Error::other("its keeper ended at once"))?;
        let mut descriptors = descriptors.to_vec();
        descriptors.extend(outlet.as_ref().map(|outlet| outlet.theirs.as_fd()));
        send_job(&orders, job, &descriptors)?;
        let told = orders.try_clone()?;
        told.set_nonblocking(true)?;
        let told = tokio::net::UnixStream::from_std(told)?;
        let (sender, receiver) = mpsc::channel(TOLD_MAX);
        tokio::spawn(follow(told, agent.to_owned(), refusals.clone(), sender));
        let enclosure = job.enclosure.as_ref();
        let account = enclosure.and_then(|enclosure| enclosure.account.as_ref());
        let account = account.and_then(|account| account.id.as_ref().ok().copied());
        let withheld = enclosure.map(|enclosure| enclosure.grants.withheld.clone()).unwrap_or_default();
        let (told, ran_out, serving) = (receiver, false, None);
        Ok(Program { keeper, group, orders, told, ran_out, account, withheld, outlet, serving })
    }

    /// Its keeper.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.keeper.id()
    }

    /// Waits until it runs. May be given up and asked again.
    ///
    /// # Errors
    /// How it ended instead.
    pub async fn started(&mut self) -> Result<Enclosed, End> {
        let Ok(told) = timeout(START_TIMEOUT, self.told.recv()).await else {
            // The kernel ends the program with its keeper. An error means that the keeper is gone.
            let _ = self.keeper.start_kill();
            return Err(End::Silent(START_TIMEOUT));
        };
        match told {
            Some(Told::Started { level, why, bounds, landlock }) => {
                match self.outlet.take().map(|outlet| outlet.open(level)).transpose() {
                    Ok(serving) => {
                        self.serving = serving.map(|serving| AbortOnDropHandle::new(tokio::spawn(serving)));
                        let account = self.account.filter(|_| level == Level::Account);
                        let is_withheld = level == Level::Namespaces;
                        let withheld = if is_withheld { std::mem::take(&mut self.withheld) } else { Vec::new() };
                        Ok(Enclosed { level, why, bounds, account, landlock, withheld })
                    }
                    // It runs on no longer than this value does.
                    Err(because) => {
                        let because = if why.is_empty() { because } else { format!("{because} ({why})") };
                        Err(End::Failed(Failure::of("serve what it asks of hosts", because)))
                    }
                }
            }
            Some(Told::Failed { step, why }) => {
                self.gone().await;
                Err(End::Failed(Failure::of(step, why)))
            }
            _ => Err(self.end_of_keeper().await),
        }
    }

    /// Waits until nothing of it is left. May be given up and asked again.
    pub async fn ended(&mut self) -> End {
        while let Some(told) = self.told.recv().await {
            match told {
                Told::Failed { step, why } => {
                    self.gone().await;
                    return End::Failed(Failure::of(step, why));
                }
                Told::RanOut => self.ran_out = true,
                _ => {}
            }
        }
        self.end_of_keeper().await
    }

    /// Whether it, or what it started, was killed for the memory that it took, once it ended; where nobody counts that, it is not
    /// known to be.
    #[must_use]
    pub fn ran_out(&self) -> bool {
        self.ran_out
    }

    /// Asks it to end, kills what is left after `grace`, and waits until nothing is.
    pub async fn end(&mut self, grace: Duration) {
        let grace_ms = u64::try_from(grace.as_millis()).unwrap_or(u64::MAX);
        // An error means that the keeper is gone, and what it kept with it.
        let _ = order(&self.orders, &Order::End { grace_ms });
        if timeout(grace + KILL_TIMEOUT, self.keeper.wait()).await.is_err() {
            tracing::warn!(pid = self.group.as_raw(), "a program was killed and does not end");
            // An error means that the keeper is gone.
            let _ = self.keeper.start_kill();
        }
        self.end_group();
    }

    async fn end_of_keeper(&mut self) -> End {
        let status = self.gone().await;
        self.end_group();
        End::Ended(status)
    }

    /// Waits until the keeper is gone, which has nothing to keep any more or says nothing; how it ended.
    async fn gone(&mut self) -> ExitStatus {
        let status = match timeout(KILL_TIMEOUT, self.keeper.wait()).await {
            Ok(status) => status,
            Err(_) => {
                // An error means that it is gone.
                let _ = self.keeper.start_kill();
                self.keeper.wait().await
            }
        };
        // It is a child of this process, so its status is known.
        status.unwrap_or_default()
    }

    /// Ends what a keeper that was killed could not end.
    fn end_group(&self) {
        // An error means that nothing is left.
        let _ = killpg(self.group, Signal::SIGKILL);
    }
}

/// Follows what a keeper tells until it is gone: passes it on but for refusals, which are kept and logged.
async fn follow(told: tokio::net::UnixStream, agent: String, refusals: Refusals, to: mpsc::Sender<Told>) {
    let (mut told, mut line) = (BufReader::new(told), Vec::new());
    loop {
        line.clear();
        let read = (&mut told).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return;
        }
        match serde_json::from_slice(&line) {
            Ok(Told::Refused(refusal)) => {
                let words = refusals.advice(&refusal);
                tracing::warn!(agent, refusal = words, "a program was refused something by its sandbox");
                refusals.add(refusal);
            }
            Ok(Told::MoreRefused) => {
                tracing::warn!(agent, "a program was refused more by its sandbox than is named");
                refusals.add_more();
            }
            Ok(told) => {
                if to.send(told).await.is_err() {
                    // Nobody asks any more.
                    return;
                }
            }
            // What speaks is no keeper.
            Err(_) => return,
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Also what was given up is killed at once. An error means that the keeper is gone.
        let _ = order(&self.orders, &Order::End { grace_ms: 0 });
    }
}

/// All variables of a program: those of [`environment`], and those of its file, which come first.
#[must_use]
pub fn variables(named: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let inherited = environment().into_iter();
    let inherited = inherited.filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
    let mut all: BTreeMap<String, String> = inherited.collect();
    all.extend(named.clone());
    all
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    /// Kept by a process that says nothing, whose end of the channel is given too.
    fn silent() -> (Program, UnixStream, mpsc::Sender<Told>) {
        let (orders, theirs) = UnixStream::pair().expect("a channel");
        let keeper = Command::new("sleep").arg("300").process_group(0).kill_on_drop(true).spawn().expect("a process");
        let group = Pid::from_raw(i32::try_from(keeper.id().expect("it runs")).expect("an id"));
        let (sender, told) = mpsc::channel(TOLD_MAX);
        let (ran_out, account, withheld, outlet, serving) = (false, None, Vec::new(), None, None);
        let program = Program { keeper, group, orders, told, ran_out, account, withheld, outlet, serving };
        (program, theirs, sender)
    }

    #[tokio::test(start_paused = true)]
    async fn a_keeper_that_says_nothing_is_not_waited_for_without_end() {
        let (mut program, _theirs, _sender) = silent();
        let end = program.started().await.expect_err("it does not start");
        assert_eq!(end, End::Silent(START_TIMEOUT));
        assert!(end.to_string().contains("did not start it within 30 s"), "{end}");
        let status = program.keeper.wait().await.expect("it is a child");
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    }

    #[tokio::test(start_paused = true)]
    async fn a_keeper_that_talks_nonsense_and_stays_is_ended() {
        let (mut program, _theirs, sender) = silent();
        // As if what it told were no word of a keeper.
        drop(sender);
        let End::Ended(status) = program.ended().await else { panic!("it ended") };
        assert_eq!(status.signal(), Some(Signal::SIGKILL as i32));
    }
}
