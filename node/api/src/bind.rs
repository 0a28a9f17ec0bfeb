//! What contracts are bound to.

use althing_protocol::binding::Manifest;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// A contract that was bound, with the reasons.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BindingReply {
    /// The hash of the manifest, hexadecimal.
    pub hash: String,
    /// The network for which it was sealed.
    pub network: String,
    /// The models and tools that the contract was bound to.
    #[schemars(with = "Map<String, Value>")]
    pub manifest: Manifest,
    /// The same as the node signed it, in base64.
    pub sealed: String,
    /// The core whose time is promised to the agent, counted from 0 among those for hard deadlines, as the seal says; none where it
    /// is promised none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub core: Option<u16>,
    /// The proof by which it is, whose digest is in the seal; none where the node does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proof: Option<Value>,
    /// For each model that was offered; empty where the reasons are not known any more.
    pub models: Vec<CandidateReason>,
    /// The same for each tool that was listed.
    pub tools: Vec<CandidateReason>,
    /// The fields of the contract, where an agent file was bound now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fields: Option<Vec<ContractField>>,
}

/// Why a candidate was selected or not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct CandidateReason {
    /// Which.
    pub candidate: String,
    /// Its rank, from 1; none if it was not selected.
    pub rank: Option<usize>,
    /// For people.
    pub reason: String,
}

/// A field of a contract, and who set it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContractField {
    /// Its path: `class.ttft_ms`.
    pub field: String,
    /// Its value; each field has another type.
    pub value: Value,
    /// Who set it, in words.
    pub set_by: String,
}

#[cfg(test)]
mod tests {
    use althing_protocol::Contract;
    use althing_protocol::binding::{Candidates, Runtime, VERSION};
    use serde_json::json;

    use super::*;
    use crate::golden::assert_json;

    #[test]
    fn a_binding_is_told_with_its_reasons_and_with_fields_only_where_it_was_made_now() {
        let contract = Contract::from_value(&json!({ "class": { "latency": "srt" } })).expect("a contract");
        let manifest = Manifest {
            version: VERSION,
            agent: "clerk".to_owned(),
            agent_version: "1.0.0".to_owned(),
            contract,
            contract_digest: "0a".to_owned(),
            runtime: Runtime { kind: "wasm".to_owned(), digest: "0b".to_owned() },
            models: Vec::new(),
            embeddings: None,
            tools: Vec::new(),
            candidates: Candidates::default(),
        };
        let manifest_json = serde_json::to_string(&manifest).expect("a manifest is JSON");
        let reason = |rank: Option<usize>| CandidateReason {
            candidate: "small".to_owned(),
            rank,
            reason: "the contract names it".to_owned(),
        };
        let kept = BindingReply {
            hash: "0c".to_owned(),
            network: "althing".to_owned(),
            manifest,
            sealed: "AA==".to_owned(),
            core: None,
            proof: None,
            models: vec![reason(Some(1)), reason(None)],
            tools: Vec::new(),
            fields: None,
        };
        let begun = format!(
            "{{{}{manifest_json}{}{}",
            r#""hash":"0c","network":"althing","manifest":"#,
            r#","sealed":"AA==","models":[{"candidate":"small","rank":1,"reason":"the contract names it"},"#,
            r#"{"candidate":"small","rank":null,"reason":"the contract names it"}],"tools":[]"#,
        );
        assert_json(&kept, &format!("{begun}}}"));
        let field = ContractField {
            field: "class.latency".to_owned(),
            value: json!("srt"),
            set_by: "the agent file".to_owned(),
        };
        let placed = BindingReply { core: Some(1), proof: Some(json!({ "place": 0 })), ..kept.clone() };
        let begun_there = begun.replace(r#""AA==","#, r#""AA==","core":1,"proof":{"place":0},"#);
        assert_json(&placed, &format!("{begun_there}}}"));
        let bound = BindingReply { fields: Some(vec![field]), ..kept };
        let fields = r#"[{"field":"class.latency","value":"srt","setBy":"the agent file"}]"#;
        assert_json(&bound, &format!("{begun},\"fields\":{fields}}}"));
    }
}
