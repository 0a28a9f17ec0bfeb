//! W3C Web of Things over HTTP: the Thing Description of each agent with forms that work, and what strangers read of this
//! node's public agents.

mod actions;
mod answer;
mod bus;
mod chat;
mod directory;
mod events;
mod introductions;
mod invocation;
mod problem;
mod properties;
pub(crate) mod schemas;
mod socket;
mod td;
mod thing;
mod tool_td;
mod tools;

pub use introductions::{introductions, paths};

use althing_edge::Scope;

use crate::JSON;
use crate::routes::{Answer, Route, Routes, Tag};

/// The media type of a Thing Description (TD 1.1 §10.1).
const TD: &str = "application/td+json";
const SSE: &str = "text/event-stream";
/// The name of this face in the table of routes.
const TAG: &Tag = &Tag {
    name: "Web of Things",
    about: "Each agent as a Thing: its description, and what the description's forms lead to",
    refusals: problem::PROBLEM,
    refusal: schemas::problem,
};

/// What this face keeps while the gateway runs.
#[derive(Default)]
pub(crate) struct Wot {
    bus: bus::Bus,
    invocations: invocation::Invocations,
    sockets: socket::Sockets,
}

impl Wot {
    /// How many invocations are followed, and how many WebSockets are open.
    pub fn running(&self) -> (usize, usize) {
        (self.invocations.running(), self.sockets.open())
    }
}

/// The routes of this face.
pub(crate) fn routes() -> Routes {
    things().merge(affordances()).merge(of_tools()).refusing(problem::wrong_method)
}

fn things() -> Routes {
    const LIST: &[Answer] =
        &[Answer::ok("Thing Descriptions, with the header Link to the next page", "application/ld+json")];
    const ONE: &[Answer] = &[Answer::ok("A Thing Description", TD)];
    Routes::default()
        .route(
            Route::get("/.well-known/wot", TAG, "Introduces the only agent, or the node with a link to each agent")
                .answers(ONE),
            directory::well_known,
        )
        .route(
            Route::get("/things", TAG, "Lists the Thing Descriptions of the agents that can be called here")
                .query(&[
                    ("offset", "integer", "How many to leave out"),
                    ("limit", "integer", "How many to list, 100 at most"),
                ])
                .answers(LIST),
            directory::list,
        )
        .route(
            Route::get("/things/{agent}", TAG, "Describes an agent with forms that this gateway serves").answers(ONE),
            thing::show,
        )
        .route(
            Route::get("/things/{agent}/published", TAG, "Gives the description as its publisher wrote it")
                .answers(ONE),
            thing::published,
        )
        .route(
            Route::get("/things/{agent}/published.cose", TAG, "Gives the description as its publisher signed it")
                .answers(const { &[Answer::ok("A signed object of this project (COSE_Sign1)", "application/cose")] }),
            thing::signed,
        )
}

fn of_tools() -> Routes {
    const TD_OF_TOOL: &[Answer] =
        &[Answer::ok("A Thing Description", TD), Answer::ok("It is suspended", problem::PROBLEM).status(410)];
    const STATUS: Answer = Answer::ok("The status of the invocation", JSON).schema(schemas::action_status);
    Routes::default()
        .route(
            Route::get("/things/{agent}/tools/{tool}", TAG, "Describes a tool that an agent exposes")
                .answers(TD_OF_TOOL),
            tools::show,
        )
        .route(
            Route::get("/things/{agent}/tools/{tool}/model", TAG, "Gives the Thing Model of a tool")
                .answers(const { &[Answer::ok("A Thing Model", "application/tm+json")] }),
            tools::model,
        )
        .route(
            Route::post("/things/{agent}/tools/{tool}/actions/{action}", TAG, "Calls a tool; the action has its name")
                .request(schemas::tool_input)
                .answers(const { &[Answer::ok("The output", JSON).schema(schemas::tool_output), STATUS.status(201)] }),
            tools::invoke,
        )
        .route(
            Route::get(
                "/things/{agent}/tools/{tool}/actions/{action}/{task}",
                TAG,
                "Reads the status of a call of a tool",
            )
            .needs(Scope::Call)
            .answers(const { &[STATUS] }),
            tools::query,
        )
        .route(
            Route::delete("/things/{agent}/tools/{tool}/actions/{action}/{task}", TAG, "Cancels a call of a tool")
                .answers(const { &[Answer::ok("It is cancelled", "").status(204)] }),
            tools::cancel,
        )
}

fn affordances() -> Routes {
    const STATUS: Answer = Answer::ok("The status of the invocation", JSON).schema(schemas::action_status);
    Routes::default()
        .route(
            Route::get("/things/{agent}/properties", TAG, "Reads all properties of an agent")
                .needs(Scope::Call)
                .answers(const { &[Answer::ok("Their values by name", JSON)] }),
            properties::all,
        )
        .route(
            Route::get("/things/{agent}/properties/status", TAG, "Reads where an agent runs")
                .answers(const { &[Answer::ok("The status", JSON).schema(schemas::status)] }),
            properties::status,
        )
        .route(
            Route::get("/things/{agent}/properties/tasks", TAG, "Counts the reader's tasks with an agent")
                .needs(Scope::Call)
                .answers(const { &[Answer::ok("The counts", JSON).schema(schemas::tasks)] }),
            properties::tasks,
        )
        .route(
            Route::post("/things/{agent}/actions/chat", TAG, "Sends an agent a message")
                .request(schemas::chat_input)
                .answers(const { &[Answer::ok("The answer", JSON).schema(schemas::chat_output), STATUS.status(201)] }),
            actions::invoke,
        )
        .route(
            Route::get("/things/{agent}/actions/chat/{task}", TAG, "Reads the status of an invocation")
                .needs(Scope::Call)
                .answers(const { &[STATUS] }),
            actions::query,
        )
        .route(
            Route::delete("/things/{agent}/actions/chat/{task}", TAG, "Cancels an invocation")
                .answers(const { &[Answer::ok("It is cancelled", "").status(204)] }),
            actions::cancel,
        )
        .route(
            Route::get("/things/{agent}/events/agentEvent", TAG, "Tells what happens to tasks that were invoked here")
                .needs(Scope::Call)
                .answers(const { &[Answer::ok("Events of LMOS", SSE)] }),
            events::agent_event,
        )
        .route(
            Route::get("/things/{agent}/events/taskUpdate", TAG, "Tells the events of one task")
                .needs(Scope::Call)
                .query(&[("task", "string", "The task's id")])
                .answers(const { &[Answer::ok("Events of A2A", SSE)] }),
            events::task_update,
        )
        .route(
            Route::get("/things/{agent}/ws", TAG, "Opens a WebSocket with the LMOS sub-protocol")
                .needs(Scope::Call)
                .answers(const { &[Answer::ok("The connection speaks WebSocket from here on", "").status(101)] }),
            socket::open,
        )
}
