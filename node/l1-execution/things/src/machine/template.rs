//! URI templates (RFC 6570), as far as forms of Things need them: `{name}`, `{/name}`, `{?name}` and `{&name}`, with several names each.
//! Expressions that leave reserved characters as they are (`{+name}`, `{#name}`) are refused: a value could change where the
//! address leads.

use std::collections::BTreeMap;
use std::fmt;

/// The names that one expression may have.
const NAMES_MAX: usize = 32;

/// A piece of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Piece {
    Text(String),
    Expression(Kind, Vec<String>),
}

/// The operator of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Simple,
    Path,
    Query,
    More,
}

/// A template that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template(Vec<Piece>);

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|piece| match piece {
            Piece::Text(text) => f.write_str(text),
            Piece::Expression(kind, names) => {
                let operator = match kind {
                    Kind::Simple => "",
                    Kind::Path => "/",
                    Kind::Query => "?",
                    Kind::More => "&",
                };
                write!(f, "{{{operator}{}}}", names.join(","))
            }
        })
    }
}

impl Template {
    /// Reads a template.
    ///
    /// # Errors
    /// What is not understood.
    pub fn read(text: &str) -> Result<Template, &'static str> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once('{') {
            let (inner, after) = after.split_once('}').ok_or("a variable of its address has no end")?;
            pieces.push(Piece::Text(before.to_owned()));
            pieces.push(expression(inner)?);
            rest = after;
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Template(pieces))
    }

    /// The address without its expressions.
    pub fn bare(&self) -> String {
        let texts = self.0.iter().filter_map(|piece| match piece {
            Piece::Text(text) => Some(text.as_str()),
            Piece::Expression(..) => None,
        });
        texts.collect()
    }

    /// The names of its variables, and whether each must have a value.
    pub fn variables(&self) -> BTreeMap<&str, bool> {
        let mut all = BTreeMap::new();
        for piece in &self.0 {
            if let Piece::Expression(kind, names) = piece {
                let needed = matches!(kind, Kind::Simple | Kind::Path);
                names.iter().for_each(|name| *all.entry(name.as_str()).or_default() |= needed);
            }
        }
        all
    }

    /// The address with these values.
    ///
    /// # Errors
    /// A value would change the path of the address.
    pub fn expand(&self, values: &BTreeMap<String, String>) -> Result<String, &'static str> {
        let mut out = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(text) => out.push_str(text),
                Piece::Expression(kind, names) => expand(*kind, names, values, &mut out)?,
            }
        }
        Ok(out)
    }
}

fn expression(inner: &str) -> Result<Piece, &'static str> {
    let (kind, names) = match inner.chars().next() {
        Some('/') => (Kind::Path, &inner[1..]),
        Some('?') => (Kind::Query, &inner[1..]),
        Some('&') => (Kind::More, &inner[1..]),
        Some(c) if c.is_ascii_alphanumeric() || c == '_' || c == '%' => (Kind::Simple, inner),
        _ => return Err("its address has variables whose values could lead elsewhere"),
    };
    let names: Vec<String> = names.split(',').map(|name| name.trim_end_matches('*').to_owned()).collect();
    let word = |name: &String| {
        (1..=64).contains(&name.len()) && name.bytes().all(|c| c.is_ascii_alphanumeric() || b"_.-%".contains(&c))
    };
    if names.len() > NAMES_MAX || !names.iter().all(word) {
        return Err("the names of variables in its address are not understood");
    }
    Ok(Piece::Expression(kind, names))
}

fn expand(
    kind: Kind,
    names: &[String],
    values: &BTreeMap<String, String>,
    out: &mut String,
) -> Result<(), &'static str> {
    let mut first = true;
    for name in names {
        let Some(value) = values.get(name) else { continue };
        if matches!(kind, Kind::Simple | Kind::Path) && (value.is_empty() || value == "." || value == "..") {
            return Err("it would lead to another path");
        }
        out.push_str(match (kind, first) {
            (Kind::Simple, true) => "",
            (Kind::Simple, false) => ",",
            (Kind::Path, _) => "/",
            (Kind::Query, true) => "?",
            (Kind::Query, false) | (Kind::More, _) => "&",
        });
        if matches!(kind, Kind::Query | Kind::More) {
            out.push_str(name);
            out.push('=');
        }
        escape(value, out);
        first = false;
    }
    Ok(())
}

/// Everything but unreserved characters (RFC 3986 §2.3) as its bytes.
pub fn escape(text: &str, out: &mut String) {
    use std::fmt::Write as _;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(of: &[(&str, &str)]) -> BTreeMap<String, String> {
        of.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn values_are_put_where_the_template_says() {
        for (template, wanted) in [
            ("/dim", "/dim"),
            ("/dim/{room}", "/dim/a%20b"),
            ("/dim{/room}", "/dim/a%20b"),
            ("/dim{?room,step}", "/dim?room=a%20b&step=%26%2F"),
            ("/dim{?none,step}", "/dim?step=%26%2F"),
            ("/dim?x=1{&step*}", "/dim?x=1&step=%26%2F"),
            ("/dim{?none}", "/dim"),
        ] {
            let read = Template::read(template).expect("a template");
            assert_eq!(read.expand(&values(&[("room", "a b"), ("step", "&/")])).expect("values"), wanted, "{template}");
        }
    }

    #[test]
    fn the_path_needs_its_variables_and_the_query_does_not() {
        let read = Template::read("/{room}/x{?step}").expect("a template");
        assert_eq!(read.variables(), BTreeMap::from([("room", true), ("step", false)]));
        assert_eq!(read.bare(), "//x");
    }

    #[test]
    fn what_could_lead_elsewhere_is_refused() {
        for template in ["/{+path}", "/{#path}", "/{path", "/{}", "/{a b}", "/{.x}"] {
            assert!(Template::read(template).is_err(), "{template}");
        }
        let read = Template::read("/rooms/{room}/on").expect("a template");
        for value in ["..", ".", ""] {
            assert!(read.expand(&values(&[("room", value)])).is_err(), "{value}");
        }
        assert_eq!(read.expand(&values(&[("room", "../admin")])).expect("escaped"), "/rooms/..%2Fadmin/on");
    }
}
