//! Says what a command waits for, once that has taken a second.

use std::pin::pin;
use std::time::Duration;

use althing_api::WaitReply;
use althing_client::Client;

use crate::commands::{Out, plain};

/// How long nothing is said.
const SILENT_MAX: Duration = Duration::from_secs(1);

/// Waits for `work`. Once that has taken a second, and each second after it, `look` tells what it waits for, which is printed to
/// standard error where it is another thing than before; scripts are not told.
pub async fn telling<T>(work: impl Future<Output = T>, look: impl AsyncFnMut() -> Option<String>, out: &Out) -> T {
    if out.json {
        return work.await;
    }
    follow(work, look, |words| eprintln!("… {}", plain(words, &std::io::stderr()))).await
}

async fn follow<T>(
    work: impl Future<Output = T>,
    mut look: impl AsyncFnMut() -> Option<String>,
    mut tell: impl FnMut(&str),
) -> T {
    let mut work = pin!(work);
    let mut told = None;
    loop {
        tokio::select! {
            done = &mut work => return done,
            () = tokio::time::sleep(SILENT_MAX) => {}
        }
        let words = tokio::select! {
            done = &mut work => return done,
            words = look() => words,
        };
        if let Some(words) = words.filter(|words| told.as_ref() != Some(words)) {
            tell(&words);
            told = Some(words);
        }
    }
}

/// What a call of an agent waits for, as the node sees it; nothing where it does not say. The agent's name is escaped.
pub async fn of_call(client: &Client, escaped: &str, anyone: bool) -> Option<String> {
    let asked: WaitReply = client.read(&format!("/waits/{escaped}?anyone={anyone}")).await.ok()?;
    Some(asked.waits).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn after_a_second_it_is_said_once_what_is_waited_for_and_again_when_it_is_something_else() {
        let mut said = Vec::new();
        let mut looks = 0;
        let look = async || {
            looks += 1;
            Some(if looks < 3 { "it is starting" } else { "it works" }.to_owned())
        };
        let work = async {
            tokio::time::sleep(Duration::from_millis(4_500)).await;
            7
        };
        let done = follow(work, look, |words| said.push(words.to_owned())).await;
        assert_eq!((done, said), (7, vec!["it is starting".to_owned(), "it works".to_owned()]));
        let silent = async || -> Option<String> { unreachable!("it is not asked") };
        let quick = follow(async { 8 }, silent, |words| unreachable!("nothing is said: {words}")).await;
        assert_eq!(quick, 8);
    }
}
