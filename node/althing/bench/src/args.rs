//! The arguments of `althing bench`.

use std::path::PathBuf;

use clap::Subcommand;

/// `althing bench`
#[derive(Debug, Clone, clap::Args)]
pub struct Bench {
    /// Write the report there, as JSON.
    #[arg(long, global = true)]
    pub output: Option<PathBuf>,
    /// Draw how late releases were noticed there, as SVG.
    #[arg(long, global = true)]
    pub plot: Option<PathBuf>,
    /// Measure only: no goal is judged, and the exit code is 0.
    #[arg(long, global = true)]
    pub no_goals: bool,
    /// Which class.
    #[command(subcommand)]
    pub class: BenchClass,
}

/// What is measured.
#[derive(Debug, Clone, Subcommand)]
pub enum BenchClass {
    /// Hard real-time: deadlines of 10 ms under load, beside a bare thread and plain tokio.
    Hrt(BenchHrt),
    /// Soft real-time: what a node adds until the first word, and how soon a new message stops an answer.
    Srt(BenchSrt),
    /// Delay-tolerant: how much of what the others leave over it gets.
    Dt(BenchDt),
    /// The three classes one after the other, as one report that compares them.
    All(BenchAll),
    /// What each layer adds to a call that does nothing.
    Layers(BenchLayers),
}

/// `althing bench all`
#[derive(Debug, Clone, clap::Args)]
pub struct BenchAll {
    /// How the hard real-time class is measured.
    #[command(flatten)]
    pub hrt: BenchHrt,
    /// How the soft real-time class is measured.
    #[command(flatten)]
    pub srt: BenchSrt,
    /// How the delay-tolerant class is measured.
    #[command(flatten)]
    pub dt: BenchDt,
}

/// `althing bench hrt`
#[derive(Debug, Clone, clap::Args)]
pub struct BenchHrt {
    /// Jobs of the agent; 100 take a second, and the bare thread's a quarter more.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(20..=10_000_000))]
    pub jobs: u64,
}

/// `althing bench srt`
#[derive(Debug, Clone, clap::Args)]
pub struct BenchSrt {
    /// Answers at once.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub streams: u64,
    /// Rounds of that many answers, and of as many asked of the endpoint directly.
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub rounds: u64,
}

/// `althing bench dt`
#[derive(Debug, Clone, clap::Args)]
pub struct BenchDt {
    /// Windows alone, and as many beside the other classes.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=1_000))]
    pub windows: u64,
    /// Seconds of each window.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=600))]
    pub seconds: u64,
}

/// `althing bench layers`
#[derive(Debug, Clone, clap::Args)]
pub struct BenchLayers {
    /// How often each is measured.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(20..=1_000_000))]
    pub rounds: u64,
}
