//! How the command line says what to do next: with its commands, which no error of another room names.

use althing_api::{AgentStep, CallStep, GroupStep, KeyStep, NodeStep, RegistryStep, Remedy};

/// What a person is told: the sentence, and what to do next.
pub fn with_step(sentence: &str, next: Option<&Remedy>) -> String {
    let Some(next) = next else { return sentence.to_owned() };
    let words = match next {
        Remedy::Agents(step) => agents(step),
        Remedy::Calls(step) => calls(step),
        Remedy::Groups(step) => groups(step),
        Remedy::Keys(step) => keys(step),
        Remedy::Node(step) => node(step),
        Remedy::Registries(step) => registries(step),
    };
    // Each begins with what joins it to a sentence.
    let bare = words.trim_start_matches([':', ';', '.', ',', ' ']);
    match sentence.chars().last() {
        None => bare.to_owned(),
        Some('?') => format!("{sentence} {bare}"),
        Some(_) => format!("{sentence}{words}"),
    }
}

fn agents(step: &AgentStep) -> String {
    let heard = |said: &bool, agent: &str| {
        if *said { format!(". `althing logs {agent}` shows what it said") } else { String::new() }
    };
    match step {
        AgentStep::List => "; `althing agent list` shows those it has".to_owned(),
        AgentStep::ListRunning => "; `althing ps` shows what runs, and in which versions".to_owned(),
        AgentStep::Remove(agent) => format!("; remove it first (`althing agent remove {agent}`)"),
        AgentStep::MakeRoom => ": `althing agent remove NAME` makes room for another".to_owned(),
        AgentStep::Agree => {
            ": `althing agent add FILE` and `althing run FILE` show it and ask, and --yes agrees where nobody can be asked"
                .to_owned()
        }
        AgentStep::AcceptEffects => ": --yes accepts it".to_owned(),
        AgentStep::MakeCase => ", or have one made of a task with `althing case add`".to_owned(),
        AgentStep::EndRun => ": end the `althing run` that started it, or choose another name".to_owned(),
        AgentStep::Rebind(agent) => {
            format!(": `althing agent remove {agent}` and `althing agent add FILE` bind it to these")
        }
        AgentStep::RebindTool(agent) => format!(
            "; `althing agent remove {agent}` and `althing agent add FILE` bind the tool's current definition"
        ),
        AgentStep::AddAgain(agent) => format!(
            "; `althing agent remove {agent}` and `althing agent add FILE` start it again, on all nodes of its owner"
        ),
        AgentStep::StartAgain(agent) => format!(
            "; fix that, then `althing agent remove {agent}` and `althing agent add FILE` start it again: nothing else does"
        ),
        AgentStep::AcceptTool(agent) => format!(
            "; `althing adopt --accept {agent}` shows what changed, asks, and binds the tool's current definition"
        ),
        AgentStep::LookAgain(agent) => format!(": look again (`althing adopt --accept {agent}`)"),
        AgentStep::Mend { agent, said } => format!(
            "; fix that, or `althing agent remove {agent}`; the node tries again by itself{}",
            heard(said, agent)
        ),
        AgentStep::MendOrAccept { agent, said } => format!(
            "; fix that; where it is another now than when it was adopted, `althing adopt --accept {agent}` shows what \
             changed, and asks. The node tries again by itself{}",
            heard(said, agent)
        ),
        AgentStep::Update { agent, said } => format!(
            "; `althing update {agent}` takes another version of its range that was not revoked, and `althing uninstall \
             {agent}` removes it{}",
            heard(said, agent)
        ),
        AgentStep::UpdateInstalled => {
            ": `althing update NAME` takes another one of its range that was not revoked (`althing outdated` names it), \
             `althing uninstall NAME` removes it; its publisher releases the next one"
                .to_owned()
        }
        AgentStep::SetCredential => {
            "; `althing secret set NAME` with a key that the service accepts, where NAME is the `secret` of the agent's \
             endpoint; then `althing agent add FILE` again. This goes away with the next request that succeeds"
                .to_owned()
        }
        AgentStep::LookAt => ": `althing doctor`, `althing ps`, and its log".to_owned(),
        AgentStep::RemoveApp => "; `althing app remove` ends that, for all its members".to_owned(),
    }
}

fn calls(step: &CallStep) -> String {
    match step {
        CallStep::Find => "; `althing find` lists those that are".to_owned(),
        CallStep::FindAgain => ": `althing find` asks again".to_owned(),
        CallStep::CheckName => {
            "; check the name (`althing find`), and that the node which hosts it runs, is connected (`althing doctor` on \
             both), and shows the agent to this node's owner (`exposure` of its agent file)"
                .to_owned()
        }
        CallStep::NameStranger => " (`althing trust`); on the command line also `--anyone`".to_owned(),
        CallStep::TrustOwner(owner) => format!("; `althing trust {owner}` says whom you trust"),
        CallStep::Describe(thing) => format!("; `althing describe {thing:?}` shows it"),
        CallStep::CallTool { agent, tool } => {
            format!(": `althing call {agent} '{{\"tool\": {tool}, \"arguments\": {{…}}}}'`")
        }
        CallStep::ListTraces => "; `althing trace` lists those that are".to_owned(),
        CallStep::NameTask => {
            "; give the whole id of the task, which `althing call --explain` and `althing events` show".to_owned()
        }
        CallStep::ListSessions => ": `althing session list` shows those that do".to_owned(),
        CallStep::Resume { task, step } => format!(
            ", then `althing session resume {task} --done {step} FILE` if it was carried out and FILE has its result, \
             `--again {step}` if it was not, or `--failed {step}`"
        ),
        CallStep::Restart(task) => format!(
            ": `althing session show {task} --steps` lists them, and `althing session resume {task} --from N` goes on from \
             that one, within a day"
        ),
        CallStep::ShowLineage(task) => format!("; `althing lineage {task}` shows what it did"),
        CallStep::ShowVerdict(task) => format!("; `althing verdict {task}` shows what was refused, and why"),
    }
}

fn groups(step: &GroupStep) -> String {
    match step {
        GroupStep::List => "; `althing group list` shows those that it belongs to".to_owned(),
        GroupStep::ListProposals => "; `althing group proposals` shows what waits".to_owned(),
        GroupStep::ListApps => "; `althing app list GROUP` shows those it has".to_owned(),
        GroupStep::GetWorkflow => {
            "; `althing app apply` has the group keep one, and `althing install` installs one".to_owned()
        }
        GroupStep::ReadStale => "; `--stale` reads what this node has".to_owned(),
        GroupStep::PermitReading(group) => format!(
            ": read it on a node of an owner, or have the owners permit it (`althing group amend {group} --read members`)"
        ),
        GroupStep::RejoinIfDamaged(group) => format!(
            "; if its data is damaged, have the node expelled (`althing group expel`, on an owner's node), remove its data \
             here (`althing group leave --forget {group}`), and have it invited again: then it gets everything from the \
             other members"
        ),
        GroupStep::Rejoin(group) => format!(
            "; have the node expelled, remove its data with `althing group leave --forget {group}`, and have it invited \
             again: the other members have everything"
        ),
        GroupStep::RejoinOdd(group) => {
            format!(". Have the odd one expelled, `althing group leave --forget {group}` there, and invited again")
        }
        GroupStep::Expel { group, node } => {
            format!(", then `althing group expel {group} {node}`; `althing group status {group} --json` has the proof")
        }
        GroupStep::ReplaceSilent => {
            "; one that does not come back is expelled (`althing group expel`), and another invited".to_owned()
        }
        GroupStep::ShowRuns(group) => {
            format!("; `althing workflow list {group} --all` names the runs, `althing workflow show` says why")
        }
        GroupStep::ShowTask { group, task } => format!(": `althing task show {group} {task}`"),
        GroupStep::ShowRun { group, run } => format!(": `althing workflow show {group} {run}`"),
    }
}

fn keys(step: &KeyStep) -> String {
    match step {
        KeyStep::MakeOwner => "; `althing up` makes one".to_owned(),
        KeyStep::Import => "; `althing key import` brings back what `althing key export` wrote".to_owned(),
        KeyStep::BringHere => "; `althing key export` where it was rotated, `althing key import` here".to_owned(),
        KeyStep::Rotate => "; `althing key rotate --overlap-minutes 0` replaces it".to_owned(),
        KeyStep::NameExport => " (--from FILE)".to_owned(),
        KeyStep::MakeNetworkKey => {
            "; copy the file of another node, or make one with `althing network-key new`".to_owned()
        }
        KeyStep::RemoveSecret(name) => {
            format!(": remove it (`althing secret remove {name}`), or choose another name")
        }
        KeyStep::SetSecret(name) => format!("; `althing secret set {name}` keeps one"),
        KeyStep::RemoveToken(name) => format!("; remove it first: `althing token remove {name}`"),
        KeyStep::RemoveTokens => "; remove them first: `althing token remove NAME`".to_owned(),
    }
}

fn node(step: &NodeStep) -> String {
    let words = match step {
        NodeStep::Diagnose => " (`althing doctor`, without a name, says more)",
        NodeStep::DiagnoseThere => "; `althing doctor` there says why",
        NodeStep::DiagnoseBoth => "; `althing doctor` on both says more",
        NodeStep::LookAtLoad => ": look at it there (`althing top`)",
        NodeStep::ShowId => ", as `althing id` shows on it",
        NodeStep::NamePeer => "; or `--peer ADDRESS` of any node",
        NodeStep::NamePeerInstead => "; `--peer ADDRESS` works without it",
        NodeStep::ForgetRoutes => ": `althing route forget` makes room",
        NodeStep::RouteWithoutModel => "; `--mode hybrid` needs none",
        NodeStep::AskModelAgain => {
            ": ask again, choose another one in `[[models]]`, or use `--mode hybrid`, which needs none"
        }
        NodeStep::MeasureLonger => ": --tokens",
        NodeStep::ListPending => ": `althing pending` shows it, `althing approve ID` and `althing deny ID` answer it",
        NodeStep::LoadPolicy => ", and `althing policy load FILE` puts it in force",
        NodeStep::PruneAudit => ": `althing audit prune --before TIME`",
        NodeStep::ExplainDecision(number) => return format!(": `althing explain {number}`"),
    };
    words.to_owned()
}

fn registries(step: &RegistryStep) -> String {
    match step {
        RegistryStep::Follow => ": `althing registry add URL --key KEY` adds one".to_owned(),
        RegistryStep::NameOne => "; name one with --registry".to_owned(),
        RegistryStep::List => "; `althing registry list` shows those it follows".to_owned(),
        RegistryStep::MakeRoom => "; `althing registry remove` makes room".to_owned(),
        RegistryStep::ShowEvidence(at) => format!(
            ": `althing registry list` shows both signed checkpoints: take them to its operator and to others who use it; \
             `althing registry remove {at}` forgets it"
        ),
        RegistryStep::ForgetForked => "; remove it if you know why (`althing registry remove`)".to_owned(),
        RegistryStep::PublishAgain => {
            ". If it is a release of yours, `althing publish` of the same file keeps one".to_owned()
        }
        RegistryStep::PublishAlone => ": publish it without --with".to_owned(),
        RegistryStep::PublishWith(path) => {
            format!(": add it with `--with {path}`, a folder by each of its files that the agent needs")
        }
        RegistryStep::ListReleases => " (`althing release list AGENT`)".to_owned(),
        RegistryStep::ShowRelease { agent, version } => {
            format!(". `althing release show {agent}@{version}` shows where it is asked")
        }
        RegistryStep::InstallAs => ": --as gives this one another".to_owned(),
        RegistryStep::RenameOrUninstall(name) => {
            format!(": choose another one, or remove it (`althing uninstall {name}`)")
        }
        RegistryStep::UninstallAny => "; `althing uninstall NAME` makes room".to_owned(),
        RegistryStep::InstallAgain(name) => format!("; `althing uninstall {name}`, and install it again"),
        RegistryStep::ListInstalled => "; `althing outdated` lists those that were".to_owned(),
        RegistryStep::ReplaceFile(name) => format!(": `althing update {name}` would replace it"),
        RegistryStep::TakeNewer(name) => {
            format!("; `althing update {name}` shows the newer release, and takes it if you agree")
        }
        RegistryStep::WaitOrTrust { hours } => {
            format!(": wait until it is {hours} h old, trust the publisher (`althing trust`), or say --young")
        }
        RegistryStep::AllowUncontained => ": look at the release, and say --sandbox none".to_owned(),
        RegistryStep::NamePublisher(publisher) => {
            format!("; if you mean that publisher, say `--publisher {publisher}`")
        }
        RegistryStep::BecomeOrganisation => ": `althing org init example.org` makes you one".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_is_followed_by_the_command_of_its_next_step() {
        let name = || "echo".to_owned();
        let table: [(&str, Remedy, &str); 18] = [
            (
                "this node has no agent \"echo\"",
                AgentStep::List.into(),
                "this node has no agent \"echo\"; `althing agent list` shows those it has",
            ),
            (
                "this node has no agent \"ecko\"; did you mean \"echo\"?",
                AgentStep::List.into(),
                "this node has no agent \"ecko\"; did you mean \"echo\"? `althing agent list` shows those it has",
            ),
            (
                "name a version that runs",
                AgentStep::ListRunning.into(),
                "name a version that runs; `althing ps` shows what runs, and in which versions",
            ),
            (
                "mend the agent",
                CallStep::ShowVerdict("01a2".to_owned()).into(),
                "mend the agent; `althing verdict 01a2` shows what was refused, and why",
            ),
            (
                "",
                AgentStep::Mend { agent: name(), said: true }.into(),
                "fix that, or `althing agent remove echo`; the node tries again by itself. `althing logs echo` shows what it \
                 said",
            ),
            (
                "",
                AgentStep::Update { agent: name(), said: false }.into(),
                "`althing update echo` takes another version of its range that was not revoked, and `althing uninstall echo` \
                 removes it",
            ),
            (
                "it was stopped by its owner",
                AgentStep::AddAgain(name()).into(),
                "it was stopped by its owner; `althing agent remove echo` and `althing agent add FILE` start it again, on \
                 all nodes of its owner",
            ),
            (
                "",
                AgentStep::StartAgain(name()).into(),
                "fix that, then `althing agent remove echo` and `althing agent add FILE` start it again: nothing else does",
            ),
            (
                "there is no task \"01a2\" on this node",
                CallStep::NameTask.into(),
                "there is no task \"01a2\" on this node; give the whole id of the task, which `althing call --explain` and \
                 `althing events` show",
            ),
            (
                "The task 0a may have been accepted",
                GroupStep::ShowTask { group: "team".to_owned(), task: "0a".to_owned() }.into(),
                "The task 0a may have been accepted: `althing task show team 0a`",
            ),
            (
                "\"box\" is an agent; a tool of one is called by a message",
                CallStep::CallTool { agent: "box".to_owned(), tool: "\"add\"".to_owned() }.into(),
                "\"box\" is an agent; a tool of one is called by a message: `althing call box '{\"tool\": \"add\", \
                 \"arguments\": {…}}'`",
            ),
            (
                "a secret \"KEY\"",
                KeyStep::RemoveSecret("KEY".to_owned()).into(),
                "a secret \"KEY\": remove it (`althing secret remove KEY`), or choose another name",
            ),
            (
                "it is young",
                RegistryStep::WaitOrTrust { hours: 72 }.into(),
                "it is young: wait until it is 72 h old, trust the publisher (`althing trust`), or say --young",
            ),
            ("", NodeStep::NamePeerInstead.into(), "`--peer ADDRESS` works without it"),
            ("look at the newest", NodeStep::ExplainDecision(41).into(), "look at the newest: `althing explain 41`"),
            (
                "the file has no case: write a line of JSON for each",
                AgentStep::MakeCase.into(),
                "the file has no case: write a line of JSON for each, or have one made of a task with `althing case add`",
            ),
            (
                "",
                RegistryStep::TakeNewer(name()).into(),
                "`althing update echo` shows the newer release, and takes it if you agree",
            ),
            (
                "Nothing was changed. Ask them",
                RegistryStep::NamePublisher("urn:althing:zQm".to_owned()).into(),
                "Nothing was changed. Ask them; if you mean that publisher, say `--publisher urn:althing:zQm`",
            ),
        ];
        for (sentence, remedy, told) in table {
            assert_eq!(with_step(sentence, Some(&remedy)), told);
        }
        assert_eq!(with_step("it failed", None), "it failed");
    }
}
