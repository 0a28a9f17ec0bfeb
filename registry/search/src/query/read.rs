//! Reads a valid query as far as its needs are derived from it. A part that is not understood ends the reading.

use serde_json::{Number, Value};

/// Parentheses and brackets within each other.
const DEPTH_MAX: usize = 64;

/// A segment: what it selects among the children, or among all descendants.
#[derive(Debug)]
pub struct Segment {
    pub is_descendant: bool,
    pub selectors: Vec<Selector>,
}

#[derive(Debug)]
pub enum Selector {
    Name(String),
    /// An index, or a slice.
    Element,
    Wildcard,
    Filter(Expression),
}

/// A filter.
#[derive(Debug)]
pub enum Expression {
    Or(Vec<Expression>),
    And(Vec<Expression>),
    Not(Box<Expression>),
    /// An operand that stands alone: a path that leads somewhere, a function that holds.
    Holds(Operand),
    Compare(Operand, Sign, Operand),
}

/// How two operands are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sign {
    Equal,
    Unequal,
    /// `<`, `<=`, `>`, `>=`.
    Ordered,
}

#[derive(Debug)]
pub enum Operand {
    /// From the node that is looked at.
    Path(Vec<Segment>),
    /// From the root of what is searched.
    Root,
    Literal(Value),
    /// A function, and its arguments.
    Function(String, Vec<Expression>),
}

/// The segments of a query.
pub fn query(text: &str) -> Option<Vec<Segment>> {
    let mut reader = Reader { rest: text, depth: 0 };
    reader.take("$")?;
    let segments = reader.segments()?;
    reader.blanks();
    reader.rest.is_empty().then_some(segments)
}

struct Reader<'a> {
    rest: &'a str,
    depth: usize,
}

impl Reader<'_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    /// Takes a text that stands here, or nothing.
    fn take(&mut self, text: &str) -> Option<()> {
        self.rest = self.rest.strip_prefix(text)?;
        Some(())
    }

    fn take_after_blanks(&mut self, text: &str) -> Option<()> {
        self.blanks();
        self.take(text)
    }

    fn take_while(&mut self, wanted: impl Fn(char) -> bool) -> String {
        let end = self.rest.find(|one| !wanted(one)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken.to_owned()
    }

    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Option<T>) -> Option<T> {
        self.depth += 1;
        let read = if self.depth > DEPTH_MAX { None } else { read(self) };
        self.depth -= 1;
        read
    }

    fn segments(&mut self) -> Option<Vec<Segment>> {
        let mut segments = Vec::new();
        loop {
            let before = self.rest;
            self.blanks();
            let segment = if self.take("..").is_some() {
                Segment { is_descendant: true, selectors: self.after_dots()? }
            } else if self.take(".").is_some() {
                Segment { is_descendant: false, selectors: vec![self.shorthand()?] }
            } else if self.take("[").is_some() {
                Segment { is_descendant: false, selectors: self.deeper(Self::selectors)? }
            } else {
                self.rest = before;
                return Some(segments);
            };
            segments.push(segment);
        }
    }

    fn after_dots(&mut self) -> Option<Vec<Selector>> {
        if self.take("[").is_some() {
            return self.deeper(Self::selectors);
        }
        Some(vec![self.shorthand()?])
    }

    fn shorthand(&mut self) -> Option<Selector> {
        if self.take("*").is_some() {
            return Some(Selector::Wildcard);
        }
        let name = self.take_while(|one| one.is_ascii_alphanumeric() || one == '_' || !one.is_ascii());
        (!name.is_empty()).then_some(Selector::Name(name))
    }

    /// Between brackets, of which the first was read.
    fn selectors(&mut self) -> Option<Vec<Selector>> {
        let mut selectors = Vec::new();
        loop {
            self.blanks();
            selectors.push(self.selector()?);
            if self.take_after_blanks("]").is_some() {
                return Some(selectors);
            }
            self.take_after_blanks(",")?;
        }
    }

    fn selector(&mut self) -> Option<Selector> {
        if self.rest.starts_with(['\'', '"']) {
            return Some(Selector::Name(self.text()?));
        }
        if self.take("*").is_some() {
            return Some(Selector::Wildcard);
        }
        if self.take("?").is_some() {
            return Some(Selector::Filter(self.expression()?));
        }
        let index = self.take_while(|one| one.is_ascii_digit() || "-: \t\n\r".contains(one));
        (!index.trim().is_empty()).then_some(Selector::Element)
    }

    fn expression(&mut self) -> Option<Expression> {
        let mut one = vec![self.conjunction()?];
        while self.take_after_blanks("||").is_some() {
            one.push(self.conjunction()?);
        }
        Some(if one.len() == 1 { one.swap_remove(0) } else { Expression::Or(one) })
    }

    fn conjunction(&mut self) -> Option<Expression> {
        let mut all = vec![self.basic()?];
        while self.take_after_blanks("&&").is_some() {
            all.push(self.basic()?);
        }
        Some(if all.len() == 1 { all.swap_remove(0) } else { Expression::And(all) })
    }

    fn basic(&mut self) -> Option<Expression> {
        self.blanks();
        if self.take("!").is_some() {
            return Some(Expression::Not(Box::new(self.deeper(Self::basic)?)));
        }
        if self.take("(").is_some() {
            let inner = self.deeper(Self::expression)?;
            self.take_after_blanks(")")?;
            return Some(inner);
        }
        let left = self.operand()?;
        self.blanks();
        for (text, sign) in [
            ("==", Sign::Equal),
            ("!=", Sign::Unequal),
            ("<=", Sign::Ordered),
            (">=", Sign::Ordered),
            ("<", Sign::Ordered),
            (">", Sign::Ordered),
        ] {
            if self.take(text).is_some() {
                self.blanks();
                return Some(Expression::Compare(left, sign, self.operand()?));
            }
        }
        Some(Expression::Holds(left))
    }

    fn operand(&mut self) -> Option<Operand> {
        if self.take("@").is_some() {
            return Some(Operand::Path(self.segments()?));
        }
        if self.take("$").is_some() {
            self.segments()?;
            return Some(Operand::Root);
        }
        if self.rest.starts_with(['\'', '"']) {
            return Some(Operand::Literal(Value::String(self.text()?)));
        }
        if self.rest.starts_with(|one: char| one == '-' || one.is_ascii_digit()) {
            let number = self.take_while(|one| one.is_ascii_digit() || "-+.eE".contains(one));
            return Some(Operand::Literal(Value::Number(number.parse::<Number>().ok()?)));
        }
        let word = self.take_while(|one| one.is_ascii_lowercase() || one.is_ascii_digit() || one == '_');
        if !word.is_empty() && self.take("(").is_some() {
            return self.deeper(|reader| reader.arguments(word));
        }
        match word.as_str() {
            "true" => Some(Operand::Literal(Value::Bool(true))),
            "false" => Some(Operand::Literal(Value::Bool(false))),
            "null" => Some(Operand::Literal(Value::Null)),
            _ => None,
        }
    }

    /// Of a function, whose opening parenthesis was read. What stands alone in an argument is read as a filter is.
    fn arguments(&mut self, name: String) -> Option<Operand> {
        let mut arguments = Vec::new();
        while self.take_after_blanks(")").is_none() {
            if !arguments.is_empty() {
                self.take_after_blanks(",")?;
            }
            arguments.push(self.expression()?);
        }
        Some(Operand::Function(name, arguments))
    }

    /// A string literal.
    fn text(&mut self) -> Option<String> {
        let quote = self.rest.chars().next()?;
        let mut text = String::new();
        let mut rest = self.rest.chars();
        rest.next();
        loop {
            let one = rest.next()?;
            if one == quote {
                break;
            }
            if one != '\\' {
                text.push(one);
                continue;
            }
            text.push(match rest.next()? {
                'b' => '\u{8}',
                't' => '\t',
                'n' => '\n',
                'f' => '\u{c}',
                'r' => '\r',
                'u' => escaped(&mut rest)?,
                other => other,
            });
        }
        self.rest = rest.as_str();
        Some(text)
    }
}

/// A character by its number, which may be written as two halves.
fn escaped(rest: &mut std::str::Chars<'_>) -> Option<char> {
    fn unit(rest: &mut std::str::Chars<'_>) -> Option<u16> {
        let digits = rest.as_str().get(..4)?;
        rest.nth(3)?;
        u16::from_str_radix(digits, 16).ok()
    }
    let first = unit(rest)?;
    if let Some(whole) = char::from_u32(u32::from(first)) {
        return Some(whole);
    }
    (rest.next()? == '\\' && rest.next()? == 'u').then_some(())?;
    let both = [first, unit(rest)?];
    char::decode_utf16(both).next()?.ok()
}
