//! Lists of tools, read tool by tool: what cannot be used is left out, and named with the reason.

use std::collections::BTreeSet;

use althing_execution::tools::Definition;
use rmcp::model::{Icon, Tool};
use serde_json::{Value, json};

/// Tools of one server.
const TOOLS_MAX: usize = 1_024;
/// Pages of a list of tools.
const PAGES_MAX: usize = 256;
/// What is left out and named, of tools and of what else a server says.
pub(super) const LEFT_OUT_MAX: usize = 64;
/// Characters of a name that are shown.
const NAME_CHARS_MAX: usize = 80;
/// What stands for the listing itself among what was left out.
const LISTING: &str = "its list of tools";

/// The member of a page's `_meta` that has the tools which are no tools, each with its place.
const UNREADABLE: &str = "dev.althing/unreadable";

/// Whether a value is of the right kind.
type Check = fn(&Value) -> bool;
/// Members that were left out of a tool, each with why.
type Odd = Vec<(&'static str, String)>;

/// What was read of a list.
#[derive(Debug, Default)]
pub struct Listing {
    tools: Vec<Definition>,
    names: BTreeSet<String>,
    left_out: Vec<(String, String)>,
    cursors: BTreeSet<String>,
    pages: usize,
}

/// What there is to do after a page.
#[derive(Debug, PartialEq, Eq)]
pub enum Next {
    /// Ask for the page after this cursor.
    Page(String),
    /// Nothing.
    End,
}

impl Listing {
    /// Takes a page, as it was answered. One without tools has none.
    ///
    /// # Errors
    /// It is no list of tools.
    pub fn take(&mut self, page: &Value) -> Result<Next, &'static str> {
        let tools: &[Value] = match &page["tools"] {
            Value::Array(tools) => tools,
            Value::Null if page.is_object() => &[],
            _ => return Err("it answered something else than a list of tools"),
        };
        self.pages += 1;
        for (place, tool) in tools.iter().enumerate() {
            if self.tools.len() == TOOLS_MAX {
                self.note(LISTING.to_owned(), format!("it has more than {TOOLS_MAX} tools; the others are not read"));
                return Ok(Next::End);
            }
            match read(tool) {
                Ok((tool, odd)) if self.names.insert(tool.name.clone()) => {
                    self.note_members(&tool.name, odd);
                    self.tools.push(tool);
                }
                Ok((tool, _)) => {
                    self.note(shown(&tool.name), "there is another tool of that name before it".to_owned());
                }
                Err(why) => self.note(name(tool, place), why),
            }
        }
        for bad in page["_meta"][UNREADABLE].as_array().into_iter().flatten() {
            let place = bad[0].as_u64().and_then(|place| usize::try_from(place).ok()).unwrap_or(0);
            match read(&bad[1]) {
                Ok((tool, odd)) => self.note_members(&tool.name, odd),
                Err(why) => self.note(name(&bad[1], place), why),
            }
        }
        Ok(self.next(&page["nextCursor"]))
    }

    fn next(&mut self, cursor: &Value) -> Next {
        let page = self.pages;
        let why = match cursor {
            Value::Null => return Next::End,
            Value::String(cursor) if cursor.is_empty() => "is empty",
            Value::String(cursor) if !self.cursors.insert(cursor.clone()) => "stood there before",
            Value::String(cursor) if page < PAGES_MAX => return Next::Page(cursor.clone()),
            Value::String(_) => "leads to more pages than are read",
            _ => "is no text",
        };
        let why = format!("its pages do not end: the cursor of page {page} {why}; what may follow is not read");
        self.note(LISTING.to_owned(), why);
        Next::End
    }

    /// Ends the list where it fails, for the reason `why`; tells whether there is anything to keep.
    pub fn broke_off(&mut self, why: &str) -> bool {
        if self.pages == 0 {
            return false;
        }
        let page = self.pages + 1;
        self.note(LISTING.to_owned(), format!("it ends before page {page}: {why}; what may follow is not read"));
        true
    }

    /// The tools, and what was left out.
    pub fn done(self) -> (Vec<Definition>, Vec<(String, String)>) {
        (self.tools, self.left_out)
    }

    /// Names what was left out of a tool that is used.
    fn note_members(&mut self, tool: &str, odd: Odd) {
        for (member, why) in odd {
            self.note(format!("{member} of {}", shown(tool)), why);
        }
    }

    fn note(&mut self, what: String, why: String) {
        if self.left_out.len() < LEFT_OUT_MAX && !self.left_out.iter().any(|(known, _)| *known == what) {
            self.left_out.push((what, why));
        }
    }
}

/// A page whose tools are tools, for readers that refuse it for one bad tool. [`Listing::take`] names the bad ones, and what was left
/// out of good ones, all the same.
pub fn readable(mut page: Value) -> Value {
    let Some(tools) = page.get_mut("tools").and_then(Value::as_array_mut) else { return page };
    let (mut good, mut bad) = (Vec::new(), Vec::new());
    for (place, tool) in std::mem::take(tools).into_iter().enumerate() {
        match read(&tool) {
            Ok((_, odd)) if odd.is_empty() => good.push(tool),
            Ok(_) => {
                good.push(plain(&tool).0);
                bad.push(json!([place, tool]));
            }
            Err(_) => bad.push(json!([place, tool])),
        }
    }
    *tools = good;
    if !bad.is_empty() {
        if !page["_meta"].is_object() {
            page["_meta"] = json!({});
        }
        page["_meta"][UNREADABLE] = Value::Array(bad);
    }
    page
}

/// The name of a tool that is left out, or its place in the list.
fn name(tool: &Value, place: usize) -> String {
    match tool["name"].as_str() {
        Some(name) if !name.is_empty() => shown(name),
        _ => format!("tool {} of its list", place + 1),
    }
}

/// A name as people are shown it.
pub(super) fn shown(name: &str) -> String {
    let plain = name.chars().filter(|c| !c.is_control() && !althing_td::is_hidden(*c));
    plain.take(NAME_CHARS_MAX).collect()
}

/// One tool, and those of its members that were left out, each with why.
fn read(tool: &Value) -> Result<(Definition, Odd), String> {
    if let Some(why) = fault(tool) {
        return Err(why);
    }
    let (tool, odd) = plain(tool);
    let unreadable = |_: serde_json::Error| "it is not described as MCP has it".to_owned();
    let tool: Tool = serde_json::from_value(tool).map_err(unreadable)?;
    let whole = serde_json::to_value(&tool).map_err(unreadable)?;
    Ok((serde_json::from_value(whole).map_err(unreadable)?, odd))
}

/// A tool without what is odd of the members that only decorate it: its icons, and its annotations, which are hints.
fn plain(tool: &Value) -> (Value, Odd) {
    let (mut tool, mut odd) = (tool.clone(), Odd::new());
    let Some(members) = tool.as_object_mut() else { return (tool, odd) };
    for (member, right, is_right) in
        [("annotations", "an object", Value::is_object as Check), ("icons", "a list", Value::is_array as Check)]
    {
        if let Some(value) = members.get(member).filter(|value| !value.is_null() && !is_right(value)) {
            odd.push((member, format!("its {member} is {}, and not {right}", kind(value))));
            members.remove(member);
        }
    }
    if let Some(annotations) = members.get_mut("annotations").filter(|annotations| annotations.is_object()) {
        let hints = ["readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"];
        let hints = hints.map(|hint| (hint, "true or false", Value::is_boolean as Check));
        for one in hints.into_iter().chain([("title", "a text", Value::is_string as Check)]) {
            if let Some(why) = wrong(annotations, "annotations.", [one].into_iter()) {
                odd.push(("annotations", why));
                if let Some(members) = annotations.as_object_mut() {
                    members.remove(one.0);
                }
            }
        }
    }
    if let Some(icons) = members.get_mut("icons").and_then(Value::as_array_mut) {
        let all = icons.len();
        icons.retain(|icon| serde_json::from_value::<Icon>(icon.clone()).is_ok());
        if icons.len() < all {
            odd.push(("icons", format!("{} of {all} icons are not as MCP has them", all - icons.len())));
        }
    }
    (tool, odd)
}

/// What is wrong with the description of a tool, member by member.
fn fault(tool: &Value) -> Option<String> {
    if !tool.is_object() {
        return Some("it is no object".to_owned());
    }
    if tool["name"].as_str().is_none_or(str::is_empty) {
        return Some("it has no name".to_owned());
    }
    match tool.get("inputSchema") {
        None | Some(Value::Null) => return Some("it has no inputSchema".to_owned()),
        Some(schema) if !schema.is_object() => {
            return Some(format!("its inputSchema is {}, and no object", kind(schema)));
        }
        Some(_) => {}
    }
    let texts = ["title", "description"].map(|member| (member, "a text", Value::is_string as Check));
    let objects = ["outputSchema", "_meta"].map(|member| (member, "an object", Value::is_object as Check));
    wrong(tool, "", texts.into_iter().chain(objects))
}

/// The first of these members that is there, and is something else than it should be.
fn wrong<'a>(of: &Value, before: &str, mut members: impl Iterator<Item = (&'a str, &'a str, Check)>) -> Option<String> {
    members.find_map(|(member, right, is_right)| {
        let value = of.get(member).filter(|value| !value.is_null() && !is_right(value))?;
        Some(format!("its {before}{member} is {}, and not {right}", kind(value)))
    })
}

/// What a value is, in words.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "nothing",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ListToolsResult;

    use super::*;

    fn tool(name: &str) -> Value {
        json!({ "name": name, "inputSchema": { "type": "object" } })
    }

    fn listed(pages: &[Value]) -> (Vec<String>, Vec<(String, String)>) {
        let mut listing = Listing::default();
        for page in pages {
            if listing.take(page).expect("a list") == Next::End {
                break;
            }
        }
        let (tools, left_out) = listing.done();
        (tools.into_iter().map(|tool| tool.name).collect(), left_out)
    }

    #[test]
    fn a_bad_tool_is_left_out_and_named_and_the_good_ones_are_read() {
        let with = |member: &str, value: Value| {
            let mut tool = tool("bad");
            tool[member] = value;
            tool
        };
        for (bad, says) in [
            (json!({ "name": "bad" }), "no inputSchema"),
            (with("inputSchema", Value::Null), "no inputSchema"),
            (with("inputSchema", json!([])), "inputSchema is a list"),
            (with("outputSchema", json!("object")), "outputSchema is a text"),
            (with("description", json!(7)), "description is a number"),
            (with("title", json!({})), "title is an object"),
            (with("_meta", json!(7)), "_meta is a number"),
        ] {
            let (tools, left_out) = listed(&[json!({ "tools": [bad, tool("good")] })]);
            assert_eq!(tools, ["good"], "{says}");
            assert_eq!((left_out.len(), left_out[0].0.as_str()), (1, "bad"), "{left_out:?}");
            assert!(left_out[0].1.contains(says), "{left_out:?}");
        }
        for nameless in [json!({ "inputSchema": {} }), json!({ "name": "", "inputSchema": {} }), json!(7)] {
            let (tools, left_out) = listed(&[json!({ "tools": [tool("good"), nameless] })]);
            assert_eq!((tools.len(), left_out[0].0.as_str()), (1, "tool 2 of its list"), "{left_out:?}");
        }
        let none = ["title", "description", "outputSchema", "annotations", "icons", "_meta", "execution"];
        let fine = none.map(|member| with(member, Value::Null));
        for fine in fine {
            assert_eq!(listed(&[json!({ "tools": [fine], "nextCursor": null })]), (vec!["bad".to_owned()], Vec::new()));
        }
        assert!(Listing::default().take(&json!({ "tools": {} })).is_err());
        assert!(Listing::default().take(&Value::Null).is_err());
    }

    #[test]
    fn a_tool_is_kept_without_what_is_odd_of_its_decoration_and_that_is_named() {
        for (member, odd, says) in [
            ("annotations", json!([]), "annotations is a list"),
            ("annotations", json!({ "readOnlyHint": "yes" }), "annotations.readOnlyHint is a text"),
            ("annotations", json!({ "title": true, "openWorldHint": false }), "annotations.title is true or false"),
            ("icons", json!({ "src": "https://example.com/a.png" }), "icons is an object"),
            ("icons", json!([7, { "src": "https://example.com/a.png" }]), "1 of 2 icons"),
        ] {
            let mut odd_tool = tool("one");
            odd_tool[member] = odd;
            let page = json!({ "tools": [odd_tool, tool("two")] });
            let (tools, left_out) = listed(std::slice::from_ref(&page));
            assert_eq!(tools, ["one", "two"], "{says}");
            assert_eq!((left_out.len(), left_out[0].0.as_str()), (1, format!("{member} of one").as_str()));
            assert!(left_out[0].1.contains(says), "{left_out:?}");
            let made = readable(page);
            assert_eq!(listed(std::slice::from_ref(&made)), (tools, left_out));
            let read: ListToolsResult = serde_json::from_value(made).expect("the library reads it");
            assert_eq!(read.tools.len(), 2);
        }
    }

    #[test]
    fn a_page_without_tools_is_empty_and_the_others_are_read() {
        let empty = [json!({ "tools": null, "nextCursor": "b" }), json!({ "nextCursor": "c" }), json!({})];
        assert_eq!(listed(&empty), (Vec::new(), Vec::new()));
        let first = json!({ "tools": [tool("one")], "nextCursor": "a" });
        let [second, third, last] = empty;
        assert_eq!(listed(&[first, second, third, last]), (vec!["one".to_owned()], Vec::new()));
    }

    #[test]
    fn a_list_that_breaks_off_keeps_its_pages_and_says_so() {
        assert!(!Listing::default().broke_off("no"), "there is nothing to keep");
        let mut listing = Listing::default();
        listing.take(&json!({ "tools": [tool("one")], "nextCursor": "a" })).expect("a list");
        let why = listing.take(&json!({ "tools": {} })).expect_err("no list");
        assert!(listing.broke_off(why));
        let (tools, left_out) = listing.done();
        assert_eq!((tools.len(), left_out.len(), left_out[0].0.as_str()), (1, 1, LISTING));
        assert!(left_out[0].1.contains("before page 2: it answered something else"), "{left_out:?}");
    }

    #[test]
    fn a_page_that_was_made_readable_says_the_same() {
        let bad = [json!({ "name": "bad" }), json!(7), json!({ "inputSchema": {} })];
        for meta in [Value::Null, json!(7), json!({ "x": 1 })] {
            let tools = json!([bad[0], tool("good"), bad[1], bad[2], tool("other")]);
            let page = json!({ "tools": tools, "nextCursor": null, "resultType": "complete", "_meta": meta });
            let made = readable(page.clone());
            assert_eq!(listed(std::slice::from_ref(&made)), listed(&[page]));
            let read: ListToolsResult = serde_json::from_value(made).expect("the library reads it");
            assert_eq!(read.tools.len(), 2);
        }
        for same in [json!({ "tools": [tool("good")] }), json!({ "tools": {} }), json!(null), json!([])] {
            assert_eq!(readable(same.clone()), same);
        }
    }

    #[test]
    fn pages_that_do_not_end_are_one_set_of_tools_and_a_note() {
        for cursor in [json!("again"), json!(""), json!(7)] {
            let page = json!({ "tools": [tool("one"), tool("two")], "nextCursor": cursor });
            let (tools, left_out) = listed(&vec![page; 9]);
            assert_eq!(tools, ["one", "two"], "{cursor}");
            assert!(left_out.iter().any(|(_, why)| why.contains("do not end")), "{left_out:?}");
        }
        let page =
            |number: usize| json!({ "tools": [tool(&format!("tool_{number}"))], "nextCursor": format!("{number}") });
        let many: Vec<Value> = (0..40).map(page).chain([json!({ "tools": [] })]).collect();
        assert_eq!((listed(&many).0.len(), listed(&many).1), (40, Vec::new()));
        let endless: Vec<Value> = (0..PAGES_MAX + 9).map(page).collect();
        let (tools, left_out) = listed(&endless);
        assert_eq!((tools.len(), left_out.len()), (PAGES_MAX, 1));
        assert!(left_out[0].1.contains("more pages"), "{left_out:?}");
        let all: Vec<Value> = (0..TOOLS_MAX + 9).map(|number| tool(&format!("tool_{number}"))).collect();
        let (tools, left_out) = listed(&[json!({ "tools": all })]);
        assert_eq!((tools.len(), left_out.len()), (TOOLS_MAX, 1));
        assert!(left_out[0].1.contains("more than 1024 tools"), "{left_out:?}");
    }

    #[test]
    fn of_two_tools_with_one_name_the_first_is_used() {
        let mut second = tool("one");
        second["description"] = json!("Another");
        let (tools, left_out) = listed(&[json!({ "tools": [tool("one"), second] })]);
        assert_eq!((tools.len(), left_out.len()), (1, 1));
        assert!(left_out[0].1.contains("another tool of that name"), "{left_out:?}");
    }
}
