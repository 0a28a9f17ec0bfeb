//! `althing bind`

use std::path::Path;

use althing_api::{AddRequest, BindingReply, CandidateReason, ContractField};
use althing_client::agent_file;
use althing_execution::admission::AdmissionProof;
use althing_execution::binding::replay;
use althing_protocol::binding::{Binding, Manifest};
use althing_protocol::contract::Class;
use althing_protocol::{hex, object};
use althing_store::file::read_text;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize as _;
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
        out.show(&verify(Path::new(&bind.target))?, verified_words);
        return Ok(());
    }
    let client = at.connect().await?;
    let bound: BindingReply = if bind.running {
        client.read(&format!("/bind/{}", escape(&bind.target))).await?
    } else {
        client.ask("/bind", &request(bind)?).await?
    };
    if let Some(path) = &bind.output {
        let mut sealed = json!({ "network": bound.network, "hash": bound.hash, "sealed": bound.sealed });
        if let Some(proof) = &bound.proof {
            sealed["proof"] = proof.clone();
        }
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
    if let Some(core) = bound.core {
        let proof = if bound.proof.is_some() { ", with its admission proof" } else { "" };
        shown += &format!("core     {core}{proof}\n");
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

fn verified_words(verified: &Value) -> String {
    let mut words = format!(
        "{} holds\nsealed by {} for agent {:?}; bound again, it is the same",
        text(verified, "hash"),
        short(&text(verified, "node")),
        text(verified, "agent")
    );
    if let Some(core) = verified["core"].as_u64() {
        let proof = if verified["proven"] == true {
            "its deadlines are proved again"
        } else {
            "its admission proof is not in the file"
        };
        words += &format!("\nruns on core {core}; {proof}");
    }
    words
}

/// Proves again what a seal says of the core of its agent, by the terms of the manifest and with the proof that is in its file; false
/// where none is.
///
/// # Errors
/// What is wrong with it, for people.
fn proven(seal: &Binding, manifest: &Manifest, file: &Value) -> Result<bool, String> {
    let Some(proof) = file.get("proof") else { return Ok(false) };
    let proof = AdmissionProof::deserialize(proof).map_err(|error| format!("`proof`: {error}"))?;
    if seal.proof != Some(proof.digest()) {
        return Err("its admission proof is another one than the sealed".to_owned());
    }
    // A proof of other deadlines holds as well, and says nothing of these.
    if !matches!(&manifest.contract.class, Class::Hrt(class) if proof.is_of(class)) {
        return Err("its admission proof is of other terms than those of its contract".to_owned());
    }
    proof.prove().map(|_| true).map_err(|fault| format!("its admission proof does not hold: {fault}"))
}

/// Checks a sealed manifest: the signature, the hash, that binding again gives the same, and the admission proof.
fn verify(path: &Path) -> Result<Value, Failure> {
    let wrong = |why: String| Failure::usage(format!("{}: {why}", path.display()));
    let refused = |why: String| Failure::new(code::REFUSED, format!("{}: {why}", path.display()));
    let file = read_text(path, SEALED_BYTES_MAX).map_err(|error| wrong(error.to_string()))?;
    let unlike = |why: &str| wrong(format!("it is no file that `althing bind FILE --output` wrote: {why}"));
    let file: Value = serde_json::from_str(&file).map_err(|error| unlike(&error.to_string()))?;
    if !file["sealed"].is_string() {
        return Err(unlike("it has no `sealed`"));
    }
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
    let seal = &opened.body;
    let mut verified = json!({
        "hash": hash,
        "node": seal.node.did(),
        "boundAtMs": seal.bound_at_ms,
        "agent": manifest.agent,
        "holds": true,
    });
    let proven = proven(seal, &manifest, &file).map_err(refused)?;
    if let Some(core) = seal.core {
        verified["core"] = json!(core);
        verified["proof"] = json!(seal.proof.map(|proof| hex(&proof)));
        verified["proven"] = json!(proven);
    }
    Ok(verified)
}

#[cfg(test)]
mod tests {
    use althing_execution::admission::{Config, Policy, Preemption, RtTask};
    use althing_protocol::binding::{Candidates, Runtime, VERSION};
    use althing_protocol::{Contract, SecretKey};

    use super::*;

    #[test]
    fn what_is_no_sealed_manifest_is_told_to_be_none() {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text, why) in [
            ("arm.yaml", "runtime: x\n", "expected value at line 1 column 1"),
            ("card.json", r#"{"name":"arm"}"#, "it has no `sealed`"),
            ("list.json", "[]", "it has no `sealed`"),
        ] {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("written");
            let refused = verify(&path).expect_err("no seal");
            let told = format!("{}: it is no file that `althing bind FILE --output` wrote: {why}", path.display());
            assert_eq!((refused.code, refused.message), (code::USAGE, told));
        }
    }

    #[test]
    fn a_proof_of_other_deadlines_than_those_of_the_contract_proves_nothing() {
        let class = json!({ "latency": "hrt", "period_us": 10_000, "deadline_us": 5_000, "budget_us": 1_000 });
        let manifest = Manifest {
            version: VERSION,
            agent: "arm".to_owned(),
            agent_version: "1.0.0".to_owned(),
            contract: Contract::from_value(&json!({ "class": class })).expect("a contract"),
            contract_digest: String::new(),
            runtime: Runtime { kind: "wasm".to_owned(), digest: String::new() },
            models: Vec::new(),
            embeddings: None,
            tools: Vec::new(),
            candidates: Candidates::default(),
        };
        let config = Config { policy: Policy::Edf, preemption: Preemption::Limited, cap_ppm: 900_000, platform_ns: 0 };
        let sealed = |deadline_ns: u64| {
            let task = RtTask { deadline_ns, ..RtTask::new(1_000_000, 10_000_000) };
            let proof = AdmissionProof { config, tasks: vec![(task, None)], place: 0 };
            let node = SecretKey::from_seed(&[7; 32]).public();
            let seal = Binding::new(node, 1, &manifest).promised(0, Some(proof.digest()));
            proven(&seal, &manifest, &json!({ "proof": proof }))
        };
        assert_eq!(sealed(5_000_000), Ok(true));
        let other = sealed(10_000_000).expect_err("it holds, and is of another deadline");
        assert!(other.contains("other terms"), "{other}");
    }
}
