//! `b2kit view`: the pictures, decoded and compared with the data.

use crate::common::{Folder, counting, noise, npy};
use crate::show::picture;

fn floats(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// The value of this attribute in the first tag of its kind.
fn attribute(svg: &str, tag: &str, name: &str) -> usize {
    let rest = svg.split(&format!("<{tag} ")).nth(1).unwrap_or_else(|| panic!("no {tag} in {svg}"));
    let value = rest.split(&format!("{name}=\"")).nth(1).unwrap().split('"').next().unwrap();
    value.parse().unwrap()
}

/// The first image in an SVG file: width, height and RGBA bytes.
fn image(svg: &str) -> (u32, u32, Vec<u8>) {
    let code = svg.split("base64,").nth(1).expect("an image").split('"').next().unwrap();
    picture(&data_encoding::BASE64.decode(code.as_bytes()).unwrap())
}

/// The texts of an SVG file.
fn texts(svg: &str) -> Vec<String> {
    let after =
        svg.split("</text>").filter_map(|part| part.rsplit_once('>').map(|(_, text)| text.to_owned()));
    after.collect()
}

const MISSING: [u8; 4] = [222, 222, 222, 255];

#[test]
fn missing_items_are_not_drawn_in_lines() {
    let folder = Folder::new();
    let values = [1.0, 2.0, 1e20, -1e34, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 4.0];
    folder.pack("f", &npy("<f4", false, "(8,)", &floats(values)), &[]);
    let line = |more: &[&str]| {
        let svg = folder.ok_text(&[&["view", "f", "--format", "svg"], more].concat());
        (svg.matches("<polyline").count(), svg.contains(">missing<"))
    };
    // A line before the missing items and one after them; a single line if a range includes some of them.
    assert_eq!(line(&[]), (2, true));
    assert_eq!(line(&["--slice=:2"]), (1, false));
    assert_eq!(line(&["--range=-1e35:1e35", "--slice=:4"]), (1, false));
}

#[test]
fn pixels_are_the_items() {
    let folder = Folder::new();
    let values = [0.0, f32::NAN, 10.0, 5.0, -1e34, 20.0];
    folder.pack("f", &npy("<f4", false, "(2, 3)", &floats(values)), &[]);
    let svg = folder.ok_text(&["view", "f", "--format", "svg"]);
    let (width, height, pixels) = image(&svg);
    assert_eq!((width, height), (3, 2));
    // The same renderer as that of `cat --png`, except that missing items are visible.
    let (_, _, plain) = picture(&folder.ok(&["cat", "f", "--png"]));
    for (ours, plain) in pixels.chunks(4).zip(plain.chunks(4)) {
        assert_eq!(ours, if plain[3] == 0 { &MISSING } else { plain });
    }
    assert!(texts(&svg).iter().any(|text| text == "missing"), "{svg}");
    assert_eq!(texts(&svg)[..2], ["f", "<f4 (2, 3), [:, :]"].map(|text| text.replace('<', "&lt;")));
    // A larger one, of a type with a palette, from a file of many chunks; PNG and SVG show the same.
    folder.pack("i", &npy(">u2", false, "(70, 300)", &noise(42_000)), &["--chunks", "9,50"]);
    let (_, _, plain) = picture(&folder.ok(&["cat", "i", "--png"]));
    folder.ok(&["view", "i", "-o", "i.svg"]);
    let svg = String::from_utf8(folder.read("i.svg")).unwrap();
    let (width, height, pixels) = image(&svg);
    assert_eq!((width, height, &pixels), (300, 70, &plain));
    assert!(!svg.contains("missing"));
    folder.ok(&["view", "i", "-o", "i.png"]);
    let (wide, _, painted) = picture(&folder.read("i.png"));
    let (x, y) = (attribute(&svg, "image", "x"), attribute(&svg, "image", "y"));
    let zoom = (attribute(&svg, "image", "width") / 300, attribute(&svg, "image", "height") / 70);
    assert_eq!(zoom, (2, 2));
    for (k, pixel) in pixels.chunks(4).enumerate() {
        let at = 4 * ((y + k / 300 * zoom.1) * wide as usize + x + k % 300 * zoom.0);
        assert_eq!(&painted[at..at + 4], pixel, "pixel {k}");
    }
    // To a pipe it is PNG.
    assert_eq!(folder.ok(&["view", "i"]), folder.read("i.png"));
    // From standard input, and from an .npy file.
    folder.write("i.npy", &npy(">u2", false, "(70, 300)", &noise(42_000)));
    assert_eq!(image(&folder.ok_text(&["view", "i.npy", "--format", "svg"])).2, plain);
    let output = folder.with_input(&["view", "-", "--format", "svg"], &folder.read("i"));
    assert_eq!(image(&String::from_utf8(output.stdout).unwrap()).2, plain);
    // Existing files are kept, and names that are not pictures are refused.
    assert!(folder.fails(1, &["view", "i", "-o", "i.png"]).contains("--force"));
    folder.ok(&["view", "i", "-o", "i.png", "--force"]);
    assert!(folder.fails(2, &["view", "i", "-o", "i.jpg"]).contains(".png or .svg"));
    assert!(folder.fails(1, &["view", "i", "-o", "i", "--format", "png", "--force"]).contains("same file"));
}

#[test]
fn slices_ranges_and_colours() {
    let folder = Folder::new();
    folder.pack("a", &npy("<i4", false, "(4, 5, 6)", &counting(120)), &[]);
    let view = |args: &[&str]| {
        image(&folder.ok_text(&[&["view", "a", "--format", "svg"], args].concat()))
            .2
            .chunks(4)
            .map(|pixel| [pixel[0], pixel[1], pixel[2]])
            .collect::<Vec<_>>()
    };
    // Of three dimensions, the plane in the middle, with a note.
    let output = folder.run(&["view", "a", "--format", "svg"]);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message, "b2kit: a: 3 dimensions; [2, :, :] is the plane through the middle\n");
    let svg = String::from_utf8(output.stdout).unwrap();
    assert!(texts(&svg)[1].ends_with("[2, :, :]"), "{svg}");
    assert_eq!(image(&svg).2, image(&folder.ok_text(&["view", "a", "--format", "svg", "--slice=2"])).2);
    assert_eq!(folder.ok_text(&["-q", "view", "a", "--format", "svg"]), svg);
    let plain = view(&["--slice=2"]);
    assert_eq!((plain[0], plain[29]), ([68, 1, 84], [253, 231, 37]));
    let turned = view(&["--slice=2,::-1,::-1"]);
    assert_eq!(turned, plain.iter().rev().copied().collect::<Vec<_>>());
    let part = view(&["--slice=2,1::2,3:5", "--range=60:89"]);
    assert_eq!(part, [plain[9], plain[10], plain[21], plain[22]]);
    assert_eq!(view(&["--slice=2", "--range=0:1"]), [[253, 231, 37]; 30]);
    assert_eq!(view(&["--slice=2", "--range=25%:75%"])[..7], [[68, 1, 84]; 7]);
    let log = view(&["--slice=0", "--log"]);
    // From 1 to 29: the first is not above 0.
    assert_eq!((log[0], log[1], log[29]), ([68, 1, 84], [68, 1, 84], [253, 231, 37]));
    let diverging = view(&["--slice=0", "--map", "diverging", "--range=-1:1"]);
    assert_eq!((diverging[0], diverging[1]), ([247, 247, 247], [103, 0, 31]));
    assert_eq!(view(&["--slice=0", "--map", "grey"])[29], [255, 255, 255]);
    assert_eq!(view(&["--slice=0", "--map", "cividis"])[0], [0, 32, 77]);
    for (code, args) in [
        (2, &["--range=1"][..]),
        (2, &["--range=2:1"]),
        (2, &["--log", "--range=0:1", "--slice=0"]),
        (2, &["--map", "jet"]),
        (1, &["--slice=0,0,0"]),
        (1, &["--slice=4"]),
        (1, &["--slice=:0"]),
        (1, &["--field", "x"]),
    ] {
        let args = [&["view", "-q", "a"], args].concat();
        folder.fails(code, &args);
    }
}

#[test]
fn records_have_fields_and_text_has_none() {
    let folder = Folder::new();
    let items: Vec<u8> =
        (0..6_i16).flat_map(|k| [&k.to_le_bytes()[..], b"ab", &[k as u8]].concat()).collect();
    folder.pack("r", &npy("[('speed', '<i2'), ('name', 'S2'), ('n', 'u1')]", false, "(2, 3)", &items), &[]);
    assert!(folder.fails(1, &["view", "r"]).contains("--field picks one of speed, name, n"));
    folder.pack(
        "s",
        &npy("<i2", false, "(2, 3)", &(0..6_i16).flat_map(i16::to_le_bytes).collect::<Vec<_>>()),
        &[],
    );
    let svg = folder.ok_text(&["view", "r", "--field", "speed", "--format", "svg"]);
    assert_eq!(image(&svg).2, image(&folder.ok_text(&["view", "s", "--format", "svg"])).2);
    assert_eq!(texts(&svg)[0], "r speed");
    assert!(folder.fails(1, &["view", "r", "--field", "name"]).contains("cannot be drawn"));
    assert!(folder.fails(1, &["view", "r", "--field", "none"]).contains("speed, name, n"));
    folder.pack("u", &npy("<U1", false, "(1, 2)", &[65, 0, 0, 0, 66, 0, 0, 0]), &[]);
    assert!(folder.fails(1, &["view", "u"]).contains("b2kit show"));
}

#[test]
fn one_dimension_is_a_line() {
    let folder = Folder::new();
    folder.pack("s", &counting(50), &["--typesize", "4"]);
    let svg = folder.ok_text(&["view", "s", "--dtype", "<i4", "--format", "svg"]);
    let points = svg.split("points=\"").nth(1).unwrap().split('"').next().unwrap();
    let points: Vec<(f64, f64)> = points
        .split(' ')
        .map(|point| point.split_once(',').map(|(x, y)| (x.parse().unwrap(), y.parse().unwrap())).unwrap())
        .collect();
    assert_eq!(points.len(), 50);
    // A straight line, upwards.
    let (first, last) = (points[0], points[49]);
    for (k, (x, y)) in points.iter().enumerate() {
        let share = k as f64 / 49.0;
        assert!((x - first.0 - share * (last.0 - first.0)).abs() < 0.02, "{k}: {x}");
        assert!((y - first.1 - share * (last.1 - first.1)).abs() < 0.02, "{k}: {y}");
    }
    assert!(first.1 > last.1);
    // More items than columns: the extremes are visible. Missing items interrupt the line.
    let mut values: Vec<f32> = (0..100_000).map(|k| (k % 7) as f32).collect();
    values[54_321] = 1000.0;
    values[70_000..90_000].fill(f32::NAN);
    folder.pack("n", &npy("<f4", false, "(100000,)", &floats(values)), &["--chunks", "9000"]);
    let svg = folder.ok_text(&["view", "n", "--format", "svg"]);
    assert!(texts(&svg).iter().any(|text| text == "1000") && svg.contains(">missing<"), "{svg}");
    assert_eq!(svg.matches("<polyline").count(), 2);
    folder.ok(&["view", "n", "-o", "n.png"]);
    picture(&folder.read("n.png"));
}

#[test]
fn axes_have_coordinates() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("ocean.b2d")).unwrap();
    let (lat, lon): (Vec<f32>, Vec<f32>) =
        ((0..18).map(|k| -85.0 + 10.0 * k as f32).collect(), (0..36).map(|k| 10.0 * k as f32).collect());
    let dims = |names: &str| format!("_ARRAY_DIMENSIONS={names}");
    let values: Vec<f32> = (0..18 * 36).map(|k| if k == 7 { -999.0 } else { k as f32 }).collect();
    let pack = |name: &str, values: Vec<f32>, shape: &str, layers: &[&str]| {
        let layers: Vec<&str> = layers.iter().flat_map(|layer| ["--vlmeta", layer]).collect();
        folder.pack(name, &npy("<f4", false, shape, &floats(values)), &layers);
    };
    let layers = ["units=\"K\"", "long_name=\"sea <surface>\"", "_FillValue=-999.0"];
    pack(
        "ocean.b2d/sst.b2nd",
        values,
        "(18, 36)",
        &[&[&dims("[\"lat\",\"lon\"]")[..]], &layers[..]].concat(),
    );
    pack("ocean.b2d/lat.b2nd", lat, "(18,)", &[&dims("[\"lat\"]"), "units=\"degrees\""]);
    pack("ocean.b2d/lon.b2nd", lon, "(36,)", &[&dims("[\"lon\"]")]);
    let by_path = folder.ok_text(&["view", "ocean.b2d/sst.b2nd", "--format", "svg"]);
    let by_key = folder.ok_text(&["view", "ocean.b2d", "--key", "/sst", "--format", "svg"]);
    let by_name = folder.ok_text(&["view", "ocean.b2d::sst", "--format", "svg"]);
    folder.change(&["convert", "ocean.b2d", "ocean.nc"]);
    let netcdf = folder.ok_text(&["view", "ocean.nc::/sst", "--format", "svg"]);
    for svg in [&by_path, &by_key, &by_name, &netcdf] {
        let there = texts(svg);
        for text in ["lat, degrees", "lon", "-50", "50", "100", "300", "sea &lt;surface&gt; (K)", "missing"] {
            assert!(there.iter().any(|found| found == text), "{text} in {there:?}");
        }
        assert_eq!(image(svg).2[4 * 7..4 * 8], MISSING, "the fill value");
    }
    // Dimension names that are not valid file names, or name something else, are harmless.
    for names in ["[\"../sst\",\"lon\"]", "[\"/etc/passwd\",\"\"]", "[\"a\"]", "7", "[\"lat\",\"lat\"]"] {
        folder.ok(&["vlmeta", "set", "ocean.b2d/sst.b2nd", "_ARRAY_DIMENSIONS", names, "-q"]);
        let svg = folder.ok_text(&["view", "ocean.b2d/sst.b2nd", "--format", "svg"]);
        assert!(!svg.contains("root:"));
    }
}

#[test]
fn dates_are_written_as_such() {
    let folder = Folder::new();
    std::fs::create_dir(folder.path("s")).unwrap();
    let days = |count: i64| (18_687..18_687 + count).flat_map(i64::to_le_bytes).collect::<Vec<u8>>();
    folder.pack("s/time.b2nd", &npy("<M8[D]", false, "(400,)", &days(400)), &[]);
    let named = &["--vlmeta", "_ARRAY_DIMENSIONS=[\"time\"]"];
    folder.pack("s/x.b2nd", &npy("<i8", false, "(400,)", &days(400)), named);
    folder.pack("s/bars.b2nd", &npy("<M8[D]", false, "(20, 20)", &days(400)), &[]);
    for name in ["s/time.b2nd", "s/x.b2nd", "s/bars.b2nd"] {
        let found = texts(&folder.ok_text(&["view", name, "--format", "svg"]));
        assert!(found.contains(&"2021-07".to_owned()) && found.contains(&"2022-01".to_owned()), "{found:?}");
    }
    // Times of CF along an axis, in a calendar that has dates and in one that has none.
    let hours: Vec<u8> = (0..400).flat_map(|day| (f64::from(day) * 24.0).to_le_bytes()).collect();
    for (calendar, has_dates) in [("standard", true), ("noleap", false)] {
        let layers = ["units=\"hours since 2021-03-01\"", &format!("calendar=\"{calendar}\"")];
        let layers = [&["--vlmeta"], &layers[..1], &["--vlmeta"], &layers[1..]].concat();
        folder.pack("s/time.b2nd", &npy("<f8", false, "(400,)", &hours), &layers);
        let found = texts(&folder.ok_text(&["view", "s/x.b2nd", "--format", "svg", "--slice=:100"]));
        assert_eq!(found.contains(&"2021-04-03".to_owned()), has_dates, "{found:?}");
        assert_eq!(found.contains(&"time".to_owned()), has_dates, "{found:?}");
        assert_eq!(found.contains(&"time, hours since 2021-03-01".to_owned()), !has_dates, "{found:?}");
    }
}

/// The same notation in all commands.
#[test]
fn ranges_are_values_or_shares() {
    let folder = Folder::new();
    let items: Vec<f32> = (0..400).map(|k| if k == 7 { 1e30 } else { k as f32 }).collect();
    folder.pack("a", &npy("<f4", false, "(20, 20)", &floats(items)), &[]);
    let png = |range: &str| {
        folder.ok(&["cat", "a", "--png", range, "-o", "a.png", "--force"]);
        folder.read("a.png")
    };
    assert_eq!(png("--range=0%:100%"), png("--range=0:399"));
    assert_eq!(png("--range=25%:50%"), png("--range=101:200"));
    assert_ne!(png("--range=25%:50%"), png("--range=0:399"));
    let show = |range: &str| folder.ok_text(&["show", "a", "--picture", "--no-stats", range]);
    assert_eq!(show("--range=25%:50%"), show("--range=101:200"));
    for command in [&["cat", "a", "--png"][..], &["show", "a"], &["view", "a", "-o", "x.png"]] {
        let message = folder.fails(2, &[command, &["--range=1%..99%"]].concat());
        assert!(message.contains("expected two numbers, such as -2:30 or 2%:98%"), "{message}");
    }
}

/// Packs an array as `a`, and damages one of its chunks.
pub(crate) fn pack_damaged(folder: &Folder) {
    folder.pack(
        "a",
        &npy("<i4", false, "(100, 100)", &counting(10_000)),
        &["--codec", "lz4", "--chunks", "50,50"],
    );
    let mut bytes = folder.read("a");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xA5);
    folder.write("a", &bytes);
}

#[test]
fn damage_is_told() {
    let folder = Folder::new();
    pack_damaged(&folder);
    let message = folder.fails(1, &["view", "a", "-o", "a.png"]);
    assert!(message.starts_with("b2kit: a: ") && message.contains("damaged"), "{message}");
    assert_eq!(folder.names(), ["a"], "no part of a picture");
}
