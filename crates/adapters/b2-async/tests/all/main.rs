//! Reading asynchronously, compared with reading synchronously.

mod arrays;
mod fixtures;
mod frames;
mod misbehaving;
mod rounds;
mod store;
