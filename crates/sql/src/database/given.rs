//! Many values in one statement, which keeps its text however many they are: each text is prepared once and kept.

use serde_json::json;

use super::tx::{Param, Row, Tx};
use super::{DatabaseError, Dialect};

#[derive(Debug, Clone, Copy)]
pub enum Given<'a> {
    Texts(&'a [&'a str]),
    Ints(&'a [i64]),
}

impl Tx<'_> {
    /// As `query`, where `{given}` stands for a table `given` whose one column `value` has these values, and `{among}` for
    /// "is one of them": `WHERE id {among}`. They are the parameter after the others.
    ///
    /// What is looked up for each of them is best joined by the id that a subquery finds:
    /// `FROM {given} JOIN t ON t.id = (SELECT one.id FROM t one WHERE one.a = $1 AND one.b = given.value)`. Neither engine
    /// then goes through all rows with that `a`, which both do when they do not know (yet) how many there are.
    pub fn query_given(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        given: Given<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let place = params.len() + 1;
        let mut params = params.to_vec();
        let table = match (self.dialect(), given) {
            (Dialect::Sqlite, _) => format!("json_each(${place}) AS given"),
            (Dialect::Postgres, Given::Texts(_)) => {
                format!("unnest(${place}::text[]) AS given (value)")
            }
            (Dialect::Postgres, Given::Ints(_)) => {
                format!("unnest(${place}::bigint[]) AS given (value)")
            }
        };
        let among = match self.dialect() {
            Dialect::Sqlite => format!("IN (SELECT value FROM json_each(${place}))"),
            Dialect::Postgres => format!("= ANY(${place})"),
        };
        let sql = sql.replace("{given}", &table).replace("{among}", &among);
        match (self.dialect(), given) {
            (Dialect::Sqlite, given) => {
                let list = match given {
                    Given::Texts(texts) => json!(texts).to_string(),
                    Given::Ints(ints) => json!(ints).to_string(),
                };
                params.push(Param::Text(&list));
                self.query(&sql, &params)
            }
            (Dialect::Postgres, Given::Texts(texts)) => {
                let texts: Vec<_> = texts.iter().map(|text| Some(*text)).collect();
                params.push(Param::Texts(&texts));
                self.query(&sql, &params)
            }
            (Dialect::Postgres, Given::Ints(ints)) => {
                let ints: Vec<_> = ints.iter().map(|int| Some(*int)).collect();
                params.push(Param::Ints(&ints));
                self.query(&sql, &params)
            }
        }
    }
}
