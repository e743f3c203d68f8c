//! Allocations that return an error when memory runs out.
//!
//! Rust's collections abort the process in that case. So buffers that are large, or whose length comes from a file, are
//! allocated here. Small allocations (boxes, names, short lists) use the standard collections.

use zerocopy::FromZeros;

use crate::OutOfMemory;

/// Allocates a buffer of zeros. Large ones are mapped already zeroed by the system, so untouched pages cost nothing.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
pub fn zeroed(len: usize) -> Result<Vec<u8>, OutOfMemory> {
    u8::new_vec_zeroed(len).map_err(|_| OutOfMemory { bytes: len as u64 })
}

/// Allocates an array of zeros on the heap.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
pub fn zeroed_array<T: FromZeros, const N: usize>() -> Result<Box<[T; N]>, OutOfMemory> {
    // Boxing an array would build it on the stack first.
    let out_of_memory = OutOfMemory { bytes: size_of::<[T; N]>() as u64 };
    let zeros = T::new_vec_zeroed(N).map_err(|_| out_of_memory)?;
    zeros.try_into().map_err(|_| out_of_memory)
}

/// Returns the first `len` bytes of a buffer, which is reallocated if it is shorter. Their content is unspecified, but
/// only ever comes from earlier uses of this buffer.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory. The buffer is then empty.
pub fn sized(buffer: &mut Vec<u8>, len: usize) -> Result<&mut [u8], OutOfMemory> {
    if buffer.len() < len {
        // Free the old buffer before allocating: its content is not needed.
        *buffer = Vec::new();
        *buffer = zeroed(len)?;
    }
    Ok(&mut buffer[..len])
}

/// Allocates an empty list with capacity for `capacity` items.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
pub fn list<T>(capacity: usize) -> Result<Vec<T>, OutOfMemory> {
    let mut list = Vec::new();
    reserve(&mut list, capacity)?;
    Ok(list)
}

/// Reserves space for `more` items. The first reservation of an empty list is exact.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
#[inline]
pub fn reserve<T>(list: &mut Vec<T>, more: usize) -> Result<(), OutOfMemory> {
    let room = if list.capacity() == 0 { list.try_reserve_exact(more) } else { list.try_reserve(more) };
    room.map_err(|_| OutOfMemory { bytes: (more as u64).saturating_mul(size_of::<T>() as u64) })
}

/// Appends an item.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
pub fn push<T>(list: &mut Vec<T>, item: T) -> Result<(), OutOfMemory> {
    if list.len() == list.capacity() {
        let more = list.len().max(4);
        list.try_reserve(more).map_err(|_| OutOfMemory { bytes: (more * size_of::<T>()) as u64 })?;
    }
    list.push(item);
    Ok(())
}

/// Collects all items into a list.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
pub fn collect<T>(items: impl IntoIterator<Item = T>) -> Result<Vec<T>, OutOfMemory> {
    let items = items.into_iter();
    let mut list = list(items.size_hint().0)?;
    for item in items {
        push(&mut list, item)?;
    }
    Ok(list)
}

/// Copies bytes into a new buffer.
///
/// # Errors
/// [`OutOfMemory`] if there is not enough memory.
pub fn copied(bytes: &[u8]) -> Result<Vec<u8>, OutOfMemory> {
    let mut copy = list(bytes.len())?;
    copy.extend_from_slice(bytes);
    Ok(copy)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_than_there_can_be_is_an_error() {
        // On 32-bit systems an allocation of 2 GiB may well succeed.
        let absent = if cfg!(target_pointer_width = "64") { isize::MAX as usize } else { usize::MAX };
        assert!(zeroed(absent) == Err(OutOfMemory { bytes: absent as u64 }));
        assert!(zeroed(usize::MAX) == Err(OutOfMemory { bytes: usize::MAX as u64 }));
        assert!(list::<u64>(usize::MAX / 4).is_err());
        let mut buffer = vec![7; 10];
        assert!(sized(&mut buffer, absent).is_err());
        assert!(reserve(&mut buffer, usize::MAX).is_err());
        assert_eq!(sized(&mut buffer, 3).unwrap(), [0; 3]);
    }

    #[test]
    fn lists_hold_what_is_put_in() {
        assert_eq!(zeroed(5).unwrap(), [0; 5]);
        assert_eq!(collect((0..1000).filter(|n| n % 3 == 0)).unwrap().len(), 334);
        assert_eq!(copied(b"abc").unwrap(), b"abc");
        let mut list = Vec::new();
        (0..100).try_for_each(|n| push(&mut list, n)).unwrap();
        assert_eq!(list, (0..100).collect::<Vec<_>>());
        let mut buffer = vec![7; 10];
        assert_eq!(sized(&mut buffer, 4).unwrap(), [7; 4]);
        assert_eq!(sized(&mut buffer, 11).unwrap(), [0; 11]);
    }
}
