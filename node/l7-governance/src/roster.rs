//! The people that a node knows, and its file of them.

use std::sync::{Arc, PoisonError, RwLock};

use althing_td::PEOPLE_FILE_BYTES_MAX;

use crate::config::Ports;
use crate::error::ChangeError;
use crate::files::{self, FileState, PEOPLE_FILE};
use crate::machine::node_profile::{APPROVER_ROLE, NodeProfile, ProfileFacts};
use crate::machine::people::People;
use crate::policies::PeopleNow;

/// The people as they are now.
pub(crate) struct Roster {
    people: RwLock<PeopleNow>,
    /// Why the file of people cannot be read; nothing where it can, or is not there.
    fault: RwLock<Option<String>>,
}

impl Roster {
    /// The people of the file; the owner alone where it is not there or cannot be read.
    pub(crate) fn read(ports: &Ports) -> Roster {
        let (people, fault) = read_people(ports);
        Roster { people: RwLock::new((Arc::new(people), 0)), fault: RwLock::new(fault) }
    }

    pub(crate) fn now(&self) -> PeopleNow {
        self.people.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Why the file of people cannot be read.
    pub(crate) fn fault(&self) -> Option<String> {
        self.fault.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Others count from now on, of a file that can be read.
    pub(crate) fn replace(&self, people: Arc<People>) {
        let changes = self.now().1 + 1;
        *self.people.write().unwrap_or_else(PoisonError::into_inner) = (people, changes);
        *self.fault.write().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The people of a text, as many as the profile of the node demands of them.
pub(crate) fn people_for(profile: NodeProfile, text: &str) -> Result<People, ChangeError> {
    let people = People::read(text)?;
    // Nothing else that a profile demands is about people.
    let facts = ProfileFacts { witnesses: 1, approvers: people.able(APPROVER_ROLE), ungated: Vec::new() };
    match profile.gaps(&facts).into_iter().next() {
        Some(gap) => Err(ChangeError::Profile { profile, gap }),
        None => Ok(people),
    }
}

/// The text of the file; empty where there is none that can be read.
pub(crate) fn people_text(ports: &Ports) -> String {
    match files::read(ports.folder.as_deref(), PEOPLE_FILE, PEOPLE_FILE_BYTES_MAX) {
        FileState::Text(text) => text,
        FileState::Absent | FileState::Unreadable(_) => String::new(),
    }
}

/// The people of the file; the owner alone where it is not there or cannot be read, and why not.
fn read_people(ports: &Ports) -> (People, Option<String>) {
    match files::read(ports.folder.as_deref(), PEOPLE_FILE, PEOPLE_FILE_BYTES_MAX) {
        FileState::Absent => (People::default(), None),
        FileState::Unreadable(why) => (People::default(), Some(why)),
        FileState::Text(text) => match People::read(&text) {
            Ok(people) => (people, None),
            Err(error) => (People::default(), Some(error.to_string())),
        },
    }
}
