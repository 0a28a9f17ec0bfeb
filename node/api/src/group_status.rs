//! Groups at a glance.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What `GET /groups` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupList {
    /// Each group of the node, ended ones too.
    pub groups: Vec<GroupEntry>,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupEntry {
    /// What every look at it tells.
    #[serde(flatten)]
    pub summary: GroupSummary,
    /// What it does; none where its state cannot be read here.
    pub work: Option<GroupWork>,
    /// Entries of its log that are here and not applied yet; none if its replica does not run.
    pub lag: Option<u64>,
}

/// What every look at a group tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupSummary {
    /// Its id: an urn that no other group has.
    pub id: String,
    /// Its name, for people.
    pub name: String,
    /// `member`, `joining`, `gone` or `dissolved`.
    pub standing: String,
    /// What this member does; none if its replica does not run.
    pub role: Option<GroupRole>,
    /// Who leads, as far as this node heard.
    pub leader: Option<String>,
    /// Else who led last, if that is known.
    pub last_leader: Option<String>,
    /// For how long no leader was heard, milliseconds; none before one was.
    pub silent_ms: Option<u64>,
    /// The term of its leader; none if its replica does not run.
    pub term: Option<u64>,
    /// Why its replica does not run.
    pub failure: Option<String>,
}

/// What a member of a group does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum GroupRole {
    /// Decides the order of commands.
    Leader,
    /// Votes, and follows the leader.
    Follower,
    /// Wants to lead.
    Candidate,
    /// Does not vote.
    Learner,
}

impl GroupRole {
    /// The word for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            GroupRole::Leader => "leader",
            GroupRole::Follower => "follower",
            GroupRole::Candidate => "candidate",
            GroupRole::Learner => "learner",
        }
    }
}

/// What a group does, and how often it had to do something again.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupWork {
    /// Tasks that no member has yet.
    pub waiting: usize,
    /// Tasks that a member has.
    pub working: usize,
    /// Tasks that were completed.
    pub completed: usize,
    /// Tasks that failed, or took too long.
    pub failed: usize,
    /// Attempts after the first, of all tasks.
    pub redone: u64,
    /// How often a member handed a task over.
    pub handed_over: u64,
    /// How often a member took a task from another.
    pub stolen: u64,
    /// Runs of workflows under way.
    pub runs: usize,
    /// Runs that wait for somebody's approval.
    pub asking: usize,
    /// Schedules whose last three runs failed, by name.
    pub alarms: Vec<String>,
}

/// What `GET /groups/{group}` answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupStatus {
    /// What every look at it tells.
    #[serde(flatten)]
    pub summary: GroupSummary,
    /// Its log here; not written if its replica does not run.
    #[serde(flatten)]
    pub log: Option<GroupLog>,
    /// Members that equivocated when they led, each with the proof.
    pub equivocated: Vec<GroupEquivocation>,
    /// Members that had another state at the last mark of the group's time.
    pub differing: Vec<String>,
    /// Its state; not written where that cannot be read here.
    #[serde(flatten)]
    pub state: Option<GroupState>,
}

/// The log of a group, as it is at one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupLog {
    /// The last entry here.
    pub last_entry: Option<u64>,
    /// The last entry that was applied here.
    pub applied_entry: Option<u64>,
    /// The last entry that the snapshot here covers.
    pub snapshot_entry: Option<u64>,
    /// At the leader: how many entries each other member lacks; none where it is not known to have any.
    pub lag: BTreeMap<String, Option<u64>>,
}

/// A member that signed two different entries when it led.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupEquivocation {
    /// Its DID.
    pub node: String,
    /// In which term it led.
    pub term: u64,
    /// The first index with two entries.
    pub entry: u64,
    /// The proof, hexadecimal, which anybody can verify.
    pub proof: Option<String>,
}

/// The state of a group, as it has arrived at one member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupState {
    /// Its members, in the order of their keys.
    pub members: Vec<GroupMember>,
    /// Its charter; none before it is founded.
    pub charter: Option<GroupCharter>,
    /// What it does.
    pub work: Option<GroupWork>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupMember {
    /// Its DID.
    pub node: String,
    /// Its owner's id.
    pub owner: String,
    /// Whether it votes.
    pub votes: bool,
    /// Since when it is silent, milliseconds since 1970; none if it is not.
    pub silent_since_ms: Option<u64>,
    /// The version of the rules that it knows.
    pub rules: u32,
    /// Whether it is this node, or connected to it.
    pub connected: bool,
}

/// The charter of a group, and how much the group holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupCharter {
    /// The group's name, for people.
    pub name: String,
    /// 0 for the first charter, incremented by each.
    pub sequence: u64,
    /// The ids of the owners.
    pub owners: Vec<String>,
    /// How many of the owners must sign.
    pub threshold: u8,
    /// Who may write: `owners` or `members`.
    pub write: String,
    /// Who may give the group work: `owners` or `members`.
    pub assign: String,
    /// Whose nodes show all of the group: those of `owners` or of `members`.
    pub read: String,
    /// Members that vote, at most.
    pub voters_max: u8,
    /// After how many milliseconds a silent voter is replaced; none: never.
    pub replace_after_ms: Option<u64>,
    /// Proposals that wait for signatures.
    pub proposals: usize,
    /// The epoch: it rises when a member leaves and when the charter changes.
    pub epoch: u64,
    /// Values that it keeps.
    pub values: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn summary() -> GroupSummary {
        GroupSummary {
            id: "0a".to_owned(),
            name: "team".to_owned(),
            standing: "member".to_owned(),
            role: Some(GroupRole::Leader),
            leader: Some("did:key:z6Mk".to_owned()),
            last_leader: None,
            silent_ms: Some(3),
            term: Some(7),
            failure: None,
        }
    }

    fn work() -> GroupWork {
        GroupWork {
            waiting: 1,
            working: 2,
            completed: 3,
            failed: 4,
            redone: 5,
            handed_over: 6,
            stolen: 7,
            runs: 8,
            asking: 9,
            alarms: vec!["nightly".to_owned()],
        }
    }

    /// A group as JSON, whose end is left open.
    const SUMMARY: &str = concat!(
        r#"{"id":"0a","name":"team","standing":"member","role":"leader","leader":"did:key:z6Mk","lastLeader":null,"#,
        r#""silentMs":3,"term":7,"failure":null,"#,
    );
    /// One that does not run.
    const GONE: &str = concat!(
        r#"{"id":"0a","name":"team","standing":"gone","role":null,"leader":null,"lastLeader":null,"#,
        r#""silentMs":null,"term":null,"failure":"a row is damaged","#,
    );
    const WORK: &str = concat!(
        r#"{"waiting":1,"working":2,"completed":3,"failed":4,"redone":5,"handedOver":6,"stolen":7,"runs":8,"#,
        r#""asking":9,"alarms":["nightly"]}"#,
    );

    fn gone() -> GroupSummary {
        GroupSummary {
            standing: "gone".to_owned(),
            role: None,
            leader: None,
            silent_ms: None,
            term: None,
            failure: Some("a row is damaged".to_owned()),
            ..summary()
        }
    }

    #[test]
    fn groups_are_listed_with_what_is_not_known_of_them() {
        let here = GroupEntry { summary: summary(), work: Some(work()), lag: Some(0) };
        let ended = GroupEntry { summary: gone(), work: None, lag: None };
        let json = format!(r#"{{"groups":[{SUMMARY}"work":{WORK},"lag":0}},{GONE}"work":null,"lag":null}}]}}"#);
        assert_json(&GroupList { groups: vec![here, ended] }, &json);
        let all = [GroupRole::Leader, GroupRole::Follower, GroupRole::Candidate, GroupRole::Learner];
        all.iter().for_each(|role| assert_json(role, &format!("{:?}", role.name())));
    }

    #[test]
    fn a_group_that_does_not_run_is_told_without_its_log_and_its_state() {
        let ended =
            GroupStatus { summary: gone(), log: None, equivocated: Vec::new(), differing: Vec::new(), state: None };
        assert_json(&ended, &format!(r#"{GONE}"equivocated":[],"differing":[]}}"#));
    }

    #[test]
    fn a_group_is_told_with_its_log_its_members_and_its_charter() {
        let lag = [("did:key:z6Ma".to_owned(), Some(2)), ("did:key:z6Mb".to_owned(), None)];
        let log = GroupLog {
            last_entry: Some(9),
            applied_entry: Some(8),
            snapshot_entry: None,
            lag: lag.into_iter().collect(),
        };
        let member = GroupMember {
            node: "did:key:z6Mk".to_owned(),
            owner: "urn:althing:zQm".to_owned(),
            votes: true,
            silent_since_ms: None,
            rules: 2,
            connected: true,
        };
        let charter = GroupCharter {
            name: "team".to_owned(),
            sequence: 1,
            owners: vec!["urn:althing:zQm".to_owned()],
            threshold: 1,
            write: "members".to_owned(),
            assign: "owners".to_owned(),
            read: "members".to_owned(),
            voters_max: 5,
            replace_after_ms: None,
            proposals: 2,
            epoch: 3,
            values: 4,
        };
        let proven =
            GroupEquivocation { node: "did:key:z6Mb".to_owned(), term: 5, entry: 6, proof: Some("0f".to_owned()) };
        let status = GroupStatus {
            summary: summary(),
            log: Some(log),
            equivocated: vec![proven.clone(), GroupEquivocation { proof: None, ..proven }],
            differing: vec!["did:key:z6Ma".to_owned()],
            state: Some(GroupState { members: vec![member], charter: Some(charter), work: None }),
        };
        let told = concat!(
            r#""lastEntry":9,"appliedEntry":8,"snapshotEntry":null,"lag":{"did:key:z6Ma":2,"did:key:z6Mb":null},"#,
            r#""equivocated":[{"node":"did:key:z6Mb","term":5,"entry":6,"proof":"0f"},"#,
            r#"{"node":"did:key:z6Mb","term":5,"entry":6,"proof":null}],"differing":["did:key:z6Ma"],"#,
            r#""members":[{"node":"did:key:z6Mk","owner":"urn:althing:zQm","votes":true,"silentSinceMs":null,"#,
            r#""rules":2,"connected":true}],"charter":{"name":"team","sequence":1,"owners":["urn:althing:zQm"],"#,
            r#""threshold":1,"write":"members","assign":"owners","read":"members","votersMax":5,"#,
            r#""replaceAfterMs":null,"proposals":2,"epoch":3,"values":4},"work":null}"#,
        );
        assert_json(&status, &format!("{SUMMARY}{told}"));
    }
}
