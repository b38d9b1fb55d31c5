//! Pages of queries and scans, and counts.
//!
//! DynamoDB applies its limit before the filter, so its pages can be empty in the middle of the data. Ours are
//! not, unless the query says how much may be looked at: reading goes on until the page is full or the data end, and
//! one item further to know which of the two.

use aws_sdk_dynamodb::types::Select;
use tidings_kernel::{
    Condition, Cursor, Direction, Index, Item, MAX_PAGE_BYTES, Number, Page, Path, Query, Scan,
    StoreError, Table, Value,
};

use super::expression::{self, Placeholders, Simple};
use super::store::Store;
use super::value::{Attributes, key_attributes, to_attributes, to_item};
use crate::trouble::Trouble;

/// No request needs to read more items than that to fill 1 MB with the smallest ones worth storing.
const MAX_REQUEST: usize = 10_000;

/// Where items come from, one answer of DynamoDB after the other.
enum Source<'q> {
    Query(&'q Query, Option<&'static Index>),
    Scan(&'q Scan),
}

/// What DynamoDB filters, and what is left for us to filter.
struct Filter {
    there: Option<Condition>,
    here: Option<Condition>,
}

/// One answer of DynamoDB.
struct Portion {
    items: Vec<Item>,
    count: u64,
    next: Option<Attributes>,
}

impl Store {
    pub(super) async fn query_page(&self, query: &Query) -> Result<Page, StoreError> {
        query.validate()?;
        let index = query.on_index()?;
        let start = start_of_query(query, index)?;
        self.page(&Source::Query(query, index), query.limit, start).await
    }

    pub(super) async fn scan_page(&self, scan: &Scan) -> Result<Page, StoreError> {
        scan.validate()?;
        let start = match &scan.cursor {
            Some(cursor) => {
                let (key, _) = cursor.position(scan.table, None)?;
                Some(key_attributes(scan.table, &key))
            }
            None => None,
        };
        self.page(&Source::Scan(scan), scan.limit, start).await
    }

    pub(super) async fn count_items(&self, query: &Query) -> Result<u64, StoreError> {
        query.validate()?;
        let index = query.on_index()?;
        let mut next = start_of_query(query, index)?;
        let source = Source::Query(query, index);
        let Some(filter) = self.filter(&source) else { return Ok(0) };
        // Without a filter of our own there is nothing to see in the items.
        let select = match &filter.here {
            Some(_) => Select::AllAttributes,
            None => Select::Count,
        };
        let mut count = 0;
        loop {
            let portion = self.read(&source, &filter, select.clone(), (next, None)).await?;
            count += portion.count;
            next = portion.next;
            if next.is_none() {
                return Ok(count);
            }
        }
    }

    async fn page(
        &self,
        source: &Source<'_>,
        limit: usize,
        mut next: Option<Attributes>,
    ) -> Result<Page, StoreError> {
        let Some(filter) = self.filter(source) else { return Ok(Page::default()) };
        let mut items: Vec<Item> = Vec::new();
        let mut bytes = 0;
        let mut request = limit + 1;
        let mut budget = source.examine();
        loop {
            let examined = request.min(MAX_REQUEST).min(budget);
            let from = (next, Some(examined));
            let portion = self.read(source, &filter, Select::AllAttributes, from).await?;
            for item in portion.items {
                if items.len() == limit || bytes >= MAX_PAGE_BYTES {
                    let last = items.last().expect("a full page has items");
                    let cursor = Some(Cursor::after(source.table(), source.index(), last)?);
                    return Ok(Page { items, cursor });
                }
                bytes += item.size();
                items.push(item);
            }
            let Some(last) = portion.next else { return Ok(Page { items, cursor: None }) };
            budget -= examined;
            if budget == 0 {
                let last = to_item(last)?;
                let cursor = Some(Cursor::after(source.table(), source.index(), &last)?);
                return Ok(Page { items, cursor });
            }
            next = Some(last);
            // A filter that lets little through should not cost a request for every few items.
            request = request.saturating_mul(2);
        }
    }

    /// `None` if nothing can pass.
    fn filter(&self, source: &Source<'_>) -> Option<Filter> {
        let now = self.clock.now().as_second();
        let ttl = source.table().ttl.filter(|_| !source.expired());
        plan(ttl, now, source.filter())
    }

    async fn read(
        &self,
        source: &Source<'_>,
        filter: &Filter,
        select: Select,
        (start, limit): (Option<Attributes>, Option<usize>),
    ) -> Result<Portion, StoreError> {
        let mut placeholders = Placeholders::default();
        let there = filter.there.as_ref();
        let expression = there.map(|filter| expression::condition(filter, &mut placeholders));
        let limit = limit.map(|limit| limit as i32);
        let name = self.name(source.table());
        let (items, count, next) = match source {
            Source::Query(query, index) => {
                let range = expression::key_condition(query, *index, &mut placeholders);
                let (names, values) = placeholders.finish();
                let request = self.client.query().table_name(name).key_condition_expression(range);
                let request = request
                    .set_index_name(index.map(|index| index.name.to_owned()))
                    // An index cannot be read consistently.
                    .consistent_read(index.is_none())
                    .scan_index_forward(query.direction == Direction::Forward)
                    .set_filter_expression(expression)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .set_exclusive_start_key(start)
                    .set_limit(limit)
                    .select(select);
                let answer = request.send().await.map_err(|error| Trouble::new(error).of_read())?;
                (answer.items, answer.count, answer.last_evaluated_key)
            }
            Source::Scan(scan) => {
                let (names, values) = placeholders.finish();
                let request = self.client.scan().table_name(name).consistent_read(true);
                let request = request
                    .segment(scan.segment as i32)
                    .total_segments(scan.of as i32)
                    .set_filter_expression(expression)
                    .set_expression_attribute_names(names)
                    .set_expression_attribute_values(values)
                    .set_exclusive_start_key(start)
                    .set_limit(limit)
                    .select(select);
                let answer = request.send().await.map_err(|error| Trouble::new(error).of_read())?;
                (answer.items, answer.count, answer.last_evaluated_key)
            }
        };
        filter.portion(items.unwrap_or_default(), count, next)
    }
}

impl Source<'_> {
    fn table(&self) -> &'static Table {
        match self {
            Source::Query(query, _) => query.table,
            Source::Scan(scan) => scan.table,
        }
    }

    fn index(&self) -> Option<&'static Index> {
        match self {
            Source::Query(_, index) => *index,
            Source::Scan(_) => None,
        }
    }

    /// Whether what is past its TTL is wanted too.
    fn expired(&self) -> bool {
        match self {
            Source::Query(query, _) => query.expired,
            Source::Scan(_) => false,
        }
    }

    /// How many items may be looked at.
    fn examine(&self) -> usize {
        match self {
            Source::Query(query, _) => query.examine.unwrap_or(usize::MAX),
            Source::Scan(_) => usize::MAX,
        }
    }

    fn filter(&self) -> Option<&Condition> {
        match self {
            Source::Query(query, _) => query.filter.as_ref(),
            Source::Scan(scan) => scan.filter.as_ref(),
        }
    }
}

impl Filter {
    fn portion(
        &self,
        items: Vec<Attributes>,
        count: i32,
        next: Option<Attributes>,
    ) -> Result<Portion, StoreError> {
        let mut items: Vec<Item> = items.into_iter().map(to_item).collect::<Result<_, _>>()?;
        let mut count = u64::try_from(count).unwrap_or(0);
        if let Some(filter) = &self.here {
            items.retain(|item| filter.holds(item));
            count = items.len() as u64;
        }
        // Some servers spell the end of the data as an empty key.
        Ok(Portion { items, count, next: next.filter(|next| !next.is_empty()) })
    }
}

/// Splits the filter: DynamoDB takes all of it but one that is too long. What is past its TTL it always leaves
/// out itself. `None` if nothing can pass.
fn plan(ttl: Option<&str>, now: i64, filter: Option<&Condition>) -> Option<Filter> {
    // True as well of an item without the attribute, or with one that is no number. A fraction counts as its
    // second, so an item lives if it lives on in the next one.
    let alive = ttl.map(|name| {
        let next_second = Number::from(now.saturating_add(1));
        Condition::Not(Box::new(Condition::Lt(Path::of(name), Value::N(next_second))))
    });
    let filter = match filter.map(expression::simplify) {
        None | Some(Simple::Always) => return Some(Filter { there: alive, here: None }),
        Some(Simple::Never) => return None,
        Some(Simple::When(filter)) => filter,
    };
    let whole = match &alive {
        Some(alive) => expression::simplify(&alive.clone().and(filter.clone())),
        None => Simple::When(filter.clone()),
    };
    let Simple::When(whole) = whole else { return None };
    let text = expression::condition(&whole, &mut Placeholders::default());
    if expression::fits(&whole, &text) {
        Some(Filter { there: Some(whole), here: None })
    } else {
        Some(Filter { there: alive, here: Some(filter) })
    }
}

/// The key after which a query goes on: the table's, and on an index the index's too.
fn start_of_query(
    query: &Query,
    index: Option<&'static Index>,
) -> Result<Option<Attributes>, StoreError> {
    let Some(cursor) = &query.cursor else { return Ok(None) };
    let (key, place) = cursor.position(query.table, index)?;
    let mut item = query.table.bare_item(&key);
    if let (Some(index), Some((partition, sort))) = (index, place) {
        item.set(index.partition, partition);
        item.set(index.sort, sort);
    }
    Ok(Some(to_attributes(item)))
}

#[cfg(test)]
mod tests {
    use tidings_kernel::{Condition, Item, Value};

    use super::plan;

    fn filters(filter: Option<&Condition>, item: &Item) -> Option<(bool, bool)> {
        let plan = plan(Some("ttl"), 100, filter)?;
        let holds = |part: &Option<Condition>| part.as_ref().is_none_or(|part| part.holds(item));
        Some((holds(&plan.there), holds(&plan.here)))
    }

    #[test]
    fn dynamodb_leaves_out_what_is_past_its_ttl() {
        for (ttl, alive) in [
            (Value::from(101), true),
            (Value::from(100), false),
            (Value::N("100.5".parse().unwrap()), false),
            (Value::N("101.5".parse().unwrap()), true),
            (Value::from("99"), true),
            (Value::Null, true),
        ] {
            let item = Item::new().with("ttl", ttl.clone());
            assert_eq!(filters(None, &item), Some((alive, true)), "{ttl:?}");
        }
        assert_eq!(filters(None, &Item::new()), Some((true, true)));
    }

    #[test]
    fn a_filter_goes_where_it_can_be_decided() {
        let many =
            |count: i64| Condition::AnyOf((0..count).map(|n| Condition::eq("a", n)).collect());
        let item = Item::new();
        for (filter, expected) in [
            (Condition::eq("a", 1), Some((false, true))),
            (many(100), Some((false, true))),
            (many(1000), Some((true, false))),
            (Condition::All(vec![]), Some((true, true))),
            (Condition::AnyOf(vec![]), None),
        ] {
            assert_eq!(filters(Some(&filter), &item), expected, "{filter:?}");
        }
    }
}
