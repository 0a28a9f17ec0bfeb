//! `althing-sim`: runs scenarios.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use althing_simulations::groups::night::Progress;
use althing_simulations::groups::{self, flaw};
use althing_simulations::rollouts;
use althing_simulations::run::{Outcome, run};
use althing_simulations::scenario::Scenario;
use althing_simulations::sessions;
use althing_simulations::swarm::{self, Kind, Measured, Size};
use althing_store::file::read_text;
use clap::builder::PossibleValuesParser;
use clap::{Parser, Subcommand};
use serde_json::json;

/// See the reason in the workspace's Cargo.toml.
#[cfg(all(target_os = "linux", feature = "jemalloc"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[derive(Parser)]
#[command(name = "althing-sim", version, about = "Runs simulations of many Althing nodes in virtual time")]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs scenarios with their seeds; exits with 1 when an invariant is broken
    Run {
        /// Scenario files
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// Only this seed
        #[arg(long)]
        seed: Option<u64>,
        /// Print results as JSON
        #[arg(long)]
        json: bool,
    },
    /// Runs one seed of a scenario and prints, or writes, its trace
    Replay {
        /// The scenario file
        file: PathBuf,
        /// The seed
        #[arg(long)]
        seed: u64,
        /// Where to write the trace; without it, it is printed
        #[arg(long)]
        output: Option<PathBuf>,
    },
    /// Runs groups under faults, from many seeds; exits with 1 when an invariant is broken
    Groups {
        /// How many seeds
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// A file that keeps how far it is: the next time it goes on from there
        #[arg(long)]
        progress: Option<PathBuf>,
        /// Only this seed, with its trace
        #[arg(long, conflicts_with_all = ["seeds", "progress"])]
        seed: Option<u64>,
        /// The adversary among the members, or "none"; without it the seed decides
        #[arg(long, requires = "seed", value_parser = adversaries())]
        adversary: Option<String>,
        /// A bug that is planted
        #[arg(long, requires = "seed", value_parser = PossibleValuesParser::new(flaw::names()))]
        flaw: Option<String>,
    },
    /// Runs sessions whose node ends again and again, from many seeds; exits with 1 when an invariant is broken
    Sessions {
        /// How many seeds; with a planted bug: among how many the first is sought that shows it
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// Only this seed, with what was seen
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
        /// Who is let loose, or "none"; without it the seed decides
        #[arg(long, value_parser = PossibleValuesParser::new(sessions::adversary::known()))]
        adversary: Option<String>,
        /// A bug that is planted
        #[arg(long, value_parser = PossibleValuesParser::new(sessions::flaw::names()))]
        flaw: Option<String>,
        /// Seek the first seed in which the planted bug breaks this invariant; without it any counts
        #[arg(long, requires = "flaw", conflicts_with = "seed")]
        #[arg(value_parser = PossibleValuesParser::new(sessions::invariant::names()))]
        invariant: Option<String>,
    },
    /// Runs rollouts on nodes that end again and again, from many seeds; exits with 1 when an invariant is broken
    Rollouts {
        /// How many seeds; with a planted bug: among how many the first is sought that shows it
        #[arg(long, default_value_t = 200)]
        seeds: u64,
        /// Only this seed, with what was seen
        #[arg(long, conflicts_with = "seeds")]
        seed: Option<u64>,
        /// Who is let loose, or "none"; without it the seed decides
        #[arg(long, value_parser = PossibleValuesParser::new(rollouts::adversary::known()))]
        adversary: Option<String>,
        /// A bug that is planted
        #[arg(long, value_parser = PossibleValuesParser::new(rollouts::flaw::names()))]
        flaw: Option<String>,
        /// Seek the first seed in which the planted bug breaks this invariant; without it any counts
        #[arg(long, requires = "flaw", conflicts_with = "seed")]
        #[arg(value_parser = PossibleValuesParser::new(rollouts::invariant::names()))]
        invariant: Option<String>,
    },
    /// Runs real nodes over libp2p in one process, and as many bare libp2p nodes in another, and compares them
    Swarm {
        /// How many
        #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u16).range(3..=300))]
        nodes: u16,
        /// How many rounds of storing and searching
        #[arg(long, default_value_t = 100)]
        rounds: u16,
        /// Where to write the report as JSON; without it, it is printed
        #[arg(long)]
        output: Option<PathBuf>,
        /// Where to write a plot (SVG)
        #[arg(long)]
        plot: Option<PathBuf>,
        /// Only this kind, in this process
        #[arg(long, hide = true)]
        only: Option<Only>,
    },
    /// Compares a trace with that of a new run, and shows the first line that differs
    Diff {
        /// The scenario file
        file: PathBuf,
        /// The trace of `althing-sim replay`
        trace: PathBuf,
        /// The seed; by default that of the trace
        #[arg(long)]
        seed: Option<u64>,
    },
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Only {
    Ours,
    Bare,
}

/// Writes a line to standard output.
macro_rules! say {
    ($($what:tt)*) => { write_line(format_args!($($what)*)) };
}

/// A closed pipe is no error; a full disk ends the program.
fn write_line(text: std::fmt::Arguments<'_>) {
    use std::io::Write as _;
    if let Err(error) = writeln!(std::io::stdout(), "{text}")
        && error.kind() != std::io::ErrorKind::BrokenPipe
    {
        eprintln!("althing-sim: cannot write to standard output: {error}");
        std::process::exit(1);
    }
}

fn main() -> ExitCode {
    match execute(Args::parse().command) {
        Ok(code) => code,
        Err(message) => {
            eprintln!("althing-sim: {message}");
            ExitCode::from(2)
        }
    }
}

fn execute(command: Command) -> Result<ExitCode, String> {
    match command {
        Command::Run { files, seed, json } => run_all(&files, seed, json),
        Command::Replay { file, seed, output } => {
            let scenario = Scenario::read(&file).map_err(|error| error.to_string())?;
            let trace = run(&scenario, seed).trace;
            match output {
                Some(output) => std::fs::write(&output, format!("{SEED}{seed}\n{}", trace.text()))
                    .map_err(|error| format!("cannot write {}: {error}", output.display()))?,
                None => say!("{}", trace.text().trim_end()),
            }
            eprintln!("{} lines, {}", trace.lines.len() + trace.more, trace.digest());
            Ok(ExitCode::SUCCESS)
        }
        Command::Groups { seed: Some(seed), adversary, flaw, .. } => Ok(run_group(seed, adversary, flaw)),
        Command::Groups { seeds, progress, .. } => run_groups(seeds, progress.as_deref()),
        Command::Sessions { seeds, seed, adversary, flaw, invariant } => {
            Ok(run_sessions((seeds, seed), adversary, flaw, invariant.as_deref()))
        }
        Command::Rollouts { seeds, seed, adversary, flaw, invariant } => {
            let (adversary, flaw, invariant) = (adversary.as_deref(), flaw.as_deref(), invariant.as_deref());
            let told = rollouts::night::report(seeds, seed, adversary, flaw, invariant);
            told.lines.iter().for_each(|line| say!("{line}"));
            Ok(if told.is_sound { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
        Command::Swarm { nodes, rounds, output, plot, only } => {
            let size = Size { nodes: nodes.into(), rounds: rounds.into() };
            match only {
                Some(only) => {
                    if let Ok(filter) = tracing_subscriber::EnvFilter::try_from_env("ALTHING_LOG") {
                        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
                    }
                    let kind = match only {
                        Only::Ours => Kind::Ours,
                        Only::Bare => Kind::Bare,
                    };
                    say!("{}", json!(swarm::measure(kind, size)?));
                    Ok(ExitCode::SUCCESS)
                }
                None => compare(size, output.as_deref(), plot.as_deref()),
            }
        }
        Command::Diff { file, trace, seed } => {
            let scenario = Scenario::read(&file).map_err(|error| error.to_string())?;
            let kept = read_text(&trace, TRACE_BYTES_MAX).map_err(|error| format!("{}: {error}", trace.display()))?;
            let (named, kept) = seed_of(&kept);
            let seed =
                seed.or(named).ok_or_else(|| format!("{} names no seed: give it with --seed", trace.display()))?;
            Ok(diff(kept, &run(&scenario, seed).trace.text()))
        }
    }
}

fn adversaries() -> PossibleValuesParser {
    PossibleValuesParser::new(groups::adversary::known())
}

/// Runs one seed of a group, and prints its trace.
fn run_group(seed: u64, adversary: Option<String>, flaw: Option<String>) -> ExitCode {
    let adversary = adversary.and_then(|name| groups::adversary::known().find(|known| *known == name));
    let flaw = flaw.and_then(|name| flaw::named(&name)).unwrap_or_else(groups::as_it_is);
    let outcome = groups::run(seed, adversary, flaw);
    say!("{:#?}", outcome.plan);
    say!("{}", outcome.trace.text().trim_end());
    for violation in &outcome.violations {
        say!("{}: {}", violation.invariant, violation.why);
    }
    for (by, accused) in &outcome.proven.by {
        say!("{by} can prove that these told members different things: {accused:?}");
    }
    // A leader that lies breaks the agreement; only that nobody else is accused must hold then.
    let lies = adversary.is_some_and(|name| groups::adversary::LEADERS.contains(&name));
    let counts = |invariant: &str| !lies || invariant == groups::adversary::STILL_HOLDS;
    if !outcome.violations.iter().any(|violation| counts(violation.invariant)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Runs many seeds of groups, and prints a summary.
fn run_groups(seeds: u64, file: Option<&Path>) -> Result<ExitCode, String> {
    let progress = file.map_or_else(|| Ok(Progress { next: 1, ..Progress::default() }), Progress::read)?;
    let done = progress.go_on(seeds, |progress| {
        eprintln!("{} of {seeds} seeds, {} failed", progress.runs, progress.failed.len());
        file.map_or(Ok(()), |file| progress.write(file))
    })?;
    say!("{} seeds: {:?}", done.runs, done.counts);
    for failed in &done.failed {
        say!("seed {} breaks {}: althing-sim groups --seed {}", failed.seed, failed.invariants.join(", "), failed.seed);
    }
    Ok(if done.failed.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Runs one seed of sessions, and prints what was seen; or many, and prints a summary; or seeks the first that shows a bug.
fn run_sessions(
    (seeds, seed): (u64, Option<u64>),
    adversary: Option<String>,
    flaw: Option<String>,
    invariant: Option<&str>,
) -> ExitCode {
    let adversary = adversary.and_then(|name| sessions::adversary::known().find(|known| *known == name));
    let flaw = flaw.and_then(|name| sessions::flaw::named(&name));
    let is_usual = flaw.is_none() && adversary.is_none();
    let flaw = flaw.unwrap_or_else(sessions::as_it_is);
    let outcome = match seed {
        Some(seed) => Some(sessions::run(seed, adversary, flaw)),
        None if is_usual => return run_all_sessions(seeds),
        None => sessions::night::first_break(1..=seeds, adversary, &flaw, invariant),
    };
    let Some(outcome) = outcome else {
        say!("{seeds} seeds, and none breaks anything");
        return ExitCode::SUCCESS;
    };
    say!("{:#?}", outcome.evidence.plan);
    for line in outcome.lines() {
        say!("{line}");
    }
    for violation in &outcome.violations {
        say!("seed {}: {}: {}", outcome.seed, violation.invariant, violation.why);
    }
    if outcome.violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs many seeds of sessions, and prints a summary.
fn run_all_sessions(seeds: u64) -> ExitCode {
    let (mut all, mut code) = (sessions::Counts::default(), ExitCode::SUCCESS);
    for (seed, counts, violations) in sessions::night::run_all(1, seeds) {
        all.add(&counts);
        for violation in violations {
            code = ExitCode::FAILURE;
            say!("seed {seed} breaks {}: althing-sim sessions --seed {seed}", violation.invariant);
        }
    }
    say!("{seeds} seeds: {all:?}");
    code
}

/// Bytes of a trace file: an hour of the largest scenario has a tenth of it.
const TRACE_BYTES_MAX: u64 = 1 << 30;
/// The first line of a trace file.
const SEED: &str = "# seed ";

/// The seed that a trace names, and the trace.
fn seed_of(text: &str) -> (Option<u64>, &str) {
    let named = text.strip_prefix(SEED).and_then(|rest| rest.split_once('\n'));
    named.map_or((None, text), |(seed, trace)| (seed.trim().parse().ok(), trace))
}

/// Measures each kind in a process of its own, one after another.
fn compare(size: Size, output: Option<&Path>, plot: Option<&Path>) -> Result<ExitCode, String> {
    let this = std::env::current_exe().map_err(|error| error.to_string())?;
    let measure = |only: &str| -> Result<Measured, String> {
        let mut command = std::process::Command::new(&this);
        command.args([
            "swarm",
            "--only",
            only,
            "--nodes",
            &size.nodes.to_string(),
            "--rounds",
            &size.rounds.to_string(),
        ]);
        let done = command.stderr(std::process::Stdio::inherit()).output().map_err(|error| error.to_string())?;
        if !done.status.success() {
            return Err(format!("the {only} nodes could not be measured"));
        }
        serde_json::from_slice(&done.stdout).map_err(|error| error.to_string())
    };
    let (bare, ours) = (measure("bare")?, measure("ours")?);
    let report = format!("{:#}\n", swarm::report(size, &ours, &bare));
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|error| format!("cannot write {}: {error}", path.display()))
    };
    match output {
        Some(output) => write(output, &report)?,
        None => say!("{}", report.trim_end()),
    }
    if let Some(plot) = plot {
        write(plot, &swarm::plot::svg(&ours, &bare))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn run_all(files: &[PathBuf], seed: Option<u64>, json: bool) -> Result<ExitCode, String> {
    let mut broken = false;
    for file in files {
        let scenario = Scenario::read(file).map_err(|error| error.to_string())?;
        let seeds = seed.map_or_else(|| scenario.seeds.clone(), |seed| vec![seed]);
        for seed in seeds {
            let outcome = run(&scenario, seed);
            broken |= !outcome.violations.is_empty();
            if json {
                say!("{}", shown(file, &outcome));
            } else {
                people(file, &outcome);
            }
        }
    }
    Ok(if broken { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn quantile(sorted: &[u64], of: usize) -> u64 {
    sorted.get((sorted.len() * of / 100).min(sorted.len().saturating_sub(1))).copied().unwrap_or(0)
}

fn shown(file: &Path, outcome: &Outcome) -> serde_json::Value {
    json!({
        "scenario": file.display().to_string(),
        "seed": outcome.seed,
        "finds": outcome.finds,
        "findable": outcome.findable,
        "found": outcome.found,
        "findMs": { "p50": quantile(&outcome.took_ms, 50), "p99": quantile(&outcome.took_ms, 99) },
        "tasks": outcome.tasks,
        "tasksAskedForAgain": outcome.recalled,
        "tasksKept": outcome.kept,
        "trace": outcome.trace.digest(),
        "violations": outcome.violations.iter().map(|violation| json!({
            "invariant": violation.invariant, "atMs": violation.at_ms, "what": violation.what,
        })).collect::<Vec<_>>(),
    })
}

fn people(file: &Path, outcome: &Outcome) {
    say!(
        "{} seed {}: {} of {} found, p50 {} ms, p99 {} ms, trace {}",
        file.file_stem().unwrap_or_default().to_string_lossy(),
        outcome.seed,
        outcome.found,
        outcome.findable,
        quantile(&outcome.took_ms, 50),
        quantile(&outcome.took_ms, 99),
        &outcome.trace.digest()[..16],
    );
    if outcome.tasks > 0 {
        let (tasks, recalled, kept) = (outcome.tasks, outcome.recalled, outcome.kept);
        say!("  {tasks} tasks acknowledged; of {recalled} that were asked for again {kept} there");
    }
    for violation in outcome.violations.iter().take(10) {
        say!("  broken after {} ms: {}: {}", violation.at_ms, violation.invariant, violation.what);
    }
    if outcome.violations.len() > 10 {
        say!("  and {} more", outcome.violations.len() - 10);
    }
    if !outcome.violations.is_empty() {
        say!("  again: althing-sim replay {} --seed {}", file.display(), outcome.seed);
    }
}

/// Shows where two traces diverge.
fn diff(kept: &str, now: &str) -> ExitCode {
    let (mut kept, mut now) = (kept.lines(), now.lines());
    let mut number = 1;
    loop {
        match (kept.next(), now.next()) {
            (None, None) => {
                say!("the same, {} lines", number - 1);
                return ExitCode::SUCCESS;
            }
            (a, b) if a == b => number += 1,
            (a, b) => {
                say!("line {number} differs\n- {}\n+ {}", a.unwrap_or("(the end)"), b.unwrap_or("(the end)"));
                return ExitCode::FAILURE;
            }
        }
    }
}
