//! The grid of values.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::super::app::App;
use super::Screen;
use super::layout::CELL;

impl Screen<'_> {
    pub(super) fn grid(&mut self, area: Rect, app: &App) {
        let Some((axes, texts)) = &app.grid else { return };
        let head = Style::new().add_modifier(Modifier::DIM);
        let Rect { x, y, width, height } = area;
        let end = y + height;
        let item = |dim: usize, k: u64| axes.get(dim).map_or(0, |axis| axis.position(k)).to_string();
        let long = |dim: usize| axes.get(dim).map_or(0, |axis| axis.len);
        let (rows, columns) = match app.dims[..] {
            [rows, columns] => (Some(rows), Some(columns)),
            _ => (app.dims.first().copied(), None),
        };
        let high = rows.map_or(texts.len() as u64, long);
        let high = high.min(u64::from(end.saturating_sub(y + u16::from(columns.is_some()))));
        let wide = columns.map_or(1, long);
        let value = |row: u64, column: u64| {
            // The values are in the order of the file.
            let at = match (rows, columns) {
                (Some(rows), Some(columns)) if rows > columns => column * long(rows) + row,
                _ => row * wide + column,
            };
            texts.get(at as usize).map_or("", |text| text)
        };
        let first = y + u16::from(columns.is_some());
        let mut left = 0;
        let mut put = |screen: &mut Self, heading: Option<String>, cells: &[(&str, Style)]| {
            let texts = cells.iter().map(|(text, _)| *text).chain(heading.as_deref());
            let longest = texts.map(|text| text.chars().count()).max().unwrap_or(0);
            let room = usize::from(width.saturating_sub(left));
            if let Some(heading) = &heading {
                screen.text(x + left, y, &marked(heading, room), room as u16, head);
            }
            for (line, (text, style)) in (first..end).zip(cells) {
                screen.text(x + left, line, &marked(text, room), room as u16, *style);
            }
            left = left.saturating_add(u16::try_from(longest + 1).unwrap_or(u16::MAX).max(CELL));
            left < width
        };
        if let Some(rows) = rows {
            let places: Vec<String> = (0..high).map(|row| item(rows, row)).collect();
            let places: Vec<(&str, Style)> = places.iter().map(|place| (&**place, head)).collect();
            put(self, columns.map(|_| String::new()), &places);
        }
        for column in 0..wide {
            let cells: Vec<(&str, Style)> = (0..high).map(|row| (value(row, column), Style::new())).collect();
            let heading = columns.map(|columns| item(columns, column));
            if !put(self, heading, &cells) {
                break;
            }
        }
    }
}

/// Truncates a text to this many cells, with a mark at the cut.
fn marked(text: &str, room: usize) -> String {
    match text.chars().count() <= room {
        true => text.to_owned(),
        false => text.chars().take(room.saturating_sub(1)).chain(['\u{2026}']).collect(),
    }
}
