//! The checksum of HDF5's metadata: Jenkins' lookup3 with an initial value of 0.

/// Returns the checksum of bytes.
pub(crate) fn lookup3(bytes: &[u8]) -> u32 {
    // The length is taken modulo 2^32.
    let start = 0xDEAD_BEEF_u32.wrapping_add(bytes.len() as u32);
    let (mut a, mut b, mut c) = (start, start, start);
    let mut rest = bytes;
    // The last 1 to 12 bytes are mixed differently.
    while let Some((block, more)) = rest.split_first_chunk::<12>().filter(|(_, more)| !more.is_empty()) {
        [a, b, c] = add([a, b, c], block);
        for turn in [4, 6, 8, 16, 19, 4] {
            let mixed = a.wrapping_sub(c) ^ c.rotate_left(turn);
            (a, b, c) = (b, c.wrapping_add(b), mixed);
        }
        rest = more;
    }
    if rest.is_empty() {
        return c;
    }
    let mut block = [0; 12];
    for (to, from) in block.iter_mut().zip(rest) {
        *to = *from;
    }
    [a, b, c] = add([a, b, c], &block);
    for turn in [14, 11, 25, 16, 4, 14, 24] {
        let mixed = (c ^ b).wrapping_sub(b.rotate_left(turn));
        (a, b, c) = (b, mixed, a);
    }
    b
}

fn add(sums: [u32; 3], block: &[u8; 12]) -> [u32; 3] {
    let mut out = sums;
    for (sum, word) in out.iter_mut().zip(block.as_chunks::<4>().0) {
        *sum = sum.wrapping_add(u32::from_le_bytes(*word));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_lookup3() {
        let bytes: Vec<u8> = (0..100).collect();
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
        assert_eq!(lookup3(b""), 0xDEAD_BEEF);
        for (len, sum) in [(12, 0x5E4A_A593), (13, 0xBC9D_6816), (100, 0x682B_4C0B)] {
            assert_eq!(lookup3(&bytes[..len]), sum, "{len}");
        }
    }
}
