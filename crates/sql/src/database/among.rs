//! Many values in one statement, which keeps its text however many they are: each text is prepared once and kept.

use serde_json::json;

use super::tx::{Param, Row, Tx};
use super::{DatabaseError, Dialect};

#[derive(Debug, Clone, Copy)]
pub enum Among<'a> {
    Texts(&'a [&'a str]),
    Ints(&'a [i64]),
}

impl Tx<'_> {
    /// As `query`, with some values as the parameter after the others. `{among}` stands for "is one of them", for a primary
    /// key: `WHERE id {among}`. `{given}` stands for a table `given` whose one column `value` has them.
    ///
    /// What is found by more than one column is best joined by the id that a subquery finds for each:
    /// `FROM {given} JOIN t ON t.id = (SELECT one.id FROM t one WHERE one.a = $1 AND one.b = given.value)`. Otherwise either
    /// engine may go through all rows with that `a`, as long as it does not know how many there are.
    pub fn query_among(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        among: Among<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let place = params.len() + 1;
        let mut params = params.to_vec();
        let (is_one, table) = match (self.dialect(), among) {
            (Dialect::Sqlite, _) => (
                format!("IN (SELECT value FROM json_each(${place}))"),
                format!("json_each(${place}) AS given"),
            ),
            (Dialect::Postgres, Among::Texts(_)) => {
                (format!("= ANY(${place})"), format!("unnest(${place}::text[]) AS given (value)"))
            }
            (Dialect::Postgres, Among::Ints(_)) => {
                (format!("= ANY(${place})"), format!("unnest(${place}::bigint[]) AS given (value)"))
            }
        };
        let sql = sql.replace("{among}", &is_one).replace("{given}", &table);
        match (self.dialect(), among) {
            (Dialect::Sqlite, among) => {
                let list = match among {
                    Among::Texts(texts) => json!(texts).to_string(),
                    Among::Ints(ints) => json!(ints).to_string(),
                };
                params.push(Param::Text(&list));
                self.query(&sql, &params)
            }
            (Dialect::Postgres, Among::Texts(texts)) => {
                let texts: Vec<_> = texts.iter().map(|text| Some(*text)).collect();
                params.push(Param::Texts(&texts));
                self.query(&sql, &params)
            }
            (Dialect::Postgres, Among::Ints(ints)) => {
                let ints: Vec<_> = ints.iter().map(|int| Some(*int)).collect();
                params.push(Param::Ints(&ints));
                self.query(&sql, &params)
            }
        }
    }
}
