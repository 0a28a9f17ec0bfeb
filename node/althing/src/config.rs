//! `althing.toml`: every key with its default; unknown keys are refused with a suggestion.

mod audit;
mod gateway;
mod node_profile;
mod sandbox;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use althing_discovery::Net;
use althing_execution::admission::Policy;
use althing_execution::kernel::KernelConfig;
use althing_execution::process::{AccountRange, ProcessConfig};
use althing_gateway::Scope;
use althing_node::{GovernanceTerms, NodeProfile};
use althing_operations::network_key;
use althing_operations::registries::Requirement;
use althing_protocol::NetworkKey;
use althing_store::file::read_text;
use althing_store::keyfile;
use althing_td::{Effect, ModelEndpoint, ToolTerms};
use serde::{Deserialize, Serialize};
use toml::Table;

pub use audit::Audit;
pub use gateway::{Gateway, GatewayTls};
pub use sandbox::Sandbox;
pub use tools::ToolProfile;

use crate::exit::Failure;
use crate::telemetry::LogFormat;

const FILE_BYTES_MAX: u64 = 1 << 20;
/// Characters of a network's name.
const NETWORK_MAX: usize = althing_protocol::limits::NETWORK_BYTES_MAX;
/// A token shorter than this is no secret.
const TOKEN_MIN: usize = 16;
/// Seconds between two looks at what was adopted: others are not asked without pause, and a change is seen in an hour.
const ADOPT_CHECK_MIN: u64 = 1;
const ADOPT_CHECK_MAX: u64 = 3_600;

/// The whole configuration. `docs/configuration.md` says the same in words.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Config {
    /// The network's name: nodes of another name are strangers.
    pub network: String,
    /// The file of the key that the nodes of a private network share; empty: everybody may connect.
    pub network_key: PathBuf,
    /// What that file holds, once it was read.
    #[serde(skip)]
    pub secret: Option<NetworkKey>,
    /// What is demanded of the node before it starts: `local`, `fleet`, `enterprise` or `regulated`.
    #[serde(with = "node_profile")]
    pub profile: NodeProfile,
    /// Addresses of nodes to join, beyond those on the LAN.
    pub peers: Vec<String>,
    /// Models that every agent may be bound to, as far as its contract allows them.
    pub models: Vec<ModelEndpoint>,
    /// What is said of tools, before what agent files say of them.
    pub tools: Vec<ToolProfile>,
    /// A model of embeddings, by which sentences are routed.
    pub embeddings: Embeddings,
    /// What must be attested of releases before they are installed here.
    pub install: Vec<Requirement>,
    /// Listening for nodes.
    pub node: Node,
    /// Finding nodes on the LAN.
    pub lan: Lan,
    /// Showing public agents to strangers.
    pub introduce: Introduce,
    /// Finding other people's Things.
    pub things: Things,
    /// Agents that others serve.
    pub adopt: Adopt,
    /// Push notifications of tasks.
    pub push: PrivateNets,
    /// What programs of agents and of tool servers are contained by.
    pub sandbox: Sandbox,
    /// The HTTP gateway.
    pub gateway: Gateway,
    /// Who signs the audit log.
    pub audit: Audit,
    /// Scheduling agents.
    pub execution: Execution,
    /// What contracts are made on top of.
    pub binding: Binding,
    /// Logs and traces.
    pub telemetry: Telemetry,
}

/// `[execution]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Execution {
    /// Which hard real-time job runs first: "edf" (earliest deadline) or "rm" (shortest period).
    pub policy: Policy,
    /// Cores that are kept for hard real-time agents while there are any.
    pub hrt_cores: usize,
}

impl Default for Execution {
    fn default() -> Self {
        let KernelConfig { policy, hrt_cores } = KernelConfig::default();
        Execution { policy, hrt_cores }
    }
}

impl Execution {
    /// The same, for the scheduler.
    pub fn kernel(&self) -> KernelConfig {
        KernelConfig { policy: self.policy, hrt_cores: self.hrt_cores }
    }
}

/// `[binding]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Binding {
    /// The file of the policy that every contract is made on top of; empty: none.
    pub tenant: PathBuf,
    /// The folder of roles, `NAME.yaml` each; empty: none.
    pub roles: PathBuf,
}

/// `[embeddings]`
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Embeddings {
    /// The address up to `/embeddings` of an endpoint that speaks OpenAI's protocol; empty: none.
    pub url: String,
    /// The model's name there.
    pub model: String,
    /// The node's secret that is shown as a bearer token; empty: none.
    pub secret: String,
}

/// `[node]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    /// Multiaddresses to listen on.
    pub listen: Vec<String>,
    /// Addresses at which others can dial this node and that it cannot find out itself, such as a port that a router forwards.
    pub announce: Vec<String>,
    /// Relay connections to nodes that nobody can dial, when this one can be dialled.
    pub relay: bool,
    /// Requests a second of each peer that is not trusted; 0: any number.
    pub stranger_rate: u32,
    /// Labels that contracts may require, such as "on-prem".
    pub labels: Vec<String>,
    /// Whether these were set on the command line: then no others are used.
    #[serde(skip)]
    pub fixed: bool,
}

/// `[lan]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lan {
    /// Announce this node by mDNS, and look for others.
    pub enabled: bool,
    /// Network interfaces to use; empty: all that lead to other machines.
    pub interfaces: Vec<String>,
}

/// `[introduce]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Introduce {
    /// Announce public agents by mDNS (`_wot._tcp`, `_agent._tcp`), and serve their descriptions and cards.
    pub enabled: bool,
    /// Address and port of that; 0.0.0.0 stands for the interfaces of `[lan]`.
    pub listen: String,
}

/// `[things]`
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Things {
    /// Read the descriptions that others on the LAN announce (`_wot._tcp`).
    pub lan: bool,
    /// Read these descriptions, links to descriptions and directories (W3C WoT Discovery).
    pub urls: Vec<String>,
    /// Nets (192.168.7.0/24) that links in these may lead into, besides what the internet routes.
    pub nets: Vec<String>,
}

impl Things {
    /// Its networks; invalid ones were refused when the configuration was read.
    pub fn nets(&self) -> Vec<Net> {
        self.nets.iter().filter_map(|net| net.parse().ok()).collect()
    }
}

/// `[adopt]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Adopt {
    /// Seconds between two looks at the card of an adopted agent, at its tools, or at the description of a Thing.
    pub check_seconds: u64,
}

impl Default for Adopt {
    fn default() -> Self {
        Adopt { check_seconds: ProcessConfig::default().check.as_secs() }
    }
}

impl Adopt {
    /// The same, for what looks.
    pub fn check_every(&self) -> Duration {
        Duration::from_secs(self.check_seconds)
    }

    fn check(&self) -> Result<(), String> {
        let seconds = self.check_seconds;
        if (ADOPT_CHECK_MIN..=ADOPT_CHECK_MAX).contains(&seconds) {
            return Ok(());
        }
        Err(format!("`adopt.check_seconds` is {ADOPT_CHECK_MIN} to {ADOPT_CHECK_MAX}, not {seconds}"))
    }
}

/// `[push]`: private nets that may be reached, besides what the internet routes.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct PrivateNets {
    /// Each as `192.168.7.0/24`.
    pub nets: Vec<String>,
}

impl PrivateNets {
    /// Its networks; invalid ones were refused when the configuration was read.
    pub fn nets(&self) -> Vec<Net> {
        self.nets.iter().filter_map(|net| net.parse().ok()).collect()
    }
}

/// `[telemetry]`
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Telemetry {
    /// What is logged, in tracing's filter syntax, such as "info" or "althing_discovery=debug".
    pub log: String,
    /// How lines of the log are written: "text" or "json".
    pub log_format: LogFormat,
    /// An OTLP/HTTP collector, such as "http://127.0.0.1:4318"; empty: nothing is exported.
    pub otlp_endpoint: String,
}

impl Default for Config {
    fn default() -> Self {
        Config {
            network: "althing".to_owned(),
            network_key: PathBuf::new(),
            secret: None,
            profile: NodeProfile::default(),
            peers: Vec::new(),
            models: Vec::new(),
            tools: Vec::new(),
            install: Vec::new(),
            embeddings: Embeddings::default(),
            node: Node::default(),
            lan: Lan::default(),
            introduce: Introduce::default(),
            things: Things::default(),
            adopt: Adopt::default(),
            push: PrivateNets::default(),
            sandbox: Sandbox::default(),
            gateway: Gateway::default(),
            audit: Audit::default(),
            execution: Execution::default(),
            binding: Binding::default(),
            telemetry: Telemetry::default(),
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        let listen = ["/ip4/0.0.0.0/tcp/7421", "/ip4/0.0.0.0/udp/7421/quic-v1"];
        Node {
            listen: listen.map(str::to_owned).to_vec(),
            announce: Vec::new(),
            relay: true,
            stranger_rate: 200,
            labels: Vec::new(),
            fixed: false,
        }
    }
}

impl Default for Lan {
    fn default() -> Self {
        Lan { enabled: true, interfaces: Vec::new() }
    }
}

impl Default for Introduce {
    fn default() -> Self {
        Introduce { enabled: false, listen: "0.0.0.0:7422".to_owned() }
    }
}

impl Default for Telemetry {
    fn default() -> Self {
        Telemetry { log: "warn".to_owned(), log_format: LogFormat::Text, otlp_endpoint: String::new() }
    }
}

impl Config {
    /// Reads the file; a missing one is the default unless it `must_exist`.
    pub fn read(path: &Path, must_exist: bool) -> Result<Config, Failure> {
        match read_text(path, FILE_BYTES_MAX) {
            Ok(text) => {
                let parsed = Config::parse(&text);
                let mut config = parsed.map_err(|reason| Failure::usage(format!("{}: {reason}", path.display())))?;
                if !config.gateway.token.is_empty() {
                    // The same rule as for a key file.
                    keyfile::read_secret(path).map_err(|error| {
                        Failure::usage(format!("the configuration contains `gateway.token`: {error}"))
                    })?;
                }
                // Relative paths start at the configuration's folder.
                let folder = path.parent().unwrap_or(Path::new(""));
                let (tenant, roles) = (&mut config.binding.tenant, &mut config.binding.roles);
                let GatewayTls { cert, key, client_ca } = &mut config.gateway.tls;
                for named in [tenant, roles, &mut config.network_key, cert, key, client_ca] {
                    if !named.as_os_str().is_empty() {
                        *named = folder.join(&named);
                    }
                }
                Ok(config)
            }
            Err(error) if error.is_missing() && !must_exist => Ok(Config::default()),
            Err(error) => Err(Failure::usage(format!("{}: {error}", path.display()))),
        }
    }

    /// Parses a configuration; the error names the key that is wrong and how to fix it.
    pub fn parse(text: &str) -> Result<Config, String> {
        let table: Table = text.parse().map_err(|error: toml::de::Error| error.to_string())?;
        let known = Table::try_from(Config::default()).map_err(|error| error.to_string())?;
        refuse_unknown(&table, &known, "")?;
        let config: Config = table.try_into().map_err(|error: toml::de::Error| error.to_string())?;
        config.check()?;
        Ok(config)
    }

    /// Reads the key of a private network and derives the network's full name.
    pub fn unlock(&mut self) -> Result<(), Failure> {
        if self.network_key.as_os_str().is_empty() {
            return Ok(());
        }
        let key = network_key::read(&self.network_key)?;
        let name = key.network(&self.network);
        self.network = name.ok_or_else(|| Failure::usage("`network` must have 1 to 47 bytes with a network key"))?;
        self.secret = Some(key);
        let quic = |address: &String| address.contains("/quic");
        if let Some(address) = self.peers.iter().chain(&self.node.announce).find(|address| quic(address)) {
            return Err(Failure::usage(format!("a private network is on TCP only; nobody can dial {address}")));
        }
        if self.node.fixed
            && let Some(address) = self.node.listen.iter().find(|address| quic(address))
        {
            return Err(Failure::usage(format!("a private network is on TCP only; it cannot listen on {address}")));
        }
        self.node.listen.retain(|address| !quic(address));
        if self.node.listen.is_empty() {
            return Err(Failure::usage("a private network is on TCP only, and `node.listen` names no TCP address"));
        }
        Ok(())
    }

    /// Checks what the types do not express.
    pub fn check(&self) -> Result<(), String> {
        if self.network.is_empty() || self.network.len() > NETWORK_MAX {
            return Err(format!("`network` is 1 to {NETWORK_MAX} bytes"));
        }
        let mark = self.network.rsplit_once('+').map(|(_, mark)| mark);
        if mark.is_some_and(|mark| mark.len() == 16 && mark.bytes().all(|digit| digit.is_ascii_hexdigit())) {
            return Err(
                "`network` ends like the name of a private network; give `network_key`, and the name without the \
                        mark"
                    .to_owned(),
            );
        }
        if self.node.listen.is_empty() {
            return Err("`node.listen` names no address; an address looks like /ip4/0.0.0.0/tcp/7421".to_owned());
        }
        for (key, addresses) in
            [("peers", &self.peers), ("node.listen", &self.node.listen), ("node.announce", &self.node.announce)]
        {
            if let Some(wrong) = addresses.iter().find(|address| !althing_libp2p::is_address(address)) {
                return Err(format!(
                    "`{key}` has {wrong:?}, which is not an address; an address looks like /ip4/192.0.2.7/tcp/7421"
                ));
            }
        }
        let label = |label: &&String| {
            let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._=-".contains(&byte);
            !(1..=63).contains(&label.len()) || !label.bytes().all(word)
        };
        if let Some(wrong) = self.node.labels.iter().find(label) {
            return Err(format!("`node.labels` has {wrong:?}; a label is 1 to 63 of a-z, 0-9, dot, _, = and -"));
        }
        self.models.iter().try_for_each(check_model)?;
        tools::check(&self.tools)?;
        self.audit.check()?;
        self.embeddings.check()?;
        for wanted in &self.install {
            wanted.check().map_err(|wrong| format!("`install`: {wrong}"))?;
        }
        let web = |url: &&String| !(url.starts_with("http://") || url.starts_with("https://"));
        if let Some(wrong) = self.things.urls.iter().find(web) {
            return Err(format!("`things.urls` has {wrong:?}; a URL begins with http:// or https://"));
        }
        for (key, nets) in
            [("things.nets", &self.things.nets), ("push.nets", &self.push.nets), ("sandbox.nets", &self.sandbox.nets)]
        {
            if let Some(wrong) = nets.iter().find_map(|net| net.parse::<Net>().err()) {
                return Err(format!("`{key}`: {wrong}"));
            }
        }
        if self.introduce.listen.parse::<std::net::SocketAddr>().is_err() {
            let listen = &self.introduce.listen;
            return Err(format!("`introduce.listen` is an address and a port, such as 0.0.0.0:7422, not {listen:?}"));
        }
        self.adopt.check()?;
        self.sandbox.check()?;
        self.gateway.check()
    }
}

fn check_model(model: &ModelEndpoint) -> Result<(), String> {
    if !(model.url.starts_with("http://") || model.url.starts_with("https://")) || model.model.is_empty() {
        return Err(format!("`models` has {:?}, which needs a `url` and a `model`", model.named()));
    }
    if let Some(tier) = model.tier.filter(|tier| *tier > ToolTerms::TIER_MAX) {
        let (name, most) = (model.named(), ToolTerms::TIER_MAX);
        return Err(format!("`models` has {name:?} with the tier {tier}; choose 0 to {most}"));
    }
    if model.secret.is_some() && !althing_td::keeps_bearer(&model.url) {
        return Err(format!(
            "`models` has {:?}, whose secret would be sent to {:?} in the clear. {}",
            model.named(),
            model.url,
            althing_td::BEARER_FIX
        ));
    }
    Ok(())
}

impl Config {
    /// What is demanded of the node, and who signs its audit log.
    pub fn governance(&self) -> GovernanceTerms {
        GovernanceTerms { profile: self.profile, witnesses: self.audit.witnesses() }
    }

    /// What is said of the effects of tools, by their names.
    pub fn effects(&self) -> BTreeMap<String, Effect> {
        tools::effects(&self.tools)
    }

    /// What else is said of tools, by their names.
    pub fn profiles(&self) -> BTreeMap<String, ToolTerms> {
        tools::profiles(&self.tools)
    }
}

impl Embeddings {
    fn check(&self) -> Result<(), String> {
        if self.url.is_empty() && self.model.is_empty() && self.secret.is_empty() {
            return Ok(());
        }
        let web = self.url.starts_with("http://") || self.url.starts_with("https://");
        if !web || self.model.is_empty() {
            return Err("`embeddings` needs a `url`, such as http://127.0.0.1:8000/v1, and a `model`".to_owned());
        }
        if !self.secret.is_empty() && !althing_td::keeps_bearer(&self.url) {
            let url = &self.url;
            let why = format!("`embeddings.secret` would be sent to {url:?} in the clear. {}", althing_td::BEARER_FIX);
            return Err(why);
        }
        Ok(())
    }

    /// The endpoint, if one is configured.
    pub fn endpoint(&self) -> Option<althing_operations::Embeddings> {
        let secret = (!self.secret.is_empty()).then(|| self.secret.clone());
        let (url, model) = (self.url.clone(), self.model.clone());
        (!self.url.is_empty()).then_some(althing_operations::Embeddings { url, model, secret })
    }
}

fn refuse_unknown(table: &Table, known: &Table, prefix: &str) -> Result<(), String> {
    for (key, value) in table {
        let path = format!("{prefix}{key}");
        match (known.get(key), value) {
            (None, _) => {
                let near = known
                    .keys()
                    .map(|candidate| (strsim::jaro_winkler(key, candidate), candidate))
                    .max_by(|a, b| a.0.total_cmp(&b.0))
                    .filter(|(similarity, _)| *similarity > 0.7);
                let hint = match near {
                    Some((_, near)) => format!("did you mean `{prefix}{near}`?"),
                    None => format!("there are {}", known.keys().cloned().collect::<Vec<_>>().join(", ")),
                };
                return Err(format!("there is no key `{path}`; {hint}"));
            }
            (Some(toml::Value::Table(known)), toml::Value::Table(inner)) => {
                refuse_unknown(inner, known, &format!("{path}."))?;
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_is_refused_with_the_key_that_was_meant() {
        let error = Config::parse("[gateway]\nlisten_on = \"127.0.0.1:1\"").expect_err("unknown key");
        assert!(error.contains("`gateway.listen_on`") && error.contains("did you mean `gateway.listen`?"), "{error}");
        let error = Config::parse("netwrok = \"x\"").expect_err("unknown key");
        assert!(error.contains("did you mean `network`?"), "{error}");
    }

    #[test]
    fn a_profile_is_the_one_that_is_written_or_refused_with_those_that_there_are() {
        let of = |written: &str| Config::parse(&format!("profile = {written}"));
        for profile in NodeProfile::ALL {
            let config = of(&format!("{:?}", profile.word())).expect("it is one");
            assert_eq!((config.profile, config.governance().profile), (profile, profile));
            let written = toml::to_string(&config).expect("it is written");
            assert_eq!(Config::parse(&written).map(|read| read.profile), Ok(profile), "{written}");
        }
        assert_eq!(Config::parse("").map(|config| config.profile), Ok(NodeProfile::Local));
        for wrong in ["\"regulatd\"", "\"Regulated\"", "\"\"", "\"regulated \""] {
            let error = of(wrong).expect_err("it is none");
            let names = NodeProfile::ALL.iter().all(|profile| error.contains(profile.word()));
            assert!(error.contains("`profile`") && names, "{wrong}: {error}");
        }
        assert!(of("4").is_err() && of("[\"regulated\"]").is_err());
    }

    #[test]
    fn beyond_loopback_a_token_is_needed() {
        let error = Config::parse("[gateway]\nlisten = \"0.0.0.0:7420\"").expect_err("no token");
        assert!(error.contains("gateway.token"), "{error}");
        assert!(Config::parse("[gateway]\nlisten = \"0.0.0.0:7420\"\ntoken = \"0123456789abcdef\"").is_ok());
        assert!(Config::parse("[gateway]\ntoken = \"short\"").is_err());
        assert!(Config::parse("[gateway]\nlisten = \"nonsense\"").is_err());
    }

    #[test]
    fn accounts_of_programs_are_a_range_that_leaves_root_out() {
        let accounts =
            |text: &str| Config::parse(&format!("[sandbox]\naccounts = {text}")).map(|all| all.sandbox.accounts());
        assert_eq!(accounts("[70000, 10]"), Ok(AccountRange { first: 70_000, count: 10 }));
        assert_eq!(Config::default().sandbox.accounts(), AccountRange::default());
        for wrong in ["[]", "[70000]", "[0, 10]", "[70000, 0]", "[1, 2, 3]", "[4294967295, 1]", "[1, 4294967295]"] {
            let error = accounts(wrong).expect_err(wrong);
            assert!(error.contains("`sandbox.accounts`") && error.contains("[70000, 1000]"), "{error}");
        }
    }

    #[test]
    fn models_have_tiers_of_0_to_9() {
        let tier = |tier: u8| {
            let text = format!("[[models]]\nurl = \"http://127.0.0.1/v1\"\nmodel = \"m\"\ntier = {tier}\n");
            Config::parse(&text).map(|config| config.models[0].tier)
        };
        assert_eq!((tier(0), tier(9)), (Ok(Some(0)), Ok(Some(9))));
        assert_eq!(tier(10), Err("`models` has \"m\" with the tier 10; choose 0 to 9".to_owned()));
    }

    #[test]
    fn tls_needs_certificate_and_key() {
        for part in ["cert = \"c\"", "key = \"k\"", "client_ca = \"a\"", "cert = \"c\"\nclient_ca = \"a\""] {
            let error = Config::parse(&format!("[gateway.tls]\n{part}")).expect_err("a half");
            assert!(error.contains("`cert` and `key`"), "{error}");
        }
        let whole = Config::parse(
            "[gateway]\nlisten = \"0.0.0.0:1\"\n[gateway.tls]\ncert = \"c\"\nkey = \"k\"\nclient_ca = \"a\"",
        );
        assert!(whole.expect("certificates are no less than a token").gateway.tls.files().is_some());
        assert_eq!(Config::default().gateway.tls.files(), None);
    }

    #[test]
    fn what_the_world_calls_the_gateway_and_whose_pages_may_use_it_is_written_whole() {
        for (part, says) in [
            ("public = \"agents.example.org\"", "begins with https://"),
            ("public = \"https://example.org/mesh?x\"", "no query"),
            ("public = \"https://example.org/mcp\"", "take another"),
            ("origins = [\"*\"]", "pages of anybody"),
            ("origins = [\"https://app.example/path\"]", "no path"),
        ] {
            let error = Config::parse(&format!("[gateway]\n{part}")).expect_err("refused");
            assert!(error.contains("`gateway.") && error.contains(says), "{part}: {error}");
        }
        let read =
            Config::parse("[gateway]\npublic = \"https://example.org/mesh/\"\norigins = [\"https://App.example:443\"]");
        let gateway = read.expect("whole").gateway;
        assert_eq!(gateway.base().map(|base| base.to_string()).as_deref(), Some("https://example.org/mesh"));
        assert_eq!(gateway.origins(), ["https://app.example"]);
        assert_eq!(Config::default().gateway.base(), None);
    }

    #[test]
    fn what_was_adopted_is_looked_at_each_half_minute_unless_the_file_says_otherwise() {
        assert_eq!(Config::default().adopt.check_every(), Duration::from_secs(30));
        for (seconds, is_fit) in [(0, false), (1, true), (3_600, true), (3_601, false)] {
            let read = Config::parse(&format!("[adopt]\ncheck_seconds = {seconds}"));
            assert_eq!(read.is_ok(), is_fit, "{seconds}");
            match read {
                Ok(config) => assert_eq!(config.adopt.check_every(), Duration::from_secs(seconds)),
                Err(error) => assert_eq!(error, format!("`adopt.check_seconds` is 1 to 3600, not {seconds}")),
            }
        }
        assert!(Config::parse("[adopt]\ncheck_seconds = -1").is_err());
    }

    #[test]
    fn an_open_network_is_not_called_like_a_private_one() {
        // P-73
        let error = Config::parse("network = \"home+0123456789abcdef\"").expect_err("a private network's name");
        assert!(error.contains("network_key"), "{error}");
        assert!(Config::parse("network = \"home+0123456789abcde\"").is_ok());
        assert!(Config::parse("network = \"home+guests-of-alices\"").is_ok());
    }

    #[test]
    fn the_documentation_shows_every_key_with_its_default() {
        let page = include_str!("../../../docs/configuration.md");
        let block = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a TOML block");
        assert_eq!(Config::parse(block), Ok(Config::default()));
        let shown: Table = block.parse().expect("TOML");
        assert_eq!(shown, Table::try_from(Config::default()).expect("TOML"), "a key is missing from the page");
    }

    #[test]
    fn the_default_is_valid_and_reads_back() {
        let text = toml::to_string(&Config::default()).expect("TOML");
        assert_eq!(Config::parse(&text), Ok(Config::default()));
    }

    #[test]
    fn an_issuer_is_asked_over_https_and_its_tokens_are_for_this_gateway() {
        for (part, says) in [
            ("issuer = \"https://id.example\"", "audience"),
            ("audience = \"https://mesh.example\"", "issuer"),
            ("issuer = \"http://id.example\"\naudience = \"a\"", "https"),
            ("issuer = \"https://id.example\"\naudience = \"a\"\njwks = \"http://id.example/keys\"", "https"),
        ] {
            let error = Config::parse(&format!("[gateway.oauth]\n{part}")).expect_err("a half");
            assert!(error.contains("gateway.oauth") && error.contains(says), "{part}: {error}");
        }
        let whole = "[gateway]\nlisten = \"0.0.0.0:1\"\n[gateway.oauth]\nissuer = \"https://id.example\"\naudience = \"a\"\n\
                     call = [\"mesh.call\", \"agents\"]";
        let whole = Config::parse(whole).expect("tokens of an issuer are no less than one of its own");
        let issuer = whole.gateway.oauth.issuer().expect("an issuer");
        assert_eq!((issuer.scopes["agents"], issuer.scopes["althing.read"]), (Scope::Call, Scope::Read));
        assert_eq!(Config::default().gateway.oauth.issuer(), None);
    }
}
