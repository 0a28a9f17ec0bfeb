//! What a JSONPath query (RFC 9535) needs of a description.

mod looks;
mod read;

use serde_json::Value;

use crate::Need;
use crate::term::{self, Path, REGISTRATION};
pub use looks::{Looks, looks};
use read::{Expression, Operand, Segment, Selector, Sign};

/// Steps that are followed in one query; what lies beyond narrows nothing.
const STEPS_MAX: usize = 1_000;
/// Members that a directory writes in a registration.
const REGISTERED: [&str; 6] = [REGISTRATION, "created", "modified", "expires", "ttl", "retrieved"];

/// What a description needs so that a query over the list of all descriptions selects anything in it. The query is one that
/// looks at each description by itself, and is valid; what is not understood of it narrows nothing.
#[must_use]
pub fn need(query: &str) -> Need {
    let Some(segments) = read::query(query) else { return Need::Nothing };
    let Some((first, rest)) = segments.split_first() else { return Need::Nothing };
    let mut steps = Steps(0);
    if first.is_descendant {
        return steps.segments(&segments, Place::Any, &Place::exists);
    }
    // The first segment selects among the descriptions.
    let description = Place::Known { path: Path::ROOT, kind: Kind::Root };
    Need::one(first.selectors.iter().map(|selector| {
        let own = match selector {
            Selector::Filter(filter) => steps.expression(filter, &description),
            _ => Need::Nothing,
        };
        Need::all([own, steps.segments(rest, description.clone(), &Place::exists)])
    }))
}

/// What is known of where a node is.
#[derive(Debug, Clone)]
enum Place {
    /// At this path.
    Known { path: Path, kind: Kind },
    /// In a member of that name, or in lists in it.
    Named(String),
    /// Nothing.
    Any,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The description.
    Root,
    /// In what was sent.
    Sent,
    /// In what the directory says of the registration.
    Registration,
}

impl Place {
    fn member(&self, name: &str) -> Place {
        match self {
            Place::Known { path, kind } => {
                let kind = match kind {
                    Kind::Root if name == REGISTRATION => Kind::Registration,
                    Kind::Root => Kind::Sent,
                    kind => *kind,
                };
                Place::Known { path: path.name(name), kind }
            }
            _ => Place::Named(name.to_owned()),
        }
    }

    fn element(&self) -> Place {
        match self {
            Place::Known { path, kind } => Place::Known { path: path.element(), kind: *kind },
            other => other.clone(),
        }
    }

    /// That something is there.
    fn exists(&self) -> Need {
        match self {
            Place::Known { path, kind: Kind::Sent } => Need::Term(path.exists()),
            Place::Named(name) if !REGISTERED.contains(&name.as_str()) => Need::Term(term::named(name)),
            _ => Need::Nothing,
        }
    }

    /// That this value is there.
    fn is(&self, value: &Value) -> Need {
        let term = match self {
            Place::Known { path, kind: Kind::Sent } => path.is(value),
            Place::Named(name) if !REGISTERED.contains(&name.as_str()) => term::named_is(name, value),
            Place::Any if !may_be_registered(value) => term::anywhere(value),
            _ => None,
        };
        term.map_or(Need::Nothing, Need::Term)
    }
}

/// Whether a directory may say that of a registration: times begin with a digit, and a `ttl` is a number.
fn may_be_registered(value: &Value) -> bool {
    match value {
        Value::Number(_) => true,
        Value::String(text) => text.starts_with(|one: char| one.is_ascii_digit()),
        _ => false,
    }
}

/// Follows a query, within bounds.
struct Steps(usize);

impl Steps {
    /// What is needed so that these segments lead from there to somewhere, and that is as `end` says.
    fn segments(&mut self, segments: &[Segment], from: Place, end: &dyn Fn(&Place) -> Need) -> Need {
        self.0 += 1;
        if self.0 > STEPS_MAX {
            return Need::Nothing;
        }
        let Some((segment, rest)) = segments.split_first() else { return end(&from) };
        let above = if segment.is_descendant { Place::Any } else { from.clone() };
        // What is selected lies in something: that is known of where it stands no more.
        let inside = from.exists();
        let each = segment.selectors.iter().map(|selector| match selector {
            Selector::Name(name) => self.segments(rest, above.member(name), end),
            Selector::Element => self.segments(rest, above.element(), end),
            Selector::Wildcard => self.segments(rest, Place::Any, end),
            Selector::Filter(filter) => {
                let own = self.expression(filter, &Place::Any);
                Need::all([own, self.segments(rest, Place::Any, end)])
            }
        });
        let each = Need::one(each.collect::<Vec<_>>());
        let is_followed = !segment.is_descendant
            && segment.selectors.iter().all(|selector| matches!(selector, Selector::Name(_) | Selector::Element));
        match from {
            // The path to what follows has the path to it.
            Place::Known { .. } if is_followed => each,
            _ => Need::all([inside, each]),
        }
    }

    /// What is needed so that a filter holds at a node.
    fn expression(&mut self, expression: &Expression, at: &Place) -> Need {
        self.0 += 1;
        if self.0 > STEPS_MAX {
            return Need::Nothing;
        }
        match expression {
            Expression::Or(one) => {
                let needs: Vec<Need> = one.iter().map(|one| self.expression(one, at)).collect();
                Need::one(needs)
            }
            Expression::And(all) => {
                let needs: Vec<Need> = all.iter().map(|one| self.expression(one, at)).collect();
                Need::all(needs)
            }
            Expression::Holds(Operand::Path(path)) => self.segments(path, at.clone(), &Place::exists),
            // What a regular expression is compared with is there.
            Expression::Holds(Operand::Function(name, arguments)) if name == "match" || name == "search" => {
                arguments.first().map_or(Need::Nothing, |compared| self.expression(compared, at))
            }
            Expression::Compare(Operand::Path(path), sign, Operand::Literal(value))
            | Expression::Compare(Operand::Literal(value), sign, Operand::Path(path)) => match sign {
                Sign::Equal => self.segments(path, at.clone(), &|place| place.is(value)),
                // What is compared for order with a literal is there.
                Sign::Ordered => self.segments(path, at.clone(), &Place::exists),
                Sign::Unequal => Need::Nothing,
            },
            Expression::Compare(..) | Expression::Holds(_) | Expression::Not(_) => Need::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root(names: &[&str]) -> Path {
        names.iter().fold(Path::ROOT, |path, name| path.name(name))
    }

    fn is(names: &[&str], value: &Value) -> Need {
        Need::Term(root(names).is(value).expect("a value"))
    }

    #[test]
    fn equalities_of_paths_are_terms() {
        let lamp = is(&["title"], &json!("Lamp"));
        for query in [
            "$[?@.title=='Lamp']",
            "$[ ?\t@ [\"title\"] == \"Lamp\" ]",
            "$[?'Lamp'==@['title']].id.x",
            "$[?(@.title=='\\u004camp')]",
        ] {
            let got = need(query);
            assert!(got == lamp || matches!(&got, Need::All(all) if all.contains(&lamp)), "{query}: {got:?}");
        }
        assert_eq!(need("$[?@.a.b==1e0]"), is(&["a", "b"], &json!(1)));
        assert_eq!(
            need("$[?@.a[0].b==null]"),
            Need::Term(root(&["a"]).element().name("b").is(&json!(null)).expect("it"))
        );
        assert_eq!(
            need("$[?@.a=='x' || @.b==true]"),
            Need::One(vec![is(&["a"], &json!("x")), is(&["b"], &json!(true))])
        );
        assert_eq!(need("$[?@.a=='x' && @.b!=1 && !@.c]"), is(&["a"], &json!("x")));
        let read = need("$[?@.a[?@.b=='x']]");
        let named = Need::Term(term::named_is("b", &json!("x")).expect("it"));
        assert_eq!(read, Need::All(vec![Need::Term(root(&["a"]).exists()), named.clone()]));
        assert_eq!(need("$..[?@.b=='x']"), named);
        assert_eq!(need("$[?@.n < 5]"), Need::Term(root(&["n"]).exists()));
        assert_eq!(need("$[?search(@.n,'a|b')]"), Need::Term(root(&["n"]).exists()));
        assert_eq!(need("$[*].a.b"), Need::Term(root(&["a", "b"]).exists()));
    }

    #[test]
    fn what_may_be_selected_otherwise_narrows_nothing() {
        for query in [
            "$[*]",
            "$.*",
            "$..*",
            "$[?@.a!='x']",
            "$[?!(@.a=='x')]",
            "$[?@.a==@.b]",
            "$[?@.a=='x' || @.b!='y']",
            "$[?length(@.a)==1]",
            "$[?count(@.*)==1]",
            "$[?@.registration.ttl==60]",
            "$..[?@.ttl==60]",
            "$..ttl",
            "$..[?@==60]",
            "$..[?@=='2023-11-14T22:13:20.000Z']",
            "no query",
            "$[?@.a=='x'] and more",
        ] {
            assert_eq!(need(query), Need::Nothing, "{query}");
        }
    }

    #[test]
    fn what_is_followed_is_bounded() {
        let doubled = format!("$[*]{}", "['a','b']".repeat(60));
        assert_eq!(need(&doubled), Need::Nothing);
    }
}
