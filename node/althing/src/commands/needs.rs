//! What a program needs to start: found out round by round, shown, and granted where somebody agrees.

use std::io::IsTerminal as _;

use althing_api::Offers;
use althing_td::{Demand, Sandbox};
use serde_json::Value;

use crate::args::Adopt;
use crate::commands::agreement::agrees;
use crate::commands::{Out, rows, text};
use crate::exit::{Failure, code};

/// Starts of a program for which something was granted: what it was refused in one may hide what it needs next.
const ROUNDS_MAX: usize = 8;
/// Refusals that are shown.
const REFUSALS_SHOWN: usize = 16;

/// Who decides about what a program needs beyond what the command line grants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Consent {
    /// It was agreed to beforehand.
    Given,
    /// It was declined beforehand, or by now.
    Declined,
    /// Whoever sits at the terminal is asked.
    Asked,
    /// Nobody can be asked, or nothing is to be published.
    Absent,
}

/// The rounds of one program.
#[derive(Debug)]
pub struct Rounds {
    consent: Consent,
    /// What was granted in each.
    granted: Vec<String>,
}

/// What follows an answer of the node.
#[derive(Debug, PartialEq)]
pub enum Next {
    /// It is the last one.
    Done,
    /// Once more, with this.
    Again(Box<Sandbox>),
    /// The program is adopted as it is: what it needs was declined.
    AsItIs,
}

impl Rounds {
    /// As the command line says, and the terminal.
    pub fn new(adopt: &Adopt, out: &Out) -> Rounds {
        let is_alone = out.json || adopt.dry_run || !std::io::stdin().is_terminal();
        let consent = match (adopt.grant_needs, adopt.yes) {
            (true, _) => Consent::Given,
            (_, true) => Consent::Declined,
            _ if is_alone => Consent::Absent,
            _ => Consent::Asked,
        };
        Rounds { consent, granted: Vec::new() }
    }

    /// When the node shall offer what the program needs.
    pub fn offers(&self) -> Offers {
        match self.consent {
            Consent::Declined => Offers::Never,
            Consent::Absent => Offers::Unanswered,
            Consent::Given | Consent::Asked => Offers::Always,
        }
    }

    /// What follows this answer; `command` is what a person would write who grants that.
    ///
    /// # Errors
    /// The program does not answer, and nobody grants it what it needs.
    pub fn after(&mut self, answer: &Value, command: impl Fn(&Sandbox) -> String) -> Result<Next, Failure> {
        let Some(needs) = answer.get("needs").filter(|_| answer.get("added").is_none()) else { return Ok(Next::Done) };
        let sandbox = sandbox(needs).map(Box::new);
        let sandbox =
            sandbox.ok_or_else(|| Failure::failed("the node answers in another way than this program knows"))?;
        let answers = answer.get("unanswered").is_none();
        let is_last = self.granted.len() == ROUNDS_MAX;
        match self.consent {
            Consent::Given if !is_last => {}
            Consent::Asked if !is_last => {
                if !agrees(&shown(answer), "grant") {
                    self.consent = Consent::Declined;
                    let declined = || Failure::new(code::REFUSED, "nothing was changed");
                    return if answers { Ok(Next::AsItIs) } else { Err(declined()) };
                }
            }
            Consent::Given | Consent::Asked => {
                self.consent = Consent::Declined;
                let message = format!("after {ROUNDS_MAX} rounds it needs more\n{}", shown(answer));
                let endless = || refused(self.with_granted(&message), answer);
                return if answers { Ok(Next::AsItIs) } else { Err(endless()) };
            }
            // It answers, and is only looked at, or was declined what it needs.
            Consent::Absent | Consent::Declined if answers => return Ok(Next::Done),
            Consent::Absent | Consent::Declined => {
                let shown = shown(answer);
                let how =
                    format!("this grants it:\n\n    {}\n\nand --grant-needs whatever is found", command(&sandbox));
                return Err(refused(format!("{shown}\n\nnothing was changed: {how}"), answer));
            }
        }
        self.granted.push(text(needs, "block"));
        Ok(Next::Again(sandbox))
    }

    /// A failure, with what was granted before it.
    pub fn failed(&self, failure: Failure) -> Failure {
        if self.granted.is_empty() {
            return failure;
        }
        let message = format!("no more is found that could be granted: {}", failure.message);
        Failure { message: self.with_granted(&message), ..failure }
    }

    /// Notes in the last answer what was granted.
    pub fn note(&self, answer: &mut Value) {
        if !self.granted.is_empty() {
            answer["granted"] = self.granted.clone().into();
        }
    }

    fn with_granted(&self, message: &str) -> String {
        let granted: String = self.granted.iter().map(|block| format!("tried with {block}\n")).collect();
        format!("{granted}{message}")
    }
}

fn refused(message: String, answer: &Value) -> Failure {
    Failure { offer: Some(Box::new(answer.clone())), ..Failure::new(code::REFUSED, message) }
}

/// What its file would grant with what it needs.
fn sandbox(needs: &Value) -> Option<Sandbox> {
    serde_json::from_value(needs["sandbox"].clone()).ok()
}

/// What a program was refused and needs, a line for each; empty if that is nothing.
pub fn shown(answer: &Value) -> String {
    // Where nothing is offered it stands beside.
    let needs = answer.get("needs").unwrap_or(answer);
    let mut lines = Vec::new();
    if let Some(why) = answer["unanswered"].as_str() {
        lines.push(format!("answers  no: {why}"));
    }
    let refused = rows(needs, "refused");
    let words = refused.iter().filter_map(Value::as_str);
    lines.extend(words.take(REFUSALS_SHOWN).map(|one| format!("refused  {one}")));
    if refused.len() > REFUSALS_SHOWN || needs["moreRefused"] == true {
        lines.push("refused  more".to_owned());
    }
    lines.extend(rows(needs, "words").iter().filter_map(Value::as_str).map(|one| format!("needs    {one}")));
    if let Some(block) = needs["block"].as_str() {
        lines.push(format!("file     {block}"));
    }
    lines.join("\n")
}

/// The same after an agent that was adopted, or only looked at, and how it is granted.
pub fn noted(adopted: &Value) -> String {
    let granted = rows(adopted, "granted").iter().filter_map(Value::as_str);
    let granted: String = granted.map(|block| format!("\ngranted  {block}")).collect();
    let Some(sandbox) = adopted.get("needs").and_then(sandbox) else {
        return match shown(adopted) {
            refused if refused.is_empty() => granted,
            refused => format!("{granted}\n{refused}\nit answers without"),
        };
    };
    let (options, name) = (options(&sandbox), text(&adopted["file"], "name"));
    let how = if adopted.get("added").is_some() {
        format!("it answers without; `althing adopt --accept {name}{options}` grants it")
    } else {
        format!("it answers without;{options} would grant it, or --grant-needs")
    };
    format!("{granted}\n{}\n{how}", shown(adopted))
}

/// The options by which a command line grants what a sandbox has, each after a space.
pub fn options(sandbox: &Sandbox) -> String {
    let demand = match sandbox.demand {
        Demand::None => " --sandbox none",
        Demand::Required => " --sandbox required",
        Demand::Best => "",
    };
    let paths = [("read", &sandbox.read), ("write", &sandbox.write)];
    let paths = paths.into_iter().flat_map(|(key, paths)| paths.iter().map(move |path| (key, path.to_string_lossy())));
    let paths: String = paths.map(|(key, path)| format!(" --{key} {}", word(&path))).collect();
    let hosts = sandbox.egress.iter().filter(|egress| egress.variable.is_none());
    let hosts: String = hosts.map(|egress| format!(" --reach {}", word(&egress.host))).collect();
    format!("{demand}{paths}{hosts}")
}

/// The command line that adopts the same with this sandbox; `flags` name the node. No value of a variable is in it.
pub fn command_line(flags: &str, adopt: &Adopt, sandbox: &Sandbox) -> String {
    let mut words = vec![format!("althing{flags} adopt")];
    if let Some(name) = &adopt.agent {
        words.push(format!("--as {}", word(name)));
    }
    if adopt.callers != "this-node" {
        words.push(format!("--callers {}", adopt.callers));
    }
    words.extend(adopt.env.iter().map(|given| match given.split_once('=') {
        Some((name, _)) => format!("--env {}=…", word(name)),
        None => format!("--env {}", word(given)),
    }));
    let options = options(sandbox);
    words.extend((!options.is_empty()).then(|| options.trim_start().to_owned()));
    // Options of the program's own are not taken for those of this command.
    words.extend(adopt.what.iter().any(|it| it.starts_with("--")).then(|| "--".to_owned()));
    words.extend(adopt.what.iter().map(|it| word(it)));
    words.join(" ")
}

/// A word as a shell reads it.
fn word(text: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+@:,=~%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
#[path = "needs_tests.rs"]
mod tests;
