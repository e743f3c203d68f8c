//! Attributes: vlmetalayers that each hold one msgpack value, as python-blosc2 writes them.

use b2_core::Limits;
use rmpv::Value;

use crate::NdError;

/// Deepest nesting of a value.
const MAX_DEPTH: usize = 128;

/// Converts the value of the attribute `name` to a type of the caller.
#[cfg(feature = "serde")]
pub(crate) fn from_value<T: serde::de::DeserializeOwned>(name: &[u8], value: Value) -> Result<T, NdError> {
    rmpv::ext::from_value(value).map_err(|error| unfit(name, &error))
}

/// Converts a value of the caller to the value of the attribute `name`.
#[cfg(feature = "serde")]
pub(crate) fn to_value<T: serde::Serialize + ?Sized>(name: &[u8], value: &T) -> Result<Value, NdError> {
    rmpv::ext::to_value(value).map_err(|error| unfit(name, &error))
}

#[cfg(feature = "serde")]
fn unfit(name: &[u8], error: &rmpv::ext::Error) -> NdError {
    NdError::argument(format!("attribute {:?}: {error}", String::from_utf8_lossy(name)))
}

/// Decodes the value of the attribute `name`.
pub(crate) fn decode(name: &[u8], bytes: &[u8], limits: &Limits) -> Result<Value, NdError> {
    let fail = |what: &str| NdError::Attribute {
        name: String::from_utf8_lossy(name).into_owned(),
        what: what.to_owned(),
    };
    let nvalues = count(bytes).ok_or_else(|| fail("the value is truncated or not valid msgpack"))?;
    // The decoder's vectors may have a capacity of twice their length.
    let asked = nvalues
        .saturating_mul(2)
        .saturating_mul(size_of::<Value>() as u64)
        .saturating_add(bytes.len() as u64);
    limits.check_memory("attribute, in bytes", asked)?;
    let mut rest = bytes;
    let value = rmpv::decode::read_value_with_max_depth(&mut rest, MAX_DEPTH)
        .map_err(|error| fail(&error.to_string()))?;
    if !rest.is_empty() {
        return Err(fail("extra bytes follow the value"));
    }
    Ok(value)
}

/// Encodes a value as msgpack.
pub(crate) fn encode(value: &Value) -> Vec<u8> {
    let mut bytes = Vec::new();
    // Writing to a vector cannot fail.
    let _ = rmpv::encode::write_value(&mut bytes, value);
    bytes
}

/// Counts the values at all depths. Returns `None` if the bytes are truncated or contain the unused
/// marker C1.
fn count(mut bytes: &[u8]) -> Option<u64> {
    let mut nvalues = 0u64;
    while let Some((&marker, rest)) = bytes.split_first() {
        nvalues = nvalues.saturating_add(1);
        // The width of the length field after the marker, and the number of payload bytes that do
        // not depend on it.
        let (len_width, fixed): (usize, usize) = match marker {
            // Fixint, fixmap, fixarray, nil, false and true: containers are counted by their
            // members.
            0x00..=0x9F | 0xC0 | 0xC2 | 0xC3 | 0xE0..=0xFF => (0, 0),
            0xA0..=0xBF => (0, usize::from(marker & 0x1F)),
            0xC1 => return None,
            0xC4 | 0xD9 => (1, 0),
            0xC5 | 0xDA => (2, 0),
            0xC6 | 0xDB => (4, 0),
            0xC7 => (1, 1),
            0xC8 => (2, 1),
            0xC9 => (4, 1),
            0xCC | 0xD0 => (0, 1),
            0xCD | 0xD1 | 0xD4 | 0xDC | 0xDE => (0, 2),
            0xD5 => (0, 3),
            0xCA | 0xCE | 0xD2 | 0xDD | 0xDF => (0, 4),
            0xD6 => (0, 5),
            0xCB | 0xCF | 0xD3 => (0, 8),
            0xD7 => (0, 9),
            0xD8 => (0, 17),
        };
        let (len, rest) = rest.split_at_checked(len_width)?;
        let len = len.iter().fold(0usize, |n, &byte| n << 8 | usize::from(byte));
        bytes = rest.get(len.checked_add(fixed)?..)?;
    }
    Some(nvalues)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back() {
        let value = Value::Map(vec![
            ("units".into(), "K".into()),
            ("scale".into(), 0.5.into()),
            ("range".into(), Value::Array(vec![(-300).into(), u64::MAX.into(), Value::Nil, true.into()])),
            ("raw".into(), Value::Binary(vec![7; 300])),
            ("time".into(), Value::Ext(5, vec![1; 16])),
            ("long".into(), "x".repeat(70_000).into()),
        ]);
        let bytes = encode(&value);
        assert_eq!(count(&bytes), Some(17));
        assert_eq!(decode(b"a", &bytes, &Limits::default()).unwrap(), value);
        for len in 0..100 {
            assert!(decode(b"a", &bytes[..len], &Limits::default()).is_err());
        }
    }

    #[test]
    fn bad_values_are_errors() {
        let limits = Limits::default().max_memory(1000);
        let text = |bytes: &[u8]| decode(b"name", bytes, &limits).unwrap_err().to_string();
        assert!(text(&[]).contains("\"name\""));
        assert!(text(&[1, 2]).contains("extra bytes"));
        assert!(text(&[0xC1]).contains("not valid msgpack"));
        assert!(text(&[0xDD, 0xFF, 0xFF, 0xFF, 0xFF]).contains("\"name\""));
        assert!(text(&[0x91; 120]).contains("max_memory"));
        assert!(decode(b"a", &[0x91; 10_000], &Limits::default()).is_err());
    }
}
