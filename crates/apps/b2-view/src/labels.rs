//! Names and units, by the convention for xarray and CF, and the dtype to show.

use b2nd::{Dtype, NdArray};
use rmpv::Value;

use crate::cf_time::CfTime;

/// The attribute with the names of the dimensions, and the one with attributes that fit nowhere else.
const DIMENSION_NAMES: &str = "_ARRAY_DIMENSIONS";
const OTHER_ATTRIBUTES: &str = "attrs";

/// The attributes of an array that describe its numbers.
#[derive(Clone, Debug, Default)]
pub struct Labels {
    /// Names of the dimensions; empty if there are none.
    pub names: Vec<String>,
    /// A description of the numbers, and their unit.
    pub unit: String,
    /// Numbers that represent missing values.
    pub fills: Vec<f64>,
    /// How the numbers are times, if they are, and a description without the unit.
    pub time: Option<(CfTime, String)>,
}

impl Labels {
    /// Reads the attributes of an array; unreadable and meaningless ones are skipped.
    pub fn of(array: &NdArray) -> Self {
        Self::from_attributes(array.ndim(), |name| attribute(array, name))
    }

    /// Reads them through a function that returns the value of an attribute.
    pub fn from_attributes(ndim: usize, attribute: impl Fn(&str) -> Option<Value>) -> Self {
        let names = match attribute(DIMENSION_NAMES) {
            Some(Value::Array(names)) => {
                names.iter().map(|name| name.as_str().unwrap_or_default().to_owned()).collect()
            }
            _ => Vec::new(),
        };
        let fills = ["_FillValue", "missing_value"].into_iter().filter_map(|name| number(&attribute(name)?));
        Self {
            names: if names.len() == ndim { names } else { Vec::new() },
            fills: fills.collect(),
            time: time_from(&attribute),
            unit: unit_from(attribute),
        }
    }
}

fn text(attribute: impl Fn(&str) -> Option<Value>, name: &str) -> Option<String> {
    attribute(name).and_then(|value| value.as_str().map(str::to_owned))
}

fn is_packed(attribute: impl Fn(&str) -> Option<Value>) -> bool {
    attribute("scale_factor").is_some() || attribute("add_offset").is_some()
}

fn long_name(attribute: impl Fn(&str) -> Option<Value>) -> String {
    text(&attribute, "long_name").or_else(|| text(&attribute, "standard_name")).unwrap_or_default()
}

fn time_from(attribute: impl Fn(&str) -> Option<Value>) -> Option<(CfTime, String)> {
    let units = text(&attribute, "units").filter(|_| !is_packed(&attribute))?;
    let time = CfTime::parse(&units, text(&attribute, "calendar").as_deref())?;
    Some((time, long_name(attribute)))
}

/// `sea surface temperature (K)`, from the attributes of CF.
fn unit_from(attribute: impl Fn(&str) -> Option<Value>) -> String {
    // The unit does not apply to packed numbers.
    let (packed, name) = (is_packed(&attribute), long_name(&attribute));
    match text(attribute, "units").filter(|_| !packed) {
        Some(units) if name.is_empty() => units,
        Some(units) => format!("{name} ({units})"),
        None if packed && !name.is_empty() => format!("{name} (packed)"),
        None => name,
    }
}

fn attribute(array: &NdArray, name: &str) -> Option<Value> {
    if let Ok(Some(value)) = array.attrs().get(name) {
        return Some(value);
    }
    let Ok(Some(Value::Map(rest))) = array.attrs().get(OTHER_ATTRIBUTES) else { return None };
    rest.into_iter().find(|(key, _)| key.as_str() == Some(name)).map(|(_, value)| value)
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Integer(_) | Value::F32(_) | Value::F64(_) => value.as_f64(),
        _ => None,
    }
}

/// The dtype to show an array with. Also accepts dtype strings that are not in NumPy's own notation.
pub fn shown_dtype(array: &NdArray) -> Dtype {
    match Dtype::parse(array.dtype().as_str()) {
        Ok(dtype) if dtype.itemsize() == array.itemsize() => dtype,
        _ => array.dtype().clone(),
    }
}
