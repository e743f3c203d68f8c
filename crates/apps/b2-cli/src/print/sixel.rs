//! Pictures as sixels, which terminals compatible with DEC's VT340 show: columns of six pixels, one colour after another.

use std::collections::HashMap;
use std::fmt::Write;

/// Number of colour registers of terminals.
const REGISTERS: usize = 256;

/// Encodes a picture of this shape (rows and columns) from red, green, blue and opacity of each pixel. Pixels whose opacity is
/// 0 keep what is there. Colours are rounded to percents, and further if there are more than 256 of them.
pub(crate) fn encode([rows, columns]: [usize; 2], pixels: &[u8]) -> String {
    let mut out = format!("\x1bP0;1;0q\"1;1;{columns};{rows}");
    let (registers, of_pixels) = registers(pixels);
    for (k, [r, g, b]) in registers.iter().enumerate() {
        let _ = write!(out, "#{k};2;{r};{g};{b}");
    }
    for band in of_pixels.chunks((6 * columns).max(1)) {
        // The colours of the band, in order of their first use.
        let mut there: Vec<u16> = Vec::new();
        let mut seen = [false; REGISTERS];
        for register in band.iter().copied().flatten() {
            if !std::mem::replace(&mut seen[usize::from(register)], true) {
                there.push(register);
            }
        }
        for register in there {
            let _ = write!(out, "#{register}");
            let bits = |x: usize| {
                let rows = band.chunks(columns).enumerate();
                rows.fold(0u8, |bits, (k, row)| bits | u8::from(row[x] == Some(register)) << k)
            };
            let mut x = 0;
            while x < columns {
                let now = bits(x);
                let run = (x..columns).take_while(|x| bits(*x) == now).count();
                let sixel = char::from(63 + now);
                match run {
                    1..=3 => out.extend(std::iter::repeat_n(sixel, run)),
                    _ => {
                        let _ = write!(out, "!{run}{sixel}");
                    }
                }
                x += run;
            }
            out.push('$');
        }
        out.push('-');
    }
    out.push_str("\x1b\\");
    out
}

/// Returns the colours, in percent, and the index of the colour of each pixel.
fn registers(pixels: &[u8]) -> (Vec<[u8; 3]>, Vec<Option<u16>>) {
    // Coarsen until there are few enough: with steps of 2^7 there are at most 8.
    for coarse in 0..8 {
        let (mut known, mut colours) = (HashMap::new(), Vec::new());
        let percent = |c: u8| ((u32::from(c >> coarse << coarse) * 100 + 127) / 255) as u8;
        let of_pixels = pixels.chunks_exact(4).map(|pixel| {
            let colour = [percent(pixel[0]), percent(pixel[1]), percent(pixel[2])];
            (pixel[3] > 0).then(|| {
                *known.entry(colour).or_insert_with(|| {
                    colours.push(colour);
                    (colours.len() - 1) as u16
                })
            })
        });
        let of_pixels: Vec<Option<u16>> = of_pixels.collect();
        if colours.len() <= REGISTERS {
            return (colours, of_pixels);
        }
    }
    (Vec::new(), vec![None; pixels.len() / 4])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Decodes sixels like a terminal, to the percentages of each pixel.
    fn decode(text: &str) -> (usize, Vec<Option<[u8; 3]>>) {
        let body = text.strip_prefix("\x1bP0;1;0q\"1;1;").unwrap().strip_suffix("\x1b\\").unwrap();
        let number = |at: &mut usize| -> usize {
            let digits = body[*at..].bytes().take_while(u8::is_ascii_digit).count();
            let n = body[*at..*at + digits].parse().unwrap();
            *at += digits;
            n
        };
        let mut at = 0;
        let columns = number(&mut at);
        at += 1;
        let rows = number(&mut at);
        let (mut colours, mut now) = (HashMap::new(), 0);
        let mut pixels = vec![None; rows * columns];
        let (mut x, mut y) = (0, 0);
        while at < body.len() {
            let c = body.as_bytes()[at];
            at += 1;
            let mut run = 1;
            match c {
                b'#' => {
                    now = number(&mut at);
                    if body[at..].starts_with(";2;") {
                        at += 3;
                        let mut colour = [0; 3];
                        for (k, part) in colour.iter_mut().enumerate() {
                            at += usize::from(k > 0);
                            *part = number(&mut at) as u8;
                        }
                        colours.insert(now, colour);
                    }
                    continue;
                }
                b'$' => {
                    x = 0;
                    continue;
                }
                b'-' => {
                    (x, y) = (0, y + 6);
                    continue;
                }
                b'!' => {
                    run = number(&mut at);
                    at += 1;
                }
                _ => {}
            }
            let bits = body.as_bytes()[at - 1] - 63;
            for _ in 0..run {
                for k in (0..6).filter(|k| bits >> k & 1 == 1) {
                    pixels[(y + k) * columns + x] = Some(colours[&now]);
                }
                x += 1;
            }
        }
        (columns, pixels)
    }

    #[test]
    fn pixels_come_back() {
        for [rows, columns] in [[1, 1], [6, 3], [7, 20], [13, 1], [40, 31]] {
            let mut pixels = Vec::new();
            for k in 0..rows * columns {
                let grey = (k / 7 % 200) as u8;
                pixels.extend([grey, 255 - grey, 10, if k % 11 == 0 { 0 } else { 255 }]);
            }
            let (wide, seen) = decode(&encode([rows, columns], &pixels));
            assert_eq!(wide, columns);
            let percent = |c: u8| ((f64::from(c)) * 100.0 / 255.0).round() as u8;
            for (pixel, seen) in pixels.chunks(4).zip(seen) {
                let colour = [pixel[0], pixel[1], pixel[2]].map(percent);
                assert_eq!(seen, (pixel[3] > 0).then_some(colour));
            }
        }
    }

    #[test]
    fn many_colours_become_few() {
        let pixels: Vec<u8> =
            (0..10_000_u32).flat_map(|k| [(k % 100) as u8 * 2, (k / 100) as u8 * 2, 7, 255]).collect();
        let (columns, seen) = decode(&encode([100, 100], &pixels));
        assert_eq!(columns, 100);
        for (pixel, seen) in pixels.chunks(4).zip(seen) {
            for (c, percent) in pixel.iter().zip(seen.unwrap()) {
                assert!((f64::from(*c) / 2.55 - f64::from(percent)).abs() < 10.0, "{c} {percent}");
            }
        }
        assert_eq!(decode(&encode([0, 0], &[])).1, []);
    }
}
