//! `althing secret`; needs no running node.

use std::io::Read as _;

use althing_operations::{SECRET_BYTES_MAX, Secrets};
use serde_json::json;

use crate::args::Secret;
use crate::commands::{Out, rows, text};
use crate::exit::Failure;
use crate::paths::Paths;

/// Stores, lists or removes secrets.
pub fn run(at: &Paths, secret: &Secret, out: &Out) -> Result<(), Failure> {
    let secrets = Secrets::of(&at.data);
    match secret {
        Secret::Set { secret: name } => {
            secrets.set(name, read()?.trim_end_matches(['\n', '\r']))?;
            out.show(&json!({ "kept": name }), |kept| {
                format!("{} is stored; agents that start from now on can use it", text(kept, "kept"))
            });
        }
        Secret::List => {
            let names: Vec<_> = secrets.names()?.into_iter().map(|name| json!({ "name": name })).collect();
            out.show(&json!({ "secrets": names }), |all| {
                let lines: String = rows(all, "secrets").iter().map(|secret| text(secret, "name") + "\n").collect();
                if lines.is_empty() { "no secret; `althing secret set NAME` stores one".to_owned() } else { lines }
            });
        }
        Secret::Remove { secret: name } => {
            secrets.remove(name)?;
            out.show(&json!({ "removed": name }), |removed| format!("{} is removed", text(removed, "removed")));
        }
    }
    Ok(())
}

/// Reads a secret from standard input, so that it appears in no shell history and no list of processes.
fn read() -> Result<String, Failure> {
    let mut text = String::new();
    let read = std::io::stdin().take(SECRET_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|error| Failure::usage(format!("cannot read the secret from standard input: {error}")))?;
    if text.len() as u64 > SECRET_BYTES_MAX {
        return Err(Failure::usage(format!("a secret has at most {SECRET_BYTES_MAX} bytes")));
    }
    if text.trim().is_empty() {
        return Err(Failure::usage("the secret is read from standard input, which is empty"));
    }
    Ok(text)
}
