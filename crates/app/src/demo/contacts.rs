//! A thousand people who do not exist, the same ones each time.

use std::fmt::Write as _;

const FIRST: [&str; 25] = [
    "Ada", "Ben", "Cleo", "Dana", "Emil", "Fay", "Gus", "Hana", "Ivo", "Jana", "Kofi", "Lena",
    "Milo", "Nora", "Otto", "Pia", "Quinn", "Rosa", "Sami", "Tara", "Ugo", "Vera", "Wim", "Yara",
    "Zoe",
];
const LAST: [&str; 40] = [
    "Abel", "Baker", "Castle", "Dorn", "Ember", "Field", "Gale", "Harbor", "Iver", "Juniper",
    "Kell", "Lake", "Moss", "North", "Olive", "Pine", "Quill", "Reed", "Stone", "Thorn", "Under",
    "Vale", "Wood", "Yarrow", "Zeller", "Ashby", "Birch", "Cove", "Dale", "Elm", "Fern", "Glen",
    "Hill", "Isle", "Jasper", "Knoll", "Linden", "Marsh", "Nettle", "Oak",
];
const PLANS: [&str; 3] = ["free", "team", "business"];
const COUNTRIES: [&str; 7] = ["AT", "BR", "DE", "IN", "JP", "NG", "US"];
const DOMAINS: [&str; 3] = ["example.com", "example.net", "example.org"];

/// How many there are.
pub(super) const COUNT: usize = FIRST.len() * LAST.len();

/// As somebody's spreadsheet would have them.
pub(super) fn csv() -> String {
    let mut csv = "email,first_name,tags,plan,country,seats,unsubscribed,suppressed\n".to_owned();
    for number in 0..COUNT {
        let plan = PLANS[number % 7 % 3];
        let tags = match (plan == "free", number.is_multiple_of(10)) {
            (true, false) => "trial",
            (true, true) => "trial;beta",
            (false, false) => "customer",
            (false, true) => "customer;beta",
        };
        let (country, seats) = (COUNTRIES[number % 11 % 7], 1 + number % 13);
        let yes = |is: bool| if is { "yes" } else { "" };
        let (left, suppressed) = (yes(number % 50 == 49), yes(number % 100 == 66));
        let (email, first) = (email(number), FIRST[number / LAST.len()]);
        writeln!(csv, "{email},{first},{tags},{plan},{country},{seats},{left},{suppressed}")
            .expect("a string takes everything");
    }
    csv
}

/// Who gets the first mail.
pub(super) fn first() -> String {
    email(0)
}

/// Somebody who wants nothing but transactional mail.
pub(super) fn unsubscribed() -> String {
    email(49)
}

/// The address of one of them.
pub(super) fn email(number: usize) -> String {
    let (first, last) = (FIRST[number / LAST.len()], LAST[number % LAST.len()]);
    let domain = DOMAINS[number % DOMAINS.len()];
    format!("{}.{}@{domain}", first.to_lowercase(), last.to_lowercase())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::{COUNT, csv, email, unsubscribed};

    #[test]
    fn a_thousand_people_have_a_thousand_addresses() {
        assert_eq!(COUNT, 1000);
        assert_eq!((0..COUNT).map(email).collect::<BTreeSet<_>>().len(), 1000);
        assert_eq!(csv().lines().count(), 1001);
    }

    #[test]
    fn who_is_said_to_have_left_has() {
        let line = format!("{},", unsubscribed());
        let csv = csv();
        let line = csv.lines().find(|one| one.starts_with(&line)).unwrap();
        assert!(line.ends_with(",yes,"), "{line}");
    }
}
