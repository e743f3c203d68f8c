//! A case while it is being written.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::Result;
use b2_testkit::Rng;
use serde_json::{Map, Value};

pub(crate) struct Draft<'a> {
    pub(crate) id: String,
    pub(crate) rng: Rng,
    folder: &'a Path,
    fields: Map<String, Value>,
    labels: Map<String, Value>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(folder: &'a Path, seed: u64, number: u64, kind: &str) -> Self {
        let mut draft = Self {
            id: format!("w{number:06}"),
            // Use other random numbers than for the cases that are read.
            rng: Rng::case(!seed, number),
            folder,
            fields: Map::new(),
            labels: Map::new(),
        };
        draft.label("kind", kind);
        draft.set("offset", 0);
        draft
    }

    pub(crate) fn label(&mut self, class: &str, value: impl Display) {
        self.labels.insert(class.to_owned(), value.to_string().into());
    }

    pub(crate) fn set(&mut self, field: &str, value: impl Into<Value>) {
        self.fields.insert(field.to_owned(), value.into());
    }

    pub(crate) fn field(&self, field: &str) -> &Value {
        self.fields.get(field).unwrap_or(&Value::Null)
    }

    /// Returns the path for the file or folder of this case.
    pub(crate) fn path(&mut self, suffix: &str) -> PathBuf {
        let name = format!("{}{suffix}", self.id);
        self.set("path", name.as_str());
        self.folder.join(name)
    }

    /// Sets the data that reading must return.
    pub(crate) fn raw(&mut self, raw: &[u8]) -> Result<()> {
        let name = format!("{}.raw", self.id);
        fs::write(self.folder.join(&name), raw)?;
        self.set("raw", name.as_str());
        Ok(())
    }

    /// Returns the case in the form that the peer receives.
    pub(crate) fn finish(mut self) -> Value {
        let seed = self.rng.next() >> 32;
        self.set("seed", seed);
        self.fields.insert("id".into(), self.id.into());
        self.fields.insert("labels".into(), self.labels.into());
        Value::Object(self.fields)
    }
}
