//! The engine without a browser, with files in memory.

use std::collections::HashMap;

use b2_chunk::{Chunk, Compression};
use b2_frame::{FrameParams, FrameWriter, Storage, SuperChunk, Version};
use b2_store::{StoreLayout, StoreWriter};
use b2_testkit::Rng;
use b2_testkit::hostile::overwrite;
use b2_wasm::engine::{Engine, TaskOutput};
use b2_wasm::host::{HostRequest, HostResponse};
use b2nd::{ArrayBuilder, Dtype, NdArray};
use bytes::Bytes;

/// A page that serves requests from memory.
#[derive(Default)]
struct TestPage {
    engine: Engine,
    files: HashMap<u32, Bytes>,
    /// The chunk files of a sparse frame.
    chunks: HashMap<u32, Bytes>,
    next: u32,
    /// Whether it reports file lengths.
    tells_length: bool,
    requests: Vec<(u64, u64)>,
    lengths: usize,
}

impl TestPage {
    fn with(bytes: impl Into<Bytes>) -> Self {
        Self { files: HashMap::from([(1, bytes.into())]), tells_length: true, ..Self::default() }
    }

    fn serve(&mut self, ask: HostRequest) {
        let (request, found) = match ask {
            HostRequest::Read { request, file, chunk, range } => {
                self.requests.push((range.start, range.end));
                let bytes = chunk.map_or_else(|| &self.files[&file], |chunk| &self.chunks[&chunk]);
                let at = |at: u64| usize::try_from(at).unwrap().min(bytes.len());
                let len = Some(bytes.len() as u64).filter(|_| self.tells_length);
                let bytes = bytes.slice(at(range.start)..at(range.end));
                (request, HostResponse { bytes, version: Version::default().len(len) })
            }
            HostRequest::Length { request, file } => {
                self.lengths += 1;
                let len = self.files[&file].len() as u64;
                (request, HostResponse { bytes: Bytes::new(), version: Version::default().len(Some(len)) })
            }
            HostRequest::Forget { .. } => return,
        };
        self.engine.host().answer(request, Ok(found));
    }

    /// Runs a command to its end.
    fn call(&mut self, command: &str) -> Result<TaskOutput, String> {
        self.next += 1;
        self.engine.call(self.next, command);
        // Each response advances a task, so this terminates.
        for _ in 0..100_000 {
            self.engine.poll();
            if let Some((task, result)) = self.engine.done() {
                assert_eq!(task, self.next);
                return result;
            }
            match self.engine.ask() {
                Some(ask) => self.serve(ask),
                None => panic!("{command} is pending without a request"),
            }
        }
        panic!("{command} does not end");
    }

    fn json(&mut self, command: &str) -> String {
        self.call(command).unwrap().json.to_string()
    }

    fn open(&mut self) -> String {
        self.json("open\nfile=1\nname=a file")
    }

    fn values(&mut self) -> Vec<f64> {
        let bytes = self.call("values\nhandle=1\nmap=viridis").unwrap().bytes;
        bytes.chunks_exact(8).map(|x| f64::from_le_bytes(x.try_into().unwrap())).collect()
    }
}

fn array() -> Vec<u8> {
    let items: Vec<f32> = (0..4 * 30 * 40).map(|k| k as f32 / 2.0).collect();
    ArrayBuilder::new::<f32>([4, 30, 40])
        .chunks([2, 30, 20])
        .blocks([1, 10, 10])
        .to_bytes(&items[..])
        .unwrap()
        .to_vec()
}

const LOOK_COMMAND: &str = "look\nhandle=1\ndecoded=1000000000\nmost=1000,1000";

#[test]
fn planes_are_read_and_coloured() {
    let mut page = TestPage::with(array());
    let output = page.open();
    assert!(
        output.contains(r#""kind":"array","shape":[4,30,40],"chunks":[2,30,20],"blocks":[1,10,10]"#),
        "{output}"
    );
    assert!(output.contains(r#""dtype":"<f4""#), "{output}");
    let output = page.json("axes\nhandle=1\nslice=-1,::2,5:-5");
    let expected = concat!(
        r#"{"axes":[{"start":3,"step":1,"len":1,"dropped":true},{"start":0,"step":2,"len":15,"dropped":false},"#,
        r#"{"start":5,"step":1,"len":30,"dropped":false}]}"#
    );
    assert_eq!(output, expected);
    let output = page.json(&format!("{LOOK_COMMAND}\nslice=3,::2,5:35\ndims=1,2\nwindows=0,15,0,30"));
    assert_eq!(output, r#"{"height":15,"width":30,"steps":[1,1],"every":1}"#);
    let at = |i: usize, j: usize, k: usize| (i * 1200 + j * 40 + k) as f64 / 2.0;
    let expected: Vec<f64> =
        (0..30).step_by(2).flat_map(|j| (5..35).map(move |k| (j, k))).map(|(j, k)| at(3, j, k)).collect();
    assert_eq!(page.values(), expected);
    let cell = page.json("cell\nhandle=1\nrow=2\ncolumn=7");
    assert_eq!(
        cell,
        format!(
            r#"{{"position":[3,4,12],"points":["","",""],"value":"{}","number":{:?}}}"#,
            "1886.0",
            at(3, 4, 12)
        )
    );
    let painted = page.call("paint\nhandle=1\nmap=grey\nrange=\nlog=0").unwrap();
    assert_eq!(painted.bytes.len(), 15 * 30 * 4);
    assert_eq!(painted.bytes[..4], [24, 24, 24, 255]);
    assert_eq!(painted.bytes[painted.bytes.len() - 4..], [255; 4]);
    assert!(painted.json["missing"] == 0, "{}", painted.json);
    // Transposed, with a window.
    page.json(&format!("{LOOK_COMMAND}\nslice=1,:,:\ndims=2,1\nwindows=10,12,3,6"));
    assert_eq!(
        page.values(),
        [at(1, 3, 10), at(1, 4, 10), at(1, 5, 10), at(1, 3, 11), at(1, 4, 11), at(1, 5, 11)]
    );
}

#[test]
fn few_blocks_make_a_coarse_picture() {
    let mut page = TestPage::with(array());
    page.open();
    let output =
        page.json("look\nhandle=1\ndecoded=40000\nmost=1000,1000\nslice=0,:,:\ndims=1,2\nwindows=0,30,0,40");
    assert!(output.contains(r#""every":3"#), "{output}");
    assert_eq!(page.values().len(), 30 * 40);
}

#[test]
fn super_chunks_are_lines() {
    let compression = Compression::new().itemsize(4).build().unwrap();
    let mut writer = FrameWriter::memory(FrameParams::from_cparams(&compression)).unwrap();
    let items: Vec<u32> = (0..200_000).collect();
    for part in items.chunks(50_000) {
        let bytes: Vec<u8> = part.iter().flat_map(|item| item.to_le_bytes()).collect();
        writer.append(Chunk::compress_bytes(&bytes, &compression).unwrap()).unwrap();
    }
    let mut page = TestPage::with(writer.finish().unwrap().into_bytes());
    let output = page.open();
    assert!(output.contains(r#""kind":"frame","shape":[200000],"chunks":[50000]"#), "{output}");
    let output = page.json("look\nhandle=1\ndecoded=8388608\nmost=1,500\nslice=\ndims=0\nwindows=0,200000");
    assert_eq!(output, r#"{"height":1,"width":200000,"steps":[1,1],"every":1}"#);
    let expected: Vec<f64> = items.iter().map(|item| f64::from(*item)).collect();
    assert_eq!(page.values(), expected);
}

#[test]
fn the_length_is_that_of_the_header() {
    let items: Vec<u64> = (0..100_000_u64).map(|k| k.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
    let bytes = ArrayBuilder::new::<u64>([100_000]).to_bytes(&items[..]).unwrap();
    let mut page = TestPage { tells_length: false, ..TestPage::with(bytes) };
    page.open();
    assert_eq!(page.lengths, 0, "nobody asked");
    assert_eq!(page.requests.len(), 2, "both ends: {:?}", page.requests);
    page.json(&format!("{LOOK_COMMAND}\nslice=:\ndims=0\nwindows=99990,100000"));
    let expected: Vec<f64> = items[99_990..].iter().map(|item| *item as f64).collect();
    assert_eq!(page.values(), expected);
}

#[test]
fn stores_are_opened() {
    let folder = tempfile::tempdir().unwrap();
    for (layout, name) in [(StoreLayout::Archive, "s.b2z"), (StoreLayout::Frame, "s.b2e")] {
        let path = folder.path().join(name);
        let mut writer = StoreWriter::create(&path, layout, true).unwrap();
        writer.put("/group/a", &SuperChunk::from_bytes(array()).unwrap()).unwrap();
        let line: Vec<i16> = (0..50).collect();
        let line = ArrayBuilder::new::<i16>([50]).to_bytes(&line[..]).unwrap();
        writer.put("/b", &SuperChunk::from_bytes(line).unwrap()).unwrap();
        writer.finish().unwrap();
        let mut page = TestPage { tells_length: false, ..TestPage::with(std::fs::read(&path).unwrap()) };
        let output = page.open();
        assert!(output.contains(r#""kind":"store""#) && output.contains(r#""key":"/group/a""#), "{output}");
        let output = page.json("member\nhandle=1\nmember=1");
        assert!(output.contains(r#""shape":[4,30,40]"#), "{output}");
        page.json("look\nhandle=2\ndecoded=1000000\nmost=100,100\nslice=0,0,:\ndims=2\nwindows=0,40");
        assert!(page.call("member\nhandle=1\nmember=2").is_err());
        assert!(page.call("look\nhandle=1\ndecoded=1\nmost=1,1\nslice=\ndims=0\nwindows=0,1").is_err());
    }
}

#[test]
fn sparse_frames_are_read_file_by_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("sparse");
    let items: Vec<f32> = (0..4 * 30 * 40).map(|k| k as f32 / 2.0).collect();
    ArrayBuilder::new::<f32>([4, 30, 40])
        .chunks([2, 30, 20])
        .blocks([1, 10, 10])
        .write_options(FrameWriter::options().storage(Storage::Sparse))
        .write(&path, &items[..])
        .unwrap();
    let mut page = TestPage::with(std::fs::read(path.join("chunks.b2frame")).unwrap());
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if let Some(id) = name.strip_suffix(".chunk") {
            let id = u32::from_str_radix(id, 16).unwrap();
            page.chunks.insert(id, std::fs::read(entry.path()).unwrap().into());
        }
    }
    assert_eq!(page.chunks.len(), 4);
    page.open();
    page.json(&format!("{LOOK_COMMAND}\nslice=2\ndims=1,2\nwindows=0,30,0,40"));
    let expected: Vec<f64> = items[2400..3600].iter().map(|x| f64::from(*x)).collect();
    assert_eq!(page.values(), expected);
    // Cut files are errors.
    for bytes in page.chunks.values_mut() {
        *bytes = bytes.slice(..bytes.len() / 2);
    }
    assert!(page.call(&format!("{LOOK_COMMAND}\nslice=1\ndims=1,2\nwindows=0,30,0,40")).is_err());
}

#[test]
fn npy_files_come_in_parts() {
    let mut page = TestPage::with(array());
    page.open();
    let part = page.call("npy\nhandle=1\nslice=1,::-3,2:6\npart=0").unwrap();
    assert_eq!(part.json["more"], false);
    let text = String::from_utf8_lossy(&part.bytes[..128]).into_owned();
    assert!(text.contains("'<f4'") && text.contains("(10, 4)"), "{text}");
    let expected =
        NdArray::from_bytes(array()).unwrap().slice([1..2, 0..30, 2..6]).unwrap().read::<Vec<f32>>().unwrap();
    let rows: Vec<&[f32]> = expected.chunks(4).rev().step_by(3).collect();
    let bytes: Vec<u8> = rows.concat().iter().flat_map(|x| x.to_le_bytes()).collect();
    assert_eq!(part.bytes[128..], bytes);
    let items: Vec<f64> = (0..3_000_000).map(f64::from).collect();
    let mut page = TestPage::with(ArrayBuilder::new::<f64>([3_000_000]).to_bytes(&items[..]).unwrap());
    page.open();
    let (mut all, mut part) = (Vec::new(), 0);
    loop {
        let answer = page.call(&format!("npy\nhandle=1\nslice=\npart={part}")).unwrap();
        all.extend(answer.bytes);
        part += 1;
        if answer.json["more"] == false {
            break;
        }
    }
    assert_eq!((part, all.len()), (3, 128 + 24_000_000));
    assert!(all.ends_with(&2_999_999_f64.to_le_bytes()));
}

#[test]
fn fields_of_records_are_drawn() {
    let dtype = Dtype::parse("[('name', '<U2'), ('speed', '<f8')]").unwrap();
    let item = |k: u8| [vec![b'a', 0, 0, 0, 0, 0, 0, 0], f64::from(k).to_le_bytes().to_vec()].concat();
    let items: Vec<u8> = (0..60).flat_map(item).collect();
    let mut page = TestPage::with(ArrayBuilder::of_dtype([6, 10], dtype).to_bytes(&items[..]).unwrap());
    let output = page.open();
    assert!(output.contains(r#"{"name":"speed","dtype":"<f8","drawn":true}"#), "{output}");
    let look = format!("{LOOK_COMMAND}\nslice=\ndims=0,1\nwindows=0,6,0,10");
    assert!(page.call(&look).unwrap_err().contains("choose a field"));
    assert!(page.call(&format!("{look}\nfield=0")).unwrap_err().contains("cannot be drawn"));
    page.json(&format!("{look}\nfield=1"));
    assert_eq!(page.values(), (0..60).map(f64::from).collect::<Vec<_>>());
    assert!(page.json("cell\nhandle=1\nrow=1\ncolumn=2").contains(r#""value":"('a', 12.0)""#));
}

/// A short text, or a list of some, in MessagePack.
fn packed(text: &str) -> Vec<u8> {
    [&[0xa0 | text.len() as u8], text.as_bytes()].concat()
}

#[test]
fn coordinates_are_along_the_axes_and_beside_items() {
    let names = [vec![0x93], packed("time"), packed("lat"), packed("x")].concat();
    let items: Vec<f32> = (0..4 * 30 * 40).map(|k| k as f32).collect();
    let array = ArrayBuilder::new::<f32>([4, 30, 40]).vlmetalayer("_ARRAY_DIMENSIONS", names);
    let mut page = TestPage::with(array.to_bytes(&items[..]).unwrap());
    let lat: Vec<f64> = (0..30).map(|k| 80.0 - 5.0 * f64::from(k)).collect();
    let lat = ArrayBuilder::new::<f64>([30]).vlmetalayer("units", packed("degrees")).to_bytes(&lat[..]);
    page.files.insert(2, lat.unwrap());
    let days: Vec<u8> = (18262..18266_i64).flat_map(i64::to_le_bytes).collect();
    let time = ArrayBuilder::of_dtype([4], Dtype::parse("<M8[D]").unwrap()).to_bytes(&days[..]);
    page.files.insert(3, time.unwrap());
    page.open();
    page.json("open\nfile=2\nname=lat");
    page.json("open\nfile=3\nname=time");
    page.json(&format!("{LOOK_COMMAND}\nslice=2,:,::-2\ndims=1,2\nwindows=0,30,0,10"));
    let edges = |page: &mut TestPage| page.json("edges\nhandle=1\nmost=4,3");
    let counted = edges(&mut page);
    assert!(
        counted.starts_with(r#"{"edges":[{"title":"lat","marks":[[0.016666666666666666,"0"],"#),
        "{counted}"
    );
    // The window has items 39, 37, ... 21.
    assert!(
        counted.ends_with(r#"{"title":"x","marks":[[1.0,"20"],[0.5,"30"]]}]}"#)
            || counted.contains(r#""30"]"#),
        "{counted}"
    );
    for (of, dim) in [(2, 1), (3, 0)] {
        page.json(&format!("points\nhandle=1\nof={of}\ndim={dim}"));
        page.json(&format!("close\nhandle={of}"));
    }
    let edges = edges(&mut page);
    assert!(edges.starts_with(r#"{"edges":[{"title":"lat, degrees","marks":[["#), "{edges}");
    // 0 degrees are at item 16.
    assert!(edges.contains(r#"[0.55,"0"]"#) && edges.contains(r#""-50"]"#), "{edges}");
    let cell = page.json("cell\nhandle=1\nrow=3\ncolumn=1");
    assert!(cell.starts_with(r#"{"position":[2,3,37],"points":["2020-01-03","65.0 degrees",""],"#), "{cell}");
    // One dimension.
    page.json(&format!("{LOOK_COMMAND}\nslice=2,:,0\ndims=1\nwindows=0,30"));
    assert_eq!(page.json("edges\nhandle=1\nmost=4").matches("title").count(), 1);
    // Mismatched coordinates are refused, and all are forgotten with the file.
    for wrong in ["of=1\ndim=1", "of=9\ndim=1", "of=1\ndim=3", "of=1"] {
        assert!(page.call(&format!("points\nhandle=1\n{wrong}")).is_err(), "{wrong}");
    }
    page.json("close\nhandle=1");
    assert!(page.call("edges\nhandle=1\nmost=4").is_err());
}

#[test]
fn wrong_commands_are_errors() {
    let mut page = TestPage::with(array());
    page.open();
    for command in [
        "",
        "nothing",
        "open",
        "open\nfile=x",
        "look\nhandle=7",
        "paint\nhandle=1\nmap=viridis",
        "cell\nhandle=1\nrow=0\ncolumn=0",
        "axes\nhandle=1\nslice=9",
        "axes\nhandle=1\nslice=a",
        "member\nhandle=1\nmember=0",
        "npy\nhandle=1\nslice=:,:,:,:\npart=0",
        &format!("{LOOK_COMMAND}\nslice=:,:,:\ndims=1,2\nwindows=0,30,0,41"),
        &format!("{LOOK_COMMAND}\nslice=:,:,:\ndims=1,1\nwindows=0,30,0,40"),
        &format!("{LOOK_COMMAND}\nslice=:,:,:\ndims=5\nwindows=0,1"),
        &format!("{LOOK_COMMAND}\nslice=:,:,:\ndims=\nwindows="),
        &format!("{LOOK_COMMAND}\nslice=0:0\ndims=1,2\nwindows=0,30,0,40"),
    ] {
        let error = page.call(command).unwrap_err();
        assert!(!error.is_empty(), "{command}");
        assert!(!error.contains("--"), "{command}: {error}");
    }
}

#[test]
fn what_is_no_blosc2_file_is_told() {
    let run = |bytes: &[u8]| TestPage::with(bytes.to_vec()).call("open\nfile=1\nname=x").unwrap_err();
    assert!(run(b"").contains("empty"));
    assert!(run(b"hello").contains("not a Blosc2 file"));
    assert!(run(b"<!doctype html>").contains("web page"));
    assert!(run(b"\x89HDF\r\n\x1a\n").contains("HDF5"));
    assert!(run(b"\x93NUMPY").contains(".npy"));
    assert!(run(b"\x93NUMPY").contains("b2kit pack"));
    assert!(run(b"CDF\x01").contains("b2kit convert"));
    assert!(run(b"\x89PNG\r\n\x1a\n").contains("PNG image"));
    assert!(run(b"\x1f\x8b\x08").contains("gzip"));
    assert!(run(b"PK\x05\x06").contains("zip"));
    // An archive with one empty file.
    let zip = |name: &str| {
        let len = [name.len() as u8, 0];
        let file = [&b"PK\x03\x04"[..], &[0; 22], &len, &[0; 2], name.as_bytes()].concat();
        let entry = [&b"PK\x01\x02"[..], &[0; 24], &len, &[0; 16], name.as_bytes()].concat();
        let (entries, start) = (entry.len() as u8, file.len() as u8);
        let end =
            [&b"PK\x05\x06"[..], &[0, 0, 0, 0, 1, 0, 1, 0, entries, 0, 0, 0, start, 0, 0, 0, 0, 0]].concat();
        [file, entry, end].concat()
    };
    assert!(run(&zip("temperature.npy")).contains("npz"));
    assert!(run(&zip("x/zarr.json")).contains("Zarr"));
}

#[test]
fn cut_and_damaged_files_are_errors_and_end() {
    let good = array();
    let mut rng = Rng::new(7);
    let mut refused = 0;
    for case in 0..2000 {
        let mut bytes = good.clone();
        match case % 3 {
            0 => bytes.truncate(rng.below(good.len())),
            1 => (0..=rng.below(4)).for_each(|_| overwrite(&mut bytes[..300], 8, &mut rng)),
            _ => (0..=rng.below(40)).for_each(|_| overwrite(&mut bytes, 64, &mut rng)),
        }
        let mut page = TestPage { tells_length: case % 2 == 0, ..TestPage::with(bytes) };
        let opened = page.call("open\nfile=1\nname=x");
        let looked = opened
            .and_then(|_| page.call(&format!("{LOOK_COMMAND}\nslice=2\ndims=1,2\nwindows=0,30,0,40")))
            .and_then(|_| page.call("chunks\nhandle=1"));
        refused += usize::from(looked.is_err());
    }
    assert!(refused > 1000, "{refused}");
}

#[test]
fn cancelled_tasks_take_their_requests_back() {
    let mut page = TestPage::with(array());
    page.engine.call(1, "open\nfile=1\nname=x");
    page.engine.poll();
    let Some(HostRequest::Read { request, .. }) = page.engine.ask() else { panic!("nothing is asked") };
    page.engine.cancel(1);
    page.engine.poll();
    assert_eq!(page.engine.ask(), Some(HostRequest::Forget { request }));
    page.engine.host().answer(request, Ok(HostResponse::default()));
    page.engine.poll();
    assert!(page.engine.done().is_none());
}
