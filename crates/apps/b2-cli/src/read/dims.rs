//! Names, units and coordinates of dimensions, by the convention for xarray (docs/reference/xarray.md).

use std::path::Path;

use b2_view::edges::{Coordinates, MAX_COORDINATES};
pub(crate) use b2_view::labels::Labels;

use super::slice::resolve;
use super::view::Data;
use crate::args::{Global, Source};
use crate::files::{is_stdin, urls};

/// Finds the coordinates of dimension `dim` of an array: an array next to it with the name of the dimension.
pub(crate) fn points(
    source: &Source,
    data: &Data,
    labels: &Labels,
    dim: usize,
    global: Global,
) -> Option<Coordinates> {
    let name = labels.names.get(dim).filter(|name| is_name(name))?;
    let len = *data.shape().get(dim)?;
    let sibling = match &source.key {
        Some(key) => {
            let group = key.rsplit_once('/').map_or("", |(group, _)| group);
            let sibling = format!("{group}/{name}");
            if sibling.trim_start_matches('/') == key.trim_start_matches('/') {
                return None;
            }
            Source { key: Some(sibling), ..source.clone() }
        }
        None if source.offset > 0 || is_stdin(&source.file) || urls::is_url(&source.file) => return None,
        None => {
            let file = source.file.with_file_name(format!("{name}.b2nd"));
            if file == source.file {
                return None;
            }
            Source { file, ..source.clone() }
        }
    };
    let found = Data::open(&sibling, global).ok()?;
    let (shape, dtype) = (found.shape(), found.dtype());
    if shape != [len] || !(1..=MAX_COORDINATES).contains(&len) || !Coordinates::can_be(&dtype) {
        return None;
    }
    let mut items = Vec::new();
    let view = found.view(&[]).ok()?;
    view.read(&resolve(&[], &shape).ok()?, &mut items).ok()?;
    // All items are the same where netCDF has a dimension without a variable.
    let mut each = items.chunks_exact(dtype.itemsize().max(1));
    let first = each.next()?;
    if len > 1 && each.all(|item| item == first) {
        return None;
    }
    Some(Coordinates::new(&dtype, items, &found.labels()))
}

/// Whether this is a plain file name, without a folder.
fn is_name(name: &str) -> bool {
    let path = Path::new(name);
    path.file_name().is_some_and(|own| own == name) && !name.contains(['/', '\\', ':', '\0'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_dimensions_are_no_paths() {
        assert!(["../x", "a/b", "", "..", "a\\b", "C:x"].iter().all(|name| !is_name(name)) && is_name("lat"));
    }
}
