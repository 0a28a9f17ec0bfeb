use super::*;

const ASKED_MS: u64 = 1_800_000_000_000;
const HOUR_MS: u64 = 60 * 60 * 1_000;
const SECRET: &str = "  iban = \"DE02\"";

fn people() -> People {
    let text = "owner: ada
people:
  ada:
    reach: [{ command: [tell-ada] }]
  grace:
    roles: [treasurer]
    reach:
      - url: https://push.example/grace?token=s3cret
      - agent: pager
  kay:
    roles: [treasurer]
";
    People::read(text).expect("a good file")
}

fn question(person: &str) -> OpenQuestion {
    OpenQuestion {
        id: [1; 16],
        agent: "did:althing:shop".to_owned(),
        action: "bank/transfer".to_owned(),
        needs: vec![Need::Consent { person: person.to_owned() }],
        answered: BTreeSet::new(),
        label: Label { level: DataLabel::Public, trusted: true },
        outline: vec![SECRET.to_owned()],
        asked_ms: ASKED_MS,
        expires_ms: ASKED_MS + HOUR_MS,
    }
}

/// Who is told by which way.
fn told(due: &DueNotices) -> Vec<(&str, String, u32, bool)> {
    let one = |notice: &Notice| (way_name(&notice.way), notice.attempt, notice.is_escalation);
    let all = due.notices.iter().map(|notice| (notice.person.as_str(), one(notice)));
    all.map(|(person, (way, attempt, is_escalation))| (person, way, attempt, is_escalation)).collect()
}

const URL: &str = "url https://push.example/grace";

#[test]
fn a_person_is_told_by_one_way_after_another_and_then_the_owner() {
    let (people, open) = (people(), [question("grace")]);
    let mut deliveries = Deliveries::default();
    let first = deliveries.due(&open, &people, ASKED_MS);
    assert_eq!(told(&first), [("grace", URL.to_owned(), 1, false)]);
    deliveries.settle(&first.notices[0], Ok(()), ASKED_MS + 1);
    let step = 15 * 60 * 1_000;
    let quiet = deliveries.due(&open, &people, ASKED_MS + step - 1);
    assert_eq!((quiet.notices.len(), quiet.next_ms), (0, Some(ASKED_MS + step)));
    let second = deliveries.due(&open, &people, ASKED_MS + step);
    assert_eq!(told(&second), [("grace", "agent pager".to_owned(), 1, false)]);
    deliveries.settle(&second.notices[0], Ok(()), ASKED_MS + step);
    let third = deliveries.due(&open, &people, ASKED_MS + 2 * step);
    assert_eq!(told(&third), [("ada", "command tell-ada".to_owned(), 1, true)], "the owner hears of it");
    deliveries.settle(&third.notices[0], Ok(()), ASKED_MS + 2 * step);
    assert_eq!(deliveries.due(&open, &people, ASKED_MS + HOUR_MS), DueNotices::default(), "everybody was told once");
    assert_eq!(deliveries.troubles(&open[0], &people), []);
    assert_eq!(deliveries.forget(&open), [] as [AskId; 0]);
    assert_eq!(deliveries.forget(&[]), [[1; 16]]);
    assert_eq!(deliveries, Deliveries::default());
}

#[test]
fn a_way_that_fails_is_tried_again_for_a_day_and_the_next_one_is_not_waited_for() {
    let people = people();
    let open = [OpenQuestion { expires_ms: ASKED_MS + 3 * TRY_FOR_MS, ..question("grace") }];
    let mut deliveries = Deliveries::default();
    let first = deliveries.due(&open, &people, ASKED_MS);
    deliveries.settle(&first.notices[0], Err("it answered 503\n"), ASKED_MS);
    let next = deliveries.due(&open, &people, ASKED_MS + 1);
    assert_eq!(told(&next), [("grace", "agent pager".to_owned(), 1, false)]);
    deliveries.settle(&next.notices[0], Ok(()), ASKED_MS + 1);
    let (mut now_ms, mut attempts, mut pauses) = (ASKED_MS + 1, 1, Vec::new());
    loop {
        let due = deliveries.due(&open, &people, now_ms);
        for notice in due.notices.iter().filter(|notice| notice.person == "grace") {
            attempts += 1;
            assert_eq!(notice.attempt, attempts);
            deliveries.settle(notice, Err("it answered 503"), now_ms);
            pauses.push(now_ms);
        }
        due.notices.iter().filter(|it| it.person == "ada").for_each(|it| deliveries.settle(it, Ok(()), now_ms));
        match deliveries.due(&open, &people, now_ms).next_ms {
            Some(next_ms) if next_ms > now_ms => now_ms = next_ms,
            Some(_) => {}
            None => break,
        }
        let trouble = &deliveries.troubles(&open[0], &people)[0];
        assert_eq!((trouble.way.as_deref(), trouble.reason.as_str()), (Some(URL), "it answered 503"));
    }
    assert_eq!(&pauses[..3], [ASKED_MS + 30_000, ASKED_MS + 90_000, ASKED_MS + 210_000]);
    assert!((24..=40).contains(&attempts), "{attempts}");
    assert!(now_ms > ASKED_MS + TRY_FOR_MS - PAUSE_MAX_MS && now_ms <= ASKED_MS + TRY_FOR_MS, "{now_ms}");
    let over = deliveries.troubles(&open[0], &people);
    assert_eq!((over.len(), over[0].next_ms, over[0].attempts), (1, None, attempts), "it is not tried any more");
}

#[test]
fn what_somebody_answered_who_was_not_told_stays_on_its_line() {
    let (people, open, mut deliveries) = (people(), [question("grace")], Deliveries::default());
    let first = deliveries.due(&open, &people, ASKED_MS);
    let said = format!("no\u{202e}\nneeds    nothing\u{2028}\u{1b}[2J{}", "x".repeat(1_000));
    deliveries.settle(&first.notices[0], Err(&said), ASKED_MS);
    let reason = deliveries.troubles(&open[0], &people).remove(0).reason;
    assert!(reason.starts_with("noneeds    nothing[2Jx") && reason.chars().count() == 200, "{reason}");
}

#[test]
fn nothing_goes_a_way_that_is_not_for_data_of_its_label() {
    let url = ReachSpec::Url { url: "https://a.example/".to_owned(), secret: None };
    let command = ReachSpec::Command { command: vec!["tell".to_owned()], sandbox: Sandbox::default() };
    let ways = [url, command, ReachSpec::Agent("pager".to_owned())];
    let levels = [DataLabel::Public, DataLabel::Internal, DataLabel::Confidential, DataLabel::Restricted];
    for (level, shown) in levels.into_iter().zip([[true, true, true], [false, true, false], [false; 3], [false; 3]]) {
        for (way, is_shown) in ways.iter().zip(shown) {
            for trusted in [true, false] {
                let question = OpenQuestion { label: Label { level, trusted }, ..question("grace") };
                let notice = Notice {
                    ask: question.id,
                    person: "grace".to_owned(),
                    way: way.clone(),
                    attempt: 1,
                    is_escalation: false,
                };
                let body = question.body(&notice);
                let is_shown = is_shown && (trusted || !matches!(way, ReachSpec::Agent(_)));
                assert_eq!(body.get("outline").is_some(), is_shown, "{level:?} {trusted} {way:?}");
                let text = body.to_string();
                for part in ["DE02", "bank/transfer"] {
                    assert_eq!(text.contains(part), is_shown, "{level:?} {trusted} {way:?}: {text}");
                }
                assert!(text.contains(&hex(&[1; 16])) && text.contains("did:althing:shop"), "{text}");
            }
        }
    }
}

#[test]
fn who_cannot_be_told_shows_and_the_owner_hears_of_it_at_once() {
    let (people, mut deliveries) = (people(), Deliveries::default());
    let open = [question("kay")];
    let due = deliveries.due(&open, &people, ASKED_MS);
    assert_eq!(told(&due), [("ada", "command tell-ada".to_owned(), 1, true)]);
    let troubles = deliveries.troubles(&open[0], &people);
    assert_eq!((troubles.len(), troubles[0].person.as_str(), &troubles[0].way), (1, "kay", &None));
    // Of several who may sign off, those who answered are not told.
    let needs = vec![Need::SignOff { role: "treasurer".to_owned(), count: 2, but_for: "ada".to_owned() }];
    let answered = BTreeSet::from(["grace".to_owned()]);
    let rest = [OpenQuestion { id: [2; 16], needs: needs.clone(), answered, ..question("kay") }];
    let due = deliveries.due(&rest, &people, ASKED_MS);
    assert!(due.notices.iter().all(|notice| notice.person == "ada" && notice.is_escalation), "{due:?}");
    let all = [OpenQuestion { id: [3; 16], needs, ..question("kay") }];
    assert_eq!(told(&deliveries.due(&all, &people, ASKED_MS)), [("grace", URL.to_owned(), 1, false)]);
    let late = deliveries.due(&all, &people, ASKED_MS + HOUR_MS + 1);
    assert_eq!(late, DueNotices::default(), "nobody can answer any more");
}

#[test]
fn who_was_told_is_not_told_again_after_a_restart() {
    let (people, open) = (people(), [question("grace")]);
    let mut deliveries = Deliveries::default();
    let first = deliveries.due(&open, &people, ASKED_MS);
    deliveries.settle(&first.notices[0], Ok(()), ASKED_MS);
    let row = deliveries.row(&[1; 16]).expect("a row");
    let mut again = Deliveries::default();
    assert!(again.take_row([1; 16], &row));
    assert_eq!(again, deliveries);
    assert_eq!(again.due(&open, &people, ASKED_MS + 1).notices, []);
    for bad in [&b""[..], b"\xff", &row[..row.len() - 1]] {
        assert!(!again.take_row([9; 16], bad), "{bad:?}");
    }
    assert_eq!(again.row(&[9; 16]), None);
}
