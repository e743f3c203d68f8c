//! The five programs of `examples/` run, and what they assert holds.

#[path = "../../examples/buffer.rs"]
mod buffer;
#[path = "../../examples/log.rs"]
mod log;
#[path = "../../examples/memory.rs"]
mod memory;
#[path = "../../examples/stack.rs"]
mod stack;
#[cfg(feature = "ndarray")]
#[path = "../../examples/window.rs"]
mod window;

#[test]
fn the_buffer_comes_back() {
    buffer::main().unwrap();
}

#[test]
fn the_log_grows() {
    log::main().unwrap();
}

#[test]
fn memory_of_any_layout_is_filled() {
    memory::main().unwrap();
}

#[test]
fn the_stack_is_written() {
    stack::main().unwrap();
}

#[cfg(feature = "ndarray")]
#[test]
fn the_window_is_read() {
    window::main().unwrap();
}
