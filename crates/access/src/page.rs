//! A part of a list, and where the next part begins.

use std::str::FromStr;

/// How many things a page has at most: 1 to 100.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit(usize);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("use a number from 1 to 100")]
pub struct LimitError;

/// Things in the order of their key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page<T, K> {
    pub items: Vec<T>,
    /// The key of the last item, if there are more after it.
    pub next: Option<K>,
}

impl Limit {
    pub const MAX: Self = Self(100);

    pub fn get(self) -> usize {
        self.0
    }

    /// One more than wanted: that tells whether there is a next page.
    pub fn and_one(self) -> i64 {
        self.0 as i64 + 1
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(50)
    }
}

impl TryFrom<i64> for Limit {
    type Error = LimitError;

    fn try_from(number: i64) -> Result<Self, Self::Error> {
        match usize::try_from(number) {
            Ok(number @ 1..=100) => Ok(Self(number)),
            _ => Err(LimitError),
        }
    }
}

impl FromStr for Limit {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse::<i64>().map_err(|_| LimitError)?.try_into()
    }
}

impl<T, K> Page<T, K> {
    /// Out of what was found when one more than the limit was asked for.
    pub fn cut(mut items: Vec<T>, limit: Limit, key: impl Fn(&T) -> K) -> Self {
        let more = items.len() > limit.0;
        items.truncate(limit.0);
        let next = items.last().filter(|_| more).map(key);
        Self { items, next }
    }
}

#[cfg(test)]
mod tests {
    use super::{Limit, Page};

    #[test]
    fn the_last_page_says_that_it_is_the_last() {
        let limit = Limit::try_from(2).unwrap();
        for (found, items, next) in [
            (vec![], vec![], None),
            (vec![1, 2], vec![1, 2], None),
            (vec![1, 2, 3], vec![1, 2], Some(2)),
        ] {
            assert_eq!(Page::cut(found, limit, |n| *n), Page { items, next });
        }
    }
}
