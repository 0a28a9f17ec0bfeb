//! The command line of handoffs.

use std::path::PathBuf;

use chrono::{DateTime, Utc};
use clap::Subcommand;

/// `althing handoff`
#[derive(Debug, Clone, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub struct Handoff {
    #[command(subcommand)]
    pub work: Option<HandoffWork>,
    #[command(flatten)]
    pub offer: OfferArgs,
}

/// `althing handoff TASK AGENT`
#[derive(Debug, Clone, clap::Args)]
pub struct OfferArgs {
    /// The task of an agent of this node.
    #[arg(required = true)]
    pub task: Option<String>,
    /// Who is to do the work: a name or an id.
    #[arg(required = true)]
    pub agent: Option<String>,
    /// What is still to be done; may be given several times.
    #[arg(long, value_name = "TEXT", conflicts_with = "sign_off")]
    pub remaining: Vec<String>,
    /// What must be true of the result; may be given several times.
    #[arg(long, value_name = "TEXT", conflicts_with = "sign_off")]
    pub check: Vec<String>,
    /// Write the document to a new file, and offer nothing: people fill and sign it.
    #[arg(long, value_name = "FILE", conflicts_with = "sign_off")]
    pub draft: Option<PathBuf>,
    /// Offer this document: a draft with the sign-offs of people in it.
    #[arg(long, value_name = "FILE")]
    pub sign_off: Option<PathBuf>,
}

/// `althing handoff show|verify|sign`
#[derive(Debug, Clone, Subcommand)]
pub enum HandoffWork {
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
