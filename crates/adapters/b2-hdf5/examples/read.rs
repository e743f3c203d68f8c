//! Times reading a data set: all of it, or boxes that start in the middle of a chunk. `compare.py` runs this program
//! and h5py in alternation.
//!
//!     cargo run --release --example read -- FILE PATH THREADS
//!
//! Each line of standard input is `all` or `box`; the output is a line with the time in seconds and the sum of the bytes.

use std::io::{BufRead, Write};
use std::time::Instant;

use b2_core::Control;
use b2_hdf5::File;

/// Boxes of this many items along each dimension are read, this many of them at a time.
const LENGTH: u64 = 16;
const BOXES: u64 = 50;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, path, threads] = &args[..] else {
        println!("Give an HDF5 or NetCDF file, a data set in it, and the number of threads.");
        return Ok(());
    };
    let control = Control::new().threads(threads.parse()?);
    let file = File::open(file)?;
    let whole = file.data_set(path)?;
    let shape = whole.shape().to_vec();
    let itemsize = whole.dtype()?.itemsize();
    let nbytes = |shape: &[u64]| shape.iter().product::<u64>() as usize * itemsize;
    let mut items = vec![0; nbytes(&shape)];
    let small: Vec<u64> = shape.iter().map(|&length| length.min(LENGTH)).collect();
    let mut part = vec![0; nbytes(&small)];
    let sum = |bytes: &[u8]| bytes.iter().fold(0_u64, |sum, &byte| sum.wrapping_add(byte.into()));
    for line in std::io::stdin().lock().lines() {
        // Opened again, so that nothing is cached.
        let data = file.data_set(path)?;
        let begin = Instant::now();
        let (seconds, sum) = match line?.trim() {
            "all" => {
                data.read_box_with(&control, &vec![0; shape.len()], &shape, &mut items)?;
                (begin.elapsed(), sum(&items))
            }
            _ => {
                let mut total = 0_u64;
                for n in 0..BOXES {
                    // Spread over the data set, at the same positions as in compare.py.
                    let place = |(&length, &small): (&u64, &u64)| (n * 7919 + 13) * 31 % (length - small + 1);
                    let start: Vec<u64> = shape.iter().zip(&small).map(place).collect();
                    data.read_box_with(&control, &start, &small, &mut part)?;
                    total = total.wrapping_add(sum(&part));
                }
                (begin.elapsed() / u32::try_from(BOXES)?, total)
            }
        };
        println!("{} {sum}", seconds.as_secs_f64());
        std::io::stdout().flush()?;
    }
    Ok(())
}
