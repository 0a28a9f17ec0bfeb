//! From the YAML tree to what a program may reach.

use std::collections::BTreeMap;
use std::path::PathBuf;

use super::super::{Demand, Egress, OwnFolder, Sandbox};
use crate::reader::yaml::{At, Node};
use crate::reader::{Fields, Reader};

const SANDBOX_KEYS: [&str; 5] = ["required", "folder", "read", "write", "egress"];
const EGRESS_KEYS: [&str; 4] = ["host", "variable", "path", "headers"];

/// The sandbox of a program; without the key the default.
pub(crate) fn sandbox(reader: &mut Reader, fields: &Fields<'_>) -> Option<Sandbox> {
    let Some(at) = fields.value("sandbox") else { return Some(Sandbox::default()) };
    let path = fields.path_of("sandbox");
    match &at.node {
        Node::Text(_) => {
            let or = ", or a map with required, folder, read, write and egress";
            let demand = reader.word(fields, "sandbox", (&Demand::WORDS, or), Demand::from_word)?;
            Some(Sandbox { demand, ..Sandbox::default() })
        }
        Node::Map(_) => rules(reader, at, &path),
        _ => {
            reader.wrong_type(path, at, "none, required or a map");
            None
        }
    }
}

fn rules(reader: &mut Reader, at: &At, path: &str) -> Option<Sandbox> {
    let fields = reader.fields(at, path, &SANDBOX_KEYS)?;
    let (required, folder) = (required(reader, &fields), folder(reader, &fields));
    let (read, write) = (paths(reader, &fields, "read"), paths(reader, &fields, "write"));
    let egress = match fields.value("egress") {
        Some(_) => reader.list(&fields, "egress", egress),
        None => Some(Vec::new()),
    };
    Some(Sandbox { demand: required?, folder: folder?, read, write, egress: egress? })
}

fn required(reader: &mut Reader, fields: &Fields<'_>) -> Option<Demand> {
    let Some(at) = fields.value("required") else { return Some(Demand::Best) };
    match at.node {
        Node::Bool(true) => Some(Demand::Required),
        Node::Bool(false) => Some(Demand::Best),
        _ => {
            reader.wrong_type(fields.path_of("required"), at, "true or false");
            None
        }
    }
}

fn folder(reader: &mut Reader, fields: &Fields<'_>) -> Option<OwnFolder> {
    if fields.value("folder").is_none() {
        return Some(OwnFolder::default());
    }
    reader.word(fields, "folder", (&OwnFolder::WORDS, ""), OwnFolder::from_word)
}

fn paths(reader: &mut Reader, fields: &Fields<'_>, key: &str) -> Vec<PathBuf> {
    reader.distinct(fields, key).into_iter().map(PathBuf::from).collect()
}

fn egress(reader: &mut Reader, at: &At, path: String) -> Option<Egress> {
    match &at.node {
        Node::Text(host) => return Some(Egress::to(host)),
        Node::Map(_) => {}
        _ => {
            reader.wrong_type(path, at, "a host, or a map with host, variable, path and headers");
            return None;
        }
    }
    let fields = reader.fields(at, &path, &EGRESS_KEYS)?;
    let (host, variable) = (reader.needed(&fields, "host"), reader.text(&fields, "variable"));
    let (path, headers) = (reader.text(&fields, "path"), headers(reader, &fields));
    Some(Egress { host: host?, variable, path, headers: headers? })
}

fn headers(reader: &mut Reader, fields: &Fields<'_>) -> Option<BTreeMap<String, String>> {
    super::variables(reader, fields, "headers")
}
