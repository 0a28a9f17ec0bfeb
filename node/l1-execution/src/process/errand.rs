//! A program that is run once, contained as any other: it is told something on its standard input, and ends.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd as _;
use std::path::Path;
use std::time::Duration;

use althing_keeper::job::Descriptor;
use althing_td::{OwnFolder, Sandbox};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::unix::pipe::{self, Receiver, Sender};
use tokio::task::spawn_blocking;

use super::ProcessConfig;
use super::accounts::{AccountHold, ProgramOf};
use super::containment::{JobError, ProgramSpec, job, refusals};
use super::egress::{AskedHost, Asker, EgressRules, Outlet};
use super::program::{End, Program};
use super::socket::Folder;
use super::work::Work;
use crate::containment::{Containment, Refusals};

/// Bytes that it may say, on its standard output and its standard error together; nobody reads them.
pub const ERRAND_BYTES_MAX: usize = 64 << 10;
/// Refusals that are named where it fails.
const REFUSALS_SHOWN: usize = 4;
/// Its own name in what it has of the node, beside agents' programs and tools.
const NAME: &str = "errand";

/// A program that is run once.
#[derive(Debug, Clone)]
pub struct Errand {
    /// The program and its arguments; it starts in `/`.
    pub command: Vec<String>,
    /// All variables of its environment.
    pub environment: BTreeMap<String, String>,
    /// What it may reach. Its own folder, that of the program, it only reads.
    pub sandbox: Sandbox,
    /// The hosts of that which the node asks for it.
    pub asked: Vec<AskedHost>,
    /// What it is told.
    pub input: Vec<u8>,
}

/// Why it is not known to have done what it was started for.
#[derive(Debug, thiserror::Error)]
pub enum ErrandError {
    /// It cannot be said what it may reach.
    #[error("{program} cannot be run: {why}")]
    Job {
        /// The first word of its command.
        program: String,
        /// Why that cannot be said.
        why: JobError,
    },
    /// The system does not let it be started.
    #[error("{program} cannot be run: {why}")]
    System {
        /// The first word of its command.
        program: String,
        /// The reason that the system gave.
        why: io::Error,
    },
    /// It did not start.
    #[error("{program} did not start: {why}")]
    Start {
        /// The first word of its command.
        program: String,
        /// Why, in words.
        why: String,
    },
    /// It said too much, and was ended.
    #[error("{program} was ended: it said more than {ERRAND_BYTES_MAX} bytes, which nobody reads; let it say less")]
    Output {
        /// The first word of its command.
        program: String,
    },
    /// It ended with a failure.
    #[error("{program} failed: {how}{}", refused_words(.refused.as_deref()))]
    Exit {
        /// The first word of its command.
        program: String,
        /// How it ended, in words.
        how: String,
        /// What its sandbox refused it, and what would grant that; none where that is nothing.
        refused: Option<String>,
    },
}

fn refused_words(refused: Option<&str>) -> String {
    refused.map(|what| format!("; its sandbox refused: {what}")).unwrap_or_default()
}

/// A program that runs.
struct Run {
    program: Program,
    input: Sender,
    said: Receiver,
    refusals: Refusals,
    /// Its temporary files, where it has no place of its own for them.
    _own: Folder,
    /// Its account, where nothing else contains it.
    _account: Option<AccountHold>,
}

/// Runs a program to its end, with all that it started. Given up, it is killed.
///
/// # Errors
/// [`ErrandError`].
pub async fn run_errand(errand: Errand, config: &ProcessConfig) -> Result<(), ErrandError> {
    let name = errand.command.first().cloned().unwrap_or_default();
    let (sandbox, input) = (with_read_folder(errand.sandbox.clone()), errand.input.clone());
    let (of_errand, config) = (Errand { sandbox: sandbox.clone(), ..errand }, config.clone());
    // It looks at files, and the keeper reads its job meanwhile.
    let started = spawn_blocking(move || start(&of_errand, &config)).await;
    let broke_off = |_| ErrandError::System { program: name.clone(), why: io::Error::other("the node broke off") };
    let Run { mut program, input: mut to, said, refusals, _own, _account } = started.map_err(broke_off)??;
    let enclosed = program.started().await;
    let enclosed = enclosed.map_err(|end| ErrandError::Start { program: name.clone(), why: end.to_string() })?;
    let containment = Containment::of(&sandbox, enclosed);
    let told = async move {
        // One that reads nothing may know enough.
        let _ = to.write_all(&input).await;
    };
    let whole = async { tokio::join!(told, program.ended()).1 };
    let end = tokio::select! {
        biased;
        end = whole => Some(end),
        () = overflow(said) => None,
    };
    let Some(end) = end else {
        program.end(Duration::ZERO).await;
        return Err(ErrandError::Output { program: name });
    };
    match end {
        End::Ended(status) if status.success() => Ok(()),
        end => {
            let refused = containment.with(&refusals).lacks.summary(REFUSALS_SHOWN);
            Err(ErrandError::Exit { program: name, how: end.to_string(), refused })
        }
    }
}

/// The same, with its own folder only read: nothing says that it may change itself.
fn with_read_folder(sandbox: Sandbox) -> Sandbox {
    Sandbox { folder: OwnFolder::Read, ..sandbox }
}

/// Starts it. Not on a thread on which others wait; in a runtime.
fn start(errand: &Errand, config: &ProcessConfig) -> Result<Run, ErrandError> {
    let Errand { command, environment, sandbox, asked, .. } = errand;
    let name = command.first().map_or("", String::as_str);
    let failed = |why: io::Error| ErrandError::System { program: name.to_owned(), why };
    let own = Folder::new(config.sockets.as_deref()).map_err(failed)?;
    let root = Path::new("/");
    let spec = ProgramSpec { command, folder: root, cwd: root, environment, sandbox };
    // It is no agent's, so that its account is free again when it ends.
    let of = ProgramOf { agent: "", program: NAME };
    let made = job(of, &spec, (&config.guarded, &config.accounts, &config.agent_files), &own);
    let (mut job, account) = made.map_err(|why| ErrandError::Job { program: name.to_owned(), why })?;
    job.descriptors = vec![Descriptor::Input, Descriptor::Output, Descriptor::Error];
    let refusals = refusals(&config.guarded, command, environment);
    let asker = Asker { agent: String::new(), work: Work::default(), refusals: refusals.clone() };
    let outlet = match &config.egress {
        Some(serve) => {
            let rules = EgressRules::of(sandbox, asked.clone());
            Outlet::prepare(&mut job, serve, &rules, &asker).map_err(failed)?
        }
        None => None,
    };
    let (write, input) = pipe::pipe().map_err(failed)?;
    let (says, said) = pipe::pipe().map_err(failed)?;
    let input = input.into_blocking_fd().map_err(failed)?;
    let says = says.into_blocking_fd().map_err(failed)?;
    let descriptors = [input.as_fd(), says.as_fd(), says.as_fd()];
    let program = Program::start(&job, &descriptors, outlet, (name, &refusals)).map_err(failed)?;
    Ok(Run { program, input: write, said, refusals, _own: own, _account: account })
}

/// Reads what it says; ends where that is too much, and else never.
async fn overflow(mut said: Receiver) {
    let (mut buffer, mut left) = ([0; 4 << 10], ERRAND_BYTES_MAX);
    // An error means that there is no more.
    while let Ok(read @ 1..) = said.read(&mut buffer).await {
        match left.checked_sub(read) {
            Some(less) => left = less,
            None => return,
        }
    }
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::PathBuf;

    use althing_testing::{remedy, skip};

    use super::super::{Guarded, variables};
    use super::*;

    fn errand(script: &str, sandbox: Sandbox) -> Errand {
        Errand {
            command: ["/bin/sh", "-c", script].map(str::to_owned).to_vec(),
            environment: variables(&BTreeMap::new()),
            sandbox,
            asked: Vec::new(),
            input: b"told\n".to_vec(),
        }
    }

    fn writing(folder: &Path, read: &[&Path]) -> Sandbox {
        let read = read.iter().map(|path| PathBuf::from(*path)).collect();
        Sandbox { write: vec![folder.to_owned()], read, ..Sandbox::default() }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn it_reads_what_it_is_told_and_must_end_well() {
        let place = tempfile::tempdir().expect("a folder");
        let config = ProcessConfig::default();
        let told = place.path().join("told");
        let script = format!("cat > '{}'", told.display());
        run_errand(errand(&script, writing(place.path(), &[])), &config).await.expect("it ends well");
        assert_eq!(fs::read(&told).expect("it was written"), b"told\n");
        run_errand(errand("exec true", Sandbox::default()), &config).await.expect("it need not read");
        let failed = run_errand(errand("exit 3", Sandbox::default()), &config).await.expect_err("it fails");
        assert!(matches!(&failed, ErrandError::Exit { how, .. } if how.contains('3')), "{failed}");
        let loud = run_errand(errand("yes", Sandbox::default()), &config).await.expect_err("it says too much");
        assert!(matches!(loud, ErrandError::Output { .. }), "{loud}");
        let missing = Errand { command: vec!["/nowhere/tell".to_owned()], ..errand("", Sandbox::default()) };
        let missing = run_errand(missing, &config).await.expect_err("it is not there");
        assert!(matches!(missing, ErrandError::Job { .. }), "{missing}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn what_is_the_nodes_own_it_never_reads_whatever_else_it_may() {
        let place = tempfile::tempdir().expect("a folder");
        let place = place.path().canonicalize().expect("it is there");
        let (data, out) = (place.join("data"), place.join("out"));
        for folder in [&data, &out] {
            fs::create_dir(folder).expect("a new folder");
        }
        let (key, note, copy) = (data.join("node.key"), place.join("note"), out.join("copy"));
        fs::write(&key, "the key").expect("written");
        fs::write(&note, "a note").expect("written");
        let config = ProcessConfig { guarded: Guarded { hidden: vec![data] }, ..ProcessConfig::default() };
        let copying = |from: &Path, read: &[&Path]| {
            errand(&format!("cat '{}' > '{}'", from.display(), copy.display()), writing(&out, read))
        };
        if run_errand(copying(&note, &[]), &config).await.is_ok() {
            return skip("this machine contains no program", remedy::KERNEL);
        }
        run_errand(copying(&note, &[&place]), &config).await.expect("it may read that");
        assert_eq!(fs::read_to_string(&copy).expect("it was written"), "a note");
        let refused = run_errand(copying(&key, &[&place]), &config).await.expect_err("that is the node's own");
        assert!(matches!(refused, ErrandError::Exit { .. }), "{refused}");
        assert_eq!(fs::read_to_string(&copy).expect("it was made"), "", "nothing of it was read");
    }
}
