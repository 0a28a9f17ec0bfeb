//! What is answered about receipts: what proves that the log of a registry has what the owner sent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Receipts that are kept of one registry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptList {
    /// The registry's address.
    pub registry: String,
    /// The key of its log.
    pub key: String,
    /// The newest entry first; at most a hundred.
    pub receipts: Vec<ReceiptEntry>,
}

/// What is kept of an entry of a log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ReceiptEntry {
    /// A receipt that holds.
    Proof(Box<ReceiptProof>),
    /// What holds no more.
    Fault(ReceiptFault),
}

/// A receipt that was verified again, with what anybody verifies it by.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReceiptProof {
    /// The index of the entry.
    pub entry: u64,
    /// What the owner signed: `release`.
    pub what: String,
    /// Whom it is about: a urn, or a domain.
    pub about: String,
    /// More of it, for people.
    pub detail: String,
    /// When the registry accepted it, milliseconds since 1970.
    pub accepted_ms: u64,
    /// Entries of the log under the checkpoint of the proof.
    pub entries: u64,
    /// How many of the witnesses that are wanted cosigned that.
    pub cosigned: usize,
    /// The bytes of the entry, hexadecimal.
    pub leaf: String,
    /// The signed bytes that the entry names, hexadecimal.
    pub statement: String,
    /// What the entry is salted with, hexadecimal; none if the statement is for everybody.
    pub salt: Option<String>,
    /// A C2SP tlog-proof.
    pub proof: String,
}

/// Something that is kept as a receipt, and proves nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ReceiptFault {
    /// The index of the entry.
    pub entry: u64,
    /// Why it proves nothing.
    pub why: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::golden::assert_json;

    fn own(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn receipts_are_told_with_their_proofs_and_others_with_what_is_wrong() {
        let proof = ReceiptProof {
            entry: 3,
            what: own("release"),
            about: own("urn:p:echo"),
            detail: own("1.0.0"),
            accepted_ms: 5,
            entries: 4,
            cosigned: 1,
            leaf: own("a3"),
            statement: own("d2"),
            salt: None,
            proof: own("c2sp.org/tlog-proof@v1\n"),
        };
        let salted = ReceiptProof { entry: 2, salt: Some(own("09")), ..proof.clone() };
        let fault = ReceiptFault { entry: 1, why: own("it was changed") };
        let receipts = vec![
            ReceiptEntry::Proof(Box::new(proof)),
            ReceiptEntry::Proof(Box::new(salted)),
            ReceiptEntry::Fault(fault),
        ];
        let json = concat!(
            r#"{"registry":"http://r/","key":"r+1+A","receipts":[{"entry":3,"what":"release","about":"urn:p:echo","#,
            r#""detail":"1.0.0","acceptedMs":5,"entries":4,"cosigned":1,"leaf":"a3","statement":"d2","salt":null,"#,
            r#""proof":"c2sp.org/tlog-proof@v1\n"},{"entry":2,"what":"release","about":"urn:p:echo","#,
            r#""detail":"1.0.0","acceptedMs":5,"entries":4,"cosigned":1,"leaf":"a3","statement":"d2","salt":"09","#,
            r#""proof":"c2sp.org/tlog-proof@v1\n"},{"entry":1,"why":"it was changed"}]}"#,
        );
        assert_json(&ReceiptList { registry: own("http://r/"), key: own("r+1+A"), receipts }, json);
    }
}
