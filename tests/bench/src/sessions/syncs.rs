//! How often a process has the disk keep what it wrote, as strace counts it.

use std::path::Path;
use std::process::Stdio;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

/// The system calls by which a program does so.
const SYNCS: &str = "fdatasync,fsync,msync,sync_file_range";

/// The syncs of a process while `work` is done; none where strace is not there, or may not attach.
pub async fn during(pid: u32, folder: &Path, work: impl Future<Output = ()>) -> Option<u64> {
    let counts = folder.join(format!("syncs-{pid}"));
    let mut tracer = Command::new("strace")
        .args(["-f", "-c", "-e", &format!("trace={SYNCS}"), "-p", &pid.to_string(), "-o"])
        .arg(&counts)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .ok()?;
    let mut lines = BufReader::new(tracer.stderr.take()?).lines();
    if !lines.next_line().await.ok()??.contains("attached") {
        return None;
    }
    // It says more for each thread, and waits if nobody reads that.
    let reading = tokio::spawn(async move { while let Ok(Some(_)) = lines.next_line().await {} });
    work.await;
    // It writes what it counted when it is interrupted, and leaves the process to itself.
    kill(Pid::from_raw(i32::try_from(tracer.id()?).ok()?), Signal::SIGINT).ok()?;
    tracer.wait().await.ok()?;
    reading.abort();
    Some(counted(&std::fs::read_to_string(&counts).ok()?))
}

/// The sum of the column of calls: `% time, seconds, usecs/call, calls, [errors,] syscall`. Nothing was called where it is empty.
fn counted(table: &str) -> u64 {
    let rows = table.lines().filter(|line| line.split_whitespace().last().is_some_and(|name| SYNCS.contains(name)));
    rows.filter_map(|line| line.split_whitespace().nth(3)?.parse::<u64>().ok()).sum()
}
