//! The main use case with a real array: pack it, show its summary, read it back, draw a slice of it.

use std::io::IsTerminal;
use std::path::Path;
use std::process::Command;

use anyhow::ensure;
use b2kit::{NdArray, range};

use crate::root::{self, target, workspace};
use crate::sh;

/// Pack a real array, show its summary, read it back and draw it.
///
/// Takes testdata/arrays/sea_surface_temperature.npy (12 months of sea surface temperature on a grid of 2
/// degrees) through the command `b2kit`, as a user would. Results go to target/demo/.
#[derive(clap::Args)]
pub(crate) struct Args {}

const ARRAY: &str = "testdata/arrays/sea_surface_temperature.npy";

pub(crate) fn run(_: &Args) -> anyhow::Result<()> {
    let dir = target().join("demo");
    root::empty(&dir)?;
    let (packed, back, picture) = (dir.join("sst.b2nd"), dir.join("sst.npy"), dir.join("sst.png"));
    let text = |path: &Path| path.strip_prefix(workspace()).unwrap_or(path).display().to_string();
    let tool = text(&target().join("debug/b2kit"));
    match workspace().join(&tool).exists() {
        true => println!("this takes some seconds, or a minute if the command must be built"),
        false => {
            println!("this takes about a minute on two cores to build the command; the rest takes seconds")
        }
    }
    // Naming xtask too avoids rebuilding what xtask was built from. A debug build is fast enough for a small array.
    let build = ["build", "--package", "b2kit-cli", "--package", "xtask", "--bin", "b2kit"];
    sh::run(sh::cargo(&build))?;
    command(&tool, &["pack", ARRAY, &text(&packed)])?;
    command(&tool, &["info", &text(&packed)])?;
    command(&tool, &["cat", &text(&packed), "--npy", "-o", &text(&back)])?;
    let (before, after) = (std::fs::read(workspace().join(ARRAY))?, std::fs::read(&back)?);
    ensure!(before == after, "{} differs from {ARRAY}", text(&back));
    println!("{} is {ARRAY} again, byte for byte.", text(&back));
    draw(&packed, &picture)?;
    println!("\n{} shows January, drawn from a slice of the packed array.", text(&picture));
    Ok(())
}

/// Draws January with north at the top.
fn draw(packed: &Path, picture: &Path) -> anyhow::Result<()> {
    let array = NdArray::open(packed)?;
    let january = array.slice((0, range(..).step(-1)))?;
    let (height, width) = (january.shape()[0] as usize, january.shape()[1] as usize);
    let pixels: Vec<[u8; 3]> = january.read::<Vec<f32>>()?.into_iter().map(colour).collect();
    if std::io::stdout().is_terminal() {
        print_picture(&pixels, width);
    }
    write_png(picture, &pixels, width, height)
}

fn command(program: &str, args: &[&str]) -> anyhow::Result<()> {
    let mut command = Command::new(workspace().join(program));
    command.args(args).current_dir(workspace());
    sh::run(command)
}

/// Colours from blue at -2 degrees through white to red at 32. Land, which has a missing-value code, is grey.
fn colour(celsius: f32) -> [u8; 3] {
    if celsius < -1e30 {
        return [90, 90, 90];
    }
    const STOPS: [[f32; 3]; 5] =
        [[24., 44., 110.], [60., 140., 200.], [238., 238., 220.], [244., 150., 70.], [160., 20., 40.]];
    let at = ((celsius + 2.0) / 34.0).clamp(0.0, 1.0) * (STOPS.len() - 1) as f32;
    let i = (at as usize).min(STOPS.len() - 2);
    std::array::from_fn(|c| (STOPS[i][c] + (STOPS[i + 1][c] - STOPS[i][c]) * (at - i as f32)) as u8)
}

/// Prints two rows of pixels per line of text, and every second column.
fn print_picture(pixels: &[[u8; 3]], width: usize) {
    for rows in pixels.chunks_exact(width * 4) {
        let (top, bottom) = (&rows[..width], &rows[2 * width..3 * width]);
        for column in (0..width).step_by(2) {
            let ([r, g, b], [s, h, c]) = (top[column], bottom[column]);
            print!("\x1b[38;2;{r};{g};{b};48;2;{s};{h};{c}m\u{2580}");
        }
        println!("\x1b[0m");
    }
}

fn write_png(path: &Path, pixels: &[[u8; 3]], width: usize, height: usize) -> anyhow::Result<()> {
    const SCALE: usize = 4;
    let rows = pixels.chunks_exact(width).flat_map(|row| std::iter::repeat_n(row, SCALE));
    let bytes: Vec<u8> = rows
        .flat_map(|row| row.iter().flat_map(|pixel| std::iter::repeat_n(*pixel, SCALE).flatten()))
        .collect();
    let file = std::io::BufWriter::new(std::fs::File::create(path)?);
    let mut encoder = png::Encoder::new(file, (width * SCALE) as u32, (height * SCALE) as u32);
    encoder.set_color(png::ColorType::Rgb);
    encoder.set_depth(png::BitDepth::Eight);
    encoder.write_header()?.write_image_data(&bytes)?;
    Ok(())
}
