//! From the YAML tree to an agent file: known and required keys, types and defaults. The values are checked in `check`.

mod effect;
pub(super) mod sandbox;
mod terms;

use std::collections::BTreeMap;
use std::path::PathBuf;

use althing_protocol::Contract;
use althing_protocol::contract::{ContractProblem, DataLabel, did_you_mean};
use serde_json::Value;

use super::{
    AgentFile, AsksAs, Callers, Exposure, MODE_DEFAULT, ModelEndpoint, Place, ProgramPort, Resume, RuntimeSpec,
    STARTUP_TIMEOUT_MS_DEFAULT, SessionSpec, Skill, ToolServerSpec, ToolTerms, VERSION_DEFAULT,
};
use crate::json::excerpt;
use crate::reader::yaml::{At, Entry, Node};
use crate::reader::{Fields, FileProblem, Reader};

const FILE_KEYS: [&str; 18] = [
    "name",
    "title",
    "description",
    "version",
    "skills",
    "runtime",
    "tools",
    "expose",
    "embeddings",
    "role",
    "contract",
    "callers",
    "exposure",
    "asks_as",
    "handoff_signers",
    "session",
    "input_modes",
    "output_modes",
];
const SESSION_KEYS: [&str; 1] = ["resume"];
const SKILL_KEYS: [&str; 8] = ["id", "name", "description", "action", "target", "tags", "examples", "version"];
const RUNTIME_KEYS: [&str; 5] = ["native", "process", "wasm", "model", "remote"];
const MODEL_KEYS: [&str; 3] = ["prompt", "endpoints", "temperature"];
const TOOLS_KEYS: [&str; 13] = [
    "command",
    "cwd",
    "env",
    "env_secrets",
    "sandbox",
    "url",
    "leads_to",
    "thing",
    "secret",
    "allow",
    "td",
    "effect",
    "profiles",
];
const ENDPOINT_KEYS: [&str; 11] = [
    "url",
    "model",
    "secret",
    "name",
    "version",
    "context_tokens",
    "quantisation",
    "ttft_ms",
    "cost",
    "clearance",
    "tier",
];
const NATIVE_KEYS: [&str; 2] = ["builtin", "config"];
const WASM_KEYS: [&str; 1] = ["module"];
const REMOTE_KEYS: [&str; 5] = ["url", "secret", "card", "signed_by", "leads_to"];
const PROCESS_KEYS: [&str; 6] = ["command", "cwd", "env", "startup_timeout_ms", "port", "sandbox"];

/// The file as far as its shape is right, and the problems. A file with problems is returned only so that its values can be
/// checked in the same run.
pub(super) fn read(root: &At) -> (Option<AgentFile>, Vec<FileProblem>) {
    let mut reader = Reader::default();
    let file = file(&mut reader, root);
    (file, reader.problems)
}

/// The contract at `at`, whose path is `path`.
pub(super) fn contract(at: &At, path: &str) -> Result<Contract, Vec<FileProblem>> {
    let located = |problem: ContractProblem| {
        let line = at.line_of(&problem.field).or((at.line > 0).then_some(at.line));
        let field = match (path, problem.field.as_str()) {
            ("", field) | (field, "") => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        FileProblem { field, line, rule: problem.rule, message: problem.message, fix: problem.fix }
    };
    Contract::from_value(&at.to_json()).map_err(|problems| problems.into_iter().map(located).collect())
}

fn file(reader: &mut Reader, root: &At) -> Option<AgentFile> {
    let fields = reader.fields(root, "", &FILE_KEYS)?;
    let name = reader.needed(&fields, "name");
    let title = reader.text(&fields, "title").or_else(|| name.clone());
    let description = reader.needed(&fields, "description");
    let version = reader.text(&fields, "version").unwrap_or_else(|| VERSION_DEFAULT.to_owned());
    let skills = reader.list(&fields, "skills", |reader, at, path| skill(reader, at, &path)).unwrap_or_default();
    let runtime = runtime(reader, &fields);
    let tools = tools(reader, &fields);
    let effects = effect::effects(reader, &fields);
    let profiles = terms::terms(reader, &fields);
    let expose = match fields.value("expose") {
        Some(_) => reader.texts(&fields, "expose"),
        None => Some(Vec::new()),
    };
    let embeddings = fields.value("embeddings").map(|at| endpoint(reader, at, "embeddings".to_owned()));
    let role = reader.text(&fields, "role");
    let (requested, contract, contract_file) = requested(reader, &fields, role.is_some());
    let callers = callers(reader, &fields);
    let exposure = exposure(reader, &fields);
    let asks_as = asks_as(reader, &fields);
    let handoff_signers = match fields.value("handoff_signers") {
        Some(_) => reader.texts(&fields, "handoff_signers"),
        None => Some(Vec::new()),
    };
    let session = session(reader, &fields);
    let mode = || vec![MODE_DEFAULT.to_owned()];
    let input_modes = reader.texts(&fields, "input_modes").unwrap_or_else(mode);
    let output_modes = reader.texts(&fields, "output_modes").unwrap_or_else(mode);
    Some(AgentFile {
        name: name?,
        title: title?,
        description: description?,
        version,
        skills,
        runtime: runtime?,
        tools: tools?,
        effects: effects?,
        profiles: profiles?,
        expose: expose?,
        role,
        requested,
        embeddings: embeddings.map_or(Some(None), |given| given.map(Some))?,
        contract,
        contract_file,
        callers: callers?,
        exposure: exposure?,
        asks_as: asks_as?,
        handoff_signers: handoff_signers?,
        session: session?,
        input_modes,
        output_modes,
    })
}

fn skill(reader: &mut Reader, at: &At, path: &str) -> Option<Skill> {
    let fields = reader.fields(at, path, &SKILL_KEYS)?;
    let id = reader.needed(&fields, "id");
    let name = reader.needed(&fields, "name");
    let description = reader.needed(&fields, "description");
    let action = reader.text(&fields, "action");
    let target = reader.text(&fields, "target");
    let tags = reader.texts(&fields, "tags").unwrap_or_default();
    let examples = reader.texts(&fields, "examples").unwrap_or_default();
    let version = reader.text(&fields, "version");
    Some(Skill { id: id?, name: name?, description: description?, action, target, tags, examples, version })
}

fn runtime(reader: &mut Reader, fields: &Fields<'_>) -> Option<RuntimeSpec> {
    let Some(at) = fields.value("runtime") else {
        reader.missing(fields, "runtime");
        return None;
    };
    let runtime = reader.fields(at, "runtime", &RUNTIME_KEYS)?;
    let given: Vec<(&str, &At)> = RUNTIME_KEYS.iter().filter_map(|key| Some((*key, runtime.value(key)?))).collect();
    match given.as_slice() {
        [("native", at)] => native(reader, at),
        [("process", at)] => process(reader, at),
        [("model", at)] => model(reader, at),
        [("wasm", at)] => {
            let fields = reader.fields(at, "runtime.wasm", &WASM_KEYS)?;
            Some(RuntimeSpec::Wasm { module: reader.needed(&fields, "module")?.into() })
        }
        [("remote", at)] => {
            let fields = reader.fields(at, "runtime.remote", &REMOTE_KEYS)?;
            let (secret, card) = (reader.text(&fields, "secret"), reader.text(&fields, "card"));
            let (signed_by, leads_to) = (reader.text(&fields, "signed_by"), places(reader, &fields));
            Some(RuntimeSpec::Remote {
                url: reader.needed(&fields, "url")?,
                secret,
                card,
                signed_by,
                leads_to: leads_to?,
            })
        }
        given => {
            let found = if given.is_empty() { "none is given" } else { "more than one is given" };
            let fix = "Write exactly one of native (an agent of the node's own), process (a program), wasm (a \
                       WebAssembly module), model (a prompt and a model) and remote (a server that speaks A2A)";
            reader.problem("runtime".to_owned(), at.line, "runtime-choice", found.to_owned(), fix.to_owned());
            None
        }
    }
}

fn tools(reader: &mut Reader, fields: &Fields<'_>) -> Option<BTreeMap<String, ToolServerSpec>> {
    let Some(at) = fields.value("tools") else { return Some(BTreeMap::new()) };
    let Node::Map(entries) = &at.node else {
        reader.wrong_type("tools".to_owned(), at, "a map");
        return None;
    };
    let server = |entry: &Entry| Some((entry.key.clone(), tool_server(reader, &entry.key, &entry.value)?));
    Some(entries.iter().filter_map(server).collect())
}

fn tool_server(reader: &mut Reader, name: &str, at: &At) -> Option<ToolServerSpec> {
    let path = format!("tools.{}", excerpt(name, 80));
    let fields = reader.fields(at, &path, &TOOLS_KEYS)?;
    if fields.has("sandbox") && !fields.has("command") {
        let message = "only a program runs in a sandbox".to_owned();
        reader.refuse(&fields, "sandbox", "no-program", message, "Remove it, or write `command`".to_owned());
    }
    match (fields.value("command"), fields.value("url"), fields.value("thing")) {
        (Some(_), None, None) => {
            let command = reader.list(&fields, "command", Reader::argument)?;
            let cwd = reader.text(&fields, "cwd").map(PathBuf::from);
            let (env, env_secrets) = (variables(reader, &fields, "env"), variables(reader, &fields, "env_secrets"));
            let sandbox = sandbox::sandbox(reader, &fields)?;
            Some(ToolServerSpec::Command { command, cwd, env: env?, env_secrets: env_secrets?, sandbox })
        }
        (None, Some(_), None) => {
            let (secret, leads_to) = (reader.text(&fields, "secret"), places(reader, &fields));
            Some(ToolServerSpec::Url { url: reader.text(&fields, "url")?, secret, leads_to: leads_to? })
        }
        (None, None, Some(_)) => {
            let (secret, td) = (reader.text(&fields, "secret"), reader.text(&fields, "td"));
            let leads_to = places(reader, &fields);
            let allow = match fields.value("allow") {
                Some(_) => reader.texts(&fields, "allow")?,
                None => Vec::new(),
            };
            let thing = reader.text(&fields, "thing")?;
            Some(ToolServerSpec::Thing { thing, secret, allow, td, leads_to: leads_to? })
        }
        _ => {
            let fix = "Write exactly one of command (a program that speaks MCP), url (a server that speaks MCP) and thing (a Thing \
                       Description)";
            let message = "none or several of them are given".to_owned();
            reader.problem(path, at.line, "tools-choice", message, fix.to_owned());
            None
        }
    }
}

/// The places to which the name in an address may lead.
fn places(reader: &mut Reader, fields: &Fields<'_>) -> Option<Vec<Place>> {
    let words = Place::ALL.map(Place::word);
    let place = |word: &String| Place::ALL.into_iter().find(|place| place.word() == word);
    let mut all = Vec::new();
    for word in reader.distinct(fields, "leads_to") {
        let Some(place) = place(&word) else {
            let message = format!("{:?} is not one of the words it may be", excerpt(&word, 80));
            reader.refuse(fields, "leads_to", "unknown-word", message, did_you_mean(&word, &words));
            return None;
        };
        all.push(place);
    }
    Some(all)
}

fn model(reader: &mut Reader, at: &At) -> Option<RuntimeSpec> {
    let fields = reader.fields(at, "runtime.model", &MODEL_KEYS)?;
    let prompt = reader.needed(&fields, "prompt");
    let endpoints = match fields.value("endpoints") {
        Some(_) => reader.list(&fields, "endpoints", endpoint),
        None => Some(Vec::new()),
    };
    let temperature = match fields.value("temperature").map(|at| (at, &at.node)) {
        None => None,
        Some((_, Node::Number(number))) => number.as_f64(),
        Some((at, _)) => {
            reader.wrong_type(fields.path_of("temperature"), at, "a number");
            return None;
        }
    };
    Some(RuntimeSpec::Model { prompt: prompt?, endpoints: endpoints?, temperature })
}

fn endpoint(reader: &mut Reader, at: &At, path: String) -> Option<ModelEndpoint> {
    let fields = reader.fields(at, &path, &ENDPOINT_KEYS)?;
    let (url, model) = (reader.needed(&fields, "url"), reader.needed(&fields, "model"));
    Some(ModelEndpoint {
        url: url?,
        model: model?,
        secret: reader.text(&fields, "secret"),
        name: reader.text(&fields, "name"),
        version: reader.text(&fields, "version"),
        context_tokens: reader.whole(&fields, "context_tokens"),
        quantisation: reader.text(&fields, "quantisation"),
        ttft_ms: reader.whole(&fields, "ttft_ms"),
        cost: reader.whole(&fields, "cost"),
        clearance: clearance(reader, &fields),
        tier: reader.number(&fields, "tier", 0..=ToolTerms::TIER_MAX),
    })
}

fn clearance(reader: &mut Reader, fields: &Fields<'_>) -> Option<DataLabel> {
    let written = reader.text(fields, "clearance")?;
    let all = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
    let found = all.into_iter().find(|label| label.name() == written);
    if found.is_none() {
        let path = fields.path_of("clearance");
        let message = format!("{written:?} is no label of data");
        let fix = "Write public, internal, confidential or restricted".to_owned();
        reader.problem(path, fields.line, "clearance", message, fix);
    }
    found
}

fn native(reader: &mut Reader, at: &At) -> Option<RuntimeSpec> {
    let fields = reader.fields(at, "runtime.native", &NATIVE_KEYS)?;
    let builtin = reader.needed(&fields, "builtin")?;
    Some(RuntimeSpec::Native { builtin, config: fields.value("config").map_or(Value::Null, At::to_json) })
}

fn process(reader: &mut Reader, at: &At) -> Option<RuntimeSpec> {
    let fields = reader.fields(at, "runtime.process", &PROCESS_KEYS)?;
    if fields.value("command").is_none() {
        reader.missing(&fields, "command");
    }
    let command = reader.list(&fields, "command", Reader::argument);
    let cwd = reader.text(&fields, "cwd").map(PathBuf::from);
    let env = variables(reader, &fields, "env");
    let startup_timeout_ms = milliseconds(reader, &fields, "startup_timeout_ms");
    let (port, sandbox) = (port(reader, &fields), sandbox::sandbox(reader, &fields));
    Some(RuntimeSpec::Process {
        command: command?,
        cwd,
        env: env?,
        startup_timeout_ms: startup_timeout_ms?,
        port: port?,
        sandbox: sandbox?,
    })
}

fn port(reader: &mut Reader, fields: &Fields<'_>) -> Option<Option<ProgramPort>> {
    let Some(at) = fields.value("port") else { return Some(None) };
    if matches!(&at.node, Node::Text(word) if word == "tcp") {
        return Some(Some(ProgramPort::Tcp));
    }
    reader.wrong_type(fields.path_of("port"), at, "the word tcp; the node chooses the number");
    None
}

fn variables(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<BTreeMap<String, String>> {
    let Some(at) = fields.value(key) else { return Some(BTreeMap::new()) };
    let path = fields.path_of(key);
    let Node::Map(entries) = &at.node else {
        reader.wrong_type(path, at, "a map");
        return None;
    };
    let variable = |e: &Entry| Some((e.key.clone(), reader.argument(&e.value, format!("{path}.{}", e.key))?));
    Some(entries.iter().filter_map(variable).collect())
}

fn milliseconds(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Option<u64> {
    let Some(at) = fields.value(key) else { return Some(STARTUP_TIMEOUT_MS_DEFAULT) };
    let whole = match &at.node {
        Node::Number(n) => n.as_u64(),
        _ => None,
    };
    if whole.is_none() {
        reader.wrong_type(fields.path_of(key), at, "a whole number of milliseconds");
    }
    whole
}

/// The contract, written here or named by its file.
/// With a role it need not be whole: the node fills it in.
fn requested(
    reader: &mut Reader,
    fields: &Fields<'_>,
    with_role: bool,
) -> (Option<Value>, Option<Contract>, Option<PathBuf>) {
    let Some(at) = fields.value("contract") else { return (None, None, None) };
    if let Node::Text(file) = &at.node {
        return (None, None, Some(PathBuf::from(file)));
    }
    if with_role {
        return (Some(at.to_json()), None, None);
    }
    match contract(at, "contract") {
        Ok(contract) => (Some(at.to_json()), Some(contract), None),
        Err(problems) => {
            reader.problems.extend(problems);
            (None, None, None)
        }
    }
}

fn callers(reader: &mut Reader, fields: &Fields<'_>) -> Option<Callers> {
    let Some(at) = fields.value("callers") else { return Some(Callers::default()) };
    if matches!(at.node, Node::List(_)) {
        return reader.texts(fields, "callers").map(Callers::Listed);
    }
    let or = ", or a list of owners (urn:althing:zQm…) and nodes (did:key:z6Mk…)";
    reader.word(fields, "callers", (&Callers::WORDS, or), Callers::from_word)
}

fn exposure(reader: &mut Reader, fields: &Fields<'_>) -> Option<Exposure> {
    if fields.value("exposure").is_none() {
        return Some(Exposure::default());
    }
    reader.word(fields, "exposure", (&Exposure::WORDS, ""), Exposure::from_word)
}

fn asks_as(reader: &mut Reader, fields: &Fields<'_>) -> Option<AsksAs> {
    if fields.value("asks_as").is_none() {
        return Some(AsksAs::default());
    }
    reader.word(fields, "asks_as", (&AsksAs::WORDS, ""), AsksAs::from_word)
}

fn session(reader: &mut Reader, fields: &Fields<'_>) -> Option<SessionSpec> {
    let Some(at) = fields.value("session") else { return Some(SessionSpec::default()) };
    let fields = reader.fields(at, "session", &SESSION_KEYS)?;
    if !fields.has("resume") {
        return Some(SessionSpec::default());
    }
    let resume = reader.word(&fields, "resume", (&Resume::WORDS, ""), Resume::from_word)?;
    Some(SessionSpec { resume: Some(resume) })
}
