//! Marks of a drawing, in pixels, written as SVG or painted for a PNG file.

use std::fmt::Write;

use anyhow::Result;
use data_encoding::BASE64;

use super::font;
use crate::print::{png, printable};

pub(crate) type Colour = [u8; 3];

/// Alignment of a text: its point is at the start, in the middle, or at the end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Anchor {
    Start,
    Middle,
    End,
}

#[derive(Clone, Debug)]
pub(crate) enum Mark {
    Rect {
        at: [usize; 2],
        size: [usize; 2],
        colour: Colour,
    },
    /// The point is at the bottom of the letters, without their descenders. `up`: written upwards.
    Text {
        at: [usize; 2],
        anchor: Anchor,
        text: String,
        up: bool,
    },
    /// A line through these points.
    Line {
        points: Vec<[f64; 2]>,
        colour: Colour,
        width: f64,
    },
    /// An image of `shape` pixels, stretched to `size`.
    Image {
        at: [usize; 2],
        size: [usize; 2],
        shape: [usize; 2],
        pixels: Vec<u8>,
    },
}

/// A drawing on a white background. Points are (x, y) from the top left corner.
#[derive(Clone, Debug)]
pub(crate) struct Canvas {
    pub(crate) size: [usize; 2],
    pub(crate) marks: Vec<Mark>,
}

pub(crate) const INK: Colour = [40, 40, 40];
/// Font size in SVG files; each viewer uses its own font.
const LETTERS: usize = 16;

impl Canvas {
    pub(crate) fn text(&mut self, at: [usize; 2], anchor: Anchor, text: impl Into<String>) {
        // Names come from files.
        self.marks.push(Mark::Text { at, anchor, text: printable(&text.into()), up: false });
    }

    /// A text written upwards, centred at this point.
    pub(crate) fn upward(&mut self, at: [usize; 2], text: impl Into<String>) {
        let text = printable(&text.into());
        self.marks.push(Mark::Text { at, anchor: Anchor::Middle, text, up: true });
    }

    pub(crate) fn rect(&mut self, at: [usize; 2], size: [usize; 2], colour: Colour) {
        self.marks.push(Mark::Rect { at, size, colour });
    }

    /// The outline of a rectangle, drawn outside it.
    pub(crate) fn frame(&mut self, [x, y]: [usize; 2], [width, height]: [usize; 2]) {
        for (at, size) in [
            ([x - 1, y - 1], [width + 2, 1]),
            ([x - 1, y + height], [width + 2, 1]),
            ([x - 1, y], [1, height]),
            ([x + width, y], [1, height]),
        ] {
            self.rect(at, size, INK);
        }
    }

    /// The drawing as an SVG file.
    pub(crate) fn svg(&self) -> Result<String> {
        let [width, height] = self.size;
        let mut out = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"monospace\" font-size=\"{LETTERS}\">\n\
             <rect width=\"{width}\" height=\"{height}\" fill=\"#ffffff\"/>\n"
        );
        for mark in &self.marks {
            match mark {
                Mark::Rect { at: [x, y], size: [width, height], colour } => write!(
                    out,
                    "<rect x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" fill=\"{}\"/>",
                    hex(*colour)
                )?,
                Mark::Text { at: [x, y], anchor, text, up } => {
                    let anchor = match anchor {
                        Anchor::Start => "start",
                        Anchor::Middle => "middle",
                        Anchor::End => "end",
                    };
                    let turned =
                        if *up { format!(" transform=\"rotate(-90 {x} {y})\"") } else { String::new() };
                    write!(
                        out,
                        "<text x=\"{x}\" y=\"{y}\" text-anchor=\"{anchor}\" fill=\"{}\" xml:space=\"preserve\"{turned}>{}</text>",
                        hex(INK),
                        escaped(text)
                    )?;
                }
                Mark::Line { points, colour, width } => {
                    let points: Vec<String> = points.iter().map(|[x, y]| format!("{x:.2},{y:.2}")).collect();
                    write!(
                        out,
                        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{width}\"/>",
                        points.join(" "),
                        hex(*colour)
                    )?;
                }
                Mark::Image { at: [x, y], size: [width, height], shape, pixels } => write!(
                    out,
                    "<image x=\"{x}\" y=\"{y}\" width=\"{width}\" height=\"{height}\" preserveAspectRatio=\"none\" \
                     style=\"image-rendering:pixelated\" href=\"data:image/png;base64,{}\"/>",
                    BASE64.encode(&png::rgb(*shape, pixels)?)
                )?,
            }
            out.push('\n');
        }
        out.push_str("</svg>\n");
        Ok(out)
    }

    /// The drawing as a PNG file.
    pub(crate) fn png(&self) -> Result<Vec<u8>> {
        png::rgb(self.size, &self.painted())
    }

    /// Red, green and blue of all pixels.
    fn painted(&self) -> Vec<u8> {
        let [width, height] = self.size;
        let mut paint = PixelBuffer { width, height, pixels: vec![255; 3 * width * height] };
        for mark in &self.marks {
            match mark {
                Mark::Rect { at: [x, y], size: [width, height], colour } => {
                    for y in *y..y + height {
                        (*x..x + width).for_each(|x| paint.dot(x, y, *colour, 1.0));
                    }
                }
                Mark::Text { at: [x, y], anchor, text, up } => {
                    let long = font::width(text);
                    let before = match anchor {
                        Anchor::Start => 0,
                        Anchor::Middle => long / 2,
                        Anchor::End => long,
                    };
                    font::draw(text, |dx, dy| {
                        // Positions along the text and above its line.
                        let (along, above) = (dx.wrapping_sub(before), font::CAP.wrapping_sub(dy));
                        let (x, y) = match up {
                            false => (x.wrapping_add(along), y.wrapping_sub(above)),
                            true => (x.wrapping_sub(above), y.wrapping_sub(along)),
                        };
                        paint.dot(x, y, INK, 1.0);
                    });
                }
                Mark::Line { points, colour, width } => {
                    points.windows(2).for_each(|ends| paint.line(ends[0], ends[1], *colour, *width));
                }
                Mark::Image { at, size, shape, pixels } => {
                    for y in 0..size[1] {
                        for x in 0..size[0] {
                            let from = 3 * (y * shape[1] / size[1] * shape[0] + x * shape[0] / size[0]);
                            if let Some(colour) =
                                pixels.get(from..from + 3).and_then(|rgb| rgb.try_into().ok())
                            {
                                paint.dot(at[0] + x, at[1] + y, colour, 1.0);
                            }
                        }
                    }
                }
            }
        }
        paint.pixels
    }
}

struct PixelBuffer {
    width: usize,
    height: usize,
    pixels: Vec<u8>,
}

impl PixelBuffer {
    /// Colours a pixel; pixels outside are ignored. `cover`: the fraction of the pixel that the colour covers.
    fn dot(&mut self, x: usize, y: usize, colour: Colour, cover: f64) {
        if x >= self.width || y >= self.height {
            return;
        }
        let at = 3 * (y * self.width + x);
        for (byte, colour) in self.pixels[at..at + 3].iter_mut().zip(colour) {
            *byte = (f64::from(*byte) + (f64::from(colour) - f64::from(*byte)) * cover).round() as u8;
        }
    }

    /// Draws a line with smooth edges.
    fn line(&mut self, from: [f64; 2], to: [f64; 2], colour: Colour, width: f64) {
        let half = width / 2.0;
        let (dx, dy) = (to[0] - from[0], to[1] - from[1]);
        let length = dx.hypot(dy);
        let span = |k: usize, most: usize| {
            let (low, high) = (from[k].min(to[k]) - half - 1.0, from[k].max(to[k]) + half + 1.0);
            low.max(0.0) as usize..(high.max(0.0) as usize + 1).min(most)
        };
        for y in span(1, self.height) {
            for x in span(0, self.width) {
                // The middle of the pixel, from the start of the line.
                let (px, py) = (x as f64 + 0.5 - from[0], y as f64 + 0.5 - from[1]);
                let along =
                    if length > 0.0 { ((px * dx + py * dy) / length).clamp(0.0, length) } else { 0.0 };
                let share = if length > 0.0 { along / length } else { 0.0 };
                let far = (px - share * dx).hypot(py - share * dy);
                let cover = (half + 0.5 - far).clamp(0.0, 1.0);
                if cover > 0.0 {
                    self.dot(x, y, colour, cover);
                }
            }
        }
    }
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Escapes a text for XML and HTML, also for attributes.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // XML does not allow these characters.
            '\u{fffe}' | '\u{ffff}' => out.push('\u{fffd}'),
            c => out.push(c),
        }
    }
    out
}
