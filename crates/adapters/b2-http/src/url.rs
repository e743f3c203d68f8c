//! Parses the parts of URLs that reading needs.

use std::fmt;
use std::path::Path;

use b2_frame::redact;
use data_encoding::BASE64;

/// Returns whether a path is an `http` or `https` URL.
pub fn is_url(path: impl AsRef<Path>) -> bool {
    path.as_ref().to_str().is_some_and(|path| scheme(path).is_some())
}

fn scheme(url: &str) -> Option<&'static str> {
    let is = |scheme: &str| url.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme));
    if is("https://") {
        Some("https")
    } else if is("http://") {
        Some("http")
    } else {
        None
    }
}

/// A parsed URL.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Url {
    scheme: &'static str,
    /// User name and password, still percent-encoded.
    user: Option<String>,
    /// Host and port.
    host: String,
    /// The path, with its leading slash.
    path: String,
    query: Option<String>,
}

impl fmt::Debug for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Url").field(&self.redacted()).finish()
    }
}

impl Url {
    pub(crate) fn parse(url: &str) -> Option<Self> {
        let scheme = scheme(url)?;
        if !url.bytes().all(|byte| byte.is_ascii_graphic()) {
            return None;
        }
        let rest = url.get(scheme.len().checked_add(3)?..)?;
        let rest = rest.split('#').next().unwrap_or_default();
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query.to_owned())),
            None => (rest, None),
        };
        let (authority, path) = match rest.split_once('/') {
            Some((authority, path)) => (authority, format!("/{path}")),
            None => (rest, "/".to_owned()),
        };
        let (user, host) = match authority.rsplit_once('@') {
            Some((user, host)) => (Some(user.to_owned()), host),
            None => (None, authority),
        };
        // An invalid port is part of a password that contains a slash.
        let port = if host.starts_with('[') { "" } else { host.split_once(':').map_or("", |(_, port)| port) };
        if host.is_empty() || !port.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        Some(Self { scheme, user, host: host.to_owned(), path, query })
    }

    /// Returns the URL of a file in the folder at this URL.
    pub(crate) fn join(&self, name: &str) -> Self {
        let folder = self.path.trim_end_matches('/');
        Self { path: format!("{folder}/{name}"), ..self.clone() }
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.path.ends_with('/')
    }

    /// Returns the last part of the path.
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or_default()
    }

    /// Returns the URL for requests, without user and password.
    pub(crate) fn target(&self) -> String {
        let Self { scheme, host, path, query, .. } = self;
        match query {
            Some(query) => format!("{scheme}://{host}{path}?{query}"),
            None => format!("{scheme}://{host}{path}"),
        }
    }

    /// Returns whether the URL has no user, password and query.
    pub(crate) fn is_public(&self) -> bool {
        self.user.is_none() && self.query.is_none()
    }

    /// Returns the URL without user, password and query, which may be secret.
    pub(crate) fn redacted(&self) -> String {
        redact(&self.target())
    }

    /// Returns the value of the `Authorization` header with user and password.
    pub(crate) fn authorization(&self) -> Option<String> {
        let user = unescape(self.user.as_deref()?);
        let user = if user.contains(&b':') { user } else { [&user[..], b":"].concat() };
        Some(format!("Basic {}", BASE64.encode(&user)))
    }

    /// Returns whether both URLs have the same host and port.
    pub(crate) fn same_host(&self, other: &Self) -> bool {
        self.host.eq_ignore_ascii_case(&other.host)
    }

    /// Returns the target of a redirect, without credentials, or the reason why it is rejected.
    pub(crate) fn redirect(&self, location: &str) -> Result<Self, &'static str> {
        let Self { scheme, host, path, .. } = self;
        let absolute = if location.starts_with("//") {
            format!("{scheme}:{location}")
        } else if location.starts_with('/') {
            format!("{scheme}://{host}{location}")
        } else if location.split(['/', '?', '#']).next().is_some_and(|first| first.contains(':')) {
            location.to_owned()
        } else {
            let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
            format!("{scheme}://{host}{folder}/{location}")
        };
        let to =
            Self::parse(&absolute).ok_or("the server redirects to something that is not http or https")?;
        match (self.scheme, to.scheme) {
            ("https", "http") => Err("the server redirects from https to http"),
            _ => Ok(Self { user: None, ..to }),
        }
    }
}

fn unescape(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let escaped = match (byte, after) {
            (b'%', [high, low, tail @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|n| u8::try_from(n).ok());
                digit(high).zip(digit(low)).map(|(high, low)| (high << 4 | low, tail))
            }
            _ => None,
        };
        let (byte, tail) = escaped.unwrap_or((byte, after));
        out.push(byte);
        rest = tail;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_taken_apart_and_secrets_hidden() {
        let url = Url::parse("HTTPS://me:p%40ss@host:81/a/b.b2nd?sig=1#top").unwrap();
        assert_eq!(url.target(), "https://host:81/a/b.b2nd?sig=1");
        assert_eq!(url.redacted(), "https://host:81/a/b.b2nd?...");
        assert_eq!(url.authorization().unwrap(), format!("Basic {}", BASE64.encode(b"me:p@ss")));
        assert_eq!(url.join("x").target(), "https://host:81/a/b.b2nd/x?sig=1");
        assert_eq!(url.name(), "b.b2nd");
        for bad in [
            "ftp://host/a",
            "http://",
            "https:///a",
            "http://host/a b",
            "/a/b",
            "http:/host",
            "http://me:sec/ret@host/a",
        ] {
            assert_eq!(Url::parse(bad), None, "{bad}");
        }
        assert!(is_url("http://host") && !is_url("http.b2nd") && !is_url("file:///a"));
    }

    #[test]
    fn redirects_lead_to_the_web_only() {
        let from = Url::parse("https://me@host/a/b?q").unwrap();
        let to = |location: &str| from.redirect(location).map(|to| to.target());
        assert_eq!(to("/c?d").unwrap(), "https://host/c?d");
        assert_eq!(to("c").unwrap(), "https://host/a/c");
        assert_eq!(to("//other/c").unwrap(), "https://other/c");
        assert_eq!(to("https://you@other/c").unwrap(), "https://other/c");
        assert_eq!(from.redirect("https://you@other/c").unwrap().authorization(), None);
        for bad in ["http://host/a/b", "file:///etc/passwd", "ftp://host/a", "javascript:x", "https://"] {
            assert!(to(bad).is_err(), "{bad}");
        }
        assert!(Url::parse("http://host/").unwrap().redirect("https://host/").is_ok());
    }
}
