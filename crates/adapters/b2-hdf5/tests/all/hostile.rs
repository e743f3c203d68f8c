//! Damaged files: errors or values, within seconds, and no panic.
//!
//! `B2KIT_HDF5_MUTANTS` sets the number of mutants, and with `B2KIT_HDF5_PYTHON` the files of `matrix.py` are used
//! in addition to those in `tests/data`. `B2KIT_HDF5_MUTANTS_FROM` is the number of the first one, so that many can be read in pieces.
//! With `ulimit -v` memory is limited, too. Every second mutant has its checksums computed again, so that what they protect is
//! reached.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use b2_core::{Control, Limits};
use b2_hdf5::{Content, File, Scale};
use b2_testkit::hdf5::{checked_blocks, seal};
use b2_testkit::{Rng, hostile};
use bytes::Bytes;

/// Default number of mutants.
const MUTANTS: usize = 3000;
/// Time limit for reading one; long enough that only an endless loop, not a slow machine, exceeds it.
const LONGEST: Duration = Duration::from_secs(60);
/// Limit of the processor time for reading one.
const HARDEST: Duration = Duration::from_secs(10);
/// Data sets up to this size, in bytes, are read completely.
const MAX_READ_LEN: u64 = 4 << 20;
/// Larger files are not used.
const LARGE: u64 = 200_000;

/// Changes a few bytes; sometimes the bytes after them move, or are lost.
fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    for _ in 0..1 + rng.below(4) {
        match rng.one_in(40) {
            true => hostile::damage(bytes, 64, rng),
            false => hostile::overwrite(bytes, 64, rng),
        }
    }
}

/// Changes a few bytes of blocks, and their checksums.
fn mutate_checked(bytes: &mut [u8], blocks: &[Range<usize>], rng: &mut Rng) {
    for _ in 0..1 + rng.below(2) {
        let block = rng.pick(blocks);
        (0..1 + rng.below(4)).for_each(|_| hostile::overwrite(&mut bytes[block.clone()], 64, rng));
        seal(bytes, block, crate::checksum::lookup3);
    }
}

/// Reads everything that a file has, but only the start of data sets of more than `most` bytes. Returns how many data sets
/// could be read, and how many could not.
fn read_all(bytes: Vec<u8>, limits: &Limits, most: u64) -> (usize, usize) {
    let Ok(file) = File::from_reader(Arc::new(Bytes::from(bytes)), "mutant", limits) else { return (0, 1) };
    read_objects(&file);
    let Ok(entries) = file.tree() else { return (0, 1) };
    let (mut good, mut bad) = (0, 0);
    for entry in entries {
        match entry.content {
            Content::Group => drop(file.group_attrs(&entry.path)),
            Content::DataSet(data) => {
                let nbytes = data.nbytes().unwrap_or(0);
                let read = match nbytes <= most {
                    true => data.builder().and_then(|builder| {
                        let built = builder.to_bytes(data.source());
                        built.map(drop).map_err(|_| b2_hdf5::Hdf5Error::NotHdf5)
                    }),
                    false => {
                        let itemsize = data.dtype().map_or(1, b2nd::Dtype::itemsize);
                        let mut item = vec![0; itemsize];
                        let (start, one) = (vec![0; data.shape().len()], vec![1; data.shape().len()]);
                        data.read_box(&start, &one, &mut item)
                    }
                };
                if read.is_ok() {
                    good += 1
                } else {
                    bad += 1
                }
                read_far(&file, &entry.path);
            }
            Content::Failed(_) => {
                bad += 1;
                read_far(&file, &entry.path);
            }
            _ => bad += 1,
        }
    }
    (good, bad)
}

/// Reads all objects as they are stored. Whether that fails does not matter.
fn read_objects(file: &File) {
    let Some(objects) = file.objects() else { return };
    let mut pending = vec![objects.root()];
    let mut seen = std::collections::BTreeSet::new();
    while let Some(address) = pending.pop() {
        if !seen.insert(address) || seen.len() > 1000 {
            continue;
        }
        let name = format!("{address}");
        let attrs = objects.attributes(address, &name).unwrap_or_default();
        for attr in attrs.iter().filter(|attr| matches!(attr.kind, b2_hdf5::Type::Sequence { .. })) {
            let _ = objects.sequences(&attr.data, 1, &name);
        }
        match objects.kind(address, &name) {
            Ok(b2_hdf5::ObjectKind::Group) => {
                let (links, _) = objects.links(address, &name).unwrap_or_default();
                pending.extend(links.into_iter().filter_map(|(_, target)| match target {
                    b2_hdf5::Target::Object(address) => Some(address),
                    _ => None,
                }));
            }
            Ok(b2_hdf5::ObjectKind::DataSet) => {
                let _ = objects.description(address, &name);
                let Ok(data) = objects.data_set(address, &name) else { continue };
                let chunks = data.stored_chunks().unwrap_or_default();
                if let Some(chunk) = chunks.first() {
                    let _ = objects.bytes(chunk.position, chunk.nbytes, &name);
                }
                let itemsize = data.dtype().map_or(1, b2nd::Dtype::itemsize);
                if !data.shape().contains(&0) && itemsize < 1 << 20 {
                    let mut item = vec![0; itemsize];
                    let (start, one) = (vec![0; data.shape().len()], vec![1; data.shape().len()]);
                    let _ = data.read_box(&start, &one, &mut item);
                    let _ = objects.sequences(&item, 1, &name);
                }
            }
            _ => drop(objects.named_type(address, &name)),
        }
    }
}

/// Reads single items at both ends and in the middle, without listing the file first, and unpacks numbers. Whether that
/// fails does not matter.
fn read_far(file: &File, path: &str) {
    let Ok(data) = file.data_set(path) else { return };
    if data.shape().contains(&0) {
        return;
    }
    let Ok(itemsize) = data.dtype().map(b2nd::Dtype::itemsize) else { return };
    let one = vec![1; data.shape().len()];
    let mut item = vec![0; itemsize];
    for at in [0, 1, 2] {
        let start: Vec<u64> = data.shape().iter().map(|length| (length - 1) / 2 * at).collect();
        let _ = data.read_box(&start, &one, &mut item);
    }
    if let Ok(Some(scale)) = Scale::of(&data) {
        let mut number = vec![0; scale.dtype().unwrap().itemsize()];
        scale.apply(&item, &mut number);
    }
    // A few rows, by several threads.
    let some: Vec<u64> = data.shape().iter().map(|&length| length.min(50)).collect();
    let nbytes = some.iter().try_fold(itemsize as u64, |n, &length| n.checked_mul(length));
    if let Some(nbytes @ ..=1_000_000) = nbytes {
        let mut items = vec![0; nbytes as usize];
        let _ = data.read_box_with(&Control::new(), &vec![0; some.len()], &some, &mut items);
    }
}

/// The processor time of all threads in steps of 10 ms, which hardly depends on other load; 0 if unknown.
fn processor_time() -> Duration {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The name of the program is in brackets, and may hold anything.
    let fields = stat.rsplit(')').next().unwrap_or_default().split_whitespace();
    let ticks: u64 = fields.skip(11).take(2).filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
    Duration::from_millis(ticks * 10)
}

fn files(matrix: Option<&Path>) -> Vec<PathBuf> {
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join("data");
    let mut found: Vec<PathBuf> = std::iter::once(ours)
        .chain(matrix.map(Path::to_owned))
        .flat_map(|folder| fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()))
        .filter(|path| path.extension().is_some_and(|end| end == "h5" || end == "nc"))
        .filter(|path| fs::metadata(path).unwrap().len() < LARGE)
        .collect();
    found.sort();
    found
}

#[test]
fn mutants_are_errors_or_values() {
    let number = |name| std::env::var(name).ok().map(|number| number.parse::<usize>().unwrap());
    let count = number("B2KIT_HDF5_MUTANTS").unwrap_or(MUTANTS);
    let from = number("B2KIT_HDF5_MUTANTS_FROM").unwrap_or(0);
    let read = |path: PathBuf| {
        let bytes = fs::read(&path).unwrap();
        let blocks = checked_blocks(&bytes, crate::checksum::lookup3);
        (path, bytes, blocks)
    };
    let matrix = std::env::var_os("B2KIT_HDF5_PYTHON").map(|_| crate::made::made("matrix.py", &["FOLDER"]));
    let originals: Vec<(PathBuf, Vec<u8>, Vec<Range<usize>>)> =
        files(matrix.as_ref().map(|folder| folder.path())).into_iter().map(read).collect();
    assert!(originals.iter().any(|(.., blocks)| !blocks.is_empty()));
    let limits = Limits::default().max_memory(256 << 20).max_output(256 << 20).max_metadata(64 << 20);
    for (path, bytes, _) in &originals {
        let (good, bad) = read_all(bytes.clone(), &limits, MAX_READ_LEN);
        assert!(good + bad > 0, "{}", path.display());
    }
    let (mut good, mut bad) = (0, 0);
    // The longest wall-clock and processor times, and their mutants.
    let (mut longest, mut hardest) = ((Duration::ZERO, 0), (Duration::ZERO, 0));
    // Read on another thread, so that one that never ends is named.
    let (to_reader, mutants) = mpsc::channel::<Vec<u8>>();
    let (to_us, results) = mpsc::channel();
    thread::spawn(move || {
        mutants.iter().try_for_each(|bytes| to_us.send(read_all(bytes, &limits, MAX_READ_LEN)))
    });
    for n in from..from + count {
        let (path, original, blocks) = &originals[n % originals.len()];
        let mut rng = Rng::case(1, n as u64);
        let mut bytes = original.clone();
        match n / originals.len() % 2 == 1 && !blocks.is_empty() {
            true => mutate_checked(&mut bytes, blocks, &mut rng),
            false => mutate(&mut bytes, &mut rng),
        }
        let (start, worked) = (Instant::now(), processor_time());
        to_reader.send(bytes).unwrap();
        let Ok((more, less)) = results.recv_timeout(LONGEST) else {
            panic!("mutant {n}, of {}, panicked or took longer than {LONGEST:?}", path.display());
        };
        (good, bad) = (good + more, bad + less);
        longest = longest.max((start.elapsed(), n));
        hardest = hardest.max((processor_time().saturating_sub(worked), n));
    }
    println!("{count} mutants: {good} data sets read, {bad} refused");
    for (what, (time, n)) in [("on the clock", longest), ("on the processor", hardest)] {
        println!(
            "the longest {what}: {time:?}, number {n}, of {}",
            originals[n % originals.len()].0.display()
        );
    }
    assert!(good > 0 && bad > 0);
    assert!(hardest.0 < HARDEST, "mutant {} takes {:?}", hardest.1, hardest.0);
}

/// Files of `handmade.py`, a few kilobytes of which ask for gigabytes or hours.
#[test]
#[ignore = "needs Python with h5py (B2KIT_HDF5_PYTHON)"]
fn small_files_do_not_ask_for_much() {
    let folder = crate::made::made("handmade.py", &["FOLDER"]);
    let limits = Limits::default().max_memory(256 << 20).max_output(256 << 20).max_metadata(64 << 20);
    let mut count = 0;
    for entry in fs::read_dir(folder.path()).unwrap() {
        let (path, worked) = (entry.unwrap().path(), processor_time());
        let (good, bad) = read_all(fs::read(&path).unwrap(), &limits, 64 << 10);
        let taken = processor_time().saturating_sub(worked);
        println!("{}: {good} read, {bad} refused, {taken:?}", path.display());
        assert!(taken < HARDEST, "{}", path.display());
        count += 1;
    }
    assert!(count >= 11);
}
