//! What is asked of the applications of groups.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// An operation on the applications of groups.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum AppRequest {
    /// Brings an application up, or changes it. If this node has no group of that name, it is formed where `form` says so;
    /// otherwise nothing is changed, and the answer says what would be.
    Apply {
        /// The app file, as read.
        file: String,
        /// The files that it names, as read, by their paths in it.
        files: BTreeMap<String, String>,
        /// Where these paths begin.
        folder: PathBuf,
        /// Only say what would change.
        dry_run: bool,
        /// Form the group if there is none of that name: a name may be mistyped.
        #[serde(default)]
        form: bool,
    },
    /// Removes an application.
    Remove {
        /// The group's name or id.
        group: String,
        /// The application.
        app: String,
    },
    /// Lists the applications of a group.
    List {
        /// The group's name or id.
        group: String,
    },
    /// Shows one: where its agents were placed, and where they run.
    Show {
        /// The group's name or id.
        group: String,
        /// The application.
        app: String,
    },
}
