//! Writes the initial corpora of the targets: `seeds CORPUS FIXTURES`.

use std::path::Path;

fn main() -> std::io::Result<()> {
    let folders: Vec<String> = std::env::args().skip(1).collect();
    let [corpus, fixtures] = &folders[..] else {
        return Err(std::io::Error::other("usage: seeds CORPUS FIXTURES"));
    };
    b2_fuzz::seeds::write(Path::new(corpus), Path::new(fixtures))
}
