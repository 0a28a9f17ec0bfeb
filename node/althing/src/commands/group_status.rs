//! What `althing group` shows of groups.

use althing_api::{GroupCharter, GroupEntry, GroupList, GroupLog, GroupMember, GroupRole, GroupStatus, GroupWork};

use crate::commands::{short, table};

/// The groups of a node, a line for each.
pub fn listed(list: &GroupList) -> String {
    let cells = |GroupEntry { summary, .. }: &GroupEntry| {
        let leader = match (&summary.leader, &summary.last_leader) {
            (Some(leader), _) => short(leader),
            (None, Some(last)) => format!("none (last {})", short(last)),
            (None, None) => "none".to_owned(),
        };
        let role = role(summary.role).to_owned();
        vec![summary.name.clone(), summary.standing.clone(), role, leader, summary.id.clone()]
    };
    let all: Vec<Vec<String>> = list.groups.iter().map(cells).collect();
    if all.is_empty() {
        return "this node belongs to no group; `althing group create NAME` forms one".to_owned();
    }
    table(&["group", "standing", "role", "leader", "id"], &all)
}

/// What a member does; nothing where its replica does not run.
pub fn role(role: Option<GroupRole>) -> &'static str {
    role.map(GroupRole::name).unwrap_or_default()
}

/// A number that may not be known.
pub fn number(number: Option<u64>) -> String {
    number.map(|number| number.to_string()).unwrap_or_default()
}

/// A group: its state here, its charter, its work and its members.
pub fn status(group: &GroupStatus) -> String {
    let (summary, log) = (&group.summary, group.log.as_ref());
    let entry = |of: fn(&GroupLog) -> Option<u64>| number(log.and_then(of));
    let mut lines = vec![
        format!("group    {} ({})", summary.name, summary.id),
        format!("here     {}, {}", summary.standing, role(summary.role)),
        format!("leader   {}, term {}", leader(group), number(summary.term)),
        format!("log      entry {}, applied {}", entry(|log| log.last_entry), entry(|log| log.applied_entry)),
    ];
    lines.extend(summary.failure.iter().map(|failure| format!("stopped  {failure}")));
    lines.extend(group.equivocated.iter().map(|proven| {
        let (node, entry, term) = (&proven.node, proven.entry, proven.term);
        format!("PROVEN   {node} signed two different entries {entry} as leader of the term {term}; it leads no more")
    }));
    lines.extend(
        group
            .differing
            .iter()
            .map(|node| format!("DIFFERS  {node} has another state than this node; `althing doctor` says what to do")),
    );
    if let Some(state) = &group.state {
        lines.extend(state.charter.iter().flat_map(charter));
        lines.extend(state.work.iter().flat_map(work));
    }
    let cells = |member: &GroupMember| {
        let lag = log.and_then(|log| log.lag.get(&member.node)).copied().flatten();
        let votes = match (member.votes, member.silent_since_ms) {
            (true, None) => "votes",
            (true, Some(_)) => "votes, silent",
            (false, None) => "learns",
            (false, Some(_)) => "learns, silent",
        };
        let connected = if member.connected { "yes" } else { "no" };
        vec![member.node.clone(), votes.to_owned(), connected.to_owned(), number(lag), short(&member.owner)]
    };
    let members: Vec<Vec<String>> = members(group).iter().map(cells).collect();
    format!("{}\n\n{}", lines.join("\n"), table(&["member", "", "connected", "lag", "owner"], &members))
}

/// Its members, as far as its state can be read here.
pub fn members(group: &GroupStatus) -> &[GroupMember] {
    group.state.as_ref().map_or(&[], |state| state.members.as_slice())
}

fn charter(charter: &GroupCharter) -> Vec<String> {
    let GroupCharter { owners, threshold, epoch, values, proposals, .. } = charter;
    let mut lines =
        vec![format!("charter  {threshold} of {} owners sign; epoch {epoch}; {values} values", owners.len())];
    lines.extend(owners.iter().map(|owner| format!("owner    {owner}")));
    lines.push(format!("policy   {}", policy(charter)));
    if *proposals != 0 {
        lines.push(format!("waiting  {proposals} proposals for the signatures of owners"));
    }
    lines
}

fn work(work: &GroupWork) -> Vec<String> {
    let GroupWork { waiting, working, completed, failed, redone, handed_over, stolen, runs, asking, alarms } = work;
    let mut lines = vec![
        format!(
            "work     {waiting} waiting, {working} under way, {completed} completed, {failed} failed; {redone} done again, \
             {handed_over} handed over, {stolen} stolen"
        ),
        format!("runs     {runs} under way, {asking} ask somebody"),
    ];
    if !alarms.is_empty() {
        lines.push(format!("ALARM    the last three runs of a schedule failed: {}", alarms.join(" ")));
    }
    lines
}

/// What a charter permits, for people.
fn policy(charter: &GroupCharter) -> String {
    let may = |who: &str, verb: &str| {
        let who = if who == "owners" { "only owners" } else { "owners and members" };
        format!("{who} {verb}")
    };
    let replaced = match charter.replace_after_ms {
        Some(ms) => format!("a silent voter is replaced after {} s", ms / 1_000),
        None => "a silent voter is never replaced".to_owned(),
    };
    let write = may(&charter.write, "write");
    let (assign, read) = (may(&charter.assign, "give it work"), may(&charter.read, "read"));
    format!("{write}; at most {} members vote; {replaced}; {assign}; {read}", charter.voters_max)
}

/// Who leads; or why nobody does.
fn leader(group: &GroupStatus) -> String {
    if let Some(leader) = &group.summary.leader {
        return leader.clone();
    }
    let voters = members(group).iter().filter(|member| member.votes);
    let (all, here) = voters.fold((0, 0), |(all, here), voter| (all + 1, here + usize::from(voter.connected)));
    match (&group.summary.last_leader, group.summary.silent_ms) {
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

#[cfg(test)]
pub(crate) mod tests {
    use althing_api::{GroupState, GroupSummary};

    use super::*;

    /// A group of this standing, of so many members that vote; the first leads, and the third is not connected.
    pub fn group(standing: &str, voters: usize) -> GroupStatus {
        let member = |n: usize| GroupMember {
            node: format!("did:key:{n}"),
            owner: "urn:althing:zQm".to_owned(),
            votes: true,
            silent_since_ms: None,
            rules: 1,
            connected: n != 2,
        };
        GroupStatus {
            summary: summary(standing),
            log: None,
            equivocated: Vec::new(),
            differing: Vec::new(),
            state: Some(GroupState { members: (0..voters).map(member).collect(), charter: None, work: None }),
        }
    }

    /// What every look at such a group tells.
    pub fn summary(standing: &str) -> GroupSummary {
        GroupSummary {
            id: "0a".to_owned(),
            name: "team".to_owned(),
            standing: standing.to_owned(),
            role: Some(GroupRole::Leader),
            leader: Some("did:key:0".to_owned()),
            last_leader: None,
            silent_ms: None,
            term: Some(7),
            failure: None,
        }
    }

    #[test]
    fn a_group_without_a_state_here_is_shown_as_far_as_it_is_known() {
        let mut gone = group("gone", 0);
        (gone.summary.role, gone.summary.leader, gone.summary.term) = (None, None, None);
        (gone.summary.failure, gone.state) = (Some("a row is damaged".to_owned()), None);
        let shown = status(&gone);
        assert!(shown.contains("here     gone, \n"), "{shown}");
        assert!(shown.contains("log      entry , applied \nstopped  a row is damaged\n"), "{shown}");
        assert!(shown.contains("none: 0 of 0 voters can be reached from here, and 1 are needed"), "{shown}");
        let list = |groups| listed(&GroupList { groups });
        assert!(list(Vec::new()).contains("belongs to no group"));
        let entry = GroupEntry { summary: gone.summary, work: None, lag: None };
        assert!(list(vec![entry]).contains("none"), "nobody leads it");
    }

    #[test]
    fn a_group_is_shown_with_its_charter_and_what_each_member_lacks() {
        let mut team = group("member", 2);
        let lag = [("did:key:1".to_owned(), Some(4))].into_iter().collect();
        team.log = Some(GroupLog { last_entry: Some(9), applied_entry: Some(8), snapshot_entry: None, lag });
        let charter = GroupCharter {
            name: "team".to_owned(),
            sequence: 0,
            owners: vec!["urn:althing:zQm".to_owned()],
            threshold: 1,
            write: "owners".to_owned(),
            assign: "members".to_owned(),
            read: "members".to_owned(),
            voters_max: 5,
            replace_after_ms: Some(60_000),
            proposals: 2,
            epoch: 3,
            values: 4,
        };
        team.state.as_mut().expect("it has one").charter = Some(charter);
        let shown = status(&team);
        for line in [
            "leader   did:key:0, term 7",
            "log      entry 9, applied 8",
            "charter  1 of 1 owners sign; epoch 3; 4 values",
            "owner    urn:althing:zQm",
            "policy   only owners write; at most 5 members vote; a silent voter is replaced after 60 s; owners and members \
             give it work; owners and members read",
            "waiting  2 proposals for the signatures of owners",
        ] {
            assert!(shown.lines().any(|told| told == line), "{line} in\n{shown}");
        }
        assert!(shown.lines().any(|line| line.starts_with("did:key:1") && line.contains("  4  ")), "{shown}");
    }

    #[test]
    fn who_led_last_is_told_where_nobody_leads() {
        let mut team = group("member", 3);
        (team.summary.leader, team.summary.last_leader) = (None, Some("did:key:0".to_owned()));
        let unheard =
            "no leader: did:key:0 led last, and is not heard since this node started; 2 of 3 voters can be reached";
        assert_eq!(leader(&team), unheard);
        team.summary.silent_ms = Some(9_500);
        assert_eq!(leader(&team), "no leader: last heard of did:key:0 9 s ago; 2 of 3 voters can be reached");
        team.summary.last_leader = None;
        assert_eq!(leader(&team), "none yet, an election is under way");
    }
}
