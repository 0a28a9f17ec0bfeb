//! What the owners of groups decide, in the control API.

use althing_api::{
    AmendGroup, CreateGroup, GroupAmendment, GroupEndorsement, GroupInvitation, GroupName, GroupProposal,
    GroupProposals,
};
use althing_coordination::{Change, Invited, Owners, Signed, Waiting, owners};
use althing_operations::Operations;
use althing_protocol::group::{GroupId, Policy, Rule};
use althing_protocol::{CallerId, IdentityError, PublicKey, PublisherId, hex};

use crate::error::ApiError;

/// Who may do something, which is named for people.
fn rule(what: &str, text: &str) -> Result<Rule, ApiError> {
    let found = [Rule::Owners, Rule::Members].into_iter().find(|rule| rule.name() == text);
    found.ok_or_else(|| ApiError::invalid(format!("who may {what} is `owners` or `members`, not {text:?}")))
}

/// The same, where it may be left open.
fn some_rule(what: &str, text: Option<&str>) -> Result<Option<Rule>, ApiError> {
    text.map(|text| rule(what, text)).transpose()
}

/// The owners that these texts name: publishers, or nodes whose owner is known here.
fn publishers(node: &Operations, group: Option<GroupId>, texts: &[String]) -> Result<Vec<PublisherId>, ApiError> {
    let of = |text: &String| {
        let id: CallerId = text.parse().map_err(|error: IdentityError| ApiError::invalid(error.to_string()))?;
        match id {
            CallerId::Publisher(publisher) => Ok(publisher),
            CallerId::Node(key) => owner_of(node, group, key).ok_or_else(|| {
                let why = format!("the owner of {text} is not known here: connect to that node, or name its owner");
                ApiError::invalid(why)
            }),
        }
    };
    texts.iter().map(of).collect()
}

fn owner_of(node: &Operations, group: Option<GroupId>, key: PublicKey) -> Option<PublisherId> {
    let member = |id| node.groups.look(id, |state| state.members().get(&key).map(|member| member.owner)).ok().flatten();
    group.and_then(member).or_else(|| node.communication.owner(key))
}

/// Forms a group.
pub async fn create(node: &Operations, request: CreateGroup) -> Result<GroupName, ApiError> {
    let replace_after_ms = request.replace_after_s.map(|seconds| seconds.saturating_mul(1_000));
    let policy = Policy {
        write: rule("write", &request.write)?,
        voters_max: request.voters_max,
        replace_after_ms,
        assign: some_rule("give the group work", request.assign.as_deref())?,
        read: some_rule("read", request.read.as_deref())?,
    };
    let others = publishers(node, None, &request.owners)?;
    let id = owners::create(&node.groups, &request.name, policy, &others, request.threshold).await?;
    Ok(GroupName { id: id.to_string(), name: request.name })
}

/// Changes the charter.
pub async fn amend(node: &Operations, id: GroupId, request: AmendGroup) -> Result<GroupAmendment, ApiError> {
    let change = Change {
        add: publishers(node, Some(id), &request.add)?,
        remove: publishers(node, Some(id), &request.remove)?,
        threshold: request.threshold,
        write: some_rule("write", request.write.as_deref())?,
        voters_max: request.voters_max,
        replace_after_ms: request.replace_after_s.map(|seconds| seconds.saturating_mul(1_000)),
        assign: some_rule("give the group work", request.assign.as_deref())?,
        read: some_rule("read", request.read.as_deref())?,
    };
    let signed = Owners::of(&node.groups, id).amend(&change).await?;
    Ok(GroupAmendment { amended: id.to_string(), proposal: proposal(signed) })
}

/// Makes a ticket for a node.
pub async fn invite(node: &Operations, id: GroupId, key: PublicKey, life_s: u64) -> Result<GroupInvitation, ApiError> {
    let invited = Owners::of(&node.groups, id).invite(key, life_s.saturating_mul(1_000)).await?;
    let (ticket, proposal) = match invited {
        Invited::Ticket(ticket) => (ticket, None),
        Invited::Waits(name, ticket) => (ticket, Some(hex(&name))),
    };
    Ok(GroupInvitation {
        group: ticket.name.clone(),
        node: key.did(),
        ticket: ticket.to_text(),
        valid_for_s: life_s,
        proposal,
    })
}

/// The proposal that others are still to sign, if they must.
pub fn proposal(signed: Signed) -> Option<String> {
    match signed {
        Signed::Done => None,
        Signed::Waits(name) => Some(hex(&name)),
    }
}

/// What waits for signatures.
pub async fn proposals(node: &Operations, id: GroupId) -> Result<GroupProposals, ApiError> {
    node.groups.catch_up(id).await?;
    let waiting = Owners::of(&node.groups, id).waiting()?;
    Ok(GroupProposals { proposals: waiting.into_iter().map(shown).collect() })
}

fn shown(waiting: Waiting) -> GroupProposal {
    GroupProposal {
        id: hex(&waiting.id),
        about: waiting.about,
        proposer: waiting.proposal.proposer.to_string(),
        signers: waiting.signers.iter().map(ToString::to_string).collect(),
        threshold: waiting.threshold,
        expires_ms: waiting.proposal.expires_ms,
    }
}

/// Signs a proposal.
pub async fn endorse(node: &Operations, id: GroupId, name: String) -> Result<GroupEndorsement, ApiError> {
    node.groups.catch_up(id).await?;
    let (signed, ticket) = Owners::of(&node.groups, id).endorse(&name).await?;
    let ticket = ticket.map(|ticket| ticket.to_text());
    Ok(GroupEndorsement { endorsed: name, ticket, proposal: proposal(signed) })
}
