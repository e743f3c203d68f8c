//! Dimension scales: the arrays that have the coordinates of a dimension, and netCDF's dimensions.

use std::collections::BTreeMap;
use std::io::{Seek, Write};

use super::bytes::UNDEFINED;
use super::values::Attribute;
use super::writer::{Data, Kind, OF_SCALE, UNLIMITED, Writer};
use super::{datatypes, header};
use crate::Hdf5Error;

/// Items in a chunk of a growable scale without items.
const CHUNK: u32 = 1024;

/// Which dimensions of which data sets a scale belongs to.
type Referrers = BTreeMap<usize, Vec<(usize, u32)>>;

impl<W: Write + Seek + Send> Writer<W> {
    /// Attaches scales to all dimensions that have names.
    pub(super) fn add_scales(&mut self) -> Result<(), Hdf5Error> {
        let mut referrers = Referrers::new();
        for n in 0..self.nodes.len() {
            let Some(node) = self.nodes.get(n) else { continue };
            let Kind::Data(Data { dims, shape, unlimited, .. }) = &node.kind else { continue };
            if dims.is_empty() {
                continue;
            }
            if self.is_scale(n, &node.name, None) {
                referrers.entry(n).or_default();
                continue;
            }
            let (parent, dims, shape, unlimited) =
                (node.parent, dims.clone(), shape.clone(), unlimited.clone());
            let mut lists = Vec::with_capacity(dims.len());
            for (dim, (name, length)) in (0_u32..).zip(dims.iter().zip(shape)) {
                let is_unlimited = unlimited.contains(&(dim as usize));
                let scale = self.scale(parent, name, length, is_unlimited)?;
                match scale {
                    Some(scale) => referrers.entry(scale).or_default().push((n, dim)),
                    None => {
                        let path = self.nodes.get(n).map_or("", |node| &node.path);
                        let what = "something else has that name, so it has no scale";
                        if self.netcdf {
                            let what = "a dimension of another name is needed: something else has this one";
                            return Err(Hdf5Error::unsupported(path, format!("dimension {name:?}: {what}")));
                        }
                        self.left_out.push(format!("{path}: dimension {name:?} of length {length}: {what}"));
                    }
                }
                lists.push(scale.into_iter().collect());
            }
            if let Some(node) = self.nodes.get_mut(n) {
                node.attributes.push(Attribute::dimension_list(lists));
            }
        }
        for (scale, referrers) in referrers {
            let Some(node) = self.nodes.get_mut(scale) else { continue };
            let name = match &node.kind {
                Kind::Data(Data { dims, shape, .. }) if dims.is_empty() => {
                    let length = shape.first().copied().unwrap_or(0);
                    format!("This is a netCDF dimension but not a netCDF variable.{length:10}")
                }
                _ => node.name.clone(),
            };
            let mut first =
                vec![Attribute::fixed("CLASS", "DIMENSION_SCALE"), Attribute::fixed("NAME", &name)];
            let list = Attribute::reference_list(referrers);
            // Needed only by programs that change scales.
            if (1..header::LONGEST - 256).contains(&list.len()) {
                first.push(list);
            }
            let taken = node.attributes.extract_if(.., |own| OF_SCALE.contains(&&*own.name));
            let what = "dimension scales have one of their own";
            self.left_out.extend(taken.map(|own| format!("{}: attribute {}: {what}", node.path, own.name)));
            node.attributes.splice(0..0, first);
        }
        Ok(())
    }

    /// Whether this is a scale of this name, and of this length if that is given.
    fn is_scale(&self, n: usize, name: &str, length: Option<u64>) -> bool {
        let Some(Kind::Data(Data { dims, shape, .. })) = self.nodes.get(n).map(|node| &node.kind) else {
            return false;
        };
        matches!(&shape[..], [own] if length.is_none_or(|length| length == *own))
            && (dims.is_empty() && self.made.contains(&n) || matches!(&dims[..], [own] if own == name))
    }

    /// Finds or creates the scale of a dimension of an array in this group.
    fn scale(
        &mut self,
        group: usize,
        name: &str,
        length: u64,
        is_unlimited: bool,
    ) -> Result<Option<usize>, Hdf5Error> {
        if name.is_empty() || name.contains('/') {
            return Ok(None);
        }
        let mut at = group;
        loop {
            if let Some(found) = self.find(at, name) {
                if self.is_scale(found, name, Some(length)) {
                    return Ok(Some(found));
                }
                if at == group {
                    return Ok(None);
                }
            }
            match self.nodes.get(at).map(|node| node.parent) {
                Some(parent) if at != 0 => at = parent,
                _ => break,
            }
        }
        let datatype = datatypes::float(4, true).unwrap_or_default();
        let shape = vec![length];
        let (layout, space) = match is_unlimited {
            true => (header::chunked(UNDEFINED, &[CHUNK], 4), datatypes::space(&shape, Some(&[UNLIMITED]))),
            false => {
                (header::contiguous(UNDEFINED, length.saturating_mul(4)), datatypes::space(&shape, None))
            }
        };
        let unlimited = if is_unlimited { vec![0] } else { Vec::new() };
        let data = Data { datatype, space, shape, layout, filters: None, dims: Vec::new(), unlimited };
        let made = self.add(group, name, Kind::Data(data))?;
        self.made.insert(made);
        Ok(Some(made))
    }
}
