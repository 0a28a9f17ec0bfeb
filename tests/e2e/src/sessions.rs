//! Agents whose model and whose tool outlive their nodes, so that what was called is counted however often a node ends; and
//! nodes that are ended at a certain sync.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use althing_testing::{remedy, skip};
use serde_json::{Value, json};

use super::{Machine, Node, Running, UP_MAX, binary, http, until};

const COUNTING: &str = include_str!("../python/counting.py");
const COMPONENT: &str = include_str!("../components/counting.wat");
/// A turn of a few steps comes to its end within this, also while other tests use the machine.
pub const SOON: Duration = Duration::from_secs(60);
/// The system calls by which the store makes rows durable.
const SYNCS: &str = "fdatasync,fsync";
/// Calls that a turn makes.
pub const STEPS: usize = 2;
/// The result of a call that a hand wrote.
pub const BY_HAND: &str = "told by hand";

/// A model and a tool, in a folder of their own.
pub struct Station {
    machine: Machine,
    port: u16,
    _server: Running,
}

impl Station {
    pub fn new() -> Station {
        let machine = Machine::new();
        machine.write("counting.py", COUNTING);
        let mut server = Running::start(machine.command(Path::new("python3")).arg("counting.py"));
        let port = server.line(SOON).expect("it says its port").trim().parse().expect("a port");
        Station { machine, port, _server: server }
    }

    /// With what ends a node at a sync; none, with the reason printed, where nothing does.
    pub fn with_strace() -> Option<Station> {
        let station = Station::new();
        let sleeper = Running::start(station.machine.command(Path::new("sleep")).arg("600"));
        let tried = attached(&station.machine, sleeper.pid(), 1);
        tried.inspect_err(|why| skip(&format!("nothing ends a node at a sync: {why}"), remedy::STRACE)).ok()?;
        Some(station)
    }

    /// From now on the model (`hold-model`) or the tool (`hold-tool`) answers nobody.
    pub fn hold(&self, what: &str) {
        self.machine.write(what, "");
    }

    /// Those who were kept waiting are answered.
    pub fn release(&self, what: &str) {
        std::fs::remove_file(self.machine.folder().join(what)).expect("it was held");
    }

    /// Whether the model was asked about a run.
    pub fn was_asked(&self, run: &str) -> bool {
        self.lines("asked").iter().any(|line| line["run"] == run)
    }

    /// The calls of a run that reached the tool, in their order.
    pub fn calls(&self, run: &str) -> Vec<Value> {
        self.lines("calls").into_iter().filter(|call| call["run"] == run).collect()
    }

    /// How often each step of a run reached the tool.
    pub fn counts(&self, run: &str) -> [usize; STEPS] {
        let calls = self.calls(run);
        std::array::from_fn(|at| calls.iter().filter(|call| call["step"] == at + 1).count())
    }

    /// The agent's file, where that is declared of its tool.
    pub fn file(&self, effect: Option<&str>) -> String {
        let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", self.port), "model": "stub" });
        let runtime = json!({ "model": { "prompt": "Count.", "endpoints": [endpoint] } });
        self.file_of(&runtime, "count/add", effect).to_string()
    }

    /// The same agent as a component, which saves how far it came after each call.
    pub fn component(&self, effect: Option<&str>) -> String {
        let module = self.machine.write("counting.wat", COMPONENT);
        self.file_of(&json!({ "wasm": { "module": module } }), "count/add", effect).to_string()
    }

    /// The same agent as a program of that command, which is given its message again.
    pub fn program(&self, command: &[&Path], effect: Option<&str>) -> String {
        let runtime = json!({ "process": { "command": command, "startup_timeout_ms": 60_000 } });
        let mut file = self.file_of(&runtime, "count/add", effect);
        file["session"] = json!({ "resume": "repeat" });
        file.to_string()
    }

    /// An agent of another component, which may call the tool that is given a word, and hold so many bytes.
    pub fn guest(&self, module: &Path, memory_bytes: u64) -> String {
        let mut file = self.file_of(&json!({ "wasm": { "module": module } }), "count/word", None);
        file["contract"]["compute"] = json!({ "memory_bytes": memory_bytes });
        file.to_string()
    }

    /// An agent that may call one of the tools, of which that is declared.
    fn file_of(&self, runtime: &Value, tool: &str, effect: Option<&str>) -> Value {
        let mut count = json!({ "url": format!("http://127.0.0.1:{}/mcp", self.port) });
        if let Some(effect) = effect {
            count["effect"] = effect.into();
        }
        json!({
            "name": "teller",
            "description": "Counts",
            "runtime": runtime,
            "tools": { "count": count },
            "contract": { "class": { "latency": "srt" }, "capabilities": [tool] },
        })
    }

    /// An agent `asker`, whose model asks the agent that its message names first.
    pub fn asker(&self, asked: &str) -> String {
        self.asker_named("asker", asked)
    }

    /// The same under another name.
    pub fn asker_named(&self, name: &str, asked: &str) -> String {
        let endpoint = json!({ "url": format!("http://127.0.0.1:{}/v1", self.port), "model": "stub" });
        let file = json!({
            "name": name,
            "description": "Asks another agent",
            "runtime": { "model": { "prompt": "Ask.", "endpoints": [endpoint] } },
            "contract": { "class": { "latency": "srt" }, "capabilities": [format!("agents/{asked}")] },
        });
        file.to_string()
    }

    /// Lines of JSON; the last one may not be whole yet.
    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.machine.folder().join(name)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }
}

/// What a task came to.
#[derive(Debug)]
pub enum End {
    /// It is completed.
    Completed(Value),
    /// It works, and waits for somebody to say what became of a call.
    Doubt(Value),
}

/// An agent that counts, on a node that ends, and the one message that it is told.
pub struct Teller {
    pub machine: Machine,
    /// The run that the message names.
    pub run: String,
}

impl Teller {
    /// On a machine where nothing runs yet.
    pub fn of(run: &str) -> Teller {
        Teller { machine: Machine::new(), run: run.to_owned() }
    }

    /// The agent of that file, on a node that runs no more.
    pub fn new(run: &str, file: &str) -> Teller {
        let teller = Teller::of(run);
        teller.begin_with(file).running.kill();
        teller
    }

    /// Starts a node, and adds the agent to it, whose tool is declared as that.
    pub fn begin(&self, station: &Station, effect: Option<&str>) -> Node {
        self.begin_with(&station.file(effect))
    }

    /// Starts a node, and adds that agent to it.
    pub fn begin_with(&self, file: &str) -> Node {
        let node = self.machine.up_alone(&[]);
        self.machine.add("teller", file);
        node
    }

    /// Sends the message, the same one each time; gives the task, or none if the node took it not, or ended meanwhile.
    pub fn send(&self, node: &Node) -> Option<String> {
        let message = json!({
            "messageId": format!("m-{}", self.run),
            "role": "ROLE_USER",
            "parts": [{ "text": format!("{} {STEPS}", self.run) }],
        });
        let params = json!({ "message": message, "configuration": { "returnImmediately": true } });
        let answer = http::ask_while_up(&node.gateway(), "teller", "SendMessage", &params)?;
        answer["task"]["id"].as_str().map(str::to_owned)
    }

    /// Sends the message until it is taken.
    pub fn is_told(&self, node: &Node) -> String {
        let mut task = None;
        until(SOON, "the message is taken", || {
            task = self.send(node);
            task.is_some()
        });
        task.expect("it was waited for")
    }

    /// What the task came to, if it did.
    pub fn end_of(&self, node: &Node, task: &str) -> Option<End> {
        let params = json!({ "id": task });
        let task = http::ask_while_up(&node.gateway(), "teller", "GetTask", &params)?;
        match task["status"]["state"].as_str().expect("a state") {
            "TASK_STATE_COMPLETED" => Some(End::Completed(task)),
            "TASK_STATE_SUBMITTED" => None,
            "TASK_STATE_WORKING" => {
                let says = task["status"]["message"].to_string();
                says.contains("count/").then_some(End::Doubt(task))
            }
            _ => panic!("run {}: {task}", self.run),
        }
    }

    /// Waits for what the task comes to.
    pub fn end(&self, node: &Node, task: &str) -> End {
        let mut end = None;
        until(SOON, &format!("the task of run {} comes to an end", self.run), || {
            end = self.end_of(node, task);
            end.is_some()
        });
        end.expect("it was waited for")
    }

    /// The node, told the message, is ended at its `nth` sync from there; whether it was, before the task had ended.
    pub fn ended_at(&self, nth: u32) -> bool {
        let mut node = self.machine.up_alone(&[]);
        until(SOON, "the agent is here", || self.machine.finds("teller"));
        let tracer = self.ends(&node, nth);
        let mut task = None;
        until(SOON, "the node ends at a sync, or the task does", || {
            task = task.take().or_else(|| self.send(&node));
            // In this order: what ended the node may have ended the task before.
            let is_over = task.as_ref().is_some_and(|task| self.end_of(&node, task).is_some());
            node.running.ended() || is_over
        });
        let ended = node.running.ended();
        drop(tracer);
        ended
    }

    /// From now on a node is ended at its `nth` sync, for as long as what this gives is held.
    pub fn ends(&self, node: &Node, nth: u32) -> Running {
        let tracer = attached(&self.machine, node.running.pid(), nth);
        tracer.unwrap_or_else(|why| panic!("strace attached before, and does not now: {why}"))
    }

    /// Whether a node that is ended at its `nth` sync from its start ends before it is ready. Afterwards none runs.
    pub fn ends_in_starting(&self, nth: u32) -> bool {
        let data = self.machine.data();
        let mut command = self.machine.command(Path::new("strace"));
        command.args(["-f", "-o", "/dev/null"]).args(injection(nth)).arg(binary()).arg("--data").arg(&data);
        command.args(["--json", "up", "--no-lan", "--gateway", "127.0.0.1:0", "--listen", "/ip4/127.0.0.1/tcp/0"]);
        let mut running = Running::start(&mut command);
        let is_ready = running.line(UP_MAX).is_some();
        let nodes = processes_of(&data);
        drop(running);
        // What watched the node may end before it, and its store is open until then.
        until(SOON, "the node has ended", || {
            processes_of(&data).is_empty() && !nodes.iter().any(|pid| super::runs(*pid))
        });
        !is_ready
    }

    /// The one call in doubt, as `session list` shows it: its task and its number.
    pub fn doubt(&self) -> (String, u64) {
        let doubts = self.doubts();
        let Some((task, [step])) = doubts.as_ref().map(|(task, steps)| (task, &steps[..])) else {
            panic!("run {}: {doubts:?}", self.run)
        };
        (task.clone(), *step)
    }

    /// All calls in doubt of the one turn that waits for somebody to say what became of them: its task and their numbers; none
    /// where none waits.
    pub fn doubts(&self) -> Option<(String, Vec<u64>)> {
        let list = self.machine.json(&["session", "list"]);
        let sessions = list["sessions"].as_array().expect("a list");
        let waiting: Vec<&Value> = sessions.iter().filter(|session| session["state"] == "inDoubt").collect();
        let [session] = waiting[..] else {
            assert!(waiting.is_empty(), "{list}");
            return None;
        };
        let of_tool = |doubt: &Value| doubt["name"].as_str().is_some_and(|name| name.starts_with("count/"));
        let doubts = session["doubts"].as_array().expect("a list");
        assert!(!doubts.is_empty() && doubts.iter().all(of_tool), "{list}");
        let steps = doubts.iter().map(|doubt| doubt["step"].as_u64().expect("a number")).collect();
        Some((super::text(&session["task"]), steps))
    }

    /// Says of the call in doubt what the arguments do, and waits for the end of the task and of its journal.
    pub fn settle(&self, node: &Node, how: &[&str]) -> Value {
        let (task, _) = self.doubt();
        self.say(&task, how);
        self.completed(node, &task)
    }

    /// Says of each call in doubt that it was carried out, with a result that is written by hand, or has it made again. Gives how
    /// many there were.
    pub fn settle_all(&self, is_again: bool) -> usize {
        let Some((task, steps)) = self.doubts() else { return 0 };
        let file = self.result(BY_HAND);
        for step in &steps {
            let (step, file) = (step.to_string(), file.to_str().expect("a plain path"));
            if is_again {
                self.say(&task, &["--again", &step]);
            } else {
                self.say(&task, &["--done", &step, file]);
            }
        }
        steps.len()
    }

    /// `session resume` of a task.
    fn say(&self, task: &str, how: &[&str]) {
        let resumed = self.machine.json(&[&["session", "resume", task][..], how].concat());
        assert_eq!(resumed["resumed"], json!(task));
    }

    /// The task that is completed, once its journal has ended with it.
    pub fn completed(&self, node: &Node, task: &str) -> Value {
        let mut completed = Value::Null;
        until(SOON, "the task goes on and is completed", || {
            let Some(End::Completed(task)) = self.end_of(node, task) else { return false };
            completed = task;
            true
        });
        let is_over = || self.machine.json(&["session", "list"])["sessions"] == json!([]);
        until(SOON, "a journal ends with its task", is_over);
        completed
    }

    /// A file with the result of a call.
    pub fn result(&self, text: &str) -> PathBuf {
        self.machine.write("result", text)
    }
}

/// What the agent said, whole.
pub fn words(task: &Value) -> String {
    let artifacts = task["artifacts"].as_array().into_iter().flatten();
    let parts = artifacts.flat_map(|artifact| artifact["parts"].as_array().into_iter().flatten());
    parts.filter_map(|part| part["text"].as_str()).collect()
}

/// The programs that were told that folder.
fn processes_of(data: &Path) -> Vec<u32> {
    let data = data.to_str().expect("a path in UTF-8").as_bytes();
    let of = |pid: &u32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|argument| argument == data)
    };
    let processes = std::fs::read_dir("/proc").expect("processes").flatten();
    processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter(of).collect()
}

/// What has a thread end its process, as `kill -9` does, when it is about to make its `nth` sync.
fn injection(nth: u32) -> [String; 4] {
    let (of, at) = (format!("trace={SYNCS}"), format!("inject={SYNCS}:signal=SIGKILL:when={nth}"));
    ["-e".to_owned(), of, "-e".to_owned(), at]
}

/// The same of a process that runs, from now on; why not.
fn attached(machine: &Machine, pid: u32, nth: u32) -> Result<Running, String> {
    let mut command: Command = machine.command(Path::new("sh"));
    command.args(["-c", "exec \"$0\" \"$@\" 2>&1", "strace", "-f", "-o", "/dev/null", "-p", &pid.to_string()]);
    let mut tracer = Running::start(command.args(injection(nth)));
    let line = tracer.line(SOON).unwrap_or_default();
    if line.contains(" attached") { Ok(tracer) } else { Err(line) }
}
