//! One query: whether it is one, what it may cost, and what it selects.

use althing_search::{Looks, Need, looks, need};
use memchr::{memchr, memmem};
use serde_json::{Value, json};
use serde_json_path::JsonPath;

use super::{SearchError, nesting, part};

const QUERY_BYTES_MAX: usize = 1_024;
/// Steps that a query may take in one description, by the estimate below.
const STEPS_MAX: u64 = 20_000_000;
/// Steps of one comparison with a regular expression, for each byte of the query's texts: the expression is built anew for
/// each comparison. Measured in 2026: 50 to 70 µs for each byte of classes such as \w, less than that of others, and 15 ns
/// for a node; a description at the limit takes a second.
const EXPRESSION_BYTE_STEPS: u64 = 2_000;
/// Functions that take a regular expression.
const EXPRESSIONS: [&str; 2] = ["match(", "search("];

pub struct Query {
    path: JsonPath,
    /// What a description has if the query selects something in it.
    need: Need,
    /// The members that it looks at; none if that may be any.
    looks: Option<Looks>,
    /// Texts that a description has if the query selects something in it.
    texts: Vec<String>,
    /// How often the nodes of a description multiply: each `..` and each `$` in a filter looks at all of them once more.
    powers: u32,
    /// How often selectors between commas may double what is selected.
    doublings: u32,
    /// Steps of all comparisons with regular expressions at one place.
    expression_steps: u64,
    /// Whether the only filter looks at the description as a whole, so that it compares once.
    is_compared_once: bool,
}

impl Query {
    /// Reads a query.
    ///
    /// # Errors
    /// [`SearchError`].
    pub fn parse(text: &str) -> Result<Query, SearchError> {
        if text.len() > QUERY_BYTES_MAX {
            return Err(SearchError::TooLong { max: QUERY_BYTES_MAX });
        }
        let words = Words::of(text);
        if !nesting::is_bounded(&words.bare) {
            return Err(SearchError::Nested);
        }
        // The library's reader of an escape waits for more where the text is at its end, and then panics.
        if text.trim_end_matches(['d', 'D']).ends_with("\\u") {
            return Err(SearchError::Query { reason: "it ends within an escape".to_owned() });
        }
        let path = JsonPath::parse(text).map_err(|error| SearchError::Query { reason: error.to_string() })?;
        if !words.looks_at_each() {
            return Err(SearchError::Start);
        }
        words.check_expressions()?;
        let powers = 1 + words.count("..") + words.count("$").saturating_sub(1);
        Ok(Query {
            path,
            need: need(text),
            // What the directory says of a registration is not in what was sent.
            looks: looks(text).filter(|looks| looks.members.iter().all(|name| name != "registration")),
            texts: words.must_have(),
            powers,
            doublings: words.count(","),
            expression_steps: words.expression_steps(),
            is_compared_once: words.bare.starts_with("$[?") && words.count("?") == 1,
        })
    }

    /// What a description has if the query selects something in it.
    pub fn need(&self) -> &Need {
        &self.need
    }

    /// Whether the query selects descriptions, rather than something in them.
    pub fn is_whole(&self) -> bool {
        self.looks.as_ref().is_some_and(|looks| looks.is_whole)
    }

    /// As much as the query looks at of a description, as it was sent, of that id; none if that may be more than was sent.
    pub fn part(&self, sent: &[u8], id: &str) -> Option<Value> {
        let members = &self.looks.as_ref()?.members;
        let mut part = part::read(sent, members)?;
        let lacks_id = members.iter().any(|name| name == "id") && !part.contains_key("id");
        // What is named as JSON-LD does it is given without another id.
        if lacks_id && part::read(sent, &["@id".to_owned()])?.is_empty() {
            part.insert("id".to_owned(), json!(id));
        }
        Some(Value::Object(part))
    }

    /// Whether there are texts that a description must have.
    pub fn is_narrowed(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Whether the query may select something in a description, by its text alone, as it was sent or as it is given.
    pub fn may_select_in(&self, bytes: &[u8]) -> bool {
        // A text with escapes may have others than those that stand there.
        memchr(b'\\', bytes).is_some() || self.texts.iter().all(|text| memmem::find(bytes, text.as_bytes()).is_some())
    }

    /// What the query selects in a list of this description alone; none if that may take too long.
    pub fn select(&self, description: Value) -> Option<Vec<Value>> {
        let looks = nodes(&description).checked_pow(self.powers)?.checked_mul(1_u64.checked_shl(self.doublings)?)?;
        let compared = if self.is_compared_once { 1 } else { looks };
        let steps = looks.checked_add(compared.checked_mul(self.expression_steps)?)?;
        if steps > STEPS_MAX {
            return None;
        }
        let list = Value::Array(vec![description]);
        Some(self.path.query(&list).all().into_iter().cloned().collect())
    }
}

/// It goes no deeper than a description, whose depth is bounded.
fn nodes(value: &Value) -> u64 {
    1 + match value {
        Value::Array(items) => items.iter().map(nodes).sum(),
        Value::Object(members) => members.values().map(nodes).sum(),
        _ => 0,
    }
}

/// Whether a directory may add that text to what was sent: the id that it gave, or a time of the registration.
fn may_be_added(text: &str) -> bool {
    text.starts_with("urn:uuid:") || text.starts_with(|one: char| one.is_ascii_digit())
}

/// The arguments of a call, which begin the text.
fn arguments(call: &str) -> &str {
    let mut depth = 0_u32;
    let end = call.find(|one: char| {
        match one {
            '(' | '[' => depth += 1,
            ')' | ']' if depth == 0 => return true,
            ')' | ']' => depth -= 1,
            _ => {}
        }
        false
    });
    &call[..end.unwrap_or(call.len())]
}

/// A query that was read, without its string literals: those stand beside it.
struct Words {
    /// The query; in the place of each literal one `'`, and without spaces.
    bare: String,
    /// The literals in their order, as they are written.
    literals: Vec<String>,
}

impl Words {
    fn of(text: &str) -> Words {
        let (mut bare, mut literals) = (String::new(), Vec::new());
        let mut rest = text.chars();
        while let Some(one) = rest.next() {
            if one != '\'' && one != '"' {
                if !one.is_ascii_whitespace() {
                    bare.push(one);
                }
                continue;
            }
            let mut literal = String::new();
            while let Some(next) = rest.next().filter(|next| *next != one) {
                literal.push(next);
                if next == '\\' {
                    literal.extend(rest.next());
                }
            }
            bare.push('\'');
            literals.push(literal);
        }
        Words { bare, literals }
    }

    fn count(&self, what: &str) -> u32 {
        u32::try_from(self.bare.matches(what).count()).unwrap_or(u32::MAX)
    }

    /// Whether the query selects in each description by itself, so that it can be asked of one after the other.
    fn looks_at_each(&self) -> bool {
        let each = ["$[?", "$[*]", "$.*"].iter().any(|start| self.bare.starts_with(start));
        // A descendant's place in a list would be its place in the list of all.
        let of_any_depth = self.bare.strip_prefix("$..").is_some_and(|rest| {
            !rest
                .strip_prefix('[')
                .is_some_and(|rest| rest.starts_with(|one: char| one == '-' || one == ':' || one.is_ascii_digit()))
        });
        (each || of_any_depth) && !self.begins_with_list() && self.count("$") == 1
    }

    /// Whether the first segment has several selectors: what the second one selects would come after all that the first does.
    fn begins_with_list(&self) -> bool {
        let start = self.bare.strip_prefix("$..").or_else(|| self.bare.strip_prefix('$')).unwrap_or_default();
        let mut depth = 0_u32;
        for one in start.chars() {
            match one {
                '[' | '(' => depth += 1,
                ']' | ')' => depth = depth.saturating_sub(1),
                ',' if depth == 1 => return true,
                _ => {}
            }
            if depth == 0 {
                return false;
            }
        }
        false
    }

    /// What follows the opening parenthesis of each call that takes a regular expression.
    fn expression_calls(&self) -> impl Iterator<Item = &str> {
        let bare = self.bare.as_str();
        let after = move |name: &'static str| bare.match_indices(name).map(move |(at, _)| &bare[at + name.len()..]);
        EXPRESSIONS.into_iter().flat_map(after)
    }

    /// Refuses regular expressions that are much longer than they look: what a counted repetition stands for is built for
    /// each comparison, and what a description says nobody has looked at.
    fn check_expressions(&self) -> Result<(), SearchError> {
        // A call ends with the literal that is its expression.
        let is_literal = |call: &str| arguments(call).ends_with(",'");
        if !self.expression_calls().all(is_literal) {
            return Err(SearchError::Expression);
        }
        // Braces may also be written as escapes.
        let repeats = |literal: &String| literal.contains('{') || literal.to_ascii_lowercase().contains("u007b");
        if self.expression_calls().next().is_some() && self.literals.iter().any(repeats) {
            return Err(SearchError::Repeat);
        }
        Ok(())
    }

    fn expression_steps(&self) -> u64 {
        let bytes: usize = self.literals.iter().map(|literal| literal.len() + 1).sum();
        self.expression_calls().count() as u64 * bytes as u64 * EXPRESSION_BYTE_STEPS
    }

    /// Literals that are compared for equality, where all comparisons must hold.
    fn must_have(&self) -> Vec<String> {
        // Two literals may be compared with each other.
        if ["||", "!", ",", "'=='"].iter().any(|other| self.bare.contains(other)) {
            return Vec::new();
        }
        let mut texts = Vec::new();
        for (at, (place, _)) in self.bare.match_indices('\'').enumerate() {
            let (before, after) = (&self.bare[..place], &self.bare[place + 1..]);
            let is_compared = before.ends_with("==") || after.starts_with("==");
            let literal = &self.literals[at];
            // What JSON may write in more than one way is not looked for.
            let is_plain = literal.chars().all(|one| !one.is_control() && !matches!(one, '\\' | '"' | '\''));
            if is_compared && is_plain && !literal.is_empty() && !may_be_added(literal) {
                texts.push(literal.clone());
            }
        }
        texts
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_query_looks_at_each_description_by_itself() {
        for good in
            ["$[?@.title=='a']", "$[*].id", "$.*", "$ [ ? @.a ]", "$..title", "$..*", "$..['a']", "$[?@.a[0,1]]"]
        {
            assert!(Query::parse(good).is_ok(), "{good}");
        }
        for other in ["$", "$[0]", "$[1:3]", "$[-1]", "$.a", "$['a']", "$..[0]", "$[*,0]", "$[?@.a==$[0].a]"] {
            assert!(matches!(Query::parse(other), Err(SearchError::Start)), "{other}");
        }
        let cut = [r"$['\u", r"$['\\\u", r"$['\ud83d\u", r#"$[?@.a=="\ud83d\uD"#, r"$['\u0", r"$.a\u"];
        for wrong in ["", "a", "$[", "$[?@.a=]", "$[?foo(@)]"].into_iter().chain(cut) {
            assert!(matches!(Query::parse(wrong), Err(SearchError::Query { .. })), "{wrong}");
        }
        let long = format!("$[?@.a=='{}']", "x".repeat(QUERY_BYTES_MAX));
        assert!(matches!(Query::parse(&long), Err(SearchError::TooLong { .. })));
    }

    /// SR-1: two more would take four times as long. These the parser would read in a moment, so that this ends whatever is
    /// given to it.
    #[test]
    fn what_the_parser_would_read_for_days_is_not_given_to_it() {
        let nested =
            |open: &str, close: &str, times: usize| format!("$[?{}@.a{}]", open.repeat(times), close.repeat(times));
        let texts = "@[?@.b=='[?[?['&&@[?";
        for (open, close, times) in [("@[?", "]", 6), ("@ [ ? ", " ]", 6), ("length(", ")", 6), (texts, "]]", 3)] {
            let text = nested(open, close, times);
            assert!(matches!(Query::parse(&text), Err(SearchError::Nested)), "{text}");
        }
    }

    #[test]
    fn literals_narrow_only_where_they_must_be_there() {
        let texts = |query: &str| Query::parse(query).map(|query| query.texts).expect("a query");
        assert_eq!(texts("$[?@.title == 'Lamp' && \"x\"==@.y]"), ["Lamp", "x"]);
        for free in [
            "$[?@.a=='x' || @.b]",
            "$[?!(@.a=='x')]",
            "$[?@.a!='x']",
            "$[?@.a<'x']",
            "$[?@.a=='\\u0041']",
            "$[?@['a']]",
            "$[?@.id=='urn:uuid:1']",
            "$[?'a'=='a']",
            "$[?@.registration.created=='2023-11-14T22:13:20.000Z']",
        ] {
            assert!(texts(free).is_empty(), "{free}");
        }
        let query = Query::parse("$[?@.a=='x y']").expect("a query");
        assert!(query.may_select_in(b"{\"a\":\"x y\"}") && query.may_select_in(b"{\"a\":\"x\\u0020y\"}"));
        assert!(!query.may_select_in(b"{\"a\":\"x\"}"));
    }

    #[test]
    fn as_much_is_read_as_the_query_looks_at() {
        let part = |query: &str, sent: &str| Query::parse(query).expect("a query").part(sent.as_bytes(), "urn:a");
        let sent = "{\"title\":\"x\",\"a\":{\"b\":1},\"c\":[]}";
        assert_eq!(part("$[?@.a.b==1].c", sent), Some(json!({ "a": { "b": 1 }, "c": [] })));
        assert_eq!(part("$[?@.id=='urn:a']", sent), Some(json!({ "id": "urn:a" })));
        assert_eq!(part("$[?@.id=='urn:a']", "{\"id\":\"urn:b\"}"), Some(json!({ "id": "urn:b" })));
        assert_eq!(part("$[?@.id=='urn:a']", "{\"@id\":\"urn:a\"}"), Some(json!({})), "as it is given");
        for more in ["$[?@.registration.ttl==1]", "$[*].registration", "$..a", "$[?@.*]"] {
            assert_eq!(part(more, sent), None, "{more}");
        }
    }

    #[test]
    fn what_would_take_too_long_is_not_tried() {
        let wide = Value::Array((0..10_000).map(Value::from).collect());
        assert!(Query::parse("$..*").expect("a query").select(wide.clone()).is_none(), "10^8 steps");
        assert_eq!(Query::parse("$[*][?@==7]").expect("a query").select(wide), Some(vec![json!(7)]));
        let doubled = format!("$[*]{}", "[*,*]".repeat(40));
        assert!(Query::parse(&doubled).expect("a query").select(json!({})).is_none());
    }

    #[test]
    fn regular_expressions_are_short_and_compared_seldom() {
        for heavy in [
            "$[?match(@.a,'a{2}')]",
            "$[?search(@.a,'((a{9}){9}){9}')]",
            "$[?search(@.a,'a\\u007B9}')]",
            "$[?@.b=='{' && match(@.a,'a')]",
        ] {
            assert!(matches!(Query::parse(heavy), Err(SearchError::Repeat)), "{heavy}");
        }
        for unread in ["$[?match(@.a,@.b)]", "$[?search('aa',@['b'])]", "$[?match(@.a,value(@..b))]"] {
            assert!(matches!(Query::parse(unread), Err(SearchError::Expression)), "{unread}");
        }
        assert!(Query::parse("$[?@.a=='{x}']").is_ok(), "it is no expression");
        let title = Query::parse("$[?search(@['title'],'^L')].id").expect("a query");
        let lamp = json!({ "id": 1, "title": "Lamp", "wide": vec![0; 100_000] });
        assert_eq!(title.select(lamp), Some(vec![json!(1)]), "one comparison, however large it is");
        // Each of these compares with each member, and would build the expression as often.
        let words = "\\\\w".repeat(300);
        for often in [format!("$[*][?search(@,'{words}')]"), format!("$..[?search(@,'{words}')]")] {
            let query = Query::parse(&often).expect("a query");
            assert_eq!(query.select(json!({ "a": "b" })), Some(vec![]), "it is for small ones");
            assert!(query.select(Value::Array((0..1_000).map(Value::from).collect())).is_none(), "{often}");
        }
    }
}
