//! Writes blocks of deflate streams (RFC 1951) without a search for repeats.
//!
//! ```text
//! block   = last 1, type 2, ...        bits are filled in from the lowest of each byte
//! type 0    zero bits to the next byte, length 16, its complement 16, the bytes
//! type 2    counts 14, code lengths (coded themselves), symbols: 0 to 255 a byte, 256 the end of the block,
//!           257 to 285 a length with extra bits, then a distance
//! ```

/// Maximum code length. The format allows 15. With this value all codes fit the first-level table of zlib's readers,
/// for about a thousandth more bytes.
const MAX_CODE: usize = 10;
/// Number of symbols for literals and the end of the block.
const NLITERALS: usize = 257;
/// Number of all symbols, including those for match lengths.
const NSYMBOLS: usize = 286;
const END: usize = 256;
/// Length of the longest repeat.
const MAX_REPEAT: usize = 258;
/// Symbol of the longest repeat.
const LONGEST: usize = 285;
/// The order in which the lengths of the code of code lengths are written.
const LENGTH_ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// Writes bits. Methods return `None` if they do not fit.
pub(crate) struct BitWriter<'a> {
    dst: &'a mut [u8],
    len: usize,
    bits: u64,
    nbits: u32,
}

impl<'a> BitWriter<'a> {
    /// Continues after the first `len` bytes of `dst`.
    pub(crate) fn new(dst: &'a mut [u8], len: usize) -> Self {
        Self { dst, len, bits: 0, nbits: 0 }
    }

    /// Appends the low `count` bits of `bits`. All other bits must be 0. At most 57 bits may be pending afterwards.
    #[inline(always)]
    fn push(&mut self, bits: u64, count: u32) {
        self.bits |= bits << self.nbits;
        self.nbits += count;
    }

    /// Stores whole bytes, so that at most 7 bits remain pending.
    #[inline(always)]
    fn flush(&mut self) -> Option<()> {
        let count = (self.nbits / 8) as usize;
        match self.dst.get_mut(self.len..self.len + 8) {
            Some(to) => to.copy_from_slice(&self.bits.to_le_bytes()),
            None => self
                .dst
                .get_mut(self.len..self.len + count)?
                .copy_from_slice(&self.bits.to_le_bytes()[..count]),
        }
        self.len += count;
        self.bits = self.bits.checked_shr(self.nbits & !7).unwrap_or(0);
        self.nbits &= 7;
        Some(())
    }

    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) -> Option<()> {
        self.push(bits, count);
        self.flush()
    }

    /// Aligns to a byte boundary between blocks, with an empty stored block.
    pub(crate) fn align(&mut self) -> Option<()> {
        if self.nbits == 0 { Some(()) } else { self.stored(&[], false) }
    }

    /// Pads to a byte boundary. Returns the number of bytes written.
    pub(crate) fn finish(mut self) -> Option<usize> {
        let padding = self.nbits.wrapping_neg() & 7;
        self.put(0, padding)?;
        Some(self.len)
    }

    /// Appends `data` as stored blocks, ending at a byte boundary. Without data, it appends an empty block.
    pub(crate) fn stored(&mut self, data: &[u8], last: bool) -> Option<()> {
        let mut rest = data;
        loop {
            let (block, others) = rest.split_at(rest.len().min(0xffff));
            rest = others;
            self.put(u64::from(last && rest.is_empty()), 3)?;
            self.put(0, self.nbits.wrapping_neg() & 7)?;
            let len = block.len() as u64;
            self.put(len | (len ^ 0xffff) << 16, 32)?;
            self.dst.get_mut(self.len..self.len + block.len())?.copy_from_slice(block);
            self.len += block.len();
            if rest.is_empty() {
                return Some(());
            }
        }
    }

    /// Appends `data`, at most 4 GiB, as one block of literals, or as stored blocks if that is shorter.
    pub(crate) fn literals(&mut self, data: &[u8], last: bool) -> Option<()> {
        let mut counts = count_bytes(data);
        counts[END] = 1;
        let lengths = code_lengths::<NLITERALS>(&counts, MAX_CODE);
        let head = Head::new(&lengths);
        let nbits: u64 = counts.iter().zip(&lengths).map(|(&n, &len)| u64::from(n) * u64::from(len)).sum();
        if (nbits + u64::from(head.nbits())) / 8 >= data.len() as u64 {
            return self.stored(data, last);
        }
        self.put(u64::from(last) | 2 << 1, 3)?;
        head.write(self)?;
        let codes = codes(&lengths);
        let (groups, rest) = data.as_chunks::<4>();
        for group in groups {
            for &byte in group {
                let (code, len) = codes[usize::from(byte)];
                self.push(u64::from(code), u32::from(len));
            }
            self.flush()?;
        }
        for symbol in rest.iter().map(|&byte| usize::from(byte)).chain([END]) {
            let (code, len) = codes[symbol];
            self.put(u64::from(code), u32::from(len))?;
        }
        Some(())
    }
}

impl BitWriter<'_> {
    /// Appends `count` bytes `value`, at least one, as one block.
    pub(crate) fn run(&mut self, value: u8, count: usize, last: bool) -> Option<()> {
        let value = usize::from(value);
        let nrepeats = (count - 1) / MAX_REPEAT;
        let nliterals = count - nrepeats * MAX_REPEAT;
        let mut counts = [0; NSYMBOLS];
        counts[END] = 1;
        counts[LONGEST] = u32::try_from(nrepeats).ok()?;
        counts[value] = nliterals as u32;
        let lengths = code_lengths::<NSYMBOLS>(&counts, MAX_CODE);
        self.put(u64::from(last) | 2 << 1, 3)?;
        Head::new(&lengths).write(self)?;
        let codes = codes(&lengths);
        let mut symbol = |symbol: usize, extra: u32| {
            let (code, len) = codes[symbol];
            self.put(u64::from(code), u32::from(len) + extra)
        };
        symbol(value, 0)?;
        for _ in 0..nrepeats {
            // The code of distance 1 is a single zero bit.
            symbol(LONGEST, 1)?;
        }
        for _ in 1..nliterals {
            symbol(value, 0)?;
        }
        symbol(END, 0)
    }
}

/// Counts how often each byte occurs.
fn count_bytes(data: &[u8]) -> [u32; NLITERALS] {
    // Several tables, so that consecutive equal bytes do not wait for each other.
    let mut counts = [[0u32; 256]; 4];
    let (groups, rest) = data.as_chunks::<4>();
    for group in groups {
        for (table, &byte) in counts.iter_mut().zip(group) {
            table[usize::from(byte)] += 1;
        }
    }
    for &byte in rest {
        counts[0][usize::from(byte)] += 1;
    }
    let mut sums = [0; NLITERALS];
    for (value, sum) in sums[..256].iter_mut().enumerate() {
        *sum = counts.iter().map(|table| table[value]).sum();
    }
    sums
}

/// Computes the lengths of Huffman codes of at most `max` bits for symbols with these counts. A length of 0 means that
/// the symbol is unused. A lone symbol gets one bit.
fn code_lengths<const N: usize>(counts: &[u32; N], max: usize) -> [u8; N] {
    let mut lengths = [0u8; N];
    // The symbols in use, rarest first.
    let mut used: Vec<(u32, usize)> = (0..N).filter(|&n| counts[n] > 0).map(|n| (counts[n], n)).collect();
    used.sort_unstable();
    if let [(_, lone)] = used[..] {
        lengths[lone] = 1;
        return lengths;
    }
    // Build the tree: repeatedly join the two lightest nodes. Inner nodes are created in order of weight. `parents`
    // lists the parents of the leaves, then of the inner nodes.
    let nleaves = used.len();
    let mut weights: Vec<u64> = Vec::with_capacity(nleaves);
    let mut parents = vec![0usize; 2 * nleaves];
    let (mut leaf, mut joint) = (0, 0);
    for made in 0..nleaves.saturating_sub(1) {
        let mut lightest = || {
            let from_leaves = used.get(leaf).map(|&(count, _)| u64::from(count));
            let take_leaf = match (from_leaves, weights.get(joint)) {
                (Some(count), Some(&weight)) => count <= weight,
                (from_leaves, _) => from_leaves.is_some(),
            };
            if take_leaf {
                leaf += 1;
                parents[leaf - 1] = made;
                from_leaves.unwrap_or(0)
            } else {
                joint += 1;
                parents[nleaves + joint - 1] = made;
                weights[joint - 1]
            }
        };
        let weight = lightest() + lightest();
        weights.push(weight);
    }
    // Compute depths from the root (the last inner node) down, and count the leaves per depth, clamped to `max`.
    let mut depths = vec![0usize; nleaves.saturating_sub(1)];
    for joint in (0..nleaves.saturating_sub(2)).rev() {
        depths[joint] = depths[parents[nleaves + joint]] + 1;
    }
    let mut of_depth = [0usize; 33];
    for leaf in 0..nleaves {
        of_depth[(depths[parents[leaf]] + 1).min(max)] += 1;
    }
    // Clamping may have oversubscribed the code space: lengthen other codes until all fit.
    let mut room: usize =
        of_depth.iter().take(max + 1).enumerate().skip(1).map(|(d, n)| n << (max - d)).sum();
    while room > 1 << max {
        let Some(depth) = (1..max).rev().find(|&depth| of_depth[depth] > 0) else { break };
        of_depth[depth] -= 1;
        of_depth[depth + 1] += 1;
        room -= 1 << (max - depth - 1);
    }
    // That may leave gaps, which readers reject: shorten the longest codes, or those that fill the gap exactly.
    while room < 1 << max {
        let gap = (1 << max) - room;
        let Some(depth) = (2..=max).rev().find(|&d| of_depth[d] > 0 && 1 << (max - d) <= gap) else { break };
        of_depth[depth] -= 1;
        of_depth[depth - 1] += 1;
        room += 1 << (max - depth);
    }
    // The rarest symbols get the longest codes.
    let mut symbols = used.iter();
    for depth in (1..=max).rev() {
        for &(_, symbol) in symbols.by_ref().take(of_depth[depth]) {
            lengths[symbol] = depth as u8;
        }
    }
    lengths
}

/// Computes the codes of these lengths, with their bits in writing order.
fn codes<const N: usize>(lengths: &[u8; N]) -> [(u16, u8); N] {
    let mut next = [0u16; 17];
    for length in 1..16 {
        let count = lengths.iter().filter(|&&l| usize::from(l) == length).count() as u16;
        next[length + 1] = (next[length] + count) << 1;
    }
    let mut codes = [(0, 0); N];
    for (code, &length) in codes.iter_mut().zip(lengths) {
        if length > 0 {
            let value = next[usize::from(length)];
            next[usize::from(length)] += 1;
            *code = (value.reverse_bits() >> (16 - length), length);
        }
    }
    codes
}

/// The head of a block of type 2: its code lengths, themselves coded.
struct Head {
    nsymbols: usize,
    /// Symbol, extra bits, and the number of extra bits.
    items: Vec<(u8, u8, u8)>,
    lengths: [u8; 19],
    nlengths: usize,
}

impl Head {
    /// Encodes the code lengths of at least [`NLITERALS`] symbols.
    fn new(symbols: &[u8]) -> Self {
        // Two distance codes of one bit each. Only distance 1 is used, but not all readers accept an incomplete code.
        let mut all = [1u8; NSYMBOLS + 2];
        all[..symbols.len()].copy_from_slice(symbols);
        let mut items = Vec::new();
        for run in all[..symbols.len() + 2].chunk_by(|a, b| a == b) {
            let (value, mut count) = (run[0], run.len());
            while count > 0 {
                // Symbols 17 and 18 repeat zero, 16 repeats the previous value.
                let (symbol, extra, bits, taken) = match count {
                    11.. if value == 0 => (18, count.min(138) - 11, 7, count.min(138)),
                    3.. if value == 0 => (17, count - 3, 3, count),
                    4.. => {
                        items.push((value, 0, 0));
                        count -= 1;
                        (16, count.min(6) - 3, 2, count.min(6))
                    }
                    _ => (value, 0, 0, 1),
                };
                items.push((symbol, extra as u8, bits));
                count -= taken;
            }
        }
        let mut counts = [0u32; 19];
        items.iter().for_each(|&(symbol, ..)| counts[usize::from(symbol)] += 1);
        let lengths = code_lengths::<19>(&counts, 7);
        let last = LENGTH_ORDER.iter().rposition(|&symbol| lengths[symbol] > 0).unwrap_or(0);
        Self { nsymbols: symbols.len(), items, lengths, nlengths: (last + 1).max(4) }
    }

    fn nbits(&self) -> u32 {
        let items: u32 = self
            .items
            .iter()
            .map(|&(symbol, _, bits)| u32::from(self.lengths[usize::from(symbol)] + bits))
            .sum();
        3 + 14 + 3 * self.nlengths as u32 + items
    }

    fn write(&self, out: &mut BitWriter<'_>) -> Option<()> {
        out.put((self.nsymbols - 257) as u64 | 1 << 5 | (self.nlengths as u64 - 4) << 10, 14)?;
        for &symbol in &LENGTH_ORDER[..self.nlengths] {
            out.put(u64::from(self.lengths[symbol]), 3)?;
        }
        let codes = codes(&self.lengths);
        for &(symbol, extra, bits) in &self.items {
            let (code, len) = codes[usize::from(symbol)];
            out.put(u64::from(code) | u64::from(extra) << len, u32::from(len + bits))?;
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks that the lengths form a complete code of at most `max` bits, with longer codes for rarer symbols.
    fn check_lengths<const N: usize>(counts: [u32; N], max: usize) {
        let lengths = code_lengths(&counts, max);
        let used = counts.iter().filter(|&&count| count > 0).count();
        let room: u64 =
            lengths.iter().filter(|&&len| len > 0).map(|&len| 1 << (max - usize::from(len))).sum();
        assert_eq!(room, if used == 1 { 1 << (max - 1) } else { 1 << max }, "{counts:?}");
        for (a, &count) in counts.iter().enumerate() {
            assert_eq!(count > 0, lengths[a] > 0);
            for (b, &other) in counts.iter().enumerate() {
                assert!(count <= other || other == 0 || lengths[a] <= lengths[b], "{counts:?} {a} {b}");
            }
        }
    }

    #[test]
    fn codes_are_complete() {
        let mut seed = 1_u64;
        let mut random = || {
            seed = seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            (seed >> 33) as u32
        };
        for _ in 0..2_000 {
            let mut counts = [0u32; 19];
            counts
                .iter_mut()
                .for_each(|count| *count = (random() % 64).saturating_sub(20) << (random() % 16));
            counts[18] = 1;
            check_lengths(counts, 7);
            check_lengths(counts, 5);
        }
        // Fibonacci numbers as weights demand the longest codes.
        let mut fibonacci = [1u32; 40];
        for n in 2..40 {
            fibonacci[n] = fibonacci[n - 1] + fibonacci[n - 2];
        }
        for max in 6..=15 {
            check_lengths(fibonacci, max);
        }
        let mut lone = [0; 19];
        lone[7] = 5;
        check_lengths(lone, 7);
    }

    fn check(write: impl Fn(&mut BitWriter<'_>) -> Option<()>, expected: &[u8]) {
        let mut dst = vec![0xcc; 2 * expected.len() + 400];
        let mut out = BitWriter::new(&mut dst, 3);
        write(&mut out).unwrap();
        let end = out.finish().unwrap();
        let mut got = vec![0; expected.len() + 1];
        let mut inflate = zlib_rs::Inflate::new(false, 15);
        let status = inflate.decompress(&dst[3..end], &mut got, zlib_rs::InflateFlush::Finish).unwrap();
        assert_eq!(status, zlib_rs::Status::StreamEnd);
        assert_eq!((inflate.total_in() as usize, inflate.total_out() as usize), (end - 3, expected.len()));
        assert!(got[..expected.len()] == *expected);
        // Too little space must be detected, and nothing written after the end.
        for room in (3..end).step_by(1 + end / 200) {
            dst.fill(0xcc);
            let mut out = BitWriter::new(&mut dst[..room], 3);
            assert!(write(&mut out).and_then(|()| out.finish()).is_none(), "{room} of {end}");
            assert!(dst[room..].iter().all(|&byte| byte == 0xcc));
        }
    }

    #[test]
    fn blocks_decode() {
        for len in [0, 1, 2, 3, 4, 5, 100, 1_000, 33_000, 66_000, 140_000_usize] {
            let uneven: Vec<u8> =
                (0..len as u32).map(|i| (i.wrapping_mul(i) >> 5) as u8 & (i >> 3) as u8).collect();
            let even: Vec<u8> = (0..len as u32).map(|i| (i.wrapping_mul(0x9e37_79b1) >> 24) as u8).collect();
            for data in [&uneven, &even, &vec![7; len]] {
                check(|out| out.literals(data, true), data);
                check(|out| out.stored(data, true), data);
                let (a, b) = data.split_at(len / 3);
                check(|out| out.literals(a, false).and_then(|()| out.literals(b, true)), data);
                check(
                    |out| {
                        out.literals(a, false)?;
                        out.align()?;
                        out.stored(b, true)
                    },
                    data,
                );
            }
            if len > 0 {
                let runs = [vec![0; len], vec![200; 3]].concat();
                check(|out| out.run(0, len, false).and_then(|()| out.run(200, 3, true)), &runs);
            }
        }
    }
}
