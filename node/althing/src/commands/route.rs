//! `althing route`.

use std::path::{Path, PathBuf};

use althing_api::{RouteChannel, RouteEvaluation, RouteFile, RouteRequest};
use serde_json::{Value, json};

use crate::args::{Call, Route, RouteWork};
use crate::commands::{Out, call, plain, print_line, rows, short, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Sends a sentence to the agent that it is for; exits with 4 when there is none, or when two are close.
pub async fn run(at: &Paths, route: &Route, out: &Out) -> Result<(), Failure> {
    match (&route.work, &route.eval) {
        (Some(RouteWork::Learn { file }), _) => learn(at, file, out).await,
        (Some(RouteWork::Forget), _) => {
            let forgotten = at.connect().await?.delete("/route/learn").await?;
            out.show(&forgotten, |forgotten| format!("{} sentences are forgotten", text(forgotten, "forgotten")));
            Ok(())
        }
        (Some(RouteWork::Channel { capabilities, anyone }), _) => {
            let request = RouteChannel { capabilities: capabilities.clone(), anyone: *anyone };
            let resolved = at.connect().await?.post("/route/channel", &request).await?;
            out.show(&resolved, channel);
            Ok(())
        }
        (None, Some(file)) => evaluate(at, file, route, out).await,
        (None, None) => sentence(at, route, out).await,
    }
}

fn absolute(file: &Path) -> Result<PathBuf, Failure> {
    std::path::absolute(file).map_err(|error| Failure::usage(format!("{}: {error}", file.display())))
}

async fn learn(at: &Paths, file: &Path, out: &Out) -> Result<(), Failure> {
    let request = RouteFile { file: absolute(file)? };
    let learned = at.connect().await?.post("/route/learn", &request).await?;
    out.show(&learned, |learned| {
        format!("learned {} sentences; this node knows {} now", text(learned, "learned"), text(learned, "known"))
    });
    Ok(())
}

async fn evaluate(at: &Paths, file: &Path, route: &Route, out: &Out) -> Result<(), Failure> {
    let request = RouteEvaluation { file: absolute(file)?, mode: route.mode.map(Into::into) };
    let report = at.connect().await?.post("/route/eval", &request).await?;
    out.show(&report, evaluation);
    Ok(())
}

fn evaluation(report: &Value) -> String {
    let share = |value: &Value| value.as_f64().map_or_else(|| "-".to_owned(), |share| format!("{share:.4}"));
    let cells = |mode: &Value| {
        vec![
            if mode["dense"] == true { format!("{} (embeddings)", text(mode, "mode")) } else { text(mode, "mode") },
            share(&mode["accuracy"]),
            share(&mode["refusal"]),
            text(mode, "close"),
            format!("{:.1}", mode["routeNs"].as_f64().unwrap_or(0.0) / 1e3),
        ]
    };
    let all: Vec<Vec<String>> = rows(report, "modes").iter().map(cells).collect();
    let number = |name: &str| text(report, name);
    let embeddings = &report["embeddings"];
    let embedded = match (embeddings["model"].as_str(), embeddings["missing"].as_str()) {
        (Some(_), Some(missing)) => format!("without dense vectors: {missing}\n"),
        (Some(model), None) => {
            let ms = embeddings["tookUs"].as_f64().unwrap_or(0.0) / 1e3;
            format!("{model} took {ms:.1} ms for each tested sentence\n")
        }
        (None, _) => String::new(),
    };
    format!(
        "{}\n{} sentences for {} agents and for none; {} of the file were learned first, {} before; learning took {} ms\n{embedded}",
        table(&["mode", "accuracy", "out of scope refused", "asked back", "µs per route"], &all),
        number("tested"),
        number("agents"),
        number("learnedOfFile"),
        number("learnedBefore"),
        number("learningMs"),
    )
}

fn channel(resolved: &Value) -> String {
    let cells =
        |one: &Value| vec![text(one, "capability"), text(one, "name"), text(one, "version"), short(&text(one, "node"))];
    let all: Vec<Vec<String>> = rows(resolved, "channel").iter().map(cells).collect();
    table(&["capability", "agent", "version", "node"], &all)
}

async fn sentence(at: &Paths, route: &Route, out: &Out) -> Result<(), Failure> {
    let request = RouteRequest {
        text: route.text.join(" "),
        mode: route.mode.map(Into::into).unwrap_or_default(),
        anyone: route.anyone,
    };
    let mut routed = at.connect().await?.post("/route", &request).await?;
    let chosen = rows(&routed, "chosen").to_vec();
    if let Some(missing) = routed["embeddings"]["missing"].as_str().filter(|_| !out.json) {
        eprint!("{}", plain(&format!("routed without dense vectors: {missing}\n"), &std::io::stderr()));
    }
    if route.explain && !out.json {
        eprint!("{}", plain(&explained(&routed), &std::io::stderr()));
    }
    if !route.explain
        && let Some(routed) = routed.as_object_mut()
    {
        routed.remove("best");
    }
    let show = || {
        if out.json {
            out.show(&routed, |_| String::new());
        }
    };
    match chosen.as_slice() {
        [one] if route.dry_run => {
            out.show(&routed, |_| text(one, "name"));
            Ok(())
        }
        [one] => {
            if out.json {
                print_line(&json!({ "routed": routed }).to_string());
            } else {
                eprintln!("to {}", plain(&text(one, "name"), &std::io::stderr()));
            }
            let agent = text(one, "agent");
            let call = Call { agent, text: route.text.clone(), task: None, explain: false, anyone: route.anyone };
            call::run(at, &call, out).await
        }
        [] => {
            show();
            let message =
                "no agent is for that; `--explain` shows how they score, `althing find` lists all that are known";
            Err(Failure::new(code::NOT_FOUND, if out.json { "" } else { message }))
        }
        _ => {
            show();
            let named = chosen.iter().map(|one| format!("{} ({})", text(one, "name"), text(one, "title")));
            let named = named.collect::<Vec<_>>().join(" or for ");
            let question = format!("is that for {named}? Say it to one of them: `althing call NAME …`");
            Err(Failure::new(code::NOT_FOUND, if out.json { String::new() } else { question }))
        }
    }
}

/// How the candidates score.
fn explained(routed: &Value) -> String {
    let score = |choice: &Value, name: &str| format!("{:.2}", choice[name].as_f64().unwrap_or(0.0));
    let cells = |choice: &Value| {
        let publisher = if choice["stranger"] == true { "a stranger's" } else { "" };
        let scores = ["keyword", "vector", "score"].map(|name| score(choice, name));
        [vec![text(choice, "name")], scores.to_vec(), vec![publisher.to_owned()]].concat()
    };
    let all: Vec<Vec<String>> = rows(routed, "best").iter().map(cells).collect();
    let shown = if all.is_empty() { String::new() } else { table(&["agent", "keyword", "vector", "score", ""], &all) };
    format!(
        "{shown}mode {}: from a score of {} on it is for an agent; {} agents considered, {} of strangers left out; {} sentences learned; \
         {} µs\n",
        text(routed, "mode"),
        score(routed, "threshold"),
        text(routed, "considered"),
        text(routed, "leftOut"),
        text(routed, "learned"),
        text(routed, "tookUs"),
    )
}
