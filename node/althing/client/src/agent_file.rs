//! Agent files and contracts, as a client reads and checks them before it sends them to a node.

use std::path::Path;

use althing_api::{AddRequest, Folder, LocalPath};
use althing_protocol::Contract;
use althing_store::file::read_text;
use althing_td::{AgentFile, parse_contract, parse_partial_contract};
use serde_json::Value;

use crate::error::{InputError, InputErrorReason};

/// Largest agent file.
const FILE_BYTES_MAX: u64 = 256 << 10;

/// Adds the path to an error.
fn at<E: Into<InputErrorReason>>(path: &Path) -> impl Fn(E) -> InputError {
    move |reason| InputError { path: path.to_owned(), reason: reason.into() }
}

fn content(path: &Path) -> Result<String, InputError> {
    read_text(path, FILE_BYTES_MAX).map_err(at(path))
}

/// Checks an agent file together with its contract: for `contract lint` and `agent add` alike.
///
/// # Errors
/// [`InputErrorReason::Invalid`], with `path`.
pub fn check(file: &AgentFile, path: &Path) -> Result<(), InputError> {
    file.check().map_err(at(path))
}

/// Reads and checks a contract.
///
/// # Errors
/// See [`InputErrorReason`].
pub fn read_contract(path: &Path) -> Result<Contract, InputError> {
    parse_contract(&content(path)?).map_err(at(path))
}

/// Reads what may be a part of a contract.
///
/// # Errors
/// See [`InputErrorReason`].
pub fn read_partial_contract(path: &Path) -> Result<Value, InputError> {
    parse_partial_contract(&content(path)?).map_err(at(path))
}

/// The contract of a file that is one, or of an agent file.
///
/// # Errors
/// See [`InputErrorReason`].
pub fn read_any_contract(path: &Path) -> Result<Contract, InputError> {
    let text = content(path)?;
    let is_agent = |tree: Value| tree.get("runtime").is_some() || tree.get("name").is_some();
    if !parse_partial_contract(&text).is_ok_and(is_agent) {
        return read_contract(path);
    }
    read(path)?.file.contract.ok_or_else(|| at(path)(InputErrorReason::NoContract))
}

/// Reads and checks an agent file; relative paths in it start at its folder.
///
/// # Errors
/// See [`InputErrorReason`].
pub fn read(path: &Path) -> Result<AddRequest, InputError> {
    let mut file = AgentFile::parse(&content(path)?).map_err(at(path))?;
    let whole = path.canonicalize().map_err(at(path))?;
    let folder = whole.parent().unwrap_or(Path::new("/")).to_owned();
    let mut sources = vec![LocalPath::new(&whole)];
    if let Some(contract) = &file.contract_file {
        let path = folder.join(contract);
        // With a role it need not be whole.
        if file.role.is_none() {
            file.contract = Some(read_contract(&path)?);
        }
        file.requested = Some(read_partial_contract(&path)?);
        check(&file, &whole)?;
        sources.push(LocalPath::new(path));
    }
    Ok(AddRequest { file, folder: Folder::here(folder), sources, reservation: None, agreed: None })
}
