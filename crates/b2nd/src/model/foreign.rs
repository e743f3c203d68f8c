//! Objects that python-blosc2 stores as empty arrays with a metalayer that describes the source of their items.

use b2_core::Limits;
use b2_frame::Metalayers;

use crate::NdError;
use crate::model::attrs::decode;

/// The names of such metalayers: for objects of all kinds, caches of other arrays, and both in the form of older
/// versions.
const MARKERS: [&str; 4] = ["b2o", "proxy-source", "proxy", "LazyArray"];

/// Fails if the items are not in the frame, because they would read as zeros.
///
/// # Errors
/// [`NdError::NoItems`].
pub(crate) fn check_items(metalayers: &Metalayers, limits: &Limits) -> Result<(), NdError> {
    let note = MARKERS.into_iter().find_map(|marker| Some((marker, metalayers.get(marker)?)));
    let Some((marker, note)) = note else { return Ok(()) };
    let what = match marker {
        "b2o" => match kind(note, limits).as_deref() {
            Some("lazyexpr") => "a lazy expression (LazyExpr)",
            Some("lazyudf") => "a lazy function (LazyUDF)",
            Some("c2array") => "a reference to an array on a server (C2Array)",
            Some("remote_array") => "a reference to an array elsewhere (RemoteArray)",
            _ => "an object of an unknown kind",
        },
        "LazyArray" => "a lazy array (LazyArray)",
        _ => "a cache of another array (Proxy)",
    };
    Err(NdError::NoItems { marker, what })
}

/// Returns the kind of object that the metalayer names.
fn kind(note: &[u8], limits: &Limits) -> Option<String> {
    let value = decode(b"b2o", note, limits).ok()?;
    let found = value.as_map()?.iter().find(|(key, _)| key.as_str() == Some("kind"))?;
    found.1.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use rmpv::Value;

    use super::*;
    use crate::{ArrayBuilder, NdArray, source};

    #[test]
    fn what_holds_no_items_is_refused_by_name() {
        let open = |name: &str, note: Vec<u8>| {
            let builder = ArrayBuilder::new::<u8>([3]).metalayer(name, note);
            NdArray::from_bytes(builder.to_bytes(source::zeros()).unwrap())
        };
        let note = |kind: &str| {
            let map = Value::Map(vec![("kind".into(), kind.into()), ("version".into(), 1.into())]);
            crate::model::attrs::encode(&map)
        };
        for (kind, named) in [
            ("lazyexpr", "LazyExpr"),
            ("lazyudf", "LazyUDF"),
            ("c2array", "C2Array"),
            ("remote_array", "RemoteArray"),
            ("new", "unknown"),
        ] {
            let error = open("b2o", note(kind)).unwrap_err();
            assert_eq!(error.kind(), b2_core::ErrorKind::Unsupported);
            assert!(error.to_string().contains(named), "{error}");
        }
        for bytes in [vec![], vec![0xC1], vec![0x91; 1000]] {
            assert!(matches!(open("b2o", bytes), Err(NdError::NoItems { marker: "b2o", .. })));
        }
        for marker in ["proxy-source", "proxy", "LazyArray"] {
            let error = open(marker, vec![0xC0]).unwrap_err();
            assert_eq!(error.kind(), b2_core::ErrorKind::Unsupported);
            assert!(error.to_string().contains(marker), "{error}");
        }
        assert!(open("b2other", note("lazyexpr")).is_ok());
    }
}
