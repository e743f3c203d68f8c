//! Reads of selections with an asynchronous driver.

use b2_frame::Read;

use crate::model::element::decode;
use crate::read::output::{buffer, check_len};
use crate::read::selected::SelectionRead;
use crate::{Element, NdError, Slice};

/// A driver for reads of selections.
pub trait SelectionDriver {
    /// Fetches what the read needs, and runs its jobs, until it is done.
    fn drive(&self, read: &mut Read<'_, SelectionRead>)
    -> impl MaybeSendFuture<Output = Result<(), NdError>>;
}

/// A future that can be sent to another thread, except on wasm, which has no threads.
#[cfg(not(target_family = "wasm"))]
pub trait MaybeSendFuture: Future + Send {}
#[cfg(not(target_family = "wasm"))]
impl<F: Future + Send> MaybeSendFuture for F {}

/// A future that can be sent to another thread, except on wasm, which has no threads.
#[cfg(target_family = "wasm")]
pub trait MaybeSendFuture: Future {}
#[cfg(target_family = "wasm")]
impl<F: Future> MaybeSendFuture for F {}

impl Slice {
    /// Reads the stored items in C order into `dst`, with an asynchronous driver.
    async fn read_stored_by(&self, dst: &mut [u8], driver: &impl SelectionDriver) -> Result<(), NdError> {
        let named = |error| self.array().add_name(error);
        let Some(mut read) = self.begin(dst).map_err(named)? else { return Ok(()) };
        driver.drive(&mut read).await.map_err(named)?;
        read.finish().map(drop).map_err(named)
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

    /// Fails unless the items are of type `T`, before anything is allocated for them.
    #[doc(hidden)]
    pub fn check_element<T: Element>(&self) -> Result<(), NdError> {
        self.byte_order::<T>().map(drop)
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
}
