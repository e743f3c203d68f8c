//! NIfTI files, 1 and 2, as `.nii` and `.nii.gz`: one image, whose first dimension varies fastest.
//!
//! The crate `nifti` reads only version 1, and whole images into memory. The header is one table, so it is parsed here.

use std::io::{self, BufReader, BufWriter, Read, Write};
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use b2kit::Dtype;
use b2kit::frame::ReadAt;
use b2kit::nd::Value;
use flate2::bufread::MultiGzDecoder;

use crate::args::Global;
use crate::files::recognition::{self, open_regular};
use crate::files::{stdio::spooled, urls};
use crate::formats::npy::RawSource;
use crate::process::signals;

/// Length of the header of version 2, the longer one, and of the four bytes after it.
const MAX_HEADER_LEN: usize = 544;
/// The names of the dimensions in the NIfTI specification.
const DIMENSIONS: [&str; 7] = ["x", "y", "z", "t", "u", "v", "w"];

/// An image in a file.
#[derive(Clone)]
pub(crate) struct NiftiImage {
    /// The name of the file without `.nii` and `.nii.gz`.
    pub(crate) name: String,
    shape: Vec<u64>,
    dtype: Dtype,
    attrs: Vec<(String, Value)>,
    left_out: Vec<String>,
    items: Arc<RawSource>,
}

impl NiftiImage {
    /// Opens a file or URL.
    ///
    /// # Errors
    /// Fails if it is not NIfTI, is damaged, or has items of a type that NumPy does not have.
    pub(crate) fn open(path: &Path, global: Global) -> Result<Self> {
        let file = open_regular(path)?;
        let stored = file.len()?;
        let start = file.read_at(0..recognition::LOOK.min(stored))?;
        let is_compressed = start.starts_with(&GZIP);
        let header = Header::parse(&head(&start))?;
        let nbytes = header.nbytes()?;
        global.with_output_limit().limits(stored).check_output(nbytes, stored)?;
        let end = header.offset.checked_add(nbytes).context("the image is too large")?;
        let (file, len) = match is_compressed {
            true => decompressed(file, end)?,
            false => (file, stored),
        };
        ensure!(end <= len, "{} bytes of the items are missing", end.saturating_sub(len));
        let mut left_out = Vec::new();
        let extensions = header.offset.saturating_sub(header.min_offset);
        if extensions > 0 {
            left_out.push(format!("extensions of the header ({extensions} bytes)"));
        }
        if len > end {
            left_out.push(format!("{} bytes after the items", len.saturating_sub(end)));
        }
        let Header { offset, shape, dtype, attrs, .. } = header;
        let items = RawSource::new(file, offset, &shape, dtype.itemsize(), true);
        let items = Arc::new(items.context("the image is too large")?);
        let name = if urls::is_url(path) { stem(&urls::local_name(path)?) } else { stem(path) };
        Ok(Self { name, shape, dtype, attrs, left_out, items })
    }

    pub(crate) fn shape(&self) -> &[u64] {
        &self.shape
    }

    pub(crate) fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// The affine and the other fields of the header.
    pub(crate) fn attributes(&self) -> &[(String, Value)] {
        &self.attrs
    }

    /// The parts of the file that are not converted.
    pub(crate) fn left_out(&self) -> &[String] {
        &self.left_out
    }

    /// Reads the items of a box in C order into `dst`.
    ///
    /// # Errors
    /// Fails if they cannot be read.
    pub(crate) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        Ok(self.items.read_box(start, shape, dst)?)
    }
}

const GZIP: [u8; 3] = *b"\x1f\x8b\x08";

/// Whether a file is NIfTI, by its content; false if it cannot be read.
pub(crate) fn is_nifti(path: &Path) -> bool {
    let is_file = urls::is_url(path) || path.is_file();
    let start = || {
        let file = open_regular(path).ok()?;
        file.read_at(0..recognition::LOOK.min(file.len().ok()?)).ok()
    };
    let start = is_file.then(start).flatten();
    start.is_some_and(|start| Fields::of(&head(&start)).is_some())
}

/// The first bytes of the file, decompressed.
fn head(start: &[u8]) -> Vec<u8> {
    if !start.starts_with(&GZIP) {
        return start.to_vec();
    }
    let mut head = Vec::new();
    // The start may end within compressed data, so bytes before an error are used.
    let _ = MultiGzDecoder::new(start).take(MAX_HEADER_LEN as u64).read_to_end(&mut head);
    head
}

/// Decompresses a file to the end, where checksums are compared. Returns its first `len` bytes as a file, and its length.
fn decompressed(file: Arc<dyn ReadAt>, len: u64) -> Result<(Arc<dyn ReadAt>, u64)> {
    let mut reader = MultiGzDecoder::new(BufReader::with_capacity(1 << 18, Sequential { file, at: 0 }));
    let mut spool = tempfile::tempfile().context("a temporary file")?;
    let mut writer = BufWriter::new(&mut spool);
    let mut buffer = vec![0; 1 << 16];
    let mut total = 0_u64;
    loop {
        signals::check()?;
        let count = reader.read(&mut buffer).context("damaged gzip file")?;
        if count == 0 {
            break;
        }
        let wanted = usize::try_from(len.saturating_sub(total)).unwrap_or(usize::MAX).min(count);
        writer.write_all(buffer.get(..wanted).unwrap_or_default()).context("a temporary file")?;
        total = total.saturating_add(count as u64);
    }
    writer.flush().context("a temporary file")?;
    drop(writer);
    Ok((spooled(spool, len.min(total)), total))
}

/// Reads a file from its start.
struct Sequential {
    file: Arc<dyn ReadAt>,
    at: u64,
}

impl Read for Sequential {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let left = usize::try_from(self.file.len()?.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let count = buf.len().min(left);
        if let Some(buf) = buf.get_mut(..count) {
            self.file.read_exact_at(self.at, buf)?;
        }
        self.at = self.at.saturating_add(count as u64);
        Ok(count)
    }
}

/// The name of a file without its extensions.
pub(crate) fn stem(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let lower = name.to_ascii_lowercase();
    let end = [".nii.gz", ".nii", ".gz"].into_iter().find(|end| lower.ends_with(end)).unwrap_or_default();
    let stem = name.get(..name.len().saturating_sub(end.len())).unwrap_or(&name);
    if stem.is_empty() { "image".into() } else { stem.into() }
}

/// The fields of the header that are used.
struct Header {
    /// Where the items start if the header has no extensions.
    min_offset: u64,
    /// Where the items start.
    offset: u64,
    shape: Vec<u64>,
    dtype: Dtype,
    attrs: Vec<(String, Value)>,
}

impl Header {
    fn parse(head: &[u8]) -> Result<Self> {
        let fields = Fields::of(head).context("not a NIfTI file")?;
        ensure!(!fields.has_pair(), "the items are in another file (.img), which is not supported");
        ensure!(head.len() >= fields.len(), "the header is cut off");
        let ndim = fields.int(Field::DIM);
        let ndim = usize::try_from(ndim).ok().filter(|ndim| (1..=7).contains(ndim));
        let ndim = ndim.with_context(|| format!("{} dimensions", fields.int(Field::DIM)))?;
        let length = |dim| {
            let length = fields.int_at(Field::DIM, dim);
            u64::try_from(length).with_context(|| format!("dimension {dim} of length {length}"))
        };
        let shape = (1..=ndim).map(length).collect::<Result<Vec<_>>>()?;
        let offset = fields.offset()?;
        let min_offset = fields.min_offset();
        ensure!(offset >= min_offset, "the items start in the header, at byte {offset}");
        let dtype = fields.dtype()?;
        let attrs = attributes(&fields, &shape);
        Ok(Self { min_offset, offset, shape, dtype, attrs })
    }

    /// Size of all items in bytes.
    fn nbytes(&self) -> Result<u64> {
        let itemsize = self.dtype.itemsize() as u64;
        let nbytes = self.shape.iter().try_fold(itemsize, |n, &length| n.checked_mul(length));
        nbytes.context("the image is too large")
    }
}

/// Where a field is in the headers of version 1 and 2, and its size in bytes there.
#[derive(Clone, Copy)]
struct Field([(usize, usize); 2]);

impl Field {
    const DIM_INFO: Self = Self([(39, 1), (524, 1)]);
    const DIM: Self = Self([(40, 2), (16, 8)]);
    const INTENT_P: Self = Self([(56, 4), (80, 8)]);
    const INTENT_CODE: Self = Self([(68, 2), (504, 4)]);
    const DATATYPE: Self = Self([(70, 2), (12, 2)]);
    const SLICE_START: Self = Self([(74, 2), (224, 8)]);
    const PIXDIM: Self = Self([(76, 4), (104, 8)]);
    const VOX_OFFSET: Self = Self([(108, 4), (168, 8)]);
    const SCL_SLOPE: Self = Self([(112, 4), (176, 8)]);
    const SCL_INTER: Self = Self([(116, 4), (184, 8)]);
    const SLICE_END: Self = Self([(120, 2), (232, 8)]);
    const SLICE_CODE: Self = Self([(122, 1), (496, 4)]);
    const XYZT_UNITS: Self = Self([(123, 1), (500, 4)]);
    const CAL_MAX: Self = Self([(124, 4), (192, 8)]);
    const CAL_MIN: Self = Self([(128, 4), (200, 8)]);
    const SLICE_DURATION: Self = Self([(132, 4), (208, 8)]);
    const TOFFSET: Self = Self([(136, 4), (216, 8)]);
    const DESCRIP: Self = Self([(148, 80), (240, 80)]);
    const AUX_FILE: Self = Self([(228, 24), (320, 24)]);
    const QFORM_CODE: Self = Self([(252, 2), (344, 4)]);
    const SFORM_CODE: Self = Self([(254, 2), (348, 4)]);
    const QUATERN: Self = Self([(256, 4), (352, 8)]);
    const QOFFSET: Self = Self([(268, 4), (376, 8)]);
    const SROW: Self = Self([(280, 4), (400, 8)]);
    const INTENT_NAME: Self = Self([(328, 16), (508, 16)]);
}

/// A header of known version and byte order. Fields beyond its end are zero.
struct Fields<'a> {
    head: &'a [u8],
    version: usize,
    is_big: bool,
}

impl<'a> Fields<'a> {
    /// `None` if this is not a header of NIfTI.
    fn of(head: &'a [u8]) -> Option<Self> {
        let size: [u8; 4] = head.get(..4)?.try_into().ok()?;
        let (version, is_big) = match (i32::from_le_bytes(size), i32::from_be_bytes(size)) {
            (348, _) => (1, false),
            (_, 348) => (1, true),
            (540, _) => (2, false),
            (_, 540) => (2, true),
            _ => return None,
        };
        let is_known = match version {
            1 => matches!(head.get(344..348)?, b"n+1\0" | b"ni1\0"),
            _ => matches!(head.get(4..12)?, b"n+2\0\r\n\x1a\n" | b"ni2\0\r\n\x1a\n"),
        };
        is_known.then_some(Self { head, version, is_big })
    }

    fn len(&self) -> usize {
        if self.version == 1 { 348 } else { 540 }
    }

    /// Where the items start if only the four bytes after the header precede them.
    fn min_offset(&self) -> u64 {
        if self.version == 1 { 352 } else { 544 }
    }

    /// Whether header and items are in separate files.
    fn has_pair(&self) -> bool {
        let at = if self.version == 1 { 345 } else { 5 };
        self.head.get(at) == Some(&b'i')
    }

    fn bytes(&self, Field(places): Field, n: usize) -> &[u8] {
        let [first, second] = places;
        let (at, size) = if self.version == 1 { first } else { second };
        let at = at.saturating_add(size.saturating_mul(n));
        self.head.get(at..at.saturating_add(size)).unwrap_or_default()
    }

    fn int(&self, field: Field) -> i64 {
        self.int_at(field, 0)
    }

    /// The `n`th of several integers. Integers of one byte are unsigned.
    fn int_at(&self, field: Field, n: usize) -> i64 {
        match *self.bytes(field, n) {
            [byte] => byte.into(),
            [a, b] if self.is_big => i16::from_be_bytes([a, b]).into(),
            [a, b] => i16::from_le_bytes([a, b]).into(),
            [a, b, c, d] if self.is_big => i32::from_be_bytes([a, b, c, d]).into(),
            [a, b, c, d] => i32::from_le_bytes([a, b, c, d]).into(),
            ref bytes => {
                let bytes = bytes.try_into().unwrap_or_default();
                if self.is_big { i64::from_be_bytes(bytes) } else { i64::from_le_bytes(bytes) }
            }
        }
    }

    fn float(&self, field: Field) -> f64 {
        self.float_at(field, 0)
    }

    fn float_at(&self, field: Field, n: usize) -> f64 {
        match *self.bytes(field, n) {
            [a, b, c, d] if self.is_big => f32::from_be_bytes([a, b, c, d]).into(),
            [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).into(),
            ref bytes => {
                let bytes = bytes.try_into().unwrap_or_default();
                if self.is_big { f64::from_be_bytes(bytes) } else { f64::from_le_bytes(bytes) }
            }
        }
    }

    fn floats<const N: usize>(&self, field: Field, first: usize) -> [f64; N] {
        std::array::from_fn(|n| self.float_at(field, first.saturating_add(n)))
    }

    /// A text up to its first zero byte, or the bytes if they are not UTF-8.
    fn text(&self, field: Field) -> Value {
        let bytes = self.bytes(field, 0).split(|byte| *byte == 0).next().unwrap_or_default();
        match std::str::from_utf8(bytes) {
            Ok(text) => text.into(),
            Err(_) => Value::Binary(bytes.to_vec()),
        }
    }

    /// Where the items start. Version 1 stores it as a float.
    fn offset(&self) -> Result<u64> {
        if self.version == 2 {
            let offset = self.int(Field::VOX_OFFSET);
            return u64::try_from(offset).with_context(|| format!("the items start at byte {offset}"));
        }
        let offset = self.float(Field::VOX_OFFSET);
        // Whole numbers of this size are exact in a float.
        ensure!(
            (0.0..4e15).contains(&offset) && offset.fract() == 0.0,
            "the items start at byte {offset}, not at a whole number"
        );
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked above")]
        Ok(offset as u64)
    }

    fn dtype(&self) -> Result<Dtype> {
        let code = self.int(Field::DATATYPE);
        let name = match code {
            2 => "u1",
            4 => "i2",
            8 => "i4",
            16 => "f4",
            32 => "c8",
            64 => "f8",
            128 => return Ok(Dtype::parse("[('R', '|u1'), ('G', '|u1'), ('B', '|u1')]")?),
            256 => "i1",
            512 => "u2",
            768 => "u4",
            1024 => "i8",
            1280 => "u8",
            1792 => "c16",
            2304 => return Ok(Dtype::parse("[('R', '|u1'), ('G', '|u1'), ('B', '|u1'), ('A', '|u1')]")?),
            1 => bail!("items of one bit are not supported"),
            1536 | 2048 => bail!("items of 128-bit floats are not supported"),
            _ => bail!("items of the unknown type {code}"),
        };
        let order = if name.ends_with('1') {
            '|'
        } else {
            ['<', '>'].into_iter().nth(self.is_big.into()).unwrap_or('<')
        };
        Ok(Dtype::parse(&format!("{order}{name}"))?)
    }

    /// The matrix that maps indices to millimetres or other units of space: that of `sform`, of `qform`, or of the
    /// lengths of the voxels, with the origin in the middle of the image.
    fn affine(&self, shape: &[u64]) -> [[f64; 4]; 4] {
        let bottom = [0.0, 0.0, 0.0, 1.0];
        if self.int(Field::SFORM_CODE) > 0 {
            return [
                self.floats(Field::SROW, 0),
                self.floats(Field::SROW, 4),
                self.floats(Field::SROW, 8),
                bottom,
            ];
        }
        let lengths: [f64; 3] = self.floats(Field::PIXDIM, 1);
        if self.int(Field::QFORM_CODE) > 0 {
            let [x, y, z] = rotation(self.floats(Field::QUATERN, 0));
            let [a, b, mut c] = lengths;
            if self.float(Field::PIXDIM) < 0.0 {
                c = -c;
            }
            let [i, j, k] = self.floats(Field::QOFFSET, 0);
            let row = |[p, q, r]: [f64; 3], offset| [p * a, q * b, r * c, offset];
            return [row(x, i), row(y, j), row(z, k), bottom];
        }
        let [a, b, c] = lengths;
        let middle =
            |dim: usize| (shape.get(dim).copied().unwrap_or(1).max(1).saturating_sub(1)) as f64 / 2.0;
        [[-a, 0.0, 0.0, a * middle(0)], [0.0, b, 0.0, -b * middle(1)], [0.0, 0.0, c, -c * middle(2)], bottom]
    }
}

/// The rotation of a unit quaternion, whose first number follows from the others.
fn rotation([b, c, d]: [f64; 3]) -> [[f64; 3]; 3] {
    let rest = 1.0 - (b * b + c * c + d * d);
    let (a, b, c, d) = if rest < 1e-7 {
        let length = (b * b + c * c + d * d).sqrt();
        (0.0, b / length, c / length, d / length)
    } else {
        (rest.sqrt(), b, c, d)
    };
    [
        [a * a + b * b - c * c - d * d, 2.0 * (b * c - a * d), 2.0 * (b * d + a * c)],
        [2.0 * (b * c + a * d), a * a + c * c - b * b - d * d, 2.0 * (c * d - a * b)],
        [2.0 * (b * d - a * c), 2.0 * (c * d + a * b), a * a + d * d - b * b - c * c],
    ]
}

fn list(numbers: &[f64]) -> Value {
    Value::Array(numbers.iter().map(|&number| number.into()).collect())
}

/// The affine, the scale of the items, and all other fields under `nifti`.
fn attributes(fields: &Fields<'_>, shape: &[u64]) -> Vec<(String, Value)> {
    let mut attrs: Vec<(String, Value)> = Vec::new();
    let mut add = |name: &str, value: Value| attrs.push((name.to_owned(), value));
    add(
        "_ARRAY_DIMENSIONS",
        Value::Array(DIMENSIONS.iter().take(shape.len()).map(|&name| name.into()).collect()),
    );
    add("affine", Value::Array(fields.affine(shape).iter().map(|row| list(row)).collect()));
    let lengths: [f64; 7] = fields.floats(Field::PIXDIM, 1);
    add("spacing", list(lengths.get(..shape.len()).unwrap_or_default()));
    let (slope, inter) = (fields.float(Field::SCL_SLOPE), fields.float(Field::SCL_INTER));
    let scales = slope.is_finite() && slope != 0.0 && inter.is_finite();
    if scales && (slope, inter) != (1.0, 0.0) {
        add("scale_factor", slope.into());
        add("add_offset", inter.into());
    }
    let int = |field| Value::from(fields.int(field));
    let others = [
        ("version", Value::from(fields.version as u64)),
        ("descrip", fields.text(Field::DESCRIP)),
        ("aux_file", fields.text(Field::AUX_FILE)),
        ("dim_info", int(Field::DIM_INFO)),
        ("pixdim", list(&fields.floats::<8>(Field::PIXDIM, 0))),
        ("xyzt_units", int(Field::XYZT_UNITS)),
        ("scl_slope", slope.into()),
        ("scl_inter", inter.into()),
        ("intent_code", int(Field::INTENT_CODE)),
        ("intent_name", fields.text(Field::INTENT_NAME)),
        ("intent_p", list(&fields.floats::<3>(Field::INTENT_P, 0))),
        ("cal_min", fields.float(Field::CAL_MIN).into()),
        ("cal_max", fields.float(Field::CAL_MAX).into()),
        ("slice_start", int(Field::SLICE_START)),
        ("slice_end", int(Field::SLICE_END)),
        ("slice_code", int(Field::SLICE_CODE)),
        ("slice_duration", fields.float(Field::SLICE_DURATION).into()),
        ("toffset", fields.float(Field::TOFFSET).into()),
        ("qform_code", int(Field::QFORM_CODE)),
        ("quatern", list(&fields.floats::<3>(Field::QUATERN, 0))),
        ("qoffset", list(&fields.floats::<3>(Field::QOFFSET, 0))),
        ("sform_code", int(Field::SFORM_CODE)),
        ("srow", list(&fields.floats::<12>(Field::SROW, 0))),
    ];
    add("nifti", Value::Map(others.map(|(name, value)| (name.into(), value)).into()));
    attrs
}
