//! The binary. All of it is in the library, where tests can reach it.

use std::process::ExitCode;

/// What one thread makes another one frees, all the time: the system's allocator is slow at that.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    tidings_app::main()
}
