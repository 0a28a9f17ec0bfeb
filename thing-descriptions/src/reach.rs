//! What the programs of an agent file ask to reach, in words for whoever decides whether they run here. Pure.

use std::path::{Component, Path, PathBuf};

use crate::agent_file::{AgentFile, Demand, OwnFolder, RuntimeSpec, Sandbox, ToolServerSpec};

/// Characters that are shown of a command.
const COMMAND_CHARS_MAX: usize = 160;

/// The folder of an agent file, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileFolder<'a> {
    /// It is made when the file is installed.
    Unknown,
    /// There.
    At(&'a Path),
    /// There, where also lies what belongs to many, or to the node: no program is granted it because its file lies there.
    Common(&'a Path),
}

/// What each program of an agent file in that folder asks to reach, a sentence each. What the file's author wrote is on one line, and
/// nothing in it is invisible.
#[must_use]
pub fn reach(file: &AgentFile, folder: FileFolder<'_>) -> Vec<String> {
    programs(file).iter().map(|program| program.reach(folder)).collect()
}

/// Why a program of the file is not kept to the folder of the file and to what the file names; none if all are.
#[must_use]
pub fn uncontained(file: &AgentFile) -> Option<String> {
    programs(file).iter().find_map(Program::uncontained)
}

/// A program that an agent file starts.
struct Program<'a> {
    /// The tool server that it is; none if it is the agent itself.
    server: Option<&'a str>,
    command: &'a [String],
    cwd: Option<&'a Path>,
    sandbox: &'a Sandbox,
}

fn programs(file: &AgentFile) -> Vec<Program<'_>> {
    let mut all = Vec::new();
    if let RuntimeSpec::Process { command, cwd, sandbox, .. } = &file.runtime {
        all.push(Program { server: None, command, cwd: cwd.as_deref(), sandbox });
    }
    for (name, server) in &file.tools {
        if let ToolServerSpec::Command { command, cwd, sandbox, .. } = server {
            all.push(Program { server: Some(name), command, cwd: cwd.as_deref(), sandbox });
        }
    }
    all
}

impl Program<'_> {
    fn named(&self) -> String {
        let whole = self.command.iter().map(|written| word(written)).collect::<Vec<_>>().join(" ");
        let cut = match whole.char_indices().nth(COMMAND_CHARS_MAX) {
            Some((end, _)) => format!("{} …", &whole[..end]),
            None => whole,
        };
        match self.server {
            Some(server) => format!("the program {cut} (tools.{})", word(server)),
            None => format!("the program {cut}"),
        }
    }

    fn reach(&self, folder: FileFolder<'_>) -> String {
        let (who, sandbox) = (self.named(), self.sandbox);
        if sandbox.demand == Demand::None {
            return format!("{who} runs without a sandbox: it reaches whatever your account does");
        }
        let verb = if sandbox.folder == OwnFolder::Read { "reads" } else { "reads and writes" };
        let mut all = vec![match folder {
            FileFolder::Unknown => format!("{verb} the folder of its file"),
            FileFolder::At(at) => format!("{verb} {}, the folder of its file", path(at)),
            FileFolder::Common(at) => format!("of {}, the folder of its file, has only what is named here", path(at)),
        }];
        all.extend(self.cwd.map(|cwd| format!("starts in {}, and reads it", path(cwd))));
        // A path that it is told is one that it is to read; the first word is the program itself.
        for told in self.command.iter().skip(1).filter(|told| Path::new(told).is_absolute()) {
            all.push(format!("reads {}, and of a file what lies beside it", word(told)));
        }
        for (verb, paths) in [("reads", &sandbox.read), ("writes", &sandbox.write)] {
            if !paths.is_empty() {
                all.push(format!("{verb} {}", listed(paths)));
            }
        }
        let hosts: Vec<String> = sandbox.egress.iter().map(|egress| word(&egress.host)).collect();
        all.push(if hosts.is_empty() { "reaches no host".to_owned() } else { format!("reaches {}", hosts.join(", ")) });
        for egress in &sandbox.egress {
            let host = word(&egress.host);
            all.extend(egress.secrets().into_iter().map(|secret| format!("uses the secret {secret} at {host}")));
        }
        if sandbox.demand == Demand::Required {
            all.push("does not start where it cannot be contained".to_owned());
        }
        format!("{who} {}", all.join("; "))
    }

    fn uncontained(&self) -> Option<String> {
        if self.sandbox.demand == Demand::None {
            return Some(self.reach(FileFolder::Unknown));
        }
        let is_inside = |part| matches!(part, Component::CurDir | Component::Normal(_));
        let cwd = self.cwd.filter(|cwd| !cwd.components().all(is_inside))?;
        let (who, cwd) = (self.named(), path(cwd));
        Some(format!("{who} starts in {cwd}, and reads that folder, which is none of the release's"))
    }
}

fn listed(paths: &[PathBuf]) -> String {
    paths.iter().map(|one| path(one)).collect::<Vec<_>>().join(", ")
}

fn path(path: &Path) -> String {
    word(&path.to_string_lossy())
}

/// A word as it stands there, in quotes and with escapes where it could be taken for more than one, or for another.
fn word(written: &str) -> String {
    let is_plain = |c: char| c.is_ascii_graphic() && !"\"\\,;()".contains(c);
    if !written.is_empty() && written.chars().all(is_plain) { written.to_owned() } else { format!("{written:?}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> AgentFile {
        let text = format!("name: a\ndescription: Says it.\n{text}\n");
        AgentFile::parse(&text).unwrap_or_else(|error| panic!("{text}\n{error}"))
    }

    fn of_process(rest: &str) -> String {
        let file = file(&format!("runtime: {{ process: {{ {rest} }} }}"));
        reach(&file, FileFolder::Unknown).pop().expect("it has a program")
    }

    #[test]
    fn a_program_asks_for_its_folder_and_for_what_its_file_names() {
        let rest = "reads and writes the folder of its file; reaches no host";
        assert_eq!(of_process("command: [python3, agent.py]"), format!("the program python3 agent.py {rest}"));
        let host = "{ host: api.openai.com, variable: URL, headers: { Authorization: \"Bearer {KEY}\" } }";
        let sandbox = format!(
            "sandbox: {{ required: true, read: [~/models, /srv/maps], write: [~/.cache/uv], egress: [api.example.org, {host}] }}"
        );
        assert_eq!(
            of_process(&format!("command: [npx, -y, box, /srv/a.json], cwd: code, {sandbox}")),
            "the program npx -y box /srv/a.json reads and writes the folder of its file; starts in code, and reads it; reads /srv/a.json, and of a file what lies beside it; \
             reads ~/models, /srv/maps; writes ~/.cache/uv; reaches api.example.org, api.openai.com; \
             uses the secret KEY at api.openai.com; does not start where it cannot be contained"
        );
        let tools = file("runtime: { native: { builtin: echo } }\ntools: { box: { command: [a], sandbox: none } }");
        assert_eq!(
            reach(&tools, FileFolder::Unknown),
            ["the program a (tools.box) runs without a sandbox: it reaches whatever your account does"]
        );
        assert_eq!(reach(&file("runtime: { native: { builtin: echo } }"), FileFolder::Unknown), [""; 0]);
    }

    #[test]
    fn the_folder_of_the_file_is_named_where_it_is_known() {
        let of = |sandbox: &str, folder| {
            let file = file(&format!("runtime: {{ process: {{ command: [a], sandbox: {sandbox} }} }}"));
            reach(&file, folder).pop().expect("it has a program")
        };
        let at = Path::new("/home/me/a b");
        for (sandbox, folder, said) in [
            ("{}", FileFolder::At(at), "reads and writes \"/home/me/a b\", the folder of its file; reaches"),
            ("{ folder: read }", FileFolder::At(at), "reads \"/home/me/a b\", the folder of its file; reaches"),
            ("{ folder: read }", FileFolder::Unknown, "reads the folder of its file; reaches"),
            (
                "{ folder: read }",
                FileFolder::Common(Path::new("/home/me")),
                "of /home/me, the folder of its file, has only",
            ),
        ] {
            let told = of(sandbox, folder);
            assert!(told.starts_with(&format!("the program a {said}")), "{told}");
        }
    }

    #[test]
    fn no_word_looks_like_another_sentence() {
        let command = "command: [a, \"b; reaches no host\", \"c\\nd\"]";
        let said = of_process(&format!("{command}, sandbox: {{ read: [\"/a, /b\", \"/\\u202ec\"] }}"));
        assert!(said.starts_with(r#"the program a "b; reaches no host" "c\nd" reads and"#), "{said}");
        assert!(said.contains(r#"reads "/a, /b", "/\u{202e}c"; reaches no host"#), "{said}");
        let long = of_process(&format!("command: [{}]", "x".repeat(4_000)));
        assert!(long.contains("xx … reads and") && long.chars().count() < 300, "{long}");
    }

    #[test]
    fn a_program_is_contained_unless_it_says_so_or_starts_elsewhere() {
        let of = |rest: &str| uncontained(&file(&format!("runtime: {{ process: {{ command: [a], {rest} }} }}")));
        for contained in ["cwd: ./code", "cwd: .", "sandbox: required", "sandbox: { read: [/srv], write: [~/x] }"] {
            assert_eq!(of(contained), None, "{contained}");
        }
        for (rest, said) in [
            ("sandbox: none", "without a sandbox"),
            ("cwd: /srv/agent", "starts in /srv/agent"),
            ("cwd: code/../..", "starts in code/../.."),
        ] {
            let why = of(rest).expect(rest);
            assert!(why.starts_with("the program a ") && why.contains(said), "{why}");
        }
    }
}
