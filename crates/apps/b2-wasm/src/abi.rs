//! The ABI for the page. Bytes pass through one buffer in each direction, in the memory of this module.
//!
//! The page writes into [`b2_input`], calls a function, and then calls [`b2_next`] until it returns 0.
#![allow(unsafe_code, reason = "functions whose names the page knows; no memory is accessed by its address")]

use std::cell::RefCell;
use std::io;

use b2_frame::Version;
use bytes::Bytes;
use serde_json::json;

use crate::engine::Engine;
use crate::host::{HostRequest, HostResponse};

#[derive(Default)]
struct AbiState {
    engine: Engine,
    input: Vec<u8>,
    json: String,
    bytes: Vec<u8>,
}

thread_local! {
    static STATE: RefCell<AbiState> = RefCell::default();
}

fn with<T>(work: impl FnOnce(&mut AbiState) -> T) -> T {
    STATE.with_borrow_mut(work)
}

// SAFETY: no other code exports these names.
macro_rules! export {
    ($(#[$doc:meta])* $name:ident($($arg:ident: $of:ty),*) -> $out:ty $body:block) => {
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub extern "C" fn $name($($arg: $of),*) -> $out $body
    };
}

export! {
    /// Allocates `len` bytes for input and returns the address.
    b2_input(len: usize) -> *mut u8 {
        with(|room| {
            // Not `resize`, which writes byte by byte when optimized for size.
            room.input = vec![0; len];
            room.input.as_mut_ptr()
        })
    }
}

export! {
    /// Starts a task with the command in the input.
    b2_call(task: u32) -> () {
        with(|room| {
            let command = String::from_utf8_lossy(&room.input).into_owned();
            room.engine.call(task, &command);
            room.engine.poll();
        });
    }
}

export! {
    /// Ends a task.
    b2_cancel(task: u32) -> () {
        with(|room| room.engine.cancel(task));
    }
}

export! {
    /// Passes the response to a request. The input is the length of the file (below 0 if unknown is `f64`), and texts
    /// of which the first `etag` bytes are the entity tag, the next `modified` bytes the time of the last change; the
    /// rest are the bytes of the file or, if `kind` is not 0, an error message: 1 any error, 2 no such file, 3 the file
    /// has changed.
    b2_answer(request: u32, kind: u32, len: f64, etag: usize, modified: usize) -> () {
        with(|room| {
            let mut bytes = Bytes::from(std::mem::take(&mut room.input));
            let mut text = |count: usize| {
                let part = bytes.split_to(count.min(bytes.len()));
                (!part.is_empty()).then(|| String::from_utf8_lossy(&part).into_owned())
            };
            let (etag, modified) = (text(etag), text(modified));
            let len = (len >= 0.0).then_some(len as u64);
            let version = Version::default().etag(etag).last_modified(modified).len(len);
            let found = match kind {
                0 => Ok(HostResponse { bytes, version }),
                kind => {
                    let kind = match kind {
                        2 => io::ErrorKind::NotFound,
                        3 => io::ErrorKind::StaleNetworkFileHandle,
                        _ => io::ErrorKind::Other,
                    };
                    Err(io::Error::new(kind, String::from_utf8_lossy(&bytes).into_owned()))
                }
            };
            room.engine.host().answer(request, found);
            room.engine.poll();
        });
    }
}

export! {
    /// Returns the kind of the next event: 1 a request for the page, 2 a finished task, 3 a failed task, 0 none. Its
    /// JSON and bytes are at the addresses below until the next call.
    b2_next() -> u32 {
        with(|room| {
            room.bytes = Vec::new();
            if let Some(ask) = room.engine.ask() {
                let ask = match ask {
                    HostRequest::Read { request, file, chunk: None, range } => {
                        json!({"read": request, "file": file, "start": range.start, "end": range.end})
                    }
                    HostRequest::Read { request, file, chunk: Some(chunk), range } => {
                        json!({"read": request, "file": file, "start": range.start, "end": range.end, "chunk": chunk})
                    }
                    HostRequest::Length { request, file } => json!({"length": request, "file": file}),
                    HostRequest::Forget { request } => json!({"forget": request}),
                };
                room.json = ask.to_string();
                return 1;
            }
            let Some((task, result)) = room.engine.done() else { return 0 };
            let (json, kind) = match result {
                Ok(answer) => {
                    room.bytes = answer.bytes;
                    (json!({"task": task, "answer": answer.json}), 2)
                }
                Err(words) => (json!({"task": task, "error": words}), 3),
            };
            room.json = json.to_string();
            kind
        })
    }
}

export! {
    /// Address of the JSON.
    b2_json() -> *const u8 {
        with(|room| room.json.as_ptr())
    }
}

export! {
    /// Length of the JSON in bytes.
    b2_json_len() -> usize {
        with(|room| room.json.len())
    }
}

export! {
    /// Address of the bytes.
    b2_bytes() -> *const u8 {
        with(|room| room.bytes.as_ptr())
    }
}

export! {
    /// Number of bytes.
    b2_bytes_len() -> usize {
        with(|room| room.bytes.len())
    }
}
