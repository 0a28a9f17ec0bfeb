//! People: who they are by their keys, users and tokens, and in which roles they answer.

use std::collections::{BTreeMap, BTreeSet};

use althing_td::{FileProblem, OWNER_DEFAULT, PeopleFileError, ReachSpec, SignOffSpec, parse_people};

use super::key::PersonKey;

/// One person.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Person {
    keys: BTreeSet<PersonKey>,
    roles: BTreeSet<String>,
    reach: Vec<ReachSpec>,
}

/// All people that an owner knows. A change of the file counts from the next question on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct People {
    owner: String,
    people: BTreeMap<String, Person>,
    /// Who is a user of the gateway, or has a token of that name.
    users: BTreeMap<String, String>,
    keys: BTreeMap<PersonKey, String>,
    prune: Option<SignOffSpec>,
}

impl Person {
    /// The fingerprints of their keys, as OpenSSH shows them.
    pub fn fingerprints(&self) -> impl Iterator<Item = String> {
        self.keys.iter().map(PersonKey::fingerprint)
    }

    /// In which roles they answer, by name.
    pub fn roles(&self) -> impl Iterator<Item = &str> {
        self.roles.iter().map(String::as_str)
    }

    /// How they are told that something waits for them, in this order.
    #[must_use]
    pub fn reach(&self) -> &[ReachSpec] {
        &self.reach
    }
}

impl Default for People {
    /// The owner alone, without keys: who has this machine.
    fn default() -> People {
        People {
            owner: OWNER_DEFAULT.to_owned(),
            people: BTreeMap::new(),
            users: BTreeMap::new(),
            keys: BTreeMap::new(),
            prune: None,
        }
    }
}

impl People {
    /// Reads `people.yaml`.
    ///
    /// # Errors
    /// [`PeopleFileError`]: each problem with its line and what to write instead.
    pub fn read(text: &str) -> Result<People, PeopleFileError> {
        let file = parse_people(text)?;
        let mut read = People { owner: file.owner, prune: file.prune, ..People::default() };
        let mut problems = Vec::new();
        for (name, person) in file.people {
            let mut keys = BTreeSet::new();
            for line in person.keys {
                let mut problem = |rule, message: String, fix: &str| {
                    let (field, fix) = (line.field.clone(), fix.to_owned());
                    problems.push(FileProblem { field, line: Some(line.line), rule, message, fix });
                };
                match PersonKey::read(&line.text) {
                    Err(error) => problem("key-form", error.to_string(), "Write the whole line of the file"),
                    Ok(key) => match read.keys.insert(key.clone(), name.clone()) {
                        Some(other) => {
                            let message = format!("{key} stands here twice, the first time with {other:?}");
                            problem("twice", message, "Keep it with one person");
                        }
                        None => {
                            keys.insert(key);
                        }
                    },
                }
            }
            read.users.extend(person.users.into_iter().map(|user| (user, name.clone())));
            let roles = person.roles.into_iter().collect();
            read.people.insert(name, Person { keys, roles, reach: person.reach });
        }
        if problems.is_empty() { Ok(read) } else { Err(PeopleFileError::Invalid(problems)) }
    }

    /// Who uses this machine; they answer without a key.
    #[must_use]
    pub fn owner(&self) -> &str {
        &self.owner
    }

    /// Who must agree that bodies of the audit log end before their time; nobody else than the owner where it is nothing.
    #[must_use]
    pub fn prune(&self) -> Option<&SignOffSpec> {
        self.prune.as_ref()
    }

    /// All that the file names, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Person)> {
        self.people.iter().map(|(name, person)| (name.as_str(), person))
    }

    /// Users and tokens of the gateway that are a person.
    pub fn users_of<'a>(&'a self, person: &'a str) -> impl Iterator<Item = &'a str> {
        self.users.iter().filter(move |(_, of)| of.as_str() == person).map(|(user, _)| user.as_str())
    }

    /// Who a user of the gateway is, or whoever has the token of that name.
    #[must_use]
    pub fn person_of(&self, user: &str) -> Option<&str> {
        self.users.get(user).map(String::as_str)
    }

    /// Whose key it is.
    #[must_use]
    pub fn person_with(&self, key: &PersonKey) -> Option<&str> {
        self.keys.get(key).map(String::as_str)
    }

    /// Whether a person has the key of that fingerprint.
    #[must_use]
    pub fn has_key(&self, person: &str, fingerprint: &str) -> bool {
        self.people.get(person).is_some_and(|person| person.keys.iter().any(|key| key.fingerprint() == fingerprint))
    }

    /// Whether somebody is known by that name.
    #[must_use]
    pub fn is_person(&self, name: &str) -> bool {
        name == self.owner || self.people.contains_key(name)
    }

    /// Whether a person answers in a role.
    #[must_use]
    pub fn has_role(&self, person: &str, role: &str) -> bool {
        self.people.get(person).is_some_and(|person| person.roles.contains(role))
    }

    /// Whether an answer of that person can count: the owner needs no key, and everybody else signs with one.
    #[must_use]
    pub fn can_answer(&self, name: &str) -> bool {
        name == self.owner || self.people.get(name).is_some_and(|person| !person.keys.is_empty())
    }

    /// How many can answer in a role.
    #[must_use]
    pub fn able(&self, role: &str) -> usize {
        let can = |(name, person): &(&String, &Person)| person.roles.contains(role) && self.can_answer(name);
        self.people.iter().filter(can).count()
    }

    /// Those who answer in a role, but for one.
    pub fn holders<'a>(&'a self, role: &'a str, but_for: &'a str) -> impl Iterator<Item = &'a str> {
        let holders = self.people.iter().filter(move |(name, person)| *name != but_for && person.roles.contains(role));
        holders.map(|(name, _)| name.as_str())
    }

    /// All people with their roles, by name; the owner among them, whether the file has more of them or not.
    #[must_use]
    pub fn roles(&self) -> BTreeMap<&str, BTreeSet<&str>> {
        let known = self.people.iter().map(|(name, person)| (name.as_str(), &person.roles));
        let known = known.map(|(name, roles)| (name, roles.iter().map(String::as_str).collect()));
        std::iter::once((self.owner.as_str(), BTreeSet::new())).chain(known).collect()
    }

    /// How a person is told that something waits for them, in this order.
    #[must_use]
    pub fn ways_to(&self, person: &str) -> &[ReachSpec] {
        self.people.get(person).map_or(&[], |person| person.reach.as_slice())
    }
}

#[cfg(test)]
mod tests;
