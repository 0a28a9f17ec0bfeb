//! `althing blueprint`.

use althing_api::MeasureRequest;
use serde_json::Value;

use crate::args::Blueprint;
use crate::commands::agent::escape;
use crate::commands::{Out, rows, table, text, time};
use crate::exit::Failure;
use crate::paths::Paths;

/// Measures a model of this machine, or suggests models for it.
pub async fn run(at: &Paths, blueprint: &Blueprint, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match blueprint {
        Blueprint::Measure { model, tokens, publish, days, registry } => {
            let (model, registry) = (model.clone(), registry.clone());
            let request = MeasureRequest { model, tokens: *tokens, publish_days: publish.then_some(*days), registry };
            out.show(&client.post("/blueprints", &request).await?, measured);
        }
        Blueprint::Suggest { model, registry } => {
            let given = [("model", model), ("registry", registry)];
            let query = given.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))));
            let path = format!("/blueprints?{}", query.collect::<Vec<_>>().join("&"));
            out.show(&client.get(&path).await?, suggested);
        }
    }
    Ok(())
}

fn measured(row: &Value) -> String {
    let figures = &row["figures"];
    let counted = if figures["estimated"] == true { ", counted by its pieces" } else { "" };
    let kept = match row["registry"].as_str() {
        Some(registry) => format!("attested  in {registry}"),
        None => "attested  signed, and sent nowhere: --publish sends it".to_owned(),
    };
    format!(
        "model     {}\nmachine   {}\nspeed     {} tokens/s{counted}, the first after {} ms\nmemory    {}\n{kept}",
        text(row, "model"),
        text(row, "machine"),
        figures["tokensPerSecond"],
        figures["firstTokenMs"],
        memory(figures),
    )
}

fn memory(figures: &Value) -> String {
    figures["memoryMib"].as_u64().map_or_else(|| "not shown by the kernel".to_owned(), |mib| format!("{mib} MiB"))
}

fn suggested(list: &Value) -> String {
    let cells = |row: &Value| {
        let who = if row["trusted"] == true { "trusted" } else { "a stranger" };
        vec![
            text(row, "model"),
            row["figures"]["tokensPerSecond"].to_string(),
            memory(&row["figures"]),
            format!("{}: {}", text(row, "likeness"), text(row, "machine")),
            format!("{} ({who})", text(row, "by")),
            time(&row["acceptedMs"]),
        ]
    };
    match rows(list, "suggestions") {
        [] => format!(
            "{} has no measurement on a machine like this one ({}) that fits its memory: `althing blueprint measure --publish` \
             makes the first",
            text(list, "registry"),
            text(list, "machine")
        ),
        all => table(
            &["model", "tokens/s", "memory", "machine", "measured by", "at"],
            &all.iter().map(cells).collect::<Vec<_>>(),
        ),
    }
}
