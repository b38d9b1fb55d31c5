//! Statements on SQLite: found by their text, which is prepared once, bound, and run.

use rusqlite::{CachedStatement, Connection, Error, Result};

use crate::database::tx::{Cell, Param, Row};

pub(in crate::database) fn execute(
    connection: &Connection,
    sql: &str,
    params: &[Param<'_>],
) -> Result<u64> {
    let mut statement = connection.prepare_cached(sql)?;
    bind(&mut statement, params)?;
    Ok(statement.raw_execute()? as u64)
}

/// The same statement with one set of values after the other: to find it by its text costs as much as many of them do.
pub(in crate::database) fn execute_each<'a>(
    connection: &Connection,
    sql: &str,
    sets: impl Iterator<Item = Vec<Param<'a>>>,
) -> Result<Vec<u64>> {
    let mut statement = connection.prepare_cached(sql)?;
    let run = |params: Vec<Param<'a>>| {
        bind(&mut statement, &params)?;
        Ok(statement.raw_execute()? as u64)
    };
    sets.map(run).collect()
}

pub(in crate::database) fn query(
    connection: &Connection,
    sql: &str,
    params: &[Param<'_>],
) -> Result<Vec<Row>> {
    let mut found = Vec::new();
    fetch(&mut connection.prepare_cached(sql)?, params, &mut found)?;
    Ok(found)
}

/// The rows of the same statement with one set of values after the other.
pub(in crate::database) fn query_each(
    connection: &Connection,
    sql: &str,
    sets: &[Vec<Param<'_>>],
) -> Result<Vec<Row>> {
    let (mut statement, mut found) = (connection.prepare_cached(sql)?, Vec::new());
    for params in sets {
        fetch(&mut statement, params, &mut found)?;
    }
    Ok(found)
}

/// The first column of the first row of the same statement with one set of values after the other, if there is a row.
pub(in crate::database) fn first_text_each<'a, const N: usize>(
    connection: &Connection,
    sql: &str,
    sets: impl Iterator<Item = [Param<'a>; N]>,
) -> Result<Vec<Option<String>>> {
    let mut statement = connection.prepare_cached(sql)?;
    let run = |params: [Param<'a>; N]| {
        bind(&mut statement, &params)?;
        statement.raw_query().next()?.map(|row| row.get(0)).transpose()
    };
    sets.map(run).collect()
}

fn fetch(
    statement: &mut CachedStatement<'_>,
    params: &[Param<'_>],
    found: &mut Vec<Row>,
) -> Result<()> {
    bind(statement, params)?;
    let columns = statement.column_count();
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        let cells = (0..columns).map(|column| row.get_ref(column).map(Cell::from));
        found.push(Row(cells.collect::<Result<_>>()?));
    }
    Ok(())
}

/// SQLite takes `$1` for a name, and counts names as they come. So each is asked what it is called, which costs less than to
/// write every text anew with `?1`, as often as it is run.
fn bind(statement: &mut CachedStatement<'_>, params: &[Param<'_>]) -> Result<()> {
    let (named, mut highest) = (statement.parameter_count(), 0);
    for index in 1..=named {
        let name = statement.parameter_name(index).and_then(|name| name.strip_prefix('$'));
        let place: usize = name.and_then(|number| number.parse().ok()).unwrap_or(0);
        let param = place.checked_sub(1).and_then(|place| params.get(place));
        let param = param.ok_or(Error::InvalidParameterCount(params.len(), named))?;
        statement.raw_bind_parameter(index, param)?;
        highest = highest.max(place);
    }
    // PostgreSQL refuses values that no statement asks for, too.
    if highest < params.len() {
        return Err(Error::InvalidParameterCount(params.len(), highest));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{execute, first_text_each, query, query_each};
    use crate::database::tx::{Cell, Param};

    fn first(sql: &str, params: &[Param<'_>]) -> rusqlite::Result<Vec<Cell>> {
        let rows = query(&Connection::open_in_memory()?, sql, params)?;
        Ok((0..4).map(|column| rows[0].cell(column).clone()).collect())
    }

    #[test]
    fn values_go_where_their_numbers_say() {
        let sql = "SELECT $2, $1, '$1', $2";
        let found = first(sql, &[Param::Int(1), Param::Text("two")]).unwrap();
        let (two, text) = (Cell::Text("two".to_owned()), Cell::Text("$1".to_owned()));
        assert_eq!(found, [two.clone(), Cell::Int(1), text, two]);
    }

    #[test]
    fn there_are_as_many_values_as_the_statement_names() {
        assert!(first("SELECT $1, $2", &[Param::Int(1)]).is_err());
        assert!(first("SELECT $1, 1", &[Param::Int(1), Param::Int(2)]).is_err());
        assert!(first("SELECT 1, 2", &[]).is_ok());
    }

    #[test]
    fn each_set_of_values_has_its_own_answer() {
        let connection = Connection::open_in_memory().unwrap();
        execute(&connection, "CREATE TABLE t (a, b)", &[]).unwrap();
        execute(&connection, "INSERT INTO t VALUES (1, 'x'), (3, 'y')", &[]).unwrap();
        let sets = [1, 2, 3].map(|a| [Param::Int(a)]).into_iter();
        let told = first_text_each(&connection, "SELECT b FROM t WHERE a = $1", sets).unwrap();
        assert_eq!(told, [Some("x".to_owned()), None, Some("y".to_owned())]);
    }

    #[test]
    fn what_was_bound_before_is_not_there_any_more() {
        let connection = Connection::open_in_memory().unwrap();
        execute(&connection, "CREATE TABLE t (a, b)", &[]).unwrap();
        let sets = [vec![Param::Int(1), Param::Text("x")], vec![Param::Int(2), Param::Null]];
        let sql = "INSERT INTO t VALUES ($1, $2) RETURNING b, a";
        let told = query_each(&connection, sql, &sets).unwrap();
        assert_eq!((told[0].cell(0), told[0].cell(1)), (&Cell::Text("x".into()), &Cell::Int(1)));
        assert_eq!((told[1].cell(0), told[1].cell(1)), (&Cell::Null, &Cell::Int(2)));
    }
}
