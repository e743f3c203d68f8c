//! Names, units and coordinates of dimensions, by the convention for xarray (docs/reference/xarray.md).

use std::path::Path;

use b2_view::edges::{Coordinates, MAX_COORDINATES};
pub(crate) use b2_view::labels::Labels;
use b2_view::labels::unit;
use b2kit::NdArray;

use super::input::Input;
use super::store::Store;
use super::view::Data;
use crate::args::{Global, Source};
use crate::files::{is_stdin, urls};
use crate::npy::shown_dtype;

/// Looks for the coordinates of dimension `dim` of an array: an array beside it with the name of the dimension.
pub(crate) fn points(
    source: &Source,
    data: &Data,
    labels: &Labels,
    dim: usize,
    global: Global,
) -> Option<Coordinates> {
    let Data::Blosc(Input::Array(array)) = data else { return None };
    let name = labels.names.get(dim).filter(|name| is_name(name))?;
    let len = *array.shape().get(dim)?;
    let found = match &source.key {
        Some(key) => {
            let group = key.rsplit_once('/').map_or("", |(group, _)| group);
            let beside = format!("{group}/{name}");
            if beside.trim_start_matches('/') == key.trim_start_matches('/') {
                return None;
            }
            Store::open(&source.file, source.offset, global).ok()??.member(&beside).ok()?
        }
        None if source.offset > 0 || is_stdin(&source.file) || urls::is_url(&source.file) => return None,
        None => {
            let path = source.file.with_file_name(format!("{name}.b2nd"));
            if path == source.file {
                return None;
            }
            Input::open(&path, 0, global).ok()?
        }
    };
    let Input::Array(points) = found else { return None };
    let fits = points.shape() == [len] && (1..=MAX_COORDINATES).contains(&len);
    if !fits { None } else { read(&points) }
}

fn read(points: &NdArray) -> Option<Coordinates> {
    let dtype = shown_dtype(points);
    if !Coordinates::can_be(&dtype) {
        return None;
    }
    Some(Coordinates::new(&dtype, points.all().read_bytes().ok()?, unit(points)))
}

/// Whether this is the name of a file in the same folder, and nothing else.
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
