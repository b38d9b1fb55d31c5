//! Every route with what it takes, which scope opens it, and what it answers then. A route that is missing here fails the
//! suite, and so does one that is here and nowhere else.

use tidings_access::Scope;

pub(super) struct Known {
    pub(super) method: &'static str,
    pub(super) template: &'static str,
    /// `None`: any key may ask.
    pub(super) scope: Option<Scope>,
    /// What the route cannot do without.
    pub(super) query: &'static str,
    pub(super) body: &'static str,
    /// The answer to whoever may ask, about something that is there.
    pub(super) status: u16,
    /// It makes what it names, so that a stranger makes one of his own. So does whoever looks into an inbox.
    pub(super) makes: bool,
    /// Its proof is not a key.
    pub(super) keyless: bool,
}

impl Known {
    const fn new(method: &'static str, template: &'static str, scope: Scope) -> Self {
        let scope = Some(scope);
        let (query, body, status) = ("", "", 200);
        Self { method, template, scope, query, body, status, makes: false, keyless: false }
    }

    const fn takes(self, body: &'static str) -> Self {
        Self { body, ..self }
    }

    const fn asks(self, query: &'static str) -> Self {
        Self { query, ..self }
    }

    const fn answers(self, status: u16) -> Self {
        Self { status, ..self }
    }
}

const fn read(template: &'static str) -> Known {
    Known::new("GET", template, Scope::Read)
}

const fn manage(method: &'static str, template: &'static str) -> Known {
    Known::new(method, template, Scope::Manage)
}

const fn send(template: &'static str) -> Known {
    Known::new("POST", template, Scope::Send)
}

/// Who drafts reminders.
const fn drafting(method: &'static str, template: &'static str) -> Known {
    Known::new(method, template, Scope::RemindersDraft)
}

/// Who decides about them.
const fn deciding(template: &'static str) -> Known {
    Known::new("POST", template, Scope::RemindersApprove)
}

/// Of a customer, whom everybody may have.
const fn customer(template: &'static str) -> Known {
    Known { makes: true, ..read(template) }
}

const fn admin(method: &'static str, template: &'static str) -> Known {
    Known::new(method, template, Scope::InboxAdmin)
}

/// What a user does in his own inbox.
const fn user(method: &'static str, template: &'static str) -> Known {
    let known = Known::new(method, template, Scope::InboxUser);
    Known { makes: true, ..known }
}

const MARKS: &str = r#"{"ids":["0GV8YLWQ000000001"]}"#;
const WEBHOOK: &str = r#"{"url":"http://127.0.0.1:9/"}"#;
const CAMPAIGN: &str = r#"{"name":"n","subject":"s","text":"t"}"#;
const REMINDER: &str = r#"{"customer_id":"new","customer_name":"New","customer_email":"new@example.org","overdue_amount":"10.00","currency":"EUR","invoices":[{"id":"INV-1"}],"subject":"s","content":"c","created_by":"agent"}"#;
const SEQUENCE: &str = r#"{"steps":[{"wait":"1 day"},{"exit":{}}]}"#;
const TEMPLATE: &str = r#"{"subject":"s","text":"t"}"#;

pub(super) const ROUTES: &[Known] = &[
    Known { scope: None, ..read("/v1/me") },
    // Clients and keys. A client of that name is there already.
    read("/v1/clients"),
    manage("POST", "/v1/clients").takes(r#"{"slug":"hidden"}"#).answers(409),
    read("/v1/clients/{slug}"),
    manage("POST", "/v1/clients/{slug}/disable"),
    manage("POST", "/v1/clients/{slug}/enable"),
    read("/v1/clients/{slug}/keys"),
    manage("POST", "/v1/clients/{slug}/keys")
        .takes(r#"{"name":"new","scopes":["manage"]}"#)
        .answers(201),
    manage("DELETE", "/v1/keys/{public_id}"),
    manage("GET", "/v1/audit-log"),
    // Sequences, before the person is erased, who is suppressed and in one: the failed execution cannot come in again.
    read("/v1/sequences"),
    Known { makes: true, ..manage("PUT", "/v1/sequences/{sequence}").takes(SEQUENCE) },
    read("/v1/sequences/{sequence}"),
    read("/v1/sequences/{sequence}/versions"),
    read("/v1/sequences/{sequence}/versions/{version}"),
    read("/v1/sequences/{sequence}/mermaid"),
    read("/v1/sequences/{sequence}/funnel"),
    Known::new("POST", "/v1/sequences/{sequence}/simulate", Scope::Read)
        .takes(r#"{"email":"eve@example.org"}"#),
    read("/v1/sequences/{sequence}/executions"),
    send("/v1/sequences/{sequence}/executions")
        .takes(r#"{"email":"eve@example.org"}"#)
        .answers(201),
    read("/v1/contacts/{email}/executions"),
    send("/v1/executions/{execution}/skip"),
    read("/v1/sequences/{sequence}/failed"),
    send("/v1/sequences/{sequence}/failed/{execution}/retry").answers(409),
    manage("DELETE", "/v1/sequences/{sequence}/failed/{execution}").answers(204),
    send("/v1/sequences/{sequence}/enrolments").takes(r#"{"where":{}}"#).answers(202),
    read("/v1/sequences/{sequence}/enrolments/{enrolment}"),
    Known::new("DELETE", "/v1/sequences/{sequence}/executions/{email}", Scope::Send).answers(204),
    manage("POST", "/v1/sequences/{sequence}/pause"),
    manage("POST", "/v1/sequences/{sequence}/archive"),
    manage("POST", "/v1/sequences/{sequence}/resume"),
    // Contacts and suppressions.
    read("/v1/contacts"),
    manage("POST", "/v1/contacts").takes(r#"{"email":"hidden@example.org"}"#),
    read("/v1/contacts/export"),
    manage("POST", "/v1/contacts/import").takes("email\nhidden@example.org\n"),
    read("/v1/contacts/{email}"),
    manage("PATCH", "/v1/contacts/{email}").takes(r#"{"first_name":"Other"}"#),
    manage("DELETE", "/v1/contacts/{email}/memory/{type}/{key}").answers(204),
    manage("DELETE", "/v1/contacts/{email}"),
    manage("PATCH", "/v1/contacts/{email}/address").takes(r#"{"verified":true}"#),
    manage("PUT", "/v1/contacts/{email}/tags").takes(r#"{"tags":["other"]}"#),
    manage("POST", "/v1/contacts/{email}/tags").takes(r#"{"tags":["other"]}"#),
    manage("DELETE", "/v1/contacts/{email}/tags"),
    manage("DELETE", "/v1/contacts/{email}/tags/{tag}"),
    read("/v1/contacts/{email}/timeline"),
    read("/v1/contacts/{email}/identities"),
    manage("DELETE", "/v1/contacts/{email}/identities/{channel}/{value}"),
    read("/v1/contact-merges"),
    manage("POST", "/v1/contacts/{email}/merge").takes(r#"{"with":"second@example.org"}"#),
    manage("POST", "/v1/contact-merges/{merge}/undo"),
    read("/v1/contact-flags"),
    manage("POST", "/v1/contact-flags/{flag}/dismiss"),
    read("/v1/settings/identity"),
    manage("PUT", "/v1/settings/identity").takes(r#"{"shared_identities":"merge"}"#),
    send("/v1/lead-events").takes(r#"{"event_type":"seen","identities":[{"channel":"email","value":"hidden@example.org"}]}"#).answers(202),
    read("/v1/lead-events").asks("?source=api&external_event_id=hidden"),
    read("/v1/contacts/{email}/memory"),
    read("/v1/contacts/{email}/memory/{type}/{key}"),
    manage("PUT", "/v1/contacts/{email}/memory/{type}/{key}").takes(r#"{"value":"other"}"#),
    read("/v1/contacts/{email}/features"),
    manage("POST", "/v1/contacts/{email}/rebuild").answers(202),
    read("/v1/rebuild"),
    manage("POST", "/v1/rebuild").answers(202),
    read("/v1/memory-rules"),
    read("/v1/memory-rules/{rules}"),
    Known {
        makes: true,
        ..manage("PUT", "/v1/memory-rules/{rules}")
            .takes(r#"{"rules":[{"name":"a","on":"x","type":"t","key":"k","value":1}]}"#)
    },
    manage("DELETE", "/v1/memory-rules/{rules}").answers(204),
    read("/v1/segments"),
    read("/v1/segments/{segment}"),
    Known {
        makes: true,
        ..manage("PUT", "/v1/segments/{segment}").takes(r#"{"condition":{"tag":"x"}}"#)
    },
    manage("POST", "/v1/segments/{segment}/rebuild").answers(202),
    read("/v1/segments/{segment}/members"),
    read("/v1/segments/{segment}/contacts/{email}"),
    manage("DELETE", "/v1/segments/{segment}").answers(204),
    read("/v1/suppressions"),
    manage("POST", "/v1/suppressions")
        .takes(r#"{"email":"hidden@example.org","reason":"why not"}"#),
    read("/v1/suppressions/{email}"),
    manage("DELETE", "/v1/suppressions/{email}").asks("?reason=back"),
    // What people agreed to.
    read("/v1/audiences"),
    manage("POST", "/v1/audiences").takes(r#"{"slug":"hidden"}"#).answers(409),
    read("/v1/audiences/{slug}"),
    manage("PATCH", "/v1/audiences/{slug}").takes(r#"{"name":"Other"}"#),
    read("/v1/topics"),
    manage("POST", "/v1/topics").takes(r#"{"slug":"hidden"}"#).answers(409),
    read("/v1/topics/{slug}"),
    manage("PATCH", "/v1/topics/{slug}").takes(r#"{"name":"Other"}"#),
    manage("POST", "/v1/subscriptions")
        .takes(r#"{"email":"hidden@example.org","audience":"hidden","by":"person"}"#),
    manage("POST", "/v1/subscriptions/unsubscribe")
        .takes(r#"{"email":"hidden@example.org","scope":"global"}"#),
    manage("POST", "/v1/subscriptions/resubscribe")
        .takes(r#"{"email":"hidden@example.org","scope":"global","by":"person"}"#),
    read("/v1/contacts/{email}/subscriptions"),
    read("/v1/contacts/{email}/preferences"),
    manage("PUT", "/v1/contacts/{email}/preferences").takes(r#"{"topics":{"hidden":false}}"#),
    read("/v1/contacts/{email}/consent"),
    // Any address is explained, as one that is nobody's here.
    Known { makes: true, ..read("/v1/contacts/{email}/eligibility").asks("?kind=transactional") },
    read("/v1/settings/replies"),
    manage("PUT", "/v1/settings/replies").takes(r#"{"forward_to":"off"}"#),
    read("/v1/settings/sending"),
    manage("PUT", "/v1/settings/sending")
        .takes(r#"{"frequency_cap_count":1,"frequency_cap_hours":1}"#),
    // Templates.
    read("/v1/templates"),
    Known { makes: true, ..manage("PUT", "/v1/templates/{key}").takes(TEMPLATE).answers(201) },
    read("/v1/templates/{key}"),
    read("/v1/templates/{key}/versions"),
    manage("POST", "/v1/templates/{key}/activate").takes(r#"{"version":1}"#),
    Known::new("POST", "/v1/templates/{key}/preview", Scope::Read).takes(r#"{"version":1}"#),
    send("/v1/templates/{key}/test-send").takes(r#"{"to":["eve@example.org"],"version":1}"#),
    manage("POST", "/v1/templates/{key}/deactivate"),
    Known::new("POST", "/v1/templates/validate", Scope::Read).takes(TEMPLATE),
    read("/v1/settings/display-names"),
    manage("PUT", "/v1/settings/display-names").takes(r#"{"names":{"planName":{"a":"b"}}}"#),
    // Mail. The message is queued: it can be cancelled, and there is nothing to settle.
    read("/v1/messages"),
    send("/v1/messages").takes(super::super::messages::HELLO).answers(202),
    send("/v1/messages/batch")
        .takes(r#"{"messages":[{"to":"eve@example.org","subject":"x","text":"x"}]}"#),
    send("/v1/messages/dry-run").takes(super::super::messages::HELLO),
    read("/v1/messages/{id}"),
    read("/v1/messages/{id}/events"),
    manage("POST", "/v1/messages/{id}/settle").takes(r#"{"outcome":"sent"}"#).answers(409),
    send("/v1/messages/{id}/cancel"),
    manage("POST", "/v1/messages/{id}/recompute"),
    read("/v1/senders"),
    manage("PUT", "/v1/senders")
        .takes(r#"{"senders":[{"slug":"news","from_email":"news@example.org"}]}"#),
    read("/v1/captured"),
    read("/v1/captured/{captured_id}"),
    read("/v1/captured/{captured_id}/raw"),
    manage("DELETE", "/v1/captured"),
    // Campaigns. It begins, is paused, resumed and cancelled on the way down; then it cannot be deleted.
    read("/v1/campaigns"),
    manage("POST", "/v1/campaigns").takes(CAMPAIGN).answers(201),
    Known::new("POST", "/v1/campaigns/preview", Scope::Read).takes(CAMPAIGN),
    read("/v1/campaigns/{campaign}"),
    Known { makes: true, ..manage("PUT", "/v1/campaigns/{campaign}").takes(CAMPAIGN) },
    Known::new("POST", "/v1/campaigns/{campaign}/preview", Scope::Read),
    send("/v1/campaigns/{campaign}/test").takes(r#"{"to":["eve@example.org"]}"#),
    manage("POST", "/v1/campaigns/{campaign}/duplicate").answers(201),
    send("/v1/campaigns/{campaign}/start"),
    send("/v1/campaigns/{campaign}/pause"),
    send("/v1/campaigns/{campaign}/resume"),
    send("/v1/campaigns/{campaign}/cancel"),
    send("/v1/campaigns/{campaign}/retry-failed").answers(409),
    read("/v1/campaigns/{campaign}/results"),
    read("/v1/campaigns/{campaign}/recipients"),
    read("/v1/campaigns/{campaign}/recipients.csv"),
    manage("POST", "/v1/campaigns/{campaign}/recipients/{recipient_id}/settle")
        .takes(r#"{"outcome":"sent"}"#)
        .answers(409),
    read("/v1/campaigns/{campaign}/why").asks("?email=hidden@example.org"),
    read("/v1/campaigns/{campaign}/history"),
    read("/v1/campaigns/{campaign}/uncertain"),
    manage("DELETE", "/v1/campaigns/{campaign}").answers(409),
    read("/v1/broadcasts"),
    read("/v1/broadcasts/{broadcast}"),
    // Reminders. The draft is edited, approved, and then it is too late to reject it.
    read("/v1/reminders"),
    drafting("POST", "/v1/reminders").takes(REMINDER).answers(201),
    drafting("POST", "/v1/reminders/bulk")
        .takes(r#"{"reminders":[{"customer_id":"a","customer_name":"A","customer_email":"a@example.org","overdue_amount":"1","currency":"EUR","invoices":[{"id":"1"}],"created_by":"x"}]}"#),
    drafting("POST", "/v1/reminders/overdue")
        .takes(r#"{"customers":[{"customer_id":"a","customer_name":"A","customer_email":"a@example.org","overdue_amount":"1","currency":"EUR","invoices":[{"id":"1"}]}]}"#),
    read("/v1/reminders/{reminder}"),
    drafting("PATCH", "/v1/reminders/{reminder}").takes(r#"{"by":"Eve","subject":"Other"}"#),
    Known { makes: true, ..deciding("/v1/reminders/approve") }
        .takes(r#"{"by":"Eve","reminders":[{"id":"20260701_120000_hidden","edition":2}]}"#)
        .answers(409),
    deciding("/v1/reminders/{reminder}/approve").takes(r#"{"by":"Eve","edition":2}"#),
    deciding("/v1/reminders/{reminder}/reject").takes(r#"{"by":"Eve","reason":"x"}"#),
    read("/v1/reminders/sent").asks("?from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z"),
    read("/v1/reminders/report").asks("?from=2026-01-01T00:00:00Z&to=2027-01-01T00:00:00Z"),
    read("/v1/reminders/outstanding"),
    drafting("POST", "/v1/reminders/payments")
        .takes(r#"{"customer_id":"new","invoice_id":"INV-1"}"#),
    customer("/v1/reminders/customers/{customer}/history"),
    customer("/v1/reminders/customers/{customer}/recent")
        .asks("?reminder_type=first&since=2026-01-01T00:00:00Z"),
    customer("/v1/reminders/customers/{customer}/allowed"),
    customer("/v1/reminders/customers/{customer}/payments"),
    read("/v1/reminder-templates"),
    Known { makes: true, ..manage("PUT", "/v1/reminder-templates/{template}") }
        .takes(r#"{"name":"Other","subject":"s","body":"b"}"#),
    read("/v1/reminder-templates/{template}"),
    read("/v1/reminder-templates/{template}/versions"),
    Known::new("POST", "/v1/reminder-templates/{template}/preview", Scope::Read).takes("{}"),
    read("/v1/settings/reminders"),
    manage("PUT", "/v1/settings/reminders").takes(r#"{"batch_limit":5,"client":"shop"}"#),
    // What comes back.
    read("/v1/events").asks("?sequence=hidden"),
    send("/v1/events").takes(r#"{"name":"seen","email":"eve@example.org"}"#).answers(202),
    send("/v1/track").takes(r#"{"event":"seen","userId":"eve@example.org"}"#).answers(202),
    send("/v1/identify")
        .takes(r#"{"userId":"7","traits":{"email":"eve@example.org"}}"#)
        .answers(202),
    send("/v1/batch").takes(r#"{"batch":[{"type":"track","event":"seen"}]}"#).answers(202),
    read("/v1/stats/deliveries"),
    read("/v1/stats/templates").asks("?key=hidden"),
    read("/v1/stats/sequences/{sequence_id}"),
    manage("POST", "/v1/inbound")
        .takes(r#"{"mime":"From: eve@example.org\r\n\r\nHello"}"#)
        .answers(202),
    // Webhooks. The delivery is still being tried.
    read("/v1/webhooks"),
    manage("POST", "/v1/webhooks").takes(WEBHOOK).answers(201),
    read("/v1/webhooks/{webhook_id}"),
    manage("PATCH", "/v1/webhooks/{webhook_id}").takes(WEBHOOK),
    manage("POST", "/v1/webhooks/{webhook_id}/rotate-secret"),
    manage("POST", "/v1/webhooks/{webhook_id}/disable"),
    manage("POST", "/v1/webhooks/{webhook_id}/enable"),
    manage("POST", "/v1/webhooks/{webhook_id}/test").answers(202),
    manage("POST", "/v1/webhooks/{webhook_id}/replay")
        .takes(r#"{"since":"2026-01-01T00:00:00Z"}"#)
        .answers(202),
    read("/v1/webhooks/{webhook_id}/deliveries"),
    manage("DELETE", "/v1/webhooks/{webhook_id}").answers(204),
    read("/v1/webhook-deliveries/{delivery_id}"),
    manage("POST", "/v1/webhook-deliveries/{delivery_id}/replay").answers(409),
    // Inboxes, of which everybody has as many as he looks into.
    Known { makes: true, ..admin("GET", "/v1/inboxes/{inbox}/messages") },
    Known {
        makes: true,
        ..admin("POST", "/v1/inboxes/{inbox}/messages")
            .takes(r#"{"to":{"users":["eve"]},"title":"x"}"#)
            .answers(201)
    },
    admin("GET", "/v1/inboxes/{inbox}/messages/{message_id}"),
    admin("DELETE", "/v1/inboxes/{inbox}/messages/{message_id}"),
    admin("GET", "/v1/inboxes"),
    admin("GET", "/v1/inboxes/{inbox}"),
    Known { makes: true, ..admin("PUT", "/v1/inboxes/{inbox}").takes(r#"{"title":"x"}"#) },
    admin("DELETE", "/v1/inboxes/{inbox}").answers(204),
    admin("GET", "/v1/inbox-settings"),
    admin("PUT", "/v1/inbox-settings").takes(r#"{"title":"x"}"#),
    Known::new("POST", "/v1/inbox-tokens", Scope::InboxUser)
        .takes(r#"{"user_id":"hidden"}"#)
        .answers(201),
    admin("DELETE", "/v1/inbox-tokens").asks("?user_id=hidden").answers(204),
    user("GET", "/inbox/v1/{inbox}/messages"),
    Known::new("GET", "/inbox/v1/{inbox}/messages/{message_id}", Scope::InboxUser),
    user("GET", "/inbox/v1/{inbox}/counts"),
    user("PUT", "/inbox/v1/{inbox}/messages/read").takes(MARKS),
    user("PUT", "/inbox/v1/{inbox}/messages/unread").takes(MARKS),
    user("PUT", "/inbox/v1/{inbox}/messages/seen").takes(MARKS),
    user("PUT", "/inbox/v1/{inbox}/messages/archive").takes(MARKS),
    user("PUT", "/inbox/v1/{inbox}/messages/unarchive").takes(MARKS),
    user("PUT", "/inbox/v1/{inbox}/messages/read-all"),
    user("GET", "/inbox/v1/{inbox}/stream"),
    Known {
        scope: None,
        keyless: true,
        ..user("POST", "/inbox/v1/tokens/refresh").takes(r#"{"refresh_token":"tdr_x.y"}"#)
    },
];
