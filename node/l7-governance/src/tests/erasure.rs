//! Nothing is left of somebody who was erased, and the reason of a no is on record until then.

use althing_protocol::audit::BodyRole;
use althing_store::Range;

use super::*;
use crate::audit::{AuditFilter, EraseOrder, RecordBody};

/// The families of which a row has that text.
fn holds(bench: &Bench, text: &str) -> Vec<&'static str> {
    let has = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text.as_bytes());
    let has_row = |family: &althing_store::Family| {
        let rows = bench.store.scan(*family, Range::all(usize::MAX)).expect("it is whole");
        rows.iter().any(|(key, row)| has(key) || has(row))
    };
    FAMILIES.into_iter().filter(has_row).map(|family| family.0).collect()
}

fn about(principal: &str, item: &str) -> Turn {
    let arguments = json!({ "item": item, "count": 1 });
    Turn { principals: vec![principal.to_owned()], arguments, ..Turn::new() }
}

async fn erase(governance: &Governance, subject: &str) -> PersonErasure {
    let order = EraseOrder { subject: subject.to_owned(), principals: vec!["ada".to_owned()] };
    erase_person(governance, order).await.expect("it is written")
}

/// The reasons that lie beside the entries of answers.
async fn reasons(governance: &Governance) -> Vec<String> {
    let audit = governance.audit();
    let page = audit.query(&AuditFilter::default(), 100).await.expect("it is whole");
    let answers = page.records.iter().filter(|record| record.leaf.stage == AuditStage::Answered);
    let bodies = answers.flat_map(|record| audit.record_at(record.log, record.index).expect("it is whole").bodies);
    let reason = |body: RecordBody| match body {
        RecordBody::Whole(body) if body.role == BodyRole::Reason => String::from_utf8(body.body).ok(),
        _ => None,
    };
    bodies.filter_map(reason).collect()
}

#[tokio::test]
async fn who_is_erased_leaves_no_text_of_what_people_were_asked_agreed_to_and_decided() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let people = "owner: ada\npeople:\n  ada: { roles: [owner] }\n  grace: { users: [grace] }\n";
    governance.load_people(people, Actor::Owner).await.expect("it is good");
    let gate = gate(&governance);
    let items = ["velvet-lamp", "velvet-chair", "velvet-sofa", "velvet-desk"];
    let [used, waits, denial, late] = items.map(|item| about("local", item));
    let ask = asked(gate.decide(&used.call("used", "shop/order")).await);
    let standing = StandingTerms { until_ms: NOW_MS + 60_000, count: 2, free: ["count".to_owned()].into() };
    governance.answer(&ask.id, Answer { standing: Some(standing), ..yes() }, Actor::Owner).await.expect("it counts");
    bench.intent(permitted(gate.decide(&used.call("used", "shop/order")).await)).await;
    asked(gate.decide(&waits.call("waits", "shop/order")).await);
    let ask = asked(gate.decide(&denial.call("denial", "shop/order")).await);
    let no = Answer { reason: Some("no velvet here".to_owned()), ..Answer::default() };
    governance.answer(&ask.id, no, Actor::Owner).await.expect("it counts");
    denied(gate.decide(&denial.call("denial", "shop/order")).await);
    let ask = asked(gate.decide(&late.call("late", "shop/order")).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    let on_its_way = permitted(gate.decide(&late.call("late", "shop/order")).await);
    asked(gate.decide(&about("token:grace", "silk-scarf").call("hers", "shop/order")).await);
    governance.sweep().await;
    assert_eq!(reasons(&governance).await, ["no velvet here"]);
    let places = ["governance.asks", "governance.standing", "governance.decisions"];
    assert_eq!(holds(&bench, "velvet"), places);
    asked(gate.decide(&about("local", "velvet-rug").call("rug", "shop/order")).await);

    let nothing = PersonErasure::default();
    assert_eq!(erase(&governance, "Ada").await, nothing, "nobody has that name");
    assert_eq!(holds(&bench, "velvet"), places);
    assert_eq!(erase(&governance, "ada").await, PersonErasure { bodies: true, consents: true, decisions: true });
    bench.intent(on_its_way).await;
    governance.sweep().await;
    for is_started_again in [false, true] {
        let governance = if is_started_again { bench.start().await } else { governance.clone() };
        governance.sweep().await;
        assert_eq!(holds(&bench, "velvet"), Vec::<&str>::new());
        assert!(!holds(&bench, "silk").is_empty(), "what others are asked stays");
        assert_eq!(governance.pending().len(), 1, "what waited is over, but for hers");
        assert!(governance.standing().is_empty());
        assert_eq!(reasons(&governance).await, Vec::<String>::new());
        let decisions = governance.decisions(100).expect("they are read").records;
        assert!(decisions.iter().all(|(_, one)| one.person.as_deref() == Some("grace") || one.arguments.is_none()));
        assert_eq!(erase(&governance, "ada").await, nothing, "nothing is left");
    }
}

#[tokio::test]
async fn what_was_last_agreed_to_is_known_after_a_restart_before_it_was_noted() {
    let bench = Bench::new();
    let governance = bench.start().await;
    let turn = about("local", "lamp");
    let ask = asked(gate(&governance).decide(&turn.call("one", "shop/order")).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    bench.intent(permitted(gate(&governance).decide(&turn.call("one", "shop/order")).await)).await;
    let governance = bench.start().await;
    asked(gate(&governance).decide(&about("local", "chair").call("two", "shop/order")).await);
    let outline = governance.pending()[0].outline.join("\n");
    assert!(outline.contains("(it was \"lamp\")"), "{outline}");
}
