//! From the YAML tree to an agent file: known and required keys, types and defaults. The values are checked in `check`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use althing_protocol::Contract;
use althing_protocol::contract::{ContractProblem, DataLabel, did_you_mean};
use serde_json::Value;

use super::yaml::{At, Entry, Node};
use super::{
    AgentFile, AgentFileProblem, AsksAs, Callers, Exposure, MODE_DEFAULT, ModelEndpoint, ProgramPort, RuntimeSpec,
    STARTUP_TIMEOUT_MS_DEFAULT, Skill, ToolServerSpec, VERSION_DEFAULT,
};
use crate::json::excerpt;

const FILE_KEYS: [&str; 15] = [
    "name",
    "title",
    "description",
    "version",
    "skills",
    "runtime",
    "tools",
    "embeddings",
    "role",
    "contract",
    "callers",
    "exposure",
    "asks_as",
    "input_modes",
    "output_modes",
];
const SKILL_KEYS: [&str; 8] = ["id", "name", "description", "action", "target", "tags", "examples", "version"];
const RUNTIME_KEYS: [&str; 4] = ["native", "process", "wasm", "model"];
const MODEL_KEYS: [&str; 3] = ["prompt", "endpoints", "temperature"];
const TOOLS_KEYS: [&str; 5] = ["command", "cwd", "env", "url", "secret"];
const ENDPOINT_KEYS: [&str; 10] =
    ["url", "model", "secret", "name", "version", "context_tokens", "quantisation", "ttft_ms", "cost", "clearance"];
const NATIVE_KEYS: [&str; 2] = ["builtin", "config"];
const WASM_KEYS: [&str; 1] = ["module"];
const PROCESS_KEYS: [&str; 5] = ["command", "cwd", "env", "startup_timeout_ms", "port"];

/// The file as far as its shape is right, and the problems. A file with problems is returned only so that its values can be
/// checked in the same run.
pub(super) fn read(root: &At) -> (Option<AgentFile>, Vec<AgentFileProblem>) {
    let mut reader = Reader { problems: Vec::new() };
    let file = reader.file(root);
    (file, reader.problems)
}

/// The contract at `at`, whose path is `path`.
pub(super) fn contract(at: &At, path: &str) -> Result<Contract, Vec<AgentFileProblem>> {
    let located = |problem: ContractProblem| {
        let line = at.line_of(&problem.field).or((at.line > 0).then_some(at.line));
        let field = match (path, problem.field.as_str()) {
            ("", field) | (field, "") => field.to_owned(),
            (path, field) => format!("{path}.{field}"),
        };
        AgentFileProblem { field, line, rule: problem.rule, message: problem.message, fix: problem.fix }
    };
    Contract::from_value(&at.to_json()).map_err(|problems| problems.into_iter().map(located).collect())
}

struct Reader {
    problems: Vec<AgentFileProblem>,
}

/// A map with known keys, and its position.
struct Fields<'a> {
    path: String,
    line: u64,
    entries: &'a [Entry],
}

impl<'a> Fields<'a> {
    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }

    /// The value of a key; none if the key is absent or empty.
    fn value(&self, key: &str) -> Option<&'a At> {
        self.entries.iter().find(|e| e.key == key).map(|e| &e.value).filter(|at| at.node != Node::Null)
    }
}

impl Reader {
    fn problem(&mut self, field: String, line: u64, rule: &'static str, message: String, fix: String) {
        self.problems.push(AgentFileProblem { field, line: (line > 0).then_some(line), rule, message, fix });
    }

    fn wrong_type(&mut self, field: String, at: &At, wanted: &str) {
        let message = format!("this is {}, not {wanted}", at.kind());
        let fix = match (&at.node, wanted) {
            (Node::Number(n), "text") => format!("Put it in quotes: \"{n}\""),
            (Node::Bool(b), "text") => format!("Put it in quotes: \"{b}\""),
            _ => format!("Write {wanted}"),
        };
        self.problem(field, at.line, "wrong-type", message, fix);
    }

    fn fields<'a>(&mut self, at: &'a At, path: &str, known: &[&str]) -> Option<Fields<'a>> {
        let Node::Map(entries) = &at.node else {
            self.wrong_type(path.to_owned(), at, "a map");
            return None;
        };
        let fields = Fields { path: path.to_owned(), line: at.line, entries };
        for entry in entries.iter().filter(|e| !known.contains(&e.key.as_str())) {
            let key = excerpt(&entry.key, 80);
            let fix = did_you_mean(&entry.key, known);
            self.problem(fields.path_of(&key), entry.line, "unknown-key", "this key is not known".to_owned(), fix);
        }
        Some(fields)
    }

    fn missing(&mut self, fields: &Fields<'_>, key: &str) {
        let message = "this is missing".to_owned();
        self.problem(fields.path_of(key), fields.line, "missing", message, format!("Add {key:?}"));
    }

    fn text(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        let at = fields.value(key)?;
        match &at.node {
            Node::Text(text) => Some(text.clone()),
            _ => {
                self.wrong_type(fields.path_of(key), at, "text");
                None
            }
        }
    }

    fn needed(&mut self, fields: &Fields<'_>, key: &str) -> Option<String> {
        if fields.value(key).is_none() {
            self.missing(fields, key);
        }
        self.text(fields, key)
    }

    /// Each item of an optional list, read by `item`.
    fn list<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        mut item: impl FnMut(&mut Reader, &At, String) -> Option<T>,
    ) -> Option<Vec<T>> {
        let at = fields.value(key)?;
        let path = fields.path_of(key);
        let Node::List(items) = &at.node else {
            self.wrong_type(path, at, "a list");
            return None;
        };
        Some(items.iter().enumerate().filter_map(|(n, at)| item(self, at, format!("{path}[{n}]"))).collect())
    }

    fn texts(&mut self, fields: &Fields<'_>, key: &str) -> Option<Vec<String>> {
        self.list(fields, key, |reader, at, path| match &at.node {
            Node::Text(text) => Some(text.clone()),
            _ => {
                reader.wrong_type(path, at, "text");
                None
            }
        })
    }

    /// An argument or a variable: text, or a whole number or a truth value as it is written (a float is not, since
    /// `1.10` would arrive as `1.1`).
    fn argument(&mut self, at: &At, path: String) -> Option<String> {
        match &at.node {
            Node::Text(text) => Some(text.clone()),
            Node::Number(n) if !n.is_f64() => Some(n.to_string()),
            Node::Bool(b) => Some(b.to_string()),
            _ => {
                self.wrong_type(path, at, "text");
                None
            }
        }
    }

    fn file(&mut self, root: &At) -> Option<AgentFile> {
        let fields = self.fields(root, "", &FILE_KEYS)?;
        let name = self.needed(&fields, "name");
        let title = self.text(&fields, "title").or_else(|| name.clone());
        let description = self.needed(&fields, "description");
        let version = self.text(&fields, "version").unwrap_or_else(|| VERSION_DEFAULT.to_owned());
        let skills = self.list(&fields, "skills", |reader, at, path| reader.skill(at, &path)).unwrap_or_default();
        let runtime = self.runtime(&fields);
        let tools = self.tools(&fields);
        let embeddings = fields.value("embeddings").map(|at| self.endpoint(at, "embeddings".to_owned()));
        let role = self.text(&fields, "role");
        let (requested, contract, contract_file) = self.contract(&fields, role.is_some());
        let callers = self.callers(&fields);
        let exposure = self.exposure(&fields);
        let asks_as = self.asks_as(&fields);
        let mode = || vec![MODE_DEFAULT.to_owned()];
        let input_modes = self.texts(&fields, "input_modes").unwrap_or_else(mode);
        let output_modes = self.texts(&fields, "output_modes").unwrap_or_else(mode);
        Some(AgentFile {
            name: name?,
            title: title?,
            description: description?,
            version,
            skills,
            runtime: runtime?,
            tools: tools?,
            role,
            requested,
            embeddings: embeddings.map_or(Some(None), |given| given.map(Some))?,
            contract,
            contract_file,
            callers: callers?,
            exposure: exposure?,
            asks_as: asks_as?,
            input_modes,
            output_modes,
        })
    }

    fn skill(&mut self, at: &At, path: &str) -> Option<Skill> {
        let fields = self.fields(at, path, &SKILL_KEYS)?;
        let id = self.needed(&fields, "id");
        let name = self.needed(&fields, "name");
        let description = self.needed(&fields, "description");
        let action = self.text(&fields, "action");
        let target = self.text(&fields, "target");
        let tags = self.texts(&fields, "tags").unwrap_or_default();
        let examples = self.texts(&fields, "examples").unwrap_or_default();
        let version = self.text(&fields, "version");
        Some(Skill { id: id?, name: name?, description: description?, action, target, tags, examples, version })
    }

    fn runtime(&mut self, fields: &Fields<'_>) -> Option<RuntimeSpec> {
        let Some(at) = fields.value("runtime") else {
            self.missing(fields, "runtime");
            return None;
        };
        let runtime = self.fields(at, "runtime", &RUNTIME_KEYS)?;
        let given: Vec<(&str, &At)> = RUNTIME_KEYS.iter().filter_map(|key| Some((*key, runtime.value(key)?))).collect();
        match given.as_slice() {
            [("native", native)] => self.native(native),
            [("process", process)] => self.process(process),
            [("model", model)] => self.model(model),
            [("wasm", wasm)] => {
                let fields = self.fields(wasm, "runtime.wasm", &WASM_KEYS)?;
                Some(RuntimeSpec::Wasm { module: self.needed(&fields, "module")?.into() })
            }
            given => {
                let found = if given.is_empty() { "none is given" } else { "more than one is given" };
                let fix = "Write exactly one of native (an agent of the node's own), process (a program), wasm (a \
                           WebAssembly module) and model (a prompt and a model)";
                self.problem("runtime".to_owned(), at.line, "runtime-choice", found.to_owned(), fix.to_owned());
                None
            }
        }
    }

    fn tools(&mut self, fields: &Fields<'_>) -> Option<BTreeMap<String, ToolServerSpec>> {
        let Some(at) = fields.value("tools") else { return Some(BTreeMap::new()) };
        let Node::Map(entries) = &at.node else {
            self.wrong_type("tools".to_owned(), at, "a map");
            return None;
        };
        let server = |entry: &Entry| Some((entry.key.clone(), self.tool_server(&entry.key, &entry.value)?));
        Some(entries.iter().filter_map(server).collect())
    }

    fn tool_server(&mut self, name: &str, at: &At) -> Option<ToolServerSpec> {
        let path = format!("tools.{}", excerpt(name, 80));
        let fields = self.fields(at, &path, &TOOLS_KEYS)?;
        match (fields.value("command"), fields.value("url")) {
            (Some(_), None) => {
                let command = self.list(&fields, "command", Reader::argument)?;
                let cwd = self.text(&fields, "cwd").map(PathBuf::from);
                Some(ToolServerSpec::Command { command, cwd, env: self.env(&fields)? })
            }
            (None, Some(_)) => {
                let secret = self.text(&fields, "secret");
                Some(ToolServerSpec::Url { url: self.text(&fields, "url")?, secret })
            }
            _ => {
                let fix = "Write exactly one of command (a program that speaks MCP) and url".to_owned();
                self.problem(path, at.line, "tools-choice", "neither or both of them are given".to_owned(), fix);
                None
            }
        }
    }

    fn model(&mut self, at: &At) -> Option<RuntimeSpec> {
        let fields = self.fields(at, "runtime.model", &MODEL_KEYS)?;
        let prompt = self.needed(&fields, "prompt");
        let endpoints = match fields.value("endpoints") {
            Some(_) => self.list(&fields, "endpoints", Reader::endpoint),
            None => Some(Vec::new()),
        };
        let temperature = match fields.value("temperature").map(|at| (at, &at.node)) {
            None => None,
            Some((_, Node::Number(number))) => number.as_f64(),
            Some((at, _)) => {
                self.wrong_type(fields.path_of("temperature"), at, "a number");
                return None;
            }
        };
        Some(RuntimeSpec::Model { prompt: prompt?, endpoints: endpoints?, temperature })
    }

    fn endpoint(&mut self, at: &At, path: String) -> Option<ModelEndpoint> {
        let fields = self.fields(at, &path, &ENDPOINT_KEYS)?;
        let (url, model) = (self.needed(&fields, "url"), self.needed(&fields, "model"));
        Some(ModelEndpoint {
            url: url?,
            model: model?,
            secret: self.text(&fields, "secret"),
            name: self.text(&fields, "name"),
            version: self.text(&fields, "version"),
            context_tokens: self.whole(&fields, "context_tokens"),
            quantisation: self.text(&fields, "quantisation"),
            ttft_ms: self.whole(&fields, "ttft_ms"),
            cost: self.whole(&fields, "cost"),
            clearance: self.clearance(&fields),
        })
    }

    fn clearance(&mut self, fields: &Fields<'_>) -> Option<DataLabel> {
        let written = self.text(fields, "clearance")?;
        let all = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
        let found = all.into_iter().find(|label| label.name() == written);
        if found.is_none() {
            let path = fields.path_of("clearance");
            let message = format!("{written:?} is no label of data");
            let fix = "Write public, internal, confidential or restricted".to_owned();
            self.problem(path, fields.line, "clearance", message, fix);
        }
        found
    }

    fn whole(&mut self, fields: &Fields<'_>, key: &str) -> Option<u64> {
        let at = fields.value(key)?;
        let whole = match &at.node {
            Node::Number(n) => n.as_u64(),
            _ => None,
        };
        if whole.is_none() {
            self.wrong_type(fields.path_of(key), at, "a whole number");
        }
        whole
    }

    fn native(&mut self, at: &At) -> Option<RuntimeSpec> {
        let fields = self.fields(at, "runtime.native", &NATIVE_KEYS)?;
        let builtin = self.needed(&fields, "builtin")?;
        Some(RuntimeSpec::Native { builtin, config: fields.value("config").map_or(Value::Null, At::to_json) })
    }

    fn process(&mut self, at: &At) -> Option<RuntimeSpec> {
        let fields = self.fields(at, "runtime.process", &PROCESS_KEYS)?;
        if fields.value("command").is_none() {
            self.missing(&fields, "command");
        }
        let command = self.list(&fields, "command", Reader::argument);
        let cwd = self.text(&fields, "cwd").map(PathBuf::from);
        let env = self.env(&fields);
        let startup_timeout_ms = self.milliseconds(&fields, "startup_timeout_ms");
        let port = self.port(&fields);
        Some(RuntimeSpec::Process {
            command: command?,
            cwd,
            env: env?,
            startup_timeout_ms: startup_timeout_ms?,
            port: port?,
        })
    }

    fn port(&mut self, fields: &Fields<'_>) -> Option<Option<ProgramPort>> {
        let Some(at) = fields.value("port") else { return Some(None) };
        if matches!(&at.node, Node::Text(word) if word == "tcp") {
            return Some(Some(ProgramPort::Tcp));
        }
        self.wrong_type(fields.path_of("port"), at, "the word tcp; the node chooses the number");
        None
    }

    fn env(&mut self, fields: &Fields<'_>) -> Option<BTreeMap<String, String>> {
        let Some(at) = fields.value("env") else { return Some(BTreeMap::new()) };
        let path = fields.path_of("env");
        let Node::Map(entries) = &at.node else {
            self.wrong_type(path, at, "a map");
            return None;
        };
        let variable = |e: &Entry| Some((e.key.clone(), self.argument(&e.value, format!("{path}.{}", e.key))?));
        Some(entries.iter().filter_map(variable).collect())
    }

    fn milliseconds(&mut self, fields: &Fields<'_>, key: &str) -> Option<u64> {
        let Some(at) = fields.value(key) else { return Some(STARTUP_TIMEOUT_MS_DEFAULT) };
        let whole = match &at.node {
            Node::Number(n) => n.as_u64(),
            _ => None,
        };
        if whole.is_none() {
            self.wrong_type(fields.path_of(key), at, "a whole number of milliseconds");
        }
        whole
    }

    /// The contract, written here or named by its file.
    /// With a role it need not be whole: the node fills it in.
    fn contract(&mut self, fields: &Fields<'_>, with_role: bool) -> (Option<Value>, Option<Contract>, Option<PathBuf>) {
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
                self.problems.extend(problems);
                (None, None, None)
            }
        }
    }

    fn callers(&mut self, fields: &Fields<'_>) -> Option<Callers> {
        let Some(at) = fields.value("callers") else { return Some(Callers::default()) };
        if matches!(at.node, Node::List(_)) {
            return self.texts(fields, "callers").map(Callers::Listed);
        }
        self.word(fields, "callers", &Callers::WORDS, Callers::from_word)
    }

    fn exposure(&mut self, fields: &Fields<'_>) -> Option<Exposure> {
        if fields.value("exposure").is_none() {
            return Some(Exposure::default());
        }
        self.word(fields, "exposure", &Exposure::WORDS, Exposure::from_word)
    }

    fn asks_as(&mut self, fields: &Fields<'_>) -> Option<AsksAs> {
        if fields.value("asks_as").is_none() {
            return Some(AsksAs::default());
        }
        self.word(fields, "asks_as", &AsksAs::WORDS, AsksAs::from_word)
    }

    fn word<T>(
        &mut self,
        fields: &Fields<'_>,
        key: &str,
        known: &[&str],
        from_word: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let word = self.text(fields, key)?;
        let found = from_word(&word);
        if found.is_none() {
            let line = fields.value(key).map_or(0, |at| at.line);
            let message = format!("{:?} is not one of the words it may be", excerpt(&word, 80));
            let mut fix = did_you_mean(&word, known);
            if key == "callers" {
                fix.push_str(", or a list of owners (urn:althing:zQm…) and nodes (did:key:z6Mk…)");
            }
            self.problem(fields.path_of(key), line, "unknown-word", message, fix);
        }
        found
    }
}
