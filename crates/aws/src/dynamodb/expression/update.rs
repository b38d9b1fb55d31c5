//! An update's actions as text.

use tidings_kernel::{Action, Value};

use super::Placeholders;

/// The update expression, or nothing if there is nothing to do but to have the item.
pub(crate) fn update(actions: &[Action], placeholders: &mut Placeholders) -> Option<String> {
    let mut clauses =
        [("SET", Vec::new()), ("REMOVE", vec![]), ("ADD", vec![]), ("DELETE", vec![])];
    let [(_, set), (_, remove), (_, add), (_, delete)] = &mut clauses;
    for action in actions {
        match action {
            Action::Set(path, value) => {
                set.push(format!("{} = {}", placeholders.path(path), placeholders.value(value)));
            }
            Action::SetIfAbsent(path, value) => {
                let path = placeholders.path(path);
                let value = placeholders.value(value);
                set.push(format!("{path} = if_not_exists({path}, {value})"));
            }
            Action::Append(path, values) => {
                let path = placeholders.path(path);
                let empty = placeholders.value(&Value::L(Vec::new()));
                let values = placeholders.value(&Value::L(values.clone()));
                set.push(format!("{path} = list_append(if_not_exists({path}, {empty}), {values})"));
            }
            Action::Remove(path) => remove.push(placeholders.path(path)),
            Action::Add(name, number) => {
                let value = placeholders.value(&Value::N(*number));
                add.push(format!("{} {value}", placeholders.name(name)));
            }
            Action::AddToSet(name, set) => {
                add.push(format!("{} {}", placeholders.name(name), placeholders.value(set)));
            }
            Action::DeleteFromSet(name, set) => {
                delete.push(format!("{} {}", placeholders.name(name), placeholders.value(set)));
            }
        }
    }
    let clauses = clauses.into_iter().filter(|(_, parts)| !parts.is_empty());
    let text: Vec<_> =
        clauses.map(|(word, parts)| format!("{word} {}", parts.join(", "))).collect();
    if text.is_empty() { None } else { Some(text.join(" ")) }
}
