//! Parser for the subset of Python literals that dtypes and `.npy` headers use.

use std::fmt;

/// A Python literal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Literal {
    /// A string.
    Str(String),
    /// An integer.
    Int(i64),
    /// `True` or `False`.
    Bool(bool),
    /// `None`.
    None,
    /// A list.
    List(Vec<Literal>),
    /// A tuple.
    Tuple(Vec<Literal>),
    /// A dictionary, with its entries in order.
    Dict(Vec<(Literal, Literal)>),
}

/// Deepest nesting of literals.
const MAX_DEPTH: usize = 32;

/// Parses the whole text as one literal.
///
/// # Errors
/// The byte offset at which parsing stopped, and what was expected there.
pub fn parse(text: &str) -> Result<Literal, (usize, &'static str)> {
    let mut parser = Parser { text, pos: 0 };
    let value = parser.value(0)?;
    parser.skip_space();
    if parser.pos < text.len() {
        return Err((parser.pos, "text follows the literal"));
    }
    Ok(value)
}

struct Parser<'a> {
    text: &'a str,
    pos: usize,
}

impl Parser<'_> {
    fn rest(&self) -> &str {
        // `pos` is always at a character boundary.
        self.text.get(self.pos..).unwrap_or_default()
    }

    fn skip_space(&mut self) {
        let blank = self.rest().len().saturating_sub(self.rest().trim_start().len());
        self.advance(blank);
    }

    fn eat(&mut self, token: &str) -> bool {
        self.skip_space();
        let found = self.rest().starts_with(token);
        self.advance(if found { token.len() } else { 0 });
        found
    }

    fn advance(&mut self, len: usize) {
        self.pos = self.pos.saturating_add(len);
    }

    fn fail<T>(&self, what: &'static str) -> Result<T, (usize, &'static str)> {
        Err((self.pos, what))
    }

    fn value(&mut self, depth: usize) -> Result<Literal, (usize, &'static str)> {
        if depth > MAX_DEPTH {
            return self.fail("the literal is nested too deeply");
        }
        self.skip_space();
        if self.eat("[") {
            return Ok(Literal::List(self.items("]", depth)?.0));
        }
        if self.eat("(") {
            let (mut items, comma) = self.items(")", depth)?;
            // Parentheses around a single value without a comma do not make a tuple.
            return Ok(if items.len() == 1 && !comma { items.remove(0) } else { Literal::Tuple(items) });
        }
        if self.eat("{") {
            return self.dict(depth);
        }
        for (word, literal) in
            [("True", Literal::Bool(true)), ("False", Literal::Bool(false)), ("None", Literal::None)]
        {
            if self.eat(word) {
                return Ok(literal);
            }
        }
        match self.rest().as_bytes() {
            [b'\'' | b'"', ..] => self.string(),
            [b'b' | b'u', b'\'' | b'"', ..] => {
                self.advance(1);
                self.string()
            }
            [b'0'..=b'9' | b'-', ..] => self.int(),
            _ => self.fail("expected a string, number, list, tuple or dictionary"),
        }
    }

    fn items(&mut self, close: &str, depth: usize) -> Result<(Vec<Literal>, bool), (usize, &'static str)> {
        let mut items = Vec::new();
        let mut comma = false;
        loop {
            if self.eat(close) {
                return Ok((items, comma));
            }
            if !items.is_empty() && !comma {
                return self.fail("expected `,` or the end of the list");
            }
            items.push(self.value(depth.saturating_add(1))?);
            comma = self.eat(",");
        }
    }

    fn dict(&mut self, depth: usize) -> Result<Literal, (usize, &'static str)> {
        let mut items = Vec::new();
        let mut comma = true;
        loop {
            if self.eat("}") {
                return Ok(Literal::Dict(items));
            }
            if !comma {
                return self.fail("expected `,` or the end of the dictionary");
            }
            let key = self.value(depth.saturating_add(1))?;
            if !self.eat(":") {
                return self.fail("expected `:`");
            }
            items.push((key, self.value(depth.saturating_add(1))?));
            comma = self.eat(",");
        }
    }

    fn int(&mut self) -> Result<Literal, (usize, &'static str)> {
        // The first character is a sign or a digit, as the caller has checked.
        let is_part = |(i, c): &(usize, char)| *i == 0 || c.is_ascii_digit();
        let len = self.rest().char_indices().take_while(is_part).count();
        let Some(Ok(value)) = self.rest().get(..len).map(str::parse) else {
            return self.fail("expected a number");
        };
        self.advance(len);
        // Python 2 wrote long integers as 10L.
        if self.rest().starts_with('L') {
            self.advance(1);
        }
        Ok(Literal::Int(value))
    }

    fn string(&mut self) -> Result<Literal, (usize, &'static str)> {
        let mut chars = self.rest().char_indices();
        let quote = chars.next().map_or('\'', |(_, c)| c);
        let mut value = String::new();
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.advance(at.saturating_add(1));
                    return Ok(Literal::Str(value));
                }
                '\\' => {
                    let Some((_, escaped)) = chars.next() else { break };
                    let mut hex = |digits: usize| {
                        let code: String = chars.by_ref().take(digits).map(|(_, c)| c).collect();
                        let code = (code.len() == digits).then(|| u32::from_str_radix(&code, 16).ok());
                        code.flatten().and_then(char::from_u32)
                    };
                    let escaped = match escaped {
                        'n' => Some('\n'),
                        't' => Some('\t'),
                        'r' => Some('\r'),
                        'x' => hex(2),
                        'u' => hex(4),
                        'U' => hex(8),
                        '\\' | '\'' | '"' => Some(escaped),
                        _ => None,
                    };
                    match escaped {
                        Some(c) => value.push(c),
                        None => return Err((self.pos.saturating_add(at), "unknown escape in a string")),
                    }
                }
                c => value.push(c),
            }
        }
        self.fail("a string is not closed")
    }
}

/// Writes the literal like Python's `repr`.
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items = |f: &mut fmt::Formatter<'_>, items: &[Literal]| {
            for (i, item) in items.iter().enumerate() {
                let comma = if i > 0 { ", " } else { "" };
                write!(f, "{comma}{item}")?;
            }
            Ok(())
        };
        match self {
            Self::Str(s) => {
                let quote = if s.contains('\'') && !s.contains('"') { '"' } else { '\'' };
                write!(f, "{quote}")?;
                for c in s.chars() {
                    match c {
                        '\n' => f.write_str("\\n")?,
                        '\t' => f.write_str("\\t")?,
                        '\r' => f.write_str("\\r")?,
                        '\\' => f.write_str("\\\\")?,
                        c if c == quote => write!(f, "\\{c}")?,
                        c if c.is_control() => write!(f, "\\x{:02x}", c as u32)?,
                        c => write!(f, "{c}")?,
                    }
                }
                write!(f, "{quote}")
            }
            Self::Int(n) => write!(f, "{n}"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::None => f.write_str("None"),
            Self::List(list) => {
                f.write_str("[")?;
                items(f, list)?;
                f.write_str("]")
            }
            Self::Tuple(list) => {
                f.write_str("(")?;
                items(f, list)?;
                f.write_str(if list.len() == 1 { ",)" } else { ")" })
            }
            Self::Dict(list) => {
                f.write_str("{")?;
                for (i, (key, value)) in list.iter().enumerate() {
                    let comma = if i > 0 { ", " } else { "" };
                    write!(f, "{comma}{key}: {value}")?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_survive_a_round_trip() {
        for text in [
            "'a'",
            "[]",
            "()",
            "(1,)",
            "(1, 2)",
            "[('a', '<i4'), ('b', '<f8', (2, 3))]",
            "{'a': True, 'b': None, 'c': -5}",
            "\"it's\"",
            "'\\n'",
            "{}",
        ] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        assert_eq!(parse(" ( 'x' ) ").unwrap(), Literal::Str("x".into()));
        assert_eq!(parse("'\\u00e9\\x41'").unwrap(), Literal::Str("éA".into()));
        assert_eq!(parse("[10L,]").unwrap(), Literal::List(vec![Literal::Int(10)]));
    }

    #[test]
    fn malformed_literals_say_where() {
        for (text, offset) in
            [("", 0), ("[1 2]", 3), ("'a", 0), ("{1}", 2), ("[1] x", 4), ("(", 1), ("-", 0), ("'\\q'", 1)]
        {
            assert_eq!(parse(text).unwrap_err().0, offset, "{text}");
        }
        assert!(parse(&"[".repeat(1000)).is_err());
    }
}
