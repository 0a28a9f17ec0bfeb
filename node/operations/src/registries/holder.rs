//! Detects that a name now leads to another publisher than the one whose release is installed. Pure.

use althing_failure::{RegistryStep, Remedy};
use althing_protocol::{AgentId, PublisherId};

/// Why what a name leads to is not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HolderError {
    /// The name leads to somebody else than what was installed by it.
    #[error(
        "{name} was installed here as {here:?}, published by {was}, and leads to an agent of {is} now: the domain has another holder, \
         or its organisation gave the name to somebody else. Nothing was changed. Ask them"
    )]
    PassedOn {
        /// The name, such as `example.org/billing`.
        name: String,
        /// The name here of what was installed by it.
        here: String,
        /// Who published that.
        was: PublisherId,
        /// Who publishes what the name leads to now.
        is: PublisherId,
    },
    /// The owner means another publisher.
    #[error("{name} leads to an agent of {is}, and you mean {agreed}: nothing was changed")]
    Other {
        /// What was to be installed: a name, or an agent's id.
        name: String,
        /// Who publishes it.
        is: PublisherId,
        /// Whom the owner means.
        agreed: PublisherId,
    },
}

impl HolderError {
    /// What to do next, where that is a step of its own.
    pub(super) fn remedy(&self) -> Option<Remedy> {
        match self {
            HolderError::PassedOn { is, .. } => Some(RegistryStep::NamePublisher(is.to_string()).into()),
            HolderError::Other { .. } => None,
        }
    }
}

/// Checks that what a name leads to is of the publisher of all that was installed by it `before` (names here, and ids of agents),
/// or else of the one that the owner agreed to.
///
/// # Errors
/// See [`HolderError`].
pub(super) fn check_holder<'a>(
    name: &str,
    is: PublisherId,
    agreed: Option<PublisherId>,
    before: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Result<(), HolderError> {
    match agreed {
        Some(agreed) if agreed == is => Ok(()),
        Some(agreed) => Err(HolderError::Other { name: name.to_owned(), is, agreed }),
        None => {
            let publisher =
                |(here, agent): (&'a str, &'a str)| Some((here, agent.parse::<AgentId>().ok()?.publisher()));
            match before.into_iter().filter_map(publisher).find(|(_, was)| *was != is) {
                None => Ok(()),
                Some((here, was)) => {
                    Err(HolderError::PassedOn { name: name.to_owned(), here: here.to_owned(), was, is })
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "example.org/billing";

    fn publisher(seed: u8) -> PublisherId {
        PublisherId::from_digest([seed; 32])
    }

    fn check(is: u8, agreed: Option<u8>, before: &[(&str, u8)]) -> Result<(), HolderError> {
        let agents: Vec<(&str, String)> = before
            .iter()
            .map(|(here, seed)| (*here, AgentId::new(publisher(*seed), "billing").expect("a name").to_string()))
            .collect();
        let before = agents.iter().map(|(here, agent)| (*here, agent.as_str()));
        check_holder(NAME, publisher(is), agreed.map(publisher), before)
    }

    #[test]
    fn a_name_that_leads_to_another_publisher_is_not_followed_unasked() {
        assert_eq!(check(1, None, &[]), Ok(()), "nothing was installed by it");
        assert_eq!(check(1, None, &[("bought", 1), ("again", 1)]), Ok(()));
        let passed = check(2, None, &[("again", 2), ("bought", 1)]).expect_err("it passed to another");
        let (here, name) = ("bought".to_owned(), NAME.to_owned());
        assert_eq!(passed, HolderError::PassedOn { name, here, was: publisher(1), is: publisher(2) });
        let said = passed.to_string();
        for told in [NAME, &publisher(1).to_string(), &publisher(2).to_string()] {
            assert!(said.contains(told), "{said}");
        }
        assert_eq!(passed.remedy(), Some(RegistryStep::NamePublisher(publisher(2).to_string()).into()));
    }

    #[test]
    fn who_agrees_to_a_publisher_gets_that_one_and_no_other() {
        assert_eq!(check(2, Some(2), &[("bought", 1)]), Ok(()));
        assert_eq!(check(2, Some(2), &[]), Ok(()));
        let other =
            |agreed: u8| HolderError::Other { name: NAME.to_owned(), is: publisher(2), agreed: publisher(agreed) };
        assert_eq!(check(2, Some(1), &[("bought", 1)]), Err(other(1)), "the former one is not what it leads to");
        assert_eq!(check(2, Some(3), &[]), Err(other(3)));
    }
}
