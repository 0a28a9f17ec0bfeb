//! Descriptions as large as they may be, made to be slow or to break rules at every place: each is judged, and its
//! report is of bounded size. A walk that took the square of their length would take this test minutes.

use althing_td::{Description, FINDINGS_MAX, TD_BYTES_MAX, validate};

fn td(inner: &str) -> Vec<u8> {
    let head = "{\"@context\":[\"https://www.w3.org/2022/wot/td/v1.1\",{\"lmos\":\"https://eclipse.dev/lmos/protocol/v1\"}],\
                \"title\":\"x\",\"securityDefinitions\":{\"n\":{\"scheme\":\"nosec\"}},\"security\":\"n\"";
    format!("{head}{inner}}}").into_bytes()
}

/// As many copies of a text as fit, the number of each written where `#` stands, with commas between.
fn many(text: &str) -> String {
    let mut out = String::new();
    for n in 0.. {
        let next = text.replace('#', &n.to_string());
        if out.len() + next.len() > TD_BYTES_MAX - 2000 {
            break;
        }
        if n > 0 {
            out.push(',');
        }
        out.push_str(&next);
    }
    out
}

#[test]
fn the_largest_descriptions_are_judged_in_bounds() {
    let form = "{\"href\":\"https://a.example/\"}";
    let deep = format!("{}1{}", "{\"items\":".repeat(24), "}".repeat(24));
    let cases = [
        ("duplicate names", format!(",\"x\":{{{}}}", many("\"a\":1"))),
        ("duplicate affordances", format!(",\"actions\":{{{}}}", many(&format!("\"a\":{{\"forms\":[{form}]}}")))),
        ("affordances with nothing in them", format!(",\"actions\":{{{}}}", many("\"a#\":{}"))),
        ("an enum of distinct values", format!(",\"schemaDefinitions\":{{\"s\":{{\"enum\":[{}]}}}}", many("#"))),
        ("an enum of objects", format!(",\"schemaDefinitions\":{{\"s\":{{\"enum\":[{}]}}}}", many("{\"a\":#}"))),
        ("deep data schemas that fail", format!(",\"schemaDefinitions\":{{{}}}", many(&format!("\"s#\":{deep}")))),
        ("schemes of no kind", format!(",\"securityDefinitions\":{{{}}}", many("\"s#\":{\"scheme\":\"x\"}"))),
        ("links of the same kind", format!(",\"links\":[{}]", many("{\"rel\":\"type\",\"href\":\"x\"}"))),
        (
            "unknown security",
            format!(",\"forms\":[{{\"href\":\"x\",\"op\":\"readallproperties\",\"security\":[{}]}}]", many("\"s#\"")),
        ),
        ("empty capabilities", format!(",\"lmos:capabilities\":[{}]", many("{}"))),
        ("an open context", format!(",\"@type\":[{}]", many("\"lmos:x\""))),
    ];
    for (name, inner) in cases {
        let bytes = td(&inner);
        assert!(bytes.len() <= TD_BYTES_MAX, "{name}");
        let report = validate(&bytes);
        assert!(report.findings.len() <= FINDINGS_MAX + 1, "{name}: {}", report.findings.len());
        assert!(report.to_string().len() < 200_000, "{name}");
        assert_eq!(Description::parse(&bytes).is_ok(), report.is_valid(), "{name}");
    }
}
