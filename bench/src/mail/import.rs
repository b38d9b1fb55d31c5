//! A file of people, taken in.

use std::fmt::Write as _;
use std::io::Cursor;
use std::time::Instant;

use anyhow::ensure;
use tidings_access::Cx;
use tidings_people::import::{self, Counts, Settings};

/// Rows a second: everybody new, and then the same file again.
pub(super) struct Rates {
    pub(super) new: f64,
    pub(super) again: f64,
}

pub(super) async fn measure(cx: &Cx, rows: usize) -> anyhow::Result<Rates> {
    let file = file(rows)?;
    let new = timed(cx, file.clone(), |counts| counts.new, rows).await?;
    let again = timed(cx, file, |counts| counts.unchanged, rows).await?;
    Ok(Rates { new, again })
}

async fn timed(
    cx: &Cx,
    file: String,
    ended: impl Fn(&Counts) -> u64,
    rows: usize,
) -> anyhow::Result<f64> {
    let settings = Settings { source: "bench".to_owned(), ..Settings::default() };
    let began = Instant::now();
    let counts = import::run(cx, Cursor::new(file.into_bytes()), settings, |_| ()).await?;
    let elapsed = began.elapsed();
    ensure!(ended(&counts) == rows as u64, "not every row ended as it should: {counts:?}");
    Ok(rows as f64 / elapsed.as_secs_f64())
}

/// Addresses in no order, as in life; two tags and three attributes for each.
fn file(rows: usize) -> anyhow::Result<String> {
    let mut file = String::from("email,first_name,tags,plan,city,score\n");
    for number in 0..rows {
        let scattered = (number as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 24;
        let (plan, tag) = (["free", "pro", "team"][number % 3], number % 20);
        writeln!(
            file,
            "person{scattered:010x}@example.org,Ada,\"customer;group-{tag}\",{plan},Ghent,{number}"
        )?;
    }
    Ok(file)
}
