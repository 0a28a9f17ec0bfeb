//! The program of a tool server: kept by a keeper, watched on its standard error, and killed with its children.

use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_execution::process::{
    self, AccountHold, Asker, EgressRules, End, Folder, Outlet, ProcessConfig, ProgramOf, ProgramSpec, variables,
};
use althing_execution::tools::Fault;
use althing_execution::{Containment, ServerOf};
use althing_keeper::job::Descriptor;
use althing_td::{Sandbox, ToolServerSpec};
use reqwest::Url;
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// How long it is waited for how a program ended, once its output ended.
const TOLD: Duration = Duration::from_millis(500);
/// How long a program may take to end by itself when the node is gone, as when its input is closed: milliseconds.
const ORPHAN_MS: u64 = 2_000;
/// Where programs are looked for without a `PATH`.
const PATH_DEFAULT: &str = "/usr/bin:/bin";

/// Whose tool server a program is.
#[derive(Debug, Clone, Default)]
pub struct ServerOwner {
    /// The agent; empty for who only looks.
    agent: String,
    /// The server's name in the agent's file.
    server: String,
    /// KiB of memory that each of its processes may write to; 0 for any.
    memory_kib: u64,
}

impl ServerOwner {
    /// As the host says.
    pub fn of(of: ServerOf<'_>) -> ServerOwner {
        let ServerOf { agent, server, memory_kib, .. } = of;
        ServerOwner { agent: agent.to_owned(), server: server.to_owned(), memory_kib }
    }

    /// As it is named in what is logged, like `ps` names it; where there is no agent yet, by its program, or by scheme, host and port of
    /// its address: in the rest of that may be a secret.
    pub fn shown(&self, place: &str) -> String {
        if !self.agent.is_empty() {
            return format!("{} (tools.{})", self.agent, self.server);
        }
        let address = Url::parse(place).ok().filter(Url::has_host);
        address.map_or_else(|| place.to_owned(), |address| address.origin().ascii_serialization())
    }
}

/// A started program.
pub struct Program {
    kept: process::Program,
    errors: JoinHandle<String>,
    sandbox: Sandbox,
    containment: Option<Containment>,
    /// Its temporary files, where it has no place of its own for them.
    _own: Folder,
    /// Its account, where it is only looked at.
    _account: Option<AccountHold>,
}

impl Program {
    /// Starts the command of a tool server; gives its output and its input. In a runtime, not on a thread on which others wait.
    pub fn start(
        whose: &ServerOwner,
        spec: &ToolServerSpec,
        home: &Path,
        config: &ProcessConfig,
        (rules, asker): (&EgressRules, &Asker),
    ) -> Result<(Program, Receiver, Sender), Fault> {
        let ToolServerSpec::Command { command, cwd, env, sandbox, .. } = spec else {
            return Err(Fault::Unreachable("it is no program".to_owned()));
        };
        let failed = |error: std::io::Error| Fault::Unreachable(error.to_string());
        let home = std::path::absolute(home).map_err(failed)?;
        let folder = cwd.as_ref().map_or_else(|| home.clone(), |cwd| home.join(cwd));
        let path = env.get("PATH").map(PathBuf::from).or_else(|| std::env::var_os("PATH").map(PathBuf::from));
        if let Some(name) = command.first().filter(|name| !is_there(name, &folder, path)) {
            return Err(Fault::NoProgram(name.clone()));
        }
        let own = Folder::new(config.sockets.as_deref()).map_err(failed)?;
        let program = ProgramSpec { command, folder: &home, cwd: &folder, environment: &variables(env), sandbox };
        let named = format!("tools.{}", whose.server);
        let of = ProgramOf { agent: &whose.agent, program: &named };
        let of_node = (&config.guarded, &config.accounts, &config.agent_files);
        let (mut job, account) =
            process::job(of, &program, of_node, &own).map_err(|error| Fault::Unreachable(error.to_string()))?;
        job.descriptors = vec![Descriptor::Input, Descriptor::Output, Descriptor::Error];
        job.orphan_ms = ORPHAN_MS;
        job.limits.memory_kib = whose.memory_kib;
        let outlet = match &config.egress {
            Some(serve) => Outlet::prepare(&mut job, serve, rules, asker).map_err(failed)?,
            None => None,
        };
        let (write, input) = pipe::pipe().map_err(failed)?;
        let (output, read) = pipe::pipe().map_err(failed)?;
        let (error, errors) = pipe::pipe().map_err(failed)?;
        let input = input.into_blocking_fd().map_err(failed)?;
        let (output, error) = (output.into_blocking_fd().map_err(failed)?, error.into_blocking_fd().map_err(failed)?);
        let name = whose.shown(command.first().map_or("", String::as_str));
        let descriptors = [input.as_fd(), output.as_fd(), error.as_fd()];
        let kept = process::Program::start(&job, &descriptors, outlet, (&name, &asker.refusals)).map_err(failed)?;
        let log = config.logs.of(&whose.agent).writer(&named);
        let errors = tokio::spawn(process::passed_on(errors, log));
        let (sandbox, containment) = (sandbox.clone(), None);
        Ok((Program { kept, errors, sandbox, containment, _own: own, _account: account }, read, write))
    }

    /// Waits until it runs.
    ///
    /// # Errors
    /// Why it does not.
    pub async fn started(&mut self) -> Result<(), Fault> {
        match self.kept.started().await {
            Ok(enclosed) => {
                self.containment = Some(Containment::of(&self.sandbox, enclosed));
                Ok(())
            }
            Err(End::Ended(status)) => Err(Fault::Unreachable(format!("its keeper ended with {status}"))),
            Err(end) => Err(Fault::Unreachable(end.to_string())),
        }
    }

    /// How it is contained, once it runs, and what it is refused then.
    pub fn containment(&self) -> Option<Containment> {
        self.containment.clone()
    }

    /// Waits until it ended by itself.
    pub async fn wait(&mut self) {
        self.kept.ended().await;
    }

    /// That the program ended, if that is why its connection was closed.
    pub async fn ended(mut self) -> Option<Fault> {
        let end = timeout(TOLD, self.kept.ended()).await.ok()?;
        let said = timeout(TOLD, &mut self.errors).await.ok()?.ok()?;
        Some(match end {
            // A signal ended its keeper.
            End::Ended(status) => {
                Fault::Ended { status: status.code().unwrap_or(-1), ran_out: self.kept.ran_out(), said }
            }
            end => Fault::Unreachable(end.to_string()),
        })
    }
}

/// Whether there is a program of that name, or at that path.
fn is_there(name: &str, folder: &Path, path: Option<PathBuf>) -> bool {
    if name.contains('/') {
        return folder.join(name).is_file();
    }
    let path = path.unwrap_or_else(|| PathBuf::from(PATH_DEFAULT));
    std::env::split_paths(&path).any(|at| folder.join(at).join(name).is_file())
}

#[cfg(test)]
mod tests {
    use althing_execution::Refusals;
    use althing_execution::process::Work;

    use super::*;

    fn command(words: &[&str]) -> ToolServerSpec {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        let (env, env_secrets) = Default::default();
        ToolServerSpec::Command { command, cwd: None, env, env_secrets, sandbox: Default::default() }
    }

    fn asker() -> Asker {
        Asker { agent: "tools".to_owned(), work: Work::default(), refusals: Refusals::default() }
    }

    #[test]
    fn a_program_is_named_by_its_agent_and_its_server() {
        let of = ServerOf { agent: "maps", server: "server", folder: Path::new("/"), memory_kib: 0 };
        assert_eq!(ServerOwner::of(of).shown("python3"), "maps (tools.server)");
        assert_eq!(ServerOwner::default().shown("python3"), "python3");
    }

    /// Threat: the key of a server's address in the log of a node that only looked at that server.
    #[test]
    fn an_address_is_shown_without_what_in_it_may_be_a_secret() {
        for (address, shown) in [
            ("https://host.example/mcp?apiKey=hush", "https://host.example"),
            ("http://me:hush@127.0.0.1:9000/hush#hush", "http://127.0.0.1:9000"),
        ] {
            assert_eq!(ServerOwner::default().shown(address), shown);
        }
    }

    #[tokio::test]
    async fn the_program_of_a_tool_server_is_bounded_in_memory_too() {
        let whose = ServerOwner { memory_kib: 64 << 10, ..ServerOwner::default() };
        let says = "ulimit -d; exit 3";
        let (program, mut read, write) = Program::start(
            &whose,
            &command(&["sh", "-c", says]),
            Path::new("/"),
            &ProcessConfig::default(),
            (&EgressRules::default(), &asker()),
        )
        .expect("it starts");
        let mut said = String::new();
        tokio::io::AsyncReadExt::read_to_string(&mut read, &mut said).await.expect("it says that");
        assert_eq!(said.trim(), (64 << 10).to_string(), "the limit of its data, in KiB");
        drop((program, write));
    }

    #[tokio::test]
    async fn a_program_that_is_missing_or_ends_says_so() {
        let folder = Path::new("/");
        for missing in ["no-such-program-anywhere", "./nowhere/tools.py"] {
            let refused = Program::start(
                &ServerOwner::default(),
                &command(&[missing]),
                folder,
                &ProcessConfig::default(),
                (&EgressRules::default(), &asker()),
            )
            .map(drop);
            assert_eq!(refused, Err(Fault::NoProgram(missing.to_owned())));
        }
        let says = "echo first >&2; printf 'no\\033[1mmodule\\n\\n' >&2; exit 3";
        let (program, read, write) = Program::start(
            &ServerOwner::default(),
            &command(&["sh", "-c", says]),
            folder,
            &ProcessConfig::default(),
            (&EgressRules::default(), &asker()),
        )
        .expect("it starts");
        let ended = program.ended().await;
        assert_eq!(ended, Some(Fault::Ended { status: 3, ran_out: false, said: "no[1mmodule".to_owned() }));
        drop((read, write));
    }
}
