//! `althing catalog`

use althing_td::ToolTerms;
use clap::Subcommand;

/// `althing catalog`
#[derive(Debug, Clone, Subcommand)]
pub enum Catalog {
    /// List the tools of the agents that run here, with their tiers, and the models.
    #[command(visible_alias = "list")]
    Ls {
        /// Only tools of this tier, 0 to 9. One to whose profile nobody wrote a tier has 9; models have none.
        #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(..=i64::from(ToolTerms::TIER_MAX)))]
        tier: Option<u8>,
    },
}
