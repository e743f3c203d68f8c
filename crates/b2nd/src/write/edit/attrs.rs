//! Changes attributes.

use b2_frame::INDEXES;
use rmpv::Value;

use crate::NdError;
use crate::model::attrs::encode;
#[cfg(feature = "serde")]
use crate::model::attrs::to_value;
use crate::model::object::Object;
use crate::write::edit::editor::ArrayEditor;

/// The attributes of an array, open for changing. Returned by [`ArrayEditor::attrs_mut`].
#[derive(Debug)]
pub struct AttrsMut<'a> {
    editor: &'a mut ArrayEditor,
}

impl ArrayEditor {
    /// Returns the attributes for changing. Changes become visible with the next commit of the
    /// editor.
    ///
    /// ```
    /// # use b2nd::{ArrayBuilder, NdArray, Value, source};
    /// let mut editor = NdArray::edit_bytes(ArrayBuilder::new::<u8>([3]).to_bytes(source::zeros())?)?;
    /// editor.attrs_mut().set("units", "K")?;
    /// editor.attrs_mut().set("scale", 0.5)?;
    /// assert!(editor.attrs_mut().remove("scale"));
    /// editor.commit()?;
    /// let array = editor.snapshot()?;
    /// assert_eq!(array.attrs().get("units")?, Some(Value::from("K")));
    /// assert_eq!(array.attrs().len(), 1);
    /// # Ok::<(), b2nd::NdError>(())
    /// ```
    pub fn attrs_mut(&mut self) -> AttrsMut<'_> {
        AttrsMut { editor: self }
    }
}

impl AttrsMut<'_> {
    /// Sets an attribute, replacing any existing value.
    ///
    /// # Errors
    /// [`NdError::Argument`] for the name `blosc2_indexes`, which is not an attribute, otherwise as for
    /// [`ArrayEditor::set_vlmetalayer`].
    pub fn set(&mut self, name: impl AsRef<[u8]>, value: impl Into<Value>) -> Result<(), NdError> {
        let name = name.as_ref();
        if name == INDEXES.as_bytes() {
            return Err(NdError::argument(format!(
                "{INDEXES} describes indexes of python-blosc2, and is not an attribute"
            )));
        }
        self.editor.set_vlmetalayer(name, &encode(&value.into()))
    }

    /// Sets an attribute to a value of any type that `serde` can serialise, such as a JSON value or
    /// a struct. [`Attrs::get_as`](crate::Attrs::get_as) reads it.
    ///
    /// # Errors
    /// [`NdError::Argument`] when the value cannot be serialised, otherwise as for [`set`](Self::set).
    #[cfg(feature = "serde")]
    pub fn set_as<T: serde::Serialize + ?Sized>(
        &mut self,
        name: impl AsRef<[u8]>,
        value: &T,
    ) -> Result<(), NdError> {
        let value = to_value(name.as_ref(), value)?;
        self.set(name, value)
    }

    /// Removes an attribute. Returns whether it existed.
    pub fn remove(&mut self, name: impl AsRef<[u8]>) -> bool {
        let name = name.as_ref();
        name != INDEXES.as_bytes() && self.editor.remove_vlmetalayer(name)
    }

    /// Returns the value of an attribute as a Python object, including uncommitted changes.
    ///
    /// # Errors
    /// As for [`Attrs::get`](crate::Attrs::get).
    #[doc(hidden)]
    pub fn get_object(&self, name: impl AsRef<[u8]>) -> Result<Option<Object>, NdError> {
        let (name, frame) = (name.as_ref(), &self.editor.frame);
        let Some(bytes) = frame.vlmetalayers().get(name)? else { return Ok(None) };
        Object::decode(name, &bytes, &frame.dparams().limits).map(Some)
    }
}
