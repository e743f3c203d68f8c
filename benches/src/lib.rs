//! Inputs shared by the benches: deterministic, and similar to measured data.

/// Returns `n` floats of a smooth field with digitised noise, as bytes.
pub fn field_f32(n: usize) -> Vec<u8> {
    let mut noise = Noise(1);
    (0..n)
        .flat_map(|i| {
            let smooth = (i as f32 * 1e-4).sin() * 10.0 + (i as f32 * 3e-3).cos();
            ((smooth * 100.0).round() / 100.0 + (noise.next() & 3) as f32 * 0.01).to_le_bytes()
        })
        .collect()
}

/// Returns `n` slowly growing 32-bit integers, as bytes.
pub fn counter_i32(n: usize) -> Vec<u8> {
    let mut noise = Noise(2);
    let mut at = 0u32;
    (0..n)
        .flat_map(|_| {
            at = at.wrapping_add(noise.next() & 15);
            at.to_le_bytes()
        })
        .collect()
}

/// A xorshift generator: the same numbers on every machine.
struct Noise(u32);

impl Noise {
    fn next(&mut self) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 17;
        self.0 ^= self.0 << 5;
        self.0
    }
}
