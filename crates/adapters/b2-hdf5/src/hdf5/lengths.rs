//! The lengths of netCDF variables: those of their dimensions, even if HDF5 has fewer rows.

use std::collections::BTreeSet;
use std::sync::PoisonError;

use super::datatype::{self, Type};
use super::messages::{Attribute, Space};
use super::{Group, Hdf5, NO_VARIABLE, cursor, header, is_scale, messages, text_of};

impl Hdf5 {
    /// The shape of a netCDF variable: along an unlimited dimension it is as long as the dimension, even if
    /// HDF5 has fewer rows.
    pub(super) fn extent(
        &self,
        group: &Group,
        stored: &[Attribute],
        shape: &[u64],
        most: Option<&[u64]>,
    ) -> Result<Vec<u64>, String> {
        let mut extent = shape.to_vec();
        let Some(most) = most else { return Ok(extent) };
        if is_scale(stored) {
            // A variable with the name of its first dimension.
            if let ([length, ..], [u64::MAX, ..]) = (&mut extent[..], most)
                && self.is_of_netcdf(stored)
            {
                *length = self.longest_user(stored).max(*length);
            }
        }
        let scales = match self.numbered_scales(group, stored, shape.len())? {
            Some(scales) => scales.into_iter().map(|scale| scale.map(|(_, address)| address)).collect(),
            None if is_scale(stored) => return Ok(extent),
            None => match self.scales(stored)? {
                Some(scales) => scales,
                None => return Ok(extent),
            },
        };
        for ((length, &most), scale) in extent.iter_mut().zip(most).zip(scales) {
            if let (u64::MAX, Some(scale)) = (most, scale) {
                *length = self.dimension_length(scale)?.unwrap_or(0).max(*length);
            }
        }
        Ok(extent)
    }

    /// The length of an unlimited dimension: that of the longest variable. The scale has this length only if it is itself
    /// a variable. `None` if this is not a netCDF dimension.
    fn dimension_length(&self, scale: u64) -> Result<Option<u64>, String> {
        let known = self.lengths.lock().unwrap_or_else(PoisonError::into_inner).get(&scale).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let stored = self.below.attributes(&self.below.messages(scale)?)?;
        let length = self.is_of_netcdf(&stored).then(|| {
            let own = self.shape_of(scale).and_then(|shape| shape.first().copied());
            self.longest_user(&stored).max(own.unwrap_or(0))
        });
        self.lengths.lock().unwrap_or_else(PoisonError::into_inner).insert(scale, length);
        Ok(length)
    }

    /// The length of the longest data set to which a scale is attached. Damaged ones are ignored.
    fn longest_user(&self, stored: &[Attribute]) -> u64 {
        let Some(list) = stored.iter().find(|attr| attr.name == "REFERENCE_LIST") else { return 0 };
        let size = match messages::space(&list.space, self.below.length_size) {
            Some(Space::Shape(shape, _)) => match shape[..] {
                [count] => usize::try_from(count).ok().and_then(|count| list.data.len().checked_div(count)),
                _ => None,
            },
            _ => None,
        };
        let Some(Type::Compound { fields, .. }) = datatype::parse(&list.kind) else { return 0 };
        let [to, axis] = &fields[..] else { return 0 };
        let entries = list.data.chunks_exact(size.unwrap_or(0).max(1)).filter_map(|entry| {
            let address = to.kind.object(entry.get(to.offset..)?, self.below.offset_size)?;
            let axis = cursor::Cursor::new(entry.get(axis.offset..)?).u32()?;
            // In the byte order of the machine that wrote it.
            Some((address, axis.min(axis.swap_bytes())))
        });
        let users: BTreeSet<(u64, u32)> = entries.collect();
        let lengths = users
            .into_iter()
            .filter_map(|(address, axis)| self.shape_of(address)?.get(usize::try_from(axis).ok()?).copied());
        lengths.max().unwrap_or(0)
    }

    fn shape_of(&self, address: u64) -> Option<Vec<u64>> {
        let found = self.below.messages(address).ok()?;
        let message = found.iter().find(|message| message.kind == header::DATASPACE)?;
        match messages::space(&self.below.content(message).ok()?, self.below.length_size)? {
            Space::Shape(shape, _) => Some(shape),
            Space::Null => None,
        }
    }

    /// Whether netCDF wrote a scale. Versions before 4.4.1 do not record themselves in the root group.
    fn is_of_netcdf(&self, stored: &[Attribute]) -> bool {
        self.is_netcdf4()
            || text_of(stored, "NAME").starts_with(NO_VARIABLE)
            || stored.iter().any(|attr| attr.name == "_Netcdf4Dimid")
    }

    /// Whether netCDF wrote the file.
    fn is_netcdf4(&self) -> bool {
        *self.is_netcdf4.get_or_init(|| {
            let found = self.below.messages(self.below.root);
            let attrs = found.and_then(|found| self.below.attributes(&found));
            attrs.is_ok_and(|attrs| attrs.iter().any(|attr| attr.name == "_NCProperties"))
        })
    }
}
