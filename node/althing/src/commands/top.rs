//! `althing top`: the node as it is now, a pane for each class.

use std::io::IsTerminal as _;
use std::time::Duration;

use althing_api::{AgentEntries, GroupList, NodeStatus};
use althing_client::{Client, ClientError};
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use serde_json::json;

use crate::args::Top;
use crate::commands::panes::{Pane, groups, panes};
use crate::commands::{Out, one_line, print_read, reader_gone, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Between two polls of the keyboard.
const KEYS: Duration = Duration::from_millis(50);
/// Cells of a terminal that a column has at least which is cut: less of one says nothing.
const CUT_MIN: usize = 4;

/// Shows the node until `q`, Ctrl-C, or `--count` times. If standard output is not a terminal, it is printed instead, as long as that
/// is read.
pub async fn run(at: &Paths, top: &Top, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let (every, most) = (Duration::from_secs(top.interval), top.count.unwrap_or(u64::MAX));
    if out.json || !std::io::stdout().is_terminal() {
        for shown in 0..most {
            let (list, status) = look(&client).await?;
            let of_groups: GroupList = client.read("/groups").await?;
            let text = if out.json {
                let execution = &status.layers.l1_execution;
                json!({ "agents": list.agents, "execution": execution, "groups": of_groups.groups }).to_string()
            } else {
                let tables = panes(&list).into_iter().chain(groups(&of_groups));
                let tables = tables.map(|pane| table(&pane.head, &pane.rows).trim_end().to_owned());
                std::iter::once(title(&status)).chain(tables).collect::<Vec<_>>().join("\n")
            };
            if !print_read(&text) {
                return Ok(());
            }
            if shown + 1 < most {
                tokio::select! {
                    () = tokio::time::sleep(every) => {}
                    () = reader_gone() => return Ok(()),
                }
            }
        }
        return Ok(());
    }
    let mut terminal = ratatui::init();
    let shown = live(&client, &mut terminal, every, most).await;
    ratatui::restore();
    shown
}

/// The agents, and the node, as they are now.
async fn look(client: &Client) -> Result<(AgentEntries, NodeStatus), ClientError> {
    Ok((client.read("/ps").await?, client.read("/status").await?))
}

async fn live(
    client: &Client,
    terminal: &mut ratatui::DefaultTerminal,
    every: Duration,
    most: u64,
) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::failed(format!("the terminal failed: {error}"));
    for _ in 0..most {
        let (list, status) = look(client).await?;
        let of_groups: GroupList = client.read("/groups").await?;
        let mut panes = panes(&list);
        panes.extend(groups(&of_groups));
        terminal.draw(|frame| draw(frame, &title(&status), &panes)).map_err(failed)?;
        let until = tokio::time::Instant::now() + every;
        while tokio::time::Instant::now() < until {
            if poll(Duration::ZERO).map_err(failed)? {
                match read().map_err(failed)? {
                    Event::Key(key) if key.code == KeyCode::Char('q') || key.code == KeyCode::Esc => return Ok(()),
                    Event::Key(key)
                        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) =>
                    {
                        return Ok(());
                    }
                    Event::Resize(..) => {
                        terminal.draw(|frame| draw(frame, &title(&status), &panes)).map_err(failed)?;
                    }
                    _ => {}
                }
            }
            tokio::time::sleep(KEYS).await;
        }
    }
    Ok(())
}

/// The machine's grade, and how much of it is promised.
fn title(status: &NodeStatus) -> String {
    let l1 = &status.layers.l1_execution;
    let doubt = match status.layers.l4_session.in_doubt {
        0 => String::new(),
        turns => format!("  in doubt {turns}"),
    };
    let stopped = match status.layers.l4_session.stopped {
        0 => String::new(),
        turns => format!("  stopped {turns}"),
    };
    let waits = match status.layers.l7_governance.pending {
        0 => String::new(),
        calls => format!("  waiting for people {calls}"),
    };
    let promised: Vec<String> = l1.promised.iter().map(|share| format!("{:.0} %", share * 100.0)).collect();
    format!(
        "grade {}  agents {}  turns {}  promised {}  reserved {}  peers {}{doubt}{stopped}{waits}",
        l1.machine.as_ref().map(|machine| machine.grade.to_string()).unwrap_or_default(),
        l1.agents,
        l1.turns,
        promised.join(", "),
        l1.reserved,
        status.layers.l2_communication.peers
    )
}

fn draw(frame: &mut Frame<'_>, title: &str, panes: &[Pane]) {
    let heights = panes.iter().map(|pane| Constraint::Fill(u16::try_from(pane.rows.len() + 3).unwrap_or(u16::MAX)));
    let areas = Layout::vertical([Constraint::Length(1)].into_iter().chain(heights).chain([Constraint::Length(1)]))
        .split(frame.area());
    let title = cut(title, usize::from(areas[0].width));
    frame.render_widget(Line::from(title).style(Style::new().add_modifier(Modifier::BOLD)), areas[0]);
    for (pane, area) in panes.iter().zip(areas.iter().skip(1)) {
        frame.render_widget(pane_table(pane, *area), *area);
    }
    if panes.is_empty() {
        frame.render_widget(Paragraph::new("no agent runs here; `althing agent add FILE` adds one"), frame.area());
    }
    if let Some(last) = areas.last() {
        frame.render_widget(Line::from("q ends").style(Style::new().add_modifier(Modifier::DIM)), *last);
    }
}

/// The table of a pane as it fits into that area: columns for which there is no room are left out from the right, and the border says
/// how many.
fn pane_table(pane: &Pane, area: Rect) -> Table<'static> {
    let block = Block::bordered();
    let room = usize::from(block.inner(area).width);
    let head: Vec<String> =
        std::iter::once("name").chain(pane.head.iter().copied().skip(1)).map(str::to_owned).collect();
    let rows: Vec<Vec<String>> = pane.rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let widest = |column: usize| {
        let cells = rows.iter().chain([&head]).filter_map(|row| row.get(column));
        cells.map(|cell| width(cell)).max().unwrap_or_default()
    };
    let widths = fitting(&(0..head.len()).map(widest).collect::<Vec<_>>(), room);
    let row = |cells: &[String]| {
        Row::new(cells.iter().zip(&widths).map(|(cell, width)| cut(cell, *width)).collect::<Vec<_>>())
    };
    let title = match head.len() - widths.len() {
        0 => pane.head[0].to_owned(),
        1 => format!("{}, without 1 column", pane.head[0]),
        left_out => format!("{}, without {left_out} columns", pane.head[0]),
    };
    let lengths = widths.iter().map(|width| Constraint::Length(u16::try_from(*width).unwrap_or(u16::MAX)));
    Table::new(rows.iter().map(|cells| row(cells)).collect::<Vec<_>>(), lengths)
        .header(row(&head).style(Style::new().add_modifier(Modifier::DIM)))
        .block(block.title(cut(&title, room)))
}

/// How wide those columns are of which the widest cells are so wide, one cell apart: as many as fit whole, and the next one cut, if
/// that leaves something of it. The first one is always there.
fn fitting(widest: &[usize], room: usize) -> Vec<usize> {
    let (mut widths, mut left) = (Vec::new(), room);
    for &wanted in widest {
        let is_first = widths.is_empty();
        let room = if is_first { left } else { left.saturating_sub(1) };
        if wanted > room {
            if is_first || room >= CUT_MIN {
                widths.push(room);
            }
            break;
        }
        widths.push(wanted);
        left = room - wanted;
    }
    widths
}

/// A text in that many cells of a terminal: one that does not fit ends with a sign of that.
fn cut(text: &str, room: usize) -> String {
    if width(text) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    for c in text.chars() {
        kept.push(c);
        if width(&kept) >= room {
            kept.pop();
            break;
        }
    }
    kept + "…"
}

/// Cells of a terminal that a text takes.
fn width(text: &str) -> usize {
    Line::from(text).width()
}

#[cfg(test)]
mod tests {
    use althing_api::{
        AgentInstance, CallStatus, CommunicationStatus, DiscoveryStatus, ExecutionStatus, GovernanceTotals, GroupEntry,
        GroupTotals, GroupWork, HardJobs, HealthStatus, KeyStatus, LayerStatus, MachineStatus, ReachStatus,
        SessionTotals, TableStatus, VerificationTotals, WakeUp,
    };
    use althing_protocol::contract::Grade;
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;

    use super::*;
    use crate::commands::group_status::tests::summary;
    use crate::commands::panes::tests::{instance, jobs, list};

    fn status() -> NodeStatus {
        let wake_up_us = WakeUp { p50: 3.0, p99: 40.0, p999: 81.0, max: 90.0, samples: 1_000 };
        let machine = MachineStatus { grade: Grade::A, real_time: "at every priority".to_owned(), wake_up_us };
        let reach = ReachStatus {
            state: "unknown".to_owned(),
            confirmed: Vec::new(),
            relays: Vec::new(),
            failures: Vec::new(),
            announced: Vec::new(),
        };
        NodeStatus {
            node: "did:key:z6Mk".to_owned(),
            owner: "urn:althing:zQm".to_owned(),
            owner_keys: KeyStatus { state: "active".to_owned(), key: "z6Mo".to_owned(), events: 1 },
            network: "althing".to_owned(),
            private: false,
            version: "0.1.0".to_owned(),
            gateway: None,
            notes: Vec::new(),
            layers: LayerStatus {
                l1_execution: ExecutionStatus {
                    agents: 3,
                    turns: 2,
                    machine: Some(machine),
                    reserved: 0,
                    promised: vec![0.11],
                },
                l2_communication: CommunicationStatus {
                    peers: 4,
                    listening: Vec::new(),
                    reach,
                    streams_refused: 0,
                    table: TableStatus { nodes: 0, values: 0, providers: 0, refused: 0 },
                },
                l3_discovery: DiscoveryStatus { nodes: 1, agents: 3, dial_targets: 0, refused: 0 },
                calls: CallStatus { live_tasks: 0 },
                l4_session: SessionTotals { sessions: 1, in_doubt: 1, stopped: 0 },
                l5_coordination: GroupTotals { groups: 1, led: 1, without_leader: 0, tasks: 0 },
                l6_verification: VerificationTotals::default(),
                l7_governance: GovernanceTotals { policy: None, pending: 1, audit_entries: 0, audit_failure: None },
                health: HealthStatus::default(),
            },
        }
    }

    #[test]
    fn each_class_has_a_pane_of_its_own() {
        let arm = AgentInstance { hrt: Some(jobs(1_234)), ..instance("arm", "hrt") };
        let list = list(vec![arm, instance("clerk", "srt"), instance("planner", "dt")]);
        let status = status();
        let work = GroupWork {
            waiting: 3,
            working: 1,
            completed: 0,
            failed: 0,
            redone: 2,
            handed_over: 0,
            stolen: 0,
            runs: 1,
            asking: 1,
            alarms: vec!["nightly".to_owned()],
        };
        let of_groups =
            GroupList { groups: vec![GroupEntry { summary: summary("member"), work: Some(work), lag: Some(0) }] };
        let mut all = panes(&list);
        all.extend(groups(&of_groups));
        let mut terminal = Terminal::new(TestBackend::new(110, 24)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &title(&status), &all)).expect("drawn");
        let shown = terminal.backend().to_string();
        for wanted in [
            "grade A",
            "promised 11 %",
            "hard real-time",
            "soft real-time",
            "delay-tolerant",
            "1234",
            "clerk",
            "team",
            "nightly",
            "in doubt 1",
            "people 1",
            "q ends",
        ] {
            assert!(shown.contains(wanted), "{wanted} in\n{shown}");
        }
        assert!(!shown.contains("without"), "there is room for all:\n{shown}");
        // A very small terminal must not cause a panic.
        let mut terminal = Terminal::new(TestBackend::new(3, 2)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &title(&status), &panes(&list))).expect("drawn");
    }

    #[test]
    fn a_figure_is_shown_whole_or_with_a_sign_that_it_is_cut_however_narrow_the_terminal_is() {
        let jobs = HardJobs { response_p99_us: 28_738_455.0, response_bound_us: 31_100_000.0, ..jobs(1_234) };
        let why = Some("it missed its deadline".to_owned());
        let list = list(vec![AgentInstance { hrt: Some(jobs), why, ..instance("arm", "hrt") }]);
        let cells = [("123", "1234"), ("287", "28738455"), ("311", "31100000"), ("was", "wasm"), ("deadl", "deadline")];
        let (mut whole, mut left_out) = (false, false);
        for columns in 12..=150 {
            let mut terminal = Terminal::new(TestBackend::new(columns, 8)).expect("a terminal");
            terminal.draw(|frame| draw(frame, "grade A  peers 28738455", &panes(&list))).expect("drawn");
            let shown = terminal.backend().to_string();
            for word in shown.split(|c: char| c.is_whitespace() || "│\"".contains(c)) {
                let of = cells.iter().find(|(begins, _)| word.starts_with(*begins));
                let is_told = of.is_none_or(|(_, cell)| word == *cell || word.ends_with('…'));
                assert!(is_told, "{word} in {columns} columns:\n{shown}");
            }
            whole = shown.contains("31100000") && shown.contains("its deadline");
            left_out |= shown.contains("real-time, without");
            assert_ne!(whole, shown.contains("without") || shown.contains('…'), "{columns} columns:\n{shown}");
        }
        assert!(whole && left_out, "it begins too narrow, and ends wide enough");
    }

    #[test]
    fn columns_are_whole_as_long_as_they_fit() {
        assert_eq!(fitting(&[4, 8, 5], 19), [4, 8, 5]);
        assert_eq!(fitting(&[4, 8, 5], 18), [4, 8, 4], "the last one is cut");
        assert_eq!(fitting(&[4, 8, 5], 17), [4, 8], "too little of it would be left");
        assert_eq!(fitting(&[4, 8, 5], 1), [1]);
        assert_eq!(fitting(&[4, 8, 5], 0), [0]);
        assert_eq!((cut("28738455", 8).as_str(), cut("28738455", 4).as_str()), ("28738455", "287…"));
        assert_eq!((cut("漢字漢字", 5).as_str(), cut("ab", 1).as_str()), ("漢字…", "…"));
    }
}
