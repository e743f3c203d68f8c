#![no_main]
#![allow(missing_docs)]

b2_fuzz::target!(store, frame);
