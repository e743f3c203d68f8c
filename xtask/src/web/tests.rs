//! The tests of the page, in a real browser.

mod axes;
mod bench;
mod faulty;
mod figures;
mod files;
mod shown;

use std::path::Path;

use anyhow::{Result, ensure};

use self::bench::Bench;
pub(super) use self::figures::{bench, images};
use super::chromium::Browser;
use super::place::folder;
use crate::root;
use crate::sh::Counts;

type Test = (&'static str, fn(&Bench) -> Result<()>);

const TESTS: &[Test] = &[
    ("an address is drawn exactly", shown::address_is_drawn),
    ("files are picked and dropped, and never read whole", shown::files_are_picked_and_dropped),
    ("the cursor tells the items", shown::cursor_tells_items),
    ("coordinates are along the axes and at the cursor", axes::axes_have_coordinates),
    ("all can be done with keys", shown::keys_do_all),
    ("a link shows the same view", shown::link_shows_the_same),
    ("few requests draw a large array", shown::few_requests),
    ("planes along all dimensions are exact", shown::planes_are_exact),
    ("lines, super-chunks and records", shown::other_kinds),
    ("stores are trees", shown::stores_are_trees),
    ("chunks are mapped", shown::chunks_are_mapped),
    ("selections are saved", files::selections_are_saved),
    ("texts are never taken for HTML", faulty::texts_are_texts),
    ("servers that refuse are told in words", faulty::refusals_are_told),
    ("servers that misbehave are told in words", faulty::misbehaviour_is_told),
    ("damaged files leave the page alive", faulty::damaged_files),
    ("folders and sparse frames are opened", files::folders_are_opened),
    ("decoding that takes long is told and can be stopped", faulty::long_decoding_is_stopped),
    ("a page that is not complete says so", faulty::incomplete_page),
    ("the command serves the page", files::command_serves),
    ("a page holds the file", files::page_holds_the_file),
    ("everything has a name", shown::everything_has_a_name),
    ("small screens and the dark", shown::small_and_dark),
];

/// Runs the tests. What fails is told, and the others go on.
pub(super) fn all(page: &Path, browser: &Browser, only: Option<&str>) -> Result<Counts> {
    let shots = folder("screenshots");
    root::empty(&shots)?;
    let mut counts = Counts::default();
    for (name, test) in TESTS {
        if only.is_some_and(|only| !name.contains(only)) {
            continue;
        }
        let bench = Bench::start(page, browser, [1200, 900], &shots)?;
        let result = test(&bench).and_then(|()| {
            let complaints = bench.page.complaints()?;
            // What servers refuse is part of the tests.
            let own: Vec<_> = complaints
                .iter()
                .filter(|line| !line.contains("Failed to load resource") && !line.contains("CORS policy"))
                .collect();
            ensure!(own.is_empty(), "the browser complains: {own:?}");
            Ok(())
        });
        let file = name.replace(|c: char| !c.is_ascii_alphanumeric(), "-");
        let _ = bench.page.screenshot(&shots.join(format!("{file}.png")));
        match result {
            Ok(()) => {
                println!("page: {name} ... ok");
                counts.passed += 1;
            }
            Err(error) => {
                println!("page: {name} ... FAILED: {error:#}");
                counts.failed += 1;
            }
        }
    }
    println!("screenshots: {}", shots.display());
    Ok(counts)
}
