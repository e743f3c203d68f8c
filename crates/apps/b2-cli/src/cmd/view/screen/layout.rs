//! The parts of the screen, and which items are where in a picture.

use std::ops::Range;

use ratatui::layout::Rect;

use super::super::app::{App, Mode};
use super::super::graphics::Graphics;

/// Width of the list on the left, and minimum width of the screen for it to be always visible.
const TREE: u16 = 30;
const WIDE: u16 = 90;
/// Width of a cell of the grid, including the gap after it.
pub(super) const CELL: u16 = 13;

/// The parts of the screen.
#[derive(Clone, Copy, Debug)]
pub(in crate::cmd::view) struct ScreenLayout {
    pub(super) tree: Rect,
    pub(super) main: Rect,
    pub(super) status: Rect,
}

impl ScreenLayout {
    pub(in crate::cmd::view) fn of(area: Rect, app: &App) -> Self {
        let tree = match (area.width >= WIDE, app.in_tree) {
            (true, _) => TREE,
            (false, true) => area.width,
            (false, false) => 0,
        };
        let height = area.height.saturating_sub(1);
        let at =
            |x: u16, y: u16, width: u16, height: u16| Rect { x: area.x + x, y: area.y + y, width, height };
        Self {
            tree: at(0, 0, tree.saturating_sub(u16::from(tree > 0)), height),
            main: at(tree, 0, area.width - tree, height),
            status: at(0, height, area.width, area.height.min(1)),
        }
    }

    /// The area of the picture, between a title and two lines below.
    pub(super) fn picture(self) -> Rect {
        let Rect { x, y, width, height } = self.main;
        Rect { x, y: y + height.min(1), width, height: height.saturating_sub(3) }
    }

    /// Room for a picture, in pixels: rows and columns. Without graphics, a cell has two pixels, one above the other.
    pub(in crate::cmd::view) fn pixels(self, graphics: Option<&Graphics>) -> [usize; 2] {
        let area = self.picture();
        let [rows, columns] = grain(graphics, area);
        [rows * usize::from(area.height), columns * usize::from(area.width)].map(|n| n.max(1))
    }

    /// Room for a grid of values: rows and columns.
    pub(in crate::cmd::view) fn cells(self) -> [usize; 2] {
        let Rect { width, height, .. } = self.picture();
        [usize::from(height.saturating_sub(1)), usize::from(width.saturating_sub(CELL) / CELL)]
            .map(|n| n.max(1))
    }
}

/// The position shown at a cell of the screen, in each dimension that is drawn. `None` outside the picture.
pub(in crate::cmd::view) fn pointed(
    area: Rect,
    app: &App,
    graphics: Option<&Graphics>,
    at: [u16; 2],
) -> Option<Vec<u64>> {
    let picture = ScreenLayout::of(area, app).picture();
    if app.mode != Mode::Picture || !picture.contains((at[1], at[0]).into()) {
        return None;
    }
    let (y, x) = (usize::from(at[0] - picture.y), usize::from(at[1] - picture.x));
    match &app.windows[..] {
        [window] => Some(vec![item(window, x, picture.width.into())]),
        [rows, columns] => {
            let grain = grain(graphics, picture);
            let size = size([rows, columns], grain, picture);
            // The middle of the cell.
            let [row, column] = [y * grain[0] + grain[0] / 2, x * grain[1] + grain[1] / 2];
            (row < size[0] && column < size[1])
                .then(|| vec![item(rows, row, size[0]), item(columns, column, size[1])])
        }
        _ => None,
    }
}

/// The size of a picture of these windows in pixels: rows and columns.
pub(super) fn size(windows: [&Range<u64>; 2], grain: [usize; 2], area: Rect) -> [usize; 2] {
    let room = [grain[0] * usize::from(area.height), grain[1] * usize::from(area.width)];
    fit(windows.map(|window| window.end - window.start), room)
}

/// The position in a window that pixel `k` of `size` shows.
pub(super) fn item(window: &Range<u64>, k: usize, size: usize) -> u64 {
    let share = (k as f64 + 0.5) / size as f64;
    window.start + (share * (window.end - window.start) as f64) as u64
}

/// The pixel that shows a position of a window: the inverse of [`item`].
pub(super) fn pixel(window: &Range<u64>, place: u64, size: usize) -> Option<usize> {
    let at = window.contains(&place).then(|| place - window.start)?;
    let share = (at as f64 + 0.5) / (window.end - window.start) as f64;
    Some(((share * size as f64) as usize).min(size.saturating_sub(1)))
}

/// Number of pixels of a cell: rows and columns.
pub(super) fn grain(graphics: Option<&Graphics>, area: Rect) -> [usize; 2] {
    graphics.map_or([2, 1], |graphics| graphics.grain(area))
}

/// The size of a picture of this many items in this space. An item is a square unless it would be too narrow.
pub(super) fn fit(items: [u64; 2], room: [usize; 2]) -> [usize; 2] {
    let scale = [0, 1].map(|d| room[d] as f64 / items[d].max(1) as f64);
    let square = scale[0].min(scale[1]);
    [0, 1].map(|d| {
        let size = (items[d] as f64 * square).round() as usize;
        size.max(room[d] / 4).clamp(1, room[d].max(1))
    })
}
