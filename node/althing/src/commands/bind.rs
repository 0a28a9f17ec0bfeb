//! `althing bind`

use std::path::Path;

use althing_api::{AddRequest, BindingReply, CandidateReason, ContractField};
use althing_client::agent_file;
use althing_execution::binding::replay;
use althing_protocol::binding::Binding;
use althing_protocol::{hex, object};
use althing_store::file::read_text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use crate::args::Bind;
use crate::commands::agent::escape;
use crate::commands::{Out, short, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Bytes of a sealed manifest's file.
const SEALED_BYTES_MAX: u64 = 4 << 20;

/// Binds an agent file, shows what a running agent was bound to, or checks a sealed manifest.
pub async fn run(at: &Paths, bind: &Bind, out: &Out) -> Result<(), Failure> {
    if bind.verify {
        let verified = verify(Path::new(&bind.target))?;
        out.show(&verified, |verified| {
            format!(
                "{} holds\nsealed by {} for agent {:?}; bound again, it is the same",
                text(verified, "hash"),
                short(&text(verified, "node")),
                text(verified, "agent")
            )
        });
        return Ok(());
    }
    let client = at.connect().await?;
    let bound: BindingReply = if bind.running {
        client.read(&format!("/bind/{}", escape(&bind.target))).await?
    } else {
        client.ask("/bind", &request(bind)?).await?
    };
    if let Some(path) = &bind.output {
        let sealed = json!({ "network": bound.network, "hash": bound.hash, "sealed": bound.sealed });
        let failed = |error| Failure::failed(format!("cannot write {}: {error}", path.display()));
        std::fs::write(path, format!("{sealed:#}\n")).map_err(failed)?;
    }
    out.show(&bound, |bound| people(bound, bind.explain));
    Ok(())
}

/// The agent file, overridden by the command line.
fn request(bind: &Bind) -> Result<AddRequest, Failure> {
    let mut request = agent_file::read(Path::new(&bind.target))?;
    if bind.set.is_empty() {
        return Ok(request);
    }
    let mut requested = request.file.requested.take().unwrap_or_else(|| json!({}));
    for pair in &bind.set {
        let (path, value) = pair
            .split_once('=')
            .ok_or_else(|| Failure::usage(format!("--set {pair:?}: write FIELD=VALUE, such as class.ttft_ms=100")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| json!(value));
        put(&mut requested, path, value);
    }
    // The node normalises and checks it.
    request.file.contract = None;
    request.file.requested = Some(requested);
    Ok(request)
}

fn put(value: &mut Value, path: &str, leaf: Value) {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    match rest {
        None => value[first] = leaf,
        Some(rest) => put(&mut value[first], rest, leaf),
    }
}

fn people(bound: &BindingReply, explain: bool) -> String {
    let manifest = &bound.manifest;
    let mut shown = format!("{}\n", bound.hash);
    shown += &format!("agent    {} {}\n", manifest.agent, manifest.agent_version);
    let digest = manifest.runtime.digest.get(..12).unwrap_or_default();
    shown += &format!("runtime  {} {digest}\n", manifest.runtime.kind);
    let models: Vec<&str> = manifest.models.iter().map(|model| model.name.as_str()).collect();
    let tools: Vec<&str> = manifest.tools.iter().map(|tool| tool.name.as_str()).collect();
    for (what, list) in [("models", models.join(", ")), ("tools", tools.join(", "))] {
        if !list.is_empty() {
            shown += &format!("{what:8} {list}\n");
        }
    }
    if !explain {
        return shown;
    }
    for (what, reasons) in [("candidate model", &bound.models), ("candidate tool", &bound.tools)] {
        let cells = |why: &CandidateReason| {
            let rank = why.rank.map_or_else(String::new, |rank| rank.to_string());
            vec![why.candidate.clone(), rank, why.reason.clone()]
        };
        let list: Vec<Vec<String>> = reasons.iter().map(cells).collect();
        if !list.is_empty() {
            shown += &format!("\n{}", table(&[what, "rank", "reason"], &list));
        }
    }
    let cells = |field: &ContractField| vec![field.field.clone(), value(&field.value), field.set_by.clone()];
    let fields: Vec<Vec<String>> = bound.fields.iter().flatten().map(cells).collect();
    if !fields.is_empty() {
        shown += &format!("\n{}", table(&["field", "value", "set by"], &fields));
    }
    shown
}

/// The value of a field: a text without quotation marks, nothing where there is none, else JSON.
fn value(of: &Value) -> String {
    match of {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// Checks a sealed manifest: the signature, the hash, and that binding again gives the same.
fn verify(path: &Path) -> Result<Value, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let refused = |why: String| Failure::new(code::REFUSED, format!("{}: {why}", path.display()));
    let file = read_text(path, SEALED_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    let file: Value = serde_json::from_str(&file).map_err(|error| wrong(error.to_string()))?;
    let sealed = STANDARD.decode(text(&file, "sealed")).map_err(|error| wrong(format!("`sealed`: {error}")))?;
    let opened = object::open::<Binding>(&sealed, &text(&file, "network"), "");
    let opened = opened.map_err(|error| refused(error.to_string()))?;
    let manifest = opened.sealed().map_err(|error| refused(error.to_string()))?;
    let hash = hex(&manifest.hash());
    if file["hash"].is_string() && text(&file, "hash") != hash {
        return Err(refused(format!("its hash is {hash}, and the file says {}", text(&file, "hash"))));
    }
    let again = replay(&manifest).map_err(|error| refused(error.to_string()))?;
    if again.manifest != manifest {
        return Err(refused("bound again, it comes out another: it was not made from its candidates".to_owned()));
    }
    Ok(json!({
        "hash": hash,
        "node": opened.body.node.did(),
        "boundAtMs": opened.body.bound_at_ms,
        "agent": manifest.agent,
        "holds": true,
    }))
}
