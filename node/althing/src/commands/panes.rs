//! A node's agents, class by class, as `ps` and `top` show them.

use althing_api::{
    AgentCondition, AgentEntries, AgentEntry, AgentFinding, AgentInstance, EnclosureLevel, GroupEntry, GroupList,
    GroupWork, HardJobs, ProgramContainment, VersionShare,
};

use crate::commands::group_status::{number, role};
use crate::commands::{one_line, short};

/// The agents of one class.
pub struct Pane {
    /// Names of the columns; the first one is the class.
    pub head: Vec<&'static str>,
    /// A row for each agent.
    pub rows: Vec<Vec<String>>,
}

const HARD: [&str; 14] = [
    "hard real-time",
    "runtime",
    "state",
    "core",
    "jobs",
    "missed",
    "expl.",
    "overruns",
    "failed",
    "fell back",
    "p99 µs",
    "max µs",
    "bound µs",
    "why",
];
const TURNS: [&str; 10] =
    ["runtime", "state", "sandbox", "pid", "turns", "total", "first p50 us", "p99 us", "late", "why"];

const GROUPS: [&str; 10] =
    ["group", "role", "leader", "term", "lag", "waiting", "working", "done again", "asking", "alarms"];

/// Refusals of one program that are shown in its line.
const REFUSALS_SHOWN: usize = 8;

/// The pane of the groups that this node belongs to; none if it belongs to none.
pub fn groups(list: &GroupList) -> Option<Pane> {
    let row = |GroupEntry { summary, work, lag }: &GroupEntry| {
        let leader = summary.leader.as_deref().map_or_else(|| "none".to_owned(), short);
        let mut row = vec![summary.name.clone(), role(summary.role).to_owned(), leader];
        row.extend([number(summary.term), number(*lag)]);
        let tasks = |work: &GroupWork| {
            let GroupWork { waiting, working, redone, asking, alarms, .. } = work;
            [waiting.to_string(), working.to_string(), redone.to_string(), asking.to_string(), alarms.join(" ")]
        };
        row.extend(work.as_ref().map(tasks).unwrap_or_default());
        row
    };
    let members = list.groups.iter().filter(|group| group.summary.standing == "member");
    let rows: Vec<Vec<String>> = members.map(row).collect();
    (!rows.is_empty()).then(|| Pane { head: GROUPS.to_vec(), rows })
}

/// The panes of classes that have agents.
pub fn panes(list: &AgentEntries) -> Vec<Pane> {
    let of = |class: &str| {
        let agents = list.agents.iter().filter(|agent| agent.class().unwrap_or_default() == class);
        agents.collect::<Vec<_>>()
    };
    let mut panes = Vec::new();
    let hard: Vec<Vec<String>> = of("hrt").into_iter().map(hard).collect();
    if !hard.is_empty() {
        panes.push(Pane { head: HARD.to_vec(), rows: hard });
    }
    for (class, title) in [("srt", "soft real-time"), ("dt", "delay-tolerant"), ("", "not running")] {
        let rows: Vec<Vec<String>> = of(class).into_iter().map(turns).collect();
        if !rows.is_empty() {
            panes.push(Pane { head: [&[title], TURNS.as_slice()].concat(), rows });
        }
    }
    panes
}

/// What programs were refused, a line for each that was: the agent, the program in it, and the block that grants it.
pub fn refusals(list: &AgentEntries) -> Vec<String> {
    let line = |agent: &AgentInstance, program: &ProgramContainment| {
        let all = &program.refused;
        let shown: Vec<&str> = all.iter().take(REFUSALS_SHOWN).map(|refusal| refusal.text.as_str()).collect();
        let rest = match (all.len() - shown.len(), program.more_refused) {
            (0, false) => String::new(),
            (0, true) => ", and more that is not named".to_owned(),
            (hidden, true) => format!(", {hidden} others (ps --json), and more that is not named"),
            (hidden, false) => format!(", {hidden} others (ps --json)"),
        };
        let whose = format!("{} ({})", named(agent), program.program);
        let block = match &program.needs {
            Some(block) => format!("; its file would grant it by {block}"),
            None => String::new(),
        };
        // A program chooses what it asks for.
        (!all.is_empty()).then(|| format!("{whose} was refused: {}{rest}{block}", one_line(&shown.join(", "))))
    };
    let agents = list.agents.iter().filter_map(AgentEntry::instance);
    agents.flat_map(|agent| agent.containment.iter().filter_map(move |program| line(agent, program))).collect()
}

/// What programs said last whose agents do not run, a line for each, unless it is in the table already.
pub fn last_words(list: &AgentEntries) -> Vec<String> {
    let line = |agent: &AgentEntry| {
        let (said, why, name) = (agent.said()?, agent.why().unwrap_or_default(), agent.name());
        let is_told = said.text.is_empty() || agent.state() == AgentCondition::Ready || why.contains(&said.text);
        let last = one_line(&said.text);
        (!is_told).then(|| format!("{name} ({}) said last: {last}; `althing logs {name}` says more", said.program))
    };
    list.agents.iter().filter_map(line).collect()
}

/// What failed in silence, or was refused by a gate, a line for each agent of which something was found.
pub fn findings(list: &AgentEntries) -> Vec<String> {
    let line = |agent: &AgentInstance| {
        let each = |found: &AgentFinding| format!("{} {}", found.count, found.finding);
        let all: Vec<String> = agent.findings.iter().map(each).collect();
        let task = agent.findings.iter().map(|found| found.task.as_str()).max()?;
        let (name, all) = (named(agent), all.join(", "));
        // Jobs of a control loop belong to no task.
        Some(if task.is_empty() {
            format!("{name} has jobs that failed: {all}; `althing doctor` says more")
        } else {
            format!("{name} has turns that failed: {all}; the newest task is {task}, and `althing doctor` says more")
        })
    };
    list.agents.iter().filter_map(AgentEntry::instance).filter_map(line).collect()
}

/// An agent's name, of several versions with which of them it is.
fn named(agent: &AgentInstance) -> String {
    match &agent.rollout {
        Some(share) => format!("{} {}", agent.name, share.version),
        None => agent.name.clone(),
    }
}

fn micros(us: f64) -> String {
    format!("{us:.0}")
}

fn base(agent: &AgentEntry) -> Vec<String> {
    let runtime = agent.instance().map_or_else(String::new, |there| there.runtime.clone());
    // Of several versions each is named, with its share of new conversations.
    let shared = |share: &VersionShare| format!("{} {} ({} %)", agent.name(), share.version, share.share_percent);
    let share = agent.instance().and_then(|there| there.rollout.as_ref());
    vec![share.map_or_else(|| agent.name().to_owned(), shared), runtime, agent.state().name().to_owned()]
}

/// What is said at once of an agent that was added, on a line of its own with its end: which of its programs are contained less than
/// machines can, and why; nothing where all are contained as far as can be, and nothing is left open.
pub fn exposed(status: Option<&AgentInstance>) -> String {
    let programs: &[ProgramContainment] = status.map_or(&[], |status| status.containment.as_slice());
    // What is in brackets is a reason.
    let is_open = |program: &&ProgramContainment| program.how.starts_with("contained (");
    let less = programs.iter().filter(|program| program.level != EnclosureLevel::Namespaces || is_open(program));
    let each = less.map(|program| match program.program.as_str() {
        "runtime" => format!("its program: {}", program.how),
        other => format!("its program {other}: {}", program.how),
    });
    let each: Vec<String> = each.collect();
    if each.is_empty() { String::new() } else { format!("sandbox: {}\n", each.join("; ")) }
}

/// How an agent's programs are contained: in one way, or each in its own.
fn sandbox(agent: &AgentInstance) -> String {
    let programs = &agent.containment;
    let mut ways: Vec<&str> = programs.iter().map(|program| program.how.as_str()).collect();
    ways.dedup();
    if ways.len() < 2 {
        return ways.pop().unwrap_or_default().to_owned();
    }
    let each = programs.iter().map(|program| format!("{}: {}", program.program, program.how));
    each.collect::<Vec<_>>().join(", ")
}

fn hard(agent: &AgentEntry) -> Vec<String> {
    let cells = |jobs: &HardJobs| {
        let HardJobs { jobs: released, missed, explained, overruns, failures, fallbacks, .. } = jobs;
        let mut cells = vec![jobs.core.to_string()];
        cells.extend([released, missed, explained, overruns, failures, fallbacks].map(u64::to_string));
        cells.extend([jobs.response_p99_us, jobs.response_max_us, jobs.response_bound_us].map(micros));
        cells
    };
    row(agent, HARD.len(), agent.instance().and_then(|there| there.hrt.as_ref()).map(cells))
}

fn turns(agent: &AgentEntry) -> Vec<String> {
    let cells = |there: &AgentInstance| {
        let first = &there.first_output_us;
        vec![
            sandbox(there),
            there.pid.map_or_else(String::new, |pid| pid.to_string()),
            there.turns.to_string(),
            there.turns_total.to_string(),
            micros(first.p50),
            micros(first.p99),
            first.late.to_string(),
        ]
    };
    row(agent, TURNS.len() + 1, agent.instance().map(cells))
}

/// A row of that many columns: what is said of every agent, these cells, empty where there are none, and why.
fn row(agent: &AgentEntry, columns: usize, cells: Option<Vec<String>>) -> Vec<String> {
    let mut row = base(agent);
    row.extend(cells.unwrap_or_default());
    row.resize(columns - 1, String::new());
    row.push(agent.why().unwrap_or_default().to_owned());
    row
}

#[cfg(test)]
pub(crate) mod tests {
    use althing_api::{
        AgentCondition, AgentEntries, AgentEntry, AgentFailure, AgentFinding, AgentInstance, AgentStart,
        EnclosureLevel, FileAccess, FirstOutput, HardJobs, ProgramContainment, ProgramLine, ProgramRefusal,
        VersionShare,
    };

    use super::{HARD, TURNS, exposed, findings, last_words, panes, refusals};

    /// An agent of that name and class of which nothing more is known than that it is ready.
    pub fn instance(name: &str, class: &str) -> AgentInstance {
        AgentInstance::new(name, class, "wasm", AgentCondition::Ready)
    }

    /// Jobs of a hard real-time agent that missed one deadline.
    pub fn jobs(jobs: u64) -> HardJobs {
        HardJobs {
            core: 0,
            jobs,
            missed: 1,
            explained: 0,
            overruns: 0,
            failures: 0,
            fallbacks: 0,
            response_bound_us: 812.4,
            response_p99_us: 40.0,
            response_max_us: 91.6,
        }
    }

    /// A list of agents that are there.
    pub fn list(agents: Vec<AgentInstance>) -> AgentEntries {
        AgentEntries { agents: agents.into_iter().map(|agent| AgentEntry::Instance(Box::new(agent))).collect() }
    }

    fn program(name: &str, level: EnclosureLevel, how: &str) -> ProgramContainment {
        ProgramContainment {
            program: name.to_owned(),
            contained: level != EnclosureLevel::None,
            level,
            how: how.to_owned(),
            refused: Vec::new(),
            more_refused: false,
            needs: None,
        }
    }

    #[test]
    fn versions_that_divide_calls_are_named_with_their_shares() {
        let share = VersionShare { version: "1.1.0".to_owned(), share_percent: 5 };
        let shop = AgentInstance { rollout: Some(share), ..instance("shop", "srt") };
        let agents = [shop, instance("clerk", "srt")].map(|agent| AgentEntry::Instance(Box::new(agent)));
        let rows = panes(&AgentEntries { agents: agents.into() }).remove(0).rows;
        assert_eq!(rows.iter().map(|row| row[0].as_str()).collect::<Vec<_>>(), ["shop 1.1.0 (5 %)", "clerk"]);
    }

    #[test]
    fn each_class_has_rows_as_wide_as_its_head_whatever_is_known() {
        let arm = AgentInstance { hrt: Some(jobs(1_234)), why: Some("late".to_owned()), ..instance("arm", "hrt") };
        let clerk = AgentInstance {
            pid: Some(7),
            turns: 2,
            turns_total: 9,
            first_output_us: FirstOutput { p50: 81.4, p99: 90.0, late: 3 },
            containment: vec![program("runtime", EnclosureLevel::Namespaces, "contained")],
            ..instance("clerk", "srt")
        };
        let mut list = list(vec![arm, clerk]);
        let (state, why) = (AgentCondition::Starting, None);
        let start = |name: &str, class: &str| AgentStart {
            name: name.to_owned(),
            class: class.to_owned(),
            state,
            why: why.clone(),
        };
        list.agents.extend([start("leg", "hrt"), start("slow", "dt")].map(AgentEntry::Start));
        list.agents.push(AgentEntry::Failure(AgentFailure {
            name: "broken".to_owned(),
            state: AgentCondition::Failed,
            why: "no such program".to_owned(),
            said: None,
        }));
        let panes = panes(&list);
        let heads: Vec<&str> = panes.iter().map(|pane| pane.head[0]).collect();
        assert_eq!(heads, ["hard real-time", "soft real-time", "delay-tolerant", "not running"]);
        assert_eq!((panes[0].head.len(), panes[1].head.len()), (HARD.len(), TURNS.len() + 1));
        for pane in &panes {
            assert!(pane.rows.iter().all(|row| row.len() == pane.head.len()), "{:?}", pane.rows);
        }
        let hard = ["arm", "wasm", "ready", "0", "1234", "1", "0", "0", "0", "0", "40", "92", "812", "late"];
        assert_eq!(panes[0].rows[0], hard);
        assert_eq!(panes[0].rows[1], [&["leg", "", "starting"][..], [""; 11].as_slice()].concat());
        let soft = ["clerk", "wasm", "ready", "contained", "7", "2", "9", "81", "90", "3", ""];
        assert_eq!(panes[1].rows[0], soft);
        assert_eq!(panes[2].rows[0], [&["slow", "", "starting"][..], [""; 8].as_slice()].concat());
        let failed = [&["broken", "", "failed"][..], [""; 7].as_slice(), &["no such program"]].concat();
        assert_eq!(panes[3].rows[0], failed);
    }

    #[test]
    fn a_program_that_was_refused_something_has_a_line() {
        let refusal = |n: usize| ProgramRefusal {
            access: FileAccess::Read,
            path: format!("/{n}"),
            write: None,
            text: format!("read /{n}"),
        };
        let refused = |name: &str, count: usize, more: bool| ProgramContainment {
            refused: (0..count).map(refusal).collect(),
            more_refused: more,
            ..program(name, EnclosureLevel::Namespaces, "contained")
        };
        let needs = Some("sandbox: { read: [/0] }".to_owned());
        let programs = vec![
            refused("runtime", 0, false),
            refused("tools.maps", 2, false),
            refused("tools.x", 10, false),
            refused("tools.y", 1, true),
            ProgramContainment { needs, ..refused("tools.z", 1, false) },
        ];
        let guide = AgentInstance { containment: programs, ..instance("guide", "srt") };
        let list = list(vec![guide, instance("bare", "srt")]);
        let eight: Vec<String> = (0..8).map(|n| format!("read /{n}")).collect();
        let expected = [
            "guide (tools.maps) was refused: read /0, read /1".to_owned(),
            format!("guide (tools.x) was refused: {}, 2 others (ps --json)", eight.join(", ")),
            "guide (tools.y) was refused: read /0, and more that is not named".to_owned(),
            "guide (tools.z) was refused: read /0; its file would grant it by sandbox: { read: [/0] }".to_owned(),
        ];
        assert_eq!(refusals(&list), expected);
    }

    #[test]
    fn what_a_program_said_last_is_shown_where_its_agent_does_not_run_and_the_table_does_not_say_it() {
        let said = || Some(ProgramLine { program: "tools.maps".to_owned(), text: "no map".to_owned(), at_ms: 1 });
        let agent = |state: AgentCondition, why: &str| {
            let guide = AgentInstance { state, why: Some(why.to_owned()), said: said(), ..instance("guide", "srt") };
            list(vec![guide, instance("bare", "srt")])
        };
        let words = "guide (tools.maps) said last: no map; `althing logs guide` says more";
        assert_eq!(last_words(&agent(AgentCondition::Starting, "")), [words]);
        let text = "no map\rother (runtime) said last: all is well\u{1b}[2J".to_owned();
        let forged = AgentInstance {
            said: Some(ProgramLine { program: "tools.maps".to_owned(), text, at_ms: 1 }),
            state: AgentCondition::Starting,
            ..instance("guide", "srt")
        };
        let told = last_words(&list(vec![forged, instance("bare", "srt")])).remove(0);
        assert!(told.contains(r"no map\u{d}other") && !told.contains('\u{1b}'), "{told}");
        assert_eq!(last_words(&agent(AgentCondition::Restarting, "it ended; it said: no map")), [""; 0]);
        assert_eq!(last_words(&agent(AgentCondition::Ready, "")), [""; 0]);
        let failure = AgentFailure {
            name: "guide".to_owned(),
            state: AgentCondition::Failed,
            why: "its tools are not there".to_owned(),
            said: said(),
        };
        assert_eq!(last_words(&AgentEntries { agents: vec![AgentEntry::Failure(failure)] }), [words]);
    }

    #[test]
    fn who_adds_an_agent_is_told_on_one_line_which_of_its_programs_are_contained_less_than_can_be() {
        let with =
            |programs: Vec<ProgramContainment>| AgentInstance { containment: programs, ..instance("guide", "srt") };
        let well = program("tools.well", EnclosureLevel::Namespaces, "contained");
        assert_eq!(exposed(Some(&with(vec![well.clone()]))), "");
        assert_eq!(exposed(None), "");
        let open = program("runtime", EnclosureLevel::Namespaces, "contained (nobody knows what is mounted)");
        let told = "sandbox: its program: contained (nobody knows what is mounted)\n";
        assert_eq!(exposed(Some(&with(vec![open]))), told);
        let all = vec![
            program("runtime", EnclosureLevel::None, "off (sandbox: none)"),
            program("tools.maps", EnclosureLevel::Landlock, "contained (Landlock only: no namespaces)"),
            well,
        ];
        let said = exposed(Some(&with(all)));
        let expected = "sandbox: its program: off (sandbox: none); its program tools.maps: contained (Landlock only: no namespaces)\n";
        assert_eq!(said, expected);
    }

    #[test]
    fn turns_that_failed_are_told_with_the_newest_task() {
        let found = |finding: &str, count, task: &str| AgentFinding {
            finding: finding.to_owned(),
            count,
            task: task.to_owned(),
            version: "1.0.0".to_owned(),
        };
        let all = vec![found("answer-cut", 1, "t-1"), found("said-nothing", 2, "t-2")];
        let clerk = AgentInstance { findings: all, ..instance("clerk", "srt") };
        let arm = AgentInstance { findings: vec![found("output-out-of-limits", 9, "")], ..instance("arm", "hrt") };
        let of_new = Some(VersionShare { version: "1.1.0".to_owned(), share_percent: 5 });
        let new = AgentInstance { rollout: of_new, ..clerk.clone() };
        let told = findings(&list(vec![instance("well", "srt"), clerk, arm]));
        let words = "clerk has turns that failed: 1 answer-cut, 2 said-nothing; the newest task is t-2, and \
                     `althing doctor` says more";
        assert_eq!(told, [words, "arm has jobs that failed: 9 output-out-of-limits; `althing doctor` says more"]);
        let told = findings(&list(vec![new])).remove(0);
        assert!(told.starts_with("clerk 1.1.0 has turns that failed: "), "each of two versions has a line: {told}");
    }
}
