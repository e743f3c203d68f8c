//! Writes PNG files. Bands of rows are coloured, filtered and compressed independently of each other, on any thread.

use anyhow::{Context, Result};
use flate2::{Compress, Compression, Crc, FlushCompress, Status};

use b2_view::colours::{Painter, Scale};
use b2_view::items::ItemReader;

/// Bytes of pixels per band: large enough to find matches, and small enough for many bands, one per thread.
const BAND: usize = 1 << 20;
/// Level of deflate. The next lower level takes two thirds of the time, but files are up to twice as large.
const LEVEL: u32 = 3;

/// The filter of a row, as PNG numbers them: unchanged pixels, or differences from the previous pixel.
const AS_IT_IS: u8 = 0;
const SUB: u8 = 1;

/// A picture of two dimensions of numbers.
pub(crate) struct Png {
    simple: ItemReader,
    painter: Painter,
    width: usize,
    height: u32,
}

/// The stream of the bands in the file.
#[derive(Default)]
pub(crate) struct Stream {
    /// Checksum of the pixels so far, which ends the stream; `None` before the first ones.
    adler: Option<u32>,
}

/// Some rows of a picture, compressed.
pub(crate) struct Band {
    deflated: Vec<u8>,
    adler: u32,
    len: u64,
}

impl Png {
    pub(crate) fn new(simple: ItemReader, scale: Option<Scale>, width: u32, height: u32) -> Self {
        let painter = Painter::new(&simple, scale);
        Self { simple, painter, width: width as usize, height }
    }

    /// The start of the file.
    pub(crate) fn head(&self) -> Vec<u8> {
        let mut out = SIGNATURE.to_vec();
        let kind = if self.painter.palette().is_some() { INDEXED } else { RGB };
        out.extend(header(self.width as u32, self.height, kind));
        match self.painter.palette() {
            Some(palette) => {
                let colours: Vec<u8> = palette.iter().flat_map(|colour| colour.unwrap_or_default()).collect();
                out.extend(chunk(*b"PLTE", &colours));
                if let Some(clear) = palette.iter().position(Option::is_none) {
                    let alpha: Vec<u8> = (0..=clear).map(|k| if k == clear { 0 } else { 255 }).collect();
                    out.extend(chunk(*b"tRNS", &alpha));
                }
            }
            // Black, the colour of no number, is transparent.
            None => out.extend(chunk(*b"tRNS", &[0; 6])),
        }
        out
    }

    /// Number of rows per band.
    pub(crate) fn band_height(&self) -> usize {
        (BAND / self.row_len()).max(1)
    }

    fn row_len(&self) -> usize {
        1 + self.width * if self.painter.palette().is_some() { 1 } else { 3 }
    }

    /// Colours and compresses whole rows of items.
    pub(crate) fn band(&self, rows: &[u8]) -> Result<Band> {
        let mut pixels =
            Vec::with_capacity((rows.len() / self.simple.size().max(1) / self.width + 1) * self.row_len());
        let mut numbers = Vec::new();
        for row in rows.chunks_exact(self.width.saturating_mul(self.simple.size().max(1))) {
            numbers.clear();
            self.simple.numbers(row, &mut numbers);
            let start = pixels.len();
            pixels.push(AS_IT_IS);
            self.painter.paint(&numbers, &mut pixels);
            if self.painter.palette().is_none() && is_smooth(&pixels[start + 1..]) {
                subtract(&mut pixels[start + 1..]);
                pixels[start] = SUB;
            }
        }
        Band::new(&pixels)
    }
}

impl Band {
    /// Compresses rows, each preceded by its filter.
    fn new(pixels: &[u8]) -> Result<Self> {
        let mut deflated = Vec::with_capacity(pixels.len() + pixels.len() / 16 + 1024);
        let mut compressor = Compress::new(Compression::new(LEVEL), false);
        let status = compressor.compress_vec(pixels, &mut deflated, FlushCompress::Sync);
        let done =
            status.is_ok_and(|status| status == Status::Ok) && compressor.total_in() == pixels.len() as u64;
        // All output was written if there is space left.
        done.then_some(())
            .filter(|()| deflated.len() < deflated.capacity())
            .context("PNG: deflate failed")?;
        Ok(Self { deflated, adler: simd_adler32::adler32(&pixels), len: pixels.len() as u64 })
    }
}

/// A picture of this width and height, from red, green and blue of each pixel.
pub(crate) fn rgb(size: [usize; 2], pixels: &[u8]) -> Result<Vec<u8>> {
    plain(size, pixels, RGB, 3)
}

/// A picture of this shape (rows and columns), from red, green, blue and opacity of each pixel.
#[cfg(feature = "terminal")]
pub(crate) fn rgba([rows, columns]: [usize; 2], pixels: &[u8]) -> Result<Vec<u8>> {
    plain([columns, rows], pixels, RGBA, 4)
}

fn plain([width, height]: [usize; 2], pixels: &[u8], kind: u8, bytes: usize) -> Result<Vec<u8>> {
    let mut out = SIGNATURE.to_vec();
    out.extend(header(u32::try_from(width)?, u32::try_from(height)?, kind));
    let mut rows = Vec::with_capacity(pixels.len() + height);
    for row in pixels.chunks_exact((bytes * width).max(1)) {
        rows.push(AS_IT_IS);
        rows.extend_from_slice(row);
    }
    let mut stream = Stream::default();
    out.extend(stream.data(&Band::new(&rows)?));
    out.extend(stream.tail());
    Ok(out)
}

const SIGNATURE: &[u8] = b"\x89PNG\r\n\x1a\n";
/// Kinds of pixels, as PNG numbers them.
const INDEXED: u8 = 3;
const RGB: u8 = 2;
#[cfg(feature = "terminal")]
const RGBA: u8 = 6;

/// The chunk with size and kind of a picture of 8 bits per colour.
fn header(width: u32, height: u32, kind: u8) -> Vec<u8> {
    let mut head = Vec::new();
    head.extend(width.to_be_bytes());
    head.extend(height.to_be_bytes());
    head.extend([8, kind, 0, 0, 0]);
    chunk(*b"IHDR", &head)
}

impl Stream {
    /// The part of the file that holds a band; bands come in order.
    pub(crate) fn data(&mut self, band: &Band) -> Vec<u8> {
        let Some(adler) = self.adler else {
            self.adler = Some(band.adler);
            // Deflate with a window of 32 KiB.
            return chunk(*b"IDAT", &[&[0x78, 0x01], &band.deflated[..]].concat());
        };
        self.adler = Some(join(adler, band.adler, band.len));
        chunk(*b"IDAT", &band.deflated)
    }

    /// The end of the file.
    pub(crate) fn tail(self) -> Vec<u8> {
        // An empty last block of deflate.
        let end = [&[3, 0], &self.adler.unwrap_or(1).to_be_bytes()[..]].concat();
        [chunk(*b"IDAT", &end), chunk(*b"IEND", &[])].concat()
    }
}

fn chunk(name: [u8; 4], data: &[u8]) -> Vec<u8> {
    let mut crc = Crc::new();
    crc.update(&name);
    crc.update(data);
    [&(data.len() as u32).to_be_bytes(), &name, data, &crc.sum().to_be_bytes()].concat()
}

/// The Adler-32 checksum of bytes of which `a` is that of the first part, and `b` that of the other, of this length.
fn join(a: u32, b: u32, len: u64) -> u32 {
    const MODULUS: u64 = 65521;
    let halves = |sum: u32| (u64::from(sum & 0xffff), u64::from(sum >> 16));
    let ((a, a_sums), (b, b_sums)) = (halves(a), halves(b));
    // Each byte of the second part adds the first part's sum once more. Sums start at 1.
    let before = a + MODULUS - 1;
    let sum = (before + b) % MODULUS;
    let sums = (a_sums + b_sums + len % MODULUS * (before % MODULUS)) % MODULUS;
    (sums << 16 | sum) as u32
}

/// Whether most pixels of a row differ little from the one before, so that the differences compress better.
fn is_smooth(row: &[u8]) -> bool {
    let green = || row.iter().skip(1).step_by(3);
    let steps = green().zip(green().skip(1)).map(|(a, b)| u64::from(a.abs_diff(*b))).sum::<u64>();
    steps < 4 * (row.len() as u64 / 3)
}

/// Replaces the pixels of a row by their differences from the one before.
fn subtract(row: &mut [u8]) {
    let mut before = [0; 3];
    for pixel in row.chunks_exact_mut(3) {
        for (byte, before) in pixel.iter_mut().zip(&mut before) {
            let new = byte.wrapping_sub(*before);
            *before = std::mem::replace(byte, new);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_join() {
        let bytes: Vec<u8> = (0..200_000_u32).map(|i| (i.wrapping_mul(i) >> 7) as u8 | 128).collect();
        let of = |bytes: &[u8]| simd_adler32::adler32(&bytes);
        for at in [0, 1, 5551, 65521, 131_042, 199_999, 200_000] {
            let (a, b) = bytes.split_at(at);
            assert_eq!(join(of(a), of(b), b.len() as u64), of(&bytes), "{at}");
        }
    }
}
