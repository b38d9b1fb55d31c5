//! What an event is called here, whatever its sender calls it.
//!
//! Timelines keep the name as it was told, and rules of a workspace are held against that. Features and what is built into memory
//! look at this form of it: so "Order Completed" of Segment's libraries is the purchase that it is.

use std::borrow::Cow;

/// What shops call the same thing: Segment's names of e-commerce, and those of Shopify and Klaviyo. One name for one happening: what a shop
/// tells besides of the same order (that it was made, paid, shipped) must not count twice.
const ALIASES: [(&str, &str); 13] = [
    ("order_completed", "purchase_completed"),
    ("orders_paid", "purchase_completed"),
    ("placed_order", "purchase_completed"),
    ("order_refunded", "purchase_refunded"),
    ("refunds_create", "purchase_refunded"),
    ("refunded_order", "purchase_refunded"),
    ("product_clicked", "product_viewed"),
    ("product_list_viewed", "product_viewed"),
    ("viewed_product", "product_viewed"),
    ("product_added", "cart_item_added"),
    ("product_added_to_cart", "cart_item_added"),
    ("added_to_cart", "cart_item_added"),
    ("product_reviewed", "review_submitted"),
];

/// In lower case, with `_` for each space, `.`, `-` and `/`, and by its first name if it has several.
pub(crate) fn canonical(event_type: &str) -> Cow<'_, str> {
    let is_plain =
        |byte: u8| !byte.is_ascii_uppercase() && !matches!(byte, b' ' | b'.' | b'-' | b'/');
    let written = if event_type.bytes().all(is_plain) {
        Cow::Borrowed(event_type)
    } else {
        Cow::Owned(event_type.to_ascii_lowercase().replace([' ', '.', '-', '/'], "_"))
    };
    match ALIASES.iter().find(|(alias, _)| *alias == written) {
        Some((_, name)) => Cow::Borrowed(name),
        None => written,
    }
}

#[cfg(test)]
mod tests {
    use super::{ALIASES, canonical};

    #[test]
    fn names_of_the_same_thing_are_one() {
        for (told, name) in [
            ("Order Completed", "purchase_completed"),
            ("order.completed", "purchase_completed"),
            ("purchase_completed", "purchase_completed"),
            ("Purchase-Completed", "purchase_completed"),
            ("orders/paid", "purchase_completed"),
            ("Order Refunded", "purchase_refunded"),
            ("Product Viewed", "product_viewed"),
            ("Product Added", "cart_item_added"),
            ("email.opened", "email_opened"),
            ("order.created", "order_created"),
            ("seen", "seen"),
            ("Übersicht", "Übersicht"),
        ] {
            assert_eq!(canonical(told), name, "{told}");
        }
        for (_, name) in ALIASES {
            assert_eq!(canonical(name), name, "an alias leads to what has none");
        }
    }
}
