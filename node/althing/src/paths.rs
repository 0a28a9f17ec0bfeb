//! File locations: the XDG directories, or those that the command line names.

use std::path::PathBuf;

use althing_client::{Client, ClientError};

use crate::args::Args;
use crate::exit::Failure;

/// Folders of nodes that are looked at, to see which of them run.
const FOLDERS_MAX: usize = 256;

/// The files of one node and of its owner.
#[derive(Debug, Clone)]
pub struct Paths {
    /// The node's name.
    pub name: String,
    /// The node's data.
    pub data: PathBuf,
    /// True when the folder was named on the command line.
    pub data_named: bool,
    /// The data of this account's nodes, but for those whose folders are named.
    pub nodes: PathBuf,
    /// The owner's keys, and by default the configuration file.
    pub owner: PathBuf,
    /// The configuration file.
    pub config: PathBuf,
    /// True when the file was named on the command line, and so must exist.
    pub config_named: bool,
}

impl Paths {
    /// The files that the command line names, or the user's own.
    pub fn of(args: &Args) -> Result<Paths, Failure> {
        let dirs = directories::ProjectDirs::from("", "", "althing")
            .ok_or_else(|| Failure::failed("this user has no home directory; set HOME, or give --data and --config"))?;
        let owner = dirs.config_dir().to_owned();
        Ok(Paths {
            name: args.name.clone(),
            data: args.data.clone().unwrap_or_else(|| dirs.data_dir().join(&args.name)),
            data_named: args.data.is_some(),
            nodes: dirs.data_dir().to_owned(),
            config: args.config.clone().unwrap_or_else(|| owner.join("althing.toml")),
            config_named: args.config.is_some(),
            owner,
        })
    }

    /// The files of a node of a test, all in this folder.
    #[cfg(test)]
    pub fn within(folder: &std::path::Path) -> Paths {
        let path = || folder.to_owned();
        Paths {
            name: "default".to_owned(),
            data: path(),
            data_named: true,
            nodes: path(),
            owner: path(),
            config: folder.join("althing.toml"),
            config_named: false,
        }
    }

    /// The node's control socket.
    pub fn socket(&self) -> PathBuf {
        althing_client::socket(&self.data)
    }

    /// Connects to the node's control socket.
    pub async fn connect(&self) -> Result<Client, ClientError> {
        match Client::connect(&self.socket(), self.flags()).await {
            Err(ClientError::NoNode { socket, flags, .. }) => {
                Err(ClientError::NoNode { socket, flags, others: self.others().await })
            }
            connected => connected,
        }
    }

    /// The names of this user's other nodes that run; none where the folder of the data was named.
    async fn others(&self) -> Vec<String> {
        let folders = self.data.parent().filter(|_| !self.data_named).and_then(|all| std::fs::read_dir(all).ok());
        let mut names: Vec<String> = folders
            .into_iter()
            .flatten()
            .take(FOLDERS_MAX)
            .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
            .filter(|name| *name != self.name)
            .collect();
        names.sort();
        let mut running = Vec::new();
        for name in names {
            let socket = althing_client::socket(&self.data.with_file_name(&name));
            if tokio::net::UnixStream::connect(socket).await.is_ok() {
                running.push(name);
            }
        }
        running
    }

    /// The node's key file.
    pub fn node_key(&self) -> PathBuf {
        self.data.join("node.key")
    }

    /// The node's database.
    pub fn store(&self) -> PathBuf {
        self.data.join("store")
    }

    /// The flags that name this node on a command line.
    pub fn flags(&self) -> String {
        let name = if self.name == "default" { String::new() } else { format!(" --name {}", self.name) };
        let data = if self.data_named { format!(" --data {}", self.data.display()) } else { String::new() };
        name + &data
    }
}
