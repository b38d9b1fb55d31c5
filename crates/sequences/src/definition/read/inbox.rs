//! A message to the inbox inside an app.

use serde_json::Value;
use tidings_inbox::publish::check_uri;

use super::fields::{Fields, Node, Reader};
use crate::definition::{InboxBody, InboxMessage, Setting};

const KEYS: [&str; 6] = ["inbox", "title", "body", "cta_uri", "category", "expires_in"];
const MAX_TITLE: usize = 200;
const MAX_BODY: usize = 32 * 1024;

impl Reader {
    pub(super) fn inbox(&mut self, node: &Node<'_>) -> Option<InboxMessage> {
        let example = "an object such as {inbox: app, title: Welcome}";
        let fields = self.object(node, &KEYS, example)?;
        let inbox = self.required(&fields, "inbox", "name the inbox, such as app");
        let inbox = inbox.and_then(|node| self.parsed(&node));
        let title = self.required(&fields, "title", "say what it is called, such as Welcome");
        let title = title.and_then(|node| self.title(&node));
        let body = fields.get("body").map(|node| self.body(&node));
        let cta_uri = fields.get("cta_uri").map(|node| self.uri(&node));
        let (category, expires_in) =
            (self.maybe(&fields, "category"), self.maybe(&fields, "expires_in"));
        Some(InboxMessage {
            inbox: inbox?,
            title: title?,
            body: body.flatten(),
            cta_uri: cta_uri.flatten(),
            category,
            expires_in,
        })
    }

    /// A text within its bounds, or a place where the trigger's data has one.
    fn title(&mut self, node: &Node<'_>) -> Option<Setting> {
        self.line(node, MAX_TITLE)?;
        self.setting(node)
    }

    fn uri(&mut self, node: &Node<'_>) -> Option<Setting> {
        self.text(node)?;
        let setting = self.setting(node)?;
        if let Setting::Value(Value::String(uri)) = &setting {
            self.told(check_uri(uri).map_err(|why| format!("it {why}")), &node.pointer)?;
        }
        Some(setting)
    }

    fn body(&mut self, node: &Node<'_>) -> Option<InboxBody> {
        if node.value.to_string().len() > MAX_BODY {
            return self.wrong(&node.pointer, "use at most 32 KB");
        }
        if let Err(error) = tidings_inbox::records::json::to_value(node.value) {
            return self.wrong(&node.pointer, format!("it {error}"));
        }
        match node.value {
            Value::Object(map) => {
                let fields = Fields { map, pointer: node.pointer.clone() };
                Some(InboxBody::Fields(self.settings(&fields)))
            }
            _ => self.setting(node).map(InboxBody::One),
        }
    }
}
