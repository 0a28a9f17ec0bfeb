//! What the programs of each agent said last: its own, and those of its tool servers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::Notify;
use tokio::time::Instant;

/// Bytes that are kept of what the programs of one agent said; the oldest lines go first.
pub const LOG_BYTES_MAX: usize = 64 << 10;
/// Bytes that a line counts for beside its text.
const LINE_BYTES: usize = 64;
/// Agents of which a log is kept at most; beyond that those go whose programs are gone.
const LOGS_MAX: usize = 1_024;
/// Who says what the node itself writes into a log.
const NODE: &str = "node";

/// A line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// Which program said it: `runtime` is the agent's own, `tools.NAME` that of a tool server; `node` is the node.
    pub program: Arc<str>,
    /// What it said, without control characters.
    pub text: String,
    /// When.
    pub at: Instant,
}

/// Lines of a log, one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogPage {
    /// The lines, the oldest first.
    pub lines: Vec<LogLine>,
    /// How many were asked for and are not kept any more.
    pub gone: u64,
    /// The number of the line that comes next.
    pub next: u64,
}

/// What the programs of one agent said last. Copies are of the same log.
#[derive(Debug, Clone, Default)]
pub struct ProgramLog(Arc<Book>);

#[derive(Debug, Default)]
struct Book {
    ring: Mutex<Ring>,
    grew: Notify,
}

#[derive(Debug, Default)]
struct Ring {
    lines: VecDeque<LogLine>,
    bytes: usize,
    /// Lines that were written since the log began.
    next: u64,
}

impl ProgramLog {
    /// Writes what one program says.
    #[must_use]
    pub fn writer(&self, program: &str) -> LogWriter {
        LogWriter { log: self.clone(), program: program.into() }
    }

    /// What the node has to say of a program.
    pub fn note(&self, text: &str) {
        self.writer(NODE).write(text);
    }

    /// The lines from that number on, as far as they are kept; the first line has the number 0.
    #[must_use]
    pub fn page(&self, from: u64) -> LogPage {
        let ring = self.ring();
        let first = ring.next - ring.lines.len() as u64;
        let skipped = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let lines = ring.lines.iter().skip(skipped).cloned().collect();
        LogPage { lines, gone: first.saturating_sub(from), next: ring.next }
    }

    /// What a program said last; nothing of the node's.
    #[must_use]
    pub fn last(&self) -> Option<LogLine> {
        self.ring().lines.iter().rev().find(|line| &*line.program != NODE).cloned()
    }

    /// Waits until there is a line of that number.
    pub async fn reached(&self, number: u64) {
        loop {
            let grew = self.0.grew.notified();
            tokio::pin!(grew);
            grew.as_mut().enable();
            if self.ring().next > number {
                return;
            }
            grew.await;
        }
    }

    fn add(&self, line: LogLine) {
        {
            let mut ring = self.ring();
            ring.bytes += line.text.len() + LINE_BYTES;
            ring.lines.push_back(line);
            ring.next += 1;
            while ring.bytes > LOG_BYTES_MAX
                && let Some(oldest) = ring.lines.pop_front()
            {
                ring.bytes -= oldest.text.len() + LINE_BYTES;
            }
        }
        self.0.grew.notify_waiters();
    }

    fn ring(&self) -> MutexGuard<'_, Ring> {
        self.0.ring.lock().expect("no holder of a log panics")
    }
}

/// Writes what one program says into the log of its agent.
#[derive(Debug, Clone, Default)]
pub struct LogWriter {
    log: ProgramLog,
    program: Arc<str>,
}

impl LogWriter {
    /// Writes a line, unless it is empty.
    pub fn write(&self, text: &str) {
        let text = text.trim_end();
        if !text.is_empty() {
            self.log.add(LogLine { program: self.program.clone(), text: text.to_owned(), at: Instant::now() });
        }
    }
}

/// The logs of a node's agents, by their names. Copies are of the same logs.
#[derive(Debug, Clone, Default)]
pub struct ProgramLogs(Arc<Mutex<BTreeMap<String, ProgramLog>>>);

impl ProgramLogs {
    /// The log of an agent, which begins where there is none. Of who has no name it is one that nobody else reads.
    #[must_use]
    pub fn of(&self, agent: &str) -> ProgramLog {
        if agent.is_empty() {
            return ProgramLog::default();
        }
        let mut logs = self.logs();
        if logs.len() >= LOGS_MAX && !logs.contains_key(agent) {
            // Whoever writes into one holds it.
            logs.retain(|_, log| Arc::strong_count(&log.0) > 1);
        }
        logs.entry(agent.to_owned()).or_default().clone()
    }

    /// The log of an agent, if its programs said something.
    #[must_use]
    pub fn get(&self, agent: &str) -> Option<ProgramLog> {
        self.logs().get(agent).cloned()
    }

    /// Forgets the log of an agent that was removed.
    pub fn forget(&self, agent: &str) {
        self.logs().remove(agent);
    }

    fn logs(&self) -> MutexGuard<'_, BTreeMap<String, ProgramLog>> {
        self.0.lock().expect("no holder of the logs panics")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(page: &LogPage) -> Vec<&str> {
        page.lines.iter().map(|line| line.text.as_str()).collect()
    }

    #[test]
    fn a_log_has_the_lines_of_all_programs_in_their_order_and_is_read_on() {
        let log = ProgramLogs::default().of("weather");
        assert_eq!(log.page(0), LogPage::default());
        let (own, tool) = (log.writer("runtime"), log.writer("tools.maps"));
        own.write("one\n");
        tool.write("two");
        own.write("  \n");
        let page = log.page(0);
        assert_eq!((texts(&page), page.gone, page.next), (vec!["one", "two"], 0, 2), "an empty line is none");
        assert_eq!(&*page.lines[1].program, "tools.maps");
        log.note("it ended");
        assert_eq!(texts(&log.page(page.next)), ["it ended"]);
        assert_eq!(log.last().map(|line| line.text), Some("two".to_owned()), "what the node says is not its last word");
    }

    #[test]
    fn a_log_is_bounded_in_bytes_however_short_the_lines_are() {
        let log = ProgramLog::default();
        let writer = log.writer("runtime");
        for (text, count) in [("x", 100_000_u64), (&*"y".repeat(4_000), 1_000)] {
            let before = log.page(u64::MAX).next;
            (0..count).for_each(|_| writer.write(text));
            let page = log.page(before);
            let bytes: usize = page.lines.iter().map(|line| line.text.len() + LINE_BYTES).sum();
            assert!(bytes <= LOG_BYTES_MAX && bytes > LOG_BYTES_MAX - 2 * (4_000 + LINE_BYTES), "{bytes}");
            assert_eq!(page.gone + page.lines.len() as u64, count);
        }
    }

    #[test]
    fn a_log_goes_with_its_agent_and_whoever_has_no_name_has_none() {
        let logs = ProgramLogs::default();
        logs.of("weather").note("here");
        logs.of("").note("nowhere");
        assert!(logs.get("").is_none());
        assert_eq!(logs.get("weather").expect("it has one").page(0).next, 1);
        logs.forget("weather");
        assert!(logs.get("weather").is_none());
        for number in 0..2 * LOGS_MAX {
            logs.of(&format!("agent {number}")).note("gone");
        }
        assert!(logs.logs().len() <= LOGS_MAX);
    }

    #[tokio::test]
    async fn whoever_follows_a_log_is_woken_by_its_next_line() {
        let log = ProgramLog::default();
        log.note("before");
        log.reached(0).await;
        let follower = log.clone();
        let waiting = tokio::spawn(async move { follower.reached(1).await });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        log.note("after");
        waiting.await.expect("it was woken");
    }
}
