//! `althing catalog`

use althing_td::ToolTerms;
use clap::Subcommand;

/// `althing catalog`
#[derive(Debug, Clone, Subcommand)]
pub enum Catalog {
    /// List the tools of the agents that run here, and the models, with their tiers.
    #[command(visible_alias = "list")]
    Ls {
        /// Only tools and models of this tier, 0 to 9. One of which nobody wrote a tier has 9.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=i64::from(ToolTerms::TIER_MAX)))]
        tier: Option<u8>,
    },
}
