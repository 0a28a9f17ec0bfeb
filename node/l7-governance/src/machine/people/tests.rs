use super::*;

const ADA: &str = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIA7kjw8MIz6Ss3IVzSHKBDJWd6iGoaXmdOUC64VLcBu0 ada@desk";

fn rules(text: &str) -> Vec<(String, Option<u64>, &'static str)> {
    match People::read(text) {
        Err(PeopleFileError::Invalid(problems)) => {
            problems.into_iter().map(|it| (it.field, it.line, it.rule)).collect()
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn people_are_found_by_their_users_and_keys_and_answer_in_their_roles() {
    let text = format!(
        "owner: grace\npeople:\n  ada:\n    keys: [\"{ADA}\"]\n    roles: [treasurer]\n    users: [ada, build-token]\n    \
         reach: [{{ agent: pager }}]\n  grace: {{ roles: [treasurer, compliance] }}\n"
    );
    let people = People::read(&text).expect("a good file");
    assert_eq!(
        (people.owner(), people.person_of("build-token"), people.person_of("eve")),
        ("grace", Some("ada"), None)
    );
    let key = PersonKey::read(ADA).expect("a good key");
    assert_eq!(people.person_with(&key), Some("ada"));
    let (name, ada) = people.iter().next().expect("two people");
    assert_eq!((name, ada.roles().collect::<Vec<_>>(), ada.reach().len()), ("ada", vec!["treasurer"], 1));
    assert_eq!(ada.fingerprints().collect::<Vec<_>>(), [key.fingerprint()]);
    assert_eq!(people.users_of("ada").collect::<Vec<_>>(), ["ada", "build-token"]);
    assert!(people.has_key("ada", &key.fingerprint()) && !people.has_key("grace", &key.fingerprint()));
    assert!(people.has_role("ada", "treasurer") && !people.has_role("ada", "compliance"));
    assert_eq!(
        ["ada", "grace", "eve"].map(|name| people.can_answer(name)),
        [true, true, false],
        "the owner needs no key"
    );
    assert!(!people.has_role("eve", "treasurer"));
    assert_eq!(people.holders("treasurer", "grace").collect::<Vec<_>>(), ["ada"]);
    assert_eq!(people.ways_to("ada"), [ReachSpec::Agent("pager".to_owned())]);
    assert!(people.ways_to("eve").is_empty());
    assert!(people.is_person("grace") && !people.is_person("eve") && !people.is_person("owner"));
}

#[test]
fn keys_that_are_none_or_of_two_people_are_told_with_their_lines() {
    let text = format!(
        "people:\n  ada:\n    keys:\n      - \"{ADA}\"\n      - ssh-dss AAAA\n  grace: {{ keys: [\"{ADA}\"] }}\n"
    );
    let found = rules(&text);
    let wanted = [("people.ada.keys[1]", Some(5), "key-form"), ("people.grace.keys[0]", Some(6), "twice")];
    assert_eq!(found, wanted.map(|(field, line, rule)| (field.to_owned(), line, rule)));
    assert!(matches!(People::read("people: {"), Err(PeopleFileError::Yaml { .. })));
}

#[test]
fn without_a_file_there_is_the_owner_alone() {
    let people = People::default();
    assert_eq!(people.owner(), OWNER_DEFAULT);
    assert!(people.is_person(OWNER_DEFAULT) && !people.has_role(OWNER_DEFAULT, "treasurer"));
}
