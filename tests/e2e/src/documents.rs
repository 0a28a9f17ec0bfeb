//! The commands of the documentation, and what they print.

/// The commands of the `sh` blocks, with lines that go on put together.
pub fn commands(document: &str) -> Vec<String> {
    let mut commands: Vec<String> = Vec::new();
    let (mut inside, mut goes_on) = (false, false);
    for line in document.lines() {
        if line.starts_with("```") {
            (inside, goes_on) = (line == "```sh", false);
        } else if inside && !line.trim().is_empty() {
            let part = line.trim_end_matches('\\');
            match commands.last_mut().filter(|_| goes_on) {
                Some(command) => command.push_str(part),
                None => commands.push(part.to_owned()),
            }
            goes_on = line.ends_with('\\');
        }
    }
    commands
}

/// What a reader has to fill in, and what builds the program that runs here.
pub fn is_for_the_reader(command: &str) -> bool {
    command.contains('…') || command.starts_with("git ") || command.starts_with("make ")
}

/// A command, and what the comment beside it says of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Said<'a> {
    /// Without the comment.
    pub command: &'a str,
    /// `exit 4`; 0 where it names none.
    pub exit: i32,
    /// `prints: TEXT`, up to a semicolon.
    pub prints: Option<&'a str>,
}

impl Said<'_> {
    /// Of a line of a document.
    pub fn read(line: &str) -> Said<'_> {
        let (command, comment) = line.split_once('#').unwrap_or((line, ""));
        let exit = comment.split_once("exit ").map_or("", |(_, rest)| rest);
        let digits = exit.len() - exit.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let exit = if digits == 0 { 0 } else { exit[..digits].parse().expect("a code") };
        let prints = comment.split_once("prints: ").map(|(_, rest)| rest.split(';').next().unwrap_or_default().trim());
        Said { command: command.trim(), exit, prints }
    }

    /// What it must print: as the document says, or else as is known of the longest of [`TOLD`] with which it begins.
    /// `None` where neither says anything of it.
    pub fn told(&self) -> Option<Vec<&str>> {
        if let Some(prints) = self.prints {
            return Some(vec![prints]);
        }
        // On whichever node it is run.
        let of_named = self.command.strip_prefix("althing --name ").and_then(|rest| rest.split_once(' '));
        let command = of_named.map_or_else(|| self.command.to_owned(), |(_, rest)| format!("althing {rest}"));
        let known = TOLD.iter().filter(|(begins, _)| command.starts_with(*begins));
        known.max_by_key(|(begins, _)| begins.len()).map(|(_, told)| told.to_vec())
    }

    /// Whether nothing of it is to be seen: it writes into a file, or is told to be silent.
    pub fn is_silent(&self) -> bool {
        self.command.contains(" > ") || self.command.starts_with("curl -sf") && self.exit != 0
    }
}

/// What commands print of which the document does not say it, by how they begin.
const TOLD: &[(&str, &[&str])] = &[
    // Agents.
    ("althing agent add", &["runs as urn:althing:"]),
    ("althing agent add examples/robot-arm/arm.yaml", &["arm runs as", "admitted on core", "every job is done within"]),
    // It may have been suspended by then.
    ("althing agent add examples/robot-arm/stuck.yaml", &["stuck ", "admitted on core"]),
    ("althing agent add examples/robot-arm/greedy.yaml", &["proof", "what now"]),
    ("althing agent list", &["NAME", "echo.say"]),
    ("althing agent remove", &["is stopped and removed"]),
    ("althing describe echo", &["\"title\": \"Echo\"", "echo.say"]),
    ("althing adopt http://127.0.0.1:7420/things", &["found ", "nothing was adopted"]),
    ("althing adopt http://127.0.0.1:7420/things/echo", &["echo-thing runs as"]),
    ("althing ps", &["HARD REAL-TIME", "arm", "plant"]),
    ("althing top", &["grade ", "HARD REAL-TIME"]),
    ("echo \"sk-example\" | althing secret set", &["MODEL_KEY is stored"]),
    ("althing secret remove", &["MODEL_KEY is removed"]),
    // Calls.
    ("althing call echo -", &["What is this?"]),
    ("althing call echo \"where", &["where did this go?"]),
    ("althing call echo-thing", &["available"]),
    ("althing call router", &["please show me my bill"]),
    ("althing call copy", &["Hello"]),
    ("althing call team-echo", &["Hello"]),
    ("althing call arm", &["\"outputs\"", "arm.torque"]),
    ("althing call plant", &["\"outputs\"", "arm.angle"]),
    ("althing trace", &["OPERATION", "echo"]),
    // The faces.
    ("curl -s http://127.0.0.1:7420/a2a/echo", &["TASK_STATE_COMPLETED", "Hello"]),
    ("curl -sN http://127.0.0.1:7420/a2a/echo", &["data:", "TASK_STATE_COMPLETED", "Hello"]),
    ("curl -s 'http://127.0.0.1:7420/a2a/echo/tasks?status=", &["\"tasks\"", "TASK_STATE_COMPLETED"]),
    ("curl -sf http://127.0.0.1:7420/a2a/echo/.well-known/agent-card.json | althing card lint", &[": valid"]),
    ("curl -sf http://127.0.0.1:7420/things/echo", &["\"actions\"", "\"title\""]),
    ("curl -sf http://127.0.0.1:7420/things/echo | althing td lint", &[": valid"]),
    ("curl -sf http://127.0.0.1:7420/things/echo/published", &["echo.say"]),
    ("curl -sf http://127.0.0.1:7420/things/echo/properties/tasks", &["\"total\":"]),
    ("curl -sf http://127.0.0.1:7420/things/echo/actions/chat", &["Hello"]),
    ("curl -sf http://127.0.0.1:7420/things/echo/actions/chat -H 'Prefer: respond-async'", &["\"href\""]),
    ("curl -sf http://127.0.0.1:7420/things", &["echo", "\"actions\""]),
    ("curl -sf http://127.0.0.1:7420/.well-known/wot", &["echo"]),
    ("curl -sf http://127.0.0.1:7420/openapi.json", &["\"openapi\":\"3."]),
    ("curl -sf http://127.0.0.1:7420/metrics", &["althing_agents"]),
    ("curl -sf http://127.0.0.1:7420/mcp", &["\"protocolVersion\":\"2025-11-25\""]),
    ("printf '\\000", &["Hello"]),
    ("printf '%s\\n' '{\"jsonrpc\"", &["\"text\":\"Hello\""]),
    // The node.
    ("althing status", &["node     did:key:", "L1 execution", "L2 communication", "L3 discovery"]),
    ("althing doctor echo", &["is hosted by", "answers this node"]),
    ("althing find", &["NAME", "echo"]),
    ("althing find --cap add", &["no agent matches"]),
    ("althing find --cap echo.say --explain", &["echo.say", "left out:", "ordered by"]),
    ("althing find --cap billing.view", &["no agent matches"]),
    ("althing find --cap billing.view --explain", &["left out:", "no agent matches"]),
    ("althing find --cap \"bills.view@^1.0\"", &["bills"]),
    ("althing find --cap \"bills.view@^2.0\"", &["no agent matches"]),
    ("althing find --cap workflow.chain", &["chain"]),
    ("althing find --action view", &["no agent matches"]),
    ("althing find --action build", &["Build server"]),
    ("althing find how do I pay", &["no agent matches"]),
    // Sentences.
    ("althing route \"please show me my bill\"", &["to bills", "please show me my bill"]),
    ("althing route \"will it rain on Sunday\" --explain", &["agents considered", "to weather"]),
    ("althing route \"how do I knit", &["no agent is for that"]),
    ("althing route learn", &["learned ", " sentences; this node knows "]),
    ("althing route forget", &["sentences are forgotten"]),
    ("althing route --eval", &["OUT OF SCOPE REFUSED", "keyword", "vector", "hybrid"]),
    ("althing route channel \"bills.view@^1.0\"", &["CAPABILITY", "weather.forecast"]),
    ("althing route channel \"bills.view@^2.0\"", &["no agent will do for bills.view@^2.0"]),
    // Groups.
    ("althing group create team", &["team is formed"]),
    ("althing group join", &["this node belongs to team now"]),
    ("althing group status team", &["group    team", "policy   ", "MEMBER"]),
    ("althing group get team colour --stale", &["newer writes may be missing"]),
    ("althing group set team colour red --if-version 1", &["version 2 now"]),
    ("althing group keys team", &["colour"]),
    ("althing group unset team colour", &["colour is removed"]),
    ("althing group serve team --cap", &["team-echo is an agent now"]),
    ("althing group serve team --as team-echo --end", &["team-echo is hosted no more"]),
    ("althing group amend team", &["team has its next charter"]),
    ("althing group proposals team", &["nothing waits for a signature"]),
    ("althing task submit team --cap echo.say --wait", &["the task is ", "Hello"]),
    // The task's id, of which nothing is known.
    ("althing task submit team --cap echo.say --key", &[""]),
    ("althing task submit team --cap echo.say --channel", &[""]),
    ("althing task list team --all", &["completed", "echo.say"]),
    ("althing task resources team printer", &["the rule of printer is priority"]),
    ("althing task resources team budget", &["the rule of budget is vote"]),
    ("althing task resources team release", &["the rule of release is human"]),
    ("althing task resources team", &["printer", "budget", "release", "nobody wants it"]),
    ("althing app apply --dry-run", &["would be"]),
    ("althing app apply docs", &["next: althing app show team echo-twice"]),
    ("althing app show team echo-twice", &["workflows  twice", "schedules  nightly"]),
    ("althing app remove team echo-twice", &["echo is removed", "twice is removed", "nightly is removed"]),
    ("althing workflow list team --all", &["twice", "completed"]),
    ("althing schedule show", &["times ", "overlap ", "next "]),
    ("althing schedule list team", &["nightly", "Europe/Berlin"]),
    ("althing schedule add team hourly", &["hourly runs at 2", "(UTC)"]),
    ("althing schedule remove team hourly", &["hourly is removed"]),
    // Registries.
    ("althing registry add", &["this node follows", "0 entries"]),
    ("althing publish", &["is released", "proves it"]),
    ("althing publish builds.td.json", &["a Thing that runs elsewhere"]),
    ("althing release list", &["VERSION", "1.0.0"]),
    ("althing release receipt", &["ENTRY", "release"]),
    ("althing release receipt echo@1.0.0", &["proves    the log", "c2sp.org/tlog-proof"]),
    ("althing release stage", &["is staged, ", "approve   althing release approve "]),
    ("althing release pending", &["staged, "]),
    ("althing release approve", &["digest ", "nothing was changed: --yes agrees to this"]),
    ("althing release reject", &["is not released"]),
    ("althing release attest echo@1.0.0 --claim audit", &["you attest audit of "]),
    ("althing release attest echo@1.0.0 --claim build", &["you attest build of ", "v1.0.0"]),
    ("althing release attest echo@1.0.0 --claim build --value null", &["you attest build of ", "no more"]),
    ("althing release show echo@1.0.0", &["an agent of ", "attested  audit", "attested  build"]),
    ("althing release show builds@1.0.0", &["a Thing that runs elsewhere", "https://build.example.org/build"]),
    ("althing release deprecate", &["is deprecated from now on"]),
    ("althing release yank", &["is yanked from now on"]),
    ("althing release restore", &["is good from now on"]),
    ("althing release revoke echo@1.0.0 --reason \"it leaks\"", &["for ever", "nothing was changed: --yes agrees"]),
    ("althing release revoke echo@1.0.0 --reason \"it leaks\" --yes", &["is revoked from now on"]),
    ("althing install", &["nothing was changed: --yes agrees to this"]),
    (INSTALLS_AGENT, &["copy 1.0.0 runs as urn:althing:"]),
    (INSTALLS_WORKFLOW, &["chain ", " is installed"]),
    ("althing outdated", &["copy", "up to date"]),
    ("althing uninstall chain", &["chain is removed"]),
    // Contracts, keys, measurements.
    ("althing contract lint", &["arm.yaml: hrt ", "planner.yaml: "]),
    ("althing contract admit", &["admitted"]),
    ("althing contract admit docs/examples/control.json --policy rm --cap 0.9 --json", &["\"admitted\": true"]),
    ("althing memory add clerk", &["rules.txt: ", " passages"]),
    ("althing memory search clerk", &["likeness", "examples/citizen-service/rules.txt", "dog"]),
    ("althing memory list clerk", &["source  examples/citizen-service/rules.txt"]),
    ("althing memory list", &["NAMESPACE", "clerk"]),
    ("althing bind", &["agent    clerk", "runtime  model"]),
    ("althing bind examples/citizen-service/clerk.yaml --explain", &["agent    clerk", "SET BY"]),
    ("althing bind --verify", &[" holds", "bound again, it is the same"]),
    ("althing handoff show docs/examples/handoff.yaml", &["task_id: ", "regulation.classification: confidential"]),
    ("althing handoff show docs/examples/handoff.yaml --statement", &["document: ", "role: reviewer"]),
    ("althing handoff verify", &[": not valid", "[bad_signature]", "[sign_off_missing]"]),
    ("althing key show", &["owner     urn:althing:", "state     active"]),
    ("althing key rotate", &["has a new key, ", "the old one is accepted for"]),
    ("althing key rotate --overlap-minutes 0", &["has a new key, ", "the old one is no longer accepted"]),
    ("printf 'a good passphrase\\n' | althing key export", &["the keys of urn:althing:", "kept.keys"]),
    ("althing network-key new", &["mesh.key  the key "]),
    ("althing-sim run simulations/scenarios/first.toml", &["first seed ", " found, p50 "]),
    ("althing-sim run simulations/scenarios/first.toml --seed 7 --json", &["\"seed\":7", "\"violations\":[]"]),
    ("althing-sim replay", &[" lines, "]),
    ("althing bench --no-goals hrt", &["bare thread", "agent", "plain tokio", "UNEXPLAINED"]),
    (
        "althing bench --no-goals all",
        &["CONTRACT KEPT", "srt: our part until the first word, p50", "dt: share of what is left over"],
    ),
    ("althing bench --no-goals layers", &["a bare task", "OF A BARE TASK"]),
];

const INSTALLS_AGENT: &str =
    "althing install \"$(althing --json id | grep -o 'urn:althing:[A-Za-z0-9]*'):echo@^1\" --as copy --young --yes";
const INSTALLS_WORKFLOW: &str =
    "althing install \"$(althing --json id | grep -o 'urn:althing:[A-Za-z0-9]*'):chain@^1\" --young --yes";
