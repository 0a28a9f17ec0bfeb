//! What people are shown of the call before: whose it was, and how far its data might go.

use super::*;

const PEOPLE: &str = "owner: ada\npeople:\n  ada: { users: [ada] }\n  grace: { users: [grace] }\n";

fn label(level: DataLabel, trusted: bool) -> Label {
    Label { level, trusted }
}

/// A turn on behalf of a user, which read data of that label.
fn turn(user: &str, label: Label, item: &str) -> Turn {
    let mut turn = Turn::new();
    (turn.principals, turn.attributes.label) = (vec![format!("token:{user}")], Some(label));
    turn.arguments = json!({ "item": item });
    turn
}

/// What a question about the call shows of the one before, wherever it is shown.
async fn told(governance: &Governance, turn: &Turn, task: &str) -> String {
    let ask = asked(gate(governance).decide(&turn.call(task, "shop/order")).await);
    let shown = governance.pending_ask(&ask.id).expect("it waits");
    let open = governance.open_questions().into_iter().find(|open| althing_protocol::hex(&open.id) == ask.id);
    let sent = open.expect("it is told").outline.join("\n");
    assert_eq!(shown.outline.join("\n"), sent, "people are told what they are shown");
    format!("{sent}\n{}", shown.difference.join("\n"))
}

#[tokio::test]
async fn the_call_before_is_shown_to_its_person_alone_and_where_its_data_may_be_seen() {
    let bench = Bench::new();
    let governance = bench.start().await;
    governance.load_people(PEOPLE, Actor::Owner).await.expect("it is good");
    let (secret, plain) = (label(DataLabel::Confidential, true), label(DataLabel::Internal, true));
    let first = turn("ada", secret, "a ring for grace");
    let call = first.call("first", "shop/order");
    let ask = asked(gate(&governance).decide(&call).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    let permit = permitted(gate(&governance).decide(&call).await);
    bench.intent(permit).await;
    governance.sweep().await;
    for governance in [governance, bench.start().await] {
        let cases = [
            ("ada", secret, true),
            ("ada", label(DataLabel::Restricted, false), true),
            ("ada", plain, false),
            ("grace", secret, false),
            ("grace", label(DataLabel::Restricted, false), false),
        ];
        for (user, label, is_shown) in cases {
            let told = told(&governance, &turn(user, label, "a lamp"), &format!("{user} {label}")).await;
            assert_eq!(told.contains("a ring for grace"), is_shown, "{user} {label}: {told}");
            assert_eq!(told.contains("it was"), is_shown, "{user} {label}: {told}");
        }
    }
}

#[tokio::test]
async fn what_nobody_vouches_for_is_not_shown_beside_what_somebody_does() {
    let bench = Bench::new();
    let governance = bench.start().await;
    governance.load_people(PEOPLE, Actor::Owner).await.expect("it is good");
    let (doubtful, sure) = (label(DataLabel::Internal, false), label(DataLabel::Internal, true));
    let first = turn("ada", doubtful, "as the page said");
    let call = ToolCall { is_journalled: false, ..first.call("first", "shop/order") };
    let ask = asked(gate(&governance).decide(&call).await);
    governance.answer(&ask.id, yes(), Actor::Owner).await.expect("it counts");
    permitted(gate(&governance).decide(&call).await);
    for (label, is_shown) in [(sure, false), (doubtful, true)] {
        let told = told(&governance, &turn("ada", label, "a lamp"), &format!("{label}")).await;
        assert_eq!(told.contains("as the page said"), is_shown, "{told}");
    }
}
