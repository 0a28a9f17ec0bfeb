//! Agent files for what exists already: an A2A agent elsewhere, the tools of an MCP server, or a Thing.

mod changes;
mod environment;
mod things;

pub use changes::{Change, changes};
pub use environment::{drop_environment, keep_environment, kept_environment};

use std::collections::BTreeSet;
use std::path::Path;

use a2a::{AgentCard, AgentSkill};
use althing_execution::definition::{Definition, Pins};
use althing_execution::process::CARD_PLACES;
use althing_execution::{Host, Lacks, Needs, agreed_digest, http};
use althing_protocol::contract::{Class, ContractProblem, Security, Srt};
use althing_protocol::{Contract, digest, hex};
use althing_td::words::{id, line, text};
use althing_td::{
    AgentFile, Callers, DESCRIPTION_CHARS_MAX, Demand, EXAMPLE_CHARS_MAX, EXAMPLES_MAX, Environment, MODES_MAX,
    NAME_CHARS_MAX, Place, RuntimeSpec, SKILLS_MAX, Sandbox, Skill, TAG_CHARS_MAX, TAGS_MAX, TITLE_CHARS_MAX,
    ToolServerSpec, VERSION_DEFAULT,
};
use althing_things::{CardSignature, Entry, Found, Omissions, Unrecognised, recognise};
use serde::Serialize;
use serde_json::{Map, Value};

/// Names of tools in one sentence.
const NAMED_MAX: usize = 8;
/// The server of tools in the agent file of an MCP server.
const SERVER: &str = "server";

/// The most tools that a contract names.
const TOOLS_MAX: usize = 256;

/// Programs whose first argument names what they run.
const INTERPRETERS: [&str; 8] = ["python", "node", "npx", "uvx", "deno", "bun", "ruby", "sh"];

/// What to adopt, and how.
#[derive(Debug, Clone)]
pub struct Adoption {
    /// Where it is, or how it is started.
    pub at: ToolServerSpec,
    /// Its name here; by default its own.
    pub name: Option<String>,
    /// Who may call it, and so see it.
    pub callers: Callers,
    /// Origins beside its own to which the forms of a Thing may lead.
    pub allow: Vec<String>,
    /// The variables that its program is given.
    pub environment: Environment,
}

/// What is there.
#[derive(Debug, Clone)]
pub enum Offer {
    /// Something that becomes an agent.
    One(Box<Draft>),
    /// A directory, with its Things, and what it has beside.
    Directory(Vec<Entry>, Omissions),
}

/// What was found, and the agent file for it.
#[derive(Debug, Clone)]
pub struct Draft {
    /// `A2A agent`, `MCP server` or `Thing`.
    pub kind: &'static str,
    /// The agent file.
    pub file: AgentFile,
    /// The definitions of its tools, as they were found: no others are called.
    pub pins: Option<Pins>,
    /// Who signed the card of an A2A agent, in words.
    pub signature: Option<String>,
    /// For each tool of a Thing, the method and the address to which it leads.
    pub requests: Vec<String>,
    /// What of it is left out, and why.
    pub left_out: Vec<(String, String)>,
    /// What its program was refused while it was looked at; nobody agrees to that.
    pub lacks: Lacks,
}

/// What is agreed to of a draft, in the order in which its digest is computed.
#[derive(Serialize)]
struct Agreement<'a> {
    file: &'a AgentFile,
    tools: Option<&'a Pins>,
}

impl Draft {
    /// The digest of everything that is agreed to: the agent file, and the definitions of tools.
    #[must_use]
    pub fn digest(&self) -> String {
        let whole = serde_json::to_value(Agreement { file: &self.file, tools: self.pins.as_ref() });
        let whole = whole.expect("an agent file and definitions are JSON");
        hex(&digest(whole.to_string().as_bytes()))
    }
}

/// What an adopted agent is, as its agent file says; nothing for other agents.
#[must_use]
pub fn adopted(file: &AgentFile) -> Option<Adoption> {
    let at = match &file.runtime {
        RuntimeSpec::Remote { url, secret, leads_to, .. } => {
            ToolServerSpec::Url { url: url.clone(), secret: secret.clone(), leads_to: leads_to.clone() }
        }
        RuntimeSpec::Native { builtin, .. } if builtin == "tools" => {
            file.tools.get(SERVER).or_else(|| file.tools.get(things::SERVER))?.clone()
        }
        _ => return None,
    };
    let allow = match &at {
        ToolServerSpec::Thing { allow, .. } => allow.clone(),
        ToolServerSpec::Command { .. } | ToolServerSpec::Url { .. } => Vec::new(),
    };
    let (name, callers) = (Some(file.name.clone()), file.callers.clone());
    // Its variables are in the file, by their secrets.
    Some(Adoption { at, name, callers, allow, environment: Environment::default() })
}

/// Why something cannot be adopted.
#[derive(Debug, thiserror::Error)]
pub enum AdoptError {
    /// Nothing was found that can be.
    #[error(transparent)]
    Unrecognised(#[from] Unrecognised),
    /// Its own description makes no agent file.
    #[error("what it says of itself makes no agent file: {0}")]
    Unfit(String),
    /// Where the name in its address leads cannot be found out.
    #[error("{url}: {why}")]
    Nowhere {
        /// The address.
        url: String,
        /// Why.
        why: String,
    },
    /// Its program cannot be given the variables.
    #[error("{0}")]
    Environment(String),
    /// What is granted to programs alone is to be granted to something else.
    #[error("it is no program: what a sandbox permits is for one")]
    NoProgram,
    /// It is many Things.
    #[error("a directory of Things is there by now")]
    Directory,
}

impl Adoption {
    /// What its file grants its program; none if it is no program.
    #[must_use]
    pub fn sandbox(&self) -> Option<&Sandbox> {
        match &self.at {
            ToolServerSpec::Command { sandbox, .. } => Some(sandbox),
            ToolServerSpec::Url { .. } | ToolServerSpec::Thing { .. } => None,
        }
    }

    /// Grants its program this too. A word (`none`, `required`) takes the place of the one that there was.
    ///
    /// # Errors
    /// [`AdoptError::NoProgram`].
    pub fn grant(&mut self, more: &Sandbox) -> Result<(), AdoptError> {
        let ToolServerSpec::Command { sandbox, .. } = &mut self.at else { return Err(AdoptError::NoProgram) };
        if more.demand == Demand::None {
            *sandbox = Sandbox { demand: Demand::None, ..Sandbox::default() };
            return Ok(());
        }
        if sandbox.demand == Demand::None {
            // What is granted something by name is contained.
            (sandbox.demand, sandbox.folder) = (more.demand, more.folder);
        } else if more.demand == Demand::Required {
            sandbox.demand = Demand::Required;
        }
        let hosts = more.egress.iter().map(|egress| egress.host.clone()).collect();
        let needs = Needs { read: more.read.clone(), write: more.write.clone(), hosts };
        *sandbox = needs.added_to(sandbox);
        Ok(())
    }

    /// What its file would grant its program with what that lacks; none if that is no more than it grants.
    #[must_use]
    pub fn offer(&self, lacks: &Lacks) -> Option<Sandbox> {
        let sandbox = self.sandbox().filter(|sandbox| sandbox.demand != Demand::None)?;
        Some(lacks.needs.added_to(sandbox)).filter(|all| all != sandbox)
    }

    /// Looks what is there, and writes an agent file for it.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub async fn draft(&self, host: &Host, folder: &Path) -> Result<Draft, AdoptError> {
        match self.look(host, folder).await? {
            Offer::One(draft) => Ok(*draft),
            Offer::Directory(..) => Err(AdoptError::Directory),
        }
    }

    /// Looks what is there: also a directory of Things.
    ///
    /// # Errors
    /// See [`AdoptError`].
    pub async fn look(&self, host: &Host, folder: &Path) -> Result<Offer, AdoptError> {
        environment::check(&self.environment, &self.at).map_err(AdoptError::Environment)?;
        let mut at = self.at.clone();
        if let ToolServerSpec::Url { url, .. } = &mut at {
            *url = above_card(url).to_owned();
        }
        let mut unplaced: Option<(String, String)> = None;
        if let Some((url, leads_to)) = led(&mut at) {
            // From now on its name may lead to no other place: whoever has the name could lead the node to its own machine.
            match http::places(url).await {
                Ok(places) => *leads_to = places,
                // A proxy may know the name, and nobody else has its certificate.
                Err(_) if url.starts_with("https://") => leads_to.clear(),
                Err(why) => unplaced = Some((url.clone(), why)),
            }
        }
        let server = environment::with_values(&self.environment, &at);
        let (found, lacks) = recognise(host, &server, &self.allow, folder).await?;
        if let Some((url, why)) = unplaced {
            return Err(AdoptError::Nowhere { url, why });
        }
        if matches!(found, Found::Thing(..))
            && let Some((_, leads_to)) = led(&mut at)
        {
            let all = self.and_allowed(leads_to).await?;
            *leads_to = all;
        }
        let draft = match found {
            Found::Directory(entries, unlisted) => return Ok(Offer::Directory(entries, unlisted)),
            found => Draft { lacks, ..self.write(&at, found)? },
        };
        draft.file.check().map_err(|error| AdoptError::Unfit(error.to_string()))?;
        Ok(Offer::One(Box::new(draft)))
    }

    fn write(&self, at: &ToolServerSpec, found: Found) -> Result<Draft, AdoptError> {
        match (found, at) {
            (Found::Agent(card, signature, notes), ToolServerSpec::Url { url, secret, leads_to }) => {
                let mut draft = self.of_agent((url, secret.as_deref(), leads_to), &card, signature)?;
                let read = notes.into_iter().map(|(at, how)| (format!("its card, {at}"), how));
                draft.left_out = read.chain(std::mem::take(&mut draft.left_out)).collect();
                Ok(draft)
            }
            (Found::Agent(..), _) => Err(AdoptError::Unfit("a card comes from an address".to_owned())),
            (Found::Tools(tools, unfit), _) => self.of_tools(at, tools, unfit),
            (Found::Thing(url, plan), _) => self.of_thing(at, url, *plan),
            (Found::Directory(..), _) => Err(AdoptError::Directory),
        }
    }

    fn of_agent(
        &self,
        (url, secret, leads_to): (&str, Option<&str>, &[Place]),
        card: &AgentCard,
        signature: CardSignature,
    ) -> Result<Draft, AdoptError> {
        let mut left_out = Vec::new();
        let skills = unique(card.skills.iter().map(of_skill), &mut left_out);
        let runtime = RuntimeSpec::Remote {
            url: url.to_owned(),
            secret: secret.map(str::to_owned),
            card: Some(agreed_digest(card)),
            signed_by: signature.key.map(|key| key.to_string()),
            leads_to: leads_to.to_vec(),
        };
        let contract = contract(secret.as_slice(), &[])?;
        let mut file = self.file(&card.name, &card.description, skills, runtime, contract);
        if semver::Version::parse(&card.version).is_ok() {
            file.version.clone_from(&card.version);
        }
        let modes = |modes: &[String], fallback: Vec<String>| {
            let fit: Vec<String> = modes.iter().filter(|mode| mode.contains('/')).take(MODES_MAX).cloned().collect();
            if fit.is_empty() { fallback } else { fit }
        };
        file.input_modes = modes(&card.default_input_modes, file.input_modes);
        file.output_modes = modes(&card.default_output_modes, file.output_modes);
        Ok(Draft {
            kind: "A2A agent",
            file,
            pins: None,
            signature: Some(signature.said),
            requests: Vec::new(),
            left_out,
            lacks: Lacks::default(),
        })
    }

    fn of_tools(
        &self,
        at: &ToolServerSpec,
        tools: Vec<Definition>,
        mut left_out: Vec<(String, String)>,
    ) -> Result<Draft, AdoptError> {
        let (mut tools, unnamed): (Vec<Definition>, Vec<_>) =
            tools.into_iter().partition(|tool| contract(&[], &[format!("{SERVER}/{}", tool.name)]).is_ok());
        left_out.extend(unnamed.iter().map(|tool| (tool.shown_name(), "a contract cannot name it".to_owned())));
        if tools.is_empty() {
            return Err(AdoptError::Unfit("a contract can name none of its tools".to_owned()));
        }
        if tools.len() > TOOLS_MAX {
            let beyond: Vec<String> = tools.drain(TOOLS_MAX..).map(|tool| tool.name).collect();
            let why = format!("a contract names at most {TOOLS_MAX} tools: those beyond cannot be called");
            left_out.push((some_of(&beyond), why));
        }
        let skills = unique(tools.iter().map(|tool| of_tool(tool, "mcp")), &mut left_out);
        // By name: what the server offers later was not agreed to.
        let capabilities: Vec<String> = tools.iter().map(|tool| format!("{SERVER}/{}", tool.name)).collect();
        let names: Vec<&str> = tools.iter().map(|tool| tool.name.as_str()).take(8).collect();
        let description = format!("The tools of an MCP server: {}", names.join(", "));
        let runtime = RuntimeSpec::Native { builtin: "tools".to_owned(), config: Value::Null };
        let title = source(at);
        let at = environment::with_secrets(&self.environment, &self.named(&title), at);
        let at = at.map_err(AdoptError::Environment)?;
        let contract = contract(&at.secrets(), &capabilities)?;
        let mut file = self.file(&title, &description, skills, runtime, contract);
        file.tools.insert(SERVER.to_owned(), at);
        file.input_modes = vec!["application/json".to_owned(), "text/plain".to_owned()];
        file.output_modes.clone_from(&file.input_modes);
        Ok(Draft {
            kind: "MCP server",
            file,
            pins: Some(pins(SERVER, tools)),
            signature: None,
            requests: Vec::new(),
            left_out,
            lacks: Lacks::default(),
        })
    }

    /// Its name here.
    fn named(&self, title: &str) -> String {
        self.name.clone().unwrap_or_else(|| slug(&line(title, TITLE_CHARS_MAX)))
    }

    fn file(
        &self,
        title: &str,
        description: &str,
        skills: Vec<Skill>,
        runtime: RuntimeSpec,
        contract: Contract,
    ) -> AgentFile {
        let title = line(title, TITLE_CHARS_MAX);
        AgentFile {
            name: self.named(&title),
            description: text(description, &title, DESCRIPTION_CHARS_MAX),
            title,
            version: VERSION_DEFAULT.to_owned(),
            skills,
            runtime,
            tools: std::collections::BTreeMap::new(),
            effects: std::collections::BTreeMap::new(),
            profiles: std::collections::BTreeMap::new(),
            expose: Vec::new(),
            embeddings: None,
            role: None,
            requested: serde_json::to_value(&contract).ok(),
            contract: Some(contract),
            contract_file: None,
            callers: self.callers.clone(),
            exposure: self.callers.exposure(),
            asks_as: althing_td::AsksAs::default(),
            handoff_signers: Vec::new(),
            session: althing_td::SessionSpec::default(),
            input_modes: vec!["text/plain".to_owned()],
            output_modes: vec!["text/plain".to_owned()],
        }
    }
}

/// The first of these names, and how many more there are.
fn some_of(names: &[String]) -> String {
    let first: Vec<&str> = names.iter().take(NAMED_MAX).map(String::as_str).collect();
    let more = names.len() - first.len();
    let more = if more == 0 { String::new() } else { format!(", and {more} more") };
    first.join(", ") + &more
}

/// The address below which a card is, of the address of that card, or as it is.
fn above_card(url: &str) -> &str {
    CARD_PLACES.iter().find_map(|place| url.strip_suffix(*place)).unwrap_or(url)
}

/// The address of what is adopted, and where its name may lead.
fn led(at: &mut ToolServerSpec) -> Option<(&mut String, &mut Vec<Place>)> {
    match at {
        ToolServerSpec::Url { url, leads_to, .. } | ToolServerSpec::Thing { thing: url, leads_to, .. } => {
            Some((url, leads_to))
        }
        ToolServerSpec::Command { .. } => None,
    }
}

/// The pins of these tools of a server.
fn pins(server: &str, tools: Vec<Definition>) -> Pins {
    tools.into_iter().map(|tool| (format!("{server}/{}", tool.name), tool)).collect()
}

/// Soft real-time, with no other rights than these tools and these secrets.
fn contract(secrets: &[&str], capabilities: &[String]) -> Result<Contract, AdoptError> {
    let secrets: BTreeSet<&str> = secrets.iter().copied().collect();
    let secrets = secrets.into_iter().map(str::to_owned).collect();
    let contract = Contract {
        capabilities: capabilities.to_vec(),
        security: Security { secrets, ..Security::default() },
        ..Contract::of(Class::Srt(Srt::default()))
    };
    let unfit = |problems: Vec<ContractProblem>| {
        AdoptError::Unfit(problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))
    };
    // As it would be written: names that no contract can have are refused.
    let written = serde_json::to_value(&contract).expect("a contract is JSON");
    Contract::from_value(&written).map_err(unfit)
}

/// The skills, without those that have the id of another, or are too many.
fn unique(skills: impl Iterator<Item = Skill>, left_out: &mut Vec<(String, String)>) -> Vec<Skill> {
    let (mut ids, mut kept) = (BTreeSet::new(), Vec::new());
    for skill in skills {
        if kept.len() == SKILLS_MAX {
            left_out
                .push((skill.name, format!("an agent has at most {SKILLS_MAX} skills; it can be called all the same")));
        } else if skill.id.is_empty() || !ids.insert(skill.id.clone()) {
            left_out.push((skill.name, "its id is that of another skill, or none".to_owned()));
        } else {
            kept.push(skill);
        }
    }
    kept
}

fn of_skill(skill: &AgentSkill) -> Skill {
    let name = line(&skill.name, TITLE_CHARS_MAX);
    let examples = skill.examples.iter().flatten().map(|it| text(it, "", EXAMPLE_CHARS_MAX));
    Skill {
        id: id(&skill.id),
        description: text(&skill.description, &name, DESCRIPTION_CHARS_MAX),
        tags: skill
            .tags
            .iter()
            .map(|tag| line(tag, TAG_CHARS_MAX))
            .filter(|tag| !tag.is_empty())
            .take(TAGS_MAX)
            .collect(),
        examples: examples.filter(|example| !example.is_empty()).take(EXAMPLES_MAX).collect(),
        name,
        ..Skill::default()
    }
}

/// A call of a tool, as the example of a skill shows it.
#[derive(Serialize)]
struct ToolExample<'a> {
    tool: &'a str,
    arguments: Map<String, Value>,
}

fn of_tool(tool: &Definition, tag: &str) -> Skill {
    let title = tool.rest.get("title").and_then(Value::as_str).unwrap_or(&tool.name);
    let name = line(title, TITLE_CHARS_MAX);
    let example = ToolExample { tool: &tool.name, arguments: example(&tool.input_schema) };
    let example = serde_json::to_string(&example).ok();
    Skill {
        id: id(&tool.name),
        description: text(&tool.description, &name, DESCRIPTION_CHARS_MAX),
        tags: vec![tag.to_owned()],
        examples: example.filter(|it| it.chars().count() <= EXAMPLE_CHARS_MAX).into_iter().collect(),
        name,
        ..Skill::default()
    }
}

/// Arguments of the right types for what a schema requires.
fn example(schema: &Value) -> Map<String, Value> {
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let value = |name: &str| {
        let of = &schema["properties"][name];
        let first = of["enum"].get(0).or_else(|| of["examples"].get(0)).or_else(|| of.get("default"));
        first.cloned().unwrap_or_else(|| match of["type"].as_str() {
            Some("integer" | "number") => Value::from(1),
            Some("boolean") => Value::from(true),
            Some("array") => Value::Array(Vec::new()),
            Some("object") => Value::Object(Map::new()),
            _ => Value::from("text"),
        })
    };
    required.map(|name| (name.to_owned(), value(name))).collect()
}

/// The name of what is adopted, from its address or its command.
fn source(at: &ToolServerSpec) -> String {
    match at {
        ToolServerSpec::Url { url, .. } | ToolServerSpec::Thing { thing: url, .. } => {
            let rest = url.split_once("://").map_or(url.as_str(), |(_, rest)| rest);
            rest.split(['/', ':']).next().unwrap_or(rest).to_owned()
        }
        ToolServerSpec::Command { command, .. } => {
            // `python3 tools/weather.py`, `npx -y @scope/weather`: what an interpreter runs. No other argument, which may be a
            // secret.
            let mut words = command.iter().filter(|word| !word.starts_with('-')).map(|word| stem(word));
            let program = words.next().unwrap_or_default();
            let is_interpreter = INTERPRETERS.contains(&program.trim_end_matches(|c: char| c.is_ascii_digit()));
            words.next().filter(|_| is_interpreter).unwrap_or(program).to_owned()
        }
    }
}

/// The name of a file without its folder and its endings.
fn stem(path: &str) -> &str {
    let file = path.rsplit('/').next().unwrap_or(path);
    file.split('.').next().unwrap_or(file)
}

/// A name of an agent: `[a-z0-9-]`.
fn slug(title: &str) -> String {
    let words = title.to_lowercase();
    let words = words.split(|c: char| !c.is_ascii_alphanumeric()).filter(|word| !word.is_empty());
    let joined = words.collect::<Vec<_>>().join("-");
    let cut: String = joined.chars().take(NAME_CHARS_MAX).collect();
    let cut = cut.trim_matches('-');
    if cut.is_empty() { "adopted".to_owned() } else { cut.to_owned() }
}

#[cfg(test)]
mod tests;
