//! `althing call`: the answer streams to the terminal; Ctrl-C cancels the task.

use std::collections::BTreeSet;
use std::io::{Read as _, Write as _};

use althing_api::{
    CallCancellation, CallExplanation, CallHosts, CallLine, CallRequest, DecisionReport, Kind, TaskDecisions,
};
use althing_client::{Client, Lines};
use serde::Serialize;
use serde_json::{Value, json};

use crate::args::Call;
use crate::commands::agent::escape;
use crate::commands::{Out, one_line, plain, print_line, rows, short, text, waiting};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Bytes that are read from standard input.
const INPUT_BYTES_MAX: u64 = (1 << 20) - (32 << 10);

/// Calls an agent.
pub async fn run(at: &Paths, call: &Call, out: &Out) -> Result<(), Failure> {
    let request = CallRequest {
        agent: call.agent.clone(),
        text: words(&call.text)?,
        task: call.task.clone(),
        explain: call.explain,
        anyone: call.anyone,
    };
    let client = at.connect().await?;
    let mut shown = Shown { json: out.json, looks: call.text.is_empty(), ..Shown::default() };
    if shown.looks {
        let mut lines = client.lines("/answer", &CallRequest { explain: false, ..request }).await?;
        let first = lines.next::<CallLine>().await?;
        print(first, &mut lines, &mut shown).await?;
        shown.tell_denials(&client).await;
        return shown.verdict();
    }
    let opening = async {
        let mut lines = client.lines("/call", &request).await?;
        let first = lines.next::<CallLine>().await?;
        Ok::<_, Failure>((lines, first))
    };
    let escaped = escape(&call.agent);
    let look = async || waiting::of_call(&client, &escaped, call.anyone).await;
    let (mut lines, first) = tokio::select! {
        opened = waiting::telling(opening, look, out) => opened?,
        _ = tokio::signal::ctrl_c() => return Err(Failure::new(code::INTERRUPTED, "interrupted")),
    };
    let outcome = tokio::select! {
        outcome = print(first, &mut lines, &mut shown) => outcome,
        _ = tokio::signal::ctrl_c() => {
            let Some(task) = shown.task.clone() else { return Err(Failure::new(code::INTERRUPTED, "interrupted")) };
            let cancel = CallRequest { task: Some(task.clone()), text: String::new(), explain: false, ..request };
            let message = match client.ask::<_, CallCancellation>("/cancel", &cancel).await {
                Ok(_) => format!("task {task} is cancelled"),
                Err(error) => format!("task {task} could not be cancelled: {error}"),
            };
            return Err(Failure::new(code::INTERRUPTED, message));
        }
    };
    outcome.map_err(|failure| gone(failure, shown.task.as_deref()))?;
    if let Some(task) = shown.task.as_deref().filter(|_| call.explain && !out.json) {
        let line = format!("task {task}");
        shown.about.push(line);
    }
    shown.tell_denials(&client).await;
    shown.verdict()
}

fn words(text: &[String]) -> Result<String, Failure> {
    if text != ["-"] {
        return Ok(text.join(" "));
    }
    let mut input = Vec::new();
    let read = std::io::stdin().take(INPUT_BYTES_MAX + 1).read_to_end(&mut input);
    read.map_err(|error| Failure::usage(format!("standard input: {error}")))?;
    if input.len() as u64 > INPUT_BYTES_MAX {
        return Err(Failure::usage(format!(
            "standard input has more than {INPUT_BYTES_MAX} bytes, which a message may have"
        )));
    }
    String::from_utf8(input).map_err(|error| Failure::usage(format!("standard input is not UTF-8: {error}")))
}

/// The answer so far.
#[derive(Default)]
struct Shown {
    json: bool,
    task: Option<String>,
    /// Whether anything was answered.
    is_answered: bool,
    state: String,
    said: String,
    open_line: bool,
    /// Lines about the answer: usage, tools, citations.
    about: Vec<String>,
    /// The tools of which calls were denied.
    denied: BTreeSet<String>,
    /// Whether a task is shown, and nothing was said in it.
    looks: bool,
}

/// Whether data is about the answer: usage, tools, citations.
fn is_about(data: &Value) -> bool {
    let members = data.as_object().filter(|members| !members.is_empty());
    members.is_some_and(|members| members.keys().all(|name| ["usage", "tools", "citations"].contains(&name.as_str())))
}

fn about(data: &Value) -> Vec<String> {
    let tool =
        |call: &Value| format!("called {}: {}, {} µs", text(call, "tool"), text(call, "outcome"), text(call, "tookUs"));
    // A passage of an agent's memory, or a line of a file.
    let source = |cited: &Value| match cited["id"].as_str() {
        Some(id) => format!("[#{id}] {}", text(cited, "source")),
        None => format!("{}:{}", text(cited, "file"), text(cited, "line")),
    };
    let mut lines: Vec<String> = rows(data, "tools").iter().map(tool).collect();
    lines.extend(rows(data, "citations").iter().map(source));
    let usage = &data["usage"];
    if usage.is_object() {
        let (read, wrote) = (text(usage, "inputTokens"), text(usage, "outputTokens"));
        lines.push(format!("{}: {read} tokens read, {wrote} written", text(usage, "model")));
    }
    // The agent's node says it.
    lines.iter().map(|line| one_line(line)).collect()
}

/// The tools of which calls were denied.
fn denied(data: &Value) -> impl Iterator<Item = String> + '_ {
    rows(data, "tools").iter().filter(|call| call["outcome"] == "denied").map(|call| text(call, "tool"))
}

/// A call of a tool that was denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
struct Denial {
    tool: String,
    reason: String,
}

/// Why calls of these tools were denied, as the node decided it: each reason once, in the order in which they were given.
fn denials(decisions: &[DecisionReport], denied: &BTreeSet<String>) -> Vec<Denial> {
    let of = |report: &DecisionReport| {
        let is_of = |tool: &&String| report.resource.ends_with(&format!("::\"{}\"", tool.escape_debug()));
        let tool = denied.iter().find(is_of).filter(|_| report.answer == "deny")?;
        Some(Denial { tool: tool.clone(), reason: report.reason.clone() })
    };
    let mut told: Vec<Denial> = Vec::new();
    for denial in decisions.iter().rev().filter_map(of) {
        if !told.contains(&denial) {
            told.push(denial);
        }
    }
    told
}

async fn print(first: Option<CallLine>, lines: &mut Lines, shown: &mut Shown) -> Result<(), Failure> {
    let mut next = first;
    while let Some(line) = next {
        match line {
            CallLine::Explain(why) => shown.explain(&why),
            CallLine::Event(event) => shown.event(&event),
            CallLine::Error(problem) => return Err(problem.into()),
        }
        next = lines.next::<CallLine>().await?;
    }
    Ok(())
}

impl Shown {
    /// Adds why calls were denied, as far as this node decided that: what other nodes decide is told to their owners.
    async fn tell_denials(&mut self, client: &Client) {
        let Some(task) = self.task.as_deref().filter(|_| !self.denied.is_empty()) else { return };
        let path = format!("/tasks/{}/decisions", escape(task));
        // The answer is there without it.
        let Ok(TaskDecisions { decisions }) = client.read::<TaskDecisions>(&path).await else { return };
        let denials = denials(&decisions, &self.denied);
        match self.json {
            true if denials.is_empty() => {}
            true => print_line(&json!({ "denied": denials }).to_string()),
            false => {
                let lines = denials.iter().map(|Denial { tool, reason }| format!("{tool} was denied: {reason}"));
                self.about.extend(lines.map(|line| one_line(&line)));
            }
        }
    }

    fn explain(&self, explanation: &CallExplanation) {
        if self.json {
            print_line(&json!(explanation).to_string());
            return;
        }
        let CallExplanation { hosts, why } = explanation;
        match hosts {
            Some(CallHosts { agent, hosts, chosen }) => {
                let hosts: Vec<String> = hosts.iter().map(|host| short(host)).collect();
                let chosen = chosen.as_deref().map(short).unwrap_or_default();
                eprintln!("{agent} is hosted by {}; asked first: {chosen} ({why})", hosts.join(", "));
            }
            None => eprintln!("it is not known who hosts it: {}", plain(why, &std::io::stderr())),
        }
    }

    fn event(&mut self, event: &Value) {
        self.is_answered = true;
        if self.json {
            print_line(&event.to_string());
        }
        if let Some(task) = event.get("task") {
            self.task = task["id"].as_str().map(str::to_owned);
            self.status(&task["status"]);
            rows(task, "artifacts").iter().for_each(|artifact| self.parts(&artifact["parts"]));
        } else if let Some(update) = event.get("statusUpdate") {
            self.status(&update["status"]);
        } else if let Some(update) = event.get("artifactUpdate") {
            self.parts(&update["artifact"]["parts"]);
        } else if let Some(message) = event.get("message") {
            self.parts(&message["parts"]);
        }
    }

    fn status(&mut self, status: &Value) {
        self.state = text(status, "state");
        let parts = status["message"]["parts"].as_array().into_iter().flatten();
        self.said = parts.map(|part| text(part, "text")).collect();
        if self.state == "TASK_STATE_WORKING" && !self.said.is_empty() && !self.json {
            eprintln!("… {}", plain(&self.said, &std::io::stderr()));
        }
    }

    fn parts(&mut self, parts: &Value) {
        let about_answer = parts.as_array().into_iter().flatten().filter(|part| is_about(&part["data"]));
        self.denied.extend(about_answer.flat_map(|part| denied(&part["data"])));
        if self.json {
            return;
        }
        for part in parts.as_array().into_iter().flatten() {
            let piece = match part.get("text").and_then(Value::as_str) {
                Some(text) => plain(text, &std::io::stdout()),
                None if is_about(&part["data"]) => {
                    self.about.extend(about(&part["data"]));
                    continue;
                }
                None if part.get("data").is_some() => {
                    let line_end = if self.open_line { "\n" } else { "" };
                    format!("{line_end}{:#}\n", part["data"])
                }
                // Raw parts and URLs are shown by --json only.
                None => continue,
            };
            self.open_line = !piece.ends_with('\n');
            let mut stdout = std::io::stdout();
            // A closed pipe is no error.
            let _ = stdout.write_all(piece.as_bytes()).and_then(|()| stdout.flush());
        }
    }

    /// Maps the task's final state to an exit code.
    fn verdict(self) -> Result<(), Failure> {
        if self.open_line {
            print_line("");
        }
        for line in &self.about {
            eprintln!("  {}", plain(line, &std::io::stderr()));
        }
        let task = self.task.unwrap_or_default();
        match self.state.as_str() {
            "" if !self.is_answered => Err(Failure::failed("the node's answer ended before it said anything")),
            "TASK_STATE_COMPLETED" | "" => {
                if !self.said.is_empty() && !self.json {
                    print_line(&plain(&self.said, &std::io::stdout()));
                }
                Ok(())
            }
            state @ ("TASK_STATE_INPUT_REQUIRED" | "TASK_STATE_AUTH_REQUIRED") => {
                if !self.json {
                    print_line(&plain(&self.said, &std::io::stdout()));
                    eprintln!("{}", plain(&wait(state, &task), &std::io::stderr()));
                }
                Ok(())
            }
            "TASK_STATE_WORKING" | "TASK_STATE_SUBMITTED" if self.looks => {
                Err(Failure::new(Kind::NotYet.exit_code(), format!("task {task} is not over yet: look again later")))
            }
            // Its events ended, and it did not.
            "TASK_STATE_WORKING" | "TASK_STATE_SUBMITTED" => {
                let ended = "what is told of the task ended before the task did";
                Err(gone(Failure::new(code::NO_NODE, ended), Some(&task)))
            }
            "TASK_STATE_REJECTED" => Err(Failure::new(code::REFUSED, format!("the agent rejected it: {}", self.said))),
            "TASK_STATE_CANCELED" => Err(Failure::failed(format!("task {task} was cancelled"))),
            _ => Err(Failure::failed(format!("the agent failed: {} (task {task})", self.said))),
        }
    }
}

/// The same failure, with what becomes of the task where the node ended meanwhile, or is being stopped.
fn gone(failure: Failure, task: Option<&str>) -> Failure {
    let Some(task) = task else { return failure };
    let why = &failure.message;
    let shows = format!("`althing call AGENT --task {task}` shows how it stands");
    let message = match failure.code {
        code::NO_NODE => format!(
            "{why}; task {task} goes on once the node is up again, if its agent can: {shows}, and `althing session list` which \
             turns go on by their journals"
        ),
        // Whoever cannot take the message says so before there is a task.
        busy if busy == Kind::Busy.exit_code() => format!("{why} (task {task}: {shows})"),
        _ => return failure,
    };
    Failure { message, ..failure }
}

/// For what a task waits, and who ends that.
fn wait(state: &str, task: &str) -> String {
    let answer = format!("althing call --task {task} AGENT TEXT");
    if state == "TASK_STATE_AUTH_REQUIRED" {
        return format!(
            "task {task} waits until somebody agrees: `althing pending`, on the node that hosts the agent, shows to \
             what; once it is over `althing call --task {task} AGENT` shows the answer. Where it is something else that \
             it wants: {answer}"
        );
    }
    format!("the agent waits for an answer: {answer}")
}

#[cfg(test)]
mod tests {
    use althing_api::DataReach;

    use super::*;

    #[test]
    fn of_a_node_that_ended_the_task_is_named() {
        let told = gone(Failure::new(code::NO_NODE, "the node went away"), Some("01a2")).message;
        assert!(told.starts_with("the node went away; task 01a2 goes on once the node is up again"), "{told}");
        assert!(told.contains("`althing call AGENT --task 01a2` shows how it stands"), "whatever its agent is: {told}");
        assert_eq!(gone(Failure::failed("no"), Some("01a2")).message, "no", "it is there");
        assert_eq!(gone(Failure::new(code::NO_NODE, "no"), None).message, "no", "there is no task yet");
    }

    #[test]
    fn of_a_node_that_is_being_stopped_the_task_is_named_and_nobody_is_told_that_its_agent_failed() {
        let stopped = gone(Failure::new(Kind::Busy.exit_code(), "its node is being stopped"), Some("01a2"));
        assert_eq!(stopped.code, Kind::Busy.exit_code(), "it may be tried again");
        let told = "its node is being stopped (task 01a2: `althing call AGENT --task 01a2` shows how it stands)";
        assert_eq!(stopped.message, told);
        for state in ["TASK_STATE_SUBMITTED", "TASK_STATE_WORKING"] {
            let task = Some("01a2".to_owned());
            let broken_off = Shown { task, is_answered: true, state: state.to_owned(), ..Shown::default() };
            let failure = broken_off.verdict().expect_err("it is not over");
            assert_eq!(failure.code, code::NO_NODE, "{state}");
            assert!(failure.message.contains("ended before the task did; task 01a2 goes on"), "{}", failure.message);
        }
    }

    #[test]
    fn what_another_node_says_of_an_answer_is_one_line_for_each_thing() {
        let cited = json!({ "citations": [{ "file": "a.txt\n  shop/pay was denied: no", "line": 3 }] });
        assert_eq!(about(&cited), [r"a.txt\u{a}  shop/pay was denied: no:3"]);
    }

    #[test]
    fn who_waits_for_a_yes_is_not_sent_to_say_more() {
        let told = wait("TASK_STATE_AUTH_REQUIRED", "01a2");
        assert!(told.starts_with("task 01a2 waits until somebody agrees: `althing pending`"), "{told}");
        let told = wait("TASK_STATE_INPUT_REQUIRED", "01a2");
        assert_eq!(told, "the agent waits for an answer: althing call --task 01a2 AGENT TEXT");
    }

    #[test]
    fn a_denied_call_is_told_with_the_reason_of_each_denial_once() {
        let data = json!({ "tools": [
            { "tool": "shop/pay", "outcome": "denied", "tookUs": 4 },
            { "tool": "shop/search", "outcome": "done", "tookUs": 9 },
        ] });
        let mut shown = Shown { json: true, ..Shown::default() };
        shown.parts(&json!([{ "text": "Done." }, { "data": data }]));
        let tools = shown.denied;
        assert_eq!(tools, BTreeSet::from(["shop/pay".to_owned()]));
        let decision = |number: u64, tool: &str, answer: &str, reason: &str| DecisionReport {
            decision: number,
            at_ms: number,
            principal: "Agent::\"urn:a\"".to_owned(),
            action: "use_tool".to_owned(),
            resource: format!("Tool::\"{tool}\""),
            label: DataReach { level: "internal".to_owned(), trusted: true },
            person: None,
            answer: answer.to_owned(),
            rule: None,
            reason: reason.to_owned(),
            verdict: None,
            policy: None,
            labels: None,
            task: Some("t-1".to_owned()),
        };
        let newest_first = [
            decision(4, "shop/pay", "deny", "it is above the tier"),
            decision(3, "shop/pay", "deny", "no policy permits it"),
            decision(2, "shop/pay", "permit", ""),
            decision(1, "shop/pay", "deny", "no policy permits it"),
            decision(0, "shop/search", "deny", "another matter"),
        ];
        let told = serde_json::to_value(denials(&newest_first, &tools)).expect("JSON");
        let of_pay = ["no policy permits it", "it is above the tier"];
        assert_eq!(told, json!(of_pay.map(|reason| json!({ "tool": "shop/pay", "reason": reason }))));
    }

    #[test]
    fn a_task_that_is_shown_and_not_over_is_no_failure_of_its_agent() {
        let shown = |looks| Shown {
            looks,
            is_answered: true,
            task: Some("t-1".to_owned()),
            state: "TASK_STATE_WORKING".to_owned(),
            ..Shown::default()
        };
        let later = shown(true).verdict().expect_err("it is at work");
        assert_eq!((later.code, later.message.as_str()), (7, "task t-1 is not over yet: look again later"));
        assert_eq!(shown(false).verdict().expect_err("the stream broke off").code, code::NO_NODE);
    }

    #[test]
    fn what_is_cited_is_named_whether_it_is_a_passage_or_a_place_in_a_file() {
        let data = serde_json::json!({ "citations": [{ "id": "ab12", "source": "notes" }, { "file": "guide.md", "line": 7 }] });
        assert!(is_about(&data));
        assert_eq!(about(&data), ["[#ab12] notes", "guide.md:7"]);
    }
}
