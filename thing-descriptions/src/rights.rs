//! What an agent file lets an agent and its programs do, as its owner agreed to it, and what another file changes of that. Pure.
//!
//! A program that may write where an agent file lies could change that file, and the agent would have what it wrote there once its owner
//! adds it again: so the owner is asked where that is more than was agreed to.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::{Contract, digest, hex, sign_off};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::agent_file::{AgentFile, AsksAs, Callers, Exposure, ModelEndpoint, Place, RuntimeSpec, ToolServerSpec};
use crate::programs::{Programs, UNBOUNDED};
use crate::rights_change::{RightsChange, change, line};
use crate::rights_terms::{CAPABILITIES, MODELS, Terms, includes, is_wider};

/// Changes that are shown.
const SHOWN_MAX: usize = 64;
/// Under what the kind of its runtime is granted, and that of a program.
const KIND: &str = "runtime: kind";
const A_PROGRAM: &str = "a program";
/// Among what is granted: whatever there is.
const ANY: &str = "(any)";

/// What an agent file grants. No value of a variable is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Rights {
    programs: Programs,
    /// What it has by name: one more of them is wider, one less is not.
    grants: BTreeMap<String, BTreeSet<String>>,
    /// What holds for it, by name: any change may be wider, but for those of its contract that are known not to be.
    terms: BTreeMap<String, BTreeSet<String>>,
}

/// What an agent file changes of what was agreed to.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct RightsChanges {
    /// Each of them; what widens comes first.
    pub changes: Vec<RightsChange>,
    /// Whether the agent, or a program of it, may do more by one of them.
    pub wider: bool,
    /// The digest of all of it: whoever agrees to it agrees to exactly that.
    pub digest: String,
}

impl Rights {
    /// Those that an agent file gives.
    #[must_use]
    pub fn of(file: &AgentFile) -> Rights {
        let mut rights = Rights { programs: Programs::of(file), ..Rights::default() };
        rights.grant("callers", callers(&file.callers));
        rights.grant("exposure", exposure(file.exposure));
        rights.grant("asks_as", (file.asks_as == AsksAs::Itself).then(|| "itself, not its caller".to_owned()));
        rights.grant("handoff_signers", file.handoff_signers.iter().map(|line| signer(line)));
        rights.grant("expose", file.expose.iter().cloned());
        let effects = file.effects.iter().map(|(tool, effect)| format!("{tool}: {}", json!(effect)));
        rights.grant("effects of tools", effects);
        let profiles = file.profiles.iter().map(|(tool, terms)| format!("{tool}: {}", json!(terms)));
        rights.grant("profiles of tools", profiles);
        rights.grant("embeddings", file.embeddings.iter().map(endpoint));
        rights.grant_runtime(&file.runtime);
        for (name, server) in &file.tools {
            rights.grant_server(name, server);
        }
        if let Some(contract) = &file.contract {
            rights.grant_contract(contract);
        }
        rights
    }

    fn grant(&mut self, what: &str, words: impl IntoIterator<Item = String>) {
        let words: BTreeSet<String> = words.into_iter().collect();
        if !words.is_empty() {
            self.grants.insert(what.to_owned(), words);
        }
    }

    /// What runs, and with what; programs are compared by themselves.
    fn grant_runtime(&mut self, runtime: &RuntimeSpec) {
        let kind = match runtime {
            RuntimeSpec::Native { builtin, config } => {
                self.grant("runtime: builtin", [builtin.clone()]);
                if !config.is_null() {
                    leaves("runtime: config", config, &mut self.terms);
                }
                "inside the node"
            }
            RuntimeSpec::Model { prompt, endpoints, temperature: _ } => {
                let text = format!("{} bytes, digest {}", prompt.len(), hex(&digest(prompt.as_bytes())));
                self.terms.insert("runtime: prompt".to_owned(), BTreeSet::from([text]));
                self.grant("runtime: endpoints", endpoints.iter().map(endpoint));
                "a model"
            }
            RuntimeSpec::Wasm { module } => {
                self.grant("runtime: module", [module.display().to_string()]);
                "a module"
            }
            RuntimeSpec::Process { .. } => A_PROGRAM,
            RuntimeSpec::Remote { url, secret, card, signed_by, leads_to } => {
                self.grant("runtime: url", [url.clone()]);
                self.grant("runtime: secret", secret.clone());
                self.grant("runtime: card", [or_any(card.as_ref())]);
                self.grant("runtime: signed_by", [or_any(signed_by.as_ref())]);
                self.grant("runtime: leads_to", places(leads_to));
                "a server elsewhere"
            }
        };
        self.grant(KIND, [kind.to_owned()]);
    }

    /// What a server of tools is, and what is sent there; programs are compared by themselves.
    fn grant_server(&mut self, name: &str, server: &ToolServerSpec) {
        let (at, td) = match server {
            ToolServerSpec::Command { .. } => return,
            ToolServerSpec::Thing { thing, allow, td, .. } => {
                self.grant(&format!("tools.{name}: allow"), allow.iter().cloned());
                (format!("the Thing {thing}"), Some(or_any(td.as_ref())))
            }
            ToolServerSpec::Url { url, .. } => (url.clone(), None),
        };
        self.grant(&format!("tools.{name}: address"), [at]);
        self.grant(&format!("tools.{name}: td"), td);
        self.grant(&format!("tools.{name}: secret"), server.secret().map(str::to_owned));
        self.grant(&format!("tools.{name}: leads_to"), places(server.leads_to()));
    }

    fn grant_contract(&mut self, contract: &Contract) {
        let mut rest = contract.clone();
        self.grant(CAPABILITIES, std::mem::take(&mut rest.capabilities));
        self.grant("contract: secrets", std::mem::take(&mut rest.security.secrets));
        let models = std::mem::take(&mut rest.model.models);
        self.grant(MODELS, if models.is_empty() { vec![ANY.to_owned()] } else { models });
        if let Some(memory) = &mut rest.memory {
            self.grant("contract: share_with", std::mem::take(&mut memory.share_with));
        }
        leaves("contract", &json!(rest), &mut self.terms);
        // It is written although it was taken out.
        self.terms.remove("contract.model.models");
    }

    /// What a file with these rights changes of what was agreed to, which is none where nobody agreed to anything; and its programs
    /// without a sandbox that were not in all of it.
    #[must_use]
    pub fn changed(&self, before: &[Option<Rights>]) -> RightsChanges {
        let mut all: Vec<RightsChange> = Vec::new();
        for one in before.iter().flatten().flat_map(|known| known.changes_to(self)) {
            let is_told = |told: &RightsChange| told.what == one.what && (told.wider || !one.wider);
            if !all.iter().any(is_told) {
                all.push(one);
            }
        }
        for name in self.programs.unbounded() {
            let knows =
                |known: &Option<Rights>| known.as_ref().is_some_and(|known| known.programs.unbounded().contains(name));
            let what = format!("{}: sandbox", line(name));
            if !before.iter().all(knows) && !all.iter().any(|told| told.what == what && told.wider) {
                all.push(change(&what, "", UNBOUNDED, true));
            }
        }
        all.sort_by_key(|change| !change.wider);
        let wider = all.iter().any(|change| change.wider);
        let more = all.len().saturating_sub(SHOWN_MAX);
        let more_wider = all.iter().skip(SHOWN_MAX).any(|change| change.wider);
        all.truncate(SHOWN_MAX);
        if more > 0 {
            all.push(change(&format!("{more} changes more"), "", "not shown", more_wider));
        }
        let digest = hex(&digest(json!({ "before": before, "now": self }).to_string().as_bytes()));
        RightsChanges { changes: all, wider, digest }
    }

    fn changes_to(&self, now: &Rights) -> Vec<RightsChange> {
        let mut all = self.programs.changes_to(&now.programs);
        let is_more = |name: &str, old: &BTreeSet<String>, new: &BTreeSet<String>| {
            let is_known = |word: &String| old.iter().any(|known| includes(name, known, word));
            !old.contains(ANY) && !new.iter().all(is_known)
        };
        all.extend(between(&self.grants, &now.grants, is_more));
        let (before, after) = (self.contract(), now.contract());
        all.extend(between(&self.terms, &now.terms, |name, _, _| is_wider(name, before, after)));
        all
    }

    fn contract(&self) -> Terms<'_> {
        let is_program = self.grants.get(KIND).is_some_and(|kind| kind.contains(A_PROGRAM));
        let (capabilities, has_programs) = (self.grants.get(CAPABILITIES), !self.programs.is_empty());
        Terms { members: &self.terms, capabilities, is_program, has_programs }
    }
}

/// The key of somebody who may sign off, as OpenSSH shows it: what stands beside it in its line says nothing.
fn signer(line: &str) -> String {
    sign_off::public_key(line).map_or_else(|_| line.to_owned(), |key| sign_off::fingerprint(&key))
}

/// What differs between two lists of words by name, and whether that is wider.
fn between(
    before: &BTreeMap<String, BTreeSet<String>>,
    now: &BTreeMap<String, BTreeSet<String>>,
    is_wider: impl Fn(&str, &BTreeSet<String>, &BTreeSet<String>) -> bool,
) -> Vec<RightsChange> {
    let (nothing, names) = (BTreeSet::new(), before.keys().chain(now.keys()).collect::<BTreeSet<&String>>());
    let words = |all: &BTreeSet<String>| all.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let differing = names.into_iter().filter_map(|name| {
        let (old, new) = (before.get(name).unwrap_or(&nothing), now.get(name).unwrap_or(&nothing));
        (old != new).then(|| change(&line(name), &words(old), &words(new), is_wider(name, old, new)))
    });
    differing.collect()
}

/// Each value within a value, by its path; a list is one value, since its order may matter.
fn leaves(at: &str, value: &Value, found: &mut BTreeMap<String, BTreeSet<String>>) {
    match value {
        Value::Object(members) if !members.is_empty() => {
            for (name, member) in members {
                // No two paths are written alike.
                let name = if name.contains('.') { format!("{name:?}") } else { name.clone() };
                leaves(&format!("{at}.{name}"), member, found);
            }
        }
        other => {
            found.entry(at.to_owned()).or_default().insert(other.to_string());
        }
    }
}

/// Who may call it, each with all that it includes.
fn callers(callers: &Callers) -> Vec<String> {
    const INCLUDED: [&str; 3] = ["this-node", "own", "trusted"];
    let first = |count: usize| INCLUDED.iter().take(count).map(|word| (*word).to_owned()).collect();
    match callers {
        Callers::ThisNode => first(1),
        Callers::Own => first(2),
        Callers::Trusted => first(3),
        Callers::Anyone => vec![ANY.to_owned()],
        Callers::Listed(all) => all.clone(),
    }
}

/// Who may see it, each with all that it includes.
fn exposure(exposure: Exposure) -> Vec<String> {
    let own = || "own".to_owned();
    match exposure {
        Exposure::Hidden => Vec::new(),
        Exposure::Own => vec![own()],
        Exposure::Trusted => vec![own(), "trusted".to_owned()],
        Exposure::Public => vec![ANY.to_owned()],
    }
}

fn endpoint(endpoint: &ModelEndpoint) -> String {
    json!(endpoint).to_string()
}

fn or_any(bound: Option<&String>) -> String {
    bound.map_or(ANY, String::as_str).to_owned()
}

fn places(all: &[Place]) -> Vec<String> {
    if all.is_empty() { vec![ANY.to_owned()] } else { all.iter().map(|place| place.word().to_owned()).collect() }
}

#[cfg(test)]
#[path = "rights_tests.rs"]
mod tests;
