//! Converts dtypes between the `descr` of an `.npy` header and the dtype string of a b2nd metalayer.
//!
//! Simple types are the same string in both (`<f4`). In `.npy`, structured types are a list of fields, with padding as
//! unnamed void fields. In b2nd they are what NumPy's `str(dtype)` returns: a list of fields, or a dict of names,
//! formats and offsets if there is padding.

#![cfg_attr(
    not(test),
    deny(
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::string_slice,
        clippy::unreachable,
        clippy::unwrap_used,
        reason = "reads untrusted bytes"
    )
)]

use anyhow::{Context, Result, bail};
use b2nd::literal::Literal;
use b2nd::{Dtype, DtypeKind};

/// The dtype to store for the `descr` of an `.npy` header.
///
/// # Errors
/// Fails if it is not a dtype, or if it contains Python objects.
pub fn from_npy(descr: &Literal) -> Result<Dtype> {
    match descr {
        Literal::Str(simple) => Ok(Dtype::parse(simple)?),
        Literal::List(_) => Ok(Dtype::parse(&to_stored(descr)?.to_string())?),
        _ => bail!("a dtype must be a string or a list of fields, not {descr}"),
    }
}

/// The `descr` to write into an `.npy` header. Titles of fields are left out.
///
/// # Errors
/// Fails if fields overlap, which NumPy cannot represent in a header either.
pub fn to_npy(dtype: &Dtype) -> Result<Literal> {
    match dtype.kind() {
        DtypeKind::Simple { .. } => Ok(Literal::Str(simple_to_npy(dtype.as_str()))),
        DtypeKind::Struct(fields) => {
            let mut list = Vec::new();
            let mut end = 0;
            for field in fields {
                pad(&mut list, end, field.offset).context("fields that overlap or are out of order")?;
                // The size of the whole dtype is known, so that of a field cannot overflow.
                end = field.offset + field.shape.iter().product::<usize>() * field.dtype.itemsize();
                let mut parts = vec![Literal::Str(field.name.clone()), to_npy(&field.dtype)?];
                if !field.shape.is_empty() {
                    parts.push(Literal::Tuple(field.shape.iter().map(|n| int(*n)).collect::<Result<_>>()?));
                }
                list.push(Literal::Tuple(parts));
            }
            pad(&mut list, end, dtype.itemsize()).context("fields that are longer than the item")?;
            Ok(Literal::List(list))
        }
        _ => Ok(Literal::Str(format!("|V{}", dtype.itemsize()))),
    }
}

/// Fills the gap from `end` to `next` with an unnamed void field. `None` if `next` is before `end`.
fn pad(list: &mut Vec<Literal>, end: usize, next: usize) -> Option<()> {
    let gap = next.checked_sub(end)?;
    if gap > 0 {
        list.push(Literal::Tuple(vec![string(""), Literal::Str(format!("|V{gap}"))]));
    }
    Some(())
}

/// Formats a type like `dtype.str`: always with a byte order or `|`. Types without a byte order are little-endian.
fn simple_to_npy(text: &str) -> String {
    let body = text.trim_start_matches(['<', '>', '=', '|']);
    match body {
        "?" => return "|b1".into(),
        "i1" | "u1" => return format!("|{body}"),
        _ => {}
    }
    let order = match text.chars().next() {
        _ if body.starts_with(['S', 'V', 'b']) => '|',
        Some('>') => '>',
        _ => '<',
    };
    format!("{order}{body}")
}

/// Converts from the notation of `.npy` to the stored one.
fn to_stored(descr: &Literal) -> Result<Literal> {
    let fields = match descr {
        // Inside a structured dtype `str(dtype)` writes no `|`, and `?` for booleans.
        Literal::Str(simple) => {
            return Ok(match simple_to_npy(simple).trim_start_matches('|') {
                "b1" => string("?"),
                other => string(other),
            });
        }
        Literal::List(fields) => fields,
        _ => bail!("{descr} is not a dtype"),
    };
    let fields = fields.iter().map(Field::parse).collect::<Result<Vec<_>>>()?;
    if !fields.iter().any(Field::is_padding) {
        return Ok(Literal::List(fields.iter().map(Field::to_stored).collect::<Result<_>>()?));
    }
    let (mut names, mut formats, mut offsets, mut titles) = (vec![], vec![], vec![], vec![]);
    let mut end = 0;
    for field in &fields {
        let stored = field.to_stored()?;
        let offset = end;
        end += Dtype::parse(&Literal::List(vec![stored]).to_string())?.itemsize();
        if field.is_padding() {
            continue;
        }
        let (title, name) = match field.name {
            Literal::Tuple(pair) => (pair.first().cloned(), pair.last().cloned()),
            name => (None, Some(name.clone())),
        };
        names.extend(name);
        titles.push(title.unwrap_or(Literal::None));
        let format = to_stored(field.format)?;
        formats.push(match field.shape {
            Some(shape) => Literal::Tuple(vec![format, shape.clone()]),
            None => format,
        });
        offsets.push(int(offset)?);
    }
    let mut dict = vec![("names", names), ("formats", formats), ("offsets", offsets)];
    if titles.iter().any(|title| *title != Literal::None) {
        dict.push(("titles", titles));
    }
    let dict = dict.into_iter().map(|(key, list)| (string(key), Literal::List(list)));
    Ok(Literal::Dict(dict.chain([(string("itemsize"), int(end)?)]).collect()))
}

/// One entry of a list of fields.
struct Field<'a> {
    /// A string, or a pair of title and name.
    name: &'a Literal,
    format: &'a Literal,
    shape: Option<&'a Literal>,
}

impl<'a> Field<'a> {
    fn parse(field: &'a Literal) -> Result<Self> {
        match field {
            Literal::Tuple(parts) => match parts.as_slice() {
                [name, format] => Ok(Self { name, format, shape: None }),
                [name, format, shape] => Ok(Self { name, format, shape: Some(shape) }),
                _ => bail!("a field has a name, a format and perhaps a shape, not {field}"),
            },
            _ => bail!("a field must be a tuple, not {field}"),
        }
    }

    /// Whether this is an unnamed void field, which only fills a gap.
    fn is_padding(&self) -> bool {
        let void = |format: &String| simple_to_npy(format).starts_with("|V");
        *self.name == string("") && matches!(self.format, Literal::Str(format) if void(format))
    }

    fn to_stored(&self) -> Result<Literal> {
        let mut parts = vec![self.name.clone(), to_stored(self.format)?];
        parts.extend(self.shape.cloned());
        Ok(Literal::Tuple(parts))
    }
}

fn string(text: &str) -> Literal {
    Literal::Str(text.into())
}

fn int(n: usize) -> Result<Literal> {
    Ok(Literal::Int(i64::try_from(n)?))
}

#[cfg(test)]
mod tests {
    use b2nd::literal::parse;

    use super::*;

    /// Checks that `descr` in an `.npy` header is stored as `stored`, and converts back to the same `descr`.
    fn check(descr: &str, stored: &str, itemsize: usize) {
        let dtype = from_npy(&parse(descr).unwrap()).unwrap();
        assert_eq!((dtype.as_str(), dtype.itemsize()), (stored, itemsize));
        assert_eq!(to_npy(&dtype).unwrap().to_string(), descr);
    }

    #[test]
    fn dialects_translate() {
        for (simple, size) in [
            ("<f4", 4),
            (">i8", 8),
            ("|u1", 1),
            ("|b1", 1),
            ("<U3", 12),
            ("|S5", 5),
            ("<M8[ns]", 8),
            ("<m8[25s]", 8),
            ("<c16", 16),
            ("|V7", 7),
            ("<f2", 2),
            ("<f16", 16),
        ] {
            check(&format!("'{simple}'"), simple, size);
        }
        check("[('a', '<i4'), ('b', '<f8', (2,))]", "[('a', '<i4'), ('b', '<f8', (2,))]", 20);
        check(
            "[('a', '|i1'), ('c', '|S3'), ('d', '|b1'), ('e', [('x', '>i4'), ('y', '<U2')]), ('f', '|V3')]",
            "[('a', 'i1'), ('c', 'S3'), ('d', '?'), ('e', [('x', '>i4'), ('y', '<U2')]), ('f', 'V3')]",
            20,
        );
        check(
            "[('a', '|i1'), ('', '|V7'), ('b', '<f8')]",
            "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16}",
            16,
        );
        check(
            "[('a', '|i1', (2, 2)), ('', '|V4')]",
            "{'names': ['a'], 'formats': [('i1', (2, 2))], 'offsets': [0], 'itemsize': 8}",
            8,
        );
        check(
            "[('a', [('x', '|i1'), ('', '|V7'), ('y', '<f8')], (3,))]",
            "[('a', {'names': ['x', 'y'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16}, (3,))]",
            48,
        );
        check("[('é', '<i4'), (\"it's\", '<i4')]", "[('é', '<i4'), (\"it's\", '<i4')]", 8);
        check("[('O', '<i4')]", "[('O', '<i4')]", 4);
    }

    #[test]
    fn titles_are_stored() {
        let stored = from_npy(&parse("[(('t', 'a'), '|i1'), ('', '|V4')]").unwrap()).unwrap();
        let dict = "{'names': ['a'], 'formats': ['i1'], 'offsets': [0], 'titles': ['t'], 'itemsize': 5}";
        assert_eq!(stored.as_str(), dict);
        assert_eq!(to_npy(&stored).unwrap().to_string(), "[('a', '|i1'), ('', '|V4')]");
    }

    #[test]
    fn other_spellings_are_understood() {
        for (stored, descr) in [
            ("i4", "'<i4'"),
            ("=f8", "'<f8'"),
            ("<u1", "'|u1'"),
            ("?", "'|b1'"),
            ("float32", "'<f4'"),
            ("S3", "'|S3'"),
            ("[('a', 'i4', 3)]", "[('a', '<i4', (3,))]"),
            (
                "{'names': ['a', 'b'], 'formats': ['i1', '<f8'], 'offsets': [0, 8], 'itemsize': 16, 'aligned': True}",
                "[('a', '|i1'), ('', '|V7'), ('b', '<f8')]",
            ),
            ("{'names': ['a', 'b'], 'formats': ['i1', '<f8']}", "[('a', '|i1'), ('b', '<f8')]"),
        ] {
            assert_eq!(to_npy(&Dtype::parse(stored).unwrap()).unwrap().to_string(), descr, "{stored}");
        }
        assert_eq!(to_npy(&Dtype::opaque("what?", 3)).unwrap().to_string(), "'|V3'");
    }

    #[test]
    fn refuses_objects_and_nonsense() {
        for descr in [
            "'|O'",
            "[('a', '|O')]",
            "[('a', [('b', '|O')])]",
            "3",
            "[3]",
            "[('a',)]",
            "[(1, '<i4')]",
            "[('', '|V1'), ('a', '<U4611686018427387904', (4611686018427387904,))]",
        ] {
            assert!(from_npy(&parse(descr).unwrap()).is_err(), "{descr}");
        }
        let overlap = "{'names': ['a', 'b'], 'formats': ['i4', 'i4'], 'offsets': [0, 0], 'itemsize': 4}";
        assert!(to_npy(&Dtype::parse(overlap).unwrap()).is_err());
    }
}
