//! The tests of `b2-codecs` from outside, in one program: a new file needs a line here.

mod blosclz;
mod c_streams;
mod common;
mod decode_start;
mod hostile;
mod ndlz;
mod regular;
mod roundtrip;
