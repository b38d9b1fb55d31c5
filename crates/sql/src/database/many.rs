//! Many rows with as few round trips as the engine has: PostgreSQL gets them in one `INSERT`, whose text is one of a few however
//! many rows there are, so that each is prepared once and kept. SQLite has no round trips, and gets row after row.

use std::fmt::Write as _;

use super::DatabaseError;
use super::sqlite::statements;
use super::tx::{Fault, Param, Row, Tx};

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
        if let (Some(connection), Some(first)) = (self.sqlite(), rows.first()) {
            let sql = format!("{into} VALUES {} {then}", places(1, first.len()));
            let told = statements::query_each(connection, &sql, rows);
            return self.noting_failure(told.map_err(Fault::from));
        }
        let (mut told, mut rest) = (Vec::new(), rows);
        while let Some(first) = rest.first() {
            let count = at_once(rest.len());
            let (now, later) = rest.split_at(count);
            let sql = format!("{into} VALUES {} {then}", places(count, first.len()));
            let params: Vec<Param<'_>> = now.iter().flatten().copied().collect();
            told.extend(self.query(&sql, &params)?);
            rest = later;
        }
        Ok(told)
    }
}

/// How many of so many rows the next statement has: whole eights while there are any, and then the rest. So there are fifteen
/// texts and not sixty-four, and up to `MOST` rows are two statements at most.
fn at_once(rows: usize) -> usize {
    match rows.min(MOST) {
        few @ 0..8 => few,
        many => many / 8 * 8,
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
    use std::collections::BTreeSet;

    use super::{MOST, at_once, places};

    #[test]
    fn few_texts_insert_any_number_of_rows_in_few_statements() {
        let mut texts = BTreeSet::new();
        for rows in 1..=MOST * 3 {
            let (mut left, mut statements) = (rows, 0);
            while left > 0 {
                texts.insert(at_once(left));
                left -= at_once(left);
                statements += 1;
            }
            assert!(statements <= rows / MOST + 2, "{rows} rows in {statements} statements");
        }
        assert_eq!((texts.len(), texts.last()), (15, Some(&MOST)));
    }

    #[test]
    fn every_value_has_its_place() {
        assert_eq!(places(1, 1), "($1)");
        assert_eq!(places(2, 3), "($1, $2, $3), ($4, $5, $6)");
    }
}
