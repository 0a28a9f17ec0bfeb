use super::*;

fn outline(arguments: &Value, earlier: Option<&Value>) -> AskOutline {
    let terms = CallTerms { arguments: arguments_digest(arguments), ..call() };
    let question = Question::new(Ask { terms, ..ask() }, consent_of("ada"), true, &people()).expect("a good question");
    AskOutline::of(&question, arguments, earlier).expect("these are its arguments")
}

#[test]
fn what_differs_from_the_last_yes_comes_first() {
    let earlier = json!({ "to": "shop", "amount": 5, "note": "tea", "items": [1, 2] });
    let now = json!({ "to": "shop", "amount": 500, "items": [1, 2, 3], "a.b": null });
    let found = outline(&now, Some(&earlier)).arguments;
    let wanted = [
        "+ \"a.b\" = null",
        "~ amount = 500 (it was 5)",
        "+ items[2] = 3",
        "- note = \"tea\"",
        "  items[0] = 1",
        "  items[1] = 2",
        "  to = \"shop\"",
    ];
    assert_eq!(found, wanted);
    let alone = outline(&now, None);
    assert!(alone.arguments.iter().all(|line| line.starts_with(' ')) && !alone.has_earlier);
    let text = outline(&now, Some(&earlier)).to_string();
    assert!(text.contains("from sources that nobody vouches for") && text.contains("call     bank/pay\n"), "{text}");
}

#[test]
fn nothing_in_it_moves_text_about_or_hides() {
    let hostile = json!({
        "turned\u{202e}": "pay\u{202e}eve",
        "cleared": "\u{1b}[2J\u{1b}[1;1Hall is well\u{7f}\u{9b}",
        "lines": "5\nquestion ok\r\tapproved",
        "tags": "x\u{e0041}\u{200b}",
        "marked": "<b>yes</b>",
    });
    let text = outline(&hostile, None).to_string();
    assert_eq!(
        text.chars().find(|c| (c.is_control() && *c != '\n') || althing_protocol::is_hidden(*c)),
        None,
        "{text}"
    );
    assert_eq!(text.lines().count(), 6 + 5, "no argument makes a line of its own: {text}");
    for written in ["pay\\u{202e}eve", "\\u{e0041}\\u{200b}", "\\u{7f}\\u{9b}", "<b>yes</b>"] {
        assert!(text.contains(written), "{written} in {text}");
    }
}

#[test]
fn what_is_long_wide_or_deep_is_cut_and_said_to_be() {
    let long = json!({ "text": format!("{}END", "a".repeat(100_000)) });
    let line = outline(&long, None).arguments.remove(0);
    assert!(line.chars().count() < 400 && line.contains("characters)") && line.ends_with("END\""), "{line}");
    let wide: Value =
        (0..1_000).map(|number| (format!("n{number}"), json!(number))).collect::<serde_json::Map<_, _>>().into();
    let shown = outline(&wide, None);
    assert_eq!((shown.arguments.len(), shown.left_out), (64, 936));
    assert!(shown.to_string().ends_with("and 936 more, which are not shown\n"));
    let deep = (0..100).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(outline(&deep, None).arguments.len(), 1);
}

#[test]
fn other_arguments_than_those_asked_about_are_not_shown() {
    let question = Question::new(ask(), consent_of("ada"), true, &people()).expect("a good question");
    assert_eq!(AskOutline::of(&question, &json!({ "to": "shop", "amount": 6 }), None), None);
    assert!(AskOutline::of(&question, &json!({ "amount": 5, "to": "shop" }), None).is_some(), "order says nothing");
    assert_eq!(escaped("abcdefgh", 4), "ab …(4 characters)… gh");
}
