//! Minimum, maximum and mean of the values, and the number of missing ones.

use b2kit::Dtype;
use b2kit::base::{Cancelled, Control, for_each};

use b2_view::colours::MISSING_ABOVE;
use b2_view::items::{ItemReader, Value, double};
use b2_view::text::thousands;

use super::table::Table;

/// A sum with error compensation, which loses no digits.
#[derive(Clone, Copy, Default)]
struct Sum {
    sum: f64,
    lost: f64,
}

impl Sum {
    fn add(&mut self, x: f64) {
        let sum = self.sum + x;
        self.lost += if self.sum.abs() >= x.abs() { (self.sum - sum) + x } else { (x - sum) + self.sum };
        self.sum = sum;
    }

    fn get(self) -> f64 {
        // The compensation is meaningless for infinite sums.
        if self.lost.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// Statistics of floats other than NaN.
#[derive(Clone, Copy)]
struct Floats {
    count: u64,
    min: f64,
    max: f64,
    sum: Sum,
}

impl Floats {
    const NONE: Self =
        Self { count: 0, min: f64::INFINITY, max: f64::NEG_INFINITY, sum: Sum { sum: 0.0, lost: 0.0 } };

    fn add(&mut self, x: f64) {
        self.count += 1;
        self.min = self.min.min(x);
        self.max = self.max.max(x);
        self.sum.add(x);
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum.add(other.sum.sum);
        self.sum.add(other.sum.lost);
    }
}

/// Statistics of the values so far.
#[derive(Clone)]
pub(crate) struct Stats {
    simple: ItemReader,
    count: u64,
    /// Number of NaN and NaT.
    missing: u64,
    /// All floats, and real parts of complex numbers; imaginary parts; floats that are not huge.
    all: Floats,
    imaginary: Sum,
    usual: Floats,
    /// Minimum and maximum of integers, booleans and times.
    ints: Option<(i128, i128)>,
    sum: i128,
    kind: Quantity,
}

#[derive(Clone, Copy, PartialEq)]
enum Quantity {
    Bool,
    Int,
    Float,
    Complex,
    Date,
    Span,
    Other,
}

impl Stats {
    pub(crate) fn new(dtype: &Dtype) -> Self {
        let simple = ItemReader::new(dtype);
        let kind = match simple.value(&vec![0; dtype.itemsize()]) {
            _ if dtype.fields().is_some() => Quantity::Other,
            Value::Bool(_) => Quantity::Bool,
            Value::Int(_) => Quantity::Int,
            Value::Float(_) => Quantity::Float,
            Value::Complex(..) => Quantity::Complex,
            Value::Date(_) => Quantity::Date,
            Value::Span(_) => Quantity::Span,
            _ => Quantity::Other,
        };
        Self::empty(simple, kind)
    }

    fn empty(simple: ItemReader, kind: Quantity) -> Self {
        Self {
            simple,
            count: 0,
            missing: 0,
            all: Floats::NONE,
            imaginary: Sum::default(),
            usual: Floats::NONE,
            ints: None,
            sum: 0,
            kind,
        }
    }

    /// Whether statistics are computed for such items.
    pub(crate) fn is_any(&self) -> bool {
        self.kind != Quantity::Other
    }

    /// Adds the items of a piece.
    pub(crate) fn add(&mut self, items: &[u8]) {
        let size = self.simple.size().max(1);
        let empty = Self::empty(self.simple.clone(), self.kind);
        let part = |items: &[u8]| {
            let mut part = empty.clone();
            items.chunks_exact(size).for_each(|item| part.count_item(item));
            part
        };
        let chunks = items.chunks(size.saturating_mul(1 << 14));
        let mut parts = vec![None; chunks.len()];
        let jobs = chunks.zip(&mut parts);
        // Processing an item takes several times as long as decoding it.
        let work = (items.len() as u64).saturating_mul(4);
        // This call is never cancelled.
        let _ = for_each(
            &Control::new(),
            usize::MAX,
            jobs,
            work,
            || Ok::<_, Cancelled>(()),
            |(), (items, slot)| {
                *slot = Some(part(items));
                Ok(())
            },
        );
        // Join in order, so that the sum does not depend on the threads.
        parts.iter().flatten().for_each(|part| self.join(part));
    }

    fn count_item(&mut self, item: &[u8]) {
        self.count += 1;
        match self.simple.value(item) {
            Value::Float(x) if x.is_nan() => self.missing += 1,
            Value::Float(x) => {
                self.all.add(x);
                if x.abs() < MISSING_ABOVE {
                    self.usual.add(x);
                }
            }
            Value::Complex(re, im) if re.is_nan() || im.is_nan() => self.missing += 1,
            Value::Complex(re, im) => {
                self.all.add(re);
                self.imaginary.add(im);
            }
            Value::Bool(bool) => self.count_int(i128::from(bool)),
            Value::Int(int) => self.count_int(int),
            Value::Date(i64::MIN) | Value::Span(i64::MIN) => self.missing += 1,
            Value::Date(time) | Value::Span(time) => self.count_int(i128::from(time)),
            _ => {}
        }
    }

    fn count_int(&mut self, int: i128) {
        let (min, max) = self.ints.unwrap_or((int, int));
        self.ints = Some((min.min(int), max.max(int)));
        self.sum = self.sum.saturating_add(int);
    }

    fn join(&mut self, other: &Self) {
        self.count += other.count;
        self.missing += other.missing;
        self.all.join(&other.all);
        self.usual.join(&other.usual);
        self.imaginary.add(other.imaginary.sum);
        self.imaginary.add(other.imaginary.lost);
        if let Some((min, max)) = other.ints {
            let (low, high) = self.ints.unwrap_or((min, max));
            self.ints = Some((low.min(min), high.max(max)));
        }
        self.sum = self.sum.saturating_add(other.sum);
    }

    /// The range of the numbers, except for infinite ones and those so large that they stand for missing values.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        match (self.kind, self.ints) {
            (Quantity::Float, _) => (self.usual.count > 0).then_some((self.usual.min, self.usual.max)),
            (_, Some((min, max))) => Some((min as f64, max as f64)),
            _ => None,
        }
    }

    /// Adds the statistics to the table.
    pub(crate) fn report(&self, table: &mut Table) {
        let simple = &self.simple;
        let (count, missing) = (thousands(self.count), thousands(self.missing));
        let floats = |table: &mut Table, floats: &Floats, what: &str| {
            if floats.count > 0 {
                table.row(&format!("minimum{what}"), simple.number(floats.min));
                table.row(&format!("maximum{what}"), simple.number(floats.max));
                table.row(&format!("mean{what}"), simple.number(floats.sum.get() / floats.count as f64));
            }
        };
        match (self.kind, self.ints) {
            (Quantity::Float, _) => {
                floats(table, &self.all, "");
                table.row("NaN", format!("{missing} of {count}"));
                let huge = self.all.count - self.usual.count;
                if huge > 0 {
                    table.row(
                        "beyond 1e19",
                        format!("{} of {count}: infinite, or missing values", thousands(huge)),
                    );
                    floats(table, &self.usual, " without");
                }
            }
            (Quantity::Complex, _) => {
                let n = self.all.count as f64;
                if self.all.count > 0 {
                    table.row("mean", simple.complex(self.all.sum.get() / n, self.imaginary.get() / n));
                }
                table.row("NaN", format!("{missing} of {count}"));
            }
            (Quantity::Bool, _) => {
                table.row("True", format!("{} of {count}", thousands(u64::try_from(self.sum).unwrap_or(0))));
            }
            (Quantity::Int, Some((min, max))) => {
                table.row("minimum", min.to_string());
                table.row("maximum", max.to_string());
                table.row("mean", double(self.sum as f64 / self.count as f64));
            }
            (Quantity::Date | Quantity::Span, ints) => {
                if let Some((min, max)) = ints {
                    let time = |value: i128| {
                        let value = value as i64;
                        if self.kind == Quantity::Date { simple.date(value) } else { simple.span(value) }
                    };
                    table.row("minimum", time(min));
                    table.row("maximum", time(max));
                }
                table.row("NaT", format!("{missing} of {count}"));
            }
            _ => {}
        }
    }
}
