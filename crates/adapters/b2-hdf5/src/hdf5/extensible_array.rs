//! Extensible arrays, which index chunks that grow along one dimension.
//!
//! The first elements are in the index block, the others in data blocks of increasing size. The index block has the addresses
//! of the first data blocks; those of the others are in secondary blocks.

use super::cursor::{Cursor, NOWHERE};
use super::header::Below;
use super::slots::{Each, Slots, bit};

/// An extensible array.
struct Array<'a> {
    below: &'a Below,
    address: u64,
    slots: Slots,
    /// Elements in the index block.
    direct: u64,
    /// Elements of the smallest data block.
    least: u64,
    /// Elements of a page.
    page: u64,
    /// Bytes of the number of an element.
    width: u64,
    only: Option<u64>,
}

/// Consecutive data blocks of the same size.
#[derive(Clone, Copy)]
struct Run {
    /// Their first element.
    first: u64,
    blocks: u64,
    /// Elements of each.
    count: u64,
}

/// Calls `each` with the elements of the array at an address, or at least with one of them.
pub(super) fn read(
    below: &Below,
    address: u64,
    is_filtered: bool,
    only: Option<u64>,
    each: &mut Each<'_>,
) -> Result<(), String> {
    let wrong = || format!("the extensible array at {address} is malformed");
    let (offset_size, length_size) = (below.offset_size, below.length_size);
    let len = u64::from(length_size).saturating_mul(6).saturating_add(offset_size.into()).saturating_add(16);
    let bytes = below.checked(address, len)?;
    let mut cursor = Cursor::new(&bytes);
    let mut parse = || {
        let is_array = cursor.bytes(4)? == b"EAHD" && cursor.u8()? == 0;
        let (client, size) = (cursor.u8()?, cursor.u8()?);
        let (bits, direct, least) = (cursor.u8()?, cursor.u8()?, cursor.u8()?);
        let (pointers, page) = (cursor.u8()?, cursor.u8()?);
        cursor.skip(usize::from(length_size).checked_mul(6)?)?;
        let index = cursor.address(offset_size)?;
        let is_right = is_array && least.is_power_of_two() && pointers.is_power_of_two() && bits <= 64;
        let slots = Slots::new(below, client, size, is_filtered)?;
        let (least, direct) = (u64::from(least), u64::from(direct));
        let page = 1_u64.checked_shl(page.into())?;
        let array =
            Array { below, address, slots, direct, least, page, width: u64::from(bits).div_ceil(8), only };
        // The number of runs of data blocks, and of those whose addresses are in the index block.
        let runs = u32::from(bits).checked_sub(least.checked_ilog2()?)?.checked_add(1)?;
        let near = pointers.checked_ilog2()?.checked_mul(2)?;
        is_right.then_some((array, index, runs, near.min(runs)))
    };
    let (array, index, runs, near) = parse().ok_or_else(wrong)?;
    if index == NOWHERE {
        return Ok(());
    }
    let blocks = (0..near).fold(0_u64, |n, run| n.saturating_add(array.run(run).blocks));
    let pointers = blocks.saturating_add(runs.saturating_sub(near).into());
    let len = pointers.saturating_mul(offset_size.into()).saturating_add(array.direct_len());
    let bytes = array.slots.block(below, *b"EAIB", (index, address), len)?;
    let mut cursor = Cursor::new(&bytes);
    let first = usize::try_from(array.direct_len()).ok().and_then(|len| cursor.bytes(len));
    array.slots.each(first.ok_or_else(wrong)?, 0, each)?;
    for n in 0..near {
        let run = array.run(n);
        for block in 0..run.blocks {
            let to = cursor.address(offset_size).ok_or_else(wrong)?;
            array.data_block(to, run, block, None, each)?;
        }
    }
    for n in near..runs {
        let to = cursor.address(offset_size).ok_or_else(wrong)?;
        array.secondary(to, array.run(n), each)?;
    }
    Ok(())
}

impl Array<'_> {
    /// Bytes of the elements in the index block.
    fn direct_len(&self) -> u64 {
        self.direct.saturating_mul(self.slots.size)
    }

    /// The number of blocks and their size double alternately.
    fn run(&self, n: u32) -> Run {
        let power = |n: u32| 1_u64.checked_shl(n).unwrap_or(u64::MAX);
        let before = self.least.saturating_mul(power(n).saturating_sub(1));
        Run {
            first: self.direct.saturating_add(before),
            blocks: power(n / 2),
            count: self.least.saturating_mul(power(n.div_ceil(2))),
        }
    }

    fn wants(&self, first: u64, count: u64) -> bool {
        self.only.is_none_or(|only| only >= first && only.saturating_sub(first) < count)
    }

    /// Reads a secondary block and its data blocks.
    fn secondary(&self, address: u64, run: Run, each: &mut Each<'_>) -> Result<(), String> {
        let wrong = || format!("the secondary block of an extensible array at {address} is malformed");
        if address == NOWHERE || !self.wants(run.first, run.blocks.saturating_mul(run.count)) {
            return Ok(());
        }
        let pages = if run.count > self.page { run.count / self.page } else { 0 };
        // One bit for each page, set if it was written.
        let bits = run.blocks.saturating_mul(pages.div_ceil(8));
        let pointers = run.blocks.saturating_mul(self.below.offset_size.into());
        let len = self.width.saturating_add(bits).saturating_add(pointers);
        let bytes = self.slots.block(self.below, *b"EASB", (address, self.address), len)?;
        let mut cursor = Cursor::new(&bytes);
        let take = |cursor: &mut Cursor<'_>, len: u64| cursor.skip(usize::try_from(len).ok()?);
        take(&mut cursor, self.width).ok_or_else(wrong)?;
        let written = cursor.rest();
        take(&mut cursor, bits).ok_or_else(wrong)?;
        for block in 0..run.blocks {
            let to = cursor.address(self.below.offset_size).ok_or_else(wrong)?;
            self.data_block(to, run, block, Some(written), each)?;
        }
        Ok(())
    }

    /// Reads a data block of a run. `written` has the bits of the written pages of all blocks of the run.
    fn data_block(
        &self,
        address: u64,
        run: Run,
        block: u64,
        written: Option<&[u8]>,
        each: &mut Each<'_>,
    ) -> Result<(), String> {
        let first = run.first.saturating_add(block.saturating_mul(run.count));
        if address == NOWHERE || !self.wants(first, run.count) {
            return Ok(());
        }
        let place = (address, self.address);
        if run.count <= self.page {
            let len = self.width.saturating_add(run.count.saturating_mul(self.slots.size));
            let bytes = self.slots.block(self.below, *b"EADB", place, len)?;
            let elements = usize::try_from(self.width).ok().and_then(|at| bytes.get(at..));
            return self.slots.each(elements.unwrap_or_default(), first, each);
        }
        let written = written.ok_or("pages in the index block of an extensible array")?;
        self.slots.block(self.below, *b"EADB", place, self.width)?;
        let pages = run.count / self.page;
        let start = address.saturating_add(self.slots.head()).saturating_add(self.width).saturating_add(4);
        let whole = self.page.saturating_mul(self.slots.size).saturating_add(4);
        for n in 0..pages {
            let from = first.saturating_add(n.saturating_mul(self.page));
            let number = block.saturating_mul(pages).saturating_add(n);
            if bit(written, number) && self.wants(from, self.page) {
                let at = start.saturating_add(n.saturating_mul(whole));
                self.slots.page(self.below, at, (from, self.page), each)?;
            }
        }
        Ok(())
    }
}
