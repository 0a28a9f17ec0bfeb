//! Checks what a program may reach: bounded, well-formed, and nothing that would undo another part of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path};

use super::super::sandbox::{HOST_FIX, is_host, pieces};
use super::super::{Demand, Egress, Sandbox};
use super::{Check, TEXT_BYTES_MAX};
use crate::json::excerpt;

/// The most paths in `read`, and in `write`.
const PATHS_MAX: usize = 64;
/// The most hosts of one program.
const HOSTS_MAX: usize = 64;
/// The most headers of one host.
const HEADERS_MAX: usize = 16;
/// The longest name of a header, in characters.
const HEADER_CHARS_MAX: usize = 128;

/// Variables that say where a program finds its programs, its home and its proxy.
const TAKEN: [&str; 9] = ["PATH", "HOME", "LANG", "TZ", "TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"];
/// How the variables begin that the node itself sets.
const OWN: &str = "ALTHING_";
/// Headers of the connection, not of what is asked (RFC 9110 §7.6.1), and those that say how long a request is and whose it is. With
/// `accept-encoding` an answer could come compressed, in which no secret is found. `althing_egress` refuses the same.
const OF_CONNECTIONS: [&str; 14] = [
    "accept-encoding",
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "proxy-authenticate",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

/// Checks the sandbox at `at`; `given` are the variables that the program has by the file otherwise.
pub(super) fn sandbox(check: &mut Check, at: &str, sandbox: &Sandbox, given: &[&BTreeMap<String, String>]) {
    if sandbox.demand == Demand::None && sandbox.has_rules() {
        let message = "without a sandbox nothing is kept from it, and nothing can be let through".to_owned();
        check.refuse(at, "sandbox-none", message, "Leave out none, or the paths and hosts");
    }
    for (key, paths) in [("read", &sandbox.read), ("write", &sandbox.write)] {
        check.most(format!("{at}.{key}"), paths.len(), PATHS_MAX, "paths");
        for (n, path) in paths.iter().enumerate() {
            path_of(check, format!("{at}.{key}[{n}]"), path);
        }
    }
    check.most(format!("{at}.egress"), sandbox.egress.len(), HOSTS_MAX, "hosts");
    let mut variables = BTreeSet::new();
    for (n, egress) in sandbox.egress.iter().enumerate() {
        let at = format!("{at}.egress[{n}]");
        host(check, &at, egress);
        if let Some(variable) = &egress.variable {
            let field = format!("{at}.variable");
            named(check, &field, variable);
            let is_given = given.iter().any(|given| given.contains_key(variable));
            if is_given || !variables.insert(variable.as_str()) {
                let message = format!("the variable {:?} is set twice", excerpt(variable, 80));
                check.refuse(field, "env-twice", message, "Name another one, or leave one of the two out");
            }
        }
        if let Some(path) = &egress.path {
            address_path(check, format!("{at}.path"), path);
        }
        headers(check, &format!("{at}.headers"), &egress.headers);
    }
}

fn path_of(check: &mut Check, field: String, path: &Path) {
    let text = path.to_string_lossy();
    check.passed_on(field.clone(), &text);
    if text.trim().is_empty() {
        check.refuse(field, "empty", "it names no path".to_owned(), "Write a path, or remove it");
    } else if path.components().any(|part| part == Component::ParentDir) {
        let message = format!("{:?} goes up again", excerpt(&text, 80));
        check.refuse(field, "path-form", message, "Write it without .., from /, from ~/ or from the program's folder");
    } else if text.starts_with('~') && !text.starts_with("~/") {
        let message = format!("{:?} is not below your own home", excerpt(&text, 80));
        let fix = "Write ~/ and the path below it; ./ before a name that begins with ~";
        check.refuse(field, "path-form", message, fix);
    }
}

/// The host, and whether it can have what stands beside it.
fn host(check: &mut Check, at: &str, egress: &Egress) {
    if !is_host(&egress.host) {
        let message = format!("{:?} is not a host", excerpt(&egress.host, 80));
        check.refuse(format!("{at}.host"), "host-form", message, HOST_FIX);
    }
    if egress.variable.is_some() && egress.host.starts_with('*') {
        let message = "the program asks one host at the address in a variable, and this may be many".to_owned();
        check.refuse(format!("{at}.host"), "one-host", message, "Write the name of one host, or leave `variable` out");
    }
    if egress.variable.is_none() && (egress.path.is_some() || !egress.headers.is_empty()) {
        let message = "only what the program asks at the node's own address is added to".to_owned();
        let fix = "Add `variable`: the program finds the address in it";
        check.refuse(format!("{at}.variable"), "missing", message, fix);
    }
}

/// The variable with the address of a host.
fn named(check: &mut Check, field: &str, variable: &str) {
    check.variable(field, variable);
    // Programs read those of proxies in small letters too.
    let large = variable.to_ascii_uppercase();
    if TAKEN.contains(&large.as_str()) || large.starts_with(OWN) {
        let message = format!("{:?} means something else to a program", excerpt(variable, 80));
        let fix = "Name the variable in which it looks for this address, for example OPENAI_BASE_URL";
        check.refuse(field, "env-taken", message, fix);
    }
}

fn address_path(check: &mut Check, field: String, path: &str) {
    check.most(field.as_str(), path.len(), TEXT_BYTES_MAX, "bytes");
    let is_plain = path.chars().all(|c| c.is_ascii_graphic() && !"?#\\\"<>{}".contains(c));
    if !path.starts_with('/') || path.starts_with("//") || !is_plain || path.split('/').any(|part| part == "..") {
        let message = format!("{:?} is not the path of an address", excerpt(path, 80));
        check.refuse(field, "path-form", message, "Write it like /v1");
    }
}

fn headers(check: &mut Check, at: &str, headers: &BTreeMap<String, String>) {
    check.most(at, headers.len(), HEADERS_MAX, "headers");
    let mut names = BTreeSet::new();
    for (name, value) in headers {
        let field = format!("{at}.{}", excerpt(name, 80));
        let small = name.to_ascii_lowercase();
        let is_token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if !(1..=HEADER_CHARS_MAX).contains(&name.len()) || !name.chars().all(is_token) {
            let message = "this is not the name of a header".to_owned();
            check.refuse(field.as_str(), "header-name", message, "Write it like Authorization or X-Api-Key");
        } else if OF_CONNECTIONS.contains(&small.as_str()) {
            let message = "the node itself says this to the host".to_owned();
            check.refuse(field.as_str(), "header-name", message, "Remove it");
        }
        if !names.insert(small) {
            let message = "this header stands there in other letters too".to_owned();
            check.refuse(field.as_str(), "header-twice", message, "Keep one of them");
        }
        check.most(field.as_str(), value.len(), TEXT_BYTES_MAX, "bytes");
        if value.trim().is_empty() || value != value.trim() || !value.chars().all(|c| matches!(c, ' '..='~')) {
            let message = "this is not the value of a header".to_owned();
            let fix = "Write printable ASCII on one line, without spaces around it";
            check.refuse(field.as_str(), "header-value", message, fix);
        }
        if pieces(value).is_none() {
            let message = "its braces do not hold the name of a secret".to_owned();
            let fix = "Write {NAME}, with the name that `althing secret set NAME` keeps it under, and no other brace";
            check.refuse(field, "header-secret", message, fix);
        }
    }
}
