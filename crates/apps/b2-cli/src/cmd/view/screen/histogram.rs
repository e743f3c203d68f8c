//! The histogram.

use ratatui::layout::Rect;
use ratatui::style::{Modifier, Style};

use super::super::app::{App, Sample};
use super::{Screen, ends};
use crate::print::thousands;

/// A quarter, a half and so on of a cell, from below.
const BARS: [char; 8] =
    ['\u{2581}', '\u{2582}', '\u{2583}', '\u{2584}', '\u{2585}', '\u{2586}', '\u{2587}', '\u{2588}'];

impl Screen<'_> {
    pub(super) fn histogram(&mut self, area: Rect, app: &App) {
        let Some(scale) = app.scale else { return };
        // The numbers, the number of items in the window, and whether the numbers are complete.
        let (values, total, all): (Vec<f64>, u64, bool) = match &app.sample {
            Some(Sample::Plane { plane, windows, .. }) => {
                let total = windows.iter().map(|window| window.end - window.start).product();
                (plane.values.clone(), total, plane.every == 1 && plane.steps == [1, 1])
            }
            Some(Sample::Line { line, window }) => {
                let total = window.end - window.start;
                let first = line.columns.iter().map(|column| column.first).collect();
                (first, total, line.every == 1 && line.columns.len() as u64 == total)
            }
            None => return,
        };
        let bins = usize::from(area.width.saturating_sub(1)).clamp(1, 64);
        let mut counts = vec![0_u64; bins];
        let mut missing = 0_u64;
        for value in &values {
            if scale.range.is_missing(*value) {
                missing += 1;
            } else if (scale.range.low..=scale.range.high).contains(value) {
                counts[((scale.share(*value) * bins as f64) as usize).min(bins - 1)] += 1;
            }
        }
        let most = counts.iter().copied().max().unwrap_or(0).max(1);
        let high = u64::from(area.height);
        for (k, count) in counts.iter().enumerate() {
            // In eighths of a cell; a bin that is not empty is at least one high.
            let eighths = (count * high * 8 / most).max(u64::from(*count > 0));
            let share = (k as f64 + 0.5) / bins as f64;
            let style = self.style(scale.map.at(share));
            for row in 0..high {
                let left = eighths.saturating_sub(8 * row).min(8);
                if left > 0 {
                    let y = area.y + area.height - 1 - row as u16;
                    self.put(area.x + k as u16, y, BARS[left as usize - 1], style);
                }
            }
        }
        let y = area.y + area.height;
        let [low, high] = ends(app, scale);
        let log = if scale.log { ", logarithmic" } else { "" };
        self.text(area.x, y, &format!("from {low} to {high}{log}"), area.width, Style::new());
        let items = match all {
            true => format!("all {} items", thousands(total)),
            false => format!("a sample of {} of {} items", thousands(values.len() as u64), thousands(total)),
        };
        let text = format!("{items}, {} missing, at most {} in a bar", thousands(missing), thousands(most));
        self.text(area.x, y + 1, &text, area.width, Style::new().add_modifier(Modifier::DIM));
    }
}
