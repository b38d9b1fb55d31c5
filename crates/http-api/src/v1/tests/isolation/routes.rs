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
    /// It makes what it names, so that a stranger makes one of his own.
    pub(super) makes: bool,
}

impl Known {
    const fn new(method: &'static str, template: &'static str, scope: Scope) -> Self {
        let scope = Some(scope);
        Self { method, template, scope, query: "", body: "", status: 200, makes: false }
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

const WEBHOOK: &str = r#"{"url":"http://127.0.0.1:9/"}"#;
const CAMPAIGN: &str = r#"{"name":"n","subject":"s","text":"t"}"#;
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
    manage("DELETE", "/v1/contacts/{email}"),
    manage("PUT", "/v1/contacts/{email}/tags").takes(r#"{"tags":["other"]}"#),
    manage("POST", "/v1/contacts/{email}/tags").takes(r#"{"tags":["other"]}"#),
    manage("DELETE", "/v1/contacts/{email}/tags"),
    manage("DELETE", "/v1/contacts/{email}/tags/{tag}"),
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
        .takes(r#"{"email":"hidden@example.org","scope":"global"}"#),
    read("/v1/contacts/{email}/subscriptions"),
    read("/v1/contacts/{email}/preferences"),
    manage("PUT", "/v1/contacts/{email}/preferences").takes(r#"{"topics":{"hidden":false}}"#),
    read("/v1/contacts/{email}/consent"),
    read("/v1/contacts/{email}/eligibility").asks("?kind=transactional"),
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
];
