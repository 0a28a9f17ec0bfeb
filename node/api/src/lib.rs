//! The types of the owner's API: what a node's owner asks of it, what it answers, and why that failed.
//! `node/gateway/control` answers these requests, and the command line sends them; both know only this crate of each other.
//!
//! **Inputs**: requests, replies and problems as values. **Outputs**: their JSON, and the values that JSON says.
//!
//! **Invariants**
//! - A type has one shape: what is sent is what is read.
//!
//! **Never knows**: how a request is carried out, layers, HTTP, exit codes, terminals.

mod adopt;
mod adopt_replies;
mod agents;
mod apps;
mod attestation_replies;
mod attesting;
mod audit;
mod bind;
mod blueprint_replies;
mod call;
mod catalog;
mod comparisons;
mod credentials;
mod doctor;
mod events;
mod find;
mod flow_replies;
mod flows;
#[cfg(test)]
mod golden;
mod group_replies;
mod group_status;
mod groups;
mod handoffs;
mod lineage;
mod logs;
mod memory;
mod org;
mod org_replies;
mod osi;
mod pending;
mod people;
mod policies;
mod problem;
mod ps;
mod queries;
mod receipt_replies;
mod registries;
mod registry_replies;
mod release_contents;
mod reserve;
mod rollouts;
mod route_replies;
mod routing;
mod sessions;
mod status;
mod stopping;
mod tap;
mod task_replies;
mod tasks;
mod traces;
mod trials;
mod trust;
mod upload;
mod verdicts;
mod waits;

/// The longest body of a request that hands over no files, in bytes.
pub const BODY_BYTES_MAX: usize = 2 << 20;

pub use adopt::{AcceptRequest, AdoptRequest, Offers};
pub use adopt_replies::{
    AcceptReply, AdoptReply, AgentAcceptance, AgentAdoption, AgentDraft, DraftChange, DraftOmission, ProgramNeeds,
    ThingAdoption, ThingDirectory, ThingEntry, ThingFailure, UnansweredProgram,
};
pub use agents::{
    AddRequest, AgentAddition, AgentList, AgentRemoval, AgentSummary, RightsChange, RightsChanges, RunLine,
};
pub use apps::{AppAgentStatus, AppChange, AppChanges, AppList, AppRequest, AppStatus};
pub use attestation_replies::{Attestation, AttestationStatement, ReleaseDetails};
pub use attesting::{AttestRequest, MeasureRequest};
pub use audit::{
    AUDIT_LIMIT_MAX, AuditBody, AuditDetails, AuditEntry, AuditGateVerdict, AuditList, AuditQuery, AuditWitnessEntry,
    ErasePart, EraseReply, EraseRequest, PruneReply, PruneRequest,
};
pub use bind::{BindingReply, CandidateReason, ContractField};
pub use blueprint_replies::{
    BlueprintFigures, BlueprintList, BlueprintMachine, BlueprintMeasurement, BlueprintSuggestion,
};
pub use call::{CallCancellation, CallExplanation, CallHosts, CallLine, CallRequest, TaskEvent};
pub use catalog::{CatalogList, CatalogModel, CatalogQuery, CatalogTool};
pub use comparisons::{
    CasePair, ComparisonReply, ComparisonReport, ComparisonRequest, ComparisonVerdict, PairFigures, PairGap,
    TestedVersion,
};
pub use credentials::{
    AddToken, GatewayOpening, KeyEvent, MakeNetworkKey, NetworkKeyAddition, NodeWithdrawal, OpenGateway, OwnerKeys,
    RevokeRequest, RotateRequest, TokenAddition, TokenList, TokenRemoval, TokenScope, TokenSummary, WithdrawRequest,
};
pub use doctor::{
    DialBack, DialBackOutcome, DialResult, DoctorFinding, DoctorReport, DoctorRequest, LayerOverhead, OverheadReport,
    OverheadTimes,
};
pub use events::{EventLine, NodeEvent, NodeSnapshot};
pub use find::{
    AgentMatch, CapabilitySummary, MachineOffer, SearchExplanation, SearchOmission, SearchPlace, SearchReply,
    SearchSteps, SuccessShare, TableSearch, ThingForm, ThingMatch, ThingRelease, ToolMatch,
};
pub use flow_replies::{
    RunCancellation, RunCondition, RunDetails, RunList, RunResumption, RunStart, RunSummary, ScheduleAddition,
    ScheduleList, ScheduleQuestion, ScheduleRemoval, ScheduleReply, ScheduleStatus, StepApproval, StepCondition,
    StepFailure, StepStatus, WorkflowReply,
};
pub use flows::{OverlapRule, ScheduleRequest, ScheduledWork, WorkflowRequest};
pub use group_replies::{
    GroupAge, GroupAgentEnd, GroupAgentStart, GroupAmendment, GroupDeparture, GroupDissolution, GroupEndorsement,
    GroupExpulsion, GroupInvitation, GroupKeys, GroupName, GroupProposal, GroupProposals, GroupRemoval, GroupReply,
    GroupTransfer, GroupValue, GroupValueRemoval, GroupVersion, ServeReply,
};
pub use group_status::{
    GroupCharter, GroupEntry, GroupEquivocation, GroupList, GroupLog, GroupMember, GroupRole, GroupState, GroupStatus,
    GroupSummary, GroupWork,
};
pub use groups::{AmendGroup, CreateGroup, GroupRequest, JoinGroup, ServeGroup};
pub use handoffs::{HandoffCondition, HandoffDraft, HandoffOutcome, HandoffReply, HandoffRequest};
pub use lineage::{
    CheckVerdict, LineageGap, LineageReport, LineageTask, RunCheck, RunVerification, TurnCall, TurnRun,
    TurnVerification,
};
pub use logs::{LogEntry, LogGap, LogsRequest, ProgramLine};
pub use memory::{
    MemoryContent, MemoryDeletion, MemoryEntry, MemoryLoss, MemoryNamespace, MemoryNamespaces, MemoryPassage,
    MemoryPassages, MemoryRemoval, MemoryReply, MemoryRequest, MemorySource, MemoryTombstone, MemoryValue,
};
pub use org::{ApproveRequest, MemberRequest, OrganiseRequest, ProveRequest, PurgeRequest, RejectRequest};
pub use org_replies::{
    ApprovalList, ApprovalOffer, ApprovalReply, ApprovalSummary, DomainClaim, DomainHolder, DomainProof, LogNotice,
    LogWatch, OrganisationMember, OrganisationStatus, ReleasePurge, StageRejection, StageSummary,
};
pub use osi::{OsiLayer, OsiModel};
pub use pending::{
    AnswerQuery, AnswerReply, AnswerRequest, AnswerState, AnswerText, ConsentList, ConsentRemoval, DataReach,
    PendingEntry, PendingGap, PendingList, PendingSource, PendingTrouble, PendingWant, PersonQuestion, StandingConsent,
    StandingRequest,
};
pub use people::{PeopleReport, PeopleText, PersonEntry, SignOffNeed};
pub use policies::{
    ActionQuery, ActionReport, ActionRight, DecisionReport, PolicyCase, PolicyDifference, PolicyDifferences,
    PolicyExplanation, PolicyFinding, PolicyFindings, PolicyNode, PolicyQuestion, PolicyReason, PolicyReport,
    PolicyTest, PolicyTestReport, PolicyText, PolicyVerdict, TaskDecisions,
};
pub use problem::{
    AgentStep, CallStep, GroupStep, KeyStep, Kind, NodeStep, OutcomeDoubt, Problem, RegistryStep, Remedy,
};
pub use ps::{
    AgentCondition, AgentEntries, AgentEntry, AgentFailure, AgentFinding, AgentInstance, AgentStart, EnclosureLevel,
    FileAccess, FirstOutput, HardJobs, ProgramContainment, ProgramRefusal, ToolDifference, ToolRefusal,
    ToolServerAbsence, VersionShare,
};
pub use queries::{EntryQuery, FindQuery, KeysQuery, ListQuery, PassagesQuery, TaskQuery, ValueQuery};
pub use receipt_replies::{ReceiptEntry, ReceiptFault, ReceiptList, ReceiptProof};
pub use registries::{
    AddRegistry, InstallRequest, InstallTerms, MarkRequest, PublishRequest, UpdateRequest, UpdateRule,
    UpdateRuleRequest,
};
pub use registry_replies::{
    InstallAddition, InstallCompletion, InstallList, InstallOffer, InstallRemoval, InstallReply, InstallStatus,
    NameProof, RegistryFork, RegistryList, RegistryRemoval, RegistryStatus, RegistryWitnesses, ReleaseList,
    ReleaseMark, ReleaseOffer, ReleasePublication, ReleaseVersion, ReleaseVersions, UpdateAbsence, UpdateCompletion,
    UpdateLook, UpdateOffer, UpdateReply, UpdateRuleStatus, WorkflowAddition,
};
pub use release_contents::{
    InstallContents, ReleaseContents, StepAction, StepQuestion, StepRepeat, StepTarget, StepTask, StepTest,
    WorkflowOutline, WorkflowStep, WorkflowSteps,
};
pub use reserve::{NodeReservation, ReservationCancellation, ReserveReply, ReserveRequest};
pub use rollouts::{
    RolloutCases, RolloutEffect, RolloutLeftOut, RolloutOrder, RolloutRequest, RolloutShadow, RolloutSide,
    RolloutSignal, RolloutState, RolloutStatus, RolloutUnit, VersionReversal, VersionStatus,
};
pub use route_replies::{
    ChannelAgent, ChannelReply, RouteChoice, RouteEmbeddings, RouteLesson, RouteMistake, RouteRemoval, RouteReply,
    RouteReport, RouteScore,
};
pub use routing::{RouteChannel, RouteEvaluation, RouteFile, RouteMode, RouteRequest};
pub use sessions::{
    CallDoubt, CallOutcome, RestartRequest, ResumeRequest, SessionCondition, SessionEntry, SessionList,
    SessionResumption, SessionRow, SessionRowKind, SessionSteps, SessionTurn, StoppedTurn,
};
pub use status::{
    CallStatus, CommunicationStatus, DialFailure, DiscoveryStatus, ExecutionStatus, GovernanceTotals, GroupTotals,
    HealthStatus, HealthWord, KeyStatus, LayerStatus, MachineStatus, NodeStatus, PeerList, PeerStatus, ReachStatus,
    SessionTotals, TableStatus, VerificationTotals, WakeUp,
};
pub use stopping::{StopNode, StopReply, StopRequest};
pub use tap::{TapBody, TapDirection, TapGap, TapLine, TapMessage, TapRequest};
pub use task_replies::{
    ContentReference, MemberVerdict, ResourceChoice, ResourceClaim, ResourceDecision, ResourceList, ResourceRule,
    ResourceStatus, ResourceVote, TaskCancellation, TaskContent, TaskDependencies, TaskDependency, TaskDetails, TaskId,
    TaskLink, TaskList, TaskRefusal, TaskReply, TaskSubmission, TaskSummary, WorkState,
};
pub use tasks::{SubmitTask, TaskRequest};
pub use traces::{TraceDetails, TraceGap, TraceList, TraceSpan, TraceSummary};
pub use trials::{
    CaseReport, CaseRun, JudgeAgreement, JudgeVerdict, LiveTest, ReplayRequest, ShareEstimate, TaskCase, TaskReplay,
    TestOutcome, TestReply, TestReport, TestRequest, TurnReplay,
};
pub use trust::{TrustChange, TrustList, TrustRequest};
pub use upload::{
    Folder, Listener, LocalPath, UPLOAD_BODY_BYTES_MAX, UPLOAD_BYTES_MAX, UPLOAD_FILE_BYTES_MAX, UPLOAD_FILES_MAX,
    Upload, UploadFault,
};
pub use verdicts::{AnswerRefusal, VerdictReport};
pub use waits::WaitReply;
