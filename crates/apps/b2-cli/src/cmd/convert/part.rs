//! The selected items of a data set, as stored or unpacked with scale and offset.

use std::io;

use anyhow::{Result, bail};
use b2_hdf5::{Scale, attribute_layers};
use b2kit::nd::{Amount, Region, SharedRegions, Value, default_chunkshape};
use b2kit::{ArrayBuilder, Dtype, RegionSource};

use super::nodes::Item;
use crate::process::buffer;
use crate::read::slice::read_strided;
use crate::read::{Axis, resolve};

/// The attribute with the names of the dimensions.
const NAMES: &str = "_ARRAY_DIMENSIONS";

/// Selected items of a data set.
pub(super) struct DataSelection<'a> {
    data: &'a Item,
    axes: Vec<Axis>,
    scale: Option<Scale>,
    dtype: Dtype,
}

impl<'a> DataSelection<'a> {
    /// `None` if all items of a data set of HDF5 are taken as they are, which has a faster way.
    ///
    /// # Errors
    /// Fails if the slice does not fit, or if the numbers cannot be unpacked.
    pub(super) fn of(
        data: &'a Item,
        slice: Option<&[b2kit::Selection]>,
        unpacks: bool,
    ) -> Result<Option<Self>> {
        let scale = match (unpacks, data) {
            (true, Item::Hdf5(data)) => Scale::of(data)?,
            (true, Item::Nifti(image)) => {
                Scale::of_attributes(&image.name, image.dtype(), image.attributes())?
            }
            (true, _) => bail!("--mask-and-scale: only for HDF5, NetCDF and NIfTI"),
            (false, _) => None,
        };
        if slice.is_none() && scale.is_none() && matches!(data, Item::Hdf5(_)) {
            return Ok(None);
        }
        if slice.is_some() && matches!(data, Item::Nifti(_)) {
            bail!("--slice: the affine of a NIfTI file is that of the whole image; convert it first");
        }
        let axes = resolve(slice.unwrap_or_default(), data.shape())?;
        let dtype = match &scale {
            Some(scale) => scale.dtype()?,
            None => data.dtype()?.clone(),
        };
        Ok(Some(Self { data, axes, scale, dtype }))
    }

    /// The shape of the new array.
    pub(super) fn shape(&self) -> Vec<u64> {
        self.remaining_axes().map(|(_, axis)| axis.len).collect()
    }

    pub(super) fn dtype(&self) -> &Dtype {
        &self.dtype
    }

    /// The dimensions without those of integer indexes.
    fn remaining_axes(&self) -> impl Iterator<Item = (usize, &Axis)> {
        self.axes.iter().enumerate().filter(|(_, axis)| !axis.dropped)
    }

    /// Describes the array: shape, dtype, chunks and attributes.
    ///
    /// # Errors
    /// Fails if the data set is too large for an array.
    pub(super) fn builder(&self) -> Result<ArrayBuilder> {
        let shape = self.shape();
        let nbytes = shape.iter().fold(self.dtype.itemsize() as u64, |n, &length| n.saturating_mul(length));
        self.data.check_output(nbytes)?;
        let mut builder = ArrayBuilder::of_dtype(shape.clone(), self.dtype.clone());
        if let Some(chunks) = self.data.chunkshape() {
            let lengths = self.remaining_axes().map(|(dim, axis)| {
                let chunk =
                    u64::from(chunks.get(dim).copied().unwrap_or(1)).div_ceil(axis.step.unsigned_abs());
                u32::try_from(chunk.clamp(1, axis.len.max(1))).unwrap_or(u32::MAX)
            });
            let fits = builder.clone().chunks(lengths.collect::<Vec<_>>());
            builder = match fits.geometry() {
                Ok(_) => fits,
                Err(_) => {
                    builder.chunks(default_chunkshape(&shape, &vec![1; shape.len()], self.dtype.itemsize()))
                }
            };
        }
        for (name, value) in attribute_layers(&self.attributes()) {
            builder = builder.vlmetalayer(name, value);
        }
        Ok(builder)
    }

    /// The attributes that still hold.
    fn attributes(&self) -> Vec<(String, Value)> {
        let attrs = self.data.attrs().iter().filter(|(name, _)| self.scale.is_none() || Scale::keeps(name));
        let named = attrs.map(|(name, value)| match value {
            Value::Array(names) if name == NAMES && names.len() == self.axes.len() => {
                let kept = self.remaining_axes().filter_map(|(dim, _)| names.get(dim).cloned());
                (name.clone(), Value::Array(kept.collect()))
            }
            value => (name.clone(), value.clone()),
        });
        named.collect()
    }

    /// Reads a box of the new array.
    pub(super) fn read_box(&self, start: &[u64], shape: &[u64], dst: &mut [u8]) -> Result<()> {
        let mut kept = start.iter().zip(shape);
        let axes: Vec<Axis> = self
            .axes
            .iter()
            .map(|axis| match if axis.dropped { None } else { kept.next() } {
                Some((&start, &len)) => axis.part(start, start + len),
                None => *axis,
            })
            .collect();
        let Some(scale) = &self.scale else { return self.read(&axes, dst) };
        let mut packed = buffer(scale.packed_nbytes(dst.len()))?;
        self.read(&axes, &mut packed)?;
        scale.apply(&packed, dst);
        Ok(())
    }

    /// Reads packed items.
    fn read(&self, axes: &[Axis], dst: &mut [u8]) -> Result<()> {
        let itemsize = self.data.dtype()?.itemsize();
        read_strided(axes, itemsize, dst, |start, shape, dst| self.data.read_box(start, shape, dst))
    }
}

impl RegionSource for &DataSelection<'_> {
    fn read_region(&mut self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        SharedRegions::read_region(*self, region, dst)
    }

    fn shared(&self) -> Option<&dyn SharedRegions> {
        Some(*self)
    }

    fn amount(&self) -> Amount {
        Amount::Shape(self.shape())
    }

    fn item_dtype(&self) -> Option<Dtype> {
        Some(self.dtype.clone())
    }
}

impl SharedRegions for DataSelection<'_> {
    fn read_region(&self, region: &Region<'_>, dst: &mut [u8]) -> io::Result<()> {
        self.read_box(region.start(), region.shape(), dst).map_err(io::Error::other)
    }
}
