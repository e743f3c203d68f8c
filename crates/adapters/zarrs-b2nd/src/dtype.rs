//! Zarr data types as Blosc2 dtypes.

use b2nd::{Dtype, DtypeKind};
use zarrs_codec::CodecError;
use zarrs_data_type::DataType;
use zarrs_plugin::{ExtensionName, ZarrVersion};

/// Returns the Blosc2 dtype in which items of a Zarr type are stored; opaque bytes if there is no equivalent.
pub(crate) fn stored_dtype(data_type: &DataType, codec: &str) -> Result<Dtype, CodecError> {
    let name = data_type.name(ZarrVersion::V3).unwrap_or_default();
    let Some(size) = data_type.fixed_size().filter(|&size| size > 0 && !data_type.is_optional()) else {
        return Err(CodecError::UnsupportedDataType(data_type.clone(), codec.to_owned()));
    };
    let order = if cfg!(target_endian = "big") { '>' } else { '<' };
    let text = match &*name {
        "bool" => "|b1".to_owned(),
        "int8" => "|i1".to_owned(),
        "uint8" => "|u1".to_owned(),
        "int16" | "int32" | "int64" => format!("{order}i{size}"),
        "uint16" | "uint32" | "uint64" => format!("{order}u{size}"),
        "float16" | "float32" | "float64" => format!("{order}f{size}"),
        "complex64" | "complex128" | "complex_float32" | "complex_float64" => format!("{order}c{size}"),
        "numpy.datetime64" => format!("{order}M8{}", unit(data_type)),
        "numpy.timedelta64" => format!("{order}m8{}", unit(data_type)),
        "fixed_length_utf32" => format!("{order}U{}", size / 4),
        "null_terminated_bytes" => format!("|S{size}"),
        _ => format!("|V{size}"),
    };
    match Dtype::parse(&text) {
        Ok(dtype) if dtype.itemsize() == size => Ok(dtype),
        _ => Err(CodecError::UnsupportedDataType(data_type.clone(), codec.to_owned())),
    }
}

/// Returns the unit of a time type in NumPy's notation.
fn unit(data_type: &DataType) -> String {
    let configuration = data_type.configuration(ZarrVersion::V3);
    let unit = configuration.get("unit").and_then(|unit| unit.as_str()).unwrap_or("generic");
    let scale = configuration.get("scale_factor").and_then(serde_json::Value::as_u64).unwrap_or(1);
    match (unit, scale) {
        ("generic", _) => String::new(),
        ("μs", 1) => "[us]".to_owned(),
        ("μs", scale) => format!("[{scale}us]"),
        (unit, 1) => format!("[{unit}]"),
        (unit, scale) => format!("[{scale}{unit}]"),
    }
}

/// Returns whether a stored dtype matches the expected one, regardless of byte order. Opaque bytes match any type of
/// their size.
pub(crate) fn is_same(stored_dtype: &Dtype, expected: &Dtype) -> bool {
    if stored_dtype.itemsize() != expected.itemsize() {
        return false;
    }
    let unit = |dtype: &Dtype| dtype.as_str().split_once('[').map(|(_, unit)| unit.to_owned());
    match (stored_dtype.kind(), expected.kind()) {
        (DtypeKind::Simple { code: 'V', .. }, _) => true,
        // Structures are stored as bytes.
        (DtypeKind::Struct(_), DtypeKind::Simple { code: 'V', .. }) => true,
        (DtypeKind::Simple { code: ours, .. }, DtypeKind::Simple { code, .. }) => {
            ours == code && (!matches!(code, 'M' | 'm') || unit(stored_dtype) == unit(expected))
        }
        (DtypeKind::Simple { .. } | DtypeKind::Struct(_), _) => false,
        _ => true,
    }
}
