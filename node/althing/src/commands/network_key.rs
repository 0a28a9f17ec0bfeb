//! `althing network-key`; needs no running node.

use std::path::Path;

use althing_operations::network_key;
use serde_json::json;

use crate::args::NetworkKey;
use crate::commands::{Out, text};
use crate::exit::Failure;
use crate::ports::entropy;

/// Makes a private network's key, or shows which one a file holds.
pub fn run(asked: &NetworkKey, out: &Out) -> Result<(), Failure> {
    let (file, key) = match asked {
        NetworkKey::New { file } => (file, network_key::make(file, &entropy())?),
        NetworkKey::Show { file } => (file, network_key::read(file)?),
    };
    out.show(&json!({ "file": file, "mark": key.mark() }), |value| {
        let mark = format!("{}  the key {}", Path::display(file), text(value, "mark"));
        match asked {
            NetworkKey::New { .. } => format!(
                "{mark}\nbring the file to each node of the network, and start them with `althing up --network-key {}`",
                file.display()
            ),
            NetworkKey::Show { .. } => mark,
        }
    });
    Ok(())
}
