//! The encodings byte by byte, round trips, truncation, and a general msgpack parser as a second opinion.

use b2_msgpack::{Error, Item, Reader, Writer};
use proptest::prelude::*;

/// One item of the subset, as written and as read back.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    Fixint(u8),
    Fixarray(u8),
    Fixstr(Vec<u8>),
    Bool(bool),
    U16(u16),
    U32(u32),
    U64(u64),
    I16(i16),
    I32(i32),
    I64(i64),
    Array16(u16),
    Map16(u16),
    Bin32(Vec<u8>),
    Str32(Vec<u8>),
    Fixext16(u8, [u8; 16]),
}

fn write(w: &mut Writer, value: &Value) {
    match value {
        Value::Fixint(v) => w.fixint(*v),
        Value::Fixarray(v) => w.fixarray(*v),
        Value::Fixstr(v) => w.fixstr(v),
        Value::Bool(v) => w.bool(*v),
        Value::U16(v) => w.number(*v),
        Value::U32(v) => w.number(*v),
        Value::U64(v) => w.number(*v),
        Value::I16(v) => w.number(*v),
        Value::I32(v) => w.number(*v),
        Value::I64(v) => w.number(*v),
        Value::Array16(v) => w.array16(*v),
        Value::Map16(v) => w.map16(*v),
        Value::Bin32(v) => w.bin32(v),
        Value::Str32(v) => w.str32(v),
        Value::Fixext16(kind, v) => w.fixext16(*kind, v),
    }
}

/// Reads an item of the same kind as `like`.
fn read(r: &mut Reader<'_>, like: &Value) -> Result<Value, Error> {
    Ok(match like {
        Value::Fixint(_) => Value::Fixint(r.fixint()?),
        Value::Fixarray(_) => Value::Fixarray(r.fixarray()?),
        Value::Fixstr(_) => Value::Fixstr(r.fixstr()?.to_vec()),
        Value::Bool(_) => Value::Bool(r.bool()?),
        Value::U16(_) => Value::U16(r.number()?),
        Value::U32(_) => Value::U32(r.number()?),
        Value::U64(_) => Value::U64(r.number()?),
        Value::I16(_) => Value::I16(r.number()?),
        Value::I32(_) => Value::I32(r.number()?),
        Value::I64(_) => Value::I64(r.number()?),
        Value::Array16(_) => Value::Array16(r.array16()?),
        Value::Map16(_) => Value::Map16(r.map16()?),
        Value::Bin32(_) => Value::Bin32(r.bin32()?.to_vec()),
        Value::Str32(_) => Value::Str32(r.str32()?.to_vec()),
        Value::Fixext16(..) => r.fixext16().map(|(kind, v)| Value::Fixext16(kind, *v))?,
    })
}

fn check(value: Value, expected: &[u8]) {
    let mut w = Writer::new();
    write(&mut w, &value);
    assert_eq!(w.as_bytes(), expected, "{value:?}");
    let mut r = Reader::new(expected);
    assert_eq!(read(&mut r, &value).as_ref(), Ok(&value));
    assert!(r.is_empty());
}

#[test]
fn widths_are_fixed() {
    check(Value::Fixint(0), &[0]);
    check(Value::Fixint(127), &[0x7f]);
    check(Value::Fixarray(14), &[0x9e]);
    check(Value::Fixstr(b"b2frame\0".to_vec()), b"\xa8b2frame\0");
    check(Value::Fixstr(vec![0xff; 31]), &[&[0xbf][..], &[0xff; 31]].concat());
    check(Value::Bool(false), &[0xc2]);
    check(Value::Bool(true), &[0xc3]);
    check(Value::U16(7), &[0xcd, 0, 7]);
    check(Value::U32(35), &[0xce, 0, 0, 0, 35]);
    check(Value::U64(132), &[0xcf, 0, 0, 0, 0, 0, 0, 0, 132]);
    check(Value::I16(2), &[0xd1, 0, 2]);
    check(Value::I32(-1), &[0xd2, 0xff, 0xff, 0xff, 0xff]);
    check(Value::I64(1), &[0xd3, 0, 0, 0, 0, 0, 0, 0, 1]);
    check(Value::Array16(0), &[0xdc, 0, 0]);
    check(Value::Map16(0x102), &[0xde, 1, 2]);
    check(Value::Bin32(vec![9]), &[0xc6, 0, 0, 0, 1, 9]);
    check(Value::Str32(b"<f4".to_vec()), b"\xdb\0\0\0\x03<f4");
    check(Value::Fixext16(6, [0; 16]), &[&[0xd8, 6][..], &[0; 16]].concat());
}

#[test]
fn errors_say_where_and_what() {
    let mut r = Reader::new(&[0xd2, 0, 0, 0, 1, 0xcd, 0, 1]);
    assert_eq!(r.number::<i32>(), Ok(1));
    let error = r.number::<i32>().unwrap_err();
    assert!(matches!(error, Error::Marker { offset: 5, expected: Item::Int32, got: 0xcd, .. }), "{error:?}");
    assert_eq!(error.at(100).offset(), 105);
    // The reader did not move.
    assert_eq!(r.number::<u16>(), Ok(1));
    let error = r.bin32().unwrap_err();
    assert!(
        matches!(error, Error::Truncated { offset: 8, expected: Item::Bin32, need: 1, have: 0, .. }),
        "{error:?}"
    );
    // A length of 4 GiB is compared, not added up or allocated.
    let error = Reader::new(&[0xc6, 0xff, 0xff, 0xff, 0xff, 0]).bin32().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Truncated { offset: 0, expected: Item::Bin32, need: 0x1_0000_0004, have: 6, .. }
        ),
        "{error:?}"
    );
    assert_eq!(error.to_string(), "byte 0: bin32 needs 4294967300 bytes, only 6 left");
    assert_eq!(
        Reader::new(&[0xa1]).marker(0xa0).unwrap_err().to_string(),
        "byte 0: expected 0xa0, found 0xa1"
    );
    assert_eq!(Reader::new(&[0xa0]).marker(0xa0), Ok(()));
}

#[test]
fn a_position_outside_the_data_is_an_empty_reader() {
    let mut r = Reader::at(&[1, 2, 3], usize::MAX);
    assert!(r.is_empty());
    assert!(r.fixint().is_err());
    assert!(r.raw(usize::MAX).is_err());
    assert_eq!(Reader::at(&[1, 2, 3], 2).byte(), Ok(3));
}

#[test]
fn slots_are_patched_in_place() {
    let mut w = Writer::new();
    w.fixint(5);
    let slot = w.slot::<i64>();
    w.bool(true);
    assert_eq!(slot.offset(), 2);
    w.patch(slot, -2);
    let bytes = w.into_bytes();
    assert_eq!(bytes, [5, 0xd3, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xfe, 0xc3]);
}

#[test]
fn too_large_values_are_refused() {
    for write in
        [|w: &mut Writer| w.fixint(128), |w: &mut Writer| w.fixarray(16), |w: &mut Writer| w.fixstr(&[0; 32])]
    {
        assert!(std::panic::catch_unwind(|| write(&mut Writer::new())).is_err());
    }
}

fn values() -> impl Strategy<Value = Value> {
    let bytes = |max| prop::collection::vec(any::<u8>(), 0..=max);
    prop_oneof![
        (0..128u8).prop_map(Value::Fixint),
        (0..16u8).prop_map(Value::Fixarray),
        bytes(31).prop_map(Value::Fixstr),
        any::<bool>().prop_map(Value::Bool),
        any::<u16>().prop_map(Value::U16),
        any::<u32>().prop_map(Value::U32),
        any::<u64>().prop_map(Value::U64),
        any::<i16>().prop_map(Value::I16),
        any::<i32>().prop_map(Value::I32),
        any::<i64>().prop_map(Value::I64),
        any::<u16>().prop_map(Value::Array16),
        any::<u16>().prop_map(Value::Map16),
        bytes(300).prop_map(Value::Bin32),
        bytes(300).prop_map(Value::Str32),
        (any::<u8>(), any::<[u8; 16]>()).prop_map(|(kind, data)| Value::Fixext16(kind, data)),
    ]
}

/// What a general parser reads in one item; arrays and maps have their count checked by a padded copy.
fn oracle(value: &Value, bytes: &[u8]) -> Option<rmpv::Value> {
    let padding = match value {
        Value::Fixarray(n) => usize::from(*n),
        Value::Array16(n) => usize::from(*n),
        Value::Map16(n) => 2 * usize::from(*n),
        _ => 0,
    };
    let padded = [bytes, &vec![0; padding]].concat();
    let mut rest = padded.as_slice();
    let seen = rmpv::decode::read_value(&mut rest).ok()?;
    rest.is_empty().then_some(seen)
}

proptest! {
    #[test]
    fn what_is_written_is_read(values in prop::collection::vec(values(), 0..20)) {
        let mut w = Writer::new();
        for value in &values {
            write(&mut w, value);
        }
        let bytes = w.into_bytes();
        let mut r = Reader::new(&bytes);
        for value in &values {
            prop_assert_eq!(&read(&mut r, value).unwrap(), value);
        }
        prop_assert!(r.is_empty());
    }

    #[test]
    fn every_prefix_is_truncated(value in values()) {
        let mut w = Writer::new();
        write(&mut w, &value);
        let bytes = w.into_bytes();
        for cut in 0..bytes.len() {
            let mut r = Reader::new(&bytes[..cut]);
            match read(&mut r, &value) {
                Err(Error::Truncated { offset: 0, need, have, .. }) => {
                    prop_assert_eq!(have, cut);
                    prop_assert!(need > cut as u64 && need <= bytes.len() as u64);
                }
                other => prop_assert!(false, "{other:?} from {cut} of {} bytes", bytes.len()),
            }
            prop_assert_eq!(r.position(), 0);
        }
    }

    #[test]
    fn any_bytes_are_survived(bytes in prop::collection::vec(any::<u8>(), 0..40), like in values()) {
        let mut r = Reader::new(&bytes);
        if read(&mut r, &like).is_err() {
            prop_assert_eq!(r.position(), 0);
        } else {
            prop_assert!(r.position() <= bytes.len());
        }
    }

    #[test]
    fn a_general_parser_agrees(value in values()) {
        let mut w = Writer::new();
        write(&mut w, &value);
        let seen = oracle(&value, w.as_bytes()).expect("valid msgpack");
        let agrees = match &value {
            Value::Fixint(v) => seen.as_u64() == Some(u64::from(*v)),
            Value::Bool(v) => seen.as_bool() == Some(*v),
            Value::U16(v) => seen.as_u64() == Some(u64::from(*v)),
            Value::U32(v) => seen.as_u64() == Some(u64::from(*v)),
            Value::U64(v) => seen.as_u64() == Some(*v),
            Value::I16(v) => seen.as_i64() == Some(i64::from(*v)),
            Value::I32(v) => seen.as_i64() == Some(i64::from(*v)),
            Value::I64(v) => seen.as_i64() == Some(*v),
            Value::Fixarray(n) => seen.as_array().map(Vec::len) == Some(usize::from(*n)),
            Value::Array16(n) => seen.as_array().map(Vec::len) == Some(usize::from(*n)),
            Value::Map16(n) => seen.as_map().map(Vec::len) == Some(usize::from(*n)),
            Value::Bin32(v) => seen.as_slice() == Some(v),
            Value::Fixstr(v) | Value::Str32(v) => {
                matches!(&seen, rmpv::Value::String(s) if s.as_bytes() == v)
            }
            Value::Fixext16(kind, v) => {
                seen.as_ext() == Some((i8::from_be_bytes([*kind]), v.as_slice()))
            }
        };
        prop_assert!(agrees, "{value:?} seen as {seen:?}");
    }
}
