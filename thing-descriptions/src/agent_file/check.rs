//! Checks the values of an agent file: bounded, well-formed, distinct.

mod sandbox;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use althing_protocol::contract::{Class, Dt, did_you_mean};
use althing_protocol::{CallerId, sign_off};

use super::{AgentFile, BEARER_FIX, Callers, ModelEndpoint, RuntimeSpec, Sandbox, Skill, ToolServerSpec, keeps_bearer};
use crate::card::SignerKey;
use crate::confusable::disguised;
use crate::hidden::hidden_in;
use crate::json::excerpt;
use crate::reader::{FileProblem, is_name, is_secret_name, is_word};

/// What an agent may learn of the mesh, as `mesh/…` in its capabilities.
const MESH_TOOLS: [&str; 3] = ["find_agents", "describe_agent", "*"];
/// The tools that each agent has of its session, if its contract names them.
const SESSION_TOOLS: [&str; 4] = ["note", "notes", "checkpoint", "*"];
/// The longest name, in characters (a DNS label, so that it can be announced by mDNS).
pub const NAME_CHARS_MAX: usize = 63;
/// The longest title, and name of a skill, in characters.
pub const TITLE_CHARS_MAX: usize = 128;
/// The longest description, in characters.
pub const DESCRIPTION_CHARS_MAX: usize = 4096;
/// The most skills of one agent.
pub const SKILLS_MAX: usize = 64;
/// The longest id of a skill, in characters.
pub const SKILL_ID_CHARS_MAX: usize = 128;
/// The longest action or target of a skill, in characters.
pub const ACTION_CHARS_MAX: usize = 128;
/// The most tags of one skill.
pub const TAGS_MAX: usize = 32;
/// The longest tag, in characters.
pub const TAG_CHARS_MAX: usize = 64;
/// The most examples of one skill.
pub const EXAMPLES_MAX: usize = 16;
/// The longest example, in characters.
pub const EXAMPLE_CHARS_MAX: usize = 1024;
/// The longest configuration of a native agent, as JSON, in bytes.
pub const CONFIG_BYTES_MAX: usize = 64 * 1024;
/// The most items of a command, the program included.
pub const COMMAND_ITEMS_MAX: usize = 64;
/// The most variables added to a program's environment.
pub const ENV_MAX: usize = 64;
/// The longest prompt of a model agent, in characters.
pub const PROMPT_CHARS_MAX: usize = 64 * 1024;
/// How many endpoints a model agent may have.
pub const ENDPOINTS_MAX: usize = 16;
/// How many servers of tools an agent may have.
pub const TOOL_SERVERS_MAX: usize = 16;
/// Of how many tools a file may say what their effect is.
pub const EFFECTS_MAX: usize = 256;
/// How many origins a Thing's forms may lead to, beside its own.
pub const ORIGINS_MAX: usize = 16;
/// The longest argument, variable or directory, in bytes.
pub const TEXT_BYTES_MAX: usize = 4096;
/// The shortest time that a program may be given to start, in milliseconds.
pub const STARTUP_TIMEOUT_MS_MIN: u64 = 100;
/// The longest time that a program may be given to start, in milliseconds: ten minutes.
pub const STARTUP_TIMEOUT_MS_MAX: u64 = 600_000;
/// The most media types in one direction.
pub const MODES_MAX: usize = 16;
/// The most identities in `callers`.
pub const CALLERS_MAX: usize = 256;
/// The most keys in `handoff_signers`.
pub const HANDOFF_SIGNERS_MAX: usize = 64;

/// Everything to change in the values, in the order of the fields; lines are not known here.
pub(super) fn check(file: &AgentFile) -> Vec<FileProblem> {
    let mut check = Check(Vec::new());
    if !is_name(&file.name) {
        let fix = "Use 1 to 63 of a-z, 0-9 and -, no - at either end, for example \"weather-berlin\"";
        check.refuse("name", "name-form", format!("{:?} is not a name", excerpt(&file.name, 80)), fix);
    }
    check.line("title", &file.title, TITLE_CHARS_MAX);
    check.undisguised("title", &file.title);
    check.text("description", &file.description, DESCRIPTION_CHARS_MAX);
    check.version("version", &file.version);
    check.skills(&file.skills);
    match &file.runtime {
        RuntimeSpec::Native { builtin, config } => {
            if !is_word(builtin, NAME_CHARS_MAX, "-") {
                let message = format!("{:?} is not the name of a builtin", excerpt(builtin, 80));
                check.refuse("runtime.native.builtin", "name-form", message, "Write it as the node lists it");
            }
            check.most("runtime.native.config", config.to_string().len(), CONFIG_BYTES_MAX, "bytes of JSON");
        }
        RuntimeSpec::Process { .. } => check.process(&file.runtime),
        RuntimeSpec::Model { prompt, endpoints, temperature } => check.model(prompt, endpoints, *temperature),
        RuntimeSpec::Wasm { module } => check.passed_on("runtime.wasm.module".to_owned(), &module.to_string_lossy()),
        RuntimeSpec::Remote { url, secret, card, signed_by, .. } => {
            let field = "runtime.remote.url".to_owned();
            check.line(field.clone(), url, TEXT_BYTES_MAX);
            check.address(field.clone(), url, "http://127.0.0.1:9000");
            check.secret("runtime.remote.secret".to_owned(), secret.as_deref());
            check.bearer(field, url, secret.as_deref());
            check.digest("runtime.remote.card".to_owned(), card.as_deref());
            if let Some(Err(error)) = signed_by.as_ref().map(|key| key.parse::<SignerKey>()) {
                let fix = "Leave it out; `althing adopt` writes it";
                check.refuse("runtime.remote.signed_by", "key-form", error.to_string(), fix);
            }
        }
    }
    check.tools(&file.tools);
    check.effects(file);
    check.profiles(file);
    check_session(&mut check, file);
    check.expose(file);
    check.contract(file);
    if file.role.as_ref().is_some_and(|role| !is_word(role, 63, "-")) {
        check.refuse("role", "name-form", "this is not the name of a role".to_owned(), "Use 1 to 63 of a-z, 0-9 and -");
    }
    if let Some(endpoint) = &file.embeddings {
        check.endpoint("embeddings", endpoint);
    }
    check_callers(&mut check, &file.callers);
    check_signers(&mut check, &file.handoff_signers);
    check_modes(&mut check, "input_modes", &file.input_modes);
    check_modes(&mut check, "output_modes", &file.output_modes);
    check.0
}

/// What is wrong with the sandbox at `at` of another file, whose program has no variables of its own.
pub(crate) fn sandbox_problems(at: &str, of: &Sandbox) -> Vec<FileProblem> {
    let mut check = Check(Vec::new());
    sandbox::sandbox(&mut check, at, of, &[]);
    check.0
}

struct Check(Vec<FileProblem>);

impl Check {
    fn refuse(&mut self, field: impl Into<String>, rule: &'static str, message: String, fix: impl Into<String>) {
        self.0.push(FileProblem { field: field.into(), line: None, rule, message, fix: fix.into() });
    }

    fn most(&mut self, field: impl Into<String>, len: usize, max: usize, unit: &str) {
        if len > max {
            self.refuse(field, "too-many", format!("{len} {unit}, the limit is {max}"), "Shorten it");
        }
    }

    /// Text of several lines: not empty, bounded, nothing hidden in it.
    fn text(&mut self, field: impl Into<String>, text: &str, chars_max: usize) {
        let field = field.into();
        self.most(field.as_str(), text.chars().count(), chars_max, "characters");
        if text.trim().is_empty() {
            self.refuse(field.as_str(), "empty", "this is empty".to_owned(), "Write something, or remove the key");
        }
        if let Some(c) = hidden_in(text) {
            let message = format!("it holds the invisible character U+{:04X}", u32::from(c));
            self.refuse(field, "hidden-character", message, "Remove it: it can make one name look like another");
        }
    }

    /// As [`Check::text`], on one line.
    fn line(&mut self, field: impl Into<String>, text: &str, chars_max: usize) {
        let field = field.into();
        if text.contains(['\n', '\r', '\t']) {
            let message = "it has a line break or a tab".to_owned();
            self.refuse(field.as_str(), "one-line", message, "Write it on one line, without tabs");
        }
        self.text(field, text, chars_max);
    }

    /// A title with confusable letters, by which the agent could be mistaken for another one.
    fn undisguised(&mut self, field: &str, text: &str) {
        if let Some(c) = disguised(text) {
            let message = format!("it holds U+{:04X}, which is easily taken for another letter", u32::from(c));
            self.refuse(field, "look-alike", message, "Write each word in one script");
        }
    }

    fn version(&mut self, field: impl Into<String>, version: &str) {
        if semver::Version::parse(version).is_err() {
            let message = format!("{:?} is not a semantic version", excerpt(version, 40));
            self.refuse(field, "semver", message, "Write three numbers, for example \"1.0.0\"");
        }
    }

    fn skills(&mut self, skills: &[Skill]) {
        self.most("skills", skills.len(), SKILLS_MAX, "skills");
        let mut ids = BTreeSet::new();
        for (n, skill) in skills.iter().enumerate() {
            let field = |key: &str| format!("skills[{n}].{key}");
            if !is_word(&skill.id, SKILL_ID_CHARS_MAX, "._:-") {
                let message = format!("{:?} is not an id", excerpt(&skill.id, 80));
                self.refuse(field("id"), "id-form", message, "Use 1 to 128 of a-z, 0-9, dot, _, : and -");
            }
            if !ids.insert(&skill.id) {
                let message = format!("{:?} is the id of an earlier skill", excerpt(&skill.id, 80));
                self.refuse(field("id"), "id-twice", message, "Give each skill an id of its own");
            }
            self.line(field("name"), &skill.name, TITLE_CHARS_MAX);
            self.text(field("description"), &skill.description, DESCRIPTION_CHARS_MAX);
            for (key, word) in [("action", &skill.action), ("target", &skill.target)] {
                if let Some(word) = word {
                    self.line(field(key), word, ACTION_CHARS_MAX);
                }
            }
            self.most(field("tags"), skill.tags.len(), TAGS_MAX, "tags");
            for (t, tag) in skill.tags.iter().enumerate() {
                self.line(field(&format!("tags[{t}]")), tag, TAG_CHARS_MAX);
            }
            self.most(field("examples"), skill.examples.len(), EXAMPLES_MAX, "examples");
            for (e, example) in skill.examples.iter().enumerate() {
                self.text(field(&format!("examples[{e}]")), example, EXAMPLE_CHARS_MAX);
            }
            if let Some(version) = &skill.version {
                self.version(field("version"), version);
            }
        }
    }

    fn model(&mut self, prompt: &str, endpoints: &[ModelEndpoint], temperature: Option<f64>) {
        self.text("runtime.model.prompt", prompt, PROMPT_CHARS_MAX);
        self.most("runtime.model.endpoints", endpoints.len(), ENDPOINTS_MAX, "endpoints");
        if temperature.is_some_and(|temperature| !(0.0..=2.0).contains(&temperature)) {
            let message = "it is out of range".to_owned();
            self.refuse("runtime.model.temperature", "out-of-range", message, "Choose 0 to 2");
        }
        for (n, endpoint) in endpoints.iter().enumerate() {
            self.endpoint(&format!("runtime.model.endpoints[{n}]"), endpoint);
        }
    }

    fn address(&mut self, field: String, url: &str, like: &str) {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(['@', '?', '#'])) {
            let message = format!("{:?} is not an address of HTTP", excerpt(url, 80));
            let fix = format!("Write it like {like}; a password is named by `secret`");
            self.refuse(field, "url", message, fix);
        }
    }

    /// An address that may have a query.
    fn page(&mut self, field: String, url: &str) {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        if rest.is_none_or(|rest| rest.is_empty() || rest.starts_with('/') || rest.contains(['@', '#', ' '])) {
            let message = format!("{:?} is not an address of HTTP", excerpt(url, 80));
            let fix = "Write it like http://192.0.2.7:8080/lamp; a password is named by `secret`";
            self.refuse(field, "url", message, fix);
        }
    }

    /// Scheme, host and port, as they are compared.
    fn origin(&mut self, field: String, origin: &str) {
        let rest = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-:[]".contains(c);
        if origin.len() > 300 || rest.is_none_or(|rest| rest.is_empty() || !rest.chars().all(plain)) {
            let message = format!("{:?} is not scheme, host and port", excerpt(origin, 80));
            self.refuse(field, "origin", message, "Write it like http://192.0.2.7:8080, in small letters");
        }
    }

    fn digest(&mut self, field: String, digest: Option<&str>) {
        if digest.is_some_and(|digest| digest.len() != 64 || !digest.bytes().all(|c| c.is_ascii_hexdigit())) {
            let message = "this is not a digest".to_owned();
            self.refuse(field, "digest-form", message, "Leave it out; `althing adopt` writes it");
        }
    }

    fn secret(&mut self, field: String, secret: Option<&str>) {
        if secret.is_some_and(|secret| !is_secret_name(secret)) {
            let message = "this is not the name of a secret".to_owned();
            self.refuse(field, "name-form", message, "Write its name; `althing secret set NAME` keeps it");
        }
    }

    /// A secret must not be sent in the clear.
    fn bearer(&mut self, field: String, url: &str, secret: Option<&str>) {
        if secret.is_some() && !keeps_bearer(url) {
            let message = "a secret would be sent there in the clear".to_owned();
            self.refuse(field, "bearer-in-the-clear", message, BEARER_FIX);
        }
    }

    fn endpoint(&mut self, at: &str, endpoint: &ModelEndpoint) {
        let field = |key: &str| format!("{at}.{key}");
        self.line(field("url"), &endpoint.url, TEXT_BYTES_MAX);
        self.address(field("url"), &endpoint.url, "http://127.0.0.1:8000/v1");
        self.line(field("model"), &endpoint.model, TITLE_CHARS_MAX);
        self.secret(field("secret"), endpoint.secret.as_deref());
        self.bearer(field("url"), &endpoint.url, endpoint.secret.as_deref());
        if let Some(name) = &endpoint.name {
            self.line(field("name"), name, TITLE_CHARS_MAX);
        }
        if let Some(quantisation) = &endpoint.quantisation {
            self.line(field("quantisation"), quantisation, TITLE_CHARS_MAX);
        }
        if endpoint.version.as_ref().is_some_and(|version| semver::Version::parse(version).is_err()) {
            let message = "this is no version (semver 2.0.0)".to_owned();
            self.refuse(field("version"), "version", message, "Write three numbers, such as 1.2.0");
        }
    }

    /// Members of the contract that do not apply to this agent.
    fn contract(&mut self, file: &AgentFile) {
        let Some(contract) = &file.contract else { return };
        let known: Vec<&str> =
            file.tools.keys().map(String::as_str).chain(["agents", "groups", "memory", "mesh", "session"]).collect();
        for (place, capability) in contract.capabilities.iter().enumerate() {
            let Some((server, tool)) = capability.split_once('/') else { continue };
            let at = format!("contract.capabilities[{place}]");
            if !known.contains(&server) {
                let message = format!("this agent has no server of tools {server:?}");
                self.refuse(at.as_str(), "no-server", message, did_you_mean(server, &known));
            } else if server == "agents" && tool != "*" && !is_name(tool) {
                let message = format!("{tool:?} is the name of no agent");
                let fix = "Use 1 to 63 of a-z, 0-9 and -, no - at either end, or * for all";
                self.refuse(at.as_str(), "name-form", message, fix);
            } else if server == "mesh" && !MESH_TOOLS.contains(&tool) {
                let message = format!("{tool:?} is nothing that an agent may learn of the mesh");
                self.refuse(at.as_str(), "no-tool", message, did_you_mean(tool, &MESH_TOOLS));
            } else if server == "session" && !SESSION_TOOLS.contains(&tool) {
                let message = format!("{tool:?} is nothing that an agent may do with its session");
                self.refuse(at.as_str(), "no-tool", message, did_you_mean(tool, &SESSION_TOOLS));
            }
        }
        if matches!(contract.class, Class::Hrt(_)) && !matches!(file.runtime, RuntimeSpec::Wasm { .. }) {
            let message = "only a WebAssembly module can be stopped in time".to_owned();
            let fix = "Write runtime.wasm with a module, or another class (srt, dt)";
            self.refuse("contract.class.latency", "hrt-runtime", message, fix);
        }
        let Class::Dt(Dt { cost: Some(cost) }) = &contract.class else { return };
        let is_model = matches!(file.runtime, RuntimeSpec::Model { .. });
        let is_program = matches!(file.runtime, RuntimeSpec::Process { .. } | RuntimeSpec::Remote { .. });
        let held = [
            ("cpu_ms", cost.cpu_ms.is_some() && is_program, "a program runs outside the node, which does not count it"),
            ("tokens", cost.tokens.is_some() && !is_model, "only model agents are charged tokens"),
            ("spend", cost.spend.is_some() && !is_model, "only model agents spend"),
        ];
        for (field, wrong, message) in held {
            if wrong {
                let at = format!("contract.class.cost.{field}");
                self.refuse(at.as_str(), "not-held", message.to_owned(), "Leave it out");
            }
        }
    }

    fn tools(&mut self, tools: &BTreeMap<String, ToolServerSpec>) {
        self.most("tools", tools.len(), TOOL_SERVERS_MAX, "servers");
        for (name, server) in tools {
            let at = format!("tools.{}", excerpt(name, 80));
            if !is_word(name, 32, "-") {
                let message = format!("{:?} is not the name of a server of tools", excerpt(name, 80));
                self.refuse(at.as_str(), "name-form", message, "Use 1 to 32 of a-z, 0-9 and -");
            }
            let taken = match name.as_str() {
                "memory" => Some("what the contract's memory offers"),
                "agents" => Some("other agents, which need no server"),
                "groups" => Some("groups of this node, which need no server"),
                "mesh" => Some("finding agents, which needs no server"),
                "session" => Some("the notes of a session, which need no server"),
                _ => None,
            };
            if let Some(by) = taken {
                let message = format!("this name is taken by {by}");
                self.refuse(at.as_str(), "name-taken", message, "Choose another name");
            }
            let field = |key: &str| format!("{at}.{key}");
            match server {
                ToolServerSpec::Command { command, cwd, env, env_secrets, sandbox } => {
                    self.program(&field, command, cwd.as_deref(), env);
                    self.env_secrets(&field, env, env_secrets);
                    sandbox::sandbox(self, &field("sandbox"), sandbox, &[env, env_secrets]);
                }
                ToolServerSpec::Thing { thing, secret, allow, td, .. } => {
                    self.line(field("thing"), thing, TEXT_BYTES_MAX);
                    self.page(field("thing"), thing);
                    self.secret(field("secret"), secret.as_deref());
                    self.most(field("allow"), allow.len(), ORIGINS_MAX, "addresses");
                    for (n, origin) in allow.iter().enumerate() {
                        self.origin(format!("{}[{n}]", field("allow")), origin);
                    }
                    self.digest(field("td"), td.as_deref());
                }
                ToolServerSpec::Url { url, secret, .. } => {
                    self.line(field("url"), url, TEXT_BYTES_MAX);
                    self.address(field("url"), url, "http://127.0.0.1:9000/mcp");
                    self.secret(field("secret"), secret.as_deref());
                    self.bearer(field("url"), url, secret.as_deref());
                }
            }
        }
    }

    fn effects(&mut self, file: &AgentFile) {
        self.most("tools", file.effects.len(), EFFECTS_MAX, "effects of tools");
        for tool in file.effects.keys() {
            let server = tool.split_once('/').filter(|(_, tool)| {
                (1..=NAME_CHARS_MAX * 2).contains(&tool.chars().count()) && (*tool == "*" || !tool.contains('*'))
            });
            if server.is_none_or(|(server, _)| !file.tools.contains_key(server)) {
                let message = format!("{:?} is no tool of a server under tools", excerpt(tool, 80));
                let fix = "Write the word of one effect, or a map of the server's tools, each by its whole name";
                self.refuse("tools", "effect-unknown", message, fix);
            }
        }
    }

    fn profiles(&mut self, file: &AgentFile) {
        self.most("tools", file.profiles.len(), EFFECTS_MAX, "profiles of tools");
        for tool in file.profiles.keys() {
            let server = tool.split_once('/').filter(|(_, tool)| {
                (1..=NAME_CHARS_MAX * 2).contains(&tool.chars().count()) && (*tool == "*" || !tool.contains('*'))
            });
            if server.is_none_or(|(server, _)| !file.tools.contains_key(server)) {
                let message = format!("{:?} is no tool of a server under tools", excerpt(tool, 80));
                let fix = "Write a map of the server's tools, each by its whole name, or \"*\" for all of them";
                self.refuse("tools", "profile-unknown", message, fix);
            }
        }
    }

    fn expose(&mut self, file: &AgentFile) {
        self.most("expose", file.expose.len(), SKILLS_MAX, "entries");
        for (n, tool) in file.expose.iter().enumerate() {
            let server =
                tool.split_once('/').filter(|(_, tool)| !tool.is_empty() && !tool.trim_end_matches('*').contains('*'));
            if server.is_none_or(|(server, _)| !file.tools.contains_key(server)) {
                let message = format!("{:?} is no tool of a server under tools", excerpt(tool, 80));
                let fix = "Write server/tool, or server/* for all of a server; the contract must name them too";
                self.refuse(format!("expose[{n}]"), "expose-unknown", message, fix);
            }
        }
    }

    fn process(&mut self, runtime: &RuntimeSpec) {
        let RuntimeSpec::Process { command, cwd, env, startup_timeout_ms, port, sandbox } = runtime else { return };
        let field = |key: &str| format!("runtime.process.{key}");
        self.program(&field, command, cwd.as_deref(), env);
        sandbox::sandbox(self, &field("sandbox"), sandbox, &[env]);
        if port.is_none() && command.iter().any(|item| item.contains("{port}")) {
            let message = "it is handed a Unix socket, and no port".to_owned();
            let fix = "Let it listen on the socket (LISTEN_FDS, or the path in ALTHING_SOCKET), or write `port: tcp`; \
                       every account of this machine can then reach it";
            self.refuse(field("command"), "no-port", message, fix);
        }
        if !(STARTUP_TIMEOUT_MS_MIN..=STARTUP_TIMEOUT_MS_MAX).contains(startup_timeout_ms) {
            let message = format!("{startup_timeout_ms} ms is out of range");
            let fix = format!("Choose {STARTUP_TIMEOUT_MS_MIN} to {STARTUP_TIMEOUT_MS_MAX}");
            self.refuse(field("startup_timeout_ms"), "out-of-range", message, fix);
        }
    }

    /// A program, its folder and its variables.
    fn program(
        &mut self,
        field: &dyn Fn(&str) -> String,
        command: &[String],
        cwd: Option<&Path>,
        env: &BTreeMap<String, String>,
    ) {
        self.most(field("command"), command.len(), COMMAND_ITEMS_MAX, "items");
        if command.first().is_none_or(|program| program.trim().is_empty()) {
            let fix = "Write the program first, for example [python3, agent.py]";
            self.refuse(field("command"), "empty", "it names no program".to_owned(), fix);
        }
        for (n, item) in command.iter().enumerate() {
            self.passed_on(field(&format!("command[{n}]")), item);
        }
        if let Some(cwd) = cwd {
            self.passed_on(field("cwd"), &cwd.to_string_lossy());
        }
        self.most(field("env"), env.len(), ENV_MAX, "variables");
        for (name, value) in env {
            let field = field(&format!("env.{}", excerpt(name, 80)));
            self.variable(&field, name);
            self.passed_on(field, value);
        }
    }

    /// The name of a variable of a program.
    fn variable(&mut self, field: &str, name: &str) {
        let start = name.chars().next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_');
        if !start || name.len() > 128 || !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_') {
            let message = "this is not the name of a variable".to_owned();
            self.refuse(field, "env-name", message, "Use A-Z, a-z, 0-9 and _, a letter or _ first");
        }
        if name == "PORT" {
            let message = "the node itself sets PORT, to the port that it chose".to_owned();
            self.refuse(field, "env-port", message, "Remove it; the program reads PORT or {port}");
        }
        if ["ALTHING_SOCKET", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"].contains(&name) {
            let message = format!("the node itself sets {name}, with the socket that it hands over");
            self.refuse(field, "env-socket", message, "Remove it");
        }
    }

    /// Variables whose values are secrets of the node.
    fn env_secrets(
        &mut self,
        field: &dyn Fn(&str) -> String,
        env: &BTreeMap<String, String>,
        env_secrets: &BTreeMap<String, String>,
    ) {
        self.most(field("env_secrets"), env_secrets.len(), ENV_MAX, "variables");
        for (name, secret) in env_secrets {
            let field = field(&format!("env_secrets.{}", excerpt(name, 80)));
            self.variable(&field, name);
            if env.contains_key(name) {
                let message = "`env` sets this variable too".to_owned();
                self.refuse(field.as_str(), "env-twice", message, "Leave one of the two out");
            }
            self.secret(field, Some(secret));
        }
    }

    /// Strings for the operating system: bounded, and without NUL, which would truncate them.
    fn passed_on(&mut self, field: String, text: &str) {
        self.most(field.as_str(), text.len(), TEXT_BYTES_MAX, "bytes");
        if text.contains('\0') {
            self.refuse(field, "nul", "it holds a NUL character".to_owned(), "Remove it");
        }
    }
}

fn check_modes(check: &mut Check, field: &str, modes: &[String]) {
    check.most(field, modes.len(), MODES_MAX, "media types");
    if modes.is_empty() {
        let fix = "Name a media type, or remove the key for text/plain";
        check.refuse(field, "empty", "the list is empty".to_owned(), fix);
    }
    for (n, mode) in modes.iter().enumerate() {
        if !is_media_type(mode) {
            let message = format!("{:?} is not a media type", excerpt(mode, 80));
            let fix = "Write type/subtype, for example text/plain or application/json";
            check.refuse(format!("{field}[{n}]"), "media-type", message, fix);
        }
    }
}

fn check_session(check: &mut Check, file: &AgentFile) {
    if file.session.repeats() && !matches!(file.runtime, RuntimeSpec::Process { .. }) {
        let message = "only a program (runtime.process) is given a message again".to_owned();
        check.refuse("session.resume", "not-repeated", message, "Leave it out");
    }
}

fn check_signers(check: &mut Check, lines: &[String]) {
    check.most("handoff_signers", lines.len(), HANDOFF_SIGNERS_MAX, "keys");
    for (n, line) in lines.iter().enumerate() {
        if let Err(error) = sign_off::public_key(line) {
            let fix = "Copy the line of that person's ~/.ssh/id_ed25519.pub";
            check.refuse(format!("handoff_signers[{n}]"), "key-form", error.to_string(), fix);
        }
    }
}

/// `type/subtype` with parameters perhaps (RFC 9110 §8.3.1), in printable ASCII.
fn is_media_type(text: &str) -> bool {
    let is_token =
        |t: &str| !t.is_empty() && t.chars().all(|c| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c));
    let (essence, parameters) = text.split_once(';').map_or((text, None), |(e, p)| (e, Some(p)));
    let named = essence.trim_end().split_once('/').is_some_and(|(t, s)| is_token(t) && is_token(s));
    let printable = parameters.is_none_or(|p| p.contains('=') && p.chars().all(|c| matches!(c, ' '..='~')));
    named && printable && text.len() <= 128
}

fn check_callers(check: &mut Check, callers: &Callers) {
    let Callers::Listed(dids) = callers else { return };
    check.most("callers", dids.len(), CALLERS_MAX, "identities");
    if dids.is_empty() {
        let fix = "List an owner or a node, or write this-node to keep others out";
        check.refuse("callers", "empty", "the list is empty".to_owned(), fix);
    }
    for (n, did) in dids.iter().enumerate() {
        if did.parse::<CallerId>().is_err() {
            let message = format!("{:?} is neither a node nor an owner", excerpt(did, 80));
            let fix = "Copy one from `althing id` on that node: did:key:z6Mk… for it alone, urn:althing:zQm… for all its owner's nodes";
            check.refuse(format!("callers[{n}]"), "caller-id", message, fix);
        }
    }
}
