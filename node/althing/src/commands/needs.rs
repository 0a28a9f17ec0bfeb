//! What a program needs to start: found out round by round, shown, and granted where somebody agrees.

use std::io::IsTerminal as _;

use althing_api::{AcceptReply, AdoptReply, AgentAcceptance, AgentAdoption, Offers, ProgramNeeds, UnansweredProgram};
use althing_td::{Demand, Sandbox};
use serde::Serialize;

use crate::args::Adopt;
use crate::commands::Out;
use crate::commands::agreement::agrees;
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

/// What an answer of the node says of what a program lacks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Lack<'a> {
    /// Why it does not answer; none where it does.
    pub unanswered: Option<&'a str>,
    /// What it needs, where that is offered.
    pub needs: Option<&'a ProgramNeeds>,
    /// What it was refused, where nothing is offered.
    pub refused: &'a [String],
    /// Whether it was refused more than that.
    pub more_refused: bool,
    /// Whether it was adopted all the same.
    pub is_added: bool,
}

/// An answer of the node that may say what a program lacks.
pub trait Answer: Serialize {
    /// What it lacks; nothing where all is well, or where it is no program.
    fn lack(&self) -> Lack<'_>;
}

impl Answer for UnansweredProgram {
    fn lack(&self) -> Lack<'_> {
        Lack { unanswered: Some(&self.unanswered), needs: Some(&self.needs), ..Lack::default() }
    }
}

impl Answer for AgentAdoption {
    fn lack(&self) -> Lack<'_> {
        Lack {
            unanswered: None,
            needs: self.needs.as_ref(),
            refused: &self.refused,
            more_refused: self.more_refused == Some(true),
            is_added: self.added.is_some(),
        }
    }
}

impl Answer for AgentAcceptance {
    fn lack(&self) -> Lack<'_> {
        Lack {
            unanswered: None,
            needs: self.needs.as_ref(),
            refused: &self.refused,
            more_refused: self.more_refused == Some(true),
            is_added: self.added.is_some(),
        }
    }
}

impl Answer for AdoptReply {
    fn lack(&self) -> Lack<'_> {
        match self {
            AdoptReply::Unanswered(program) => program.lack(),
            AdoptReply::Directory(_) => Lack::default(),
            AdoptReply::Agent(adoption) => adoption.lack(),
        }
    }
}

impl Answer for AcceptReply {
    fn lack(&self) -> Lack<'_> {
        match self {
            AcceptReply::Unanswered(program) => program.lack(),
            AcceptReply::Agent(acceptance) => acceptance.lack(),
        }
    }
}

/// A reply of the node, with what was granted before it.
#[derive(Debug, Serialize)]
pub struct Outcome<'a, R> {
    #[serde(flatten)]
    pub reply: R,
    /// The block of each round; not written where there was none.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    pub granted: &'a [String],
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
    pub fn after<A: Answer>(&mut self, answer: &A, command: impl Fn(&Sandbox) -> String) -> Result<Next, Failure> {
        let lack = answer.lack();
        let Some(needs) = lack.needs.filter(|_| !lack.is_added) else { return Ok(Next::Done) };
        let answers = lack.unanswered.is_none();
        let is_last = self.granted.len() == ROUNDS_MAX;
        match self.consent {
            Consent::Given if !is_last => {}
            Consent::Asked if !is_last => {
                if !agrees(&shown(&lack), "grant") {
                    self.consent = Consent::Declined;
                    let declined = || Failure::new(code::REFUSED, "nothing was changed");
                    return if answers { Ok(Next::AsItIs) } else { Err(declined()) };
                }
            }
            Consent::Given | Consent::Asked => {
                self.consent = Consent::Declined;
                let message = format!("after {ROUNDS_MAX} rounds it needs more\n{}", shown(&lack));
                let endless = || refused(self.with_granted(&message), answer);
                return if answers { Ok(Next::AsItIs) } else { Err(endless()) };
            }
            // It answers, and is only looked at, or was declined what it needs.
            Consent::Absent | Consent::Declined if answers => return Ok(Next::Done),
            Consent::Absent | Consent::Declined => {
                let (shown, command) = (shown(&lack), command(&needs.sandbox));
                let how = format!("this grants it:\n\n    {command}\n\nand --grant-needs whatever is found");
                return Err(refused(format!("{shown}\n\nnothing was changed: {how}"), answer));
            }
        }
        self.granted.push(needs.block.clone());
        Ok(Next::Again(Box::new(needs.sandbox.clone())))
    }

    /// A failure, with what was granted before it.
    pub fn failed(&self, failure: Failure) -> Failure {
        if self.granted.is_empty() {
            return failure;
        }
        let message = format!("no more is found that could be granted: {}", failure.message);
        Failure { message: self.with_granted(&message), ..failure }
    }

    /// The last answer, with what was granted.
    pub fn outcome<R>(&self, reply: R) -> Outcome<'_, R> {
        Outcome { reply, granted: &self.granted }
    }

    fn with_granted(&self, message: &str) -> String {
        let granted: String = self.granted.iter().map(|block| format!("tried with {block}\n")).collect();
        format!("{granted}{message}")
    }
}

fn refused(message: String, answer: &impl Serialize) -> Failure {
    Failure::new(code::REFUSED, message).offering(answer)
}

/// What a program was refused and needs, a line for each; empty if that is nothing.
pub fn shown(lack: &Lack<'_>) -> String {
    let (refused, more_refused) = match lack.needs {
        Some(needs) => (needs.refused.as_slice(), needs.more_refused),
        None => (lack.refused, lack.more_refused),
    };
    let mut lines = Vec::new();
    if let Some(why) = lack.unanswered {
        lines.push(format!("answers  no: {why}"));
    }
    lines.extend(refused.iter().take(REFUSALS_SHOWN).map(|one| format!("refused  {one}")));
    if refused.len() > REFUSALS_SHOWN || more_refused {
        lines.push("refused  more".to_owned());
    }
    if let Some(needs) = lack.needs {
        lines.extend(needs.words.iter().map(|one| format!("needs    {one}")));
        lines.push(format!("file     {}", needs.block));
    }
    lines.join("\n")
}

/// The same after an agent of that name that was adopted, or only looked at, and how it is granted.
pub fn noted(lack: &Lack<'_>, granted: &[String], name: &str) -> String {
    let granted: String = granted.iter().map(|block| format!("\ngranted  {block}")).collect();
    let Some(needs) = lack.needs else {
        return match shown(lack) {
            refused if refused.is_empty() => granted,
            refused => format!("{granted}\n{refused}\nit answers without"),
        };
    };
    let options = options(&needs.sandbox);
    let how = if lack.is_added {
        format!("it answers without; `althing adopt --accept {name}{options}` grants it")
    } else {
        format!("it answers without;{options} would grant it, or --grant-needs")
    };
    format!("{granted}\n{}\n{how}", shown(lack))
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
