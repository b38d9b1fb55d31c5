//! Many rows in one `INSERT`, whose text is one of a few however many rows there are: each text is prepared once and kept.

use std::fmt::Write as _;

use super::DatabaseError;
use super::tx::{Param, Row, Tx};

/// The most rows of one statement. With some thirty columns it is far from the parameters that either engine takes.
const MOST: usize = 64;

impl Tx<'_> {
    /// Inserts rows in their order: `into` is `INSERT INTO t (a, b)`, each row has a value for each column, and `then` is what
    /// follows the values, `ON CONFLICT … RETURNING …`. The rows that are returned are told.
    pub fn insert_all(
        &mut self,
        into: &str,
        rows: &[Vec<Param<'_>>],
        then: &str,
    ) -> Result<Vec<Row>, DatabaseError> {
        let (mut told, mut rest) = (Vec::new(), rows);
        while let Some(first) = rest.first() {
            // Powers of two, so that there are seven texts and not sixty-four.
            let count = 1 << rest.len().min(MOST).ilog2();
            let (now, later) = rest.split_at(count);
            let sql = format!("{into} VALUES {} {then}", places(count, first.len()));
            let params: Vec<Param<'_>> = now.iter().flatten().copied().collect();
            told.extend(self.query(&sql, &params)?);
            rest = later;
        }
        Ok(told)
    }
}

/// `($1, $2), ($3, $4)`
fn places(rows: usize, columns: usize) -> String {
    let mut places = String::new();
    for row in 0..rows {
        places.push_str(if row == 0 { "(" } else { ", (" });
        for column in 1..=columns {
            let comma = if column == 1 { "" } else { ", " };
            write!(places, "{comma}${}", row * columns + column).expect("a text can be written to");
        }
        places.push(')');
    }
    places
}

#[cfg(test)]
mod tests {
    use super::places;

    #[test]
    fn every_value_has_its_place() {
        assert_eq!(places(1, 1), "($1)");
        assert_eq!(places(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
