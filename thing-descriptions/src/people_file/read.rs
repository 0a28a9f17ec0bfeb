//! From the YAML tree to people: known keys, types, forms and bounds.

use std::collections::{BTreeMap, BTreeSet};

use super::{KeyLine, OWNER_DEFAULT, PeopleFile, PersonSpec, ReachSpec, SignOffSpec};
use crate::agent_file::{Sandbox, read_sandbox, sandbox_problems};
use crate::json::excerpt;
use crate::reader::yaml::{At, Node};
use crate::reader::{Fields, FileProblem, Reader, is_name, is_secret_name};

const FILE_KEYS: [&str; 3] = ["owner", "people", "prune"];
const PERSON_KEYS: [&str; 4] = ["keys", "roles", "users", "reach"];
const SIGN_OFF_KEYS: [&str; 2] = ["role", "count"];
const REACH_KEYS: [&str; 5] = ["url", "secret", "command", "sandbox", "agent"];

const PEOPLE_MAX: usize = 256;
const KEYS_MAX: usize = 8;
const ROLES_MAX: usize = 16;
const USERS_MAX: usize = 16;
const WAYS_MAX: usize = 4;
const COMMAND_MAX: usize = 32;
/// People who sign off one thing: with the owner they are named in one entry of the audit log.
const SIGN_OFFS_MAX: u8 = 7;
/// Bytes of a key, an address, an argument.
const TEXT_BYTES_MAX: usize = 4 << 10;
/// Bytes of the name of a user or a token.
const USER_BYTES_MAX: usize = 128;
/// Characters of a text that a message repeats.
const EXCERPT_CHARS: usize = 80;

/// The file as far as its shape is right, and the problems.
pub(super) fn read(root: &At) -> (Option<PeopleFile>, Vec<FileProblem>) {
    let mut reader = Reader::default();
    let file = file(&mut reader, root);
    (file, reader.problems)
}

fn file(reader: &mut Reader, root: &At) -> Option<PeopleFile> {
    let fields = reader.fields(root, "", &FILE_KEYS)?;
    let owner = reader.name(&fields, "owner");
    let mut people = BTreeMap::new();
    match fields.value("people") {
        None => reader.missing(&fields, "people"),
        Some(At { node: Node::Map(entries), .. }) if entries.len() > PEOPLE_MAX => {
            let message = format!("the file has {} people", entries.len());
            reader.refuse(&fields, "people", "too-many", message, format!("Write at most {PEOPLE_MAX}"));
        }
        Some(At { node: Node::Map(entries), .. }) => {
            for entry in entries {
                let path = format!("people.{}", excerpt(&entry.key, EXCERPT_CHARS));
                if !is_name(&entry.key) {
                    let fix = "Use 1 to 63 of a-z, 0-9 and -, no - at either end, for example \"ada\"".to_owned();
                    reader.problem(path, entry.line, "name-form", "this is not a name".to_owned(), fix);
                } else if let Some(person) = person(reader, &entry.value, &path) {
                    people.insert(entry.key.clone(), person);
                }
            }
        }
        Some(at) => reader.wrong_type("people".to_owned(), at, "a map of people by their names"),
    }
    users_once(reader, &fields, &people);
    if let Some(owner) = owner.as_ref().filter(|owner| !people.contains_key(*owner)) {
        let message = format!("{owner:?} is not among the people");
        reader.refuse(&fields, "owner", "unknown-person", message, "Write the name of one of them".to_owned());
    }
    let owner = owner.unwrap_or_else(|| OWNER_DEFAULT.to_owned());
    let prune = fields.value("prune").and_then(|at| sign_off(reader, at, "prune", (owner.as_str(), &people)));
    Some(PeopleFile { owner, people, prune })
}

/// How many people must agree to something, and in which role: as many as there are, but for the owner, who asks for it.
fn sign_off(
    reader: &mut Reader,
    at: &At,
    path: &str,
    (owner, people): (&str, &BTreeMap<String, PersonSpec>),
) -> Option<SignOffSpec> {
    let fields = reader.fields(at, path, &SIGN_OFF_KEYS)?;
    for key in SIGN_OFF_KEYS.into_iter().filter(|key| !fields.has(key)) {
        reader.missing(&fields, key);
    }
    let role = reader.name(&fields, "role")?;
    let count = reader.number(&fields, "count", 1..=SIGN_OFFS_MAX)?;
    let can = |(name, person): &(&String, &PersonSpec)| {
        name.as_str() != owner && person.roles.contains(&role) && !person.keys.is_empty()
    };
    let able = people.iter().filter(can).count();
    if able < usize::from(count) {
        let message = format!("{count} people with the role {role:?} must sign, and {able} with a key have it");
        let fix = "Give the role to more people with a key, the owner not among them, or lower the count".to_owned();
        reader.refuse(&fields, "count", "too-few", message, fix);
        return None;
    }
    Some(SignOffSpec { role, count })
}

/// Notes a user of the gateway who would be two people.
fn users_once(reader: &mut Reader, fields: &Fields<'_>, people: &BTreeMap<String, PersonSpec>) {
    let mut seen = BTreeSet::new();
    for (name, person) in people {
        for user in person.users.iter().filter(|user| !seen.insert(user.as_str())) {
            let message = format!("the user {:?} is also another person", excerpt(user, EXCERPT_CHARS));
            let fix = "Keep it with one of them".to_owned();
            reader.problem(format!("people.{name}.users"), fields.line_of("people"), "twice", message, fix);
        }
    }
}

fn person(reader: &mut Reader, at: &At, path: &str) -> Option<PersonSpec> {
    let fields = reader.fields(at, path, &PERSON_KEYS)?;
    let keys = reader.counted(&fields, "keys", 0..=KEYS_MAX, |reader, at, field| {
        text(reader, at, &field, TEXT_BYTES_MAX).map(|text| KeyLine { field, line: at.line, text })
    });
    let roles = reader.counted(&fields, "roles", 0..=ROLES_MAX, |reader, at, field| {
        let role = text(reader, at, &field, TEXT_BYTES_MAX)?;
        if is_name(&role) {
            return Some(role);
        }
        let fix = "Use 1 to 63 of a-z, 0-9 and -, no - at either end, for example \"treasurer\"".to_owned();
        reader.problem(field, at.line, "name-form", "this is not the name of a role".to_owned(), fix);
        None
    });
    let users =
        reader.counted(&fields, "users", 0..=USERS_MAX, |reader, at, field| text(reader, at, &field, USER_BYTES_MAX));
    let reach = reader.counted(&fields, "reach", 0..=WAYS_MAX, |reader, at, field| way(reader, at, &field));
    Some(PersonSpec {
        keys: keys.unwrap_or_default(),
        roles: roles.unwrap_or_default(),
        users: users.unwrap_or_default(),
        reach: reach.unwrap_or_default(),
    })
}

/// A text of a list, on one line and not too long.
fn text(reader: &mut Reader, at: &At, field: &str, bytes_max: usize) -> Option<String> {
    let Node::Text(text) = &at.node else {
        reader.wrong_type(field.to_owned(), at, "text");
        return None;
    };
    if (1..=bytes_max).contains(&text.len()) && !text.chars().any(char::is_control) {
        return Some(text.clone());
    }
    let message = format!("this text has {} bytes, or more than one line", text.len());
    let fix = format!("Write 1 to {bytes_max} bytes on one line");
    reader.problem(field.to_owned(), at.line, "out-of-range", message, fix);
    None
}

fn way(reader: &mut Reader, at: &At, path: &str) -> Option<ReachSpec> {
    let fields = reader.fields(at, path, &REACH_KEYS)?;
    let given = ["url", "command", "agent"].into_iter().filter(|key| fields.has(key)).count();
    let is_apart = |key: &str, of: &str| fields.has(key) && !fields.has(of);
    if given != 1 || is_apart("secret", "url") || is_apart("sandbox", "command") {
        let message = format!("this has {given} ways to a person");
        let fix = "Write one of url (with secret, if it needs a token), command (with sandbox) and agent".to_owned();
        reader.problem(path.to_owned(), at.line, "one-of", message, fix);
        return None;
    }
    if fields.has("command") {
        let arguments = |reader: &mut Reader, at: &At, field: String| text(reader, at, &field, TEXT_BYTES_MAX);
        let command = reader.counted(&fields, "command", 1..=COMMAND_MAX, arguments);
        let sandbox = sandbox(reader, &fields);
        return Some(ReachSpec::Command { command: command?, sandbox: sandbox? });
    }
    if fields.has("agent") {
        let agent = reader.text(&fields, "agent")?;
        return reader.within(&fields, "agent", agent, USER_BYTES_MAX).map(ReachSpec::Agent);
    }
    let url = reader.text(&fields, "url")?;
    let url = reader.within(&fields, "url", url, TEXT_BYTES_MAX)?;
    if !is_safe(&url) {
        let message = format!("{:?} is no address that can be used", excerpt(&url, EXCERPT_CHARS));
        let fix = "Write https://…, or http:// and an address of this machine".to_owned();
        reader.refuse(&fields, "url", "address-form", message, fix);
        return None;
    }
    let secret = reader.text(&fields, "secret");
    if let Some(secret) = secret.as_ref().filter(|secret| !is_secret_name(secret)) {
        let message = format!("{:?} is not the name of a secret", excerpt(secret, EXCERPT_CHARS));
        let fix = "Write the name under which the node keeps it: 1 to 64 letters, digits and _.-".to_owned();
        reader.refuse(&fields, "secret", "name-form", message, fix);
        return None;
    }
    Some(ReachSpec::Url { url, secret })
}

/// The sandbox of a command, as in an agent file but for its folder, which it only reads.
fn sandbox(reader: &mut Reader, fields: &Fields<'_>) -> Option<Sandbox> {
    let sandbox = read_sandbox(reader, fields)?;
    let line = fields.line_of("sandbox");
    if let Some(At { node: Node::Map(entries), .. }) = fields.value("sandbox")
        && entries.iter().any(|entry| entry.key == "folder")
    {
        let (field, message) = (fields.path_of("sandbox"), "a command only reads its folder".to_owned());
        let fix = "Leave out folder, and name under write what it may write".to_owned();
        reader.problem(field, line, "unknown-key", message, fix);
        return None;
    }
    let problems = sandbox_problems(&fields.path_of("sandbox"), &sandbox);
    if problems.is_empty() {
        return Some(sandbox);
    }
    let line = (line > 0).then_some(line);
    reader.problems.extend(problems.into_iter().map(|problem| FileProblem { line, ..problem }));
    None
}

/// Whether nobody on the way reads what is sent there.
fn is_safe(url: &str) -> bool {
    let host = |rest: &str| !rest.is_empty() && !rest.starts_with(['/', ':', '@']);
    let here = ["127.0.0.1", "[::1]", "localhost"];
    let is_plain = !url.chars().any(|c| c.is_whitespace() || c.is_control());
    let is_here = |rest: &str| {
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let port = here.iter().find_map(|host| authority.strip_prefix(host));
        port.is_some_and(|port| {
            port.is_empty() || port.strip_prefix(':').is_some_and(|digits| digits.parse::<u16>().is_ok())
        })
    };
    is_plain && (url.strip_prefix("https://").is_some_and(host) || url.strip_prefix("http://").is_some_and(is_here))
}
