//! `althing bind`

use std::path::Path;

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
use crate::commands::{Out, rows, short, table, text};
use crate::exit::{Failure, code};
use crate::paths::Paths;
use althing_api::AddRequest;

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
    let bound = if bind.running {
        client.get(&format!("/bind/{}", escape(&bind.target))).await?
    } else {
        client.post("/bind", &request(bind)?).await?
    };
    if let Some(path) = &bind.output {
        let sealed = json!({ "network": bound["network"], "hash": bound["hash"], "sealed": bound["sealed"] });
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

fn people(bound: &Value, explain: bool) -> String {
    let mut shown = format!("{}\n", text(bound, "hash"));
    let manifest = &bound["manifest"];
    let names = |list: &str, member: &str| {
        rows(manifest, list).iter().map(|one| text(one, member)).collect::<Vec<_>>().join(", ")
    };
    shown += &format!("agent    {} {}\n", text(manifest, "agent"), text(manifest, "agentVersion"));
    shown += &format!(
        "runtime  {} {}\n",
        text(&manifest["runtime"], "kind"),
        text(&manifest["runtime"], "digest").get(..12).unwrap_or_default()
    );
    for (what, list) in [("models", names("models", "name")), ("tools", names("tools", "name"))] {
        if !list.is_empty() {
            shown += &format!("{what:8} {list}\n");
        }
    }
    if !explain {
        return shown;
    }
    let whys = |list: &str| -> Vec<Vec<String>> {
        rows(bound, list)
            .iter()
            .map(|why| vec![text(why, "candidate"), text(why, "rank"), text(why, "reason")])
            .collect()
    };
    for (what, list) in [("candidate model", whys("models")), ("candidate tool", whys("tools"))] {
        if !list.is_empty() {
            shown += &format!("\n{}", table(&[what, "rank", "reason"], &list));
        }
    }
    let fields: Vec<Vec<String>> = rows(bound, "fields")
        .iter()
        .map(|field| vec![text(field, "field"), text(field, "value"), text(field, "setBy")])
        .collect();
    if !fields.is_empty() {
        shown += &format!("\n{}", table(&["field", "value", "set by"], &fields));
    }
    shown
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
