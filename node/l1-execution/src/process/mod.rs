//! The `process` runtime: any program that speaks A2A over HTTP, started, kept running and stopped with its children.
//!
//! Whoever uses it has installed a crypto provider for `rustls`, as reqwest wants it, although nothing here uses TLS.

mod client;

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use althing_td::{AgentFile, RuntimeSpec};
use futures::future::BoxFuture;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, ChildStdin, Command};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, Output, Turn};
use crate::error::{AgentError, StartError};
use crate::host::AgentState;
use althing_protocol::Contract;
use althing_protocol::contract::Class;
use client::Client;

/// Runs the program in front of its own process group and kills the group when the node's end of standard input
/// closes, which it does however the node ends: `kill -9` included. The node itself kills what the program leaves.
///
/// Before the program stand the KiB of memory that each of its processes may write to (0: any; `RLIMIT_DATA`), and
/// `idle` for a program that runs when nothing else does; where the system cannot do that, it is as nice as can be.
const KEEPER: &str = r#"exec 3<&0
(
    [ "$1" = 0 ] || ulimit -d "$1" || exit 126
    idle=$2
    shift 2
    [ "$idle" = idle ] || exec "$@"
    chrt -i 0 true 2>/dev/null && exec chrt -i 0 "$@"
    exec nice -n 19 "$@"
) </dev/null 3<&- &
child=$!
(cat <&3 >/dev/null; kill -KILL 0) &
exec 3<&-
wait "$child""#;

/// How programs are kept running.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// Wait before a program that ended is started again; doubles with each time up to `backoff_max`.
    pub backoff_min: Duration,
    /// Longest wait.
    pub backoff_max: Duration,
    /// A program that ran for this long starts again at `backoff_min`.
    pub steady_after: Duration,
    /// How long a program may take to end by itself before it is killed.
    pub stop_grace: Duration,
}

impl Default for ProcessConfig {
    fn default() -> Self {
        ProcessConfig {
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(30),
            steady_after: Duration::from_secs(30),
            stop_grace: Duration::from_secs(3),
        }
    }
}

/// An agent that is a program.
pub(crate) struct ProcessAgent {
    shared: Arc<Shared>,
    stop: CancellationToken,
    supervisor: Mutex<Option<tokio::task::JoinHandle<()>>>,
}

struct Shared {
    name: String,
    command: Vec<String>,
    cwd: PathBuf,
    env: Vec<(String, String)>,
    /// KiB of memory that each of its processes may write to; 0 for any.
    memory_kib: u64,
    delay_tolerant: bool,
    startup_timeout: Duration,
    config: ProcessConfig,
    now: Mutex<Now>,
    changed: tokio::sync::Notify,
}

struct Now {
    state: AgentState,
    pid: Option<u32>,
    client: Option<Client>,
}

impl Agent for ProcessAgent {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(self.relay(turn, out))
    }
}

impl ProcessAgent {
    /// Starts the program in the background and keeps it running until [`ProcessAgent::stop`] or drop.
    pub fn start(
        file: &AgentFile,
        folder: &Path,
        contract: &Contract,
        config: &ProcessConfig,
    ) -> Result<ProcessAgent, StartError> {
        let RuntimeSpec::Process { command, cwd, env, startup_timeout_ms } = &file.runtime else {
            return Err(StartError::Config { name: file.name.clone(), reason: "it is no process agent".to_owned() });
        };
        let shared = Arc::new(Shared {
            name: file.name.clone(),
            command: command.clone(),
            cwd: cwd.as_ref().map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd)),
            env: env.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
            memory_kib: contract.compute.memory_bytes.unwrap_or_default() / 1_024,
            delay_tolerant: matches!(contract.class, Class::Dt(_)),
            startup_timeout: Duration::from_millis(*startup_timeout_ms),
            config: config.clone(),
            now: Mutex::new(Now { state: AgentState::Starting, pid: None, client: None }),
            changed: tokio::sync::Notify::new(),
        });
        // The first start tells at once what is wrong with the command itself.
        let first = shared.spawn()?;
        let stop = CancellationToken::new();
        let supervisor = tokio::spawn(shared.clone().supervise(first, stop.clone()));
        Ok(ProcessAgent { shared, stop, supervisor: Mutex::new(Some(supervisor)) })
    }

    /// Ends the program and its children, and waits until they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        let supervisor = self.supervisor.lock().expect("no holder of the supervisor panics").take();
        if let Some(supervisor) = supervisor {
            // An error would mean that the supervisor panicked; the keeper then ends the program.
            let _ = supervisor.await;
        }
    }

    pub fn state(&self) -> AgentState {
        self.shared.now().state.clone()
    }

    pub fn pid(&self) -> Option<u32> {
        self.shared.now().pid
    }

    /// Hands the turn to the program; waits for it while it is being started.
    async fn relay(&self, turn: Turn, out: Output) -> Result<(), AgentError> {
        let waiting = timeout(self.shared.startup_timeout, self.shared.client());
        let down = |why| AgentError::Down { agent: self.shared.name.clone(), why };
        let client = waiting.await.map_err(|_| match self.state() {
            AgentState::Restarting { why, restarts } => down(format!("{why} (started again {restarts} times)")),
            _ => down("its program does not answer yet".to_owned()),
        })?;
        client.turn(turn, out).await
    }
}

impl Drop for ProcessAgent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A started program: the keeper, and the port that it was told to listen on.
struct Program {
    keeper: Child,
    /// Open for as long as the program shall run. Not left in `keeper`: waiting for a child closes its standard input.
    _alive: ChildStdin,
    group: Pid,
    port: u16,
}

impl Shared {
    fn now(&self) -> std::sync::MutexGuard<'_, Now> {
        self.now.lock().expect("no holder of the program's state panics")
    }

    fn set(&self, state: AgentState, pid: Option<u32>, client: Option<Client>) {
        *self.now() = Now { state, pid, client };
        self.changed.notify_waiters();
    }

    /// The program's client, as soon as there is one.
    async fn client(&self) -> Client {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if let Some(client) = self.now().client.clone() {
                return client;
            }
            changed.await;
        }
    }

    fn spawn(&self) -> Result<Program, StartError> {
        let program = self.command.first().cloned().unwrap_or_default();
        let failed = |reason| StartError::Spawn { program: program.clone(), reason };
        if !self.cwd.is_dir() {
            let reason = format!("there is no folder {}", self.cwd.display());
            return Err(failed(std::io::Error::new(std::io::ErrorKind::NotFound, reason)));
        }
        find(&program, &self.cwd).map_err(failed)?;
        // A port that is free now; should another program take it first, the start fails and is tried with another.
        let port = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|l| l.local_addr()).map_err(failed)?.port();
        let mut keeper = Command::new("/bin/sh")
            .args(["-c", KEEPER, "althing-agent", &self.memory_kib.to_string()])
            .arg(if self.delay_tolerant { "idle" } else { "" })
            .args(self.command.iter().map(|argument| argument.replace("{port}", &port.to_string())))
            .current_dir(&self.cwd)
            .envs(self.env.iter().map(|(key, value)| (key, value)))
            .env("PORT", port.to_string())
            .stdin(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(failed)?;
        let id = keeper.id().and_then(|id| i32::try_from(id).ok()).expect("a started child has an id");
        let alive = keeper.stdin.take().expect("standard input is piped");
        Ok(Program { keeper, _alive: alive, group: Pid::from_raw(id), port })
    }

    async fn supervise(self: Arc<Self>, first: Program, stop: CancellationToken) {
        let mut next: Result<Program, StartError> = Ok(first);
        let mut backoff = self.config.backoff_min;
        let mut restarts = 0;
        loop {
            let begun = tokio::time::Instant::now();
            let why = match next {
                Ok(mut program) => {
                    let ended = tokio::select! {
                        why = self.watch(&mut program) => Some(why),
                        () = stop.cancelled() => None,
                    };
                    self.set(AgentState::Starting, None, None);
                    program.end(self.config.stop_grace).await;
                    let Some(why) = ended else { return };
                    why
                }
                Err(error) => error.to_string(),
            };
            if begun.elapsed() >= self.config.steady_after {
                backoff = self.config.backoff_min;
            }
            restarts += 1;
            tracing::warn!(agent = self.name, why, restarts, after = ?backoff, "agent's program is started again");
            self.set(AgentState::Restarting { why, restarts }, None, None);
            tokio::select! {
                () = sleep(backoff) => {}
                () = stop.cancelled() => return,
            }
            backoff = (backoff * 2).min(self.config.backoff_max);
            next = self.spawn();
        }
    }

    /// Follows a program from its start to its end; says why it ended.
    async fn watch(&self, program: &mut Program) -> String {
        let pid = program.keeper.id();
        let ready = async {
            let client = timeout(self.startup_timeout, Client::connect(program.port)).await;
            match client {
                Ok(client) => {
                    self.set(AgentState::Ready, pid, Some(client));
                    std::future::pending().await
                }
                Err(_) => format!(
                    "it showed no agent card on http://127.0.0.1:{} within {} ms; is it an A2A server on $PORT?",
                    program.port,
                    self.startup_timeout.as_millis()
                ),
            }
        };
        tokio::select! {
            why = ready => why,
            status = program.keeper.wait() => match status {
                Ok(status) if self.memory_kib > 0 => format!(
                    "it ended with {status}; it may write to {} KiB of memory (compute.memory_bytes)",
                    self.memory_kib
                ),
                Ok(status) => format!("it ended with {status}"),
                Err(error) => format!("it cannot be watched: {error}"),
            },
        }
    }
}

impl Program {
    /// Asks the whole group to end, and kills what is left of it after `grace`.
    async fn end(mut self, grace: Duration) {
        // Errors mean that the group is gone.
        let _ = killpg(self.group, Signal::SIGTERM);
        let gone = async {
            let _ = self.keeper.wait().await;
            // Children of the program are not ours to wait for: the system only tells whether the group still exists.
            while killpg(self.group, None).is_ok() && lives(self.group) {
                sleep(Duration::from_millis(10)).await;
            }
        };
        if timeout(grace, gone).await.is_err() {
            let _ = killpg(self.group, Signal::SIGKILL);
            let _ = self.keeper.wait().await;
        }
    }
}

/// Is anybody of the group more than a zombie, which only waits to be noted by its parent? Where the system does not
/// tell, yes.
fn lives(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    let stats = processes.flatten().filter_map(|process| std::fs::read_to_string(process.path().join("stat")).ok());
    // `PID (NAME) STATE PARENT GROUP …`, where the name may hold anything (proc_pid_stat(5)).
    let mut members = stats.filter_map(|stat| {
        let mut rest = stat.rsplit_once(") ")?.1.split(' ');
        let (state, group) = (rest.next()?.to_owned(), rest.nth(1)?.parse::<i32>().ok()?);
        Some((state, group))
    });
    !Path::new("/proc/self/stat").exists()
        || members.any(|(state, member_of)| member_of == group.as_raw() && state != "Z" && state != "X")
}

/// Is there such a program? `sh` would only say so in an exit code.
fn find(program: &str, cwd: &Path) -> std::io::Result<()> {
    let found = if program.contains('/') {
        cwd.join(program).is_file()
    } else {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    };
    if found { Ok(()) } else { Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such program")) }
}
