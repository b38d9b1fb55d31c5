//! Many values in one statement, which keeps its text however many they are: each text is prepared once and kept.

use serde_json::json;

use super::tx::{Param, Row, Tx};
use super::{DatabaseError, Dialect};

/// What a column may be.
#[derive(Debug, Clone, Copy)]
pub enum Among<'a> {
    Texts(&'a [&'a str]),
    Ints(&'a [i64]),
}

impl Tx<'_> {
    /// As `query`, where `{among}` stands for "is one of these": `WHERE lead_id {among}`. The values are the parameter after
    /// the others.
    pub fn query_among(
        &mut self,
        sql: &str,
        params: &[Param<'_>],
        among: Among<'_>,
    ) -> Result<Vec<Row>, DatabaseError> {
        let place = params.len() + 1;
        let mut params = params.to_vec();
        match self.dialect() {
            Dialect::Sqlite => {
                let list = match among {
                    Among::Texts(texts) => json!(texts).to_string(),
                    Among::Ints(ints) => json!(ints).to_string(),
                };
                params.push(Param::Text(&list));
                let is_one = format!("IN (SELECT value FROM json_each(${place}))");
                self.query(&sql.replace("{among}", &is_one), &params)
            }
            Dialect::Postgres => {
                let sql = sql.replace("{among}", &format!("= ANY(${place})"));
                match among {
                    Among::Texts(texts) => {
                        let texts: Vec<_> = texts.iter().map(|text| Some(*text)).collect();
                        params.push(Param::Texts(&texts));
                        self.query(&sql, &params)
                    }
                    Among::Ints(ints) => {
                        let ints: Vec<_> = ints.iter().map(|int| Some(*int)).collect();
                        params.push(Param::Ints(&ints));
                        self.query(&sql, &params)
                    }
                }
            }
        }
    }
}
