//! Values: what goes in comes out, whatever the engine keeps it in.

use std::collections::BTreeMap;

use tidings_kernel::{Invalid, Item, Key, Number, Path, Put, Update, Value, tables::MAIN};

use super::{Case, cases};
use crate::items::ground::{Ground, assert_refused, item, row};

pub(super) const CASES: &[Case] = &cases![
    every_type_comes_back,
    numbers_keep_38_digits,
    numbers_keep_their_whole_range,
    equal_numbers_are_one_value,
    integers_at_the_edges_of_machine_words_are_exact,
    what_is_empty_is_still_a_value,
    null_is_not_absence,
    bytes_may_be_any,
    text_may_be_any,
    text_is_not_normalised,
    attribute_names_may_be_any,
    names_inside_maps_may_be_any,
    values_nest_32_levels_deep,
    deeper_values_are_refused,
    empty_sets_are_refused,
    empty_members_of_sets_are_refused,
    sets_have_no_order,
    an_item_may_have_a_thousand_attributes,
];

async fn comes_back(ground: &Ground, item: Item) {
    ground.put(&MAIN, item.clone()).await;
    let key = MAIN.key_of(&item).unwrap();
    assert_eq!(ground.get(&MAIN, &key).await, Some(item));
}

fn n(text: &str) -> Number {
    text.parse().unwrap()
}

async fn every_type_comes_back(ground: Ground) {
    let item = item!({
        "PK": "a", "SK": "b", "s": "text", "n": 1.5, "bool": true, "no": false, "null": null,
        "m": {"x": {"y": [1, "two", null, {"z": false}]}}, "l": ["a", 1, [true]],
    })
    .with("b", vec![1, 2, 3])
    .with("ss", Value::texts(["x", "y"]))
    .with("ns", Value::numbers([3, -1]))
    .with("bs", Value::Bs([vec![0], vec![255, 0]].into()))
    .with("deep", vec![Value::texts(["in a list"]), Value::B(vec![9]), Value::numbers([7])]);
    comes_back(&ground, item).await;
}

async fn numbers_keep_38_digits(ground: Ground) {
    let item = row("a", "b")
        .with("whole", n("12345678901234567890123456789012345678"))
        .with("negative", n("-98765432109876543210987654321098765432"))
        .with("fraction", n("0.12345678901234567890123456789012345678"))
        .with("middle", n("1234567890123456789.1234567890123456789"))
        .with("float_trap", n("0.1"))
        .with("beyond_a_double", n("9007199254740993"))
        .with("seventeen", n("0.12345678901234567"))
        .with("set", Value::Ns([n("1e-10"), n("3.0000000000000000000000000000000000001")].into()));
    comes_back(&ground, item).await;
}

async fn numbers_keep_their_whole_range(ground: Ground) {
    let item = row("a", "b")
        .with("greatest", n("9.9999999999999999999999999999999999999E+125"))
        .with("least", n("-9.9999999999999999999999999999999999999E+125"))
        .with("smallest", n("1E-130"))
        .with("smallest_negative", n("-1E-130"))
        .with("list", vec![n("1E100").into(), n("-15E-60").into(), Value::N(Number::ZERO)]);
    comes_back(&ground, item).await;
}

async fn equal_numbers_are_one_value(ground: Ground) {
    for text in ["1500", "1500.00", "1.5e3", "01500"] {
        ground.put(&MAIN, row("a", text).with("n", n(text))).await;
        let stored = ground.get(&MAIN, &Key::new("a", text)).await.unwrap();
        assert_eq!(stored.get("n"), Some(&Value::from(1500)), "{text}");
    }
}

async fn integers_at_the_edges_of_machine_words_are_exact(ground: Ground) {
    let numbers = [i64::MIN, i64::MIN + 1, -(1 << 53) - 1, -1, 0, 1, (1 << 53) + 1, i64::MAX];
    let list: Vec<Value> = numbers.into_iter().map(Value::from).collect();
    let item = row("a", "b")
        .with("list", list)
        .with("beyond_signed", n("9223372036854775808"))
        .with("beyond_unsigned", n("18446744073709551616"));
    comes_back(&ground, item).await;
}

async fn what_is_empty_is_still_a_value(ground: Ground) {
    let item = item!({"PK": "a", "SK": "b", "s": "", "l": [], "m": {}, "nested": {"s": "", "l": [[], {}]}})
        .with("b", Vec::<u8>::new());
    comes_back(&ground, item).await;
}

async fn null_is_not_absence(ground: Ground) {
    comes_back(&ground, item!({"PK": "a", "SK": "b", "x": null})).await;
    comes_back(&ground, item!({"PK": "a", "SK": "c"})).await;
}

async fn bytes_may_be_any(ground: Ground) {
    let all: Vec<u8> = (0..=255).collect();
    let item = row("a", "b")
        .with("all", all.clone())
        .with("nul", vec![0])
        .with("set", Value::Bs([vec![0], vec![0, 0], all].into()));
    comes_back(&ground, item).await;
}

/// Text that storage engines are known to stumble over.
const ODD_TEXTS: [&str; 12] = [
    "nul \0 inside, and at the end \0",
    "\u{1}\u{8}\u{b}\u{1b}\u{7f}\u{85}",
    "line\nfeed\r\nand\ttab",
    "quotes ' \" ` and \\ backslash \\u0000 \\n",
    "astral 𝒳 😀 👩‍👩‍👧 \u{10FFFF}",
    "e\u{301} combines",
    "\u{FEFF}begins with a mark",
    "last \u{FFFF} \u{FFFE} \u{D7FF} \u{E000}",
    "right \u{202E}to left שלום",
    "{\"$n\":\"1\"}",
    " spaces ",
    "%s {} ${x} :v #n ? $1",
];

async fn text_may_be_any(ground: Ground) {
    let mut item = row("a", "b").with("set", Value::texts(ODD_TEXTS));
    for (position, text) in ODD_TEXTS.into_iter().enumerate() {
        item.set(&format!("t{position}"), text);
    }
    comes_back(&ground, item).await;
}

async fn text_is_not_normalised(ground: Ground) {
    let item = row("a", "b").with("composed", "\u{e9}").with("decomposed", "e\u{301}");
    comes_back(&ground, item).await;
}

const ODD_NAMES: [&str; 16] = [
    "$b",
    "$n",
    "$m",
    "$ss",
    "#",
    "a.b",
    "a[0]",
    " ",
    "two words",
    ":v",
    "select",
    "size",
    "'\"`\\",
    "😀",
    "\u{e9}",
    "__proto__",
];

async fn attribute_names_may_be_any(ground: Ground) {
    let mut item = row("a", "b").with("e\u{301}", "not the same name as the composed one");
    for name in ODD_NAMES {
        item.set(name, format!("value of {name}"));
    }
    comes_back(&ground, item).await;
}

async fn names_inside_maps_may_be_any(ground: Ground) {
    let names = ODD_NAMES.into_iter().map(|name| (name.to_owned(), Value::from(name)));
    let map: BTreeMap<String, Value> = names.collect();
    let single = |name: &str| Value::M([(name.to_owned(), Value::from("aGk="))].into());
    let item = row("a", "b")
        .with("map", map.clone())
        .with("in_list", vec![Value::M(map), single("$b"), single("$m"), single("$n")]);
    comes_back(&ground, item).await;
}

/// A string inside so many lists and maps.
fn nested(depth: usize) -> Value {
    (0..depth).fold(Value::from("core"), |value, level| {
        if level % 2 == 0 {
            Value::L(vec![value])
        } else {
            Value::M([("m".to_owned(), value)].into())
        }
    })
}

/// The string is a level too: real DynamoDB takes 31 lists and maps around it and refuses 32, and takes a list of
/// 32 if the innermost is empty.
async fn values_nest_32_levels_deep(ground: Ground) {
    comes_back(&ground, row("a", "b").with("deep", nested(31))).await;
    let lists = (0..31).fold(Value::L(vec![]), |inner, _| Value::L(vec![inner]));
    comes_back(&ground, row("a", "b").with("deep", lists)).await;
}

async fn deeper_values_are_refused(ground: Ground) {
    for depth in [32, 33, 60] {
        let put = Put::new(&MAIN, row("a", "b").with("deep", nested(depth)));
        assert_refused!(ground.store.put(put).await, Invalid::TooDeep);
    }
    // Nor by an update that puts one thing inside another.
    ground.put(&MAIN, row("a", "b").with("deep", nested(31))).await;
    let wrap = Update::new(&MAIN, Key::new("a", "b")).set("list", nested(31));
    ground.update(wrap).await;
    let mut innermost = Path::of("list");
    for level in (0..31).rev() {
        innermost = if level % 2 == 0 { innermost.index(0) } else { innermost.key("m") };
    }
    let deeper = Update::new(&MAIN, Key::new("a", "b")).set(innermost, Value::L(vec![1.into()]));
    assert_refused!(ground.store.update(deeper).await, _);
}

async fn empty_sets_are_refused(ground: Ground) {
    let sets = [Value::Ss([].into()), Value::Ns([].into()), Value::Bs([].into())];
    for set in sets {
        let top = row("a", "b").with("set", set.clone());
        assert_refused!(ground.store.put(Put::new(&MAIN, top)).await, Invalid::EmptySet);
        let inside = row("a", "b").with("list", vec![set]);
        assert_refused!(ground.store.put(Put::new(&MAIN, inside)).await, Invalid::EmptySet);
    }
}

/// Unlike lists and maps, a set cannot hold what is empty.
async fn empty_members_of_sets_are_refused(ground: Ground) {
    for set in [Value::texts(["", "a"]), Value::Bs([vec![], vec![1]].into())] {
        let put = Put::new(&MAIN, row("a", "b").with("set", set));
        assert_refused!(ground.store.put(put).await, Invalid::EmptyMember);
    }
}

async fn sets_have_no_order(ground: Ground) {
    ground.put(&MAIN, row("a", "b").with("set", Value::texts(["x", "z", "y"]))).await;
    let same = row("a", "b").with("set", Value::texts(["y", "z", "x"]));
    assert_eq!(ground.get(&MAIN, &Key::new("a", "b")).await, Some(same));
}

async fn an_item_may_have_a_thousand_attributes(ground: Ground) {
    let mut item = row("a", "b");
    for number in 0..1000 {
        item.set(&format!("attribute-{number}"), number);
    }
    comes_back(&ground, item).await;
}
