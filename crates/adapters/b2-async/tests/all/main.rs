//! Reading asynchronously, beside reading synchronously.

mod arrays;
mod fixtures;
mod frames;
mod misbehaving;
mod rounds;
mod store;
