//! Which operation a method and a path mean (A2A 1.0.1 §11.3, and the paths in `a2a.proto`).

use althing_calls::{Operation, OperationError};
use axum::http::Method;
use percent_encoding::percent_decode_str;

/// What a request asks for.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// An operation without a task in its path.
    Operation(Operation),
    /// An operation on the task of that id.
    OnTask(Operation, String),
    /// An operation on who is told about the task of that id, or on the configuration of the second id.
    OnPush(Operation, String, Option<String>),
}

/// Why there is no route.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum NoRoute {
    /// There is nothing at that path.
    Path,
    /// What is there takes these methods only.
    Method(&'static str),
    /// The operation is not served, or the path is not text.
    Refused(OperationError),
}

/// What is at a path below an agent's own.
enum Resource<'a> {
    Message(Operation),
    Tasks,
    Task(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
    PushConfigs(&'a str),
    PushConfig(&'a str, &'a str),
    ExtendedCard,
}

/// The agent that a path below `/a2a/` names, and what is asked of it. A tenant between the two is the agent again: an
/// agent's own path is its base URL already, and each agent is a tenant of its own.
pub(super) fn route(method: &Method, path: &str) -> Result<(String, Route), NoRoute> {
    let below = path.strip_prefix("/a2a/").ok_or(NoRoute::Path)?;
    let segments: Vec<&str> = below.split('/').collect();
    let (agent, rest) = segments.split_first().ok_or(NoRoute::Path)?;
    let agent = decoded(agent)?;
    let resource = match (resource(rest), rest) {
        (Some(resource), _) => resource,
        (None, [tenant, rest @ ..]) => {
            let resource = resource(rest).ok_or(NoRoute::Path)?;
            if decoded(tenant)? != agent {
                let message = "the tenant in the path is not the agent before it; leave it out, or repeat the agent";
                return Err(NoRoute::Refused(OperationError::agent_unknown(message)));
            }
            resource
        }
        (None, []) => return Err(NoRoute::Path),
    };
    Ok((agent, operation(method, &resource)?))
}

fn resource<'a>(segments: &[&'a str]) -> Option<Resource<'a>> {
    Some(match *segments {
        ["message:send"] => Resource::Message(Operation::SendMessage),
        ["message:stream"] => Resource::Message(Operation::SendStreamingMessage),
        ["tasks"] => Resource::Tasks,
        ["tasks", task] => match task.rsplit_once(':') {
            Some((task, "cancel")) => Resource::Cancel(task),
            Some((task, "subscribe")) => Resource::Subscribe(task),
            _ => Resource::Task(task),
        },
        ["tasks", task, "pushNotificationConfigs"] => Resource::PushConfigs(task),
        ["tasks", task, "pushNotificationConfigs", config] => Resource::PushConfig(task, config),
        ["extendedAgentCard"] => Resource::ExtendedCard,
        _ => return None,
    })
}

fn operation(method: &Method, resource: &Resource<'_>) -> Result<Route, NoRoute> {
    let on_task = |operation, task| Ok(Route::OnTask(operation, decoded(task)?));
    let on_push = |operation, task, config: Option<&str>| {
        Ok(Route::OnPush(operation, decoded(task)?, config.map(decoded).transpose()?))
    };
    match (resource, method.as_str()) {
        (Resource::Message(operation), "POST") => Ok(Route::Operation(*operation)),
        (Resource::Tasks, "GET") => Ok(Route::Operation(Operation::ListTasks)),
        (Resource::Task(task), "GET") => on_task(Operation::GetTask, task),
        (Resource::Cancel(task), "POST") => on_task(Operation::CancelTask, task),
        // The specification says POST, its proto GET.
        (Resource::Subscribe(task), "GET" | "POST") => on_task(Operation::SubscribeToTask, task),
        (Resource::PushConfigs(task), "POST") => on_push(Operation::CreatePushConfig, task, None),
        (Resource::PushConfigs(task), "GET") => on_push(Operation::ListPushConfigs, task, None),
        (Resource::PushConfig(task, config), "GET") => on_push(Operation::GetPushConfig, task, Some(config)),
        (Resource::PushConfig(task, config), "DELETE") => on_push(Operation::DeletePushConfig, task, Some(config)),
        (Resource::ExtendedCard, "GET") => Ok(Route::Operation(Operation::ExtendedCard)),
        (Resource::Message(_) | Resource::Cancel(_), _) => Err(NoRoute::Method("POST")),
        (Resource::Tasks | Resource::Task(_) | Resource::ExtendedCard, _) => Err(NoRoute::Method("GET")),
        (Resource::Subscribe(_) | Resource::PushConfigs(_), _) => Err(NoRoute::Method("GET, POST")),
        (Resource::PushConfig(..), _) => Err(NoRoute::Method("GET, DELETE")),
    }
}

/// A segment of a path, decoded once: what it names is looked up, and never part of another path.
fn decoded(segment: &str) -> Result<String, NoRoute> {
    let text = percent_decode_str(segment).decode_utf8();
    let refused = || NoRoute::Refused(OperationError::invalid_request("the path is not UTF-8"));
    text.map(String::from).map_err(|_| refused())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(method: &str, path: &str) -> Result<(String, Route), NoRoute> {
        route(&method.parse().expect("a method"), path)
    }

    #[test]
    fn each_operation_has_its_method_and_path() {
        let on = |operation, task: &str| Route::OnTask(operation, task.to_owned());
        let push =
            |operation, config: Option<&str>| Route::OnPush(operation, "7".to_owned(), config.map(str::to_owned));
        let cases = [
            ("POST", "message:send", Route::Operation(Operation::SendMessage)),
            ("POST", "message:stream", Route::Operation(Operation::SendStreamingMessage)),
            ("GET", "tasks", Route::Operation(Operation::ListTasks)),
            ("GET", "extendedAgentCard", Route::Operation(Operation::ExtendedCard)),
            ("GET", "tasks/7", on(Operation::GetTask, "7")),
            ("POST", "tasks/7:cancel", on(Operation::CancelTask, "7")),
            ("GET", "tasks/7:subscribe", on(Operation::SubscribeToTask, "7")),
            ("POST", "tasks/7:subscribe", on(Operation::SubscribeToTask, "7")),
            // A task's id may contain anything.
            ("GET", "tasks/a:b", on(Operation::GetTask, "a:b")),
            ("POST", "tasks/a:b:cancel", on(Operation::CancelTask, "a:b")),
            ("GET", "tasks/..%2F..%2Fetc", on(Operation::GetTask, "../../etc")),
            ("GET", "tasks/..", on(Operation::GetTask, "..")),
            ("GET", "tasks/%252e", on(Operation::GetTask, "%2e")),
            ("GET", "tasks/%zz", on(Operation::GetTask, "%zz")),
            ("GET", "tasks/", on(Operation::GetTask, "")),
            ("POST", "tasks/7/pushNotificationConfigs", push(Operation::CreatePushConfig, None)),
            ("GET", "tasks/7/pushNotificationConfigs", push(Operation::ListPushConfigs, None)),
            ("GET", "tasks/7/pushNotificationConfigs/a%2Fb", push(Operation::GetPushConfig, Some("a/b"))),
            ("DELETE", "tasks/7/pushNotificationConfigs/1", push(Operation::DeletePushConfig, Some("1"))),
        ];
        for (method, path, expected) in cases {
            for agent in ["echo", "urn:althing:z:echo"] {
                let expected = match &expected {
                    Route::Operation(operation) => Route::Operation(*operation),
                    Route::OnTask(operation, task) => on(*operation, task),
                    Route::OnPush(operation, task, config) => Route::OnPush(*operation, task.clone(), config.clone()),
                };
                let route = found(method, &format!("/a2a/{agent}/{path}"));
                assert_eq!(route, Ok((agent.to_owned(), expected)), "{method} {path}");
                assert_eq!(found(method, &format!("/a2a/{agent}/{agent}/{path}")), route, "the agent as tenant");
            }
        }
        // An agent whose name is that of a resource.
        let listed = Ok(("tasks".to_owned(), Route::Operation(Operation::ListTasks)));
        assert_eq!(found("GET", "/a2a/tasks/tasks"), listed);
    }

    #[test]
    fn other_paths_methods_and_tenants_are_refused_by_type() {
        for path in ["x", "message:sen", "message:send/x", "tasks/a/b", "tasks/a/b/c/d", "tasks/../tasks", "", "a/b/c"]
        {
            assert_eq!(found("GET", &format!("/a2a/echo/{path}")), Err(NoRoute::Path), "{path}");
        }
        for path in ["/a2a", "/a2a/echo", "/other/echo/tasks", ""] {
            assert_eq!(found("GET", path), Err(NoRoute::Path), "{path}");
        }
        let methods = [
            ("GET", "message:send", "POST"),
            ("DELETE", "message:stream", "POST"),
            ("POST", "tasks", "GET"),
            ("DELETE", "tasks/7", "GET"),
            ("GET", "tasks/7:cancel", "POST"),
            ("PUT", "tasks/7:subscribe", "GET, POST"),
            ("PATCH", "tasks/7/pushNotificationConfigs", "GET, POST"),
            ("POST", "tasks/7/pushNotificationConfigs/1", "GET, DELETE"),
            ("HEAD", "extendedAgentCard", "GET"),
        ];
        for (method, path, allowed) in methods {
            assert_eq!(found(method, &format!("/a2a/echo/{path}")), Err(NoRoute::Method(allowed)), "{method} {path}");
        }
        let refused = |method: &str, path: &str| match found(method, path) {
            Err(NoRoute::Refused(error)) => error.reason().to_owned(),
            other => panic!("{method} {path}: {other:?}"),
        };
        assert_eq!(refused("GET", "/a2a/echo/other/tasks"), "AGENT_UNKNOWN");
        for path in ["/a2a/%ff/tasks", "/a2a/echo/tasks/%c3%28", "/a2a/echo/%ff/tasks"] {
            assert_eq!(refused("GET", path), "INVALID_REQUEST", "{path}");
        }
    }
}
