//! Two versions of an agent that divide its calls.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::AddRequest;

/// Begins a rollout.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutRequest {
    /// The new version, as an agent is added; `agreed` is the digest of what `POST /rollouts/{agent}/changes` showed.
    pub to: AddRequest,
    /// Its shares one after the other, percent: rising, the last one 100.
    pub steps: Vec<u8>,
    /// Of what these are shares.
    pub by: RolloutUnit,
    /// Whether it is given copies of all calls first, without effects and told to nobody.
    #[serde(default)]
    pub shadow: bool,
    /// Labelled cases that both versions are given before this is answered, and that are counted with the calls: lines of JSON.
    #[serde(default)]
    pub cases: Option<String>,
}

/// What is given to a version as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RolloutUnit {
    /// A conversation.
    Call,
    /// All conversations of a caller.
    Caller,
    /// All work that a group gives to the agent on this node; calls that are no work of a group stay with the stable version.
    Group,
    /// All such work that came by one channel; work without one is divided by its group, and all else by its conversation.
    Channel,
}

impl RolloutUnit {
    /// What is divided, in words.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            RolloutUnit::Call => "conversations",
            RolloutUnit::Caller => "callers",
            RolloutUnit::Group => "groups",
            RolloutUnit::Channel => "channels",
        }
    }
}

/// Ends a rollout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RolloutOrder {
    /// Which version has all calls from then on.
    pub keep: RolloutSide,
}

/// One of the two versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RolloutSide {
    /// The one that everybody had before.
    Stable,
    /// The one that is tried.
    New,
}

/// How far a rollout came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum RolloutState {
    /// Both versions answer.
    Running,
    /// The new version has all calls, by the evidence.
    Promoted,
    /// The new version has all calls, as the owner said so.
    PromotedByOwner,
    /// The new version has all calls, as on another node of the owner.
    PromotedElsewhere,
    /// The new version went back, by itself or as on another node of the owner.
    WentBack,
    /// The owner ended it, or the version that everybody had went back on another node.
    Aborted,
}

impl RolloutState {
    /// The words for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            RolloutState::Running => "under way",
            RolloutState::Promoted => "promoted by the evidence",
            RolloutState::PromotedByOwner => "promoted by the owner",
            RolloutState::PromotedElsewhere => "promoted, as on another node of its owner",
            RolloutState::WentBack => "went back",
            RolloutState::Aborted => "aborted",
        }
    }
}

/// A rollout: the one that is under way, or the last one of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutStatus {
    /// Which agent, by name.
    pub agent: String,
    /// How far it came.
    pub state: RolloutState,
    /// Why the new version went back, or on which other node it was promoted, by its DID; none where neither is so.
    pub reason: Option<String>,
    /// The version that everybody has.
    pub stable: VersionStatus,
    /// The version that is or was tried.
    pub new: VersionStatus,
    /// The shares of the new version one after the other, percent.
    pub steps: Vec<u8>,
    /// Of what these are shares.
    pub by: RolloutUnit,
    /// Calls of the new version that ended at this step.
    pub calls: u64,
    /// How many of them a step needs, at least.
    pub calls_min: u32,
    /// The evidence that the new version is worse: with an equally good one it would be seen in one rollout of so many, at most.
    pub one_in: f64,
    /// The evidence at which it goes back.
    pub limit: f64,
    /// What was counted.
    pub signals: Vec<RolloutSignal>,
    /// Calls that were not counted, since others like them are enough; none where all were.
    pub left_out: Option<RolloutLeftOut>,
    /// Its copies of calls; none of a rollout without.
    pub shadow: Option<RolloutShadow>,
    /// Labelled cases that were counted; none of a rollout without.
    pub cases: Option<RolloutCases>,
    /// Calls of tools by which the new version may have changed something.
    pub effects: Vec<RolloutEffect>,
    /// Versions that went back, and are not tried again.
    pub went_back: Vec<VersionReversal>,
    /// The release that the new version is, where the node began this by itself; none once it was promoted.
    pub release: Option<String>,
}

/// A version of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionStatus {
    /// What its file says; none where that is not on this node any more.
    pub version: Option<String>,
    /// The digest of its file and its code, hexadecimal.
    pub digest: String,
    /// Its share of new conversations, percent.
    pub share_percent: u8,
    /// Why it does not run, where it should.
    pub why: Option<String>,
}

/// Calls of both versions, and how many of them were bad in one way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutSignal {
    /// In which: such as `ended with an error`.
    pub what: String,
    /// Calls of the stable version.
    pub stable_calls: u64,
    /// The bad ones of these.
    pub stable_bad: u64,
    /// Calls of the new version.
    pub new_calls: u64,
    /// The bad ones of these.
    pub new_bad: u64,
}

/// Calls that ended and are no evidence, by why: others of the same owner, or user of the node's gateway, are a fifth of their step,
/// or others of the same conversation a tenth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutLeftOut {
    /// Calls of the stable version of whose owners or users there were too many.
    pub stable_of_owners: u64,
    /// Calls of the stable version of whose conversations there were too many.
    pub stable_of_conversations: u64,
    /// Calls of the new version of whose owners or users there were too many.
    pub new_of_owners: u64,
    /// Calls of the new version of whose conversations there were too many.
    pub new_of_conversations: u64,
}

/// Calls of the stable version that were given to the new one too: without effects, and what it answered was told to nobody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutShadow {
    /// Whether calls are given to both now.
    pub running: bool,
    /// How many of them the new version ended.
    pub calls: u64,
    /// How many of these failed, were refused by a gate, or failed in silence.
    pub bad: u64,
    /// How many it answered in another way than the stable version.
    pub differing: u64,
    /// How many others it ended that count as nothing, since a call was denied to it there; since the rollout began or the node was
    /// started.
    pub denied: u64,
    /// Calls that the new version answered by itself, and that were counted.
    pub live_calls: u64,
    /// The bad ones of these.
    pub live_bad: u64,
    /// How probable it is that it fails as often where nobody hears it as where somebody does, if what was counted is chance, 0 to
    /// 1; none before there are calls of both kinds.
    pub alike: Option<f64>,
}

/// Labelled cases that both versions were given, without effects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutCases {
    /// How many counted for the stable version.
    pub stable: u64,
    /// How many of these were wrong.
    pub stable_wrong: u64,
    /// How many counted for the new version.
    pub new: u64,
    /// How many of these were wrong.
    pub new_wrong: u64,
}

/// Calls of one tool by which a version may have changed something.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RolloutEffect {
    /// `server/tool`.
    pub tool: String,
    /// How many there were.
    pub calls: u32,
}

/// A version that went back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VersionReversal {
    /// The digest of its file and its code, hexadecimal.
    pub digest: String,
    /// Why, in words for a person.
    pub reason: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_rollout_says_its_versions_and_what_was_counted() {
        let version = |version: Option<&str>, share_percent| VersionStatus {
            version: version.map(str::to_owned),
            digest: "0a".to_owned(),
            share_percent,
            why: None,
        };
        let what = "ended with an error".to_owned();
        let status = RolloutStatus {
            agent: "shop".to_owned(),
            state: RolloutState::WentBack,
            reason: Some("it crashed".to_owned()),
            stable: version(Some("1.0.0"), 100),
            new: version(None, 0),
            steps: vec![5, 100],
            by: RolloutUnit::Call,
            calls: 3,
            calls_min: 50,
            one_in: 1.5,
            limit: 20.0,
            signals: vec![RolloutSignal { what, stable_calls: 57, stable_bad: 0, new_calls: 3, new_bad: 1 }],
            left_out: Some(RolloutLeftOut {
                stable_of_owners: 4,
                stable_of_conversations: 3,
                new_of_owners: 2,
                new_of_conversations: 1,
            }),
            shadow: Some(RolloutShadow {
                running: false,
                calls: 60,
                bad: 1,
                differing: 2,
                denied: 4,
                live_calls: 3,
                live_bad: 1,
                alike: Some(0.5),
            }),
            cases: Some(RolloutCases { stable: 9, stable_wrong: 0, new: 9, new_wrong: 4 }),
            effects: vec![RolloutEffect { tool: "mail/send".to_owned(), calls: 2 }],
            went_back: vec![VersionReversal { digest: "0a".to_owned(), reason: "it crashed".to_owned() }],
            release: Some("urn:p:shop 1.1.0".to_owned()),
        };
        assert_json(
            &status,
            concat!(
                r#"{"agent":"shop","state":"wentBack","reason":"it crashed","#,
                r#""stable":{"version":"1.0.0","digest":"0a","sharePercent":100,"why":null},"#,
                r#""new":{"version":null,"digest":"0a","sharePercent":0,"why":null},"#,
                r#""steps":[5,100],"by":"call","calls":3,"callsMin":50,"oneIn":1.5,"limit":20.0,"#,
                r#""signals":[{"what":"ended with an error","stableCalls":57,"stableBad":0,"newCalls":3,"newBad":1}],"#,
                r#""leftOut":{"stableOfOwners":4,"stableOfConversations":3,"newOfOwners":2,"newOfConversations":1},"#,
                r#""shadow":{"running":false,"calls":60,"bad":1,"differing":2,"denied":4,"liveCalls":3,"liveBad":1,"alike":0.5},"#,
                r#""cases":{"stable":9,"stableWrong":0,"new":9,"newWrong":4},"#,
                r#""effects":[{"tool":"mail/send","calls":2}],"#,
                r#""wentBack":[{"digest":"0a","reason":"it crashed"}],"release":"urn:p:shop 1.1.0"}"#,
            ),
        );
        assert_json(&RolloutOrder { keep: RolloutSide::New }, r#"{"keep":"new"}"#);
    }
}
