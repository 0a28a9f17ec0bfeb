//! The command line of receipts.

/// `althing release receipt`
#[derive(Debug, Clone, clap::Args)]
pub struct ReceiptArgs {
    /// A release, such as echo@1.2.0: its receipt, and those of your marks on it [default: all receipts are listed].
    pub release: Option<String>,
    /// The entry of the log, as the list names it: its receipt alone.
    #[arg(long, value_name = "NUMBER")]
    pub entry: Option<u64>,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}
