//! Reads the attributes of an array.

use std::borrow::Cow;

use b2_core::Limits;
use b2_frame::{INDEXES, VlMetalayers};
use rmpv::Value;

use crate::model::attrs::decode;
#[cfg(feature = "serde")]
use crate::model::attrs::from_value;
use crate::model::object::Object;
use crate::{NdArray, NdError};

/// The attributes of an array: vlmetalayers that each hold one msgpack value, as python-blosc2
/// writes and reads them. A value is decoded only when it is requested.
///
/// The vlmetalayer `blosc2_indexes`, in which python-blosc2 describes its indexes, is not an attribute.
///
/// [`Value`] converts from and to numbers, strings, lists and so on. A Python tuple is stored as a
/// list whose first item is the string `__tuple__`.
#[derive(Clone, Copy, Debug)]
pub struct Attrs<'a> {
    layers: &'a VlMetalayers,
    limits: &'a Limits,
}

impl NdArray {
    /// Returns the attributes of the array.
    ///
    /// ```
    /// use b2nd::{ArrayBuilder, NdArray, Value, source};
    /// # let units = [0xA1, b'K'];
    /// let builder = ArrayBuilder::new::<u8>([3]).vlmetalayer("units", units);
    /// let array = NdArray::from_bytes(builder.to_bytes(source::zeros())?)?;
    /// assert_eq!(array.attrs().get("units")?, Some(Value::from("K")));
    /// assert_eq!(array.attrs().get("scale")?, None);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    pub fn attrs(&self) -> Attrs<'_> {
        Attrs { layers: self.super_chunk().vlmetalayers(), limits: &self.super_chunk().dparams().limits }
    }
}

impl<'a> Attrs<'a> {
    /// Returns the number of attributes.
    pub fn len(&self) -> usize {
        self.names().len()
    }

    /// Returns whether there are no attributes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the names in file order. Bytes that are not UTF-8 become U+FFFD.
    pub fn names(&self) -> impl ExactSizeIterator<Item = Cow<'a, str>> + use<'a> {
        let names = self.layers.names().filter(|name| name != INDEXES);
        names.collect::<Vec<_>>().into_iter()
    }

    /// Returns the value of an attribute, or `None` if there is none of this name.
    ///
    /// # Errors
    /// [`NdError::Frame`] when the value does not decompress, as for [`VlMetalayers::get`]; [`NdError::Attribute`] when
    /// it is not one msgpack value, [`NdError::Limit`] when it is too large.
    pub fn get(&self, name: impl AsRef<[u8]>) -> Result<Option<Value>, NdError> {
        let name = name.as_ref();
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        decode(name, &bytes, self.limits).map(Some)
    }

    fn bytes(&self, name: &[u8]) -> Result<Option<Vec<u8>>, NdError> {
        if name == INDEXES.as_bytes() {
            return Ok(None);
        }
        Ok(self.layers.get(name)?)
    }

    /// Returns the value of an attribute as a Python object.
    ///
    /// # Errors
    /// As for [`get`](Self::get).
    #[doc(hidden)]
    pub fn get_object(&self, name: impl AsRef<[u8]>) -> Result<Option<Object>, NdError> {
        let name = name.as_ref();
        let Some(bytes) = self.bytes(name)? else { return Ok(None) };
        Object::decode(name, &bytes, self.limits).map(Some)
    }

    /// Returns the attribute `name` as a value of any type that `serde` can deserialise, or `None` if there is none.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, source};
    /// use serde_json::{Value, json};
    ///
    /// let mut editor = NdArray::edit_bytes(ArrayBuilder::new::<u8>([3]).to_bytes(source::zeros())?)?;
    /// editor.attrs_mut().set_as("valid", &json!({"min": -2.5, "flags": ["land", "ice"]}))?;
    /// editor.commit()?;
    /// let array = editor.snapshot()?;
    /// let valid: Option<Value> = array.attrs().get_as("valid")?;
    /// assert_eq!(valid.unwrap()["flags"][1], "ice");
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    ///
    /// # Errors
    /// As for [`get`](Self::get); [`NdError::Argument`] when the value does not fit the type: JSON has no binary strings,
    /// for example.
    #[cfg(feature = "serde")]
    pub fn get_as<T: serde::de::DeserializeOwned>(
        &self,
        name: impl AsRef<[u8]>,
    ) -> Result<Option<T>, NdError> {
        let name = name.as_ref();
        self.get(name)?.map(|value| from_value(name, value)).transpose()
    }
}
