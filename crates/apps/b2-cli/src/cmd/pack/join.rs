//! Joins several inputs of `pack` into one array.

use anyhow::{Context, Result, anyhow, ensure};
use b2kit::Dtype;

use crate::args::Global;
use crate::print::dims;
use crate::read::{Items, Operand};
use crate::write::edit;

/// How several arrays are joined. Negative axes count from the end.
#[derive(Clone, Copy, Debug)]
pub(super) enum JoinAxis {
    /// Along an existing dimension.
    Concat(i64),
    /// Along a new dimension.
    Stack(i64),
}

impl JoinAxis {
    /// The shape and the items of the joined array.
    ///
    /// # Errors
    /// Fails if the inputs differ in dtype or shape, or if they do not have the axis.
    pub(super) fn items(
        self,
        mut operands: Vec<Operand>,
        arrays: Vec<Option<(Dtype, Vec<u64>)>>,
        dtype: &Dtype,
        global: Global,
    ) -> Result<(Vec<u64>, Items)> {
        let itemsize = dtype.itemsize();
        let shapes = operands.iter().zip(arrays).map(|(operand, array)| match array {
            Some((_, shape)) => Ok(shape),
            None => Err(anyhow!("{}: not an .npy file, as the others are", operand.name)),
        });
        let mut shapes = shapes.collect::<Result<Vec<_>>>()?;
        let Some(first) = shapes.first().cloned() else { return Err(anyhow!("nothing to join")) };
        for operand in &operands {
            operand.check_dtype(Some(dtype), itemsize)?;
        }
        let axis = match self {
            Self::Concat(given) => edit::axis("--concat", given, first.len())?,
            Self::Stack(given) => {
                let axis = edit::axis("--stack", given, first.len() + 1)?;
                for (operand, shape) in operands.iter_mut().zip(&mut shapes) {
                    ensure!(
                        *shape == first,
                        "{}: the shape is {}, expected {}",
                        operand.name,
                        dims(shape),
                        dims(&first)
                    );
                    shape.insert(axis, 1);
                    if let Some(header) = &mut operand.npy {
                        header.shape.clone_from(shape);
                    }
                }
                axis
            }
        };
        let mut whole = shapes[0].clone();
        whole[axis] = 0;
        for (operand, shape) in operands.iter().zip(&shapes) {
            let others = |shape: &[u64]| (shape[..axis].to_vec(), shape.get(axis + 1..).map(<[u64]>::to_vec));
            ensure!(
                shape.len() == whole.len() && others(shape) == others(&whole),
                "{}: the shape is {}, the array has {}: all but dimension {axis} must be the same",
                operand.name,
                dims(shape),
                dims(&shapes[0])
            );
            whole[axis] = whole[axis].checked_add(shape[axis]).context("the array is too large")?;
        }
        let items = Operand::join(operands.into_iter().zip(shapes).collect(), axis, itemsize, global.quiet)?;
        Ok((whole, items))
    }
}
