//! The `process` runtime: any program that speaks A2A over HTTP; it is started, restarted and stopped with its children. It
//! gets a listening socket that no other account can reach, and only the environment variables of [`environment`].
//!
//! The caller must install a crypto provider for `rustls`, which reqwest requires, although nothing here uses TLS.

mod accounts;
mod answer;
mod calls;
mod card;
mod client;
mod containment;
mod egress;
mod environment;
mod errand;
mod folders;
mod interface;
mod log;
mod machine;
mod offer;
mod onward;
mod program;
pub(crate) mod remote;
mod said;
mod seen;
mod socket;
mod state;
mod text;
mod work;

pub use accounts::{AccountHold, Accounts, AccountsError, ProgramOf};
pub use althing_keeper::remove_all;
pub use calls::{CallRefused, ProgramCalls, ServeCalls, ServeSocket, TURN_HEADER};
pub use card::{CardFault, ShownCard};
pub use client::CARD_PLACES;
pub use containment::{
    AgentFiles, ContainmentError, FILE_GIB_MAX, Guarded, JobError, ProgramSpec, holds_more, job, refusals,
};
pub use egress::{AskedHost, Asker, EgressRules, Entrance, Outlet, SecretHeader, ServeEgress, asked_hosts};
pub use errand::{ERRAND_BYTES_MAX, Errand, ErrandError, run_errand};
pub use log::{LOG_BYTES_MAX, LogLine, LogPage, LogWriter, ProgramLog, ProgramLogs};
pub use machine::accounts::{AccountError, AccountRange};
pub use offer::{FindLevel, machine_level};
pub use program::{End, Program, variables};
pub use said::passed_on;

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use a2a::Message;
use althing_keeper::job::{Descriptor, Job, Limits};
use althing_td::{AgentFile, ProgramPort, RuntimeSpec, Sandbox};
use futures::future::BoxFuture;
use tokio::net::unix::pipe;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use crate::agent::{Agent, AgentError, AgentState, Output, OwnCard, Parameters, Turn};
use crate::containment::Containment;
use crate::ending::ending;
use althing_protocol::Contract;
use althing_protocol::contract::Class;
use client::{Client, ProgramAddress};
pub use environment::environment;
pub use socket::{Folder, remove_left};
pub use work::{CallSpan, Work, WorkGuard};

/// The agent's own program, in its log as in its status.
const OWN: &str = "runtime";
/// How long it is waited for the rest of what an ended program said.
const SAID_MAX: Duration = Duration::from_millis(500);
/// How long it is waited, where a turn broke off, until it is known whether the program ended.
const END_KNOWN_MAX: Duration = Duration::from_secs(1);

/// How programs are restarted and stopped, and how servers elsewhere are followed.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// The delay before a program that ended is restarted; doubles each time up to `backoff_max`.
    pub backoff_min: Duration,
    /// The longest delay.
    pub backoff_max: Duration,
    /// A program that ran for this long is restarted after `backoff_min`.
    pub steady_after: Duration,
    /// How long a program may take to end before it is killed.
    pub stop_grace: Duration,
    /// Between two looks at a server elsewhere that answers: at its card, and at its tools if it does not say when they
    /// change.
    pub check: Duration,
    /// Where folders for the sockets of programs are made; the system's address for such where there is none.
    pub sockets: Option<PathBuf>,
    /// What no program reaches.
    pub guarded: Guarded,
    /// The accounts that programs have where nothing else contains them.
    pub accounts: Accounts,
    /// What the node reads when agents are added.
    pub agent_files: AgentFiles,
    /// Who serves what programs ask of hosts; none: they reach no host.
    pub egress: Option<ServeEgress>,
    /// What the programs of each agent said last.
    pub logs: ProgramLogs,
}

impl Default for ProcessConfig {
    fn default() -> Self {
        ProcessConfig {
            backoff_min: Duration::from_millis(200),
            backoff_max: Duration::from_secs(30),
            steady_after: Duration::from_secs(30),
            stop_grace: Duration::from_secs(3),
            check: Duration::from_secs(30),
            sockets: None,
            guarded: Guarded::default(),
            accounts: Accounts::default(),
            agent_files: AgentFiles::default(),
            egress: None,
            logs: ProgramLogs::default(),
        }
    }
}

impl ProcessConfig {
    /// Forgets what is kept of the programs of an agent that was removed: what they said, its files, and which accounts they had.
    pub fn forget(&self, agent: &str) {
        self.logs.forget(agent);
        self.agent_files.forget(agent);
        self.accounts.keep(agent, &BTreeSet::new());
    }

    /// Forgets which accounts an agent's programs had that its file, which took the place of another one, no longer has.
    pub fn keep_only(&self, file: &AgentFile) {
        let servers = file.tools.keys().map(|name| format!("tools.{name}"));
        self.accounts.keep(&file.name, &servers.chain([OWN.to_owned()]).collect());
    }
}

/// Why an agent's program could not be started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// Its runtime is another one.
    #[error("agent {0:?} is not a process agent")]
    NoProgram(String),
    /// The system does not start it.
    #[error("cannot start {program:?}: {reason}")]
    System {
        /// What was run.
        program: String,
        /// The system's reason.
        reason: std::io::Error,
    },
    /// It cannot be contained as its file says.
    #[error("cannot start {program:?}: {reason}")]
    Job {
        /// What was to be run.
        program: String,
        /// Why.
        reason: JobError,
    },
}

/// An agent that is a program.
pub(crate) struct ProcessAgent {
    shared: Arc<Shared>,
    stop: CancellationToken,
    supervisor: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    name: String,
    command: Vec<String>,
    cwd: PathBuf,
    /// What its file adds to its environment.
    env: BTreeMap<String, String>,
    /// The folder of its file.
    home: PathBuf,
    sandbox: Sandbox,
    rules: EgressRules,
    /// Whose program asks hosts, with what it was refused.
    asker: Asker,
    /// KiB of memory that each of its processes may write to; 0 for any.
    memory_kib: u64,
    delay_tolerant: bool,
    /// Whether it may be given a message again whose turn its node cut off, by its file.
    repeats: bool,
    port: Option<ProgramPort>,
    /// Where its socket is.
    folder: Folder,
    /// Its system calls, and where it makes them; none if its contract permits none.
    calls: Option<(Arc<ProgramCalls>, PathBuf)>,
    startup_timeout: Duration,
    config: ProcessConfig,
    now: Mutex<ProgramState>,
    changed: tokio::sync::Notify,
}

struct ProgramState {
    state: AgentState,
    pid: Option<u32>,
    /// How the program is contained, or was when it ran last; and what it was refused then.
    containment: Option<Containment>,
    client: Option<Client>,
    /// What it answered last instead of a card that can be used.
    fault: Option<CardFault>,
}

impl ProgramState {
    /// Of an agent whose program takes no turns now.
    fn of(state: AgentState) -> ProgramState {
        ProgramState { state, pid: None, containment: None, client: None, fault: None }
    }
}

impl Agent for ProcessAgent {
    fn turn<'a>(&'a self, turn: Turn, out: Output) -> BoxFuture<'a, Result<(), AgentError>> {
        Box::pin(self.relay(turn, out))
    }

    fn may_reply(&self) -> bool {
        true
    }

    fn is_resumable(&self) -> bool {
        self.shared.repeats
    }

    fn calls_in_order(&self) -> bool {
        false
    }

    fn own_card(&self) -> Option<OwnCard> {
        self.shared.now().client.as_ref().map(Client::own_card)
    }

    fn cancel<'a>(
        &'a self,
        remembered: &'a str,
        parameters: &'a Parameters,
    ) -> BoxFuture<'a, Result<Option<Message>, AgentError>> {
        let client = self.shared.now().client.clone();
        Box::pin(async move {
            match client {
                Some(client) => answer::cancel(&client, remembered, parameters).await,
                // A program that does not run has nothing to cancel.
                None => Ok(None),
            }
        })
    }
}

impl ProcessAgent {
    /// Starts the program in the background and keeps it running until [`ProcessAgent::stop`] or drop. `asked` are the hosts that the
    /// node asks for it.
    pub fn start(
        file: &AgentFile,
        folder: &Path,
        contract: &Contract,
        config: &ProcessConfig,
        offered: Option<(ServeCalls, ProgramCalls)>,
        asked: Vec<AskedHost>,
    ) -> Result<ProcessAgent, SpawnError> {
        let RuntimeSpec::Process { command, cwd, env, startup_timeout_ms, port, sandbox } = &file.runtime else {
            return Err(SpawnError::NoProgram(file.name.clone()));
        };
        let program = || command.first().cloned().unwrap_or_default();
        let system = |reason| SpawnError::System { program: program(), reason };
        let home = std::path::absolute(folder).map_err(system)?;
        let folder_for_socket = Folder::new(config.sockets.as_deref()).map_err(system)?;
        let stop = CancellationToken::new();
        let calls = match offered {
            None => None,
            Some((serve, calls)) => {
                let (listener, path) = folder_for_socket.listen(socket::CALLS).map_err(system)?;
                let calls = Arc::new(calls);
                let serving = (serve.serve)(listener, calls.clone());
                tokio::spawn(stop.clone().run_until_cancelled_owned(serving));
                Some((calls, path))
            }
        };
        let shared = Arc::new(Shared {
            name: file.name.clone(),
            command: command.clone(),
            cwd: cwd.as_ref().map_or_else(|| home.clone(), |cwd| home.join(cwd)),
            env: env.clone(),
            home,
            sandbox: sandbox.clone(),
            rules: EgressRules::of(sandbox, asked),
            asker: Asker {
                agent: file.name.clone(),
                work: Work::of(contract.observability),
                refusals: refusals(&config.guarded, command, env),
            },
            memory_kib: memory_kib(contract),
            delay_tolerant: matches!(contract.class, Class::Dt(_)),
            repeats: file.session.repeats(),
            port: *port,
            folder: folder_for_socket,
            calls,
            startup_timeout: Duration::from_millis(*startup_timeout_ms),
            config: config.clone(),
            now: Mutex::new(ProgramState::of(AgentState::Starting)),
            changed: tokio::sync::Notify::new(),
        });
        // Fails at once if the command itself is wrong.
        let first = shared.spawn().inspect_err(|_| stop.cancel())?;
        let supervisor = tokio::spawn(shared.clone().supervise(first, stop.clone()));
        Ok(ProcessAgent { shared, stop, supervisor: Mutex::new(Some(supervisor)) })
    }

    /// Ends the program and its children, and waits until they are gone.
    pub async fn stop(&self) {
        self.stop.cancel();
        let supervisor = self.supervisor.lock().expect("no holder of the supervisor panics").take();
        if let Some(supervisor) = supervisor {
            // An error means that the supervisor panicked; then the keeper ends the program.
            let _ = supervisor.await;
        }
    }

    pub fn state(&self) -> AgentState {
        self.shared.now().state.clone()
    }

    pub fn pid(&self) -> Option<u32> {
        self.shared.now().pid
    }

    /// Waits until it is known how its program is contained, or that it did not start.
    pub async fn enclosed(&self) {
        loop {
            let changed = self.shared.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_known = {
                let now = self.shared.now();
                now.containment.is_some() || now.state != AgentState::Starting
            };
            if is_known {
                return;
            }
            changed.await;
        }
    }

    /// How its program is contained, or was when it ran last, and what it was refused: that may be why it ended.
    pub fn containment(&self) -> Option<Containment> {
        self.shared.now().containment.clone().map(|containment| containment.with(&self.shared.asker.refusals))
    }

    /// Gives the turn to the program; waits for it while it is being started.
    async fn relay(&self, turn: Turn, out: Output) -> Result<(), AgentError> {
        let waiting = timeout(self.shared.startup_timeout, self.shared.client());
        let down = |why| AgentError::Down { agent: self.shared.name.clone(), why };
        let client = waiting.await.map_err(|_| match self.state() {
            // The reason names a path, which only the operator may see.
            AgentState::Restarting { .. } => down("its program ended, and `ps` on its node says why".to_owned()),
            AgentState::Unreachable { .. } => {
                down("its program's agent card cannot be used, and `ps` on its node says why".to_owned())
            }
            _ => down("its program does not answer yet".to_owned()),
        })?;
        let (agent, turn) = (&*self.shared.name, state::told(turn));
        let _working = self.shared.asker.work.begin();
        let ended = match &self.shared.calls {
            None => answer::turn(client, agent, turn, out).await,
            Some((calls, _)) => {
                let open = calls.open();
                answer::turn(client.of_turn(open.header()), agent, turn, out).await
            }
        };
        if matches!(ended, Err(AgentError::Breakdown(_))) {
            // Its connections end before the program has, and whoever counts the turn asks for its state.
            let _ = timeout(END_KNOWN_MAX, self.shared.rests()).await;
        }
        ended
    }
}

impl Drop for ProcessAgent {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

/// A started program, and where it listens.
struct Listening {
    program: Program,
    address: ProgramAddress,
    /// What it said last, once it ended.
    said: JoinHandle<String>,
    /// The number of the first line in the log that may be its own.
    first_line: u64,
}

impl Shared {
    fn now(&self) -> std::sync::MutexGuard<'_, ProgramState> {
        self.now.lock().expect("no holder of the program's state panics")
    }

    fn set(&self, now: ProgramState) {
        *self.now() = now;
        self.changed.notify_waiters();
    }

    /// It takes no turns now.
    fn rest(&self, state: AgentState) {
        let mut now = self.now();
        let containment = now.containment.take();
        *now = ProgramState { containment, ..ProgramState::of(state) };
        drop(now);
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

    /// Done when no program takes turns.
    async fn rests(&self) {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.now().client.is_none() {
                return;
            }
            changed.await;
        }
    }

    /// Starts the program; not on a thread on which others wait.
    fn spawn(&self) -> Result<Listening, SpawnError> {
        let program = self.command.first().cloned().unwrap_or_default();
        let failed = |reason| SpawnError::System { program: program.clone(), reason };
        if !self.cwd.is_dir() {
            let reason = format!("there is no folder {}", self.cwd.display());
            return Err(failed(std::io::Error::new(std::io::ErrorKind::NotFound, reason)));
        }
        check_program(&program, &self.cwd).map_err(failed)?;
        let mut variables = variables(&self.env);
        let mut set = |name: &str, value: &str| drop(variables.insert(name.to_owned(), value.to_owned()));
        if let Some((_, path)) = &self.calls {
            set("ALTHING_MCP_SOCKET", &path.to_string_lossy());
        }
        let (mut command, mut given_port) = (self.command.clone(), None);
        match self.port {
            None => {
                set("ALTHING_SOCKET", &self.folder.place(socket::AGENT).to_string_lossy());
                set("LISTEN_FDS", "1");
                set("LISTEN_FDNAMES", "a2a");
            }
            Some(ProgramPort::Tcp) => {
                // A port that is free now; if another program takes it first, the restart uses another.
                let free = std::net::TcpListener::bind(("127.0.0.1", 0)).and_then(|free| free.local_addr());
                let port = free.map_err(failed)?.port();
                set("PORT", &port.to_string());
                command.iter_mut().for_each(|word| *word = word.replace("{port}", &port.to_string()));
                given_port = Some(port);
            }
        }
        let spec = ProgramSpec {
            command: &command,
            folder: &self.home,
            cwd: &self.cwd,
            environment: &variables,
            sandbox: &self.sandbox,
        };
        let of = ProgramOf { agent: &self.name, program: OWN };
        let of_node = (&self.config.guarded, &self.config.accounts, &self.config.agent_files);
        let job = job(of, &spec, of_node, &self.folder);
        // Its account is its agent's, however often it is started.
        let (mut job, _) = job.map_err(|reason| SpawnError::Job { program: program.clone(), reason })?;
        job.limits = Limits { memory_kib: self.memory_kib, idle: self.delay_tolerant, ..job.limits };
        self.start_listening(job, given_port).map_err(failed)
    }

    /// Starts the program with its socket. What listens on a port of its own loopback is reached by a socket too.
    fn start_listening(&self, mut job: Job, port: Option<u16>) -> std::io::Result<Listening> {
        // What it says goes where the node's messages go.
        job.descriptors = vec![Descriptor::Output, Descriptor::Error];
        let (listener, address) = match (port, &mut job.enclosure) {
            (Some(port), None) => (None, ProgramAddress::Port(port)),
            (port, enclosure) => {
                if let (Some(port), Some(enclosure)) = (port, enclosure) {
                    enclosure.ports.push(port);
                }
                job.bridge = port;
                job.descriptors.push(if port.is_some() { Descriptor::Bridge } else { Descriptor::Socket });
                let (socket, path) = self.folder.listen(socket::AGENT)?;
                (Some(socket), ProgramAddress::Socket(path))
            }
        };
        let outlet = match &self.config.egress {
            Some(serve) => Outlet::prepare(&mut job, serve, &self.rules, &self.asker)?,
            None => None,
        };
        let (said, from) = pipe::pipe()?;
        let said = said.into_blocking_fd()?;
        let log = self.config.logs.of(&self.name);
        let first_line = log.page(u64::MAX).next;
        let last = tokio::spawn(passed_on(from, log.writer(OWN)));
        let mut descriptors = vec![said.as_fd(), said.as_fd()];
        descriptors.extend(listener.as_ref().map(|listener| listener.as_fd()));
        let program = Program::start(&job, &descriptors, outlet, (&self.name, &self.asker.refusals))?;
        Ok(Listening { program, address, said: last, first_line })
    }

    async fn supervise(self: Arc<Self>, first: Listening, stop: CancellationToken) {
        let mut next: Result<Listening, SpawnError> = Ok(first);
        let mut backoff = self.config.backoff_min;
        let mut restarts = 0;
        loop {
            let begun = tokio::time::Instant::now();
            let why = match next {
                Ok(mut started) => {
                    let ended = tokio::select! {
                        why = self.watch(&mut started) => Some(why),
                        () = stop.cancelled() => None,
                    };
                    // Calls end now, and whoever asks for its state is told why until it is ready again.
                    let state = ended.clone().map_or(AgentState::Starting, |why| restarting(why, restarts + 1));
                    self.rest(state);
                    started.program.end(self.config.stop_grace).await;
                    let Some(why) = ended else { return };
                    why
                }
                Err(error) => error.to_string(),
            };
            if begun.elapsed() >= self.config.steady_after {
                backoff = self.config.backoff_min;
            }
            restarts += 1;
            tracing::warn!(agent = self.name, why, restarts, after = ?backoff, "an agent's program is restarted");
            self.config.logs.of(&self.name).note(&format!("its program is started again (restart {restarts}): {why}"));
            self.rest(restarting(why, restarts));
            tokio::select! {
                () = sleep(backoff) => {}
                () = stop.cancelled() => return,
            }
            backoff = (backoff * 2).min(self.config.backoff_max);
            // It looks at files, and the keeper reads its job meanwhile.
            let this = self.clone();
            next = spawn_blocking(move || this.spawn()).await.unwrap_or_else(|_| {
                let reason = std::io::Error::other("the node broke off while it was started");
                Err(SpawnError::System { program: self.command.first().cloned().unwrap_or_default(), reason })
            });
        }
    }

    /// Follows a program until it ends; gives the reason.
    async fn watch(&self, started: &mut Listening) -> String {
        let Listening { program, address, said, first_line } = started;
        let pid = program.pid();
        let enclosed = match program.started().await {
            Ok(enclosed) => enclosed,
            Err(end) => return self.ended(end, program.ran_out()) + &last(said).await,
        };
        let containment = Some(Containment::of(&self.sandbox, enclosed));
        self.now().containment.clone_from(&containment);
        self.changed.notify_waiters();
        let ready = async {
            let connecting = Client::connect(address, |fault| self.note(fault));
            match timeout(self.startup_timeout, connecting).await {
                Ok(client) => {
                    self.set(ProgramState {
                        pid,
                        containment,
                        client: Some(client),
                        ..ProgramState::of(AgentState::Ready)
                    });
                    std::future::pending().await
                }
                Err(_) => {
                    let lines = self.config.logs.of(&self.name).page(*first_line).lines;
                    let last = lines.iter().rfind(|line| &*line.program == OWN);
                    let last = last.map(|line| line.text.chars().take(said::SAID_CHARS_MAX).collect());
                    self.unshown(address) + &it_said(last)
                }
            }
        };
        tokio::select! {
            why = ready => why,
            end = program.ended() => self.ended(end, program.ran_out()) + &last(said).await,
        }
    }

    /// Notes what its program answers instead of a card that can be used, for whoever asks for its state.
    fn note(&self, fault: &CardFault) {
        if let CardFault::Silent(_) = fault {
            return;
        }
        let mut now = self.now();
        if now.fault.as_ref() == Some(fault) {
            return;
        }
        tracing::warn!(agent = self.name, why = %fault, "an agent's program shows no agent card that can be used");
        if let CardFault::Unfit(why) = fault {
            now.state = AgentState::Unreachable { why: why.clone() };
        }
        now.fault = Some(fault.clone());
    }

    /// Why its program is not waited for any longer, for people.
    fn unshown(&self, address: &ProgramAddress) -> String {
        let waited = format!("it showed no agent card on {address} within {} ms", self.startup_timeout.as_millis());
        match self.now().fault.take() {
            Some(CardFault::Unfit(why)) => why,
            Some(fault) => format!("{waited}: {fault}"),
            None => waited,
        }
    }

    /// Why its program does not run any more, for people.
    fn ended(&self, end: End, ran_out: bool) -> String {
        let End::Ended(status) = end else { return end.to_string() };
        let how = status.code().map_or_else(|| end.to_string(), |code| ending(code, ran_out));
        match self.memory_kib {
            0 => how,
            most => format!("{how}; it may write to {most} KiB of memory (compute.memory_bytes)"),
        }
    }
}

/// KiB of memory that each process of an agent's programs may write to; 0 for any.
#[must_use]
pub fn memory_kib(contract: &Contract) -> u64 {
    // Less than one is not any.
    contract.compute.memory_bytes.map_or(0, |bytes| (bytes / 1_024).max(1))
}

/// The last that an ended program said, as it follows why it ended.
async fn last(said: &mut JoinHandle<String>) -> String {
    it_said(timeout(SAID_MAX, said).await.ok().and_then(Result::ok))
}

fn it_said(last: Option<String>) -> String {
    last.filter(|said| !said.is_empty()).map_or_else(String::new, |said| format!("; it said: {said}"))
}

fn restarting(why: String, restarts: u32) -> AgentState {
    AgentState::Restarting { why, restarts }
}

/// Checks that the program exists: who adds the agent hears it at once.
fn check_program(program: &str, cwd: &Path) -> std::io::Result<()> {
    let found = if program.contains('/') {
        cwd.join(program).is_file()
    } else {
        let paths = std::env::var_os("PATH").unwrap_or_default();
        std::env::split_paths(&paths).any(|folder| folder.join(program).is_file())
    };
    if found { Ok(()) } else { Err(std::io::Error::new(std::io::ErrorKind::NotFound, "no such program")) }
}
