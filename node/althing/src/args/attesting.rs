//! The command line of attestations.

/// `althing release show`
#[derive(Debug, Clone, clap::Args)]
pub struct ShowArgs {
    /// The agent and its version, such as echo@1.2.0 or urn:althing:z…:echo@1.2.0.
    pub release: String,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

/// `althing release attest`
#[derive(Debug, Clone, clap::Args)]
pub struct AttestArgs {
    /// The agent and its version, such as urn:althing:z…:echo@1.2.0.
    pub release: String,
    /// What you found, in a word: audit, build, test.
    #[arg(long, value_name = "NAME")]
    pub claim: String,
    /// The finding as JSON: true, or {"passed": true, …}, where it is well; false where it is not; null takes back what you
    /// found before.
    #[arg(long, value_name = "JSON", default_value = "true", value_parser = json)]
    pub value: serde_json::Value,
    /// For how many days that holds.
    #[arg(long, default_value_t = 90, value_parser = clap::value_parser!(u32).range(1..=366))]
    pub days: u32,
    /// The digest of the content that you looked at, as `release show` prints it: nothing is signed if the registry shows
    /// another one.
    #[arg(long, value_name = "HEX", value_parser = sha256)]
    pub digest: Option<String>,
    /// Which registry, by name or address [default: the only one].
    #[arg(long)]
    pub registry: Option<String>,
}

fn sha256(text: &str) -> Result<String, String> {
    if text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(text.to_ascii_lowercase());
    }
    Err("it is no SHA-256 digest of 64 hexadecimal digits".to_owned())
}

fn json(text: &str) -> Result<serde_json::Value, String> {
    serde_json::from_str(text).map_err(|error| format!("it is no JSON: {error}"))
}
