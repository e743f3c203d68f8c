//! The tests of `b2-chunk` from outside, in one program: a new file needs a line here.

mod blosc1;
mod contexts;
mod control;
mod hooks;
mod hostile;
mod parts;
mod plugins;
mod recovery;
mod roundtrip;
mod values;
mod worked_examples;
