//! `althing group`

use althing_api::{AmendGroup, CreateGroup, GroupRequest, JoinGroup, ServeGroup};
use althing_client::Client;
use althing_td::AgentFile;
use serde_json::{Value, json};

use crate::args::{AmendArgs, CallersName, Group, ServeArgs, Who};
use crate::commands::agent::escape;
use crate::commands::{Out, leaving, plain, rows, short, table, text};
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
            out.show(&client.get("/groups").await?, listed);
            return Ok(());
        }
        Group::Create { group, write, assign, read, voters, owners, threshold, replace_after } => {
            let request = CreateGroup {
                name: group.clone(),
                write: write.name().to_owned(),
                voters_max: *voters,
                owners: owners.clone(),
                threshold: *threshold,
                replace_after_s: replace_after.map(|minutes| minutes * 60),
                assign: assign.map(named),
                read: read.map(named),
            };
            out.show(&client.post("/groups", &request).await?, |done| {
                format!(
                    "{} is formed: {}\nnext: althing group invite {} NODE",
                    text(done, "name"),
                    text(done, "id"),
                    text(done, "name")
                )
            });
            return Ok(());
        }
        Group::Join { ticket } => {
            let request = JoinGroup { ticket: read(ticket)? };
            out.show(&client.post("/groups/join", &request).await?, |done| {
                format!("this node belongs to {} now: {}", text(done, "name"), text(done, "id"))
            });
            return Ok(());
        }
        Group::Serve(given) => return serve(&client, given, out).await,
        Group::Leave { group: named, forget, yes } => {
            leaving::agreed(&client, named, (*forget, *yes), out).await?;
            request(group)
        }
        other => request(other),
    };
    let path = format!("/groups/{}", escape(&name));
    let request = match request {
        GroupRequest::Endorse { proposal } => to_sign(&client, &path, &proposal, out).await?,
        other => other,
    };
    let done = client.post(&path, &request).await?;
    out.show(&done, |done| shown(&request, &name, done));
    if let (GroupRequest::Invite { .. }, Some(proposal), false) = (&request, done["proposal"].as_str(), out.json) {
        eprintln!("althing: {}", proposed(&name, proposal));
    }
    Ok(())
}

/// Shows what is about to be signed; the request names exactly that.
async fn to_sign(client: &Client, path: &str, prefix: &str, out: &Out) -> Result<GroupRequest, Failure> {
    let list = client.post(path, &GroupRequest::Proposals).await?;
    let prefix = prefix.to_ascii_lowercase();
    let begins = |proposal: &&Value| !prefix.is_empty() && text(proposal, "id").starts_with(&prefix);
    let found: Vec<&Value> = rows(&list, "proposals").iter().filter(begins).collect();
    let [one] = found.as_slice() else {
        let said = |proposal: &&Value| format!("  {}  {}", text(proposal, "id"), text(proposal, "about"));
        let all: Vec<String> = found.iter().map(said).collect();
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
        let (about, proposer) = (text(one, "about"), text(one, "proposer"));
        let signed = rows(one, "signers").len();
        let said = format!("signs: {about} (proposed by {proposer}, {signed} of {} signed)", one["threshold"]);
        eprintln!("althing: {}", plain(&said, &std::io::stderr()));
    }
    Ok(GroupRequest::Endorse { proposal: text(one, "id") })
}

/// Makes a group an agent, or ends that.
async fn serve(client: &Client, given: &ServeArgs, out: &Out) -> Result<(), Failure> {
    let name = given.alias.clone().unwrap_or_else(|| given.group.clone());
    let request =
        if given.end { ServeGroup::End(name) } else { ServeGroup::Agent(Box::new(group_agent(given, &name)?)) };
    let done = client.post(&format!("/groups/{}/serve", escape(&given.group)), &request).await?;
    out.show(&done, |done| match done["ended"].as_str() {
        Some(name) => format!("{name} is hosted no more"),
        None => {
            let unable = match (done["membersAble"].as_u64(), &given.capability) {
                (Some(0), Some(capability)) => format!(
                    "\nno member is known to host an agent with the capability {capability} yet: calls wait until one does"
                ),
                _ => String::new(),
            };
            format!("{0} is an agent now{unable}\nnext: althing call {0} TEXT", text(done, "agent"))
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
        Group::Amend(change) => (change.group.clone(), GroupRequest::Amend(amendment(change))),
        Group::Proposals { group } => (group, GroupRequest::Proposals),
        Group::Endorse { group, proposal } => (group, GroupRequest::Endorse { proposal }),
        Group::Transfer { group, node } => (group, GroupRequest::Transfer { node: node.did() }),
        Group::Status { group } => (group, GroupRequest::Status),
        Group::Set { group, key, value, if_version } => (group, GroupRequest::Set { key, value, if_version }),
        Group::Get { group, key, stale } => (group, GroupRequest::Get { key, stale }),
        Group::Unset { group, key, if_version } => (group, GroupRequest::Remove { key, if_version }),
        Group::Keys { group, prefix, stale } => (group, GroupRequest::Keys { prefix, stale }),
        Group::List | Group::Create { .. } | Group::Join { .. } | Group::Serve(_) => {
            unreachable!("they name no group that is there")
        }
    };
    (name, request)
}

/// The change of a charter.
fn amendment(change: AmendArgs) -> AmendGroup {
    AmendGroup {
        add: change.add_owner,
        remove: change.remove_owner,
        threshold: change.threshold,
        write: change.write.map(named),
        voters_max: change.voters,
        replace_after_s: change.replace_after.map(|minutes| minutes * 60),
        assign: change.assign.map(named),
        read: change.read.map(named),
    }
}

/// Its name in the control API.
fn named(who: Who) -> String {
    who.name().to_owned()
}

/// What other owners must sign before it is done.
fn proposed(name: &str, proposal: &str) -> String {
    let short = proposal.get(..12).unwrap_or(proposal);
    format!("other owners must sign this first; on a node of each: althing group endorse {name} {short}")
}

/// What waits for signatures.
fn proposals(done: &Value) -> String {
    let cells = |proposal: &Value| {
        let id: String = text(proposal, "id").chars().take(12).collect();
        let signed = format!("{} of {}", rows(proposal, "signers").len(), proposal["threshold"]);
        vec![id, signed, short(&text(proposal, "proposer")), text(proposal, "about")]
    };
    let all: Vec<Vec<String>> = rows(done, "proposals").iter().map(cells).collect();
    if all.is_empty() {
        "nothing waits for a signature".to_owned()
    } else {
        table(&["proposal", "signed", "by", ""], &all)
    }
}

fn shown(request: &GroupRequest, name: &str, done: &Value) -> String {
    match (request, done["proposal"].as_str()) {
        // The hint is elsewhere, so that the ticket alone goes into a file.
        (GroupRequest::Invite { .. }, Some(_)) => return text(done, "ticket"),
        (_, Some(proposal)) => return proposed(name, proposal),
        (_, None) => {}
    }
    let stale = |done: &Value| match (done["stale"] == true, done["staleMs"].as_u64()) {
        (false, _) => String::new(),
        (true, Some(ms)) => format!("\na leader was heard {ms} ms ago; newer writes may be missing"),
        (true, None) => "\nno leader was heard since this node started; newer writes may be missing".to_owned(),
    };
    match request {
        GroupRequest::Invite { .. } => text(done, "ticket"),
        GroupRequest::Leave { forget: true } => format!("what this node had of {name} is removed"),
        GroupRequest::Leave { forget: false } => format!("this node left {name}"),
        GroupRequest::Expel { .. } => format!("{} is no member of {name} any more", text(done, "expelled")),
        GroupRequest::Dissolve => format!("{name} is dissolved"),
        GroupRequest::Amend(_) => format!("{name} has its next charter"),
        GroupRequest::Proposals => proposals(done),
        GroupRequest::Endorse { .. } => done["ticket"].as_str().unwrap_or("signed, and done").to_owned(),
        GroupRequest::Transfer { .. } => {
            format!("{} was asked to lead; `althing group status {name}` shows who does", text(done, "asked"))
        }
        GroupRequest::Status => status(done),
        GroupRequest::Set { .. } => format!("version {}", text(done, "version")),
        GroupRequest::Get { .. } => format!("{}{}", text(done, "value"), stale(done)),
        GroupRequest::Remove { .. } => format!("{} is removed", text(done, "removed")),
        GroupRequest::Keys { .. } => {
            let keys: Vec<&str> = rows(done, "keys").iter().filter_map(Value::as_str).collect();
            format!("{}{}", keys.join("\n"), stale(done))
        }
    }
}

fn listed(list: &Value) -> String {
    let cells = |group: &Value| {
        let leader = match (group["leader"].as_str(), group["lastLeader"].as_str()) {
            (Some(leader), _) => short(leader),
            (None, Some(last)) => format!("none (last {})", short(last)),
            (None, None) => "none".to_owned(),
        };
        vec![text(group, "name"), text(group, "standing"), text(group, "role"), leader, text(group, "id")]
    };
    let all: Vec<Vec<String>> = rows(list, "groups").iter().map(cells).collect();
    if all.is_empty() {
        return "this node belongs to no group; `althing group create NAME` forms one".to_owned();
    }
    table(&["group", "standing", "role", "leader", "id"], &all)
}

fn status(group: &Value) -> String {
    let mut lines = vec![
        format!("group    {} ({})", text(group, "name"), text(group, "id")),
        format!("here     {}, {}", text(group, "standing"), text(group, "role")),
        format!("leader   {}, term {}", leader(group), text(group, "term")),
        format!("log      entry {}, applied {}", text(group, "lastEntry"), text(group, "appliedEntry")),
    ];
    if let Some(failure) = group["failure"].as_str() {
        lines.push(format!("stopped  {failure}"));
    }
    lines.extend(rows(group, "equivocated").iter().map(|proven| {
        let (node, entry, term) = (text(proven, "node"), text(proven, "entry"), text(proven, "term"));
        format!("PROVEN   {node} signed two different entries {entry} as leader of the term {term}; it leads no more")
    }));
    lines.extend(
        rows(group, "differing")
            .iter()
            .filter_map(Value::as_str)
            .map(|node| format!("DIFFERS  {node} has another state than this node; `althing doctor` says what to do")),
    );
    let charter = &group["charter"];
    if charter.is_object() {
        lines.push(format!(
            "charter  {} of {} owners sign; epoch {}; {} values",
            charter["threshold"],
            rows(charter, "owners").len(),
            charter["epoch"],
            charter["values"]
        ));
        lines.extend(rows(charter, "owners").iter().filter_map(Value::as_str).map(|owner| format!("owner    {owner}")));
        lines.push(format!("policy   {}", policy(charter)));
        if charter["proposals"] != 0 {
            lines.push(format!("waiting  {} proposals for the signatures of owners", charter["proposals"]));
        }
    }
    let work = &group["work"];
    if work.is_object() {
        lines.push(format!(
            "work     {} waiting, {} under way, {} completed, {} failed; {} done again, {} handed over, {} stolen",
            work["waiting"],
            work["working"],
            work["completed"],
            work["failed"],
            work["redone"],
            work["handedOver"],
            work["stolen"]
        ));
        lines.push(format!("runs     {} under way, {} ask somebody", work["runs"], work["asking"]));
        let alarms: Vec<&str> = rows(work, "alarms").iter().filter_map(Value::as_str).collect();
        if !alarms.is_empty() {
            lines.push(format!("ALARM    the last three runs of a schedule failed: {}", alarms.join(" ")));
        }
    }
    let cells = |member: &Value| {
        let node = text(member, "node");
        let lag = group["lag"][&node].as_u64().map_or_else(String::new, |lag| lag.to_string());
        let votes = match (member["votes"] == true, member["silentSinceMs"].is_null()) {
            (true, true) => "votes",
            (true, false) => "votes, silent",
            (false, true) => "learns",
            (false, false) => "learns, silent",
        };
        let connected = if member["connected"] == true { "yes" } else { "no" };
        vec![node, votes.to_owned(), connected.to_owned(), lag, short(&text(member, "owner"))]
    };
    let members: Vec<Vec<String>> = rows(group, "members").iter().map(cells).collect();
    format!("{}\n\n{}", lines.join("\n"), table(&["member", "", "connected", "lag", "owner"], &members))
}

/// What a charter permits, for people.
fn policy(charter: &Value) -> String {
    let may = |what: &str, verb: &str| {
        let who = if charter[what] == "owners" { "only owners" } else { "owners and members" };
        format!("{who} {verb}")
    };
    let replaced = match charter["replaceAfterMs"].as_u64() {
        Some(ms) => format!("a silent voter is replaced after {} s", ms / 1_000),
        None => "a silent voter is never replaced".to_owned(),
    };
    let (write, assign, read) = (may("write", "write"), may("assign", "give it work"), may("read", "read"));
    format!("{write}; at most {} members vote; {replaced}; {assign}; {read}", charter["votersMax"])
}

/// Who leads; or why nobody does.
fn leader(group: &Value) -> String {
    if let Some(leader) = group["leader"].as_str() {
        return leader.to_owned();
    }
    let members = rows(group, "members");
    let voters = members.iter().filter(|member| member["votes"] == true);
    let (all, here) =
        voters.fold((0, 0), |(all, here), voter| (all + 1, here + usize::from(voter["connected"] == true)));
    match (group["lastLeader"].as_str(), group["silentMs"].as_u64()) {
        (Some(last), Some(ms)) => {
            let ago_s = ms / 1_000;
            format!("no leader: last heard of {last} {ago_s} s ago; {here} of {all} voters can be reached")
        }
        (Some(last), None) => format!(
            "no leader: {last} led last, and is not heard since this node started; {here} of {all} voters can be reached"
        ),
        (None, _) if here * 2 > all => "none yet, an election is under way".to_owned(),
        (None, _) => format!("none: {here} of {all} voters can be reached from here, and {} are needed", all / 2 + 1),
    }
}
