//! `GET /logs`: what the programs of an agent of this node said, as lines.

use std::sync::Arc;

use althing_api::{Kind, LogEntry, LogGap, LogsRequest, ProgramLine};
use althing_execution::process::{LogLine, LogPage, ProgramLog};
use althing_operations::Operations;
use axum::extract::State;
use axum::response::Response;
use futures::{StreamExt as _, stream};

use crate::body::Parameters;
use crate::error::ApiError;
use crate::lines::ndjson;
use crate::near;

/// Reads a log, from its beginning.
struct Reader {
    node: Arc<Operations>,
    log: ProgramLog,
    /// The line that is read next.
    from: u64,
    /// Whether it is read on when all of it was read.
    follow: bool,
    has_begun: bool,
}

/// Shows what is kept of a log, and what comes, until whoever asked hangs up.
pub async fn logs(
    State(node): State<Arc<Operations>>,
    Parameters(asked): Parameters<LogsRequest>,
) -> Result<Response, ApiError> {
    let LogsRequest { agent, follow } = asked;
    let known = near::own_agents(&node);
    let is_known = known.contains(&agent) || node.agents.status(&agent).is_some();
    if !is_known {
        let message =
            format!("this node has no agent {agent:?}; what the programs of other nodes' agents say is shown there");
        return Err(ApiError::new(Kind::NotFound, message).or_meant(&agent, &known));
    }
    let log = node.host.process.logs.of(&agent);
    let reader = Reader { node, log, from: 0, follow, has_begun: false };
    let pages = stream::unfold(reader, |mut reader| async move {
        let page = reader.next().await?;
        let lines = lines(&page, reader.node.clock().now_ms());
        Some((lines, reader))
    });
    Ok(ndjson(pages.flat_map(stream::iter)))
}

impl Reader {
    /// The next lines: what there is at first, and then what comes.
    async fn next(&mut self) -> Option<LogPage> {
        if self.has_begun {
            if !self.follow {
                return None;
            }
            tokio::select! {
                () = self.node.stop.cancelled() => return None,
                () = self.log.reached(self.from) => {}
            }
        }
        self.has_begun = true;
        let page = self.log.page(self.from);
        self.from = page.next;
        Some(page)
    }
}

fn lines(page: &LogPage, now_ms: u64) -> Vec<LogEntry> {
    let gone = (page.gone > 0).then_some(LogEntry::Gap(LogGap { gone: page.gone }));
    gone.into_iter().chain(page.lines.iter().map(|line| LogEntry::Line(said(line, now_ms)))).collect()
}

/// One line.
fn said(line: &LogLine, now_ms: u64) -> ProgramLine {
    let ago_ms = u64::try_from(line.at.elapsed().as_millis()).unwrap_or(u64::MAX);
    let at_ms = now_ms.saturating_sub(ago_ms);
    ProgramLine { program: line.program.to_string(), text: line.text.clone(), at_ms }
}

/// What a program of that agent said last, if one did.
pub fn last(node: &Operations, agent: &str) -> Option<ProgramLine> {
    let line = node.host.process.logs.get(agent)?.last()?;
    Some(said(&line, node.clock().now_ms()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn lines_have_the_time_at_which_they_were_said_and_what_is_gone_is_told() {
        let log = ProgramLog::default();
        log.writer("tools.maps").write("no map");
        tokio::time::advance(std::time::Duration::from_millis(1_500)).await;
        let line = ProgramLine { program: "tools.maps".to_owned(), text: "no map".to_owned(), at_ms: 8_500 };
        let expected = LogEntry::Line(line);
        assert_eq!(lines(&log.page(0), 10_000), std::slice::from_ref(&expected));
        let page = LogPage { gone: 3, ..log.page(0) };
        assert_eq!(lines(&page, 10_000), [LogEntry::Gap(LogGap { gone: 3 }), expected]);
    }
}
