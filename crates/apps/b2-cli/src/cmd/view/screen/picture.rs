//! Pictures of planes and lines, with the crosshair and the colour bar.

use std::ops::Range;

use ratatui::layout::Rect;
use ratatui::style::{Color, Modifier, Style};

use super::super::app::App;
use super::layout::{ScreenLayout, grain, item, pixel, size};
use super::{Screen, ends};
use crate::print::{Scale, thousands};
use crate::read::sample::LineSample;

/// Dark to bright.
const SHADES: [char; 5] = [' ', '\u{2591}', '\u{2592}', '\u{2593}', '\u{2588}'];

impl Screen<'_> {
    /// Two pixels in a cell.
    fn half_blocks(&mut self, x: u16, y: u16, scale: Scale, pair: [Option<f64>; 2]) {
        if self.colours {
            let colour = |value: Option<f64>| {
                let [r, g, b] = scale.colour(value?).unwrap_or(scale.map.missing());
                Some(Color::Rgb(r, g, b))
            };
            let (c, style) = match (colour(pair[0]), colour(pair[1])) {
                (None, None) => return,
                (Some(above), None) => ('\u{2580}', Style::new().fg(above)),
                (None, Some(below)) => ('\u{2584}', Style::new().fg(below)),
                (Some(above), Some(below)) => ('\u{2580}', Style::new().fg(above).bg(below)),
            };
            return self.put(x, y, c, style);
        }
        let known: Vec<f64> = pair.into_iter().flatten().collect();
        let c = match known[..] {
            [] => return,
            [first, ..] if !known.iter().any(|value| scale.range.is_missing(*value)) => {
                SHADES[((scale.share(first) * 5.0) as usize).min(4)]
            }
            _ => 'x',
        };
        self.put(x, y, c, Style::new());
    }

    /// Draws the known part of the window; after a move, its intersection with the previous window.
    pub(super) fn plane(&mut self, area: Rect, app: &App, at: &[Vec<u64>; 2], values: &[f64]) {
        let (Some(scale), [rows, columns]) = (app.scale, &app.windows[..]) else { return };
        let grain = grain(self.graphics.as_deref(), area);
        let size = size([rows, columns], grain, area);
        let place = |window: &Range<u64>, known: &[u64], size: usize| -> Vec<Option<usize>> {
            (0..size).map(|k| nearest(known, item(window, k, size))).collect()
        };
        let y = place(rows, &at[0], size[0]);
        let x = place(columns, &at[1], size[1]);
        let wide = at[1].len();
        let value = |row: usize, column: usize| {
            let (row, column) = ((*y.get(row)?)?, x[column]?);
            values.get(row * wide + column).copied()
        };
        let cross = match app.cursor.as_deref() {
            Some([row, column]) => pixel(rows, *row, size[0]).zip(pixel(columns, *column, size[1])),
            _ => None,
        };
        if let Some(graphics) = self.graphics.as_deref_mut() {
            let colour = |row: usize, column: usize| {
                let colour = scale.colour(value(row, column)?).unwrap_or(scale.map.missing());
                let is_cross = cross.is_some_and(|cross| is_arm([row, column], cross.into(), grain));
                Some(if is_cross { contrast(colour) } else { colour })
            };
            self.pixels = Some(graphics.draw(self.buffer, area, size, grain, colour));
            return;
        }
        for line in 0..size[0].div_ceil(2) {
            for column in 0..size[1] {
                let pair = [value(2 * line, column), value(2 * line + 1, column)];
                self.half_blocks(area.x + column as u16, area.y + line as u16, scale, pair);
            }
        }
        if let Some((row, column)) = cross {
            self.crosshair(area, [row / 2, column], [size[0].div_ceil(2), size[1]]);
        }
    }

    /// Draws four arms around a cell over the existing colours.
    fn crosshair(&mut self, area: Rect, [y, x]: [usize; 2], size: [usize; 2]) {
        let arms = (1..=3).flat_map(|k| [([0, k], '\u{2500}'), ([0, -k], '\u{2500}')]);
        let arms = arms.chain((1..=2).flat_map(|k| [([k, 0], '\u{2502}'), ([-k, 0], '\u{2502}')]));
        for ([down, right], c) in arms {
            let (Some(y), Some(x)) = (y.checked_add_signed(down), x.checked_add_signed(right)) else {
                continue;
            };
            if y >= size[0] || x >= size[1] {
                continue;
            }
            let (x, y) = (area.x + x as u16, area.y + y as u16);
            let style = match self.buffer.cell((x, y)).map(|cell| cell.fg) {
                Some(Color::Rgb(r, g, b)) => {
                    let [dark, _, _] = contrast([r, g, b]);
                    Style::new().bg(Color::Rgb(r, g, b)).fg(Color::Rgb(dark, dark, dark))
                }
                _ => Style::new(),
            };
            self.put(x, y, c, style);
        }
    }

    /// Draws a line as bars from the smallest to the largest item of each column.
    pub(super) fn line(&mut self, area: Rect, app: &App, known: &Range<u64>, line: &LineSample) {
        let (Some(scale), [window]) = (app.scale, &app.windows[..]) else { return };
        let (high, count) = (2 * i64::from(area.height), line.columns.len() as u64);
        let style = self.style([90, 160, 230]);
        if let Some(column) =
            app.cursor.as_ref().and_then(|cursor| pixel(window, *cursor.first()?, area.width.into()))
        {
            for y in area.y..area.y + area.height {
                self.put(area.x + column as u16, y, '\u{2502}', Style::new());
            }
        }
        for column in 0..area.width {
            let item = item(window, column.into(), area.width.into());
            if !known.contains(&item) || count == 0 {
                continue;
            }
            let k = u128::from(item - known.start) * u128::from(count) / u128::from(known.end - known.start);
            let Some(found) = line.columns.get(k as usize) else { continue };
            let x = area.x + column;
            if found.count == 0 {
                for y in area.y..area.y + area.height {
                    self.put(x, y, SHADES[1], Style::new());
                }
                continue;
            }
            // Half cells from the top.
            let half = |value: f64| ((1.0 - scale.share(value)) * (high - 1) as f64).round() as i64;
            let (top, bottom) = (half(found.high), half(found.low));
            for y in top / 2..=bottom / 2 {
                let c = match (2 * y < top, 2 * y + 1 > bottom) {
                    (true, _) => '\u{2584}',
                    (_, true) => '\u{2580}',
                    _ => '\u{2588}',
                };
                self.put(x, area.y + y as u16, c, style);
            }
        }
    }

    /// The colour bar, and what is left out.
    pub(super) fn below(&mut self, parts: ScreenLayout, app: &App, every: u64, each: u64) {
        let Rect { x, width, .. } = parts.main;
        let y = parts.main.y + parts.main.height.saturating_sub(2);
        let Some(scale) = app.scale else { return };
        let [low, high] = ends(app, scale);
        self.text(x, y, &low, width, Style::new());
        let start = low.chars().count() as u16 + 1;
        let bar = 20.min(width.saturating_sub(start));
        for k in 0..bar {
            let share = f64::from(k) / f64::from(bar.max(2) - 1);
            match self.colours {
                true => self.put(x + start + k, y, '\u{2588}', self.style(scale.map.at(share))),
                false => self.put(x + start + k, y, SHADES[((share * 5.0) as usize).min(4)], Style::new()),
            }
        }
        let at = start + bar + 1;
        let unit = app.facts.as_ref().map_or("", |facts| &facts.unit);
        let log = if scale.log { "  log" } else { "" };
        let rest = width.saturating_sub(at);
        let text = format!("{high} {unit}{log}  missing: ");
        self.text(x + at, y, &text, rest, Style::new());
        let mark = at + text.chars().count() as u16;
        if mark < width {
            match self.colours {
                true => self.put(x + mark, y, '\u{2588}', self.style(scale.map.missing())),
                false => self.put(x + mark, y, 'x', Style::new()),
            }
        }
        let mut notes = Vec::new();
        let cursor = app.under_cursor();
        match app.dims[..] {
            _ if cursor.is_some() => notes.extend(cursor.clone()),
            [dim] => notes.push(format!("along: {}", app.name(dim))),
            [rows, columns] => notes.push(format!("down: {}, across: {}", app.name(rows), app.name(columns))),
            _ => {}
        }
        if each > 1 {
            notes.push(format!("1 item of {}", thousands(each)));
        }
        if every > 1 {
            notes.push(format!("1 block of {}", thousands(every)));
        }
        let weight = if cursor.is_some() { Modifier::BOLD } else { Modifier::DIM };
        self.text(x, y + 1, &notes.join("   "), width, Style::new().add_modifier(weight));
    }
}

/// Black or white, whichever stands out from this colour.
fn contrast([r, g, b]: [u8; 3]) -> [u8; 3] {
    let bright = 3 * u32::from(r) + 6 * u32::from(g) + u32::from(b);
    [if bright > 1280 { 0 } else { 255 }; 3]
}

/// Whether a pixel is in an arm of the crosshair; arms are a sixth of a cell wide, three cells long, with a gap in the middle.
fn is_arm([row, column]: [usize; 2], [y, x]: [usize; 2], grain: [usize; 2]) -> bool {
    let (down, right) = (row.abs_diff(y), column.abs_diff(x));
    let (near, long) = (grain[1] / 6, 3 * grain[1]);
    let arm = |along: usize, across: usize| across <= near && (grain[1] / 2 + 1..=long).contains(&along);
    arm(down, right) || arm(right, down)
}

/// The position of the pixel that is nearest to an item; `None` if the item is outside the known part.
pub(super) fn nearest(known: &[u64], item: u64) -> Option<usize> {
    let (first, last) = (*known.first()?, *known.last()?);
    let apart = known.get(1).map_or(1, |second| second - first);
    if item.saturating_add(apart) < first || item > last.saturating_add(apart) {
        return None;
    }
    let next = known.partition_point(|k| *k < item);
    let before = next.saturating_sub(1);
    match known.get(next) {
        Some(k) if k - item < item.abs_diff(known[before]) || next == 0 => Some(next),
        _ => Some(before),
    }
}
