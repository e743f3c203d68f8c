//! Reading asynchronously, beside reading synchronously.

mod arrays;
mod fixtures;
mod frames;
mod rounds;
mod store;
mod wrong;
