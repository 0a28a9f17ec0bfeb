//! `althing group`

use althing_api::{
    CreateGroup, GroupAge, GroupAmendment, GroupDeparture, GroupDissolution, GroupEndorsement, GroupExpulsion,
    GroupInvitation, GroupKeys, GroupList, GroupName, GroupProposal, GroupProposals, GroupRemoval, GroupRequest,
    GroupStatus, GroupTransfer, GroupValue, GroupValueRemoval, GroupVersion, JoinGroup, KeysQuery, ServeGroup,
    ServeReply, ValueQuery,
};
use althing_client::{Client, ClientError};
use althing_td::AgentFile;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;

use crate::args::{CallersName, Group, ServeArgs};
use crate::commands::agent::escape;
use crate::commands::group_status::{listed, number, status};
use crate::commands::{Out, leaving, plain, short, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Bytes of a ticket on standard input.
const TICKET_BYTES_MAX: u64 = 32 << 10;

/// Forms groups, joins them, and works with them.
pub async fn run(at: &Paths, group: &Group, out: &Out) -> Result<(), Failure> {
    if let Group::Dissolve { yes: false, .. } = group {
        return Err(Failure::usage(
            "this ends the group, finally, and removes its data from all members; `--yes` confirms",
        ));
    }
    let client = at.connect().await?;
    let (name, request) = match group {
        Group::List => {
            let list: GroupList = client.read("/groups").await?;
            out.show(&list, listed);
            return Ok(());
        }
        Group::Create(given) => {
            let done: GroupName = client.ask("/groups", &CreateGroup::from(given)).await?;
            out.show(&done, |GroupName { id, name }| {
                format!("{name} is formed: {id}\nnext: althing group invite {name} NODE")
            });
            return Ok(());
        }
        Group::Join { ticket } => {
            let request = JoinGroup { ticket: read(ticket)? };
            let done: GroupName = client.ask("/join", &request).await?;
            out.show(&done, |GroupName { id, name }| format!("this node belongs to {name} now: {id}"));
            return Ok(());
        }
        Group::Serve(given) => return serve(&client, given, out).await,
        Group::Status { .. } | Group::Proposals { .. } | Group::Get { .. } | Group::Keys { .. } => {
            return look(&client, group, out).await;
        }
        Group::Leave { group: named, forget, yes } => {
            leaving::agreed(&client, named, (*forget, *yes), out).await?;
            request(group)
        }
        other => request(other),
    };
    let request = match request {
        GroupRequest::Endorse { proposal } => to_sign(&client, &name, &proposal, out).await?,
        other => other,
    };
    carry_out(&Order { client: &client, group: &name, request: &request, out }).await
}

/// Has a group do something.
async fn ask<T: DeserializeOwned>(client: &Client, group: &str, request: &GroupRequest) -> Result<T, ClientError> {
    client.ask(&path(group), request).await
}

fn path(group: &str) -> String {
    format!("/groups/{}", escape(group))
}

/// Shows what a group has.
async fn look(client: &Client, group: &Group, out: &Out) -> Result<(), Failure> {
    match group {
        Group::Status { group } => {
            let found: GroupStatus = client.read(&path(group)).await?;
            out.show(&found, status);
        }
        Group::Proposals { group } => {
            let list: GroupProposals = client.read(&format!("{}/proposals", path(group))).await?;
            out.show(&list, proposals);
        }
        Group::Get { group, key, stale: is_stale } => {
            let query = ValueQuery { key: key.clone(), stale: *is_stale };
            let found: GroupValue = client.query(&format!("{}/value", path(group)), &query).await?;
            out.show(&found, |found| format!("{}{}", found.value, stale(found.age)));
        }
        Group::Keys { group, prefix, stale: is_stale } => {
            let query = KeysQuery { prefix: prefix.clone(), stale: *is_stale };
            let found: GroupKeys = client.query(&format!("{}/values", path(group)), &query).await?;
            out.show(&found, |found| format!("{}{}", found.keys.join("\n"), stale(found.age)));
        }
        other => unreachable!("{other:?} changes something"),
    }
    Ok(())
}

/// What a group is to do, and where its answer is printed.
struct Order<'a> {
    client: &'a Client,
    /// The group's id or name, as it was given.
    group: &'a str,
    request: &'a GroupRequest,
    out: &'a Out,
}

impl Order<'_> {
    /// Has it done, and prints the answer.
    async fn tell<T: Serialize + DeserializeOwned>(&self, people: impl FnOnce(&T) -> String) -> Result<(), Failure> {
        let done: T = ask(self.client, self.group, self.request).await?;
        self.out.show(&done, people);
        Ok(())
    }
}

async fn carry_out(order: &Order<'_>) -> Result<(), Failure> {
    let name = order.group;
    match order.request {
        GroupRequest::Invite { .. } => invite(order).await,
        GroupRequest::Leave { forget: true } => {
            order.tell(|_: &GroupRemoval| format!("what this node had of {name} is removed")).await
        }
        GroupRequest::Leave { forget: false } => {
            order.tell(|_: &GroupDeparture| format!("this node left {name}")).await
        }
        GroupRequest::Expel { .. } => {
            let people = |GroupExpulsion { expelled, proposal }: &GroupExpulsion| {
                done_or_proposed(name, proposal.as_deref(), format!("{expelled} is no member of {name} any more"))
            };
            order.tell(people).await
        }
        GroupRequest::Dissolve => {
            let people = |done: &GroupDissolution| {
                done_or_proposed(name, done.proposal.as_deref(), format!("{name} is dissolved"))
            };
            order.tell(people).await
        }
        GroupRequest::Amend(_) => {
            let people = |done: &GroupAmendment| {
                done_or_proposed(name, done.proposal.as_deref(), format!("{name} has its next charter"))
            };
            order.tell(people).await
        }
        GroupRequest::Endorse { .. } => {
            let people = |done: &GroupEndorsement| {
                let signed = done.ticket.clone().unwrap_or_else(|| "signed, and done".to_owned());
                done_or_proposed(name, done.proposal.as_deref(), signed)
            };
            order.tell(people).await
        }
        GroupRequest::Transfer { .. } => {
            let people = |GroupTransfer { asked }: &GroupTransfer| {
                format!("{asked} was asked to lead; `althing group status {name}` shows who does")
            };
            order.tell(people).await
        }
        GroupRequest::Set { .. } => order.tell(|done: &GroupVersion| format!("version {}", number(done.version))).await,
        GroupRequest::Remove { .. } => {
            order.tell(|done: &GroupValueRemoval| format!("{} is removed", done.removed)).await
        }
    }
}

/// Prints a ticket. What others must sign first is said elsewhere, so that the ticket alone goes into a file.
async fn invite(order: &Order<'_>) -> Result<(), Failure> {
    let done: GroupInvitation = ask(order.client, order.group, order.request).await?;
    order.out.show(&done, |done| done.ticket.clone());
    if let (Some(proposal), false) = (&done.proposal, order.out.json) {
        eprintln!("althing: {}", proposed(order.group, proposal));
    }
    Ok(())
}

/// Shows what is about to be signed; the request names exactly that.
async fn to_sign(client: &Client, group: &str, prefix: &str, out: &Out) -> Result<GroupRequest, Failure> {
    let list: GroupProposals = client.read(&format!("{}/proposals", path(group))).await?;
    let prefix = prefix.to_ascii_lowercase();
    let begins = |proposal: &&GroupProposal| !prefix.is_empty() && proposal.id.starts_with(&prefix);
    let found: Vec<&GroupProposal> = list.proposals.iter().filter(begins).collect();
    let [one] = found.as_slice() else {
        let all: Vec<String> = found.iter().map(|one| format!("  {}  {}", one.id, one.about)).collect();
        return Err(match all.as_slice() {
            [] => Failure::new(
                code::NOT_FOUND,
                format!("no proposal begins with {prefix:?}; `althing group proposals` lists them"),
            ),
            _ => Failure::usage(format!(
                "{} proposals begin with {prefix:?}; give more of the id:\n{}",
                all.len(),
                all.join("\n")
            )),
        });
    };
    if !out.json {
        let GroupProposal { about, proposer, signers, threshold, .. } = one;
        let said = format!("signs: {about} (proposed by {proposer}, {} of {threshold} signed)", signers.len());
        eprintln!("althing: {}", plain(&said, &std::io::stderr()));
    }
    Ok(GroupRequest::Endorse { proposal: one.id.clone() })
}

/// Makes a group an agent, or ends that.
async fn serve(client: &Client, given: &ServeArgs, out: &Out) -> Result<(), Failure> {
    let name = given.alias.clone().unwrap_or_else(|| given.group.clone());
    let request =
        if given.end { ServeGroup::End(name) } else { ServeGroup::Agent(Box::new(group_agent(given, &name)?)) };
    let done: ServeReply = client.ask(&format!("/groups/{}/serve", escape(&given.group)), &request).await?;
    out.show(&done, |done| match done {
        ServeReply::End(end) => format!("{} is hosted no more", end.ended),
        ServeReply::Start(start) => {
            let unable = match (start.members_able, &given.capability) {
                (Some(0), Some(capability)) => format!(
                    "\nno member is known to host an agent with the capability {capability} yet: calls wait until one does"
                ),
                _ => String::new(),
            };
            format!("{0} is an agent now{unable}\nnext: althing call {0} TEXT", start.agent)
        }
    });
    Ok(())
}

/// The agent that a group is.
fn group_agent(given: &ServeArgs, name: &str) -> Result<AgentFile, Failure> {
    let callers = match given.callers {
        CallersName::ThisNode => "this-node",
        CallersName::Own => "own",
        CallersName::Trusted => "trusted",
        CallersName::Anyone => "anyone",
    };
    let group = &given.group;
    let skill = given
        .capability
        .as_ref()
        .map(|id| json!([{ "id": id, "name": id, "description": format!("Done by the group {group}") }]));
    let yaml = json!({
        "name": name,
        "description": format!("The group {group}: each message is a task that one of its members does."),
        "skills": skill.unwrap_or_else(|| json!([])),
        "runtime": { "native": { "builtin": "group", "config": {
            "group": group, "capability": given.capability, "agent": given.agent,
        } } },
        "contract": { "class": { "latency": "dt" }, "capabilities": [format!("groups/{group}")] },
        "callers": callers,
        "asks_as": "itself",
    });
    AgentFile::parse(&yaml.to_string()).map_err(|error| Failure::usage(error.to_string()))
}

/// The ticket, from standard input if it is `-`.
fn read(ticket: &str) -> Result<String, Failure> {
    if ticket != "-" {
        return Ok(ticket.to_owned());
    }
    let mut text = String::new();
    let mut limited = std::io::Read::take(std::io::stdin(), TICKET_BYTES_MAX);
    std::io::Read::read_to_string(&mut limited, &mut text)
        .map_err(|error| Failure::usage(format!("cannot read the ticket: {error}")))?;
    Ok(text)
}

/// The operation, and on which group.
fn request(group: &Group) -> (String, GroupRequest) {
    let (name, request) = match group.clone() {
        Group::Invite { group, node, hours } => {
            (group, GroupRequest::Invite { node: node.did(), life_s: hours * 3_600 })
        }
        Group::Leave { group, forget, .. } => (group, GroupRequest::Leave { forget }),
        Group::Expel { group, node } => (group, GroupRequest::Expel { node: node.did() }),
        Group::Dissolve { group, .. } => (group, GroupRequest::Dissolve),
        Group::Amend(change) => (change.group.clone(), GroupRequest::Amend(change.into())),
        Group::Endorse { group, proposal } => (group, GroupRequest::Endorse { proposal }),
        Group::Transfer { group, node } => (group, GroupRequest::Transfer { node: node.did() }),
        Group::Set { group, key, value, if_version } => (group, GroupRequest::Set { key, value, if_version }),
        Group::Unset { group, key, if_version } => (group, GroupRequest::Remove { key, if_version }),
        Group::List | Group::Create(_) | Group::Join { .. } | Group::Serve(_) => {
            unreachable!("they name no group that is there")
        }
        Group::Status { .. } | Group::Proposals { .. } | Group::Get { .. } | Group::Keys { .. } => {
            unreachable!("they change nothing")
        }
    };
    (name, request)
}

/// What other owners must sign before it is done.
fn proposed(name: &str, proposal: &str) -> String {
    let short = proposal.get(..12).unwrap_or(proposal);
    format!("other owners must sign this first; on a node of each: althing group endorse {name} {short}")
}

/// What was done; or what other owners must sign first.
fn done_or_proposed(name: &str, proposal: Option<&str>, done: String) -> String {
    proposal.map_or(done, |proposal| proposed(name, proposal))
}

/// What waits for signatures.
fn proposals(done: &GroupProposals) -> String {
    let cells = |proposal: &GroupProposal| {
        let id: String = proposal.id.chars().take(12).collect();
        let signed = format!("{} of {}", proposal.signers.len(), proposal.threshold);
        vec![id, signed, short(&proposal.proposer), proposal.about.clone()]
    };
    let all: Vec<Vec<String>> = done.proposals.iter().map(cells).collect();
    if all.is_empty() {
        "nothing waits for a signature".to_owned()
    } else {
        table(&["proposal", "signed", "by", ""], &all)
    }
}

/// How current what was read is, where it was read without the leader.
fn stale(age: GroupAge) -> String {
    match (age.stale, age.stale_ms) {
        (false, _) => String::new(),
        (true, Some(ms)) => format!("\na leader was heard {ms} ms ago; newer writes may be missing"),
        (true, None) => "\nno leader was heard since this node started; newer writes may be missing".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_must_sign_is_said_in_place_of_what_is_done() {
        assert_eq!(done_or_proposed("team", None, "team is dissolved".to_owned()), "team is dissolved");
        let waits = done_or_proposed("team", Some("0123456789abcdef"), "team is dissolved".to_owned());
        assert!(waits.ends_with("althing group endorse team 0123456789ab"), "{waits}");
    }

    #[test]
    fn what_was_read_without_the_leader_says_how_old_it_may_be() {
        let age = |is_stale, stale_ms| stale(GroupAge { stale: is_stale, stale_ms });
        assert_eq!(age(false, None), "");
        assert!(age(true, Some(40)).contains("heard 40 ms ago"));
        assert!(age(true, None).contains("no leader was heard since"));
    }

    #[test]
    fn what_waits_for_signatures_is_shown_with_how_many_signed() {
        assert_eq!(proposals(&GroupProposals { proposals: Vec::new() }), "nothing waits for a signature");
        let proposal = GroupProposal {
            id: "0123456789abcdef".to_owned(),
            about: "ends the group".to_owned(),
            proposer: "urn:althing:zQm".to_owned(),
            signers: vec!["urn:althing:zQm".to_owned()],
            threshold: 2,
            expires_ms: 7,
        };
        let shown = proposals(&GroupProposals { proposals: vec![proposal] });
        assert!(shown.contains("0123456789ab  1 of 2") && shown.contains("ends the group"), "{shown}");
    }
}
