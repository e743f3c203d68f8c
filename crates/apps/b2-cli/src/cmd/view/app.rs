//! The state of the screen, and the effects of keys on it. Independent of the terminal and of files.

use std::ops::Range;

use super::request::{Chunks, FileFacts, Item, ViewData, ViewRequest, ViewResponse};
use crate::print::{Map, Scale, count, printable};
use crate::read::Axis;
use crate::read::sample::{LineSample, PlaneSample};
use b2_view::limits::{Limits, scale};
use b2_view::ticks::ValueFormat;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Key {
    Char(char),
    Up,
    Down,
    Left,
    Right,
    PageUp,
    PageDown,
    Home,
    End,
    Enter,
    Escape,
    Tab,
    Backspace,
    /// Ctrl-C.
    Interrupt,
}

/// The view on the right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Mode {
    Picture,
    PixelGrid,
    Histogram,
    Chunks,
}

impl Mode {
    pub(super) const ALL: [(Self, &'static str); 4] = [
        (Self::Picture, "picture"),
        (Self::PixelGrid, "values"),
        (Self::Histogram, "histogram"),
        (Self::Chunks, "chunks"),
    ];
}

/// The sampled numbers, and the part of the file that they represent.
#[derive(Clone, Debug)]
pub(super) enum Sample {
    Plane { dims: [usize; 2], windows: [Range<u64>; 2], axes: Vec<Axis>, plane: PlaneSample },
    Line { window: Range<u64>, line: LineSample },
}

/// The ranges that a key cycles through; `None` is from the smallest to the largest value.
const RANGES: [Option<Limits>; 3] =
    [None, Some(Limits::Shares(0.01, 0.99)), Some(Limits::Shares(0.05, 0.95))];

#[derive(Clone, Debug)]
pub(super) struct App {
    pub(super) file: String,
    pub(super) members: Vec<String>,
    pub(super) key: Option<String>,
    refresh: u64,
    pub(super) follow: bool,
    pub(super) facts: Option<FileFacts>,
    pub(super) mode: Mode,
    /// The initial field, and the index of the current one.
    asked: Option<String>,
    pub(super) field: usize,
    /// The selected items of the file along all dimensions, and the current position in each, for dimensions that
    /// are not drawn.
    pub(super) axes: Vec<Axis>,
    pub(super) at: Vec<u64>,
    /// The dimensions that are drawn: rows and columns, one, or none.
    pub(super) dims: Vec<usize>,
    /// The window of each of these.
    pub(super) windows: Vec<Range<u64>>,
    /// The start of the grid of values in each of these.
    pub(super) corner: Vec<u64>,
    /// The position of the crosshair in each of these, and whether the arrow keys move it.
    pub(super) cursor: Option<Vec<u64>>,
    pub(super) steers: bool,
    /// The last item read for the crosshair.
    pub(super) item: Option<Item>,
    /// The dimension that the keys `,` and `.` move along.
    pub(super) along: Option<usize>,
    pub(super) map: Map,
    pub(super) log: bool,
    pub(super) limits: Option<Limits>,
    /// Whether the list on the left has the focus, its selected line, and its scroll position.
    pub(super) in_tree: bool,
    pub(super) line: usize,
    pub(super) sample: Option<Sample>,
    /// The colours for the sample.
    pub(super) scale: Option<Scale>,
    pub(super) grid: Option<(Vec<Axis>, Vec<String>)>,
    pub(super) chunks: Option<Chunks>,
    pub(super) message: Option<String>,
    /// Whether something is being read.
    pub(super) reading: bool,
    pub(super) help: bool,
    /// The index typed so far.
    pub(super) prompt: Option<String>,
    pub(super) quit: bool,
}

impl App {
    pub(super) fn new(file: &str, key: Option<String>, map: Map, log: bool, limits: Option<Limits>) -> Self {
        Self {
            file: printable(file),
            members: Vec::new(),
            key,
            refresh: 0,
            follow: false,
            facts: None,
            mode: Mode::Picture,
            asked: None,
            field: 0,
            axes: Vec::new(),
            at: Vec::new(),
            dims: Vec::new(),
            windows: Vec::new(),
            corner: Vec::new(),
            cursor: None,
            steers: false,
            item: None,
            along: None,
            map,
            log,
            limits,
            in_tree: false,
            line: 0,
            sample: None,
            scale: None,
            grid: None,
            chunks: None,
            message: None,
            reading: true,
            help: false,
            prompt: None,
            quit: false,
        }
    }

    /// Sets the initial field.
    pub(super) fn with_field(self, field: Option<String>) -> Self {
        Self { asked: field, ..self }
    }

    /// The data needed for a screen with room for this many pixels (rows, columns) and cells of values.
    pub(super) fn look(&self, pixels: [usize; 2], cells: [usize; 2]) -> ViewRequest {
        let what = match (&self.facts, self.mode) {
            (None, _) => ViewData::Facts,
            (Some(_), Mode::PixelGrid) if self.axes.iter().all(|axis| axis.len > 0) => {
                ViewData::PixelGrid { axes: self.grid_axes(cells) }
            }
            (Some(_), Mode::Chunks) => ViewData::Chunks { most: pixels[0] * pixels[1] },
            (Some(facts), Mode::Picture | Mode::Histogram) => {
                // A histogram counts all items unless there are too many.
                let (most, longest) = match self.mode {
                    Mode::Histogram => ([1 << 10; 2], 1 << 20),
                    _ => (pixels, pixels[1]),
                };
                match (self.dims.as_slice(), facts.fields.get(self.field)) {
                    ([dim], Some(field)) => ViewData::Line {
                        field: field.clone(),
                        axes: self.shown_axes(),
                        dim: *dim,
                        window: self.windows[0].clone(),
                        most: longest,
                    },
                    ([rows, columns], Some(field)) => ViewData::Plane {
                        field: field.clone(),
                        axes: self.shown_axes(),
                        dims: [*rows, *columns],
                        windows: [self.windows[0].clone(), self.windows[1].clone()],
                        most,
                    },
                    _ => ViewData::Facts,
                }
            }
            _ => ViewData::Facts,
        };
        let item = self.item_axes();
        ViewRequest { key: self.key.clone(), refresh: self.refresh, what, item }
    }

    /// The axes, reduced to the current position for dimensions that are not drawn.
    pub(super) fn shown_axes(&self) -> Vec<Axis> {
        let single = |(dim, axis): (usize, &Axis)| match self.dims.contains(&dim) {
            true => *axis,
            false => Axis { step: 1, dropped: true, ..axis.part(self.at[dim], self.at[dim] + 1) },
        };
        self.axes.iter().enumerate().map(single).collect()
    }

    /// The item at the crosshair, if there is one.
    fn item_axes(&self) -> Option<Vec<Axis>> {
        let cursor = self.cursor.as_ref().filter(|_| self.mode == Mode::Picture && self.facts.is_some())?;
        let mut axes = self.shown_axes();
        for (dim, place) in self.dims.iter().zip(cursor) {
            axes[*dim] = Axis { step: 1, dropped: true, ..self.axes[*dim].part(*place, place + 1) };
        }
        Some(axes)
    }

    /// Index, coordinates and value of the item at the crosshair; without the last two until they are read.
    pub(super) fn under_cursor(&self) -> Option<String> {
        let axes = self.item_axes()?;
        let index = axes.iter().map(|axis| axis.start.to_string()).collect::<Vec<_>>().join(", ");
        let Some(item) = self.item.as_ref().filter(|item| item.axes == axes) else {
            return Some(format!("[{index}]"));
        };
        let points = item.points.iter().enumerate().filter_map(|(dim, point)| {
            let point = point.as_ref()?;
            Some(format!("{} {point}", self.name(dim)))
        });
        let points = points.collect::<Vec<_>>().join(", ");
        let unit = self.facts.as_ref().map_or("", |facts| &facts.unit);
        let gap = if points.is_empty() { "" } else { "  " };
        Some(format!("[{index}]{gap}{points}: {} {unit}", item.value).trim_end().to_owned())
    }

    /// The items of the grid: as many as there are cells, from the start of the window.
    fn grid_axes(&self, cells: [usize; 2]) -> Vec<Axis> {
        let mut axes = self.shown_axes();
        for (k, dim) in self.dims.iter().enumerate() {
            let room = if self.dims.len() == 1 { cells[0] * cells[1] } else { cells[k] } as u64;
            let start = self.corner[k];
            axes[*dim] = self.axes[*dim].part(start, start.saturating_add(room).min(self.axes[*dim].len));
        }
        axes
    }

    /// Handles a response of the reader.
    pub(super) fn handle(&mut self, response: ViewResponse) {
        match response {
            ViewResponse::Members(members) => {
                if self.key.is_none() {
                    self.key = members.first().cloned();
                    if members.is_empty() {
                        self.message = Some("a store without members".into());
                    }
                }
                self.in_tree = true;
                self.line = 0;
                self.members = members;
            }
            ViewResponse::Opened(key, facts) if self.members.is_empty() || key == self.key => {
                self.open(*facts)
            }
            ViewResponse::Opened(..) => {}
            ViewResponse::Plane { dims, windows, axes, plane } => {
                self.scale_to(&plane.values);
                self.sample = Some(Sample::Plane { dims, windows, axes, plane });
            }
            ViewResponse::Line { window, line } => {
                let ends: Vec<f64> =
                    line.columns.iter().flat_map(|column| [column.low, column.high]).collect();
                self.scale_to(&ends);
                self.sample = Some(Sample::Line { window, line });
            }
            ViewResponse::PixelGrid { axes, texts } => self.grid = Some((axes, texts)),
            ViewResponse::Chunks(chunks) => self.chunks = Some(chunks),
            ViewResponse::Item(item) => self.item = Some(item),
            ViewResponse::Done => self.reading = false,
            ViewResponse::Failed(message) => {
                self.message = Some(message);
                self.reading = false;
            }
        }
    }

    /// Shows another file or member, or the same one after a change.
    fn open(&mut self, facts: FileFacts) {
        let same = self.axes.len() == facts.axes.len() && self.facts.is_some();
        let old: Vec<u64> = self.axes.iter().map(|axis| axis.len).collect();
        self.axes.clone_from(&facts.axes);
        if same && !self.dims.is_empty() {
            // After a change the view keeps its position; a dimension that was shown completely is shown completely again.
            for (k, dim) in self.dims.iter().enumerate() {
                let len = self.axes[*dim].len;
                let window = &mut self.windows[k];
                *window = match *window == (0..old[*dim]) {
                    true => 0..len,
                    false => window.start.min(len.saturating_sub(1))..window.end.min(len),
                };
                self.corner[k] = self.corner[k].min(len.saturating_sub(1));
                if let Some(place) = self.cursor.as_mut().and_then(|cursor| cursor.get_mut(k)) {
                    *place = (*place).min(len.saturating_sub(1));
                }
            }
            for (at, axis) in self.at.iter_mut().zip(&self.axes) {
                *at = (*at).min(axis.len.saturating_sub(1));
            }
            // A new number, so that the file is read although nothing else in the request changed.
            self.refresh += 1;
        } else {
            self.at = self.axes.iter().map(|axis| axis.len / 2).collect();
            let long: Vec<usize> = (0..self.axes.len())
                .filter(|dim| !self.axes[*dim].dropped && self.axes[*dim].len > 1)
                .collect();
            self.dims = long[long.len().saturating_sub(2)..].to_vec();
            self.along = long.len().checked_sub(3).map(|k| long[k]);
            self.whole();
            (self.cursor, self.steers) = (None, false);
            let asked = self.asked.as_ref();
            let named = |field: &Option<String>| asked.is_some() && field.as_ref() == asked;
            self.field = facts.fields.iter().position(named).unwrap_or(0);
            if let Some(field) = asked.filter(|_| !facts.fields.iter().any(named)) {
                self.message = Some(format!("--field {}: no such field can be drawn", printable(field)));
            }
            if facts.fields.is_empty() || self.dims.is_empty() {
                self.mode = Mode::PixelGrid;
            }
            (self.sample, self.scale) = (None, None);
        }
        if self.axes.iter().any(|axis| axis.len == 0) {
            self.dims.clear();
            self.windows.clear();
            (self.cursor, self.steers) = (None, false);
            self.message = Some("there are no items".into());
        }
        (self.grid, self.chunks, self.item) = (None, None, None);
        self.facts = Some(facts);
    }

    /// Shows the dimensions that are drawn completely.
    fn whole(&mut self) {
        self.windows = self.dims.iter().map(|dim| 0..self.axes[*dim].len).collect();
        self.start_grid();
    }

    /// The grid starts where the picture does.
    fn start_grid(&mut self) {
        self.corner = self.windows.iter().map(|window| window.start).collect();
    }

    fn set_mode(&mut self, mode: Mode) {
        self.mode = mode;
        self.start_grid();
    }

    fn scale_to(&mut self, values: &[f64]) {
        let are_floats = self.facts.as_ref().is_some_and(|facts| facts.is_float);
        self.scale = scale(values, self.limits, self.map, self.log, are_floats).ok();
    }

    /// Recomputes the colours of the current sample.
    fn rescale(&mut self) {
        match self.sample.take() {
            Some(Sample::Plane { dims, windows, axes, plane }) => {
                self.handle(ViewResponse::Plane { dims, windows, axes, plane })
            }
            Some(Sample::Line { window, line }) => self.handle(ViewResponse::Line { window, line }),
            None => {}
        }
    }

    pub(super) fn key(&mut self, key: Key) {
        if key == Key::Interrupt {
            self.quit = true;
            return;
        }
        if self.help {
            self.help = false;
            return;
        }
        self.message = None;
        if let Some(text) = self.prompt.take() {
            return self.type_index(text, key);
        }
        match key {
            Key::Char('q') => self.quit = true,
            Key::Char('?') => self.help = true,
            Key::Tab => {
                self.in_tree = !self.in_tree;
                if self.in_tree && self.members.is_empty() {
                    self.message = Some("the file has no members to choose".into());
                }
            }
            Key::Char('1') => self.set_mode(Mode::Picture),
            Key::Char('2') => self.set_mode(Mode::PixelGrid),
            Key::Char('3') => self.set_mode(Mode::Histogram),
            Key::Char('4') => self.set_mode(Mode::Chunks),
            Key::Char('v') => {
                let next = Mode::ALL.iter().position(|(mode, _)| *mode == self.mode).unwrap_or(0) + 1;
                self.set_mode(Mode::ALL[next % Mode::ALL.len()].0);
            }
            Key::Char('r') => self.refresh += 1,
            Key::Char('f') => self.follow = !self.follow,
            _ if self.in_tree && !self.members.is_empty() => self.key_in_tree(key),
            _ => self.key_in_picture(key),
        }
    }

    /// Reads the file again in follow mode.
    pub(super) fn tick(&mut self) {
        if self.follow && !self.reading {
            self.refresh += 1;
        }
    }

    fn key_in_tree(&mut self, key: Key) {
        let last = self.members.len().saturating_sub(1);
        self.line = match key {
            Key::Up => self.line.saturating_sub(1),
            Key::Down => (self.line + 1).min(last),
            Key::PageUp => self.line.saturating_sub(10),
            Key::PageDown => (self.line + 10).min(last),
            Key::Home => 0,
            Key::End => last,
            Key::Enter | Key::Right => {
                let member = self.members.get(self.line).cloned();
                if member != self.key {
                    self.key = member;
                    self.facts = None;
                    self.mode = Mode::Picture;
                }
                self.in_tree = false;
                return;
            }
            _ => return self.key_in_picture(key),
        };
    }

    fn key_in_picture(&mut self, key: Key) {
        let ndim = self.dims.len();
        match key {
            Key::Left => self.arrow(ndim.wrapping_sub(1), -1),
            Key::Right => self.arrow(ndim.wrapping_sub(1), 1),
            Key::Up => self.arrow(ndim.wrapping_sub(2), -1),
            Key::Down => self.arrow(ndim.wrapping_sub(2), 1),
            Key::Char('i') if self.steers => (self.cursor, self.steers) = (None, false),
            Key::Char('i') => self.begin_to_steer(),
            Key::Escape => (self.cursor, self.steers) = (None, false),
            Key::Char('+' | '=') => self.zoom(true),
            Key::Char('-' | '_') => self.zoom(false),
            Key::Char('0') => self.whole(),
            Key::Char('.' | ']') => self.walk(1),
            Key::Char(',' | '[') => self.walk(-1),
            Key::PageDown => self.walk(self.leap()),
            Key::PageUp => self.walk(-self.leap()),
            Key::Home => self.walk(i64::MIN),
            Key::End => self.walk(i64::MAX),
            Key::Char('x') if ndim == 2 => {
                self.dims.swap(0, 1);
                self.windows.swap(0, 1);
                self.corner.swap(0, 1);
                if let Some(cursor) = &mut self.cursor {
                    cursor.reverse();
                }
            }
            Key::Char('d') => self.next_dimension(),
            Key::Char('o') => self.draw_along(),
            Key::Char('c') => {
                let at = Map::ALL.iter().position(|map| *map == self.map).unwrap_or(0);
                self.map = Map::ALL[(at + 1) % Map::ALL.len()];
                self.rescale();
            }
            Key::Char('l') => {
                self.log = !self.log;
                self.rescale();
            }
            Key::Char('p') => {
                let at = RANGES.iter().position(|limits| *limits == self.limits).unwrap_or(RANGES.len() - 1);
                self.limits = RANGES[(at + 1) % RANGES.len()];
                self.rescale();
            }
            Key::Char('n') => {
                let count = self.facts.as_ref().map_or(0, |facts| facts.fields.len());
                if count > 0 {
                    self.field = (self.field + 1) % count;
                }
            }
            Key::Char('g') => self.prompt = Some(String::new()),
            _ => {}
        }
    }

    /// Moves the window along a dimension that is drawn: by an eighth of the window, or by one item in the grid.
    fn pan(&mut self, k: usize, sign: i64) {
        let (Some(dim), Some(window)) = (self.dims.get(k), self.windows.get_mut(k)) else { return };
        let (len, wide) = (self.axes[*dim].len, window.end - window.start);
        if self.mode == Mode::PixelGrid {
            let corner = &mut self.corner[k];
            *corner = if sign < 0 { corner.saturating_sub(1) } else { (*corner + 1).min(len - 1) };
            return;
        }
        let step = (wide / 8).max(1);
        let start =
            if sign < 0 { window.start.saturating_sub(step) } else { window.start.saturating_add(step) };
        let start = start.min(len - wide.min(len));
        *window = start..start.saturating_add(wide).min(len);
    }

    fn arrow(&mut self, k: usize, sign: i64) {
        match self.steers && self.mode == Mode::Picture {
            true => self.steer(k, sign),
            false => self.pan(k, sign),
        }
    }

    /// Shows the crosshair, initially in the middle of the picture.
    fn begin_to_steer(&mut self) {
        if self.dims.is_empty() {
            return;
        }
        self.set_mode(Mode::Picture);
        (self.steers, self.in_tree) = (true, false);
        let middle = || self.windows.iter().map(|window| (window.start + window.end) / 2).collect();
        self.cursor.get_or_insert_with(middle);
    }

    /// Moves the crosshair to the next pixel, and the window with it.
    fn steer(&mut self, k: usize, sign: i64) {
        let Some(place) = self.cursor.as_ref().and_then(|cursor| cursor.get(k)).copied() else { return };
        let len = self.axes[self.dims[k]].len;
        let (known, apart): (&[u64], u64) = match &self.sample {
            Some(Sample::Plane { dims, windows, plane, .. })
                if self.dims == *dims && windows[k] == self.windows[k] =>
            {
                let known = &plane.at[k];
                (known, known.windows(2).map(|pair| pair[1].saturating_sub(pair[0])).max().unwrap_or(1))
            }
            Some(Sample::Line { window, line }) if self.dims.len() == 1 => {
                (&[], (window.end - window.start) / line.columns.len().max(1) as u64)
            }
            _ => (&[], 1),
        };
        let next = match sign < 0 {
            true => known.iter().rev().find(|next| **next < place).copied(),
            false => known.iter().find(|next| **next > place).copied(),
        };
        let apart = apart.max(1);
        let next = next.unwrap_or(match sign < 0 {
            true => place.saturating_sub(apart),
            false => place.saturating_add(apart).min(len.saturating_sub(1)),
        });
        let window = &mut self.windows[k];
        let wide = window.end - window.start;
        if !window.contains(&next) {
            // The crosshair is then an eighth of the window from the edge.
            let margin = wide / 8;
            let start = match sign < 0 {
                true => next.saturating_sub(margin),
                false => next.saturating_add(margin + 1).saturating_sub(wide),
            };
            let start = start.min(len.saturating_sub(wide));
            *window = start..start + wide;
        }
        if let Some(cursor) = &mut self.cursor {
            cursor[k] = next;
        }
    }

    /// Moves the crosshair to the mouse position, given in each dimension that is drawn.
    pub(super) fn point(&mut self, places: Vec<u64>) {
        if !self.help && self.prompt.is_none() && places.len() == self.dims.len() {
            self.cursor = Some(places);
        }
    }

    /// Zooms around the crosshair, if there is one.
    pub(super) fn zoom(&mut self, closer: bool) {
        for (k, (dim, window)) in self.dims.iter().zip(&mut self.windows).enumerate() {
            let (len, wide) = (self.axes[*dim].len, window.end - window.start);
            let place = self.cursor.as_ref().and_then(|cursor| cursor.get(k)).copied();
            let middle = place.unwrap_or(window.start + wide / 2);
            let wide = if closer { (wide / 2).max(2.min(len)) } else { wide.saturating_mul(2).min(len) };
            let start = middle.saturating_sub(wide / 2).min(len - wide);
            *window = start..start + wide;
        }
    }

    /// A tenth of the dimension that the keys move along.
    fn leap(&self) -> i64 {
        let len = self.along.map_or(0, |dim| self.axes[dim].len);
        i64::try_from(len / 10).unwrap_or(i64::MAX).max(1)
    }

    /// Goes to another plane.
    fn walk(&mut self, by: i64) {
        let Some(dim) = self.along else {
            self.message = Some("there is no other plane".into());
            return;
        };
        let last = self.axes[dim].len.saturating_sub(1);
        self.at[dim] = match by {
            0.. => self.at[dim].saturating_add(by.unsigned_abs()).min(last),
            _ => self.at[dim].saturating_sub(by.unsigned_abs()),
        };
    }

    /// The dimensions that are not drawn but could be.
    fn others(&self) -> Vec<usize> {
        let other =
            |dim: &usize| !self.dims.contains(dim) && !self.axes[*dim].dropped && self.axes[*dim].len > 1;
        (0..self.axes.len()).filter(other).collect()
    }

    fn next_dimension(&mut self) {
        let others = self.others();
        let at = self.along.and_then(|along| others.iter().position(|dim| *dim == along));
        self.along = others.get(at.map_or(0, |at| (at + 1) % others.len().max(1))).copied();
    }

    /// Draws the dimension that the keys move along as rows, and lets the keys move along the previous rows.
    fn draw_along(&mut self) {
        if let (Some(dim), [rows, _]) = (self.along, &mut self.dims[..]) {
            let old = std::mem::replace(rows, dim);
            let middle = (self.windows[0].start + self.windows[0].end) / 2;
            self.at[old] = self.cursor.as_ref().map_or(middle, |cursor| cursor[0]);
            self.windows[0] = 0..self.axes[dim].len;
            if let Some(cursor) = &mut self.cursor {
                cursor[0] = self.at[dim];
            }
            self.along = Some(old);
            self.start_grid();
        }
    }

    fn type_index(&mut self, mut text: String, key: Key) {
        match key {
            Key::Char(c) if (c.is_ascii_digit() || matches!(c, ',' | '-' | ' ')) && text.len() < 200 => {
                text.push(c)
            }
            Key::Backspace => drop(text.pop()),
            Key::Escape => return,
            Key::Enter => {
                if let Err(message) = self.go(&text) {
                    self.message = Some(message);
                }
                return;
            }
            _ => {}
        }
        self.prompt = Some(text);
    }

    /// Goes to the item with these indices: shows its plane, centred on it.
    fn go(&mut self, text: &str) -> Result<(), String> {
        let dims: Vec<usize> = (0..self.axes.len()).filter(|dim| !self.axes[*dim].dropped).collect();
        let parts: Vec<&str> = text.split([',', ' ']).filter(|part| !part.is_empty()).collect();
        if parts.len() != dims.len() {
            let given = count(parts.len() as u64, "number");
            return Err(format!(
                "{given}, expected {}, such as {}",
                dims.len(),
                vec!["0"; dims.len()].join(",")
            ));
        }
        let mut at = self.at.clone();
        for (dim, part) in dims.iter().zip(parts) {
            let len = self.axes[*dim].len;
            let k: i64 = part.parse().map_err(|_| format!("'{part}' is not an index"))?;
            let k = if k < 0 { len.checked_sub(k.unsigned_abs()) } else { Some(k.unsigned_abs()) };
            at[*dim] =
                k.filter(|k| *k < len).ok_or_else(|| format!("{part} is out of range: there are {len}"))?;
        }
        for (k, dim) in self.dims.iter().enumerate() {
            let (len, wide) = (self.axes[*dim].len, self.windows[k].end - self.windows[k].start);
            let start = at[*dim].saturating_sub(wide / 2).min(len - wide);
            self.windows[k] = start..start.saturating_add(wide).min(len);
            self.corner[k] = at[*dim];
        }
        self.cursor = Some(self.dims.iter().map(|dim| at[*dim]).collect());
        self.at = at;
        Ok(())
    }

    /// The shown part in the notation of slices.
    pub(super) fn place(&self) -> String {
        let part = |(dim, axis): (usize, &Axis)| match self.dims.iter().position(|drawn| *drawn == dim) {
            Some(k) => {
                let window = &self.windows[k];
                match *window == (0..axis.len) {
                    true => ":".into(),
                    false => format!(
                        "{}:{}",
                        axis.position(window.start),
                        axis.position(window.end.saturating_sub(1)).saturating_add(1)
                    ),
                }
            }
            None if self.along == Some(dim) => format!("<{}>", axis.position(self.at[dim])),
            None => axis.position(self.at[dim]).to_string(),
        };
        format!("[{}]", self.axes.iter().enumerate().map(part).collect::<Vec<_>>().join(", "))
    }

    /// How the numbers of the picture are formatted.
    pub(super) fn format(&self) -> ValueFormat {
        match &self.sample {
            Some(Sample::Plane { plane, .. }) => plane.format,
            Some(Sample::Line { line, .. }) => line.format,
            None => ValueFormat::default(),
        }
    }

    /// The name of a dimension.
    pub(super) fn name(&self, dim: usize) -> String {
        let name = self.facts.as_ref().and_then(|facts| facts.names.get(dim));
        name.filter(|name| !name.is_empty()).cloned().unwrap_or_else(|| format!("dimension {dim}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An array of 4 x 20 x 30.
    fn app() -> App {
        let mut app = App::new("a", None, Map::Viridis, false, None);
        let axis = |len: u64| Axis { start: 0, step: 1, len, dropped: false };
        let axes = vec![axis(4), axis(20), axis(30)];
        let facts = FileFacts { axes, fields: vec![None], is_float: true, ..FileFacts::default() };
        app.handle(ViewResponse::Opened(None, Box::new(facts)));
        app
    }

    fn press(app: &mut App, keys: &str) {
        keys.chars().for_each(|c| app.key(if c == '\n' { Key::Enter } else { Key::Char(c) }));
    }

    #[test]
    fn keys_move_the_view() {
        let mut app = app();
        assert_eq!(app.place(), "[<2>, :, :]");
        press(&mut app, ".");
        assert_eq!(app.place(), "[<3>, :, :]");
        press(&mut app, "...,");
        assert_eq!(app.place(), "[<2>, :, :]", "it stays inside");
        press(&mut app, "+");
        assert_eq!(app.place(), "[<2>, 5:15, 8:23]");
        app.key(Key::Left);
        app.key(Key::Down);
        assert_eq!(app.place(), "[<2>, 6:16, 7:22]");
        (0..50).for_each(|_| app.key(Key::Right));
        assert_eq!(app.place(), "[<2>, 6:16, 15:30]");
        press(&mut app, "--");
        assert_eq!(app.place(), "[<2>, :, :]");
        press(&mut app, "x");
        assert_eq!(app.dims, [2, 1]);
        press(&mut app, "xo");
        assert_eq!((app.dims.clone(), app.place()), (vec![0, 2], "[:, <10>, :]".into()));
        press(&mut app, "o++++++");
        assert!(app.windows.iter().all(|window| window.end - window.start == 2), "{:?}", app.windows);
        press(&mut app, "0g1,19,-1\n");
        assert_eq!(app.place(), "[<1>, :, :]");
        press(&mut app, "+g0,1,2\n");
        assert_eq!(app.place(), "[<0>, 0:10, 0:15]");
        press(&mut app, "g0,1\n");
        assert!(app.message.as_ref().unwrap().contains("2 numbers, expected 3"), "{:?}", app.message);
        press(&mut app, "g0,99,0\n");
        assert!(app.message.as_ref().unwrap().contains("out of range"), "{:?}", app.message);
        press(&mut app, "?q");
        assert!(!app.quit && !app.help, "any key closes the help");
        press(&mut app, "q");
        assert!(app.quit);
    }

    #[test]
    fn only_what_needs_the_file_is_asked_for() {
        let mut app = app();
        let look = |app: &App| app.look([40, 60], [10, 4]);
        let first = look(&app);
        press(&mut app, "clp?");
        app.key(Key::Escape);
        assert_eq!(look(&app), first, "colours need no reading");
        press(&mut app, "r");
        assert_ne!(look(&app), first);
        press(&mut app, "2");
        let ViewRequest { what: ViewData::PixelGrid { axes }, .. } = look(&app) else { panic!() };
        assert_eq!(axes.iter().map(|axis| axis.len).collect::<Vec<_>>(), [1, 10, 4]);
        (0..100).for_each(|_| app.key(Key::Down));
        let ViewRequest { what: ViewData::PixelGrid { axes }, .. } = look(&app) else { panic!() };
        assert_eq!((axes[1].start, axes[1].len), (19, 1));
        press(&mut app, "4");
        assert_eq!(look(&app).what, ViewData::Chunks { most: 2400 });
    }

    #[test]
    fn a_file_that_changes_keeps_its_view() {
        let mut app = app();
        press(&mut app, "+f");
        app.reading = false;
        let before = app.look([1, 1], [1, 1]).refresh;
        app.tick();
        assert_eq!(app.look([1, 1], [1, 1]).refresh, before + 1);
        let mut facts = app.facts.clone().unwrap();
        (facts.axes[0].len, facts.axes[1].len) = (1, 8);
        app.handle(ViewResponse::Opened(None, Box::new(facts.clone())));
        assert_eq!(app.place(), "[<0>, 5:8, 8:23]");
        facts.axes[2].len = 0;
        app.handle(ViewResponse::Opened(None, Box::new(facts.clone())));
        assert_eq!(app.look([1, 1], [1, 1]).what, ViewData::Facts, "there is nothing to read");
        for key in "+-0.,xdogv1234clpn".chars() {
            app.key(Key::Char(key));
        }
        facts.axes[2].len = 5;
        app.handle(ViewResponse::Opened(None, Box::new(facts)));
        app.key(Key::Escape);
        press(&mut app, "1");
        assert!(matches!(app.look([9, 9], [1, 1]).what, ViewData::Plane { .. }));
    }
}
