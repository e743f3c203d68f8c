//! The map of chunks.

use ratatui::style::{Color, Modifier, Style};

use super::super::request::{Cell, Chunks};
use super::Screen;
use super::layout::ScreenLayout;
use crate::print::{Map, count, short_size, thousands};

impl Screen<'_> {
    /// One cell for each chunk, or for several chunks, of which it shows the first.
    pub(super) fn chunks(&mut self, parts: ScreenLayout, chunks: &Chunks) {
        let area = parts.picture();
        let wide = usize::from(area.width.max(1));
        let mut known = [0_u64; 6];
        let (mut least, mut most) = (f64::INFINITY, 0.0_f64);
        for cell in &chunks.cells {
            known[kind(*cell)] += 1;
            if let Cell::Stored { ratio, .. } = cell {
                (least, most) = (least.min(*ratio), most.max(*ratio));
            }
        }
        // Two pixels in a cell of the screen if one per cell does not fit.
        let double = chunks.cells.len() > wide * usize::from(area.height) && self.colours;
        let colour = |cell: Cell| match cell {
            Cell::Stored { ratio, .. } => {
                let share = if most > least { (ratio / least).ln() / (most / least).ln() } else { 0.5 };
                Map::Viridis.at(share.clamp(0.0, 1.0))
            }
            Cell::Zero => [150, 150, 150],
            Cell::Nan => [222, 222, 222],
            Cell::Value => [110, 110, 160],
            Cell::Uninit => [90, 90, 90],
            Cell::Damaged => [230, 40, 40],
        };
        for (k, cell) in chunks.cells.iter().enumerate() {
            let (row, x) = (k / wide, area.x + (k % wide) as u16);
            let Ok(line) = u16::try_from(if double { row / 2 } else { row }) else { break };
            if line >= area.height {
                break;
            }
            let y = area.y + line;
            let [r, g, b] = colour(*cell);
            match (double, row % 2) {
                (true, 0) => self.put(x, y, '\u{2580}', Style::new().fg(Color::Rgb(r, g, b))),
                (true, _) => self.put(x, y, '\u{2580}', Style::new().bg(Color::Rgb(r, g, b))),
                (false, _) => {
                    let style = self.style([r, g, b]);
                    self.put(x, y, LETTERS[kind(*cell)].0, style);
                }
            }
        }
        let y = area.y + area.height;
        let named = |k: usize| format!("{} {}", thousands(known[k]), LETTERS[k].1);
        let there = (0..known.len()).filter(|k| known[*k] > 0).map(named).collect::<Vec<_>>().join(", ");
        let of = if chunks.each > 1 {
            format!("; looked at 1 of {}", thousands(chunks.each))
        } else {
            String::new()
        };
        self.text(
            area.x,
            y,
            &format!("{}: {there}{of}", count(chunks.count, "chunk")),
            area.width,
            Style::new(),
        );
        let ratio = (most > 0.0).then(|| format!("ratio from {least:.2} (dark) to {most:.2} (bright)"));
        let dead = chunks.dead.map(|dead| match dead {
            0 => "no dead space".to_owned(),
            _ => format!("dead space: {}", short_size(dead)),
        });
        let unknown =
            (chunks.undecoded > 0).then(|| format!("{} not decoded", count(chunks.undecoded, "chunk")));
        let text = ratio.into_iter().chain(dead).chain(unknown).collect::<Vec<_>>().join("; ");
        self.text(area.x, y + 1, &text, area.width, Style::new().add_modifier(Modifier::DIM));
    }
}

/// The symbol of a cell of the map of chunks without colours, and its name.
const LETTERS: [(char, &str); 6] = [
    ('\u{2588}', "stored"),
    ('0', "zero"),
    ('n', "NaN"),
    ('v', "one value"),
    ('u', "not set"),
    ('X', "damaged"),
];

fn kind(cell: Cell) -> usize {
    match cell {
        Cell::Stored { .. } => 0,
        Cell::Zero => 1,
        Cell::Nan => 2,
        Cell::Value => 3,
        Cell::Uninit => 4,
        Cell::Damaged => 5,
    }
}
