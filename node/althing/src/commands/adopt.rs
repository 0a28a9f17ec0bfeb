//! `althing adopt`.

use std::env::VarError;
use std::io::IsTerminal as _;
use std::path::{Component, Path, PathBuf};

use althing_api::{AcceptRequest, AdoptRequest, Offers};
use althing_td::{Callers, Demand, Environment, OwnFolder, Sandbox, ToolServerSpec};
use serde_json::Value;

use crate::args::{Adopt, is_address};
use crate::commands::agent::{addition, standing};
use crate::commands::agreement::asked;
use crate::commands::needs::{self, Next, Rounds};
use crate::commands::panes::exposed;
use crate::commands::{Out, rows, table, text};
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
        folder,
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
    let mut adopted = loop {
        let answer = client.post("/adopt", &request).await.map_err(|error| rounds.failed(error.into()))?;
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
    rounds.note(&mut adopted);
    out.show(&adopted, |adopted| if adopted.get("things").is_some() { directory(adopted) } else { shown(adopted) });
    let failed = rows(&adopted, "adopted").iter().filter(|one| one.get("failed").is_some()).count();
    if failed > 0 {
        return Err(Failure::failed(format!("{failed} of the Things were not adopted")));
    }
    Ok(())
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
            let offer = client.post("/adopt/accept", &asked).await.map_err(|error| rounds.failed(error.into()))?;
            match rounds.after(&offer, command)? {
                Next::Done | Next::AsItIs => break offer,
                Next::Again(more) => grants = *more,
            }
        };
        request.digest = Some(agreed(&request.name, &offer, &grants, out)?);
        request.grants = grants;
    }
    let mut accepted = client.post("/adopt/accept", &request).await?;
    rounds.note(&mut accepted);
    out.show(&accepted, shown);
    Ok(())
}

/// Shows what changed, and asks; the digest of what was agreed to.
fn agreed(name: &str, offer: &Value, grants: &Sandbox, out: &Out) -> Result<String, Failure> {
    let digest = text(offer, "digest");
    let changes = changed(offer);
    if out.json || !std::io::stdin().is_terminal() {
        let changes = if out.json { offer.to_string() } else { changes };
        let options = needs::options(grants);
        let how =
            format!("nothing was changed: `althing adopt --accept {name}@{digest}{options}` accepts exactly this");
        return Err(Failure::new(code::REFUSED, format!("{changes}\n\n{how}")));
    }
    asked(&changes, "accept", digest)
}

fn changed(offer: &Value) -> String {
    let line = |change: &Value| {
        let or_none =
            |member: &str| Some(text(change, member)).filter(|it| !it.is_empty()).unwrap_or("none".to_owned());
        format!("{}\n  was  {}\n  is   {}", text(change, "what"), or_none("old"), or_none("new"))
    };
    let all: Vec<String> = rows(offer, "changes").iter().map(line).collect();
    let all = if all.is_empty() { "nothing that is agreed to has changed".to_owned() } else { all.join("\n") };
    format!("{all}{}{}", requests(offer), signed(offer))
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

fn shown(adopted: &Value) -> String {
    let file = &adopted["file"];
    let who = who(&text(file, "callers"));
    let skills =
        rows(file, "skills").iter().map(|skill| vec![text(skill, "id"), first_line(skill)]).collect::<Vec<_>>();
    let left_out = left_out(adopted);
    let outcome = match adopted.get("added") {
        None if adopted["taken"] == true => {
            "nothing was published. Its name is taken here: --as gives it another; --accept NAME shows what changed"
                .to_owned()
        }
        None => "nothing was published: without --dry-run it would be".to_owned(),
        Some(added) => match addition(added) {
            Ok(added) => format!("{}{}", exposed(added.status.as_ref()), standing(&added.name, &added)),
            Err(failure) => failure.message,
        },
    };
    format!(
        "found    {} \"{}\"\nagent    {}, version {}\ncallers  {who}{}{}{}{}{}\n\n{}{left_out}\n\n{outcome}",
        text(adopted, "kind"),
        text(file, "title"),
        text(file, "name"),
        text(file, "version"),
        led(file),
        reached(adopted),
        signed(adopted),
        requests(adopted),
        needs::noted(adopted),
        table(&["skill", "what it does"], &skills),
    )
}

/// What is sent where, for each tool of a Thing.
fn requests(adopted: &Value) -> String {
    let all = rows(adopted, "requests").iter().filter_map(Value::as_str);
    all.map(|one| format!("\nsends    {one}")).collect()
}

/// Where the name in its address leads.
fn led(file: &Value) -> String {
    let (remote, tools) = (&file["runtime"]["remote"], &file["tools"]);
    let places = [&remote["leads_to"], &tools["server"]["leads_to"], &tools["thing"]["leads_to"]];
    let words: Vec<&str> = places.into_iter().filter_map(Value::as_array).flatten().filter_map(Value::as_str).collect();
    if words.is_empty() {
        return String::new();
    }
    format!("\nleads    to {} by its name, which is followed nowhere else", words.join(", "))
}

/// What its program asks to reach.
fn reached(adopted: &Value) -> String {
    let all = rows(adopted, "reaches").iter().filter_map(Value::as_str);
    all.map(|one| format!("\nreaches  {one}")).collect()
}

/// Who signed the card of an A2A agent.
fn signed(adopted: &Value) -> String {
    match adopted.get("signature").and_then(Value::as_str) {
        Some(said) => format!("\nsigned   {said}"),
        None => String::new(),
    }
}

/// What was left out, a line for each.
fn left_out(adopted: &Value) -> String {
    let left_out = rows(adopted, "leftOut");
    left_out.iter().map(|one| format!("\nleft out: {}: {}", text(one, "what"), text(one, "why"))).collect()
}

/// What a directory has, and what became of the Things that were chosen.
fn directory(adopted: &Value) -> String {
    let chosen = rows(adopted, "adopted");
    if !chosen.is_empty() {
        let one = |one: &Value| match one.get("failed").and_then(Value::as_str) {
            Some(why) => format!("{}\nnot adopted: {why}", text(one, "id")),
            None => shown(one),
        };
        return chosen.iter().map(one).collect::<Vec<_>>().join("\n\n");
    }
    let things = rows(adopted, "things");
    let rows: Vec<Vec<String>> = things.iter().map(|thing| vec![text(thing, "id"), text(thing, "title")]).collect();
    let without = adopted["withoutId"].as_u64().unwrap_or_default();
    let beside = match without {
        0 => String::new(),
        _ => {
            format!("\nand {without} more: without an id, not as they should be, or beyond 1,000{}", left_out(adopted))
        }
    };
    format!(
        "found    {}, {} Things\n\n{}{beside}\n\nnothing was adopted: --thing ID chooses one, --all up to 64",
        text(adopted, "kind"),
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
fn first_line(skill: &Value) -> String {
    let description = text(skill, "description");
    description.lines().next().unwrap_or_default().chars().take(80).collect()
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
}
