//! The command line of handoffs.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Subcommand;

/// `althing handoff`
#[derive(Debug, Clone, Subcommand)]
pub enum Handoff {
    /// Show what is in a handoff, or what a person has to sign to agree to it.
    Show {
        /// The handoff (YAML or JSON).
        file: PathBuf,
        /// Print what somebody signs in this role, byte for byte: `ssh-keygen -Y sign -n althing-handoff` signs it.
        #[arg(long, value_name = "ROLE", requires = "until")]
        statement: Option<String>,
        /// Until when that signature counts, such as 2027-01-31T12:00:00Z.
        #[arg(long, value_name = "TIME", requires = "statement", value_parser = time)]
        until: Option<DateTime<Utc>>,
    },
    /// Check handoffs: signature, completeness, sign-offs, time, and whether each goes on from the one before. Exits with 1 if one
    /// is not valid.
    Verify {
        /// Handoffs (YAML or JSON); of a chain the oldest first.
        #[arg(required = true)]
        files: Vec<PathBuf>,
        /// The keys whose sign-offs count: lines of `.pub` files of OpenSSH.
        #[arg(long, value_name = "FILE")]
        signers: Option<PathBuf>,
    },
    /// Sign a handoff with this node's key, for its network.
    Sign {
        /// The handoff (YAML or JSON).
        draft: PathBuf,
        /// A new file, for the signed handoff as JSON.
        signed: PathBuf,
        /// The keys whose sign-offs count: lines of `.pub` files of OpenSSH.
        #[arg(long, value_name = "FILE")]
        signers: Option<PathBuf>,
    },
}

fn time(text: &str) -> Result<DateTime<Utc>, String> {
    let read = DateTime::parse_from_rfc3339(text).ok().filter(|at| at.timestamp_millis() >= 0);
    read.map(|at| at.to_utc()).ok_or_else(|| "a time is written like 2027-01-31T12:00:00Z".to_owned())
}
