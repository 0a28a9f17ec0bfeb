//! Which listed tools may be called, by their definitions. Pure: the pins, the last listing, and the unfit tools, by
//! `server/tool`.

use std::collections::{BTreeMap, BTreeSet};

use crate::definition::{Definition, Pins, Unfit};

/// Characters of a name that a model is name.
const MODEL_NAME_MAX: usize = 64;
/// Between a server and its tool, in names that models are name: they may hold no slash.
const JOINT: &str = "__";
/// Unfit tools of one agent that are remembered: a server may list new ones each time. Those beyond are not called either.
pub(crate) const UNFIT_MAX: usize = 4_096;

/// The tools of one agent.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The only definitions that may be called, once the agent is bound.
    pins: Option<Pins>,
    /// Of the last listing, may be called.
    fit: Pins,
    /// Of any listing, may not be called until the agent is bound again.
    unfit: BTreeMap<String, Unfit>,
    /// Pinned tools that their server listed no more when it answered last.
    gone: BTreeSet<String>,
    /// The version of each server's last listing.
    versions: BTreeMap<String, u64>,
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

    /// Takes a listing; `may` tells which tools the gate allows. Gives the tools that became unfit.
    pub fn take(
        &mut self,
        server: &str,
        is_own: bool,
        listed: Vec<Definition>,
        may: impl Fn(&str) -> bool,
    ) -> Vec<(String, Unfit)> {
        self.silent(server);
        self.note_gone(server, &listed);
        let mut new = Vec::new();
        for tool in listed {
            let name = format!("{server}/{}", tool.name);
            // An endpoint would refuse the whole request because of such a name.
            if !is_model_name(&model_name(&name)) {
                continue;
            }
            match self.judge(&name, &tool, is_own, &may) {
                Ok(()) => drop(self.fit.insert(name, tool)),
                Err(_) if self.unfit.contains_key(&name) || self.unfit.len() >= UNFIT_MAX => {}
                Err(unfit) => {
                    self.unfit.insert(name.clone(), unfit.clone());
                    new.push((name, unfit));
                }
            }
        }
        let unfit = &self.unfit;
        self.fit.retain(|tool, _| !unfit.contains_key(tool));
        new
    }

    fn judge(&self, name: &str, tool: &Definition, is_own: bool, may: &impl Fn(&str) -> bool) -> Result<(), Unfit> {
        if let Some(pins) = self.pins.as_ref().filter(|_| !is_own) {
            let pinned = pins.get(name);
            // Tools that the gate denies were not bound.
            if pinned.is_some() || may(name) {
                tool.check_pin(pinned)?;
            }
        }
        tool.check()
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

    /// Notes which version of its tools a server listed last.
    pub fn note_version(&mut self, server: &str, version: u64) {
        self.versions.insert(server.to_owned(), version);
    }

    pub fn version(&self, server: &str) -> Option<u64> {
        self.versions.get(server).copied()
    }

    /// Forgets the listing of a server that does not answer.
    pub fn silent(&mut self, server: &str) {
        self.fit.retain(|tool, _| tool.split_once('/').is_none_or(|(of, _)| of != server));
    }

    /// The hash of the expected definition: the pinned one, else the listed one.
    pub fn expected(&self, name: &str) -> Option<String> {
        let pinned = self.pins.as_ref().and_then(|pins| pins.get(name));
        pinned.or_else(|| self.fit.get(name)).map(Definition::hash)
    }

    /// The hash of the listed definition, if the tool may be called.
    pub fn listed(&self, name: &str) -> Result<Option<String>, Unfit> {
        match self.unfit.get(name) {
            Some(unfit) => Err(unfit.clone()),
            None => Ok(self.fit.get(name).map(Definition::hash)),
        }
    }
}

/// The name of a tool for models.
pub(crate) fn model_name(name: &str) -> String {
    name.replacen('/', JOINT, 1)
}

fn is_model_name(name: &str) -> bool {
    name.len() <= MODEL_NAME_MAX && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// The `server/tool` of a name for models.
pub(crate) fn real_name(name: &str) -> String {
    if name.contains('/') { name.to_owned() } else { name.replacen(JOINT, "/", 1) }
}
