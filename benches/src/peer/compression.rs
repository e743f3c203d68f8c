//! Parameters for compressing chunks, as options of the command line.

use anyhow::Result;
use b2kit::chunk::{CParams, FilterSlot};
use b2kit::{CodecId, FilterId};

/// Parameters for compressing chunks.
#[derive(Debug, clap::Args)]
pub(crate) struct Compression {
    #[arg(long, default_value = "blosclz", value_parser = codec)]
    pub(crate) codec: CodecId,
    #[arg(long, default_value_t = 5)]
    clevel: u8,
    #[arg(long, default_value = "shuffle")]
    filter: String,
}

fn codec(name: &str) -> Result<CodecId, String> {
    CodecId::from_name(name).ok_or_else(|| "unknown codec".into())
}

impl Compression {
    pub(crate) fn cparams(&self, typesize: usize) -> Result<CParams> {
        let names = self.filter.split('+').filter(|name| *name != "nofilter");
        let slot = |name| match FilterId::from_name(name) {
            Some(id) => Ok(FilterSlot::new(id, 0)),
            None => Err(anyhow::anyhow!("no filter '{name}'")),
        };
        let filters = names.map(slot).collect::<Result<Vec<_>>>()?;
        let builder = b2kit::Compression::new().itemsize(typesize).codec(self.codec).level(self.clevel);
        Ok(builder.filters(filters).build()?)
    }
}
