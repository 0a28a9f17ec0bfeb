use std::collections::BTreeSet;

use super::*;

fn free(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The same call, with data that somebody vouches for.
fn call() -> CallTerms {
    CallTerms { label: Label { level: DataLabel::Internal, trusted: true }, ..super::call() }
}

fn standing(free_names: &[&str]) -> StandingYes {
    standing_for(&call(), free_names)
}

fn standing_for(call: &CallTerms, free_names: &[&str]) -> StandingYes {
    let members = arguments().as_object().expect("an object").clone();
    let template = Template::of(call, &members, free(free_names));
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
        assert_eq!(all.sweep(NOW_MS), [ID]);
    }
    assert_eq!(StandingYeses::read([([2; 16], &row[..])]).expect_err("of another"), ([2; 16], RowError::Foreign));
    assert_eq!(StandingYeses::read([(ID, &row[1..])]).expect_err("cut"), (ID, RowError::Form));
}

#[test]
fn it_is_for_no_other_call() {
    let mut all = added(standing(&["amount"]));
    for (what, other) in other_calls() {
        // Where the label is not what differs, it is that of the template.
        let is_of_label = what == "the label of the data";
        let other = if is_of_label { other } else { CallTerms { label: call().label, ..other } };
        // Policies decide for themselves.
        let is_meant = other == call() || what == "the policy set";
        assert_eq!(takes(&mut all.clone(), &other, &arguments()), is_meant, "{what}");
    }
    let untrusted = super::call();
    assert!(!takes(&mut all.clone(), &untrusted, &arguments()), "nobody vouches for its data");
    let strict = added(standing_for(&untrusted, &[]));
    for label in [untrusted.label, call().label, Label { level: DataLabel::Public, trusted: true }] {
        // Data with a lower label, or from better sources, are meant too.
        assert!(takes(&mut strict.clone(), &CallTerms { label, ..call() }, &arguments()), "{label:?}");
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
    assert!(all.withdraw(&ID) && !all.withdraw(&ID));
}

#[test]
fn it_ends_with_the_tool_that_it_is_for() {
    let agent = agent();
    let elsewhere = AgentId::new(PublisherId::from_digest([6; 32]), "echo").expect("a good name");
    let change = |now| ToolChange { agent: &agent, action: "bank/pay", now };
    for now in [Some(([9; 32], [3; 32])), Some(([2; 32], [9; 32])), None] {
        let mut all = added(standing(&[]));
        assert!(all.has_any_of(&change(now)));
        assert_eq!(all.redefine(&change(now)), [standing(&[])], "its definition, or whoever has it, is another one");
        assert!(!all.has_any_of(&change(now)) && all.row(&ID).is_none());
    }
    let mut all = added(standing(&[]));
    let of_another = ToolChange { agent: &elsewhere, ..change(None) };
    for other in [change(Some(([2; 32], [3; 32]))), ToolChange { action: "bank/lend", ..change(None) }, of_another] {
        assert!(!all.has_any_of(&other) && all.redefine(&other).is_empty(), "{other:?}");
    }
}

#[test]
fn what_may_be_free_is_bounded_where_nobody_vouches_for_the_data_and_never_everything() {
    let untrusted = super::call();
    let all_free = standing(&["to", "amount"]);
    let free_untrusted = standing_for(&untrusted, &["amount"]);
    let empty =
        StandingYes { template: Template::of(&call(), &serde_json::Map::new(), free(&["note"])), ..standing(&[]) };
    for (yes, error) in [
        (all_free, ConsentError::AllFree),
        (empty, ConsentError::AllFree),
        (free_untrusted, ConsentError::FreeUntrusted),
    ] {
        assert_eq!(StandingYeses::default().add(yes.clone(), &people(), NOW_MS), Err(error));
        // One from before is read, and is for no call.
        let mut read = StandingYeses::read([(ID, &yes.encode()[..])]).expect("it is what was written");
        assert!(!takes(&mut read, &CallTerms { label: yes.template.label, ..call() }, &arguments()), "{yes:?}");
    }
    added(standing_for(&untrusted, &[]));
    // Who sends messages, and who is to have them, is the same in all of them.
    let definition = althing_protocol::digest(MESSAGE_ACTION.as_bytes());
    let message = CallTerms { action: MESSAGE_ACTION.to_owned(), definition, ..untrusted };
    added(standing_for(&message, &["amount"]));
    let named_so = CallTerms { definition: [2; 32], ..message };
    let refused = StandingYeses::default().add(standing_for(&named_so, &["amount"]), &people(), NOW_MS);
    assert_eq!(refused, Err(ConsentError::FreeUntrusted), "a tool of that name sends none");
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
