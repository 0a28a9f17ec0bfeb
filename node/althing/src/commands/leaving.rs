//! What becomes of a group when this node leaves it, and whether somebody agrees to that.

use althing_api::{GroupMember, GroupStatus, NodeStatus};
use althing_client::Client;

use crate::commands::agent::escape;
use crate::commands::agreement::agree;
use crate::commands::group_status::members;
use crate::commands::{Out, short};
use crate::exit::Failure;

/// Shows what moves, and asks, where the node takes part in the group. What ended, or does not run here, is left without a word.
pub async fn agreed(client: &Client, group: &str, (forget, yes): (bool, bool), out: &Out) -> Result<(), Failure> {
    if yes {
        return Ok(());
    }
    let status: GroupStatus = client.read(&format!("/groups/{}", escape(group))).await?;
    if !takes_part(&status) {
        return Ok(());
    }
    let here: NodeStatus = client.read("/status").await?;
    let (shown, verb) = (moves(&status, &here.node, forget), if forget { "forget" } else { "leave" });
    agree(&status, &shown, false, verb, out)
}

fn takes_part(status: &GroupStatus) -> bool {
    matches!(status.summary.standing.as_str(), "member" | "joining") && status.summary.failure.is_none()
}

/// What moves, and what the others can still lose.
fn moves(status: &GroupStatus, here: &str, forget: bool) -> String {
    let (name, members) = (&status.summary.name, members(status));
    let leads = status.summary.leader.as_deref() == Some(here);
    let others = || members.iter().filter(move |member| member.node != here);
    let votes = |member: &&GroupMember| member.votes;
    let is_voter = members.iter().any(|member| member.node == here && member.votes);
    let (voters, other_voters) = (members.iter().filter(votes).count(), others().filter(votes).count());
    let role = match (is_voter, leads) {
        (_, true) => "votes and leads",
        (true, false) => "votes",
        (false, false) => "learns along",
    };
    let mut lines = vec![format!("group     {name}, {} members, {voters} vote; this node {role}", members.len())];
    if others().next().is_none() {
        let what = if forget {
            "what the group keeps is lost"
        } else {
            "the last member cannot leave: its owner dissolves it"
        };
        lines.push(format!("ends      nobody else is a member: {what}"));
        return lines.join("\n");
    }
    if forget {
        lines.push(
            "not told  the group is not asked: its data is removed here, and what of its work is here breaks off"
                .to_owned(),
        );
        if is_voter {
            let needed = voters / 2 + 1;
            let spare = match other_voters.checked_sub(needed) {
                None => "they decide nothing any more".to_owned(),
                Some(0) => "they bear no further loss".to_owned(),
                Some(more) => format!("they bear the loss of {more} more"),
            };
            lines.push(format!(
                "counted   it stays one of {voters} voters, of whom {needed} are needed: {other_voters} others are left, and {spare}, \
                 until an owner's node expels it (`althing group expel {name} {here}`)"
            ));
        }
        lines.push(format!("instead   `althing group leave {name}` tells the group, which then goes on without it"));
        return lines.join("\n");
    }
    if leads {
        lines.push("leads     another member is elected".to_owned());
    }
    lines.push(
        "moves     its tasks under way, and the agents that the group placed here, go to other members".to_owned(),
    );
    let away: Vec<String> = others().filter(|member| !member.connected).map(|member| short(&member.node)).collect();
    if !away.is_empty() {
        lines.push(format!("careful   not connected now: {}", away.join(", ")));
    }
    lines.push(format!("stays     {} members; to come back it is invited again", members.len() - 1));
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::group_status::tests::group;

    #[test]
    fn whoever_leaves_reads_what_moves_and_what_the_others_can_lose() {
        let said = moves(&group("member", 3), "did:key:0", false);
        for part in
            ["3 members, 3 vote; this node votes and leads", "another member is elected", "not connected now: 2"]
        {
            assert!(said.contains(part), "{part}: {said}");
        }
        let said = moves(&group("member", 3), "did:key:1", true);
        assert!(said.contains("2 are needed: 2 others are left, and they bear no further loss"), "{said}");
        assert!(said.contains("`althing group expel team did:key:1`"), "{said}");
        assert!(moves(&group("member", 1), "did:key:0", true).contains("what the group keeps is lost"));
        let said = moves(&group("member", 2), "did:key:1", true);
        assert!(said.contains("1 others are left, and they decide nothing any more"), "{said}");
    }

    #[test]
    fn nobody_is_asked_about_what_ended_or_does_not_run() {
        assert!(takes_part(&group("member", 3)) && takes_part(&group("joining", 3)));
        assert!(!takes_part(&group("gone", 3)) && !takes_part(&group("dissolved", 3)));
        let mut damaged = group("member", 3);
        damaged.summary.failure = Some("a row is damaged".to_owned());
        assert!(!takes_part(&damaged), "its data is removed as the error says");
    }
}
