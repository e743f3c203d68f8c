//! Conversion of items to the byte order of this machine.

use crate::model::dtype::{Dtype, DtypeKind, Field};

/// Converts items that are stored in the other byte order to that of this machine.
#[derive(Debug)]
pub(crate) struct NativeOrder {
    dtype: Dtype,
    /// Runs of numbers in an item whose bytes are reversed.
    runs: Vec<NumberRun>,
    /// Size of an item in bytes, after which the runs repeat.
    period: usize,
}

/// Consecutive numbers of one width in an item.
#[derive(Clone, Copy, Debug)]
struct NumberRun {
    offset: usize,
    width: usize,
    count: usize,
}

const IS_BIG_ENDIAN: bool = cfg!(target_endian = "big");

impl NativeOrder {
    /// Returns `None` if items of this dtype already have the machine's byte order.
    pub(crate) fn of(stored: &Dtype) -> Option<Self> {
        let mut runs = Vec::new();
        find(stored, 0, &mut runs);
        if runs.is_empty() {
            return None;
        }
        Some(Self { dtype: native(stored), runs, period: stored.itemsize() })
    }

    /// Returns the dtype of the converted items.
    pub(crate) fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// Reverses the bytes of the numbers in consecutive items, in place.
    pub(crate) fn swap(&self, items: &mut [u8]) {
        for item in items.chunks_exact_mut(self.period) {
            for run in &self.runs {
                let numbers = &mut item[run.offset..run.offset + run.width * run.count];
                numbers.chunks_exact_mut(run.width).for_each(<[u8]>::reverse);
            }
        }
    }
}

/// Returns the width in bytes of the numbers that make up an item of this kind.
fn width(code: char, itemsize: usize) -> usize {
    match code {
        'c' => itemsize / 2,
        'U' => 4,
        'S' | 'V' => 1,
        _ => itemsize,
    }
}

fn find(dtype: &Dtype, offset: usize, runs: &mut Vec<NumberRun>) {
    match dtype.kind() {
        DtypeKind::Simple { code, big_endian } => {
            let width = width(*code, dtype.itemsize());
            if *big_endian != IS_BIG_ENDIAN && width > 1 {
                runs.push(NumberRun { offset, width, count: dtype.itemsize() / width });
            }
        }
        DtypeKind::Struct(fields) => {
            for field in fields {
                let count: usize = field.shape.iter().product();
                for k in 0..count {
                    find(&field.dtype, offset + field.offset + k * field.dtype.itemsize(), runs);
                }
            }
        }
        DtypeKind::Opaque => {}
    }
}

fn native(dtype: &Dtype) -> Dtype {
    match dtype.kind() {
        DtypeKind::Simple { code, big_endian }
            if *big_endian != IS_BIG_ENDIAN && width(*code, dtype.itemsize()) > 1 =>
        {
            let text = dtype.as_str().trim_start_matches(['<', '>', '=', '|']);
            let text = format!("{}{text}", if IS_BIG_ENDIAN { '>' } else { '<' });
            Dtype::parse(&text).unwrap_or_else(|_| dtype.clone())
        }
        DtypeKind::Struct(fields) => {
            let fields = fields.iter().map(|field| Field { dtype: native(&field.dtype), ..field.clone() });
            Dtype::structure(fields, dtype.itemsize()).unwrap_or_else(|_| dtype.clone())
        }
        _ => dtype.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_the_other_order_are_turned() {
        let (own, other) = if IS_BIG_ENDIAN { ('>', '<') } else { ('<', '>') };
        let text = |c: char| {
            format!(
                "[('a', '{c}i4'), ('p', [('x', '{c}f2'), ('s', '|S3')], (2,)), ('z', '{c}c8'), ('b', '|u1')]"
            )
        };
        assert!(NativeOrder::of(&Dtype::parse(&text(own)).unwrap()).is_none());
        let stored = Dtype::parse(&text(other)).unwrap();
        let native = NativeOrder::of(&stored).unwrap();
        assert_eq!(*native.dtype(), Dtype::parse(&text(own)).unwrap());
        let item: Vec<u8> = (0..23).collect();
        let mut items = [&item[..], &item].concat();
        native.swap(&mut items);
        let expected =
            [3, 2, 1, 0, 5, 4, 6, 7, 8, 10, 9, 11, 12, 13, 17, 16, 15, 14, 21, 20, 19, 18, 22].repeat(2);
        assert_eq!(items, expected);
        assert!(NativeOrder::of(&Dtype::parse("|S5").unwrap()).is_none());
        assert!(NativeOrder::of(&Dtype::opaque("?", 4)).is_none());
        let texts = NativeOrder::of(&Dtype::parse(&format!("{other}U2")).unwrap()).unwrap();
        assert_eq!(texts.dtype().as_str(), format!("{own}U2"));
        let mut items = [0, 0, 0, 65, 0, 0, 0, 66];
        texts.swap(&mut items);
        assert_eq!(items, [65, 0, 0, 0, 66, 0, 0, 0]);
    }
}
