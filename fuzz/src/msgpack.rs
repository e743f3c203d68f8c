//! Checks that the reader never reads outside its input, and that what it accepts equals what the writer writes.

use b2_msgpack::{Error, Reader, Writer};

use crate::dice::Params;

/// The first half of the input determines which item to expect next; the second half holds the items.
pub(crate) fn run(data: &[u8]) {
    let mut params = Params::new(data);
    let nops = params.up_to(64);
    let ops = params.bytes(nops);
    let items = params.rest();
    let mut r = Reader::new(items);
    let mut w = Writer::new();
    for op in ops {
        let before = r.position();
        let outcome = step(*op % 16, &mut r, &mut w);
        assert!(r.position() <= items.len() && r.position() >= before);
        match outcome {
            Ok(()) => assert_eq!(w.as_bytes(), &items[..r.position()], "written otherwise than read"),
            Err(error) => {
                assert_eq!(r.position(), before, "moved by {error}");
                let _ = error.to_string();
                // Skip the byte that does not parse, so that later items are reached.
                let Ok(byte) = r.byte() else { return };
                w.raw(&[byte]);
            }
        }
    }
    assert_eq!(r.rest(), &items[r.position()..]);
    assert!(Reader::at(items, usize::MAX).byte().is_err());
}

fn step(op: u8, r: &mut Reader<'_>, w: &mut Writer) -> Result<(), Error> {
    match op {
        0 => r.fixint().map(|v| w.fixint(v)),
        1 => r.fixarray().map(|v| w.fixarray(v)),
        2 => r.fixstr().map(|v| w.fixstr(v)),
        3 => r.bool().map(|v| w.bool(v)),
        4 => r.number::<i32>().map(|v| w.number(v)),
        5 => r.number::<i64>().map(|v| w.number(v)),
        6 => r.number::<u16>().map(|v| w.number(v)),
        7 => r.number::<u32>().map(|v| w.number(v)),
        8 => r.number::<u64>().map(|v| w.number(v)),
        9 => r.number::<i16>().map(|v| w.number(v)),
        10 => r.array16().map(|v| w.array16(v)),
        11 => r.map16().map(|v| w.map16(v)),
        12 => r.bin32().map(|v| w.bin32(v)),
        13 => r.str32().map(|v| w.str32(v)),
        14 => r.fixext16().map(|(kind, v)| w.fixext16(kind, v)),
        _ => r.raw(3).map(|v| w.raw(v)),
    }
}
