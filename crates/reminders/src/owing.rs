//! What a payment does to what somebody owes. Pure, and exact to the last digit.

use crate::ids::InvoiceId;
use crate::money::Money;
use crate::record::{Account, Invoice, Owed};

/// What is true after a payment of one invoice.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct After {
    pub(crate) owed: Option<Owed>,
    pub(crate) account: Account,
    /// How much it was: what was told, else what the invoice came to, as far as that is known.
    pub(crate) money: Option<Money>,
    /// What of it was more than was owed.
    pub(crate) over: Option<Money>,
}

/// The amounts cannot be set off against each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Refused {
    /// It is owed in another currency.
    Currency(Money),
    /// This is owed, and less was paid: of which invoice has to be said.
    TooLittle(Money),
}

/// A payment of an invoice. `asked` is what the open draft asks for, where it is about something else than what is owed.
pub(crate) fn pay_invoice(
    owed: Option<&Owed>,
    asked: Option<(&Money, &[Invoice])>,
    (invoice, money): (&InvoiceId, Option<Money>),
    before: Account,
) -> Result<After, Refused> {
    let of_owed = owed.and_then(|owed| amount_of(&owed.money, &owed.invoices, invoice));
    let known = of_owed.or(asked.and_then(|(sum, all)| amount_of(sum, all, invoice)));
    let whole = owed.map(|owed| owed.money).or(asked.map(|(sum, _)| *sum));
    if let (Some(_), Some(whole), Some(money)) = (known, whole, money)
        && whole.currency != money.currency
    {
        return Err(Refused::Currency(whole));
    }
    let unchanged = |account| After { owed: owed.cloned(), account, money, over: None };
    if before.covered {
        return Ok(After { over: money, ..unchanged(before) });
    }
    let covered = Account { covered: true, ..Account::default() };
    match (known, money) {
        // Nobody has said what it comes to: whether that was all of it is asked once somebody does.
        (None, Some(money)) => {
            let paid = before.paid.map_or(Some(money), |paid| paid.plus(&money));
            let account = paid.map_or(covered, |paid| Account { paid: Some(paid), ..before });
            Ok(unchanged(account))
        }
        (None, None) => Ok(unchanged(covered)),
        (Some(Some(amount)), Some(paid)) => match amount.less(&paid).filter(is_some_money) {
            Some(left) => {
                let account = Account { left: Some(left), ..Account::default() };
                let owed = owed.map(|owed| reduced(owed, invoice, (left, paid)));
                Ok(After { owed, account, money, over: None })
            }
            None => {
                let owed = owed.and_then(|owed| without(owed, invoice, Some(amount)));
                let over = paid.less(&amount).filter(is_some_money);
                Ok(After { owed, account: covered, money, over })
            }
        },
        (Some(Some(amount)), None) => {
            let owed = owed.and_then(|owed| without(owed, invoice, Some(amount)));
            Ok(After { owed, account: covered, money: Some(amount), over: None })
        }
        // It is one of several, and nobody has said which part of the sum it is: what is paid of it is all of it.
        (Some(None), paid) => {
            let over = paid.zip(whole).and_then(|(paid, whole)| paid.less(&whole));
            let owed = owed.and_then(|owed| without(owed, invoice, paid));
            Ok(After { owed, account: covered, money, over: over.filter(is_some_money) })
        }
    }
}

/// A payment of all that is owed. Tells how much it was, and what of it was too much.
pub(crate) fn pay_everything(
    owed: Option<&Owed>,
    money: Option<Money>,
) -> Result<(Option<Money>, Option<Money>), Refused> {
    let (whole, paid) = match (owed.map(|owed| owed.money), money) {
        (whole, None) => return Ok((whole, None)),
        (None, paid) => return Ok((paid, None)),
        (Some(whole), Some(paid)) => (whole, paid),
    };
    if whole.currency != paid.currency {
        return Err(Refused::Currency(whole));
    }
    match paid.less(&whole) {
        Some(over) => Ok((money, Some(over).filter(is_some_money))),
        None => Err(Refused::TooLittle(whole)),
    }
}

/// What an invoice comes to. `None` if it is not among them, `Some(None)` if nobody has said.
fn amount_of(sum: &Money, all: &[Invoice], invoice: &InvoiceId) -> Option<Option<Money>> {
    let found = all.iter().find(|one| one.id == *invoice)?;
    Some(found.amount.or((all.len() == 1).then_some(*sum)))
}

fn is_some_money(money: &Money) -> bool {
    money.amount > tidings_kernel::Number::ZERO
}

/// So much is left of one of the invoices.
fn reduced(owed: &Owed, invoice: &InvoiceId, (left, paid): (Money, Money)) -> Owed {
    let mut after = owed.clone();
    for one in after.invoices.iter_mut().filter(|one| one.id == *invoice) {
        one.amount = Some(left);
        after.money = owed.money.less(&paid).unwrap_or(owed.money);
    }
    after
}

/// One of the invoices is paid. If nobody knows how much of the sum it was, the sum stays until somebody says.
fn without(owed: &Owed, invoice: &InvoiceId, amount: Option<Money>) -> Option<Owed> {
    let mut after = owed.clone();
    after.invoices.retain(|one| one.id != *invoice);
    if after.invoices.len() == owed.invoices.len() {
        return Some(after);
    }
    if let Some(amount) = amount {
        // Of the others nothing can be left, either, once so much was paid.
        after.money = owed.money.less(&amount).filter(is_some_money)?;
    }
    (!after.invoices.is_empty()).then_some(after)
}

#[cfg(test)]
mod tests {
    use super::{Refused, pay_everything, pay_invoice};
    use crate::money::Money;
    use crate::record::{Account, Invoice, Owed};

    fn eur(amount: &str) -> Money {
        Money::new(amount, "EUR").unwrap()
    }

    fn invoice(text: &str) -> Invoice {
        let (id, amount) = text.split_once('=').unwrap_or((text, ""));
        Invoice { id: id.parse().unwrap(), amount: Money::new(amount, "EUR").ok(), due: None }
    }

    fn owed(sum: &str, invoices: &[&str]) -> Owed {
        let invoices = invoices.iter().map(|one| invoice(one)).collect();
        Owed { money: eur(sum), since: "2026-07-01T00:00:00Z".parse().unwrap(), invoices }
    }

    /// Of what is owed `paid` pays invoice `a`: what is owed then, whether the invoice is covered, and what was too much.
    fn check(before: &Owed, paid: &str, expected: &str) {
        let id = "a".parse().unwrap();
        let money = Money::new(paid, "EUR").ok();
        let after = pay_invoice(Some(before), None, (&id, money), Account::default()).unwrap();
        let owed = after.owed.map_or("nothing".to_owned(), |owed| {
            let all: Vec<_> = owed.invoices.iter().map(|one| one.id.as_str()).collect();
            format!("{} {}", owed.money.digits(), all.join("+"))
        });
        let covered = if after.account.covered { "covered" } else { "open" };
        let left = after.account.left.map_or(String::new(), |left| format!(" {}", left.digits()));
        let over = after.over.map_or(String::new(), |over| format!(" over {}", over.digits()));
        assert_eq!(format!("{owed}, {covered}{left}{over}"), expected, "{paid}");
    }

    #[test]
    fn part_of_an_invoice_leaves_the_rest_of_it() {
        let two = owed("1500.00", &["a=1000", "b=500"]);
        check(&two, "400", "1100.00 a+b, open 600.00");
        check(&two, "999.99", "500.01 a+b, open 0.01");
        check(&two, "1000", "500.00 b, covered");
        check(&two, "1000.01", "500.00 b, covered over 0.01");
        check(&two, "", "500.00 b, covered");
        let one = owed("0.30", &["a"]);
        check(&one, "0.1", "0.20 a, open 0.20");
        check(&one, "0.3", "nothing, covered");
        check(&one, "5", "nothing, covered over 4.70");
        // Which part of the sum it is, nobody has said.
        let unknown = owed("200", &["a", "b"]);
        check(&unknown, "80", "120.00 b, covered");
        check(&unknown, "", "200.00 b, covered");
        check(&unknown, "250", "nothing, covered over 50.00");
        // It is none of those that are owed.
        check(&owed("7", &["b"]), "5", "7.00 b, open");
    }

    #[test]
    fn what_does_not_add_up_is_refused() {
        let (id, before) = ("a".parse().unwrap(), owed("7", &["a"]));
        let usd = Money::new("7", "USD").ok();
        let after = pay_invoice(Some(&before), None, (&id, usd), Account::default());
        assert_eq!(after, Err(Refused::Currency(eur("7"))));
        assert_eq!(pay_everything(Some(&before), usd), Err(Refused::Currency(eur("7"))));
        let little = pay_everything(Some(&before), Some(eur("6.99")));
        assert_eq!(little, Err(Refused::TooLittle(eur("7"))));
        let much = pay_everything(Some(&before), Some(eur("8")));
        assert_eq!(much, Ok((Some(eur("8")), Some(eur("1")))));
        assert_eq!(pay_everything(Some(&before), None), Ok((Some(eur("7")), None)));
        assert_eq!(pay_everything(None, Some(eur("8"))), Ok((Some(eur("8")), None)));
    }
}
