//! The MCP server: lists tools, calls them, tells of changed lists.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use althing_calls::finding::{self, Filter};
use althing_calls::{Asker, Callee, Calls, Principal, Purpose};
use althing_discovery::TrustRelation;
use althing_edge::{Identity, Scope};
use althing_protocol::{AgentId, Digest, digest};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use rmcp::ErrorData;
use rmcp::handler::server::ServerHandler;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Extensions, GetPromptRequestParams, GetPromptResponse,
    Implementation, JsonObject, ListToolsResult, PaginatedRequestParams, ProtocolVersion, ReadResourceRequestParams,
    ReadResourceResponse, ServerCapabilities, ServerConfig, SubscriptionFilter, Tool, ToolAnnotations,
};
use rmcp::service::{NotificationContext, RequestContext, RoleServer, SubscriptionContext};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::call::{self, Arguments, Caller};
use crate::exposed::{self, Exposed, object};
use crate::failed::Failed;
use crate::relay;
use crate::result::{failure, refused, value};
use crate::tools::{self, GENERAL};
use crate::view::View;

/// The versions of MCP that are served. The newest is stateless; the others have sessions.
const VERSIONS: [ProtocolVersion; 5] = [
    ProtocolVersion::V_2024_11_05,
    ProtocolVersion::V_2025_03_26,
    ProtocolVersion::V_2025_06_18,
    ProtocolVersion::V_2025_11_25,
    ProtocolVersion::V_2026_07_28,
];
/// A changed list is announced after this time, and so at most once in it.
const ANNOUNCE_EVERY: Duration = Duration::from_secs(5);
/// Characters of a name that a client wrote, in a message to it.
const NAMED_CHARS_MAX: usize = 128;
/// Clients that listen for changed lists without a session.
const LISTENING_MAX: usize = 256;
const INSTRUCTIONS: &str = "The agents of a peer-to-peer mesh. Each skill of an agent on this node is a tool. find_agents \
searches all agents that can be reached, describe_agent shows one of them, and call_agent sends a message to it, wherever it \
runs. An agent that needs more input says so: answer it with call_agent and its task_id.";

/// The server of a session; what all share is shared.
#[derive(Clone)]
pub(crate) struct Server {
    shared: Arc<Shared>,
    /// Whether changed lists are announced in this session, which a client may ask for again and again.
    announces: Arc<AtomicBool>,
}

struct Shared {
    calls: Calls,
    principal: fn(&Identity) -> Principal,
    asker: fn(&Identity) -> Asker,
    /// Room for subscriptions.
    listening: Semaphore,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Named {
    agent: String,
}

impl Server {
    pub fn new(calls: Calls, principal: fn(&Identity) -> Principal, asker: fn(&Identity) -> Asker) -> Server {
        let listening = Semaphore::new(LISTENING_MAX);
        Server { shared: Arc::new(Shared { calls, principal, asker, listening }), announces: Arc::default() }
    }

    /// The same for another session.
    pub fn of_session(&self) -> Server {
        Server { shared: self.shared.clone(), announces: Arc::default() }
    }

    fn calls(&self) -> &Calls {
        &self.shared.calls
    }

    /// What bounds what a client may ask for.
    fn asker(&self, context: &RequestContext<RoleServer>) -> Asker {
        (self.shared.asker)(&identity(&context.extensions))
    }

    /// Calls the agent of a skill, or the one that the arguments name.
    async fn ask(
        &self,
        skill: Option<AgentId>,
        arguments: JsonObject,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, Failed> {
        let arguments: Arguments = read(arguments).map_err(Failed::Arguments)?;
        let callee = match (skill, &arguments.agent) {
            (Some(agent), None) => Callee::Id(agent),
            (Some(_), Some(_)) => {
                return Err(Failed::Arguments("this tool has its agent; call_agent takes `agent`".to_owned()));
            }
            (None, Some(name)) => Callee::near(name),
            (None, None) => return Err(Failed::Arguments("`agent` is missing".to_owned())),
        };
        self.caller(&callee, context).await?.call(arguments).await
    }

    /// A caller of that agent, if whoever sent the request may call it.
    async fn caller<'a>(
        &'a self,
        callee: &Callee,
        context: &'a RequestContext<RoleServer>,
    ) -> Result<Caller<'a>, Failed> {
        let target = self.calls().target(&self.asker(context), callee, Purpose::Call).await?;
        let principal = (self.shared.principal)(&identity(&context.extensions));
        Ok(Caller { calls: self.calls(), principal, context, target })
    }

    /// A caller of the server of tools that a view shows, if it shows one.
    async fn relay<'a>(
        &'a self,
        view: &View,
        context: &'a RequestContext<RoleServer>,
    ) -> Result<Option<Caller<'a>>, ErrorData> {
        let Some(name) = &view.agent else { return Ok(None) };
        let refused = |failed: Failed| ErrorData::invalid_params(failed.to_string(), None);
        if !identity(&context.extensions).may(Scope::Call) {
            return Err(refused(Failed::Arguments(
                "this token may not call agents: it lacks the scope call".to_owned(),
            )));
        }
        self.caller(&Callee::near(name), context).await.map(Some).map_err(refused)
    }

    /// The page of a list, the general tools first.
    fn page(&self, view: &View, after: Option<&str>) -> ListToolsResult {
        let page = tools::page(self.calls().discovery(), view, after);
        let general = if after.is_none() { general() } else { Vec::new() };
        let mut exposed = Exposed::default();
        let mut skills = Vec::new();
        for (name, skill) in &page.tools {
            let tool = match exposed.tool(skill) {
                Some(tool) => exposed::as_listed(name, self.about(skill), tool, self.is_strange(skill)),
                None => Tool::new(name.clone(), self.about(skill), object(skill_schema()))
                    .with_raw_output_schema(object(call::output()))
                    .with_annotations(ToolAnnotations::new().open_world(true)),
            };
            skills.push(match skill.capability() {
                Some(capability) if !capability.name.is_empty() => tool.with_title(capability.name.clone()),
                _ => tool,
            });
        }
        let mut list = ListToolsResult::with_all_items(general.into_iter().chain(skills).collect());
        list.next_cursor = page.more_after.map(|place| URL_SAFE_NO_PAD.encode(place));
        list
    }

    fn about(&self, skill: &tools::Skill) -> String {
        tools::about(skill, self.is_strange(skill))
    }

    fn is_strange(&self, skill: &tools::Skill) -> bool {
        self.calls().relation(skill.agent().publisher()) == TrustRelation::Stranger
    }

    /// Calls a tool that an agent exposes, with the arguments of its server.
    async fn call_exposed(
        &self,
        skill: &tools::Skill,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = skill.tool() else {
            return Err(ErrorData::invalid_params(format!("{} exposes it no more", skill.agent()), None));
        };
        let mut request = request;
        request.name = tool.name.into();
        match self.caller(&Callee::Id(skill.agent().clone()), context).await {
            Ok(caller) => relay::call(&caller, request).await,
            Err(failed) => Ok(failed.into_result().into()),
        }
    }

    /// What tells one list from another.
    fn fingerprint(&self, view: &View) -> Digest {
        let all = tools::all(self.calls().discovery(), view);
        // A tool's schemas change with the description, which is signed again then.
        let signed = |skill: &tools::Skill| skill.candidate.verified.description.body.sequence;
        let version = |skill: &tools::Skill| skill.is_tool().then(|| signed(skill));
        let lines = all.iter().map(|(name, skill)| format!("{name} {:?} {}\n", version(skill), self.about(skill)));
        digest(lines.collect::<String>().as_bytes())
    }

    /// Calls `announce` after each change of a list, until it fails.
    async fn announce<F: Future<Output = bool>>(self, view: View, announce: impl Fn() -> F) {
        let mut known = self.fingerprint(&view);
        loop {
            tokio::time::sleep(ANNOUNCE_EVERY).await;
            let now = self.fingerprint(&view);
            let changed = std::mem::replace(&mut known, now) != now;
            if changed && !announce().await {
                return;
            }
        }
    }
}

/// Arguments of the right shape.
fn read<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments)).map_err(|error| error.to_string())
}

fn skill_schema() -> Value {
    json!({ "type": "object", "properties": call::properties(), "additionalProperties": false })
}

fn general() -> Vec<Tool> {
    let named = json!({ "type": "string", "description": "The agent's name, or its id as find_agents shows it." });
    let mut call = skill_schema();
    call["properties"]["agent"] = named.clone();
    call["required"] = json!(["agent"]);
    let described = json!({
        "type": "object",
        "properties": { "agent": named },
        "required": ["agent"],
        "additionalProperties": false,
    });
    let reads = || ToolAnnotations::new().read_only(true).open_world(true);
    let [find_name, describe_name, call_name] = GENERAL;
    let find = "Finds agents of the mesh by free text, or by what they can do. They may run on any node.";
    let describe = "Shows what an agent can do, whose it is, and where it runs.";
    let ask = "Sends a message to an agent of the mesh, on whatever node, and waits for its answer. With a task_id it \
               continues a task, or waits for one that goes on.";
    vec![
        Tool::new(find_name, find, object(finding::filter_schema()))
            .with_raw_output_schema(object(finding::found_schema()))
            .with_annotations(reads()),
        Tool::new(describe_name, describe, object(described)).with_annotations(reads()),
        Tool::new(call_name, ask, object(call))
            .with_raw_output_schema(object(call::output()))
            .with_annotations(ToolAnnotations::new().open_world(true)),
    ]
}

/// The start of a name that a client wrote, for a message.
fn short(name: &str) -> String {
    name.chars().take(NAMED_CHARS_MAX).collect()
}

/// Whoever sent a request.
fn identity(extensions: &Extensions) -> Identity {
    let parts = extensions.get::<axum::http::request::Parts>();
    parts.and_then(|parts| parts.extensions.get::<Identity>()).cloned().unwrap_or_default()
}

/// The view of the URL that a request was sent to.
fn view(extensions: &Extensions) -> Result<View, ErrorData> {
    let Some(parts) = extensions.get::<axum::http::request::Parts>() else { return Ok(View::default()) };
    View::of(parts).map_err(|why| ErrorData::invalid_params(why, None))
}

fn place(cursor: &str) -> Result<String, ErrorData> {
    let wrong = || ErrorData::invalid_params("this cursor is of no list here; begin without one", None);
    let bytes = URL_SAFE_NO_PAD.decode(cursor).map_err(|_| wrong())?;
    String::from_utf8(bytes).map_err(|_| wrong())
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        // Lists of prompts and resources are answered too: they are empty, and each name is unknown.
        let capabilities = ServerCapabilities::builder()
            .enable_tools()
            .enable_tool_list_changed()
            .enable_prompts()
            .enable_completions()
            .enable_resources()
            .build();
        let implementation = Implementation::new("althing", env!("CARGO_PKG_VERSION")).with_title("Althing");
        ServerConfig::new(capabilities).with_server_info(implementation).with_instructions(INSTRUCTIONS)
    }

    fn supported_protocol_versions(&self) -> std::borrow::Cow<'static, [ProtocolVersion]> {
        std::borrow::Cow::Borrowed(&VERSIONS)
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let view = view(&context.extensions)?;
        if let Some(caller) = self.relay(&view, &context).await? {
            return relay::list(&caller).await;
        }
        let after = request.and_then(|request| request.cursor).map(|cursor| place(&cursor)).transpose()?;
        Ok(self.page(&view, after.as_deref()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if let Some(caller) = self.relay(&view(&context.extensions)?, &context).await? {
            return relay::call(&caller, request).await;
        }
        let is_general = GENERAL.contains(&request.name.as_ref());
        let named = if is_general { None } else { tools::named(self.calls().discovery(), &request.name) };
        if let Some(skill) = named.as_ref().filter(|skill| skill.is_tool()) {
            return self.call_exposed(skill, request, &context).await;
        }
        let arguments = request.arguments.unwrap_or_default();
        let result = match request.name.as_ref() {
            "find_agents" => match read::<Filter>(arguments) {
                Ok(filter) => finding::find(self.calls(), filter, &self.asker(&context)).await.map(value),
                Err(why) => Err(why),
            }
            .unwrap_or_else(|why| Failed::Arguments(why).into_result()),
            "describe_agent" => match read::<Named>(arguments) {
                Ok(named) => match finding::describe(self.calls(), &self.asker(&context), &named.agent).await {
                    Ok(known) => value(known),
                    Err(error) => refused(&error),
                },
                Err(why) => failure("INVALID_ARGUMENTS", &why),
            },
            "call_agent" => self.ask(None, arguments, &context).await.unwrap_or_else(Failed::into_result),
            name => {
                let Some(skill) = named else {
                    let name = short(name);
                    let message = format!("there is no tool {name:?} any more, or here; list the tools again");
                    return Err(ErrorData::invalid_params(message, None));
                };
                let agent = skill.agent().clone();
                self.ask(Some(agent), arguments, &context).await.unwrap_or_else(Failed::into_result)
            }
        };
        Ok(result.into())
    }

    async fn get_prompt(
        &self,
        request: GetPromptRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<GetPromptResponse, ErrorData> {
        let message = format!("there is no prompt {:?}; this server has tools only", short(&request.name));
        Err(ErrorData::invalid_params(message, None))
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        let message = format!("there is no resource {:?}; this server has tools only", short(&request.uri));
        Err(ErrorData::resource_not_found(message, Some(json!({ "uri": request.uri }))))
    }

    async fn on_initialized(&self, context: NotificationContext<RoleServer>) {
        if self.announces.swap(true, Ordering::Relaxed) {
            return;
        }
        let (server, peer) = (self.clone(), context.peer.clone());
        let view = view(&context.extensions).unwrap_or_default();
        tokio::spawn(async move {
            let over = peer.clone();
            let announcing = server.announce(view, || async { peer.notify_tool_list_changed().await.is_ok() });
            let closed = async {
                while !over.is_transport_closed() {
                    tokio::time::sleep(ANNOUNCE_EVERY).await;
                }
            };
            tokio::select! { () = announcing => {}, () = closed => {} }
        });
    }

    fn accepted_subscription_filter(&self, _requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(SubscriptionFilter::builder().tools_list_changed().build())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let view = view(&context.request_context().extensions)?;
        let busy = |_| ErrorData::internal_error(format!("{LISTENING_MAX} clients listen already"), None);
        let _place = self.shared.listening.try_acquire().map_err(busy)?;
        let announcing =
            self.clone().announce(view, || async { context.sink().notify_tool_list_changed().await.is_ok() });
        tokio::select! { () = announcing => {}, () = context.cancelled() => {} }
        Ok(())
    }
}
