//! Fixed arrays, which index chunks whose maximum number is known: one block of elements, or pages of them.

use super::cursor::{Cursor, NOWHERE};
use super::header::Below;
use super::slots::{Each, Slots, bit};

/// Calls `each` with the elements of the array at an address, or at least with one of them.
pub(super) fn read(
    below: &Below,
    address: u64,
    is_filtered: bool,
    only: Option<u64>,
    each: &mut Each<'_>,
) -> Result<(), String> {
    let wrong = || format!("the fixed array at {address} is malformed");
    let len = u64::from(below.offset_size).saturating_add(below.length_size.into()).saturating_add(12);
    let bytes = below.checked(address, len)?;
    let mut cursor = Cursor::new(&bytes);
    let mut parse = || {
        let is_array = cursor.bytes(4)? == b"FAHD" && cursor.u8()? == 0;
        let (client, size, bits) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
        let (count, block) = (cursor.uint(below.length_size)?, cursor.address(below.offset_size)?);
        let slots = Slots::new(below, client, size, is_filtered)?;
        is_array.then_some((slots, 1_u64.checked_shl(bits.into())?, count, block))
    };
    let (slots, page, count, block) = parse().ok_or_else(wrong)?;
    if block == NOWHERE {
        return Ok(());
    }
    if count <= page {
        let bytes = slots.block(below, *b"FADB", (block, address), count.saturating_mul(slots.size))?;
        return slots.each(&bytes, 0, each);
    }
    let pages = count.div_ceil(page);
    let bits = slots.block(below, *b"FADB", (block, address), pages.div_ceil(8))?;
    let first = block.saturating_add(slots.head()).saturating_add(pages.div_ceil(8)).saturating_add(4);
    let whole = page.saturating_mul(slots.size).saturating_add(4);
    for n in 0..pages {
        let start = n.saturating_mul(page);
        let held = page.min(count.saturating_sub(start));
        // The bits of pages that were never written are 0.
        if bit(&bits, n) && only.is_none_or(|only| only / page == n) {
            let at = first.saturating_add(n.saturating_mul(whole));
            slots.page(below, at, (start, held), each)?;
        }
    }
    Ok(())
}
