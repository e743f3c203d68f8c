//! Writes the JSON of results.

use std::fmt::Write;

/// An object under construction. Members keep their order.
#[derive(Clone, Debug, Default)]
pub struct Object(String);

impl Object {
    /// Creates an empty object.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    fn key(mut self, key: &str) -> Self {
        self.0.push(if self.0.is_empty() { '{' } else { ',' });
        text(&mut self.0, key);
        self.0.push(':');
        self
    }

    /// Adds a text.
    #[must_use]
    pub fn text(self, key: &str, value: &str) -> Self {
        let mut object = self.key(key);
        text(&mut object.0, value);
        object
    }

    /// Adds a number; `null` if JSON cannot represent it.
    #[must_use]
    pub fn number(self, key: &str, value: f64) -> Self {
        let mut object = self.key(key);
        object.0.push_str(&number(value));
        object
    }

    /// Adds an integer. JavaScript reads those beyond 2^53 inexactly.
    #[must_use]
    pub fn int(self, key: &str, value: u64) -> Self {
        self.raw(key, &value.to_string())
    }

    /// Adds a boolean.
    #[must_use]
    pub fn flag(self, key: &str, value: bool) -> Self {
        self.raw(key, if value { "true" } else { "false" })
    }

    /// Adds JSON unchanged.
    #[must_use]
    pub fn raw(self, key: &str, json: &str) -> Self {
        let mut object = self.key(key);
        object.0.push_str(json);
        object
    }

    /// Adds a list of integers.
    #[must_use]
    pub fn ints<T: Copy + Into<u64>>(self, key: &str, values: &[T]) -> Self {
        let list: Vec<String> = values.iter().map(|value| (*value).into().to_string()).collect();
        self.raw(key, &format!("[{}]", list.join(",")))
    }

    /// Adds a list of JSON values.
    #[must_use]
    pub fn list(self, key: &str, values: impl IntoIterator<Item = String>) -> Self {
        self.raw(key, &format!("[{}]", values.into_iter().collect::<Vec<_>>().join(",")))
    }

    /// Returns the JSON.
    #[must_use]
    pub fn finish(mut self) -> String {
        if self.0.is_empty() {
            self.0.push('{');
        }
        self.0 + "}"
    }
}

/// A text as JSON.
#[must_use]
pub fn quoted(value: &str) -> String {
    let mut out = String::new();
    text(&mut out, value);
    out
}

/// A number as JSON.
#[must_use]
pub fn number(value: f64) -> String {
    if value.is_finite() { format!("{value:e}") } else { "null".to_owned() }
}

fn text(out: &mut String, value: &str) {
    out.push('"');
    for c in value.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            // Also JavaScript's line terminators and Unicode control characters.
            c if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') => {
                // All of them fit in 16 bits.
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_json() {
        let json = Object::new()
            .text("a\"", "x\n\\\u{85}<script>")
            .number("n", 0.1)
            .number("nan", f64::NAN)
            .int("i", u64::MAX)
            .flag("f", true)
            .ints("l", &[1_u32, 2])
            .list("e", [])
            .list("t", [quoted("é")]);
        let expected = concat!(
            r#"{"a\"":"x\u000a\\\u0085<script>","n":1e-1,"nan":null,"i":18446744073709551615,"#,
            r#""f":true,"l":[1,2],"e":[],"t":["é"]}"#
        );
        assert_eq!(json.finish(), expected);
        assert_eq!(Object::new().finish(), "{}");
    }
}
