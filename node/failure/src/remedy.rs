//! What to do next about a failure, as a value: an error names no command, and each face says a step in its own words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a person can do next about a failure. The error's own text says what failed, where and why; the face that shows it
/// adds this in its own words, such as a command line or a button.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub enum Remedy {
    /// With an agent of this node.
    Agents(AgentStep),
    /// To find an agent, to call it, or to see what became of a call.
    Calls(CallStep),
    /// In a group that the node belongs to.
    Groups(GroupStep),
    /// With the owner's keys, or with secrets of the node.
    Keys(KeyStep),
    /// With the node itself, how it is reached, or what it routes by.
    Node(NodeStep),
    /// With registries, or with what comes from them.
    Registries(RegistryStep),
}

/// A step with an agent of this node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum AgentStep {
    /// Look which agents the node has.
    List,
    /// Remove the agent of that name first.
    Remove(String),
    /// Remove any agent, since the node has as many as it may.
    MakeRoom,
    /// Look at what the agent would reach, and agree to it.
    Agree,
    /// Say that what the agent of another node may change there is accepted.
    AcceptEffects,
    /// Have a case for its tests made of a task that it completed.
    MakeCase,
    /// End the run that started it, or choose another name.
    EndRun,
    /// Remove the agent of that name and add its file again, which binds it to the present definitions of its tools.
    Rebind(String),
    /// The same, after its tool server's author was asked.
    RebindTool(String),
    /// Remove the agent of that name, which its owner stopped, and add its file again, which ends that.
    AddAgain(String),
    /// Mend what suspended the control loop of that name, remove it, and add its file again: nothing else starts it again.
    StartAgain(String),
    /// Look at what changed where the adopted agent of that name is, and accept the present definitions of its tools.
    AcceptTool(String),
    /// Look again at what the adopted agent of that name is now.
    LookAgain(String),
    /// Mend what keeps the agent from running, or remove it.
    Mend {
        /// Which agent, by name.
        agent: String,
        /// Whether its program said something before it ended.
        said: bool,
    },
    /// Mend what keeps the adopted agent from running, or accept what it is now.
    MendOrAccept {
        /// Which agent, by name.
        agent: String,
        /// Whether its program said something before it ended.
        said: bool,
    },
    /// Update the agent, whose release was revoked, or remove it.
    Update {
        /// Which agent, by name.
        agent: String,
        /// Whether its program said something before it ended.
        said: bool,
    },
    /// Update whatever was installed of the release that was revoked, or remove it.
    UpdateInstalled,
    /// Store a key that the service accepts, and add the agent's file again.
    SetCredential,
    /// Look at the agent on the node that hosts it.
    LookAt,
    /// Remove the application that placed it, for all members of its group.
    RemoveApp,
    /// Look which agents run, and in which versions.
    ListRunning,
}

/// A step that finds an agent, calls one, or shows what became of a call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum CallStep {
    /// Look which agents are known.
    Find,
    /// Ask again where the agent is hosted.
    FindAgain,
    /// Check the name, and the node that hosts the agent.
    CheckName,
    /// Use the whole id of a stranger's agent, trust its owner, or ask for strangers' agents too.
    NameStranger,
    /// Trust the owner of that id.
    TrustOwner(String),
    /// Look at the description of the Thing of that id.
    Describe(String),
    /// Call a tool of an agent by a message.
    CallTool {
        /// Which agent, by name.
        agent: String,
        /// The tool's name, as a JSON string.
        tool: String,
    },
    /// Look which traces are kept.
    ListTraces,
    /// Give the whole id of a task of this node.
    NameTask,
    /// Look which tasks wait for somebody to say what came of a call.
    ListSessions,
    /// Say what came of a call.
    Resume {
        /// The task that waits.
        task: String,
        /// The number of the step in its turn.
        step: u32,
    },
    /// Have the turn of the task of that id go on anew, from one of its steps.
    Restart(String),
    /// Look what the turns of the task of that id did.
    ShowLineage(String),
    /// Look what gates refused of the answers of the task of that id, and why.
    ShowVerdict(String),
}

/// A step in a group that the node belongs to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum GroupStep {
    /// Look which groups the node belongs to.
    List,
    /// Look which proposals wait for owners.
    ListProposals,
    /// Look which applications the group has.
    ListApps,
    /// Give the group a workflow of that name, or install one.
    GetWorkflow,
    /// Read what this node has, without the others.
    ReadStale,
    /// Read on a node of an owner, or have the owners of the group of that name permit it to members.
    PermitReading(String),
    /// Have this node expelled from the group of that id or name and invited again, if its data is damaged.
    RejoinIfDamaged(String),
    /// Have this node expelled from the group of that id and invited again.
    Rejoin(String),
    /// Find out which node has another state, and have that one expelled and invited again.
    RejoinOdd(String),
    /// Expel the node that equivocated.
    Expel {
        /// The group, by name.
        group: String,
        /// The node, by its DID.
        node: String,
    },
    /// Expel members that do not come back, and invite others.
    ReplaceSilent,
    /// Look at the runs of the group of that name, and why they failed.
    ShowRuns(String),
    /// Look whether the task was accepted.
    ShowTask {
        /// The group, by id or name.
        group: String,
        /// The task's id.
        task: String,
    },
    /// Look whether the run began.
    ShowRun {
        /// The group, by id or name.
        group: String,
        /// The run's id.
        run: String,
    },
}

/// A step with the owner's keys, or with secrets of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum KeyStep {
    /// Start a node, which makes an owner where there is none.
    MakeOwner,
    /// Bring back the keys that were exported.
    Import,
    /// Bring the keys here from where they were rotated.
    BringHere,
    /// Rotate the owner's keys, which replaces the one that is used.
    Rotate,
    /// Name the file that the next keys were exported to.
    NameExport,
    /// Copy the network's key from another node, or make one.
    MakeNetworkKey,
    /// Remove the secret of that name, or choose another name.
    RemoveSecret(String),
    /// Store a secret under that name.
    SetSecret(String),
    /// Take back the token of that holder first.
    RemoveToken(String),
    /// Take back all tokens first.
    RemoveTokens,
}

/// A step with the node itself, how it is reached, or what it routes by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum NodeStep {
    /// Diagnose this node as a whole.
    Diagnose,
    /// Diagnose the node that answered.
    DiagnoseThere,
    /// Diagnose this node and the one that hosts the agent.
    DiagnoseBoth,
    /// Look at how busy the node is that did not answer.
    LookAtLoad,
    /// Look up the id of a node, on that node.
    ShowId,
    /// Name the address of any node of the network.
    NamePeer,
    /// The same, where the LAN cannot be searched.
    NamePeerInstead,
    /// Forget sentences that the router learned.
    ForgetRoutes,
    /// Route by what was learned and said, without a model.
    RouteWithoutModel,
    /// Ask again, choose another model, or route without one.
    AskModelAgain,
    /// Ask the model for longer answers.
    MeasureLonger,
    /// Look at what waits for the yes of a person, and answer it.
    ListPending,
    /// Correct the text of the policies, and put them in force.
    LoadPolicy,
    /// Remove old bodies of the audit log.
    PruneAudit,
    /// Look why the decision of that number was as it was, and what labels would have said.
    ExplainDecision(u64),
}

/// A step with registries, or with what comes from them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum RegistryStep {
    /// Follow a registry, which the node does not do yet.
    Follow,
    /// Name one of the registries that the node follows.
    NameOne,
    /// Look which registries the node follows.
    List,
    /// Stop following any registry, which makes room.
    MakeRoom,
    /// Look at the evidence against the registry at that address, show it to others, and forget the registry.
    ShowEvidence(String),
    /// Stop following the registry that showed two histories, once it is known why.
    ForgetForked,
    /// Publish the same file again.
    PublishAgain,
    /// Publish the file without others beside it.
    PublishAlone,
    /// Publish that file or folder with it, by its path from the folder of the agent file.
    PublishWith(String),
    /// Look which releases of the agent there are.
    ListReleases,
    /// Look at a release.
    ShowRelease {
        /// The agent's id.
        agent: String,
        /// Which version of it.
        version: String,
    },
    /// Choose another name for it here.
    InstallAs,
    /// Choose another name, or remove the workflow of that name, which was installed.
    RenameOrUninstall(String),
    /// Remove any workflow that was installed, which makes room.
    UninstallAny,
    /// Remove what was installed by that name, and install it again.
    InstallAgain(String),
    /// Look what was installed.
    ListInstalled,
    /// Update what was installed by that name, which puts a release in the place of the other file that runs.
    ReplaceFile(String),
    /// Look at the newer release of what was installed by that name, and take it.
    TakeNewer(String),
    /// Wait until the release has that age, trust its publisher, or take it as young as it is.
    WaitOrTrust {
        /// The age, hours.
        hours: u64,
    },
    /// Look at the release, and allow its programs to run without a sandbox.
    AllowUncontained,
    /// Say that the publisher of that id is meant.
    NamePublisher(String),
    /// Become an organisation in the registry.
    BecomeOrganisation,
}

impl From<AgentStep> for Remedy {
    fn from(step: AgentStep) -> Remedy {
        Remedy::Agents(step)
    }
}

impl From<CallStep> for Remedy {
    fn from(step: CallStep) -> Remedy {
        Remedy::Calls(step)
    }
}

impl From<GroupStep> for Remedy {
    fn from(step: GroupStep) -> Remedy {
        Remedy::Groups(step)
    }
}

impl From<KeyStep> for Remedy {
    fn from(step: KeyStep) -> Remedy {
        Remedy::Keys(step)
    }
}

impl From<NodeStep> for Remedy {
    fn from(step: NodeStep) -> Remedy {
        Remedy::Node(step)
    }
}

impl From<RegistryStep> for Remedy {
    fn from(step: RegistryStep) -> Remedy {
        Remedy::Registries(step)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_is_told_by_what_it_is_about_with_its_data() {
        let table: [(Remedy, &str); 4] = [
            (GroupStep::List.into(), r#"{"groups":"list"}"#),
            (
                CallStep::TrustOwner("urn:althing:zQm".to_owned()).into(),
                r#"{"calls":{"trustOwner":"urn:althing:zQm"}}"#,
            ),
            (
                AgentStep::Mend { agent: "echo".to_owned(), said: true }.into(),
                r#"{"agents":{"mend":{"agent":"echo","said":true}}}"#,
            ),
            (RegistryStep::WaitOrTrust { hours: 24 }.into(), r#"{"registries":{"waitOrTrust":{"hours":24}}}"#),
        ];
        for (remedy, json) in table {
            assert_eq!(serde_json::to_string(&remedy).expect("it is written"), json);
            assert_eq!(serde_json::from_str::<Remedy>(json).expect("it is read"), remedy);
        }
        assert!(serde_json::from_str::<Remedy>(r#"{"groups":"dance"}"#).is_err(), "of a newer node");
    }
}
