//! `b2kit bench`

mod common;

use serde_json::Value;

use common::{Folder, counting, noise};

const OPS: &str = "compress,decompress,getitem,getitem-block";

/// Runs the machine form with one quick repeat; its lines.
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
        "raw.bin: there is nothing to measure on",
    );
    folder.refuses(&["bench", "--input", "empty"], "empty: there is nothing to measure on");
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
