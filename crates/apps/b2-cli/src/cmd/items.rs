//! `b2kit items`

use anyhow::{Context, Result, bail, ensure};
use b2kit::SuperChunk;

use crate::args::{Global, Source};
use crate::files::Output;
use crate::print::json;
use crate::read::Input;

const EXAMPLES: &str = "\
Examples:
  b2kit items objects.b2f
  b2kit items store.b2z --key /log | jq -c .name

Object lists are those of python-blosc2: ObjectArray (metalayer vlarray), of
which each entry is printed, and BatchArray (metalayer batcharray), of which
each item of each batch is.";

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    source: Source,
}

/// Largest chunk to decode, in bytes: the decoded values take many times as much memory.
const MAX_NBYTES: u64 = 64 << 20;

/// Output is written in pieces of about this size, in bytes.
const WRITE_LEN: usize = 64 << 10;

pub(crate) fn run(args: &Args, global: Global) -> Result<()> {
    let named = || args.source.file.display().to_string();
    let input = Input::open_source(&args.source, global).with_context(named)?.say_changed(&args.source.file);
    let frame = input.frame().context("not an object list: a bare chunk").with_context(named)?;
    let kind = ObjectList::of(frame).with_context(named)?;
    let mut output = Output::stdout();
    for nchunk in 0..frame.nchunks() {
        // Add the file name only to errors of reading, not of writing.
        let (mut sent, mut lines) = (Ok(()), String::new());
        let walked = kind.each_item(frame, nchunk, |item| {
            sent = json::show(item, &mut |text| {
                lines.push_str(text);
                send_when_long(&mut output, &mut lines)
            });
            lines.push('\n');
            sent.is_ok()
        });
        sent?;
        output.send(lines.as_bytes())?;
        walked.with_context(|| format!("chunk {nchunk}")).with_context(named)?;
    }
    output.finish()
}

fn send_when_long(output: &mut Output, lines: &mut String) -> Result<()> {
    if lines.len() > WRITE_LEN {
        output.send(lines.as_bytes())?;
        lines.clear();
    }
    Ok(())
}

#[derive(Clone, Copy)]
enum ObjectList {
    /// Each chunk is an entry.
    Entries,
    /// Each chunk is a batch, and each of its blocks an array of items.
    Batches,
}

impl ObjectList {
    fn of(frame: &SuperChunk) -> Result<Self> {
        let named = [("vlarray", Self::Entries), ("batcharray", Self::Batches)];
        let found = named.iter().find_map(|(name, kind)| Some((frame.metalayers().get(name)?, *kind)));
        let (layer, kind) = found.context("not an object list: neither metalayer vlarray nor batcharray")?;
        let value = json::read_value(layer);
        let pairs = value.as_ref().and_then(rmpv::Value::as_map).map(Vec::as_slice).unwrap_or_default();
        let serializer = pairs.iter().find(|(key, _)| key.as_str() == Some("serializer"));
        match serializer.and_then(|(_, value)| value.as_str()) {
            None | Some("msgpack") => Ok(kind),
            Some(other) => bail!("its items are {other:?}, only msgpack is supported"),
        }
    }

    /// Passes the items of a chunk, as msgpack, to `each` until it returns false.
    fn each_item(self, frame: &SuperChunk, nchunk: usize, mut each: impl FnMut(&[u8]) -> bool) -> Result<()> {
        let nbytes = frame.chunk(nchunk).nbytes()?;
        ensure!(nbytes <= MAX_NBYTES, "{nbytes} bytes are above the limit of {MAX_NBYTES}");
        match self {
            Self::Entries => {
                each(&frame.chunk(nchunk).decompress()?);
            }
            Self::Batches => {
                for block in frame.chunk(nchunk).all_blocks()? {
                    let mut items = json::array_items(&block).context("a block is not a msgpack array")?;
                    if !items.all(&mut each) {
                        break;
                    }
                }
            }
        }
        Ok(())
    }
}
