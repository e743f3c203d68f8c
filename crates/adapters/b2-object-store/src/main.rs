//! `b2kit-stores`: the command-line program `b2kit` with support for `s3://`, `gs://` and `az://` URLs.
#![forbid(unsafe_code)]

use std::io;
use std::process::ExitCode;
use std::sync::Arc;

use b2_frame::{ReadAt, ReadFiles};
use b2_object_store::Stores;

#[derive(Debug)]
struct Cloud(Stores);

impl b2_cli::Stores for Cloud {
    fn file_system(&self) -> Arc<dyn ReadFiles> {
        Arc::new(self.0.clone())
    }

    fn upload(
        &self,
        url: &str,
        file: &dyn ReadAt,
        replace: bool,
        going: &mut (dyn FnMut() -> io::Result<()> + Send),
    ) -> io::Result<()> {
        self.0.upload(url, file, replace, going)
    }

    fn counts(&self) -> (u64, u64) {
        self.0.counts()
    }
}

fn main() -> ExitCode {
    match Stores::new() {
        Ok(stores) => b2_cli::main_with(Box::new(Cloud(stores))),
        Err(error) => {
            eprintln!("b2kit: {error}");
            ExitCode::FAILURE
        }
    }
}
