//! What operations on groups answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A group that was formed or joined.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupName {
    /// Its id: an urn that no other group has.
    pub id: String,
    /// Its name, for people.
    pub name: String,
}

/// What an operation on a group answers: each has its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum GroupReply {
    /// Of `invite`.
    Invitation(GroupInvitation),
    /// Of `leave`.
    Departure(GroupDeparture),
    /// The same, where what the node had of the group is removed.
    Removal(GroupRemoval),
    /// Of `expel`.
    Expulsion(GroupExpulsion),
    /// Of `dissolve`.
    Dissolution(GroupDissolution),
    /// Of `amend`.
    Amendment(GroupAmendment),
    /// Of `endorse`.
    Endorsement(GroupEndorsement),
    /// Of `transfer`.
    Transfer(GroupTransfer),
    /// Of `set`.
    Version(GroupVersion),
    /// Of `remove`.
    ValueRemoval(GroupValueRemoval),
}

/// A ticket for a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupInvitation {
    /// The group's name.
    pub group: String,
    /// The DID of the node that it is for.
    pub node: String,
    /// The ticket, as text.
    pub ticket: String,
    /// For how long it is valid, seconds.
    pub valid_for_s: u64,
    /// The proposal that other owners must sign before it is, hexadecimal; none if it is already.
    pub proposal: Option<String>,
}

/// This node left a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupDeparture {
    /// The group's id.
    pub left: String,
}

/// What this node had of a group is removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupRemoval {
    /// The group's id.
    pub forgotten: String,
}

/// A node was expelled, or that was proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupExpulsion {
    /// Its DID.
    pub expelled: String,
    /// The proposal that other owners must sign first; not written if none must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

/// A group was dissolved, or that was proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupDissolution {
    /// Its id.
    pub dissolved: String,
    /// The proposal that other owners must sign first; not written if none must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

/// The charter of a group was changed, or that was proposed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupAmendment {
    /// The group's id.
    pub amended: String,
    /// The proposal that other owners must sign first; not written if none must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

/// What waits for the signatures of owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupProposals {
    /// Each of them.
    pub proposals: Vec<GroupProposal>,
}

/// Something that waits for the signatures of owners.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupProposal {
    /// Its name, hexadecimal.
    pub id: String,
    /// What it says, for people.
    pub about: String,
    /// The id of the owner who proposed it.
    pub proposer: String,
    /// The ids of the owners who signed it.
    pub signers: Vec<String>,
    /// How many must.
    pub threshold: u8,
    /// When it expires, milliseconds since 1970.
    pub expires_ms: u64,
}

/// A proposal was signed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupEndorsement {
    /// How its name begins, as it was asked.
    pub endorsed: String,
    /// The ticket, if it invites a node and enough owners signed.
    pub ticket: Option<String>,
    /// The proposal, if other owners must sign it too; not written if none must.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proposal: Option<String>,
}

/// A member was asked to lead.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupTransfer {
    /// Its DID.
    pub asked: String,
}

/// A value was written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupVersion {
    /// The key that it is written under.
    pub key: String,
    /// Its version after that, which the next write may ask for.
    pub version: Option<u64>,
}

/// A value was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupValueRemoval {
    /// Its key.
    pub removed: String,
    /// The version that the removal has, if it has one.
    pub version: Option<u64>,
}

/// A value of a group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupValue {
    /// The key that it is under.
    pub key: String,
    /// The value; what is no UTF-8 in it is replaced.
    pub value: String,
    /// Its version, which a write may ask for.
    pub version: u64,
    /// How current it is.
    #[serde(flatten)]
    pub age: GroupAge,
}

/// Keys of a group's values.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupKeys {
    /// Each of them.
    pub keys: Vec<String>,
    /// How current they are.
    #[serde(flatten)]
    pub age: GroupAge,
}

/// How current what was read of a group is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupAge {
    /// Whether it was read as it has arrived here, without asking the leader.
    pub stale: bool,
    /// Then for how long no leader was heard, milliseconds; none if none was since the node started.
    pub stale_ms: Option<u64>,
}

/// A group became an agent, or is one no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ServeReply {
    /// It is an agent.
    Start(GroupAgentStart),
    /// It is none any more.
    End(GroupAgentEnd),
}

/// A group is an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupAgentStart {
    /// The agent's name.
    pub agent: String,
    /// Members that are known to host an agent with the capability that it asks for; none if it asks for none.
    pub members_able: Option<usize>,
}

/// A group is no agent any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GroupAgentEnd {
    /// The agent's name.
    pub ended: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn own(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn an_invitation_is_told_with_what_must_be_signed_first() {
        assert_json(&GroupName { id: own("0a"), name: own("team") }, r#"{"id":"0a","name":"team"}"#);
        let invitation = GroupInvitation {
            group: own("team"),
            node: own("did:key:z6Mk"),
            ticket: own("t1"),
            valid_for_s: 600,
            proposal: None,
        };
        let json = r#"{"group":"team","node":"did:key:z6Mk","ticket":"t1","validForS":600,"proposal":null}"#;
        assert_json(&invitation, json);
        let waits = GroupInvitation { proposal: Some(own("0f")), ..invitation };
        assert_json(&waits, &json.replace("null", r#""0f""#));
    }

    #[test]
    fn what_is_done_is_told_and_the_proposal_only_where_others_must_sign() {
        let waits = || Some(own("0f"));
        assert_json(&GroupDeparture { left: own("0a") }, r#"{"left":"0a"}"#);
        assert_json(&GroupRemoval { forgotten: own("0a") }, r#"{"forgotten":"0a"}"#);
        assert_json(&GroupExpulsion { expelled: own("did:x"), proposal: None }, r#"{"expelled":"did:x"}"#);
        let expulsion = GroupExpulsion { expelled: own("did:x"), proposal: waits() };
        assert_json(&expulsion, r#"{"expelled":"did:x","proposal":"0f"}"#);
        assert_json(&GroupDissolution { dissolved: own("0a"), proposal: None }, r#"{"dissolved":"0a"}"#);
        let dissolution = GroupDissolution { dissolved: own("0a"), proposal: waits() };
        assert_json(&dissolution, r#"{"dissolved":"0a","proposal":"0f"}"#);
        assert_json(&GroupAmendment { amended: own("0a"), proposal: None }, r#"{"amended":"0a"}"#);
        let amendment = GroupAmendment { amended: own("0a"), proposal: waits() };
        assert_json(&amendment, r#"{"amended":"0a","proposal":"0f"}"#);
        assert_json(&GroupTransfer { asked: own("did:x") }, r#"{"asked":"did:x"}"#);
        let signed = GroupEndorsement { endorsed: own("0f"), ticket: None, proposal: None };
        assert_json(&signed, r#"{"endorsed":"0f","ticket":null}"#);
        let more = GroupEndorsement { proposal: waits(), ..signed.clone() };
        assert_json(&more, r#"{"endorsed":"0f","ticket":null,"proposal":"0f"}"#);
        assert_json(&GroupEndorsement { ticket: Some(own("t1")), ..signed }, r#"{"endorsed":"0f","ticket":"t1"}"#);
    }

    #[test]
    fn proposals_are_told_with_who_signed_them() {
        let proposal = GroupProposal {
            id: own("0f"),
            about: own("expels did:x"),
            proposer: own("urn:a"),
            signers: vec![own("urn:a")],
            threshold: 2,
            expires_ms: 7,
        };
        assert_json(
            &GroupProposals { proposals: vec![proposal] },
            concat!(
                r#"{"proposals":[{"id":"0f","about":"expels did:x","proposer":"urn:a","signers":["urn:a"],"#,
                r#""threshold":2,"expiresMs":7}]}"#,
            ),
        );
    }

    #[test]
    fn values_are_told_with_how_current_they_are() {
        assert_json(&GroupVersion { key: own("a"), version: Some(3) }, r#"{"key":"a","version":3}"#);
        assert_json(&GroupVersion { key: own("a"), version: None }, r#"{"key":"a","version":null}"#);
        let removal = GroupValueRemoval { removed: own("a"), version: None };
        assert_json(&removal, r#"{"removed":"a","version":null}"#);
        let fresh = GroupAge { stale: false, stale_ms: None };
        let value = GroupValue { key: own("a"), value: own("b"), version: 3, age: fresh };
        assert_json(&value, r#"{"key":"a","value":"b","version":3,"stale":false,"staleMs":null}"#);
        let keys = GroupKeys { keys: vec![own("a")], age: GroupAge { stale: true, stale_ms: Some(40) } };
        assert_json(&keys, r#"{"keys":["a"],"stale":true,"staleMs":40}"#);
        assert_json(&GroupKeys { keys: Vec::new(), age: fresh }, r#"{"keys":[],"stale":false,"staleMs":null}"#);
    }

    #[test]
    fn a_group_that_is_an_agent_says_who_can_do_its_work() {
        let start = |able| ServeReply::Start(GroupAgentStart { agent: own("desk"), members_able: able });
        assert_json(&start(None), r#"{"agent":"desk","membersAble":null}"#);
        assert_json(&start(Some(2)), r#"{"agent":"desk","membersAble":2}"#);
        assert_json(&ServeReply::End(GroupAgentEnd { ended: own("desk") }), r#"{"ended":"desk"}"#);
    }

    #[test]
    fn an_answer_is_what_its_operation_has() {
        let version = GroupVersion { key: own("a"), version: Some(3) };
        let json = serde_json::to_string(&GroupReply::Version(version)).expect("a reply is JSON");
        assert_eq!(json, r#"{"key":"a","version":3}"#);
    }
}
