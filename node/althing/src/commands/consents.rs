//! `althing consents`: each yes that counts more than once, and its end.

use althing_api::{ConsentList, ConsentRemoval, StandingConsent};

use crate::args::{ConsentWork, Consents};
use crate::commands::agent::escape;
use crate::commands::agreement::agree;
use crate::commands::{Out, date_time, one_line, table};
use crate::exit::{Failure, code};
use crate::paths::Paths;

/// Digits of an id that name it where no other begins so.
const ID_CHARS_MIN: usize = 4;

/// Lists them, or takes one back.
pub async fn run(at: &Paths, consents: &Consents, out: &Out) -> Result<(), Failure> {
    let client = at.connect().await?;
    let list: ConsentList = client.read("/consents").await?;
    let Some(ConsentWork::Withdraw { id, yes }) = &consents.work else {
        out.show(&list, listed);
        return Ok(());
    };
    let one = named(list, id)?;
    agree(&one, &shown(&one), *yes, "take back", out)?;
    let withdrawn: ConsentRemoval = client.remove(&format!("/consents/{}", escape(&one.id))).await?;
    out.show(&withdrawn, |one| format!("{}  counts for no further call", one.id));
    Ok(())
}

fn named(list: ConsentList, id: &str) -> Result<StandingConsent, Failure> {
    let is_long = id.chars().count() >= ID_CHARS_MIN;
    let is_meant = |one: &StandingConsent| one.id == id || (is_long && one.id.starts_with(id));
    let mut meant: Vec<StandingConsent> = list.consents.into_iter().filter(is_meant).collect();
    match (meant.pop(), meant.len()) {
        (Some(one), 0) => Ok(one),
        (Some(_), others) => {
            let message = format!("{} ids begin with {id}: write more of the one that is meant", others + 1);
            Err(Failure::usage(message))
        }
        (None, _) => {
            let message =
                format!("no standing yes has the id {id}, or no longer; `althing consents` shows those there are");
            Err(Failure::new(code::NOT_FOUND, message))
        }
    }
}

fn listed(list: &ConsentList) -> String {
    if list.consents.is_empty() {
        return "no yes counts more than once".to_owned();
    }
    let cells = |one: &StandingConsent| {
        let (id, person, action) = (one.id.clone(), one.person.clone(), one.action.clone());
        vec![id, person, one.agent.clone(), action, one.left.to_string(), date_time(one.until_ms)]
    };
    let rows: Vec<Vec<String>> = list.consents.iter().map(cells).collect();
    let table = table(&["id", "of", "agent", "action", "left", "until"], &rows);
    format!("{table}`althing consents withdraw ID` shows one, and takes it back")
}

/// What is taken back.
fn shown(one: &StandingConsent) -> String {
    let mut lines = String::new();
    let mut line = |name: &str, value: &str| lines.push_str(&format!("{name:8} {}\n", one_line(value)));
    let sources = if one.label.trusted { ", from trusted sources" } else { "" };
    line("yes", &one.id);
    line("of", &one.person);
    line("agent", &one.agent);
    line("call", &one.action);
    line("data", &format!("{} at most{sources}", one.label.level));
    one.fixed.iter().for_each(|argument| line("with", argument));
    one.free.iter().for_each(|argument| line("any", argument));
    line("left", &format!("{} times, until {}", one.left, date_time(one.until_ms)));
    lines.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use althing_api::DataReach;

    use super::*;

    fn one(id: &str) -> StandingConsent {
        StandingConsent {
            id: id.to_owned(),
            person: "ada".to_owned(),
            agent: "urn:a".to_owned(),
            action: "shop/order".to_owned(),
            fixed: vec!["item = \"lamp\"".to_owned()],
            free: vec!["note".to_owned()],
            label: DataReach { level: "internal".to_owned(), trusted: true },
            left: 3,
            given_ms: 0,
            until_ms: 3_661_000,
        }
    }

    #[test]
    fn each_is_listed_and_shown_with_all_that_it_is_for() {
        assert_eq!(listed(&ConsentList { consents: Vec::new() }), "no yes counts more than once");
        let told = listed(&ConsentList { consents: vec![one("0a0b")] });
        assert!(told.contains("0a0b") && told.contains("shop/order") && told.contains("withdraw"), "{told}");
        let told = shown(&one("0a0b"));
        let left = "left     3 times, until 1970-01-01T01:01:01Z";
        for words in ["of       ada", "with     item = \"lamp\"", "any      note", left] {
            assert!(told.contains(words), "{words} in {told}");
        }
        let told = shown(&StandingConsent { free: vec!["note\nleft     9 times".to_owned()], ..one("0a0b") });
        assert_eq!(told.lines().filter(|line| line.starts_with("left")).count(), 1, "{told}");
    }

    #[test]
    fn one_is_named_by_the_beginning_of_its_id() {
        let of = |id: &str| named(ConsentList { consents: vec![one("0a0b0c"), one("0a0b0d")] }, id);
        assert_eq!(of("0a0b0d").expect("it is one").id, "0a0b0d");
        assert_eq!(of("0a0b").expect_err("two begin so").code, code::USAGE);
        for none in ["0a0", "ffff", ""] {
            assert_eq!(of(none).expect_err("none is meant").code, code::NOT_FOUND, "{none}");
        }
    }
}
