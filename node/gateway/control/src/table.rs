//! The table of routes: each is served, and described in `/openapi.json`. A path that only reads is asked by GET.

use althing_api::{
    AcceptReply, AcceptRequest, ActionQuery, ActionReport, AddRegistry, AddRequest, AddToken, AdoptReply, AdoptRequest,
    AgentEntries, AnswerQuery, AnswerReply, AnswerRequest, AnswerText, AppChanges, AppList, AppRequest, AppStatus,
    ApprovalList, ApprovalReply, ApproveRequest, AttestRequest, AttestationStatement, AuditDetails, AuditList,
    AuditQuery, BindingReply, BlueprintList, BlueprintMeasurement, CatalogList, CatalogQuery, ChannelReply,
    ComparisonReply, ComparisonRequest, ConsentList, ConsentRemoval, CreateGroup, DecisionReport, DomainProof,
    EntryQuery, EraseReply, EraseRequest, EventLine, FindQuery, GatewayOpening, GroupKeys, GroupList, GroupName,
    GroupProposals, GroupReply, GroupRequest, GroupStatus, GroupValue, HandoffReply, HandoffRequest, InstallList,
    InstallRemoval, InstallReply, InstallRequest, JoinGroup, KeysQuery, LineageReport, ListQuery, LogEntry, LogWatch,
    LogsRequest, MakeNetworkKey, MarkRequest, MeasureRequest, MemberRequest, MemoryContent, MemoryEntry,
    MemoryNamespaces, MemoryPassages, MemoryRemoval, MemoryReply, MemoryRequest, NetworkKeyAddition, NodeStatus,
    OpenGateway, OrganisationStatus, OrganiseRequest, OsiModel, OwnerKeys, PassagesQuery, PeerList, PendingList,
    PeopleReport, PeopleText, PolicyDifferences, PolicyExplanation, PolicyFindings, PolicyQuestion, PolicyReport,
    PolicyTest, PolicyTestReport, PolicyText, ProveRequest, PruneReply, PruneRequest, PublishRequest, PurgeRequest,
    ReceiptList, RegistryList, RegistryRemoval, RegistryStatus, RejectRequest, ReleaseDetails, ReleaseList,
    ReleaseMark, ReleasePublication, ReleasePurge, ReplayRequest, ReserveReply, ReserveRequest, ResourceList,
    RestartRequest, ResumeRequest, RevokeRequest, RightsChanges, RolloutOrder, RolloutRequest, RolloutStatus,
    RotateRequest, RouteChannel, RouteEvaluation, RouteFile, RouteLesson, RouteRemoval, RouteReply, RouteReport,
    RouteRequest, RunDetails, RunLine, RunList, RunVerification, ScheduleList, ScheduleReply, ScheduleRequest,
    SearchReply, ServeGroup, ServeReply, SessionList, SessionResumption, SessionSteps, StageRejection, StopReply,
    StopRequest, TapLine, TapRequest, TaskCase, TaskDecisions, TaskDependencies, TaskDetails, TaskList, TaskQuery,
    TaskReplay, TaskReply, TaskRequest, TestReply, TestRequest, TokenAddition, TokenList, TokenRemoval, TraceDetails,
    TraceList, UpdateReply, UpdateRequest, UpdateRuleRequest, UpdateRuleStatus, ValueQuery, VerdictReport, WaitReply,
    WithdrawRequest, WorkflowReply, WorkflowRequest,
};

use crate::routes::{Route, Routes};
use crate::{
    adopt, agents, attesting, audit, bind, blueprints, catalog, comparisons, credentials, events, finding, group_apps,
    group_flows, group_tasks, groups, handoffs, lineage, logs, memory, org, pending, people, policies, receipts,
    registries, reserve, rollouts, routing, sessions, status, stopping, tap, traces, trials, verdicts, waits,
};

/// All routes but those whose handlers are in the root of this crate.
pub fn routes() -> Routes {
    let routes = of_node(Routes::default());
    let routes = of_credentials(routes);
    let routes = of_agents(routes);
    let routes = of_rollouts(routes);
    let routes = of_sentences(routes);
    let routes = of_groups(routes);
    let routes = of_work(routes);
    let routes = of_memory(routes);
    let routes = of_sessions(routes);
    let routes = of_tests(routes);
    let routes = of_policies(routes);
    let routes = of_people(routes);
    let routes = of_audit(routes);
    let routes = of_registries(routes);
    let routes = of_releases(routes);
    of_organisation(routes)
}

fn of_node(routes: Routes) -> Routes {
    routes
        .route(Route::get("/status", "Shows the node at a glance").reply::<NodeStatus>(), status::status)
        .route(Route::get("/osi", "Shows the seven layers, and how each is").reply::<OsiModel>(), status::osi)
        .route(Route::get("/peers", "Lists the connected peers").reply::<PeerList>(), status::peers)
        .route(Route::get("/ps", "Lists the agents, and how each is").reply::<AgentEntries>(), agents::ps)
        .route(
            Route::get("/events", "Tells what happens on the node, until whoever asked hangs up")
                .reply::<EventLine>()
                .media("text/event-stream"),
            events::events,
        )
        .route(
            Route::get("/traces", "Lists the newest traces that this node saw")
                .query::<traces::ListQuery>()
                .reply::<TraceList>(),
            traces::list,
        )
        .route(
            Route::get("/traces/{trace}", "Shows a trace over all nodes that it passed").reply::<TraceDetails>(),
            traces::show,
        )
        .route(
            Route::get("/tap", "Shows the messages that pass, until whoever asked hangs up")
                .query::<TapRequest>()
                .lines::<TapLine>(),
            tap::tap,
        )
        .route(
            Route::get("/logs", "Shows what the programs of an agent said").query::<LogsRequest>().lines::<LogEntry>(),
            logs::logs,
        )
        .route(
            Route::get("/waits/{agent}", "Tells what a call of an agent waits for")
                .query::<waits::Waits>()
                .reply::<WaitReply>(),
            waits::waits,
        )
}

fn of_credentials(routes: Routes) -> Routes {
    routes
        .route(Route::get("/keys", "Shows the owner's keys").reply::<OwnerKeys>(), credentials::keys)
        .route(
            Route::post::<RotateRequest>("/keys/rotate", "Lets the owner's next key take over").reply::<OwnerKeys>(),
            credentials::rotate,
        )
        .route(
            Route::post::<RevokeRequest>("/keys/revoke", "Ends the owner's identity for ever").reply::<OwnerKeys>(),
            credentials::revoke,
        )
        .route(
            Route::post::<WithdrawRequest>("/keys/withdraw", "Takes back what a node was let do").reply::<OwnerKeys>(),
            credentials::withdraw,
        )
        .route(Route::get("/tokens", "Lists the tokens of the gateway").reply::<TokenList>(), credentials::tokens)
        .route(
            Route::post::<AddToken>("/tokens", "Makes a token of the gateway, and shows it this once")
                .reply::<TokenAddition>(),
            credentials::add_token,
        )
        .route(
            Route::delete("/tokens/{name}", "Takes a token of the gateway back").reply::<TokenRemoval>(),
            credentials::remove_token,
        )
        .route(
            Route::post::<OpenGateway>("/gateway/open", "Opens a gateway that has no token any more to this machine")
                .reply::<GatewayOpening>(),
            credentials::open,
        )
        .route(
            Route::post::<MakeNetworkKey>("/network-key", "Makes a key of a private network, and shows it this once")
                .reply::<NetworkKeyAddition>(),
            credentials::make_network_key,
        )
}

fn of_agents(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/find", "Finds agents and Things").query::<FindQuery>().reply::<SearchReply>(),
            finding::find,
        )
        .route(
            Route::post::<AdoptRequest>("/adopt", "Shows what is there already, and adds it as an agent")
                .files()
                .reply::<AdoptReply>(),
            adopt::adopt,
        )
        .route(
            Route::post::<AcceptRequest>("/adopt/accept", "Shows an adopted agent as it is now, and adopts it again")
                .reply::<AcceptReply>(),
            adopt::accept,
        )
        .route(
            Route::post::<AddRequest>("/run", "Runs an agent for as long as the answer is read")
                .files()
                .lines::<RunLine>(),
            agents::run,
        )
        .route(
            Route::post::<AddRequest>("/bind", "Binds an agent's contract without running it")
                .files()
                .reply::<BindingReply>(),
            bind::bind,
        )
        .route(
            Route::get("/bind/{name}", "Shows what an agent was bound to, or the manifest of that hash")
                .reply::<BindingReply>(),
            bind::find,
        )
        .route(
            Route::get("/catalog", "Lists tools and models, with what their owner says of them")
                .query::<CatalogQuery>()
                .reply::<CatalogList>(),
            catalog::list,
        )
        .route(
            Route::post::<ReserveRequest>("/reserve", "Reserves what a contract needs on another node")
                .reply::<ReserveReply>(),
            reserve::reserve,
        )
}

fn of_rollouts(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/rollouts/{agent}", "Shows the versions of an agent, and what was counted of their calls")
                .reply::<RolloutStatus>(),
            rollouts::show,
        )
        .route(
            Route::post::<RolloutRequest>("/rollouts/{agent}", "Lets a new version have a share of an agent's calls")
                .files()
                .reply::<RolloutStatus>(),
            rollouts::begin,
        )
        .route(
            Route::post::<AddRequest>(
                "/rollouts/{agent}/changes",
                "Shows what a new version changes of what was agreed to",
            )
            .files()
            .reply::<RightsChanges>(),
            rollouts::changes,
        )
        .route(
            Route::post::<RolloutOrder>("/rollouts/{agent}/end", "Ends a rollout: one version has all calls")
                .reply::<RolloutStatus>(),
            rollouts::end,
        )
}

fn of_sentences(routes: Routes) -> Routes {
    routes
        .route(
            Route::post::<RouteRequest>("/route", "Says whom a sentence is for").reply::<RouteReply>(),
            routing::route,
        )
        .route(
            Route::post::<RouteFile>("/route/learn", "Learns labelled sentences").files().reply::<RouteLesson>(),
            routing::learn,
        )
        .route(Route::delete("/route/learn", "Forgets what was learned").reply::<RouteRemoval>(), routing::forget)
        .route(
            Route::post::<RouteEvaluation>("/route/eval", "Routes labelled sentences, and counts")
                .files()
                .reply::<RouteReport>(),
            routing::evaluate,
        )
        .route(
            Route::post::<RouteChannel>("/route/channel", "Names the agents of a channel").reply::<ChannelReply>(),
            routing::channel,
        )
}

fn of_groups(routes: Routes) -> Routes {
    routes
        .route(Route::get("/groups", "Lists the groups of this node").reply::<GroupList>(), groups::list)
        .route(Route::post::<CreateGroup>("/groups", "Forms a group").reply::<GroupName>(), groups::create)
        .route(Route::post::<JoinGroup>("/join", "Joins a group by a ticket").reply::<GroupName>(), groups::join)
        .route(Route::get("/groups/{group}", "Shows a group").reply::<GroupStatus>(), groups::show)
        .route(Route::post::<GroupRequest>("/groups/{group}", "Changes a group").reply::<GroupReply>(), groups::work)
        .route(
            Route::get("/groups/{group}/proposals", "Lists what waits for signatures of owners")
                .reply::<GroupProposals>(),
            groups::proposals,
        )
        .route(
            Route::get("/groups/{group}/values", "Lists the keys of a group's values")
                .query::<KeysQuery>()
                .reply::<GroupKeys>(),
            groups::list_keys,
        )
        .route(
            Route::get("/groups/{group}/value", "Reads a value of a group").query::<ValueQuery>().reply::<GroupValue>(),
            groups::read_value,
        )
        .route(
            Route::post::<ServeGroup>("/groups/{group}/serve", "Makes a group an agent, or ends that")
                .reply::<ServeReply>(),
            group_apps::serve,
        )
        .route(
            Route::get("/groups/{group}/apps", "Lists the applications of a group").reply::<AppList>(),
            group_apps::list,
        )
        .route(
            Route::get("/groups/{group}/apps/{app}", "Shows an application of a group").reply::<AppStatus>(),
            group_apps::show,
        )
        .route(
            Route::post::<AppRequest>("/apps", "Brings an application up, changes it or removes it")
                .reply::<AppChanges>(),
            group_apps::apps,
        )
}

fn of_work(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/groups/{group}/tasks", "Lists the tasks of a group").query::<ListQuery>().reply::<TaskList>(),
            group_tasks::list,
        )
        .route(
            Route::post::<TaskRequest>("/groups/{group}/tasks", "Gives a group a task, or changes one")
                .reply::<TaskReply>(),
            group_tasks::work,
        )
        .route(
            Route::get("/groups/{group}/tasks/{task}", "Shows a task").query::<TaskQuery>().reply::<TaskDetails>(),
            group_tasks::show,
        )
        .route(
            Route::get(
                "/groups/{group}/tasks/{task}/dependencies",
                "Shows what a task waits for, and what waits for it",
            )
            .reply::<TaskDependencies>(),
            group_tasks::depends,
        )
        .route(
            Route::get("/groups/{group}/resources", "Lists the resources that tasks want, and the last decisions")
                .reply::<ResourceList>(),
            group_tasks::resources,
        )
        .route(
            Route::get("/groups/{group}/workflows", "Lists the runs of a group's workflows")
                .query::<ListQuery>()
                .reply::<RunList>(),
            group_flows::list,
        )
        .route(
            Route::post::<WorkflowRequest>("/groups/{group}/workflows", "Begins a run of a workflow, or changes one")
                .reply::<WorkflowReply>(),
            group_flows::workflows,
        )
        .route(
            Route::get("/groups/{group}/workflows/{run}", "Shows a run of a workflow").reply::<RunDetails>(),
            group_flows::show,
        )
        .route(
            Route::get("/groups/{group}/schedules", "Lists the schedules of a group").reply::<ScheduleList>(),
            group_flows::list_schedules,
        )
        .route(
            Route::post::<ScheduleRequest>("/groups/{group}/schedules", "Adds a schedule to a group, or removes one")
                .reply::<ScheduleReply>(),
            group_flows::schedules,
        )
}

fn of_sessions(routes: Routes) -> Routes {
    routes
        .route(Route::get("/sessions", "Lists the turns that have a journal").reply::<SessionList>(), sessions::list)
        .route(
            Route::post::<ResumeRequest>("/sessions/{task}", "Says what became of a call in doubt")
                .reply::<SessionResumption>(),
            sessions::resume,
        )
        .route(
            Route::post::<RestartRequest>(
                "/sessions/{task}/restart",
                "Has a turn that stopped go on anew from one of its steps",
            )
            .reply::<SessionResumption>(),
            sessions::restart,
        )
        .route(
            Route::get("/sessions/{task}/steps", "Shows the journals of a task's turns, without what is in them")
                .reply::<SessionSteps>(),
            sessions::steps,
        )
        .route(
            Route::post::<HandoffRequest>(
                "/tasks/{task}/handoff",
                "Hands the work of an agent's task to another agent",
            )
            .reply::<HandoffReply>(),
            handoffs::hand_over,
        )
        .route(
            Route::get("/tasks/{task}/verdict", "Shows what gates refused of a task's answers, with these")
                .reply::<VerdictReport>(),
            verdicts::of_task,
        )
        .route(
            Route::get("/tasks/{task}/decisions", "Shows what was decided of calls in a task, and why")
                .reply::<TaskDecisions>(),
            policies::of_task,
        )
}

fn of_tests(routes: Routes) -> Routes {
    routes
        .route(Route::get("/tasks/{task}/case", "Makes a case of a task").reply::<TaskCase>(), trials::case)
        .route(
            Route::post::<ReplayRequest>("/replay", "Runs a task again from its tape, and compares")
                .reply::<TaskReplay>(),
            trials::replay,
        )
        .route(
            Route::post::<TestRequest>("/tests", "Runs the cases of a file on an agent, and judges")
                .files()
                .reply::<TestReply>(),
            trials::test,
        )
        .route(
            Route::post::<ComparisonRequest>("/comparisons", "Runs the same cases with two versions, and compares")
                .files()
                .reply::<ComparisonReply>(),
            comparisons::compare,
        )
        .route(
            Route::get("/tasks/{task}/lineage", "Shows what led to an answer, by names and hashes")
                .reply::<LineageReport>(),
            lineage::show,
        )
        .route(
            Route::get("/tasks/{task}/verification", "Checks again what is recorded of a task's turns")
                .reply::<RunVerification>(),
            lineage::verify,
        )
}

fn of_policies(routes: Routes) -> Routes {
    routes
        .route(Route::get("/policy", "Shows which policies are in force").reply::<PolicyReport>(), policies::status)
        .route(
            Route::post::<PolicyText>("/policy", "Puts other policies in force, all of them or none")
                .reply::<PolicyReport>(),
            policies::load,
        )
        .route(
            Route::delete("/policy", "Takes the policies out, so that contracts decide alone").reply::<PolicyReport>(),
            policies::unload,
        )
        .route(
            Route::post::<PolicyText>("/policy/lint", "Checks policies, and puts none in force")
                .reply::<PolicyFindings>(),
            policies::lint,
        )
        .route(
            Route::post::<PolicyTest>("/policy/test", "Decides cases, and compares").reply::<PolicyTestReport>(),
            policies::test,
        )
        .route(
            Route::post::<PolicyQuestion>("/policy/explain", "Says how a request would be decided")
                .reply::<PolicyExplanation>(),
            policies::explain,
        )
        .route(
            Route::post::<PolicyText>("/policy/diff", "Shows which decisions other policies would turn")
                .reply::<PolicyDifferences>(),
            policies::diff,
        )
        .route(
            Route::get("/decisions/{decision}", "Says why something was decided as it was").reply::<DecisionReport>(),
            policies::decision,
        )
        .route(
            Route::get("/who", "Says which agents may do something").query::<ActionQuery>().reply::<ActionReport>(),
            policies::who,
        )
}

fn of_people(routes: Routes) -> Routes {
    routes
        .route(Route::get("/people", "Shows whom the node asks").reply::<PeopleReport>(), people::show)
        .route(
            Route::post::<PeopleText>("/people", "Takes other people, all of them or none").reply::<PeopleReport>(),
            people::load,
        )
        .route(Route::get("/pending", "Lists what waits for people").reply::<PendingList>(), pending::list)
        .route(
            Route::post::<AnswerRequest>("/pending/{ask}", "Answers what is asked of a call").reply::<AnswerReply>(),
            pending::answer,
        )
        .route(
            Route::get("/pending/{ask}/text", "Shows what a person signs to answer")
                .query::<AnswerQuery>()
                .reply::<AnswerText>(),
            pending::text,
        )
        .route(
            Route::get("/consents", "Lists each yes that counts more than once").reply::<ConsentList>(),
            pending::consents,
        )
        .route(
            Route::delete("/consents/{consent}", "Takes back a yes that counts more than once")
                .reply::<ConsentRemoval>(),
            pending::withdraw,
        )
        .route(
            Route::post::<StopRequest>("/stop", "Stops an agent, or all, at once").reply::<StopReply>(),
            stopping::stop,
        )
}

fn of_audit(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/audit", "Lists entries of the audit log").query::<AuditQuery>().reply::<AuditList>(),
            audit::list,
        )
        .route(
            Route::get("/audit/{log}/{entry}", "Shows an entry of the audit log, with its proof")
                .reply::<AuditDetails>(),
            audit::show,
        )
        .route(
            Route::post::<EraseRequest>("/audit/erase", "Makes unreadable what lies beside the log of somebody")
                .reply::<EraseReply>(),
            audit::erase,
        )
        .route(
            Route::post::<PruneRequest>("/audit/prune", "Deletes what lies beside the log from before a time")
                .reply::<PruneReply>(),
            audit::prune,
        )
}

fn of_memory(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/memory", "Lists the namespaces of agents' memory").reply::<MemoryNamespaces>(),
            memory::list,
        )
        .route(Route::get("/memory/{namespace}", "Lists what a namespace has").reply::<MemoryContent>(), memory::show)
        .route(
            Route::post::<MemoryRequest>("/memory/{namespace}", "Adds to a namespace, or deletes of it")
                .reply::<MemoryReply>(),
            memory::work,
        )
        .route(Route::delete("/memory/{namespace}", "Removes a namespace").reply::<MemoryRemoval>(), memory::remove)
        .route(
            Route::get("/memory/{namespace}/passages", "Searches for passages that resemble a question")
                .query::<PassagesQuery>()
                .reply::<MemoryPassages>(),
            memory::search,
        )
        .route(
            Route::get("/memory/{namespace}/entry", "Shows a passage or a value, or what became of it")
                .query::<EntryQuery>()
                .reply::<MemoryEntry>(),
            memory::read,
        )
}

fn of_registries(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/registries", "Lists the registries that are followed").reply::<RegistryList>(),
            registries::list,
        )
        .route(
            Route::post::<AddRegistry>("/registries", "Follows a registry").reply::<RegistryStatus>(),
            registries::add,
        )
        .route(
            Route::delete("/registries", "Follows a registry no more")
                .query::<registries::RegistryName>()
                .reply::<RegistryRemoval>(),
            registries::remove,
        )
        .route(
            Route::post::<InstallRequest>("/install", "Shows a release; installs it when its digest is agreed to")
                .reply::<InstallReply>(),
            registries::install,
        )
        .route(
            Route::post::<UpdateRequest>(
                "/update",
                "Shows a newer release; updates to it when its digest is agreed to",
            )
            .reply::<UpdateReply>(),
            registries::update,
        )
        .route(
            Route::get("/outdated", "Lists what is installed, with what its registry has now").reply::<InstallList>(),
            registries::outdated,
        )
        .route(
            Route::post::<UpdateRuleRequest>("/installed/{name}/update", "Says how newer releases come from now on")
                .reply::<UpdateRuleStatus>(),
            registries::set_rule,
        )
        .route(
            Route::delete("/installed/{name}", "Removes what was installed").reply::<InstallRemoval>(),
            registries::uninstall,
        )
}

fn of_releases(routes: Routes) -> Routes {
    routes
        .route(
            Route::post::<PublishRequest>("/publish", "Releases an agent or a workflow")
                .files()
                .reply::<ReleasePublication>(),
            registries::publish,
        )
        .route(
            Route::get("/releases", "Lists releases of a registry")
                .query::<registries::ReleaseFilter>()
                .reply::<ReleaseList>(),
            registries::releases,
        )
        .route(
            Route::post::<MarkRequest>("/releases/mark", "Changes the standing of a release").reply::<ReleaseMark>(),
            registries::mark,
        )
        .route(
            Route::get("/blueprints", "Shows what others measured on machines like this one")
                .query::<blueprints::SuggestionFilter>()
                .reply::<BlueprintList>(),
            blueprints::suggest,
        )
        .route(
            Route::post::<MeasureRequest>("/blueprints", "Measures a model of this machine")
                .reply::<BlueprintMeasurement>(),
            blueprints::measure,
        )
        .route(
            Route::post::<AttestRequest>("/releases/attest", "Attests something of a release")
                .reply::<AttestationStatement>(),
            attesting::attest,
        )
        .route(
            Route::get("/releases/show", "Shows a release, and what others attested of it")
                .query::<attesting::ReleaseName>()
                .reply::<ReleaseDetails>(),
            attesting::show,
        )
        .route(
            Route::get("/releases/receipts", "Shows the receipts that are kept")
                .query::<receipts::ReceiptFilter>()
                .reply::<ReceiptList>(),
            receipts::list,
        )
}

fn of_organisation(routes: Routes) -> Routes {
    routes
        .route(
            Route::get("/org", "Shows the owner's organisation")
                .query::<org::RegistryFilter>()
                .reply::<OrganisationStatus>(),
            org::show,
        )
        .route(
            Route::post::<OrganiseRequest>("/org", "Makes the owner an organisation, or changes that")
                .reply::<OrganisationStatus>(),
            org::organise,
        )
        .route(
            Route::post::<MemberRequest>("/org/members", "Gives a member roles and names")
                .reply::<OrganisationStatus>(),
            org::member,
        )
        .route(
            Route::post::<ProveRequest>("/org/prove", "Lets the registry look for a domain's proof")
                .reply::<DomainProof>(),
            org::prove,
        )
        .route(
            Route::get("/org/watch", "Shows what a registry's log says of the organisation")
                .query::<org::WatchQuery>()
                .reply::<LogWatch>(),
            org::watch,
        )
        .route(
            Route::get("/releases/pending", "Lists the releases that wait")
                .query::<org::RegistryFilter>()
                .reply::<ApprovalList>(),
            org::pending,
        )
        .route(
            Route::post::<ApproveRequest>(
                "/releases/approve",
                "Shows a release that waits; approves it when its digest is agreed to",
            )
            .reply::<ApprovalReply>(),
            org::approve,
        )
        .route(
            Route::post::<RejectRequest>("/releases/reject", "Takes a staged release away").reply::<StageRejection>(),
            org::reject,
        )
        .route(
            Route::post::<PurgeRequest>("/releases/purge", "Purges a release that is not for everybody")
                .reply::<ReleasePurge>(),
            org::purge,
        )
}
