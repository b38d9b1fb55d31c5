//! Prints the description of the API: `cargo run -p tidings-http-api --example openapi > docs/openapi.json`.

use std::io::Write as _;

fn main() -> std::io::Result<()> {
    std::io::stdout().write_all(tidings_http_api::openapi().as_bytes())
}
