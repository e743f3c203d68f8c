//! Pictures in a terminal.

/// Draws two rows of pixels per line of text. `None`: no colour.
pub(crate) fn half_blocks(pixels: &[Option<[u8; 3]>], width: usize) -> String {
    let mut out = String::new();
    let rows: Vec<_> = pixels.chunks(width.max(1)).collect();
    for pair in rows.chunks(2) {
        for column in 0..width {
            let pixel = |row: usize| pair.get(row).and_then(|row| row.get(column).copied().flatten());
            out.push_str(&match (pixel(0), pixel(1)) {
                (None, None) => "\x1b[0m ".into(),
                (Some([r, g, b]), None) => format!("\x1b[0;38;2;{r};{g};{b}m\u{2580}"),
                (None, Some([r, g, b])) => format!("\x1b[0;38;2;{r};{g};{b}m\u{2584}"),
                (Some([r, g, b]), Some([s, h, c])) => {
                    format!("\x1b[0;38;2;{r};{g};{b};48;2;{s};{h};{c}m\u{2580}")
                }
            });
        }
        out.push_str("\x1b[0m\n");
    }
    out
}

/// Whether the user wants colours in a terminal, and the terminal supports them (<https://no-color.org>).
pub(crate) fn colours() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && !console::is_dumb()
}

/// Width of the terminal on standard output, in columns.
pub(crate) fn columns() -> usize {
    let variable = || std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    #[cfg(unix)]
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok().map(|size| usize::from(size.ws_col));
    #[cfg(not(unix))]
    let size: Option<usize> = None;
    size.filter(|columns| *columns > 0).or_else(variable).unwrap_or(80).clamp(1, 500)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_rows_are_one_line() {
        let (red, none) = (Some([255, 0, 0]), None);
        let picture = half_blocks(&[red, none, red, none, red, none], 2);
        assert_eq!(picture.lines().count(), 2);
        assert!(picture.contains("38;2;255;0;0;48;2;255;0;0m\u{2580}"), "{picture:?}");
    }
}
