//! `althing blueprint`.

use althing_api::{BlueprintFigures, BlueprintList, BlueprintMeasurement, BlueprintSuggestion, MeasureRequest};

use crate::args::Blueprint;
use crate::commands::agent::escape;
use crate::commands::{Out, date_time, table};
use crate::exit::Failure;
use crate::paths::Paths;

/// Measures a model of this machine, or suggests models for it.
pub async fn run(at: &Paths, blueprint: &Blueprint, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    match blueprint {
        Blueprint::Measure { model, tokens, publish, days, registry } => {
            let (model, registry) = (model.clone(), registry.clone());
            let request = MeasureRequest { model, tokens: *tokens, publish_days: publish.then_some(*days), registry };
            let measurement: BlueprintMeasurement = client.ask("/blueprints", &request).await?;
            out.show(&measurement, measured);
        }
        Blueprint::Suggest { model, registry } => {
            let given = [("model", model), ("registry", registry)];
            let query = given.iter().filter_map(|(name, value)| Some(format!("{name}={}", escape(value.as_ref()?))));
            let path = format!("/blueprints?{}", query.collect::<Vec<_>>().join("&"));
            let list: BlueprintList = client.read(&path).await?;
            out.show(&list, suggested);
        }
    }
    Ok(())
}

fn measured(BlueprintMeasurement { model, machine, figures, registry, .. }: &BlueprintMeasurement) -> String {
    let counted = if figures.estimated { ", counted by its pieces" } else { "" };
    let kept = match registry {
        Some(registry) => format!("attested  in {registry}"),
        None => "attested  signed, and sent nowhere: --publish sends it".to_owned(),
    };
    format!(
        "model     {model}\nmachine   {machine}\nspeed     {:?} tokens/s{counted}, the first after {} ms\nmemory    {}\n{kept}",
        figures.tokens_per_second,
        figures.first_token_ms,
        memory(figures),
    )
}

fn memory(figures: &BlueprintFigures) -> String {
    figures.memory_mib.map_or_else(|| "not shown by the kernel".to_owned(), |mib| format!("{mib} MiB"))
}

fn suggested(list: &BlueprintList) -> String {
    let cells = |row: &BlueprintSuggestion| {
        let who = if row.trusted { "trusted" } else { "a stranger" };
        vec![
            row.model.clone(),
            format!("{:?}", row.figures.tokens_per_second),
            memory(&row.figures),
            format!("{}: {}", row.likeness, row.machine),
            format!("{} ({who})", row.by),
            date_time(row.accepted_ms),
        ]
    };
    if list.suggestions.is_empty() {
        return format!(
            "{} has no measurement on a machine like this one ({}) that fits its memory: `althing blueprint measure --publish` \
             makes the first",
            list.registry, list.machine
        );
    }
    let all: Vec<Vec<String>> = list.suggestions.iter().map(cells).collect();
    table(&["model", "tokens/s", "memory", "machine", "measured by", "at"], &all)
}

#[cfg(test)]
mod tests {
    use althing_api::BlueprintMachine;

    use super::*;

    #[test]
    fn a_measurement_is_told_with_the_digits_that_it_was_rounded_to() {
        let machine = BlueprintMachine {
            architecture: "x86_64".to_owned(),
            cpu: String::new(),
            cores: 8,
            memory_mib: 9,
            gpus: 0,
        };
        let figures = BlueprintFigures {
            tokens_per_second: 12.0,
            first_token_ms: 80,
            memory_mib: None,
            rounds: 3,
            tokens: 128,
            estimated: true,
            quantisation: None,
            machine,
        };
        let measurement = BlueprintMeasurement {
            model: "m".to_owned(),
            machine: "x86_64, 8 cores".to_owned(),
            figures,
            attestation: "d2".to_owned(),
            registry: None,
        };
        let said = measured(&measurement);
        assert!(said.contains("speed     12.0 tokens/s, counted by its pieces, the first after 80 ms\n"), "{said}");
        assert!(said.contains("memory    not shown by the kernel\nattested  signed, and sent nowhere"), "{said}");
    }
}
