//! One query: whether it is one, what it may cost, and what it selects.

use serde_json::Value;
use serde_json_path::JsonPath;

use super::SearchError;

/// Bytes of a query.
const QUERY_BYTES_MAX: usize = 1_024;
/// Steps that a query may take in one description, by the estimate below.
const STEPS_MAX: u64 = 20_000_000;
/// Digits of a counted repetition in a regular expression, such as {100}: what it stands for is built for each comparison.
const REPEATS_DIGITS_MAX: usize = 2;

/// A query.
pub struct Query {
    path: JsonPath,
    /// Texts that a description has if the query selects something in it.
    texts: Vec<String>,
    /// How often the nodes of a description multiply: each `..` and each `$` in a filter looks at all of them once more.
    powers: u32,
    /// How often selectors between commas may double what is selected.
    doublings: u32,
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
        let path = JsonPath::parse(text).map_err(|error| SearchError::Query { reason: error.to_string() })?;
        let words = Words::of(text);
        if !words.looks_at_each() {
            return Err(SearchError::Start);
        }
        if words.has_large_repeat() {
            let reason = "a repetition in a regular expression is below {100}".to_owned();
            return Err(SearchError::Query { reason });
        }
        let powers = 1 + words.count("..") + words.count("$").saturating_sub(1);
        Ok(Query { path, texts: words.must_have(), powers, doublings: words.count(",") })
    }

    /// Whether there are texts that a description must have.
    pub fn is_narrowed(&self) -> bool {
        !self.texts.is_empty()
    }

    /// Whether the query may select something in a description, by its text alone, as it was sent or as it is given.
    pub fn may_select_in(&self, bytes: &[u8]) -> bool {
        // A text with escapes may have others than those that stand there.
        bytes.contains(&b'\\') || self.texts.iter().all(|text| contains(bytes, text.as_bytes()))
    }

    /// What the query selects in a list of this description alone; none if that may take too long.
    pub fn select(&self, description: Value) -> Option<Vec<Value>> {
        let steps = nodes(&description).checked_pow(self.powers)?.checked_mul(1_u64.checked_shl(self.doublings)?)?;
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

fn contains(bytes: &[u8], text: &[u8]) -> bool {
    let Some(first) = text.first() else { return true };
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        if rest[at..].starts_with(text) {
            return true;
        }
        rest = &rest[at + 1..];
    }
    false
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

    fn has_large_repeat(&self) -> bool {
        let calls = self.bare.contains("match(") || self.bare.contains("search(");
        let is_large = |literal: &String| {
            literal.split('{').skip(1).any(|rest| {
                let digits = rest.chars().take_while(|one| *one != '}').collect::<String>();
                digits.split(',').any(|number| number.trim().len() > REPEATS_DIGITS_MAX)
            })
        };
        calls
            && (self.literals.iter().any(is_large)
                || self.literals.iter().map(|it| it.matches('{').count()).sum::<usize>() > 4)
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
        for wrong in ["", "a", "$[", "$[?@.a=]", "$[?foo(@)]"] {
            assert!(matches!(Query::parse(wrong), Err(SearchError::Query { .. })), "{wrong}");
        }
        let long = format!("$[?@.a=='{}']", "x".repeat(QUERY_BYTES_MAX));
        assert!(matches!(Query::parse(&long), Err(SearchError::TooLong { .. })));
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
    fn what_would_take_too_long_is_not_tried() {
        let wide = Value::Array((0..10_000).map(Value::from).collect());
        assert!(Query::parse("$..*").expect("a query").select(wide.clone()).is_none(), "10^8 steps");
        assert_eq!(Query::parse("$[*][?@==7]").expect("a query").select(wide), Some(vec![json!(7)]));
        let doubled = format!("$[*]{}", "[*,*]".repeat(40));
        assert!(Query::parse(&doubled).expect("a query").select(json!({})).is_none());
        for heavy in ["$[?match(@.a,'a{100}')]", "$[?match(@.a,'((a{9}){9}){9}b{9}c{9}')]"] {
            assert!(matches!(Query::parse(heavy), Err(SearchError::Query { .. })), "{heavy}");
        }
    }
}
