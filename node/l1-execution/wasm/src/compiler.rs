//! Compiles modules in a child process with resource limits: the compiler is the one part of the sandbox that parses a whole
//! hostile module, and a small module can make it use hours and gigabytes.
//!
//! Artifacts are cached in a folder that only this account can enter, each file with a MAC under a key of the node: they are
//! executed unchecked, so only those that this node wrote are loaded. Without a child process (simulations, tests) modules
//! are compiled in process, without limits.

use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::io::{Read, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use althing_protocol::{Digest, digest, hex};
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::Signal;
use wasmtime::component::Component;
use wasmtime::{Engine, Module};

/// The environment variable of a compiling process: the kind, its limits and the output path.
pub const JOB: &str = "ALTHING_COMPILE";
const ARTIFACT_BYTES_MAX: u64 = 1 << 30;
/// Bytes of the cache; the oldest artifacts beyond that are deleted.
const KEPT_BYTES_MAX: u64 = 2 << 30;
/// Bytes of the error message of a compiling process.
const SAID_BYTES_MAX: u64 = 4 << 10;
const MAC_BYTES: usize = 32;
const MIB: u64 = 1 << 20;

/// The limits of a compiling process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Processor time, seconds.
    pub cpu_s: u64,
    /// Address space, bytes.
    pub memory_bytes: u64,
    /// Wall time.
    pub patience: Duration,
}

impl Limits {
    /// The limits for a module of that many bytes: five times what cranelift needs (about a second and some tens of MiB for
    /// each MiB), plus the start of a process.
    #[must_use]
    pub fn of(bytes: usize) -> Limits {
        let mebibytes = (bytes as u64).div_ceil(MIB);
        Limits {
            cpu_s: 10 + 5 * mebibytes,
            memory_bytes: (2_048 + 64 * mebibytes) * MIB,
            patience: Duration::from_secs(120 + 30 * mebibytes),
        }
    }
}

/// Why a module was not compiled.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// It is invalid.
    #[error("{0}")]
    Refused(String),
    /// It exceeded the limit of processor time.
    #[error(
        "compiling it took more than {0} s of a processor, which is the most for its length; make its functions smaller"
    )]
    Cpu(u64),
    /// It exceeded the limit of memory.
    #[error(
        "compiling it took more than {0} MiB of memory, which is the most for its length; make its functions smaller"
    )]
    Memory(u64),
    /// It exceeded the limit of wall time.
    #[error("compiling it did not end within {} s", .0.as_secs())]
    Late(Duration),
    /// The compiler crashed.
    #[error("the process that compiles ended with {0}")]
    Broken(String),
    /// The process could not be started.
    #[error("no process can be started to compile it: {0}")]
    NoProcess(String),
}

/// The kind of a compilation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// From the text format to the binary format.
    Text,
    /// A module of hard real-time agents and control loops.
    Module,
    Component,
}

impl Kind {
    const ALL: [Kind; 3] = [Kind::Text, Kind::Module, Kind::Component];

    fn word(self) -> &'static str {
        match self {
            Kind::Text => "text",
            Kind::Module => "module",
            Kind::Component => "component",
        }
    }
}

/// Compiles modules.
#[derive(Debug, Clone)]
pub struct Compiler(Option<Process>);

/// A program that calls [`compile_here`], with the cache of its artifacts.
#[derive(Debug, Clone)]
struct Process {
    program: PathBuf,
    arguments: Vec<OsString>,
    folder: PathBuf,
    key: [u8; 32],
    limits: fn(usize) -> Limits,
}

impl Compiler {
    /// Compiles in this process, without limits: for simulations and tests, which compile their own modules.
    #[must_use]
    pub fn in_process() -> Compiler {
        Compiler(None)
    }

    /// Compiles in a child process: `program` with these arguments calls [`compile_here`]. Artifacts are cached in `folder`,
    /// with a MAC under `key`.
    #[must_use]
    pub fn in_child(program: PathBuf, arguments: Vec<OsString>, folder: PathBuf, key: [u8; 32]) -> Compiler {
        Compiler(Some(Process { program, arguments, folder, key, limits: Limits::of }))
    }

    /// The same, with other limits.
    #[must_use]
    pub fn limited(self, limits: fn(usize) -> Limits) -> Compiler {
        Compiler(self.0.map(|process| Process { limits, ..process }))
    }

    /// Converts the text format to the binary format; leaves binary modules as they are.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn binary<'a>(&self, code: &'a [u8]) -> Result<Cow<'a, [u8]>, CompileError> {
        match &self.0 {
            _ if code.starts_with(b"\0asm") => Ok(Cow::Borrowed(code)),
            None => wat::parse_bytes(code).map_err(|error| CompileError::Refused(error.to_string())),
            Some(process) => process.made(Kind::Text, code).map(Cow::Owned),
        }
    }

    /// Compiles a module for an engine of hard real-time guests.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn module(&self, engine: &Engine, code: &[u8]) -> Result<Module, CompileError> {
        let refused = |error: wasmtime::Error| CompileError::Refused(format!("{error:#}"));
        match &self.0 {
            None => Module::new(engine, code).map_err(refused),
            Some(process) => {
                let code = self.binary(code)?;
                process.loaded(Kind::Module, &code, |artifact| load_module(engine, artifact))
            }
        }
    }

    /// Compiles a component for an engine of components.
    ///
    /// # Errors
    /// See [`CompileError`].
    pub fn component(&self, engine: &Engine, code: &[u8]) -> Result<Component, CompileError> {
        let refused = |error: wasmtime::Error| CompileError::Refused(format!("{error:#}"));
        match &self.0 {
            None => Component::new(engine, code).map_err(refused),
            Some(process) => {
                let code = self.binary(code)?;
                process.loaded(Kind::Component, &code, |artifact| load_component(engine, artifact))
            }
        }
    }
}

#[expect(unsafe_code, reason = "code of our own compiler is mapped as it is")]
fn load_module(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Module> {
    // SAFETY: the bytes are what a process of this very program made with `Engine::precompile_module`, either just now or
    // earlier: then their MAC under the node's key holds. The engine refuses those of another version or configuration.
    unsafe { Module::deserialize(engine, artifact) }
}

#[expect(unsafe_code, reason = "code of our own compiler is mapped as it is")]
fn load_component(engine: &Engine, artifact: &[u8]) -> wasmtime::Result<Component> {
    // SAFETY: as in `load_module`, with `Engine::precompile_component`.
    unsafe { Component::deserialize(engine, artifact) }
}

impl Process {
    /// Loads the artifact of `code` from the cache, or compiles it.
    fn loaded<T>(
        &self,
        kind: Kind,
        code: &[u8],
        load: impl Fn(&[u8]) -> wasmtime::Result<T>,
    ) -> Result<T, CompileError> {
        // An artifact of another version of this program is compiled again.
        if let Some(loaded) = self.kept(kind, code).and_then(|artifact| load(&artifact).ok()) {
            return Ok(loaded);
        }
        let artifact = self.made(kind, code)?;
        let loaded =
            load(&artifact).map_err(|error| CompileError::Broken(format!("an invalid artifact: {error:#}")))?;
        self.keep(kind, code, &artifact);
        Ok(loaded)
    }

    /// The cache key of code of that kind.
    fn name(kind: Kind, code: &[u8]) -> Digest {
        digest(&[kind.word().as_bytes(), b"\0", &digest(code)].concat())
    }

    /// The MAC of an artifact, which only this node can compute.
    fn mac(&self, name: &Digest, artifact: &[u8]) -> Digest {
        // All inputs have a fixed length, which prevents length extension.
        digest(&[self.key.as_slice(), name, &digest(artifact)].concat())
    }

    fn kept(&self, kind: Kind, code: &[u8]) -> Option<Vec<u8>> {
        let name = Process::name(kind, code);
        let file = fs::File::open(self.folder.join(hex(&name))).ok()?;
        let mut bytes = Vec::new();
        file.take(ARTIFACT_BYTES_MAX).read_to_end(&mut bytes).ok()?;
        let (mac, artifact) = bytes.split_at_checked(MAC_BYTES)?;
        if mac != self.mac(&name, artifact) {
            tracing::warn!(name = hex(&name), "the MAC of a cached module is invalid; the module is compiled again");
            return None;
        }
        Some(artifact.to_vec())
    }

    /// Caches an artifact; a failure only costs time later.
    fn keep(&self, kind: Kind, code: &[u8], artifact: &[u8]) {
        let name = Process::name(kind, code);
        let kept = self.scratch().and_then(|(path, mut file)| {
            file.write_all(&self.mac(&name, artifact)).and_then(|()| file.write_all(artifact))?;
            fs::rename(path, self.folder.join(hex(&name)))
        });
        if let Err(error) = kept.and_then(|()| self.sweep()) {
            tracing::warn!(%error, folder = %self.folder.display(), "a compiled module cannot be kept");
        }
    }

    /// Deletes the oldest artifacts beyond the limit.
    fn sweep(&self) -> std::io::Result<()> {
        let mut all = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let entry = entry?;
            let facts = entry.metadata()?;
            all.push((facts.modified()?, facts.len(), entry.path()));
        }
        all.sort();
        let mut bytes: u64 = all.iter().map(|(_, bytes, _)| bytes).sum();
        for (_, length, path) in all {
            if bytes <= KEPT_BYTES_MAX {
                break;
            }
            fs::remove_file(path)?;
            bytes = bytes.saturating_sub(length);
        }
        Ok(())
    }

    /// A new private temporary file in the folder.
    fn scratch(&self) -> std::io::Result<(PathBuf, fs::File)> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.folder)?;
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = self.folder.join(format!(".{}-{n}", std::process::id()));
        let file = fs::OpenOptions::new().write(true).read(true).create(true).truncate(true).mode(0o600).open(&path)?;
        Ok((path, file))
    }

    /// Compiles `code` in a child process; gives the artifact.
    fn made(&self, kind: Kind, code: &[u8]) -> Result<Vec<u8>, CompileError> {
        let nowhere = |error: std::io::Error| CompileError::NoProcess(error.to_string());
        let (path, file) = self.scratch().map_err(nowhere)?;
        let made = self.run(kind, code, &path).and_then(|()| {
            let mut artifact = Vec::new();
            (&file).take(ARTIFACT_BYTES_MAX).read_to_end(&mut artifact).map_err(nowhere)?;
            Ok(artifact)
        });
        // The file is temporary.
        let _ = fs::remove_file(path);
        made
    }

    fn run(&self, kind: Kind, code: &[u8], to: &Path) -> Result<(), CompileError> {
        let nowhere = |error: std::io::Error| CompileError::NoProcess(error.to_string());
        let limits = (self.limits)(code.len());
        let job = format!("{} {} {} {}", kind.word(), limits.cpu_s, limits.memory_bytes, to.display());
        let mut child = Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .env(JOB, job)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(nowhere)?;
        let (Some(mut input), Some(said)) = (child.stdin.take(), child.stderr.take()) else {
            return Err(CompileError::NoProcess("it has no input".to_owned()));
        };
        std::thread::scope(|scope| {
            // A killed process does not read to the end; the error is reported below.
            scope.spawn(move || drop(input.write_all(code)));
            let (done, ended) = std::sync::mpsc::sync_channel(1);
            scope.spawn(move || {
                let (mut text, mut said) = (Vec::new(), said);
                let _ = (&mut said).take(SAID_BYTES_MAX).read_to_end(&mut text);
                // The receiver is gone only after the timeout. Further output is read and dropped.
                let _ = std::io::copy(&mut said, &mut std::io::sink());
                let _ = done.send(String::from_utf8_lossy(&text).into_owned());
            });
            match ended.recv_timeout(limits.patience) {
                Ok(said) => outcome(&mut child, &said, limits),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    // An error means that it has ended.
                    let _ = child.kill();
                    let _ = child.wait();
                    Err(CompileError::Late(limits.patience))
                }
            }
        })
    }
}

/// Waits for a process that closed its output; gives the result.
fn outcome(child: &mut Child, said: &str, limits: Limits) -> Result<(), CompileError> {
    let status = child.wait().map_err(|error| CompileError::Broken(error.to_string()))?;
    let signal = status.signal().and_then(|signal| Signal::try_from(signal).ok());
    match (status.code(), signal) {
        (Some(0), _) => Ok(()),
        (Some(REFUSED), _) => Err(CompileError::Refused(said.trim().to_owned())),
        (_, Some(Signal::SIGXCPU | Signal::SIGKILL)) => Err(CompileError::Cpu(limits.cpu_s)),
        // Without memory, allocators and stack overflows abort the process.
        (_, Some(Signal::SIGABRT | Signal::SIGSEGV | Signal::SIGBUS)) => {
            Err(CompileError::Memory(limits.memory_bytes / MIB))
        }
        _ => Err(CompileError::Broken(format!("{status}: {}", said.trim()))),
    }
}

/// The exit code for an invalid module.
const REFUSED: i32 = 3;

/// The main function of a compiling process: sets its limits, reads a module from standard input, and writes the artifact.
/// Gives the exit code; none if the process was not started for that.
#[must_use]
pub fn compile_here() -> Option<u8> {
    let job = std::env::var(JOB).ok()?;
    let outcome = work(&job);
    if let Err(why) = &outcome {
        eprintln!("{why}");
    }
    Some(if outcome.is_ok() { 0 } else { REFUSED as u8 })
}

fn work(job: &str) -> Result<(), String> {
    let mut words = job.splitn(4, ' ');
    let mut word = || words.next().ok_or("a part of the job is missing");
    let wanted = word()?;
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == wanted).ok_or("there is no such job")?;
    let number = |text: &str| text.parse::<u64>().map_err(|error| error.to_string());
    let (cpu_s, memory_bytes, to) = (number(word()?)?, number(word()?)?, PathBuf::from(word()?));
    let limit = |resource, most| setrlimit(resource, most, most).map_err(|error| error.to_string());
    limit(Resource::RLIMIT_CPU, cpu_s)?;
    limit(Resource::RLIMIT_AS, memory_bytes)?;
    limit(Resource::RLIMIT_CORE, 0)?;
    limit(Resource::RLIMIT_FSIZE, ARTIFACT_BYTES_MAX)?;
    let mut code = Vec::new();
    std::io::stdin().lock().read_to_end(&mut code).map_err(|error| error.to_string())?;
    let failed = |error: wasmtime::Error| format!("{error:#}");
    let made = match kind {
        Kind::Text => wat::parse_bytes(&code).map_err(|error| error.to_string())?.into_owned(),
        Kind::Module => {
            let engine = Engine::new(&crate::engines::of_modules()).map_err(failed)?;
            engine.precompile_module(&code).map_err(failed)?
        }
        Kind::Component => {
            let engine = Engine::new(&crate::engines::of_components()).map_err(failed)?;
            engine.precompile_component(&code).map_err(failed)?
        }
    };
    fs::OpenOptions::new()
        .write(true)
        .open(&to)
        .and_then(|mut file| file.write_all(&made))
        .map_err(|error| error.to_string())
}
