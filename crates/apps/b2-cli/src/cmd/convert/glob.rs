//! Patterns for paths in a file: `*`, `**`, `?` and `[abc]`, as in a shell.

/// A pattern for paths.
pub(super) struct Glob(Vec<Part>);

enum Part {
    Char(char),
    /// One character, but no slash.
    Any,
    /// One of these characters and ranges, or with `true` none of them; no slash.
    OneOf(Vec<(char, char)>, bool),
    /// Any number of characters without a slash, or with `true` of any.
    Many(bool),
}

/// Whether a path is a pattern.
pub(super) fn is_glob(path: &str) -> bool {
    path.contains(['*', '?', '['])
}

/// The group in front of the first part with a pattern.
pub(super) fn group(pattern: &str) -> &str {
    let end = pattern.find(['*', '?', '[']).unwrap_or(pattern.len());
    let start = pattern.get(..end).unwrap_or(pattern);
    start.rsplit_once('/').map_or("/", |(group, _)| if group.is_empty() { "/" } else { group })
}

impl Glob {
    /// Reads a pattern. A bracket that is not closed stands for itself.
    pub(super) fn new(pattern: &str) -> Self {
        let absolute = format!("/{}", pattern.trim_start_matches('/'));
        let text: Vec<char> = absolute.chars().collect();
        let (mut parts, mut at) = (Vec::new(), 0);
        while let Some(&next) = text.get(at) {
            at += 1;
            parts.push(match next {
                '*' if text.get(at) == Some(&'*') => {
                    at += 1;
                    Part::Many(true)
                }
                '*' => Part::Many(false),
                '?' => Part::Any,
                '[' => {
                    // A bracket at the start of the set belongs to it.
                    let is_not = matches!(text.get(at), Some('!' | '^'));
                    let start = at + usize::from(is_not);
                    match text.iter().skip(start + 1).position(|&c| c == ']') {
                        Some(len) => {
                            let set = text.get(start..=start + len).unwrap_or_default();
                            at = start + len + 2;
                            Part::OneOf(ranges(set), is_not)
                        }
                        None => Part::Char('['),
                    }
                }
                other => Part::Char(other),
            });
        }
        Self(parts)
    }

    /// Whether a path from the root fits. Takes time in proportion to the product of the lengths at most.
    pub(super) fn fits(&self, path: &str) -> bool {
        // Which numbers of parts fit the characters so far.
        let mut fits = vec![false; self.0.len() + 1];
        fits[0] = true;
        self.skip_many(&mut fits);
        for next in path.chars() {
            let mut then = vec![false; fits.len()];
            for (k, part) in self.0.iter().enumerate() {
                if !fits[k] {
                    continue;
                }
                match part {
                    Part::Char(own) => then[k + 1] |= *own == next,
                    Part::Any => then[k + 1] |= next != '/',
                    Part::OneOf(set, is_not) => {
                        let is_in = set.iter().any(|(low, high)| (*low..=*high).contains(&next));
                        then[k + 1] |= next != '/' && is_in != *is_not;
                    }
                    Part::Many(any) => then[k] |= *any || next != '/',
                }
            }
            self.skip_many(&mut then);
            fits = then;
        }
        fits.last() == Some(&true)
    }

    /// Any number of characters may be none.
    fn skip_many(&self, fits: &mut [bool]) {
        for (k, part) in self.0.iter().enumerate() {
            if matches!(part, Part::Many(_)) {
                fits[k + 1] |= fits[k];
            }
        }
    }
}

/// The characters and ranges of a set.
fn ranges(set: &[char]) -> Vec<(char, char)> {
    let (mut out, mut rest) = (Vec::new(), set);
    loop {
        match rest {
            [low, '-', high, more @ ..] => {
                out.push((*low, *high));
                rest = more;
            }
            [one, more @ ..] => {
                out.push((*one, *one));
                rest = more;
            }
            [] => return out,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_those_of_a_shell() {
        for (pattern, fitting, other) in [
            ("/group/*", &["/group/a", "/group/"][..], &["/group/a/b", "/other/a", "/group"][..]),
            ("group/*", &["/group/a"], &["group/a"]),
            ("/**", &["/a", "/a/b/c"], &[]),
            ("/**/t", &["/a/t", "/a/b/t"], &["/t", "/a/tt"]),
            ("/*/t?", &["/a/t1"], &["/a/t", "/a/t12", "/a/b/t1"]),
            ("/[a-c]x", &["/ax", "/cx"], &["/dx", "/x"]),
            ("/[!a-c]x", &["/dx"], &["/ax", "//x"]),
            ("/[]a]", &["/]", "/a"], &["/b"]),
            ("/[a", &["/[a"], &["/a"]),
            ("/a*b*c", &["/abc", "/axxbyyc", "/abbc"], &["/ab", "/acb"]),
            ("/\u{e4}*", &["/\u{e4}b"], &["/a"]),
        ] {
            let glob = Glob::new(pattern);
            fitting.iter().for_each(|path| assert!(glob.fits(path), "{pattern} {path}"));
            other.iter().for_each(|path| assert!(!glob.fits(path), "{pattern} {path}"));
        }
        // No pattern takes long.
        assert!(!Glob::new(&"*a".repeat(200)).fits(&"a".repeat(2000)));
        assert_eq!((group("/a/b*/c"), group("*"), group("/x*"), group("a/b/c?")), ("/a", "/", "/", "a/b"));
    }
}
