//! `althing route`.

use std::fmt;
use std::path::Path;

use althing_api::{
    ChannelAgent, ChannelReply, RouteChannel, RouteChoice, RouteEmbeddings, RouteEvaluation, RouteFile, RouteLesson,
    RouteRemoval, RouteReply, RouteReport, RouteRequest, RouteScore, UPLOAD_FILE_BYTES_MAX,
};
use althing_store::file::read_text;
use serde::Serialize;
use serde_json::json;

use crate::args::{Call, Route, RouteWork};
use crate::commands::{Out, call, plain, print_line, short, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Sends a sentence to the agent that it is for; exits with 4 when there is none, or when two are close.
pub async fn run(at: &Paths, route: &Route, out: &Out) -> Result<(), Failure> {
    match (&route.work, &route.eval) {
        (Some(RouteWork::Learn { file }), _) => learn(at, file, out).await,
        (Some(RouteWork::Forget), _) => {
            let removal: RouteRemoval = at.connect().await?.remove("/route/learn").await?;
            out.show(&removal, |removal| format!("{} sentences are forgotten", removal.forgotten));
            Ok(())
        }
        (Some(RouteWork::Channel { capabilities, anyone }), _) => {
            let request = RouteChannel { capabilities: capabilities.clone(), anyone: *anyone };
            let resolved: ChannelReply = at.connect().await?.ask("/route/channel", &request).await?;
            out.show(&resolved, channel);
            Ok(())
        }
        (None, Some(file)) => evaluate(at, file, route, out).await,
        (None, None) => sentence(at, route, out).await,
    }
}

/// A file of labelled sentences: what it is called, and its text.
fn read(file: &Path) -> Result<(String, String), Failure> {
    let name = file.display().to_string();
    match read_text(file, UPLOAD_FILE_BYTES_MAX as u64) {
        Ok(text) => Ok((name, text)),
        Err(error) => Err(Failure::usage(format!("{name}: {error}"))),
    }
}

async fn learn(at: &Paths, file: &Path, out: &Out) -> Result<(), Failure> {
    let (name, text) = read(file)?;
    let request = RouteFile { name, text };
    let lesson: RouteLesson = at.connect().await?.ask("/route/learn", &request).await?;
    out.show(&lesson, |RouteLesson { learned, known }| {
        format!("learned {learned} sentences; this node knows {known} now")
    });
    Ok(())
}

async fn evaluate(at: &Paths, file: &Path, route: &Route, out: &Out) -> Result<(), Failure> {
    let (name, text) = read(file)?;
    let request = RouteEvaluation { name, text, mode: route.mode.map(Into::into) };
    let report: RouteReport = at.connect().await?.ask("/route/eval", &request).await?;
    out.show(&report, evaluation);
    Ok(())
}

fn evaluation(report: &RouteReport) -> String {
    let share = |value: Option<f64>| value.map_or_else(|| "-".to_owned(), |share| format!("{share:.4}"));
    let cells = |score: &RouteScore| {
        let mode = score.mode.name();
        vec![
            if score.dense { format!("{mode} (embeddings)") } else { mode.to_owned() },
            share(score.accuracy),
            share(score.refusal),
            score.close.to_string(),
            format!("{:.1}", score.route_ns as f64 / 1e3),
        ]
    };
    let all: Vec<Vec<String>> = report.modes.iter().map(cells).collect();
    let embedded = match &report.embeddings {
        Some(RouteEmbeddings { missing: Some(missing), .. }) => format!("without dense vectors: {missing}\n"),
        Some(RouteEmbeddings { model, missing: None, took_us }) => {
            format!("{model} took {:.1} ms for each tested sentence\n", *took_us as f64 / 1e3)
        }
        None => String::new(),
    };
    let RouteReport { tested, agents, learned_of_file, learned_before, learning_ms, .. } = report;
    format!(
        "{}\n{tested} sentences for {agents} agents and for none; {learned_of_file} of the file were learned first, {learned_before} \
         before; learning took {learning_ms} ms\n{embedded}",
        table(&["mode", "accuracy", "out of scope refused", "asked back", "µs per route"], &all),
    )
}

fn channel(resolved: &ChannelReply) -> String {
    let cells =
        |one: &ChannelAgent| vec![one.capability.clone(), one.name.clone(), one.version.clone(), short(&one.node)];
    let all: Vec<Vec<String>> = resolved.channel.iter().map(cells).collect();
    table(&["capability", "agent", "version", "node"], &all)
}

/// What scripts are shown of a route: the scores of others only where they are asked for.
fn route_json(routed: &RouteReply, explain: bool) -> impl Serialize + fmt::Display {
    let mut told = json!(routed);
    if !explain && let Some(members) = told.as_object_mut() {
        members.remove("best");
    }
    told
}

async fn sentence(at: &Paths, route: &Route, out: &Out) -> Result<(), Failure> {
    let request = RouteRequest {
        text: route.text.join(" "),
        mode: route.mode.map(Into::into).unwrap_or_default(),
        anyone: route.anyone,
    };
    let routed: RouteReply = at.connect().await?.ask("/route", &request).await?;
    let missing = routed.embeddings.as_ref().and_then(|embeddings| embeddings.missing.as_ref());
    if let Some(missing) = missing.filter(|_| !out.json) {
        eprint!("{}", plain(&format!("routed without dense vectors: {missing}\n"), &std::io::stderr()));
    }
    if route.explain && !out.json {
        eprint!("{}", plain(&explained(&routed), &std::io::stderr()));
    }
    let told = route_json(&routed, route.explain);
    let show = || {
        if out.json {
            out.show(&told, |_| String::new());
        }
    };
    match routed.chosen.as_slice() {
        [one] if route.dry_run => {
            out.show(&told, |_| one.name.clone());
            Ok(())
        }
        [one] => {
            if out.json {
                print_line(&json!({ "routed": told }).to_string());
            } else {
                eprintln!("to {}", plain(&one.name, &std::io::stderr()));
            }
            let agent = one.agent.clone();
            let call = Call { agent, text: route.text.clone(), task: None, explain: false, anyone: route.anyone };
            call::run(at, &call, out).await
        }
        [] => {
            show();
            let message =
                "no agent is for that; `--explain` shows how they score, `althing find` lists all that are known";
            Err(Failure::new(code::NOT_FOUND, if out.json { "" } else { message }))
        }
        close => {
            show();
            let named = close.iter().map(|one| format!("{} ({})", one.name, one.title));
            let named = named.collect::<Vec<_>>().join(" or for ");
            let question = format!("is that for {named}? Say it to one of them: `althing call NAME …`");
            Err(Failure::new(code::NOT_FOUND, if out.json { String::new() } else { question }))
        }
    }
}

/// How the candidates score.
fn explained(routed: &RouteReply) -> String {
    let score = |score: f64| format!("{score:.2}");
    let cells = |choice: &RouteChoice| {
        let publisher = if choice.stranger { "a stranger's" } else { "" };
        let scores = [choice.keyword, choice.vector, choice.score].map(score);
        [vec![choice.name.clone()], scores.to_vec(), vec![publisher.to_owned()]].concat()
    };
    let all: Vec<Vec<String>> = routed.best.iter().map(cells).collect();
    let shown = if all.is_empty() { String::new() } else { table(&["agent", "keyword", "vector", "score", ""], &all) };
    let RouteReply { considered, left_out, learned, took_us, .. } = routed;
    format!(
        "{shown}mode {}: from a score of {} on it is for an agent; {considered} agents considered, {left_out} of strangers left out; \
         {learned} sentences learned; {took_us} µs\n",
        routed.mode.name(),
        score(routed.threshold),
    )
}

#[cfg(test)]
mod tests {
    use althing_api::RouteMode;

    use super::*;

    #[test]
    fn scripts_are_shown_how_others_score_only_where_they_ask_for_it() {
        let routed = RouteReply {
            chosen: Vec::new(),
            best: Vec::new(),
            mode: RouteMode::Hybrid,
            threshold: 0.25,
            considered: 2,
            left_out: 1,
            learned: 0,
            took_us: 7,
            embeddings: None,
        };
        // In the order that it always had.
        let expected =
            r#"{"chosen":[],"tookUs":7,"mode":"hybrid","threshold":0.25,"considered":2,"leftOut":1,"learned":0}"#;
        assert_eq!(route_json(&routed, false).to_string(), expected);
        assert_eq!(route_json(&routed, true).to_string(), json!(routed).to_string());
        assert!(explained(&routed).starts_with("mode hybrid: from a score of 0.25 on it is for an agent; 2 agents"));
    }

    #[test]
    fn an_evaluation_is_told_mode_by_mode() {
        let score = RouteScore {
            mode: RouteMode::Vector,
            dense: true,
            by_model: false,
            in_scope: 4,
            right: 3,
            close: 1,
            refused_in_scope: 0,
            out_of_scope: 0,
            refused: 0,
            threshold: 0.25,
            route_ns: 1_500,
            mistakes: Vec::new(),
            accuracy: Some(0.75),
            refusal: None,
        };
        let embeddings = RouteEmbeddings { model: "small".to_owned(), missing: None, took_us: 2_500 };
        let report = RouteReport {
            modes: vec![score],
            agents: 2,
            learned_of_file: 3,
            learned_before: 0,
            tested: 4,
            learning_ms: 6,
            embeddings: Some(embeddings),
        };
        let told = evaluation(&report);
        let row: Vec<&str> = told.lines().nth(1).expect("a row").split_whitespace().collect();
        assert_eq!(row.join(" "), "vector (embeddings) 0.7500 - 1 1.5");
        let last = "4 sentences for 2 agents and for none; 3 of the file were learned first, 0 before; learning took 6 ms\n\
                    small took 2.5 ms for each tested sentence\n";
        assert!(told.ends_with(last), "{told}");
    }
}
