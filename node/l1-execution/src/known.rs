//! Which of the tools that servers list may be called, as far as their definitions go. Pure: what is pinned, what was listed
//! last, and what may not be called any more. Tools go by `server/tool`.

use std::collections::BTreeMap;

use crate::definition::{Definition, Pins, Unfit};

/// Characters of a name that a model is told.
const TOLD_MAX: usize = 64;
/// Between a server and its tool, in names that models are told: they may hold no slash.
const JOINT: &str = "__";
/// Tools of one agent that are remembered as not to be called; a server may list others each time. Those beyond are not
/// called either.
pub(crate) const UNFIT_MAX: usize = 4_096;

/// The tools of one agent.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// The only definitions that may be called, once the agent is bound.
    pins: Option<Pins>,
    /// Listed last, and may be called.
    fit: Pins,
    /// Listed at some time, and may not be called until the agent is bound anew.
    unfit: BTreeMap<String, Unfit>,
}

impl Known {
    /// From now on only these; what was pinned stays.
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

    /// The definitions of these tools, as they were listed last.
    pub fn pinnable<'a>(&self, names: impl Iterator<Item = &'a str>) -> Pins {
        names.filter_map(|name| Some((name.to_owned(), self.fit.get(name)?.clone()))).collect()
    }

    /// What a server lists now; `may` says what may be called of it by name. Gives those that are now found not to be.
    pub fn take(
        &mut self,
        server: &str,
        is_own: bool,
        listed: Vec<Definition>,
        may: impl Fn(&str) -> bool,
    ) -> Vec<(String, Unfit)> {
        self.silent(server);
        let mut new = Vec::new();
        for tool in listed {
            let name = format!("{server}/{}", tool.name);
            // Names that models cannot be told of: they would refuse the whole question.
            if !is_tellable(&told_name(&name)) {
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
            // What may not be called anyway was not bound.
            if pinned.is_some() || may(name) {
                tool.check_pin(pinned)?;
            }
        }
        tool.check()
    }

    /// A server that does not answer has no tools now.
    pub fn silent(&mut self, server: &str) {
        self.fit.retain(|tool, _| tool.split_once('/').is_none_or(|(of, _)| of != server));
    }

    /// The hash of the definition that a call of it is for: the pinned one, where it is.
    pub fn expected(&self, name: &str) -> Option<String> {
        let pinned = self.pins.as_ref().and_then(|pins| pins.get(name));
        pinned.or_else(|| self.fit.get(name)).map(Definition::hash)
    }

    /// The hash of what was listed last under that name, if it may be called.
    pub fn listed(&self, name: &str) -> Result<Option<String>, Unfit> {
        match self.unfit.get(name) {
            Some(unfit) => Err(unfit.clone()),
            None => Ok(self.fit.get(name).map(Definition::hash)),
        }
    }
}

/// The name by which a model is told of a tool.
pub(crate) fn told_name(name: &str) -> String {
    name.replacen('/', JOINT, 1)
}

fn is_tellable(told: &str) -> bool {
    told.len() <= TOLD_MAX && told.chars().all(|c| c.is_ascii_alphanumeric() || "_-".contains(c))
}

/// The tool that a model means.
pub(crate) fn real_name(told: &str) -> String {
    if told.contains('/') { told.to_owned() } else { told.replacen(JOINT, "/", 1) }
}
