//! The program of a tool server: started in a process group of its own, watched on its standard error, and killed with its
//! children.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use althing_execution::process::environment;
use althing_execution::tools::Fault;
use althing_td::{ToolServerSpec, is_hidden};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// The supervisor script: runs the program in a process group of its own, with the node's pipe as its standard input. When the
/// node's end closes, which happens however the node ends, the program has 2 s to end by itself; then the group is killed,
/// as it is when the program ends first. How it ended is told on standard error, by a shell of its own: who writes there when
/// the node is gone is ended for it.
pub const SUPERVISOR_SCRIPT: &str =
    r#"(cat; exec >&-; sleep 2; kill -KILL 0) | ("$@"; (echo "$0: ended $?" >&2); kill -KILL 0)"#;
/// The name of the script, with which the line begins that tells how the program ended.
const SUPERVISOR: &str = "althing-tools";
/// How long is waited for that line after the program's output ended.
const TOLD: Duration = Duration::from_millis(500);
/// The longest line of standard error that is passed on at once, bytes.
const LINE_BYTES_MAX: u64 = 4 << 10;
/// Characters of a line that are shown.
const SAID_CHARS_MAX: usize = 300;
/// Where programs are looked for without a `PATH`.
const PATH_DEFAULT: &str = "/usr/bin:/bin";

/// A started program.
pub struct Program {
    pub shell: Child,
    group: Pid,
    errors: JoinHandle<Ended>,
}

impl Drop for Program {
    fn drop(&mut self) {
        // An error means that the group is gone.
        let _ = killpg(self.group, Signal::SIGKILL);
    }
}

/// How a program ended, and what it said last.
#[derive(Default)]
struct Ended {
    status: Option<i32>,
    said: String,
}

impl Program {
    /// Starts the command of a tool server; gives its output and its input.
    pub fn start(spec: &ToolServerSpec, folder: &Path) -> Result<(Program, ChildStdout, ChildStdin), Fault> {
        let ToolServerSpec::Command { command, cwd, env, .. } = spec else {
            return Err(Fault::Unreachable("it is no program".to_owned()));
        };
        let folder = cwd.as_ref().map_or_else(|| folder.to_owned(), |cwd| folder.join(cwd));
        let path = env.get("PATH").map(PathBuf::from).or_else(|| std::env::var_os("PATH").map(PathBuf::from));
        if let Some(name) = command.first().filter(|name| !is_there(name, &folder, path)) {
            return Err(Fault::NoProgram(name.clone()));
        }
        let mut shell = Command::new("/bin/sh")
            .args(["-c", SUPERVISOR_SCRIPT, SUPERVISOR])
            .args(command)
            .current_dir(folder)
            .env_clear()
            .envs(environment())
            .envs(env)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true)
            .spawn()
            .map_err(|error| Fault::Unreachable(error.to_string()))?;
        let group = shell.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let pipes = (shell.stdout.take(), shell.stdin.take(), shell.stderr.take());
        let (Some(group), (Some(read), Some(write), Some(errors))) = (group, pipes) else {
            return Err(Fault::Unreachable("its program has no input or output".to_owned()));
        };
        Ok((Program { shell, group, errors: tokio::spawn(passed_on(errors)) }, read, write))
    }

    /// That the program ended, if that is why its connection was closed.
    pub async fn ended(mut self) -> Option<Fault> {
        let Ended { status, said } = timeout(TOLD, &mut self.errors).await.ok()?.ok()?;
        status.map(|status| Fault::Ended { status, said })
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

/// Passes what a program says on standard error on to the node's, until both ended.
async fn passed_on(errors: ChildStderr) -> Ended {
    let (mut errors, mut ended) = (BufReader::new(errors), Ended::default());
    loop {
        let mut line = Vec::new();
        let read = (&mut errors).take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await;
        if !matches!(read, Ok(1..)) {
            return ended;
        }
        let text = String::from_utf8_lossy(&line);
        let status = text.trim_end().strip_prefix(SUPERVISOR).and_then(|told| told.strip_prefix(": ended "));
        if let Some(status) = status.and_then(|status| status.parse().ok()) {
            ended.status = Some(status);
            continue;
        }
        let said = shown(&text);
        if !said.is_empty() {
            ended.said = said;
        }
        // An error means that nobody reads it.
        let _ = std::io::stderr().write_all(&line);
    }
}

/// The start of a line, without what is not seen.
fn shown(line: &str) -> String {
    let seen = line.trim().chars().filter(|c| !c.is_control() && !is_hidden(*c));
    seen.take(SAID_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn command(words: &[&str]) -> ToolServerSpec {
        let command = words.iter().map(|word| (*word).to_owned()).collect();
        ToolServerSpec::Command { command, cwd: None, env: Default::default(), env_secrets: Default::default() }
    }

    #[tokio::test]
    async fn a_program_that_is_missing_or_ends_says_so() {
        let folder = Path::new("/");
        for missing in ["no-such-program-anywhere", "./nowhere/tools.py"] {
            let refused = Program::start(&command(&[missing]), folder).map(drop);
            assert_eq!(refused, Err(Fault::NoProgram(missing.to_owned())));
        }
        let says = "echo first >&2; printf 'no\\033[1mmodule\\n\\n' >&2; exit 3";
        let (program, read, write) = Program::start(&command(&["sh", "-c", says]), folder).expect("it starts");
        let ended = program.ended().await;
        assert_eq!(ended, Some(Fault::Ended { status: 3, said: "no[1mmodule".to_owned() }));
        drop((read, write));
    }
}
