//! Times reading a data set: all of it, and a box in the middle of a chunk.
//!
//!     cargo run --release --example read -- FILE PATH [ROUNDS]

use std::time::Instant;

use b2_hdf5::File;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, file, path, rest @ ..] = &args[..] else {
        println!("Give an HDF5 or NetCDF file, a data set in it, and perhaps the number of rounds.");
        return Ok(());
    };
    let rounds: usize = rest.first().map_or(Ok(5), |rounds| rounds.parse())?;
    let file = File::open(file)?;
    let data = file.data_set(path)?;
    let shape = data.shape().to_vec();
    let itemsize = data.dtype()?.itemsize();
    let nbytes = |shape: &[u64]| shape.iter().product::<u64>() as usize * itemsize;
    let mut items = vec![0; nbytes(&shape)];
    let zeros = vec![0; shape.len()];
    // A box of 16 items along each dimension.
    let start: Vec<u64> = shape.iter().map(|&length| length / 3).collect();
    let small: Vec<u64> = shape.iter().map(|&length| length.min(16)).collect();
    let mut part = vec![0; nbytes(&small)];
    let mut best = [f64::INFINITY; 2];
    for _ in 0..rounds {
        let begin = Instant::now();
        data.read_box(&zeros, &shape, &mut items)?;
        best[0] = best[0].min(begin.elapsed().as_secs_f64());
        let begin = Instant::now();
        data.read_box(&start, &small, &mut part)?;
        best[1] = best[1].min(begin.elapsed().as_secs_f64());
    }
    println!(
        "all {:.1} ms ({:.0} MB/s), a box {:.3} ms",
        best[0] * 1e3,
        items.len() as f64 / best[0] / 1e6,
        best[1] * 1e3
    );
    Ok(())
}
