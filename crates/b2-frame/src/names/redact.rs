//! URLs without what may be secret, for everything that is shown.

/// In place of a query.
const QUERY: &str = "?...";

/// Returns a URL without user, password and query, which may be secret, for messages and logs. A query becomes `?...`.
/// Anything other than a URL is returned unchanged; in a chain of URLs, joined by `::`, each is redacted.
///
/// A password with characters that belong elsewhere, such as `/`, `@` or `?`, makes a URL ambiguous. Everything that
/// may be part of a password is then omitted, even if it belongs to the path.
#[doc(hidden)]
pub fn redact(url: &str) -> String {
    let mut out = String::new();
    let mut rest = url;
    while let Some((first, after)) = next_of_chain(rest) {
        out.push_str(&redact_one(first));
        out.push_str("::");
        rest = after;
    }
    out.push_str(&redact_one(rest));
    out
}

/// Splits a chain of URLs after the first one.
fn next_of_chain(url: &str) -> Option<(&str, &str)> {
    url.match_indices("::").find_map(|(at, _)| {
        let (first, after) = url.split_at_checked(at)?;
        let after = after.strip_prefix("::")?;
        let (scheme, _) = after.split_once("://")?;
        let is_scheme = !scheme.is_empty()
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'.' | b'-'));
        (is_scheme && first.contains("://")).then_some((first, after))
    })
}

fn redact_one(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let (base, query) = split_before(rest, ['?', '#']);
    let (authority, path) = split_before(base, ['/']);
    let (host, port) = match authority.rfind(']') {
        // An IPv6 address has colons.
        Some(_) if authority.starts_with('[') => (authority, ""),
        _ => authority.split_once(':').unwrap_or((authority, "")),
    };
    let plain = !authority.contains('@') && port.bytes().all(|byte| byte.is_ascii_digit());
    let shown = match rest.rfind('@') {
        None if plain => base,
        // No user at all, or one whose password is cut off.
        None => "...",
        Some(_) if plain && !path.contains('@') => base,
        // Without a port, the path may have it.
        Some(_) if plain && host == authority => base,
        Some(_) => match base.rsplit_once('@') {
            Some((_, after)) if !query.contains('@') => after,
            _ => return format!("{scheme}://..."),
        },
    };
    let query = match query.strip_prefix('#') {
        // Distinguishes names that are equal without their secrets.
        Some(number) if !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()) => query,
        _ if query.is_empty() || query.starts_with('#') => "",
        _ => match query.strip_prefix(QUERY) {
            Some(number) if is_count(number) => query,
            _ => QUERY,
        },
    };
    format!("{scheme}://{shown}{query}")
}

/// Returns whether this is the suffix of a name that occurs several times.
fn is_count(suffix: &str) -> bool {
    suffix.strip_prefix('#').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

fn split_before<const N: usize>(text: &str, marks: [char; N]) -> (&str, &str) {
    text.find(marks).and_then(|at| text.split_at_checked(at)).unwrap_or((text, ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_left_out() {
        for (url, expected) in [
            ("https://host/a.b2nd", "https://host/a.b2nd"),
            ("https://host:81/a/b.b2nd?sig=1#top", "https://host:81/a/b.b2nd?..."),
            ("https://host/a.b2nd?...", "https://host/a.b2nd?..."),
            ("https://host/a.b2nd?...#2", "https://host/a.b2nd?...#2"),
            ("https://host/a.b2nd#2", "https://host/a.b2nd#2"),
            ("https://host/a.b2nd#token=secret", "https://host/a.b2nd"),
            ("HTTPS://me:secret@host/a", "HTTPS://host/a"),
            ("https://me@host/a", "https://host/a"),
            ("https://me:sec@ret@host/a", "https://host/a"),
            ("https://me:sec/ret@host/a", "https://host/a"),
            ("https://me:1/secret@host/a", "https://host/a"),
            ("https://me:sec@re/secret@host/a b", "https://host/a b"),
            ("https://me:secret?x@host/a", "https://..."),
            ("https://me:secret", "https://..."),
            ("https://me:secret@host/a?mail=you@secret", "https://..."),
            ("https://host/a?mail=you@secret", "https://host/a?..."),
            ("https://host:8080/a?mail=you@secret", "https://host:8080/a?..."),
            ("https://host/you@there/a", "https://host/you@there/a"),
            ("https://[::1]:80/a?secret", "https://[::1]:80/a?..."),
            ("s3://bucket/a.b2nd", "s3://bucket/a.b2nd"),
            ("simplecache::https://me:secret@host/a", "simplecache::https://host/a"),
            ("zip://a.b2nd::https://me:secret@host/a?secret", "zip://a.b2nd::https://host/a?..."),
            ("/a/b?c@d", "/a/b?c@d"),
            ("a.h5::/b", "a.h5::/b"),
        ] {
            assert_eq!(redact(url), expected, "{url}");
            assert_eq!(redact(expected), expected, "twice");
        }
    }
}
