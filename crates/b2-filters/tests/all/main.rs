//! The tests of `b2-filters` from outside, in one program: a new file needs a line here.

mod c_vectors;
mod parts;
mod roundtrip;
