//! Metalayers and vlmetalayers.

use b2_frame::{FrameEditor, FrameParams, SuperChunk};

use super::{HOMES, Home, is_argument, options, params};
use crate::common::{compress, cparams, data};

#[test]
fn metalayers_change_in_place() {
    for home in HOMES {
        // The second one spans several sectors.
        let params = params(&cparams(4)).metalayer("small", b"before").metalayer("large", data(3000, 1));
        let mut home = Home::new(home, params);
        home.change(|editor| editor.append_bytes(&data(5000, 1)).unwrap());
        let committed = home.change(|editor| {
            editor.set_metalayer("small", b"after!").unwrap();
            editor.set_metalayer("large", &data(3000, 2)).unwrap();
            assert_eq!(editor.metalayers().get("small"), Some(&b"after!"[..]));
            is_argument(editor.set_metalayer("small", b"longer one"));
            is_argument(editor.set_metalayer("other", b""));
        });
        // Only the header and its redo record are written, no chunks, and index and trailer only in a sparse frame.
        assert!(committed.bytes_written < 10_000, "{committed:?}");
        let schunk = home.read();
        assert_eq!(schunk.metalayers().get("small"), Some(&b"after!"[..]));
        assert_eq!(schunk.metalayers().get("large"), Some(&data(3000, 2)[..]));
        assert_eq!(schunk.read_bytes(0..5000).unwrap(), data(5000, 1));
    }
}

#[test]
fn more_than_16_vlmetalayers_only_on_demand() {
    let mut editor = FrameEditor::memory(FrameParams::new(1)).unwrap();
    for i in 0..16 {
        editor.vlmeta().set(format!("v{i}"), b"value").unwrap();
    }
    is_argument(editor.vlmeta().set("one more", b""));
    editor.vlmeta().set("v3", b"changed").unwrap();
    is_argument(editor.vlmeta().set("", b""));
    is_argument(editor.vlmeta().set("n".repeat(32), b""));
    editor.commit().unwrap();
    let frame = editor.into_bytes().unwrap();
    let mut editor = options().many_vlmetalayers(true).edit_bytes(frame).unwrap();
    editor.vlmeta().set("one more", b"17").unwrap();
    assert_eq!(editor.vlmetalayers().iter().len(), 17);
    assert!(editor.vlmeta().remove("v0"));
    assert!(!editor.vlmeta().remove("v0"));
    editor.commit().unwrap();
    let schunk = SuperChunk::from_bytes(editor.into_bytes().unwrap()).unwrap();
    assert_eq!(schunk.vlmetalayers().get("v3").unwrap().unwrap(), b"changed");
    assert_eq!(schunk.vlmetalayers().get("one more").unwrap().unwrap(), b"17");
    assert_eq!(schunk.vlmetalayers().iter().len(), 16);
}

/// In an empty frame the trailer always follows the header.
#[test]
fn empty_frames_have_no_dead_space() {
    for home in HOMES {
        let mut home = Home::new(home, params(&cparams(4)));
        let check = |home: &Home, vlmetalayers| {
            let schunk = home.read();
            assert_eq!(schunk.layout().trailer.start, schunk.layout().header.end);
            assert_eq!((schunk.cbytes(), schunk.vlmetalayers().iter().len()), (0, vlmetalayers));
        };
        home.change(|editor| editor.vlmeta().set("v", &data(500, 1)).unwrap());
        check(&home, 1);
        home.change(|editor| editor.append(compress(&data(400, 1), &cparams(4))).map(drop).unwrap());
        assert_eq!((home.read().nchunks(), home.read().vlmetalayers().iter().len()), (1, 1));
        home.change(|editor| editor.delete(0).unwrap());
        check(&home, 1);
        home.change(|editor| assert!(editor.vlmeta().remove("v")));
        check(&home, 0);
    }
}
