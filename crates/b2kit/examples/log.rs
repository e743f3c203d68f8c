//! Appends a day at a time to a cube, and sets an attribute.
//!
//! Run with `cargo run -p b2kit --example log`.

use b2kit::{ArrayBuilder, Axis, NdArray, source};

pub(crate) fn main() -> Result<(), Box<dyn std::error::Error>> {
    let dir = tempfile::tempdir()?;
    let path = dir.path().join("cube.b2nd");
    // The axes are days, latitudes and longitudes. The array starts without days.
    ArrayBuilder::new::<f32>([0, 180, 360]).chunks([8, 60, 120]).write(&path, source::zeros())?;

    for day in 0..20 {
        let today: Vec<f32> = (0..180 * 360).map(|place| (place % 360) as f32 + day as f32 / 10.0).collect();

        let mut cube = NdArray::edit(&path)?;
        cube.append(Axis(0), &today)?;
        cube.attrs_mut().set("units", "K")?;
        cube.commit()?; // after a crash at any moment, the whole day is there or none of it
    }

    let cube = NdArray::open(&path)?;
    println!("{:?} in {}", cube.shape(), cube.attrs().get("units")?.ok_or("no units")?);
    assert_eq!(cube.shape(), [20, 180, 360]);
    assert_eq!(cube.slice([19, 5, 10])?.read::<Vec<f32>>()?, [11.9]);
    Ok(())
}
