use std::collections::BTreeSet;

use super::*;

fn free(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn standing(free_names: &[&str]) -> StandingYes {
    let members = arguments().as_object().expect("an object").clone();
    let template = Template::of(&call(), &members, free(free_names));
    let (person, consent) = ("ada".to_owned(), Some([8; 32]));
    StandingYes { id: ID, person, template, at_ms: NOW_MS, until_ms: END_MS, left: 2, consent }
}

fn added(yes: StandingYes) -> StandingYeses {
    let mut all = StandingYeses::default();
    assert_eq!(all.add(yes, &people(), NOW_MS), Ok(()));
    all
}

fn with(arguments: &Value) -> CallTerms {
    CallTerms { arguments: arguments_digest(arguments), ..call() }
}

fn takes(all: &mut StandingYeses, call: &CallTerms, arguments: &Value) -> bool {
    all.take("ada", (call, arguments), &people(), NOW_MS + 1).is_some()
}

#[test]
fn a_standing_yes_counts_so_often_until_its_end() {
    let mut all = added(standing(&["amount"]));
    let other = json!({ "to": "shop", "amount": 7 });
    assert!(all.take("grace", (&call(), &arguments()), &people(), NOW_MS).is_none(), "it is ada's");
    assert!(all.take("ada", (&call(), &arguments()), &people(), END_MS + 1).is_none(), "it ended");
    assert!(takes(&mut all, &with(&other), &other), "the amount is free");
    let row = all.row(&ID).expect("it still counts");
    let mut read = StandingYeses::read([(ID, &row[..])]).expect("it is what was written");
    assert_eq!(read.iter().map(|yes| yes.left).collect::<Vec<_>>(), [1]);
    for all in [&mut all, &mut read] {
        assert!(takes(all, &call(), &arguments()));
        assert!(!takes(all, &call(), &arguments()), "it is used up");
        assert_eq!(all.row(&ID), None);
        assert_eq!(all.sweep(NOW_MS, None), [ID]);
    }
    assert_eq!(StandingYeses::read([([2; 16], &row[..])]).expect_err("of another"), ([2; 16], RowError::Foreign));
    assert_eq!(StandingYeses::read([(ID, &row[1..])]).expect_err("cut"), (ID, RowError::Form));
}

#[test]
fn it_is_for_no_other_call() {
    let mut all = added(standing(&["amount"]));
    for (what, other) in other_calls() {
        // Data with a lower label, or from better sources, are meant too, and policies decide for themselves.
        let is_meant = other.policy.is_none() || other.label.trusted;
        assert_eq!(takes(&mut all.clone(), &other, &arguments()), is_meant, "{what}");
    }
    for arguments in [
        json!({ "to": "eve", "amount": 5 }),
        json!({ "amount": 5 }),
        json!({ "to": "shop", "amount": 5, "tip": 1 }),
        json!({ "to": ["shop"], "amount": 5 }),
        json!(["shop", 5]),
    ] {
        assert!(!takes(&mut all, &with(&arguments), &arguments), "{arguments}");
    }
    let lie = json!({ "to": "shop", "amount": 6 });
    assert!(!takes(&mut all, &call(), &lie), "these are not the arguments of the call");
    let mut fixed = added(standing(&[]));
    assert!(!takes(&mut fixed, &with(&lie), &lie), "no argument is free");
    assert!(fixed.sweep(NOW_MS, Some(("bank/pay", &[2; 32]))).is_empty());
    assert_eq!(fixed.sweep(NOW_MS, Some(("bank/pay", &[9; 32]))), [ID], "the definition changed");
    assert!(all.withdraw(&ID) && !all.withdraw(&ID));
}

#[test]
fn there_is_none_for_restricted_data_and_none_without_end() {
    let mut all = StandingYeses::default();
    let label = Label { level: DataLabel::Restricted, trusted: true };
    let mut restricted = standing(&[]);
    restricted.template.label = label;
    let endless = StandingYes { until_ms: u64::MAX, ..standing(&[]) };
    let over = StandingYes { until_ms: NOW_MS, ..standing(&[]) };
    let none = StandingYes { left: 0, ..standing(&[]) };
    let often = StandingYes { left: u32::MAX, ..standing(&[]) };
    for yes in [restricted, endless, over, none, often] {
        assert!(matches!(all.add(yes, &people(), NOW_MS), Err(ConsentError::Malformed(_))));
    }
    let stranger = StandingYes { person: "mallory".to_owned(), ..standing(&[]) };
    assert!(matches!(all.add(stranger, &people(), NOW_MS), Err(ConsentError::Nobody(_))));
    assert_eq!(all.add(standing(&[]), &people(), NOW_MS), Ok(()));
    assert!(matches!(all.add(standing(&[]), &people(), NOW_MS), Err(ConsentError::Malformed(_))), "the same id");
}
