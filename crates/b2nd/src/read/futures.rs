//! Reads of selections with an asynchronous driver.

use b2_frame::Read;

use crate::model::element::decode;
use crate::read::selected::Selected;
use crate::read::view::{buffer, check_len};
use crate::{Element, NdError, Slice};

/// A driver for reads of selections.
#[doc(hidden)]
pub trait SelectionDriver {
    /// Fetches what the read needs, and runs its jobs, until it is done.
    fn drive(&self, read: &mut Read<'_, Selected>) -> impl MaybeSendFuture<Output = Result<(), NdError>>;
}

/// A future that can be sent to another thread, except on wasm, where there are none.
#[doc(hidden)]
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSendFuture: Future + Send {}
#[cfg(not(target_family = "wasm"))]
impl<F: Future + Send> MaybeSendFuture for F {}

/// A future that can be sent to another thread, except on wasm, where there are none.
#[doc(hidden)]
#[cfg(target_family = "wasm")]
pub trait MaybeSendFuture: Future {}
#[cfg(target_family = "wasm")]
impl<F: Future> MaybeSendFuture for F {}

impl Slice {
    /// Reads the stored items in C order into `dst`, with an asynchronous driver.
    async fn read_stored_by(&self, dst: &mut [u8], driver: &impl SelectionDriver) -> Result<(), NdError> {
        let Some(mut read) = self.begin(dst)? else { return Ok(()) };
        driver.drive(&mut read).await?;
        read.finish().map(drop)
    }

    /// Like [`read_bytes_into`](Self::read_bytes_into), with an asynchronous driver.
    #[doc(hidden)]
    pub async fn read_bytes_into_by(
        &self,
        dst: &mut [u8],
        driver: &impl SelectionDriver,
    ) -> Result<(), NdError> {
        self.read_stored_by(dst, driver).await?;
        self.to_native(dst);
        Ok(())
    }

    /// Like [`read_bytes`](Self::read_bytes), with an asynchronous driver. The caller checks the
    /// size of the result ([`NdArray::check_result`]).
    #[doc(hidden)]
    pub async fn read_bytes_by(&self, driver: &impl SelectionDriver) -> Result<Vec<u8>, NdError> {
        let mut out = buffer(self.nbytes())?;
        self.read_bytes_into_by(&mut out, driver).await?;
        Ok(out)
    }

    /// Like [`read_into`](Self::read_into), with an asynchronous driver.
    #[doc(hidden)]
    pub async fn read_into_by<T: Element>(
        &self,
        dst: &mut [T],
        driver: &impl SelectionDriver,
    ) -> Result<(), NdError> {
        let other_order = self.byte_order::<T>()?;
        check_len(dst.len().saturating_mul(T::ITEMSIZE), self.nbytes())?;
        if let Some(bytes) = T::as_le_bytes_mut(dst) {
            self.read_stored_by(bytes, driver).await?;
            if other_order {
                bytes.chunks_exact_mut(T::WORD).for_each(<[u8]>::reverse);
            }
            return Ok(());
        }
        let mut bytes = buffer(self.nbytes())?;
        self.read_stored_by(&mut bytes, driver).await?;
        dst.copy_from_slice(&decode(&mut bytes, T::ITEMSIZE, other_order)?);
        Ok(())
    }

    /// Like [`read`](Self::read) of a `Vec<T>`, with an asynchronous driver. The caller checks the
    /// size of the result ([`NdArray::check_result`]).
    #[doc(hidden)]
    pub async fn read_by<T: Element>(&self, driver: &impl SelectionDriver) -> Result<Vec<T>, NdError> {
        self.byte_order::<T>()?;
        let nbytes = self.nbytes();
        let len = usize::try_from(self.len()).unwrap_or(usize::MAX);
        let mut items = T::zeroed(len).map_err(|_| NdError::TooLarge { asked: nbytes })?;
        self.read_into_by(&mut items, driver).await?;
        Ok(items)
    }
}
