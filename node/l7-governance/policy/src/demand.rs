//! What a permit asks for before it permits.

use std::collections::BTreeSet;

/// The most persons that one sign-off may want.
pub const SIGNERS_MAX: u32 = 16;

/// One yes that is wanted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Demand {
    /// Of the person on whose behalf it is done. `@consent`, `@ask`, or `@ask("why")`.
    Consent {
        /// What the policy says of it; empty where it says nothing.
        why: String,
    },
    /// Of others. `@sign_off("2:auditor")`.
    SignOff {
        /// How many persons, from 1 to [`SIGNERS_MAX`].
        count: u32,
        /// The role that each of them has.
        role: String,
    },
}

impl std::fmt::Display for Demand {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Demand::Consent { why } if why.is_empty() => write!(f, "consent"),
            Demand::Consent { why } => write!(f, "consent ({why})"),
            Demand::SignOff { count, role } => write!(f, "sign-off of {count} with the role {role}"),
        }
    }
}

/// The demands in the annotations of a policy.
///
/// # Errors
/// What is wrong with one of them, and what to do.
pub(crate) fn demands<'a>(
    annotations: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<BTreeSet<Demand>, (String, String)> {
    let mut demands = BTreeSet::new();
    for (name, value) in annotations {
        match name {
            "ask" => demands.insert(Demand::Consent { why: value.to_owned() }),
            "consent" if value.is_empty() => demands.insert(Demand::Consent { why: String::new() }),
            "consent" => {
                let what = format!("`@consent` says {value:?}, and takes no value");
                return Err((what, "write the reason as `@ask(\"…\")`".to_owned()));
            }
            "sign_off" => demands.insert(sign_off(value)?),
            _ => false,
        };
    }
    Ok(demands)
}

fn sign_off(value: &str) -> Result<Demand, (String, String)> {
    let parts = value.split_once(':').map(|(count, role)| (count.trim().parse::<u32>(), role.trim()));
    match parts {
        Some((Ok(count), role)) if (1..=SIGNERS_MAX).contains(&count) && !role.is_empty() => {
            Ok(Demand::SignOff { count, role: role.to_owned() })
        }
        _ => Err((
            format!("`@sign_off` says {value:?}"),
            format!("write how many persons (1 to {SIGNERS_MAX}) and their role, such as `@sign_off(\"2:auditor\")`"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_annotation_is_one_demand() {
        let found = demands([("id", "x"), ("ask", "costs money"), ("sign_off", "2: auditor")].into_iter());
        let expected = [
            Demand::Consent { why: "costs money".to_owned() },
            Demand::SignOff { count: 2, role: "auditor".to_owned() },
        ];
        assert_eq!(found, Ok(BTreeSet::from(expected)));
    }

    #[test]
    fn a_sign_off_of_nobody_or_of_too_many_is_refused() {
        for value in ["", "2", "auditor", "0:auditor", "17:auditor", "-1:auditor", "2:", "2: ", "4294967296:auditor"] {
            assert!(demands([("sign_off", value)].into_iter()).is_err(), "{value}");
        }
        assert!(demands([("consent", "why")].into_iter()).is_err());
    }
}
