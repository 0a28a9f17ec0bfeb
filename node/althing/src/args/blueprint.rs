//! The command line of blueprints.

use clap::Subcommand;

/// `althing blueprint`
#[derive(Debug, Clone, Subcommand)]
pub enum Blueprint {
    /// Measure how fast a model of this machine answers, and how much memory it has, and sign that.
    Measure {
        /// The model, by its name in the configuration [default: the only one].
        model: Option<String>,
        /// Tokens of each answer that is measured.
        #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u64).range(8..=4_096))]
        tokens: u64,
        /// Send the signed attestation to the registry.
        #[arg(long)]
        publish: bool,
        /// For how many days it is in force there.
        #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=366), requires = "publish")]
        days: u32,
        /// Which registry, by name or address [default: the only one].
        #[arg(long, requires = "publish")]
        registry: Option<String>,
    },
    /// Suggest models by what others measured on machines like this one.
    Suggest {
        /// Only this model.
        #[arg(long)]
        model: Option<String>,
        /// Which registry, by name or address [default: the only one].
        #[arg(long)]
        registry: Option<String>,
    },
}
