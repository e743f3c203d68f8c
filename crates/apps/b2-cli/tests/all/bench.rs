//! `b2kit bench`

use serde_json::Value;

use crate::common::{Folder, counting, noise, npy};

const OPS: &str = "compress,decompress,getitem,getitem-block";

/// Runs with machine-readable output and one quick repetition, and returns the lines.
fn measure(folder: &Folder, args: &[&str]) -> Vec<Value> {
    let mut all = vec!["bench", "--repeat", "2", "--calls", "40", "--op", OPS];
    all.extend(args);
    let text = folder.ok_text(&all);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn machine_lines_hold_what_the_contract_says() {
    let folder = Folder::new();
    folder.write("raw.bin", &counting(100_001));
    for threads in ["1", "2", "3"] {
        let lines = measure(
            &folder,
            &[
                "--input",
                "raw.bin",
                "--typesize",
                "4",
                "--codec",
                "lz4",
                "--chunk",
                "65538",
                "--threads",
                threads,
            ],
        );
        let ops: Vec<&str> = lines.iter().map(|line| line["op"].as_str().unwrap()).collect();
        assert_eq!(ops.join(","), OPS);
        for line in &lines {
            assert_eq!(line["impl"], "b2kit");
            assert_eq!(line["version"], env!("CARGO_PKG_VERSION"));
            assert_eq!(line["input"], "raw.bin");
            assert_eq!(line["codec"], "lz4");
            assert_eq!(line["clevel"], 5);
            assert_eq!(line["filter"], "shuffle");
            assert_eq!(line["typesize"], 4);
            assert_eq!(line["threads"].to_string(), threads);
            assert_eq!(line["chunk"], 65536, "whole items");
            assert_eq!(line["nbytes"], 400_004);
            assert!(line["cbytes"].as_u64().unwrap() < 100_000);
            assert_eq!(line["seconds"].as_array().unwrap().len(), 2);
            assert_eq!(line["repeat"], 2);
            let number = |key: &str| line[key].as_f64().unwrap();
            assert!(0.0 < number("min_s") && number("min_s") <= number("median_s"));
            assert!(number("cpu_min_s") > 0.0);
        }
        assert_eq!(lines[0]["calls"], 7, "one for each chunk");
        assert_eq!(lines[1]["bytes_per_rep"], 400_004);
        assert_eq!(lines[2]["calls"], 40);
        assert_eq!(lines[2]["bytes_per_rep"], 160);
        assert_eq!(lines[3]["calls"], 2);
    }
}

#[test]
fn all_filters_and_codecs_round_trip() {
    let folder = Folder::new();
    let mut mixed = counting(20_000);
    mixed.extend(noise(30_001));
    mixed.extend([0; 70_000]);
    folder.write("raw.bin", &mixed);
    for filter in ["nofilter", "shuffle", "bitshuffle", "delta+shuffle", "truncprec+shuffle"] {
        for codec in ["blosclz", "lz4", "lz4hc", "zlib", "zstd"] {
            for (typesize, dest) in [("4", "stream"), ("8", "reuse")] {
                let lines = measure(
                    &folder,
                    &[
                        "--input",
                        "raw.bin",
                        "--typesize",
                        typesize,
                        "--codec",
                        codec,
                        "--filter",
                        filter,
                        "--chunk",
                        "40K",
                        "--blocksize",
                        "8K",
                        "--nitems",
                        "5",
                        "--dest",
                        dest,
                        "--json",
                    ],
                );
                assert!(lines.iter().all(|line| line.get("error").is_none()), "{lines:?}");
                assert_eq!(lines[0]["blocksize"], 8192);
            }
        }
    }
}

#[test]
fn the_budget_ends_repeating() {
    let folder = Folder::new();
    folder.write("raw.bin", &noise(500_000));
    let text = folder.ok_text(&[
        "bench",
        "--input",
        "raw.bin",
        "--repeat",
        "1000000",
        "--budget",
        "0.01",
        "--calls",
        "100000000",
        "--op",
        OPS,
        "--limit",
        "400K",
    ]);
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert_eq!(line["nbytes"], 400 << 10);
        assert!(line["repeat"].as_u64().unwrap() < 1_000_000);
    }
}

#[test]
fn bad_requests_are_told() {
    let folder = Folder::new();
    folder.write("raw.bin", &[1, 2, 3]);
    folder.write("empty", &[]);
    folder.refuses(
        &["bench", "--input", "raw.bin", "--typesize", "4"],
        "raw.bin: the file has no data to measure",
    );
    folder.refuses(&["bench", "--input", "empty"], "empty: the file has no data to measure");
    folder.refuses(
        &["bench", "--input", "raw.bin", "--typesize", "3", "--chunk", "2"],
        "--chunk: 2 bytes, expected 3 to 2147483615",
    );
    let message = folder.fails(1, &["bench", "--input", "absent"]);
    assert!(message.starts_with("b2kit: absent: "), "{message}");
    folder.fails(2, &["bench", "--input", "raw.bin", "--op", "memcpy"]);
    folder.fails(2, &["bench", "--input", "raw.bin", "--codec", "snappy"]);
    folder.fails(2, &["bench", "--input", "raw.bin", "--repeat", "0"]);
}

const FEW: [&str; 4] = ["--codecs", "lz4,zstd", "--clevels", "1,5"];

#[test]
fn the_table_covers_all_choices_and_names_commands_that_work() {
    let folder = Folder::new();
    let items: Vec<u8> = (0..60_000).flat_map(|i| ((i % 250) as f32).to_le_bytes()).collect();
    folder.write("a b.npy", &npy("<f4", false, "(30, 40, 50)", &items));
    let mut args = vec!["bench", "a b.npy"];
    args.extend(FEW);
    let text = folder.ok_text(&args);
    assert!(text.starts_with("a b.npy: 234 KiB, shape 30, 40, 50, items of 4 bytes; "), "{text}");
    for codec in ["lz4 ", "zstd"] {
        for level in [1, 5] {
            for filters in ["none", "shuffle", "bitshuffle"] {
                let row = |line: &&str| {
                    let words: Vec<&str> = line.trim_start_matches(['*', ' ']).split_whitespace().collect();
                    words.get(..3) == Some(&[codec.trim(), &level.to_string(), filters][..])
                };
                assert_eq!(text.lines().filter(row).count(), 1, "{codec} {level} {filters}: {text}");
            }
        }
    }
    assert!(text.lines().any(|line| line.starts_with("* ")), "somebody is on the front: {text}");
    for name in ["balance", "smallest", "fastest"] {
        let line = text.lines().find(|line| line.starts_with(name)).unwrap();
        let command = line[name.len()..].trim();
        assert!(command.starts_with("b2kit pack 'a b.npy' OUT --codec "), "{command}");
        let options: Vec<&str> = command.split(" OUT ").nth(1).unwrap().split(' ').collect();
        let mut pack = vec!["pack", "--force", "a b.npy", "out.b2nd"];
        pack.extend(options);
        folder.ok(&pack);
        assert_eq!(folder.ok(&["cat", "out.b2nd"]), items);
    }
}

#[test]
fn json_tells_the_same_of_all_kinds_of_files() {
    let folder = Folder::new();
    let items = counting(50_000);
    folder.write("raw.bin", &items);
    folder.write("f.npy", &npy("<i4", true, "(100, 500)", &items));
    folder.pack("s.b2frame", &items, &["--typesize", "4", "--chunksize", "40000"]);
    folder.pack("a.b2nd", &npy("<i4", false, "(500, 100)", &items), &[]);
    let mut args =
        vec!["bench", "--json", "--limit", "80K", "--threads", "2", "--codecs", "lz4", "--clevels", "1"];
    args.extend(["--filters", "shuffle", "--filters", "delta,shuffle", "--filters", "bitshuffle"]);
    args.extend(["raw.bin", "f.npy", "s.b2frame", "a.b2nd"]);
    let text = folder.ok_text(&args);
    let objects: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shapes = ["[200000]", "[100,500]", "[50000]", "[500,100]"];
    let measured = ["[81920]", "[40,500]", "[20480]", "[204,100]"];
    let commands = ["pack raw.bin OUT", "pack f.npy OUT", "copy s.b2frame OUT", "copy a.b2nd OUT"];
    assert_eq!(objects.len(), 4);
    for (((object, shape), measured), command) in objects.iter().zip(shapes).zip(measured).zip(commands) {
        assert_eq!(object["nbytes"], 200_000);
        assert_eq!(object["shape"].to_string(), shape);
        assert_eq!(object["measured_shape"].to_string(), measured);
        assert_eq!(object["threads"], 2);
        let results = object["results"].as_array().unwrap();
        let names: Vec<&str> = results.iter().map(|result| result["filters"].as_str().unwrap()).collect();
        assert_eq!(names, ["shuffle", "delta,shuffle", "bitshuffle"]);
        for result in results {
            for key in ["ratio", "compress_s", "decompress_s", "item_s", "slice_s"] {
                assert!(result[key].as_f64().unwrap() > 0.0, "{key}");
            }
        }
        for best in ["balance", "smallest", "fastest"] {
            let said = object[best]["command"].as_str().unwrap();
            assert!(
                said.starts_with(&format!("b2kit {command} --codec lz4 --clevel 1 --filters ")),
                "{said}"
            );
        }
    }
}

#[test]
fn raw_items_have_the_size_that_was_given() {
    let folder = Folder::new();
    folder.write("raw.bin", &noise(10_003));
    let mut args =
        vec!["bench", "raw.bin", "--typesize", "8", "--filters", "trunc_prec:10,shuffle", "--quiet"];
    args.extend(FEW);
    let text = folder.ok_text(&args);
    assert!(text.starts_with("raw.bin: "), "{text}");
    assert!(text.contains("shape 1250, items of 8 bytes"), "{text}");
    assert!(text.contains("b2kit pack raw.bin OUT --typesize 8 --codec "), "{text}");
}

#[test]
fn the_two_forms_do_not_mix() {
    let folder = Folder::new();
    folder.write("raw.bin", &noise(100));
    folder.write("empty.npy", &npy("<i4", false, "(0, 3)", &[]));
    folder.fails(2, &["bench"]);
    folder.fails(2, &["bench", "raw.bin", "--input", "raw.bin"]);
    folder.fails(2, &["bench", "raw.bin", "--op", "compress"]);
    folder.fails(2, &["bench", "raw.bin", "--codecs", "auto"]);
    folder.fails(2, &["bench", "--input", "raw.bin", "--codecs", "lz4"]);
    folder.refuses(&["bench", "empty.npy"], "empty.npy: the file has no data to measure");
    let message = folder.fails(1, &["bench", "absent"]);
    assert!(message.starts_with("b2kit: absent: "), "{message}");
}

/// Returns the ratio and the command of each line of `bench --quick`.
fn quick_lines(text: &str) -> Vec<(f64, String)> {
    let lines = text.lines().filter(|line| line.contains("x ") && line.contains("MB/s"));
    let parts = |line: &str| {
        let (ratio, rest) = line.trim().split_once('x').unwrap();
        (ratio.parse().unwrap(), rest[rest.find("b2kit ").unwrap()..].to_owned())
    };
    lines.map(parts).collect()
}

#[test]
fn quick_is_five_lines_with_the_best_ratio_first() {
    let folder = Folder::new();
    // A wave with some noise, like measured data. With repeated runs, only the block size would matter.
    let wave = |(i, noise): (usize, &u8)| ((i % 250) as f32 * 0.5 + f32::from(*noise) / 64.0).to_le_bytes();
    let items: Vec<u8> = noise(60_000).iter().enumerate().flat_map(wave).collect();
    folder.write("a.npy", &npy("<f4", false, "(300, 200)", &items));
    folder.write("raw.bin", &items);
    folder.pack("a.b2nd", &npy("<f4", false, "(300, 200)", &items), &[]);
    for (name, command) in [("a.npy", "pack"), ("raw.bin", "pack"), ("a.b2nd", "copy")] {
        let text = folder.ok_text(&["bench", "--quick", name]);
        let lines = quick_lines(&text);
        assert_eq!(lines.len(), 5, "{text}");
        assert!(lines.is_sorted_by(|a, b| a.0 >= b.0), "{text}");
        assert!(!text.contains("too small"), "{text}");
        // The suggested command works, and gives about this ratio.
        let (ratio, best) = &lines[0];
        let options = best.strip_prefix(&format!("b2kit {command} {name} OUT ")).unwrap();
        let out = format!("{name}.out");
        let args: Vec<&str> = ["-q", command, name, &out].into_iter().chain(options.split(' ')).collect();
        folder.ok(&args);
        assert_eq!(folder.ok(&["cat", &out]), items);
        let size = folder.read(&out).len() as f64;
        assert!((items.len() as f64 / size / ratio - 1.0).abs() < 0.2, "{ratio} {size}");
    }
    let object: Value = serde_json::from_slice(&folder.ok(&["bench", "--quick", "a.npy", "--json"])).unwrap();
    assert_eq!(object["results"].as_array().unwrap().len(), 5);
    assert_eq!(object["too_small"], false);
    // Several files, one of which does not exist.
    let output = folder.run(&["bench", "--quick", "a.npy", "none", "raw.bin"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(quick_lines(&String::from_utf8(output.stdout).unwrap()).len(), 10);
    folder.fails(2, &["bench", "--quick", "a.npy", "--codecs", "lz4"]);
}

#[test]
fn quick_calls_tiny_files_too_small_and_takes_a_part_of_large_ones() {
    let folder = Folder::new();
    folder.write("tiny.npy", &npy("<i4", false, "(25,)", &counting(25)));
    assert!(folder.ok_text(&["bench", "--quick", "tiny.npy"]).contains("too small"));
    folder.write("large", &noise(5 << 20));
    let text = folder.ok_text(&["bench", "--quick", "large"]);
    assert!(text.contains("5.00 MiB") && text.contains("measured on 4.00 MiB from the middle"), "{text}");
}
