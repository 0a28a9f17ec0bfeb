//! What is asked of the applications of groups, and what is answered.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::LocalPath;

/// An operation on the applications of groups.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum AppRequest {
    /// Brings an application up, or changes it. If this node has no group of that name, it is formed where `form` says so;
    /// otherwise nothing is changed, and the answer says what would be.
    Apply {
        /// The app file, as read.
        file: String,
        /// The files that it names, as read, by their paths in it.
        files: BTreeMap<String, String>,
        /// Where these paths begin, on each member; only who asks on the node's machine says it. Without it, the agents have no
        /// files of their own.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        folder: Option<LocalPath>,
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
}

/// What an application changed, or would change.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppChanges {
    /// The application.
    pub app: String,
    /// The group's name.
    pub group: String,
    /// Whether this node has no such group, so that it would be formed; not written where the application is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forms: Option<bool>,
    /// Each of its parts.
    pub changes: Vec<AppChange>,
    /// The groups that this node has; written where it has no such group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub groups: Option<Vec<String>>,
    /// Its agents that do not run yet on as many members as they should; written where it has such a group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<Vec<String>>,
}

/// What becomes of a part of an application.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppChange {
    /// `agent`, `workflow` or `schedule`.
    pub what: String,
    /// What it is called.
    pub name: String,
    /// `added`, `changed`, `same` or `removed`.
    pub change: String,
}

/// The applications of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppList {
    /// Their names.
    pub apps: Vec<String>,
}

/// What an application consists of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppStatus {
    /// Its name.
    pub app: String,
    /// Its agents, by name.
    pub agents: Vec<AppAgentStatus>,
    /// The names of its workflows.
    pub workflows: Vec<String>,
    /// The names of its schedules.
    pub schedules: Vec<String>,
}

/// An agent of a group: where it was placed, and where it runs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppAgentStatus {
    /// Which agent, by name.
    pub agent: String,
    /// On so many members; 0: on each.
    pub instances: u8,
    /// On so many members at most, while there is much work for it.
    pub instances_max: Option<u8>,
    /// The DIDs of the members that were told to host it.
    pub placed: Vec<String>,
    /// The DIDs of the members that run it, as far as this node has heard.
    pub runs: Vec<String>,
    /// The application that it is part of.
    pub app: Option<String>,
    /// Whether it is signed with its owner's present key; else it runs nowhere.
    pub signed: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn own(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn changes_are_told_with_what_belongs_to_them() {
        let change = AppChange { what: own("agent"), name: own("echo"), change: own("added") };
        let removal = AppChanges {
            app: own("desk"),
            group: own("team"),
            forms: None,
            changes: vec![change],
            groups: None,
            waiting: None,
        };
        let changes = r#""changes":[{"what":"agent","name":"echo","change":"added"}]"#;
        assert_json(&removal, &format!(r#"{{"app":"desk","group":"team",{changes}}}"#));
        let formed = AppChanges { forms: Some(true), groups: Some(vec![own("taem")]), ..removal.clone() };
        let json = format!(r#"{{"app":"desk","group":"team","forms":true,{changes},"groups":["taem"]}}"#);
        assert_json(&formed, &json);
        let applied = AppChanges { forms: Some(false), waiting: Some(Vec::new()), ..removal };
        let json = format!(r#"{{"app":"desk","group":"team","forms":false,{changes},"waiting":[]}}"#);
        assert_json(&applied, &json);
        assert_eq!(serde_json::to_string(&applied).expect("a reply is JSON"), json);
    }

    #[test]
    fn applications_are_told_with_where_their_agents_run() {
        assert_json(&AppList { apps: vec![own("desk")] }, r#"{"apps":["desk"]}"#);
        let each = AppAgentStatus {
            agent: own("echo"),
            instances: 0,
            instances_max: None,
            placed: Vec::new(),
            runs: Vec::new(),
            app: None,
            signed: false,
        };
        let some = AppAgentStatus {
            instances: 1,
            instances_max: Some(3),
            placed: vec![own("did:a"), own("did:b")],
            runs: vec![own("did:a")],
            app: Some(own("desk")),
            signed: true,
            ..each.clone()
        };
        let status = AppStatus {
            app: own("desk"),
            agents: vec![each, some],
            workflows: vec![own("letter")],
            schedules: Vec::new(),
        };
        assert_json(
            &status,
            concat!(
                r#"{"app":"desk","agents":[{"agent":"echo","instances":0,"instancesMax":null,"placed":[],"runs":[],"#,
                r#""app":null,"signed":false},{"agent":"echo","instances":1,"instancesMax":3,"#,
                r#""placed":["did:a","did:b"],"runs":["did:a"],"app":"desk","signed":true}],"workflows":["letter"],"#,
                r#""schedules":[]}"#,
            ),
        );
    }
}
