//! Which listed tools may be called, by their definitions. Pure: the pins, the last listing, and the unfit tools, by
//! `server/tool`.

use std::collections::{BTreeMap, BTreeSet};

use althing_protocol::contract::{TOOL_NAME_MAX, is_tool_name};

use crate::definition::{Definition, Pins, Unfit};
use crate::fault::Fault;
use crate::model_names::among;

/// Unfit tools of one agent that are remembered: a server may list new ones each time. Those beyond are not called either.
pub(crate) const UNFIT_MAX: usize = 4_096;

/// Listings in a row with another definition each, after which a tool is unsteady.
const TURNS_MAX: u32 = 2;

/// How often the definition of a tool that is suspended was another one.
#[derive(Debug, Default)]
struct Turns {
    /// The hash of the last one.
    last: String,
    count: u32,
}

/// The tools of one agent.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The only definitions that may be called, once the agent is bound.
    pins: Option<Pins>,
    /// Of the last listing, may be called.
    fit: Pins,
    /// May not be called until their servers list them as they were bound.
    unfit: BTreeMap<String, Unfit>,
    /// Of those among them that are not as they were bound.
    turns: BTreeMap<String, Turns>,
    /// Pinned tools that their server listed no more when it answered last.
    gone: BTreeSet<String>,
    /// The version of each server's last listing.
    versions: BTreeMap<String, u64>,
    /// Servers that did not answer when they were asked last, and why.
    away: BTreeMap<String, String>,
}

impl Known {
    /// Pins these definitions; the first pins stay.
    pub fn pin(&mut self, definitions: Pins) {
        self.pins.get_or_insert(definitions);
    }

    pub fn pins(&self) -> Option<&Pins> {
        self.pins.as_ref()
    }

    pub fn fit(&self) -> &Pins {
        &self.fit
    }

    pub fn unfit(&self) -> &BTreeMap<String, Unfit> {
        &self.unfit
    }

    /// The definitions of these tools in the last listing.
    pub fn pinnable<'a>(&self, names: impl Iterator<Item = &'a str>) -> Pins {
        names.filter_map(|name| Some((name.to_owned(), self.fit.get(name)?.clone()))).collect()
    }

    /// Takes a listing: its tools, and those that were left out of it with the reasons; `may` tells which tools the gate
    /// allows. Gives the tools that became unfit.
    pub fn take(
        &mut self,
        server: &str,
        is_own: bool,
        (listed, left_out): (Vec<Definition>, Vec<(String, String)>),
        may: impl Fn(&str) -> bool,
    ) -> Vec<(String, Unfit)> {
        self.silent(server);
        self.away.remove(server);
        self.note_gone(server, &listed);
        let mut judged: BTreeMap<String, Result<Definition, Unfit>> = BTreeMap::new();
        for tool in listed {
            let name = format!("{server}/{}", tool.name);
            let (name, verdict) = match is_tool_name(&tool.name) {
                true => {
                    let verdict = self.judge(&name, tool, is_own, &may);
                    (name, verdict)
                }
                // It is remembered, logged and shown: by a name that has a bound.
                false if may(&name) => (format!("{server}/{}", tool.shown_name()), Err(unnamed())),
                false => continue,
            };
            // Of two with one name the worse counts.
            if judged.get(&name).is_none_or(Result::is_ok) {
                judged.insert(name, verdict);
            }
        }
        for (tool, why) in left_out {
            let name = format!("{server}/{tool}");
            if may(&name) {
                let unfit = || Err(Unfit::Refused(format!("its description cannot be read: {why}")));
                judged.entry(name).or_insert_with(unfit);
            }
        }
        self.note(judged)
    }

    /// Notes what became of the tools of a server; gives those that became unfit.
    fn note(&mut self, judged: BTreeMap<String, Result<Definition, Unfit>>) -> Vec<(String, Unfit)> {
        // What a server lists no more stays suspended: it may come back as anything.
        let is_over = |name: &String| judged.get(name).is_some_and(Result::is_ok);
        self.turns.retain(|name, _| !is_over(name));
        let mut before: BTreeSet<String> = self.unfit.keys().cloned().collect();
        self.unfit.retain(|name, _| !is_over(name));
        let mut new = Vec::new();
        for (name, verdict) in judged {
            match verdict {
                Ok(tool) => drop(self.fit.insert(name, tool)),
                // Those beyond are not called either.
                Err(_) if !self.unfit.contains_key(&name) && self.unfit.len() >= UNFIT_MAX => {}
                Err(unfit) => {
                    if before.insert(name.clone()) {
                        new.push((name.clone(), unfit.clone()));
                    }
                    self.unfit.insert(name, unfit);
                }
            }
        }
        new
    }

    /// The tool as it may be called: where it is bound, as it was bound, since the order of what is a set may differ.
    fn judge(
        &mut self,
        name: &str,
        tool: Definition,
        is_own: bool,
        may: &impl Fn(&str) -> bool,
    ) -> Result<Definition, Unfit> {
        let Some(pins) = self.pins.as_ref().filter(|_| !is_own) else { return tool.check().map(|()| tool) };
        let pinned = pins.get(name).cloned();
        // Tools that the gate denies were not bound.
        if pinned.is_none() && !may(name) {
            return tool.check().map(|()| tool);
        }
        if let Err(unfit) = tool.check_pin(pinned.as_ref()) {
            // What may not be called in any case could not be bound.
            if unfit == Unfit::Unbound {
                tool.check()?;
            }
            return Err(self.steadiness(name, &tool, unfit));
        }
        tool.check().map(|()| pinned.unwrap_or(tool))
    }

    /// Whether a changed tool is another one with each listing.
    fn steadiness(&mut self, name: &str, tool: &Definition, unfit: Unfit) -> Unfit {
        let Unfit::Changed(differences) = unfit else { return unfit };
        // Only tools that are bound are counted, and these are few.
        let turns = self.turns.entry(name.to_owned()).or_default();
        let now = tool.compared_hash();
        if turns.last != now {
            turns.count = turns.count.saturating_add(1);
            turns.last = now;
        }
        if turns.count >= TURNS_MAX { Unfit::Unsteady(differences) } else { Unfit::Changed(differences) }
    }

    fn note_gone(&mut self, server: &str, listed: &[Definition]) {
        let pinned = self.pins.iter().flatten().map(|(name, _)| name);
        let of_server = pinned.filter_map(|name| Some((name, name.strip_prefix(server)?.strip_prefix('/')?)));
        for (name, tool) in of_server {
            if listed.iter().any(|one| one.name == tool) {
                self.gone.remove(name);
            } else {
                self.gone.insert(name.clone());
            }
        }
    }

    /// The pinned tools, with the reason why one is not called at present.
    pub fn bound(&self) -> impl Iterator<Item = (&String, &Definition, Option<String>)> {
        self.pins.iter().flatten().map(|(name, definition)| {
            let gone = self.gone.contains(name).then(|| "its server offers it no more".to_owned());
            (name, definition, self.unfit.get(name).map(Unfit::brief).or(gone))
        })
    }

    /// The pinned tools and those of the last listings, which were not unfit then: what may be asked for.
    pub fn callable(&self) -> Pins {
        let pinned = self.pins.iter().flatten();
        let all = pinned.chain(&self.fit).filter(|(name, _)| !self.unfit.contains_key(*name));
        all.map(|(name, tool)| (name.clone(), tool.clone())).collect()
    }

    /// The `server/tool` of a name for models, or of one that is `server/tool` already. Models were shown none but those that
    /// are bound, or fit.
    pub fn real_name(&self, name: &str) -> String {
        among(name, self.pins.iter().flat_map(Pins::keys).chain(self.fit.keys()))
    }

    /// Notes which version of its tools a server listed last.
    pub fn note_version(&mut self, server: &str, version: u64) {
        self.versions.insert(server.to_owned(), version);
    }

    pub fn version(&self, server: &str) -> Option<u64> {
        self.versions.get(server).copied()
    }

    /// Notes why a server did not answer. One that is late because it works is there.
    pub fn note_away(&mut self, server: &str, fault: &Fault, is_busy: bool) {
        let is_there = matches!(fault, Fault::Busy(_)) || is_busy && matches!(fault, Fault::Silent(_));
        if !is_there {
            self.away.insert(server.to_owned(), fault.in_full());
        }
    }

    /// The servers that did not answer when they were asked last, and why.
    pub fn away(&self) -> &BTreeMap<String, String> {
        &self.away
    }

    /// Forgets the listing of a server that does not answer.
    pub fn silent(&mut self, server: &str) {
        self.fit.retain(|tool, _| !is_of(tool, server));
    }

    /// The hash of the expected definition: the pinned one, else the listed one.
    pub fn expected(&self, name: &str) -> Option<String> {
        let pinned = self.pins.as_ref().and_then(|pins| pins.get(name));
        pinned.or_else(|| self.fit.get(name)).map(Definition::hash)
    }

    /// Whether the name is that of a tool that is bound, or that a server lists: whoever calls it did not make it up.
    pub fn has(&self, name: &str) -> bool {
        self.fit.contains_key(name) || self.pins.as_ref().is_some_and(|pins| pins.contains_key(name))
    }

    /// What the listed definition says of the tool's results, if it says anything.
    pub fn output_schema(&self, name: &str) -> Option<serde_json::Value> {
        self.fit.get(name)?.rest.get("outputSchema").cloned()
    }

    /// The hash of the listed definition, if the tool may be called.
    pub fn listed(&self, name: &str) -> Result<Option<String>, Unfit> {
        match self.unfit.get(name) {
            Some(unfit) => Err(unfit.clone()),
            None => Ok(self.fit.get(name).map(Definition::hash)),
        }
    }
}

/// What is said of a tool whose name is none.
fn unnamed() -> Unfit {
    Unfit::Refused(format!(
        "its name is none that a contract can have: letters, digits, `_`, `.` and `-`, 1 to {TOOL_NAME_MAX} of them"
    ))
}

/// Whether a tool is of that server.
fn is_of(tool: &str, server: &str) -> bool {
    tool.split_once('/').is_some_and(|(of, _)| of == server)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model_names::model_name;

    #[test]
    fn a_tool_that_models_cannot_name_may_be_called_and_what_no_contract_can_name_is_told() {
        let long = "x".repeat(100);
        let listed = ["read.text", &long, "read", "read it"].map(|name| Definition::new(name, "Does it.", json!({})));
        let mut known = Known::default();
        let unfit = known.take("files", false, (listed.into(), Vec::new()), |_| true);
        let fit: Vec<&str> = known.fit().keys().map(String::as_str).collect();
        assert_eq!(fit, ["files/read", "files/read.text", &format!("files/{long}")]);
        assert!(matches!(unfit.as_slice(), [(name, Unfit::Refused(_))] if name == "files/read it"), "{unfit:?}");
        for tool in ["files/read.text", &format!("files/{long}")] {
            assert_eq!(known.real_name(&model_name(tool)), tool);
        }
        assert_eq!(known.real_name("files__read"), "files/read");
        let other = [Definition::new("read it", "Does it.", json!({}))];
        assert!(known.take("box", false, (other.into(), Vec::new()), |_| false).is_empty(), "it is not of this agent");
    }

    #[test]
    fn names_without_a_bound_are_kept_with_one_and_stay_two_and_no_model_asks_for_them() {
        let long = "x ".repeat(2 << 10);
        let names = [format!("{long}a"), format!("{long}b"), "read\n".to_owned(), "read".to_owned()];
        let listed = || names.iter().map(|name| Definition::new(name, "Does it.", json!({}))).collect();
        let mut known = Known::default();
        let unfit = known.take("files", false, (listed(), Vec::new()), |_| true);
        assert_eq!((unfit.len(), known.unfit().len()), (3, 3), "no two are one: {unfit:?}");
        for name in known.unfit().keys() {
            assert!(name.len() < 128 && !name.contains('\n'), "{name:?}");
        }
        assert_eq!(known.fit().keys().collect::<Vec<_>>(), ["files/read"], "nor is one that may be called");
        let again = known.take("files", false, (listed(), Vec::new()), |_| true);
        assert!(again.is_empty(), "they are told once: {again:?}");
        for name in &names[..3] {
            let changed = model_name(&format!("files/{name}"));
            assert_eq!(known.real_name(&changed), changed.replacen("__", "/", 1));
        }
    }
}
