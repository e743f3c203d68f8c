//! A single HTML file that contains the page and the data.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use data_encoding::BASE64;
use sha2::{Digest, Sha256};

use super::input::Input;
use super::link::name_of;
use super::page::{PAGE, Page};
use super::shown::BrowserView;
use crate::files::recognition::open_regular;
use crate::files::{Output, is_stdin, refuse_same, urls};
use crate::print::figure::escaped;
use crate::process::Usage;

/// Maximum size of the embedded file, in bytes: browsers load all of it.
const MAX_FILE_LEN: u64 = 64 << 20;

/// Writes the page with an embedded file.
pub(in super::super) fn write(shown: &BrowserView<'_>, output: &Path, force: bool) -> Result<()> {
    let source = &shown.source.file;
    refuse_same(output, source)?;
    if is_stdin(source) || shown.source.offset > 0 {
        return Err(Usage("--html takes a file or a URL, without --offset".into()).into());
    }
    let mut input = None;
    let (file, name) = if urls::is_url(source) {
        (urls::open(source)?, urls::file_name(source)?)
    } else {
        ensure!(!source.is_dir(), "{}: a folder does not fit into a page", source.display());
        let input = input.insert(Input::of(source)?);
        (open_regular(&input.path).with_context(|| source.display().to_string())?, name_of(&input.path)?)
    };
    let len = file.len()?;
    if len > MAX_FILE_LEN {
        bail!(
            "{}: has {len} bytes, a page holds at most {MAX_FILE_LEN}; `b2kit copy --slice` makes a smaller file, `view --web` \
             shows all of it",
            source.display()
        );
    }
    let data = file.read_at(0..len).with_context(|| source.display().to_string())?;
    let text = html(&PAGE, &name, &data, &shown.link())?;
    let mut out = Output::create(Some(output), force)?;
    out.send(text.as_bytes())?;
    out.finish()
}

/// The page as one file.
fn html(page: &Page, name: &str, data: &[u8], link: &str) -> Result<String> {
    let hash = |text: &str| format!("'sha256-{}'", BASE64.encode(&Sha256::digest(text)));
    let script: String = page.scripts.iter().map(|(_, script)| format!("\n{script}")).collect();
    let style = format!("\n{}", page.style);
    for part in [&script, &style, page.worker] {
        let part = part.to_ascii_lowercase();
        ensure!(
            !part.contains("</script") && !part.contains("</style") && !part.contains("<!--"),
            "the page ends too early"
        );
    }
    let (script_hash, style_hash) = (hash(&script), hash(&style));
    let policy = format!(
        "default-src 'none'; script-src {script_hash} 'wasm-unsafe-eval'; style-src {style_hash}; img-src blob: data:; \
         worker-src blob:; connect-src 'none'; base-uri 'none'; form-action 'none'"
    );
    let inside = format!(
        "<script type=\"text/plain\" id=\"inside-engine\">{}</script>\n\
         <script type=\"text/plain\" id=\"inside-worker\">\n{}</script>\n\
         <script type=\"text/plain\" id=\"inside-data\" data-name=\"{}\" data-link=\"{}\">{}</script>\n\
         <script>{script}</script>\n</body>",
        BASE64.encode(page.engine),
        page.worker,
        escaped(name),
        escaped(link),
        BASE64.encode(data)
    );
    let mut text = page.index.to_owned();
    let policy_now = between(&text, "http-equiv=\"Content-Security-Policy\" content=\"", "\"")?.to_owned();
    for (name, _) in page.scripts {
        let from = format!("<script src=\"{name}\" defer></script>\n");
        ensure!(text.matches(&from).count() == 1, "the page does not load {name}");
        text = text.replace(&from, "");
    }
    for (from, to) in [
        (policy_now.as_str(), policy.as_str()),
        ("<link rel=\"stylesheet\" href=\"style.css\">", &format!("<style>{style}</style>")),
        ("</body>", &inside),
    ] {
        ensure!(text.matches(from).count() == 1, "the page is invalid: {from}");
        text = text.replace(from, to);
    }
    Ok(text)
}

fn between<'a>(text: &'a str, start: &str, end: &str) -> Result<&'a str> {
    let rest = text.split_once(start).map(|(_, rest)| rest);
    let found = rest.and_then(|rest| rest.split_once(end)).map(|(found, _)| found);
    found.context("the page is invalid")
}

#[cfg(test)]
mod tests {
    use super::*;

    const INDEX: &str = "<head><meta http-equiv=\"Content-Security-Policy\" content=\"x\">\
        <link rel=\"stylesheet\" href=\"style.css\"><script src=\"a.js\" defer></script>\n</head><body></body>";

    #[test]
    fn all_is_inside_and_names_are_text() {
        let page = Page {
            index: INDEX,
            style: "p {}",
            scripts: &[("a.js", "run()")],
            worker: "work()",
            engine: b"\0asm",
        };
        let text = html(&page, "\"><script>evil()</script>", b"data", "&slice=<1>").unwrap();
        assert!(text.contains("data-name=\"&quot;&gt;&lt;script&gt;evil()&lt;/script&gt;\""), "{text}");
        assert!(text.contains("data-link=\"&amp;slice=&lt;1&gt;\">ZGF0YQ==</script>"), "{text}");
        assert!(text.contains("id=\"inside-engine\">AGFzbQ==</script>") && text.contains("work()"), "{text}");
        assert!(
            !text.contains("a.js") && !text.contains("style.css") && !text.contains("evil()</script>"),
            "{text}"
        );
        let bad = Page { scripts: &[("a.js", "'</SCRIPT>'")], ..page };
        assert!(html(&bad, "a", b"", "").is_err());
    }
}
