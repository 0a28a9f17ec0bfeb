//! `althing adopt`.

use std::env::VarError;
use std::io::IsTerminal as _;
use std::path::{Component, Path, PathBuf};

use althing_api::{
    AcceptReply, AcceptRequest, AdoptReply, AdoptRequest, AgentAcceptance, AgentAddition, AgentAdoption, AgentDraft,
    DraftChange, DraftOmission, Folder, Offers, ThingAdoption, ThingDirectory,
};
use althing_td::{AgentFile, Callers, Demand, Environment, OwnFolder, RuntimeSpec, Sandbox, Skill, ToolServerSpec};
use serde_json::json;

use crate::args::{Adopt, is_address};
use crate::commands::agent::standing;
use crate::commands::agreement::asked;
use crate::commands::needs::{self, Answer as _, Lack, Next, Outcome, Rounds};
use crate::commands::panes::exposed;
use crate::commands::{Out, one_line, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Shows what is at an address or behind a command, and adds it as an agent.
pub async fn run(at: &Paths, adopt: &Adopt, out: &Out) -> Result<(), Failure> {
    if let Some(what) = &adopt.accept {
        return accept(at, adopt, what, out).await;
    }
    let folder = here()?;
    let mut rounds = Rounds::new(adopt, out);
    let mut request = AdoptRequest {
        at: source(adopt, &folder)?,
        folder: Folder::here(folder),
        name: adopt.agent.clone(),
        callers: callers(&adopt.callers),
        allow: adopt.allow.clone(),
        things: adopt.thing.clone(),
        all: adopt.all,
        env: environment(&adopt.env)?,
        offers: rounds.offers(),
        dry_run: adopt.dry_run,
    };
    let client = at.connect().await?;
    let command = |sandbox: &Sandbox| needs::command_line(&at.flags(), adopt, sandbox);
    let adopted = loop {
        let answer: AdoptReply = client.ask("/adopt", &request).await.map_err(|error| rounds.failed(error.into()))?;
        match rounds.after(&answer, command)? {
            Next::Done => break answer,
            Next::Again(more) => {
                if let ToolServerSpec::Command { sandbox, .. } = &mut request.at {
                    *sandbox = *more;
                }
            }
            Next::AsItIs => {}
        }
        request.offers = rounds.offers();
    };
    out.show(&rounds.outcome(&adopted), |Outcome { reply, granted }| match reply {
        AdoptReply::Directory(found) => directory(found),
        AdoptReply::Agent(adoption) => agent(adoption, granted),
        AdoptReply::Unanswered(program) => needs::shown(&program.lack()),
    });
    let AdoptReply::Directory(found) = &adopted else { return Ok(()) };
    match found.adopted.iter().filter(|one| matches!(one, ThingAdoption::Failure(_))).count() {
        0 => Ok(()),
        failed => Err(Failure::failed(format!("{failed} of the Things were not adopted"))),
    }
}

/// The current folder.
fn here() -> Result<PathBuf, Failure> {
    std::env::current_dir().map_err(|error| Failure::failed(format!("the current folder: {error}")))
}

/// Adopts an agent again: what was shown under that digest, or what its user agrees to now.
async fn accept(at: &Paths, adopt: &Adopt, what: &str, out: &Out) -> Result<(), Failure> {
    let (name, digest) = match what.split_once('@') {
        Some((name, digest)) => (name.to_owned(), Some(digest.to_owned())),
        None => (what.to_owned(), None),
    };
    let grants = if names_sandbox(adopt) { sandbox(adopt, &here()?)? } else { Sandbox::default() };
    let mut rounds = Rounds::new(adopt, out);
    let mut request = AcceptRequest { name, digest, grants, offers: Offers::Never };
    let client = at.connect().await?;
    if request.digest.is_none() {
        let command =
            |more: &Sandbox| format!("althing{} adopt --accept {}{}", at.flags(), request.name, needs::options(more));
        let mut grants = request.grants.clone();
        let offer = loop {
            let asked = AcceptRequest {
                name: request.name.clone(),
                digest: None,
                grants: grants.clone(),
                offers: rounds.offers(),
            };
            let offer: AcceptReply =
                client.ask("/adopt/accept", &asked).await.map_err(|error| rounds.failed(error.into()))?;
            match rounds.after(&offer, command)? {
                Next::Done | Next::AsItIs => break offer,
                Next::Again(more) => grants = *more,
            }
        };
        let AcceptReply::Agent(offer) = offer else {
            return Err(Failure::failed("the node answers in another way than this program knows"));
        };
        request.digest = Some(agreed(&request.name, &offer, &grants, out)?);
        request.grants = grants;
    }
    let accepted: Box<AgentAcceptance> = client.ask("/adopt/accept", &request).await?;
    out.show(&rounds.outcome(&accepted), |Outcome { reply, granted }| {
        shown(&reply.draft, &outcome(None, reply.added.as_ref()), (reply.lack(), *granted))
    });
    Ok(())
}

/// Shows what changed, and asks; the digest of what was agreed to.
fn agreed(name: &str, offer: &AgentAcceptance, grants: &Sandbox, out: &Out) -> Result<String, Failure> {
    let digest = &offer.draft.digest;
    let changes = changed(offer);
    if out.json || !std::io::stdin().is_terminal() {
        let changes = if out.json { json!(offer).to_string() } else { changes };
        let options = needs::options(grants);
        let how =
            format!("nothing was changed: `althing adopt --accept {name}@{digest}{options}` accepts exactly this");
        return Err(Failure::new(code::REFUSED, format!("{changes}\n\n{how}")));
    }
    asked(&changes, "accept", digest.clone())
}

fn changed(AgentAcceptance { draft, changes, .. }: &AgentAcceptance) -> String {
    let line = |DraftChange { what, old, new }: &DraftChange| {
        let or_none = |text: &str| if text.is_empty() { "none".to_owned() } else { one_line(text) };
        format!("{}\n  was  {}\n  is   {}", one_line(what), or_none(old), or_none(new))
    };
    let all: Vec<String> = changes.iter().map(line).collect();
    let all = if all.is_empty() { "nothing that is agreed to has changed".to_owned() } else { all.join("\n") };
    format!("{all}{}{}", requests(draft), signed(draft))
}

fn source(adopt: &Adopt, folder: &Path) -> Result<ToolServerSpec, Failure> {
    match adopt.what.as_slice() {
        [url] if is_address(url) && !adopt.env.is_empty() => {
            Err(Failure::usage("--env is for a program; what is sent to an address is named by --secret"))
        }
        [url] if is_address(url) && (names_sandbox(adopt) || adopt.grant_needs) => {
            Err(Failure::usage("--read, --write, --reach, --sandbox and --grant-needs are for a program"))
        }
        [url] if is_address(url) => {
            // Where its name leads, the node finds out.
            Ok(ToolServerSpec::Url { url: url.clone(), secret: adopt.secret.clone(), leads_to: Vec::new() })
        }
        [word, ..] if is_bare_address(word) => {
            Err(Failure::usage(format!("{word:?} is an address without a scheme: write http://{word}")))
        }
        _ if adopt.address_first => Err(Failure::usage("write one address, and flags")),
        _ if adopt.secret.is_some() => Err(Failure::usage("--secret is sent to an address; a command takes none")),
        _ if !adopt.allow.is_empty() || !adopt.thing.is_empty() || adopt.all => {
            Err(Failure::usage("--allow, --thing and --all are for addresses"))
        }
        command => Ok(ToolServerSpec::Command {
            command: command.to_vec(),
            cwd: None,
            env: Default::default(),
            env_secrets: Default::default(),
            sandbox: sandbox(adopt, folder)?,
        }),
    }
}

/// Whether the command line says what a program may reach.
fn names_sandbox(adopt: &Adopt) -> bool {
    adopt.sandbox.is_some() || names_any(adopt)
}

fn names_any(adopt: &Adopt) -> bool {
    !adopt.read.is_empty() || !adopt.write.is_empty() || !adopt.reach.is_empty()
}

/// What a program may reach. The folder in which this is run is not made for it: it reads that, unless it is told to write there.
fn sandbox(adopt: &Adopt, folder: &Path) -> Result<Sandbox, Failure> {
    let demand = match adopt.sandbox.as_deref() {
        Some("none") => Demand::None,
        Some(_) => Demand::Required,
        None => Demand::Best,
    };
    if demand == Demand::None {
        if names_any(adopt) || adopt.grant_needs {
            let message =
                "without a sandbox it reaches everything: leave out --read, --write, --reach and --grant-needs";
            return Err(Failure::usage(message));
        }
        return Ok(Sandbox { demand, ..Sandbox::default() });
    }
    let all = |paths: &[PathBuf]| -> Result<Vec<PathBuf>, Failure> {
        paths.iter().map(|path| absolute(path, folder)).collect()
    };
    let (read, write, egress) = (all(&adopt.read)?, all(&adopt.write)?, adopt.reach.clone());
    Ok(Sandbox { demand, folder: OwnFolder::Read, read, write, egress })
}

/// A path as the agent file names it, wherever the program starts. `~/` stays, for the node knows the home.
fn absolute(path: &Path, folder: &Path) -> Result<PathBuf, Failure> {
    if path.starts_with("~") {
        return Ok(path.to_owned());
    }
    let whole = folder.join(path);
    if whole.components().any(|part| part == Component::ParentDir) {
        // Only the system knows what lies above a link.
        return whole.canonicalize().map_err(|error| Failure::usage(format!("{}: {error}", path.display())));
    }
    Ok(whole.components().collect())
}

/// The variables of a program. No message shows a value.
fn environment(given: &[String]) -> Result<Environment, Failure> {
    let variable = |word: &String| match word.split_once('=') {
        Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
        None => match std::env::var(word) {
            Ok(value) => Ok((word.clone(), value)),
            Err(VarError::NotPresent) => {
                Err(Failure::usage(format!("--env {word}: it is not set here; export it, or write --env {word}=VALUE")))
            }
            Err(VarError::NotUnicode(_)) => Err(Failure::usage(format!("--env {word}: its value is not UTF-8"))),
        },
    };
    given.iter().map(variable).collect()
}

/// Whether a word is a host and a port, and no program.
fn is_bare_address(word: &str) -> bool {
    let Some((host, rest)) = word.rsplit_once(':') else { return false };
    let port = rest.split('/').next().unwrap_or_default();
    let is_host = !host.is_empty() && !host.contains('/');
    is_host && port.parse::<u16>().is_ok() && !std::path::Path::new(word).exists()
}

/// Who may call an agent, by the word for it.
pub fn callers(word: &str) -> Callers {
    match word {
        "own" => Callers::Own,
        "trusted" => Callers::Trusted,
        "anyone" => Callers::Anyone,
        _ => Callers::ThisNode,
    }
}

/// An agent that was adopted, or only looked at, with what was granted before.
fn agent(adoption: &AgentAdoption, granted: &[String]) -> String {
    let AgentAdoption { draft, taken, added, .. } = adoption;
    shown(draft, &outcome(*taken, added.as_ref()), (adoption.lack(), granted))
}

/// What became of something that was looked at.
fn outcome(taken: Option<bool>, added: Option<&AgentAddition>) -> String {
    match added {
        None if taken == Some(true) => {
            "nothing was published. Its name is taken here: --as gives it another; --accept NAME shows what changed"
                .to_owned()
        }
        None => "nothing was published: without --dry-run it would be".to_owned(),
        Some(added) => format!("{}{}", exposed(added.status.as_ref()), standing(&added.name, added)),
    }
}

fn shown(draft: &AgentDraft, outcome: &str, (lack, granted): (Lack<'_>, &[String])) -> String {
    let file = &draft.file;
    let callers = match &file.callers {
        Callers::Listed(all) => json!(all).to_string(),
        callers => callers.word().unwrap_or_default().to_owned(),
    };
    let skills: Vec<Vec<String>> = file.skills.iter().map(|skill| vec![skill.id.clone(), first_line(skill)]).collect();
    format!(
        "found    {} \"{}\"\nagent    {}, version {}\ncallers  {}{}{}{}{}{}\n\n{}{}\n\n{outcome}",
        draft.kind,
        one_line(&file.title),
        file.name,
        file.version,
        who(&callers),
        led(file),
        reached(draft),
        signed(draft),
        requests(draft),
        needs::noted(&lack, granted, &file.name),
        table(&["skill", "what it does"], &skills),
        left_out(&draft.left_out),
    )
}

/// What is sent where, for each tool of a Thing.
fn requests(draft: &AgentDraft) -> String {
    draft.requests.iter().map(|one| format!("\nsends    {}", one_line(one))).collect()
}

/// Where the name in its address leads.
fn led(file: &AgentFile) -> String {
    let of_runtime = match &file.runtime {
        RuntimeSpec::Remote { leads_to, .. } => leads_to.as_slice(),
        _ => &[],
    };
    let of_tools = |name: &str| file.tools.get(name).map_or(&[][..], ToolServerSpec::leads_to);
    let places = [of_runtime, of_tools("server"), of_tools("thing")].concat();
    if places.is_empty() {
        return String::new();
    }
    let words: Vec<&str> = places.iter().map(|place| place.word()).collect();
    format!("\nleads    to {} by its name, which is followed nowhere else", words.join(", "))
}

/// What its program asks to reach.
fn reached(draft: &AgentDraft) -> String {
    draft.reaches.iter().map(|one| format!("\nreaches  {}", one_line(one))).collect()
}

/// Who signed the card of an A2A agent.
fn signed(draft: &AgentDraft) -> String {
    draft.signature.as_ref().map_or_else(String::new, |said| format!("\nsigned   {}", one_line(said)))
}

/// What was left out, a line for each, whatever whoever has it called it.
fn left_out(omissions: &[DraftOmission]) -> String {
    let line =
        |DraftOmission { what, why }: &DraftOmission| format!("\nleft out: {}: {}", one_line(what), one_line(why));
    omissions.iter().map(line).collect()
}

/// What a directory has, and what became of the Things that were chosen.
fn directory(found: &ThingDirectory) -> String {
    let ThingDirectory { kind, things, without_id, left_out: omissions, adopted } = found;
    if !adopted.is_empty() {
        let one = |one: &ThingAdoption| match one {
            ThingAdoption::Failure(failure) => {
                format!("{}\nnot adopted: {}", one_line(&failure.id), one_line(&failure.failed))
            }
            ThingAdoption::Agent(adoption) => agent(adoption, &[]),
        };
        return adopted.iter().map(one).collect::<Vec<_>>().join("\n\n");
    }
    let rows: Vec<Vec<String>> = things.iter().map(|thing| vec![thing.id.clone(), thing.title.clone()]).collect();
    let beside = match without_id {
        0 => String::new(),
        without => {
            let left_out = left_out(omissions);
            format!("\nand {without} more: without an id, not as they should be, or beyond 1,000{left_out}")
        }
    };
    format!(
        "found    {kind}, {} Things\n\n{}{beside}\n\nnothing was adopted: --thing ID chooses one, --all up to 64",
        things.len(),
        table(&["id", "title"], &rows),
    )
}

/// Who may call an agent, for people.
pub fn who(callers: &str) -> String {
    match callers {
        "this-node" => "what runs on this node".to_owned(),
        "own" => "the owner's nodes".to_owned(),
        "trusted" => "those whom the owner trusts".to_owned(),
        other => other.to_owned(),
    }
}

/// The first line of a skill's description, at most 80 characters.
fn first_line(skill: &Skill) -> String {
    skill.description.lines().next().unwrap_or_default().chars().take(80).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_named_so_that_they_mean_the_same_wherever_the_program_starts() {
        let folder = tempfile::tempdir().expect("a folder");
        let here = folder.path().canonicalize().expect("its path");
        std::fs::create_dir_all(here.join("a/b")).expect("folders");
        for (written, named) in [
            ("~/models", PathBuf::from("~/models")),
            ("/srv/maps", PathBuf::from("/srv/maps")),
            ("a", here.join("a")),
            ("./a/./b", here.join("a/b")),
            (".", here.clone()),
            ("../a", here.join("a")),
        ] {
            let from = if written.starts_with("..") { here.join("a") } else { here.clone() };
            assert_eq!(absolute(Path::new(written), &from).expect(written), named, "{written}");
        }
        let missing = absolute(Path::new("../none"), &here.join("a")).expect_err("nothing is there");
        assert!(missing.message.contains("../none"), "{}", missing.message);
    }

    #[test]
    fn what_is_left_out_is_one_line_whatever_it_is_called() {
        let what = "tell\nsends    POST https://bank.example\u{202e}".to_owned();
        let told = left_out(&[DraftOmission { what, why: "its name\nsigned   ada".to_owned() }]);
        let line = "\nleft out: tell\\u{a}sends    POST https://bank.example\\u{202e}: its name\\u{a}signed   ada";
        assert_eq!(told, line);
    }
}
