//! Writes a sample of the states to disk, for C-Blosc2 to read: `cargo xtask crash`.

use std::env;
use std::fs;
use std::io::Write;
use std::path::PathBuf;

use b2_storage_sim::{CrashState, SimFs};
use b2_testkit::Rng;

use super::{Recording, header};

/// The sampled states of one operation, if a sample is requested.
pub struct Dump {
    folder: Option<PathBuf>,
    name: String,
    rng: Rng,
    /// States with intact headers, and with torn ones.
    drawn: [Drawn; 2],
}

#[derive(Default)]
struct Drawn {
    /// Each with the digests of the frames that it may hold.
    states: Vec<(CrashState, Vec<String>)>,
    offered: usize,
}

/// Returns how many states of each kind to sample.
fn wanted() -> usize {
    env::var("B2KIT_CRASH_DUMPS").ok().map_or(10, |text| text.parse().expect("B2KIT_CRASH_DUMPS: a number"))
}

impl Dump {
    pub fn new(name: &str) -> Self {
        let folder = env::var_os("B2KIT_CRASH_DUMP").map(PathBuf::from);
        Self {
            folder,
            name: name.to_owned(),
            rng: Rng::case(name.len() as u64, 0),
            drawn: Default::default(),
        }
    }

    /// Offers a state to the sample. It holds one of the frames `first` and `first + 1`.
    pub fn offer(&mut self, state: &CrashState, recording: &Recording) {
        let Some(header) = header(&state.image) else { return };
        if self.folder.is_none() {
            return;
        }
        let first = state.mark as usize;
        let range = first..recording.frames.len().min(first + 2);
        let whole = recording.headers[range.clone()].iter().any(|wanted| wanted.as_deref() == Some(header));
        let Drawn { states, offered } = &mut self.drawn[usize::from(!whole)];
        *offered += 1;
        // Every state has the same chance.
        let at = if states.len() < wanted() { states.len() } else { self.rng.below(*offered) };
        if at >= wanted() {
            return;
        }
        let digests = recording.frames[range].iter().flatten().map(|frame| frame.digest()).collect();
        match states.get_mut(at) {
            Some(place) => *place = (state.clone(), digests),
            None => states.push((state.clone(), digests)),
        }
    }

    /// Writes the sample. States with torn headers are repaired first.
    pub fn write(self) {
        let Some(folder) = self.folder else { return };
        let slug: String =
            self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        fs::create_dir_all(&folder).unwrap();
        let mut manifest = fs::File::create(folder.join(format!("{slug}.jsonl"))).unwrap();
        for (header, drawn) in ["whole", "repaired"].into_iter().zip(self.drawn) {
            for (i, (state, digests)) in drawn.states.into_iter().enumerate() {
                let fs = SimFs::from_image(&state.image);
                if header == "repaired" {
                    super::reopen::repair(&fs).unwrap();
                }
                let name = format!("{slug}-{header}-{i}");
                fs.image().dump(&folder.join(&name)).unwrap();
                writeln!(
                    manifest,
                    "{{\"path\": \"{name}{}\", \"operation\": {:?}, \"header\": \"{header}\", \"how\": {:?}, \
                     \"digests\": {digests:?}}}",
                    super::PATH,
                    self.name,
                    state.how
                )
                .unwrap();
            }
        }
    }
}
