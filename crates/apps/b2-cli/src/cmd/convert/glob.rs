//! Patterns for paths in a file, as in a shell: `*`, `**`, `?`, `[abc]` and `{a,b}`.

use fast_glob::glob_match;

const WILDCARDS: [char; 4] = ['*', '?', '[', '{'];

/// Whether a path is a pattern.
pub(super) fn is_glob(path: &str) -> bool {
    path.contains(WILDCARDS)
}

/// The group in front of the first part with a pattern.
pub(super) fn group(pattern: &str) -> &str {
    let end = pattern.find(WILDCARDS).unwrap_or(pattern.len());
    let start = pattern.get(..end).unwrap_or(pattern);
    start.rsplit_once('/').map_or("/", |(group, _)| if group.is_empty() { "/" } else { group })
}

/// Whether a path from the root matches a pattern.
pub(super) fn matches(pattern: &str, path: &str) -> bool {
    glob_match(format!("/{}", pattern.trim_start_matches('/')), path)
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
            ("/**/t", &["/t", "/a/t", "/a/b/t"], &["/a/tt"]),
            ("/*/t?", &["/a/t1"], &["/a/t", "/a/t12", "/a/b/t1"]),
            ("/[a-c]x", &["/ax", "/cx"], &["/dx", "/x"]),
            ("/[!a-c]x", &["/dx"], &["/ax", "//x"]),
            ("/[]a]", &["/]", "/a"], &["/b"]),
            ("/{ab,c}?", &["/abx", "/cx"], &["/ab", "/bx"]),
            ("/[a", &[], &["/a"]),
            ("/a*b*c", &["/abc", "/axxbyyc", "/abbc"], &["/ab", "/acb"]),
            ("/\u{e4}*", &["/\u{e4}b"], &["/a"]),
        ] {
            fitting.iter().for_each(|path| assert!(matches(pattern, path), "{pattern} {path}"));
            other.iter().for_each(|path| assert!(!matches(pattern, path), "{pattern} {path}"));
        }
        // No pattern takes long.
        assert!(!matches(&"*a".repeat(200), &"a".repeat(2000)));
        assert_eq!((group("/a/b*/c"), group("*"), group("/x*"), group("a/b/c?")), ("/a", "/", "/", "a/b"));
        assert_eq!((is_glob("/a/{b,c}"), group("/a/{b,c}/d"), is_glob("/a")), (true, "/a", false));
    }
}
