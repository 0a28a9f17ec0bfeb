//! `althing top`: the node as it is now, a pane for each class.

use std::io::IsTerminal as _;
use std::time::Duration;

use althing_api::{AgentEntries, GroupList, NodeStatus};
use althing_client::{Client, ClientError};
use ratatui::Frame;
use ratatui::crossterm::event::{Event, KeyCode, KeyModifiers, poll, read};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Modifier, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use serde_json::json;

use crate::args::Top;
use crate::commands::panes::{Pane, groups, panes};
use crate::commands::{Out, plain, print_line, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Between two polls of the keyboard.
const KEYS: Duration = Duration::from_millis(50);

/// Shows the node until `q`, Ctrl-C, or `--count` times. If standard output is not a terminal, it is printed instead.
pub async fn run(at: &Paths, top: &Top, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let (every, most) = (Duration::from_secs(top.interval), top.count.unwrap_or(u64::MAX));
    if out.json || !std::io::stdout().is_terminal() {
        for shown in 0..most {
            let (list, status) = look(&client).await?;
            let of_groups: GroupList = client.read("/groups").await?;
            if out.json {
                let execution = &status.layers.l1_execution;
                let shown = json!({ "agents": list.agents, "execution": execution, "groups": of_groups.groups });
                print_line(&shown.to_string());
            } else {
                print_line(&title(&status));
                panes(&list)
                    .iter()
                    .chain(&groups(&of_groups))
                    .for_each(|pane| print_line(table(&pane.head, &pane.rows).trim_end()));
            }
            if shown + 1 < most {
                tokio::time::sleep(every).await;
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
    frame.render_widget(Line::from(title.to_owned()).style(Style::new().add_modifier(Modifier::BOLD)), areas[0]);
    for (pane, area) in panes.iter().zip(areas.iter().skip(1)) {
        frame.render_widget(pane_table(pane), *area);
    }
    if panes.is_empty() {
        frame.render_widget(Paragraph::new("no agent runs here; `althing agent add FILE` adds one"), frame.area());
    }
    if let Some(last) = areas.last() {
        frame.render_widget(Line::from("q ends").style(Style::new().add_modifier(Modifier::DIM)), *last);
    }
}

fn pane_table(pane: &Pane) -> Table<'static> {
    let stdout = std::io::stdout();
    let head = pane.head.iter().map(|name| (*name).to_owned());
    let rows: Vec<Row<'static>> =
        pane.rows.iter().map(|row| Row::new(row.iter().map(|cell| plain(cell, &stdout)).collect::<Vec<_>>())).collect();
    let widths: Vec<Constraint> = (0..pane.head.len())
        .map(|column| {
            let cells = pane.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
            let widest = cells.chain([pane.head[column].chars().count()]).max().unwrap_or_default();
            Constraint::Length(u16::try_from(widest).unwrap_or(u16::MAX))
        })
        .collect();
    let head: Vec<String> = std::iter::once("name".to_owned()).chain(head.skip(1)).collect();
    Table::new(rows, widths)
        .header(Row::new(head).style(Style::new().add_modifier(Modifier::DIM)))
        .block(Block::bordered().title(pane.head[0]))
}

#[cfg(test)]
mod tests {
    use althing_api::{
        AgentInstance, CallStatus, CommunicationStatus, DiscoveryStatus, ExecutionStatus, GovernanceTotals, GroupEntry,
        GroupTotals, GroupWork, HealthStatus, KeyStatus, LayerStatus, MachineStatus, ReachStatus, SessionTotals,
        TableStatus, VerificationTotals, WakeUp,
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
        // A very small terminal must not cause a panic.
        let mut terminal = Terminal::new(TestBackend::new(3, 2)).expect("a terminal");
        terminal.draw(|frame| draw(frame, &title(&status), &panes(&list))).expect("drawn");
    }
}
