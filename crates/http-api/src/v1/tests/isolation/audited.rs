//! Every route that changes what is managed leaves one entry in the audit log, which says who and what. Doing the same
//! again leaves none. A route that is neither here nor among those that change nothing managed fails the suite.

use std::collections::BTreeSet;

use tidings_access::audit::{self, Filter, Listed};
use tidings_access::keys::Issued;
use tidings_access::{Limit, Scope};
use tidings_kernel::queues;
use tidings_sql::Tx;

use super::super::World;
use super::routes::ROUTES;
use super::victim::{KNOWN_ID, victim};

const ID: &str = "{id}";

/// Route, where it leads, what it takes, and the answer with its entry: the action and the kind of the target. With
/// `another` at its end the same once more makes another one, and leaves another entry; else it leaves none.
const STEPS: &str = r#"
POST /v1/clients | /v1/clients | {"slug":"app"} | 201 client.create client
POST /v1/clients/{slug}/disable | /v1/clients/app/disable |  | 200 client.disable client
POST /v1/clients/{slug}/enable | /v1/clients/app/enable |  | 200 client.enable client
POST /v1/clients/{slug}/keys | /v1/clients/app/keys | {"name":"new","scopes":["read"]} | 201 key.create key
DELETE /v1/keys/{public_id} | /v1/keys/{key} |  | 200 key.revoke key
# People, of whom one is erased last.
POST /v1/contacts | /v1/contacts | {"email":"new@example.org"} | 201 contact.create contact
POST /v1/contacts/import | /v1/contacts/import | email\nmore@example.org\n | 200 contact.import workspace another
PATCH /v1/contacts/{email} | /v1/contacts/new@example.org | {"first_name":"Other"} | 200 contact.update contact
PATCH /v1/contacts/{email}/address | /v1/contacts/new@example.org/address | {"validation_status":"invalid"} | 200 contact.assess contact
PUT /v1/contacts/{email}/tags | /v1/contacts/new@example.org/tags | {"tags":["a"]} | 200 contact.update contact
POST /v1/contacts/{email}/tags | /v1/contacts/new@example.org/tags | {"tags":["b"]} | 200 contact.update contact
DELETE /v1/contacts/{email}/tags/{tag} | /v1/contacts/new@example.org/tags/a |  | 200 contact.update contact
DELETE /v1/contacts/{email}/tags | /v1/contacts/new@example.org/tags |  | 200 contact.update contact
POST /v1/suppressions | /v1/suppressions | {"email":"new@example.org","reason":"why not"} | 201 suppression.add contact
DELETE /v1/suppressions/{email} | /v1/suppressions/new@example.org?reason=back |  | 200 suppression.lift contact
POST /v1/audiences | /v1/audiences | {"slug":"news"} | 201 audience.create audience
PATCH /v1/audiences/{slug} | /v1/audiences/news | {"name":"Other"} | 200 audience.update audience
POST /v1/topics | /v1/topics | {"slug":"tips"} | 201 topic.create topic
PATCH /v1/topics/{slug} | /v1/topics/tips | {"name":"Other"} | 200 topic.update topic
POST /v1/subscriptions | /v1/subscriptions | {"email":"new@example.org","audience":"news","by":"person"} | 200 subscription.subscribe subscription
POST /v1/subscriptions/unsubscribe | /v1/subscriptions/unsubscribe | {"email":"new@example.org","scope":"global"} | 200 contact.unsubscribe contact
POST /v1/subscriptions/resubscribe | /v1/subscriptions/resubscribe | {"email":"new@example.org","scope":"global","by":"person"} | 200 contact.resubscribe contact
PUT /v1/contacts/{email}/preferences | /v1/contacts/new@example.org/preferences | {"topics":{"tips":false}} | 200 preference.off contact
DELETE /v1/contacts/{email} | /v1/contacts/new@example.org |  | 200 contact.erase contact
PUT /v1/settings/sending | /v1/settings/sending | {"frequency_cap_count":1,"frequency_cap_hours":1} | 200 settings.sending workspace
# Templates.
PUT /v1/templates/{key} | /v1/templates/hello | {"subject":"s","text":"t"} | 201 template.put template
POST /v1/templates/{key}/deactivate | /v1/templates/hello/deactivate |  | 200 template.deactivate template
POST /v1/templates/{key}/activate | /v1/templates/hello/activate | {"version":1} | 200 template.activate template
PUT /v1/settings/replies | /v1/settings/replies | {"forward_to":"off"} | 200 settings.replies workspace
PUT /v1/settings/display-names | /v1/settings/display-names | {"names":{"planName":{"a":"b"}}} | 200 settings.display_names workspace
# Mail. Nobody knows of the second message what became of it.
POST /v1/messages/{id}/cancel | /v1/messages/1/cancel |  | 200 message.cancel message
POST /v1/messages/{id}/settle | /v1/messages/2/settle | {"outcome":"sent"} | 200 message.settle_sent message
PUT /v1/senders | /v1/senders | {"senders":[{"slug":"news","from_email":"news@example.org"}]} | 200 senders.replace client
DELETE /v1/captured | /v1/captured |  | 200 captured.clear workspace
# Campaigns.
POST /v1/campaigns | /v1/campaigns | {"name":"n","subject":"s","text":"t","external_key":"spring"} | 201 campaign.create campaign
PUT /v1/campaigns/{campaign} | /v1/campaigns/hidden-mailing | {"name":"Other","subject":"s","text":"t"} | 200 campaign.update campaign
POST /v1/campaigns/{campaign}/duplicate | /v1/campaigns/hidden-mailing/duplicate | {"external_key":"again"} | 201 campaign.create campaign
DELETE /v1/campaigns/{campaign} | /v1/campaigns/spring |  | 204 campaign.delete campaign
POST /v1/campaigns/{campaign}/recipients/{recipient_id}/settle | /v1/campaigns/hidden-mailing/recipients/1/settle | {"outcome":"sent"} | 200 recipient.settle_sent recipient
POST /v1/campaigns/{campaign}/start | /v1/campaigns/hidden-mailing/start |  | 200 campaign.start campaign
POST /v1/campaigns/{campaign}/pause | /v1/campaigns/hidden-mailing/pause |  | 200 campaign.pause campaign
POST /v1/campaigns/{campaign}/resume | /v1/campaigns/hidden-mailing/resume |  | 200 campaign.resume campaign
POST /v1/campaigns/{campaign}/cancel | /v1/campaigns/hidden-mailing/cancel |  | 200 campaign.cancel campaign
# Sequences.
PUT /v1/sequences/{sequence} | /v1/sequences/more | {"steps":[{"wait":"1 day"},{"exit":{}}]} | 201 sequence.create sequence
POST /v1/sequences/{sequence}/enrolments | /v1/sequences/more/enrolments | {"where":{}} | 202 sequence.enrol sequence another
POST /v1/executions/{execution}/skip | /v1/executions/{id}/skip |  | 200 execution.skip execution
DELETE /v1/sequences/{sequence}/failed/{execution} | /v1/sequences/hidden/failed/{id} |  | 204 execution.drop execution
DELETE /v1/sequences/{sequence}/executions/{email} | /v1/sequences/hidden/executions/hidden@example.org |  | 204 execution.stop execution
POST /v1/sequences/{sequence}/pause | /v1/sequences/hidden/pause |  | 200 sequence.pause sequence
POST /v1/sequences/{sequence}/resume | /v1/sequences/hidden/resume |  | 200 sequence.resume sequence
POST /v1/sequences/{sequence}/archive | /v1/sequences/hidden/archive |  | 200 sequence.archive sequence
# Segments.
PUT /v1/segments/{segment} | /v1/segments/more | {"condition":{"tag":"x"}} | 201 segment.create segment
POST /v1/segments/{segment}/rebuild | /v1/segments/more/rebuild |  | 202 segment.rebuild segment another
DELETE /v1/segments/{segment} | /v1/segments/more |  | 204 segment.delete segment
# Memory.
PUT /v1/contacts/{email}/memory/{type}/{key} | /v1/contacts/hidden@example.org/memory/preference/colour | {"value":"red"} | 200 memory.remember contact another
DELETE /v1/contacts/{email}/memory/{type}/{key} | /v1/contacts/hidden@example.org/memory/preference/colour |  | 204 memory.forget contact
PUT /v1/memory-rules/{rules} | /v1/memory-rules/more | {"rules":[{"name":"r","on":["x"],"type":"interest","key":"k","value":"v"}]} | 201 memory_rules.put memory_rules
DELETE /v1/memory-rules/{rules} | /v1/memory-rules/more |  | 204 memory_rules.delete memory_rules
# Webhooks.
POST /v1/webhooks | /v1/webhooks | {"url":"http://127.0.0.1:9/"} | 201 webhook.create webhook another
PATCH /v1/webhooks/{webhook_id} | /v1/webhooks/1 | {"description":"Other"} | 200 webhook.update webhook
POST /v1/webhooks/{webhook_id}/rotate-secret | /v1/webhooks/1/rotate-secret |  | 200 webhook.rotate_secret webhook another
POST /v1/webhooks/{webhook_id}/disable | /v1/webhooks/1/disable |  | 200 webhook.disable webhook
POST /v1/webhooks/{webhook_id}/enable | /v1/webhooks/1/enable |  | 200 webhook.enable webhook
POST /v1/webhooks/{webhook_id}/test | /v1/webhooks/1/test |  | 202 webhook.test webhook another
POST /v1/webhooks/{webhook_id}/replay | /v1/webhooks/1/replay | {"since":"2026-01-01T00:00:00Z"} | 202 webhook.replay webhook
POST /v1/webhook-deliveries/{delivery_id}/replay | /v1/webhook-deliveries/2/replay |  | 202 webhook_delivery.replay webhook_delivery
DELETE /v1/webhooks/{webhook_id} | /v1/webhooks/1 |  | 204 webhook.delete webhook
# Reminders.
POST /v1/reminders | /v1/reminders | {"customer_id":"new","customer_name":"New","customer_email":"debtor@example.org","overdue_amount":"10.00","currency":"EUR","invoices":[{"id":"INV-1"}],"subject":"s","content":"c","created_by":"agent","idempotency_key":"1"} | 201 reminder.draft reminder
PATCH /v1/reminders/{reminder} | /v1/reminders/20260701_120000_new | {"by":"Eve","subject":"Other","edition":1} | 200 reminder.edit reminder
POST /v1/reminders/{reminder}/approve | /v1/reminders/20260701_120000_new/approve | {"by":"Eve","edition":2} | 200 reminder.approve reminder
POST /v1/reminders/bulk | /v1/reminders/bulk | {"reminders":[{"customer_id":"more","customer_name":"More","customer_email":"more@example.org","overdue_amount":"10.00","currency":"EUR","invoices":[{"id":"INV-2"}],"template":"hidden-too","created_by":"agent","idempotency_key":"2"}]} | 200 reminder.draft reminder
POST /v1/reminders/approve | /v1/reminders/approve | {"by":"Eve","reminders":[{"id":"20260701_120000_more","edition":1}]} | 200 reminder.approve reminder
POST /v1/reminders/{reminder}/reject | /v1/reminders/20260701_120000_hidden/reject | {"by":"Eve","reason":"too early"} | 200 reminder.reject reminder
POST /v1/reminders/overdue | /v1/reminders/overdue | {"customers":[{"customer_id":"late","customer_name":"Late","customer_email":"late@example.org","overdue_amount":"10.00","currency":"EUR","invoices":[{"id":"INV-9"}]}]} | 200 reminder.overdue customer
POST /v1/reminders/payments | /v1/reminders/payments | {"customer_id":"hidden","invoice_id":"INV-7"} | 200 reminder.paid customer
PUT /v1/reminder-templates/{template} | /v1/reminder-templates/other | {"name":"Other","subject":"s","body":"b"} | 200 reminders.template reminder_template
PUT /v1/settings/reminders | /v1/settings/reminders | {"batch_limit":5,"client":"shop"} | 200 reminders.settings reminder_settings
# Inboxes.
PUT /v1/inbox-settings | /v1/inbox-settings | {"title":"x"} | 200 inbox_settings.put workspace
PUT /v1/inboxes/{inbox} | /v1/inboxes/news | {"title":"x"} | 200 inbox.put inbox
DELETE /v1/inboxes/{inbox} | /v1/inboxes/news |  | 204 inbox.delete inbox
POST /v1/inboxes/{inbox}/messages | /v1/inboxes/hidden/messages | {"to":{"everyone":true},"title":"x","host_system_id":"1"} | 201 post.publish post
DELETE /v1/inboxes/{inbox}/messages/{message_id} | /v1/inboxes/hidden/messages/{message} |  | 200 post.redact post
DELETE /v1/inbox-tokens | /v1/inbox-tokens?user_id=hidden |  | 204 inbox_user.sign_out inbox_user another
"#;

struct Step {
    route: &'static str,
    path: &'static str,
    body: String,
    status: u16,
    action: &'static str,
    kind: &'static str,
    another: bool,
}

fn steps() -> impl Iterator<Item = Step> {
    let lines = STEPS.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines.map(|line| {
        let parts: Vec<&str> = line.split('|').map(str::trim).collect();
        let [route, path, body, outcome] = parts[..] else { panic!("{line}") };
        let words: Vec<&str> = outcome.split(' ').collect();
        Step {
            route,
            path,
            body: body.replace("\\n", "\n"),
            status: words[0].parse().unwrap(),
            action: words[1],
            kind: words[2],
            another: words.get(3) == Some(&"another"),
        }
    })
}

/// Routes that change nothing managed, and why.
const UNTOLD: &[(&str, &str)] = &[
    ("POST /v1/sequences/{sequence}/executions", "lets one person in, who has a record"),
    ("POST /v1/sequences/{sequence}/failed/{execution}/retry", "is told by `tidings-sequences`"),
    ("POST /v1/templates/{key}/test-send", "sends"),
    ("POST /v1/messages", "sends"),
    ("POST /v1/messages/batch", "sends"),
    ("POST /v1/messages/dry-run", "changes nothing"),
    ("POST /v1/campaigns/{campaign}/test", "sends"),
    ("POST /v1/campaigns/{campaign}/retry-failed", "is told by `tidings-outreach`"),
    ("POST /v1/contacts/{email}/merge", "is told by `tidings-leads`"),
    ("DELETE /v1/contacts/{email}/identities/{channel}/{value}", "is told by `tidings-leads`"),
    ("POST /v1/contact-merges/{merge}/undo", "is told by `tidings-leads`"),
    ("POST /v1/contact-flags/{flag}/dismiss", "is told by `tidings-leads`"),
    ("PUT /v1/settings/identity", "is told by `tidings-leads`"),
    ("POST /v1/lead-events", "tells what people did"),
    ("POST /v1/contacts/{email}/rebuild", "derives anew what is derived"),
    ("POST /v1/rebuild", "derives anew what is derived"),
    ("POST /v1/events", "tells what people did"),
    ("POST /v1/track", "tells what people did"),
    ("POST /v1/identify", "tells who people are"),
    ("POST /v1/batch", "tells what people did"),
    ("POST /v1/inbound", "takes a mail in"),
    ("POST /v1/messages/{id}/recompute", "derives anew what is derived"),
    ("POST /v1/inbox-tokens", "lets a user in"),
    ("POST /inbox/v1/tokens/refresh", "lets a user in"),
];

#[test]
fn every_route_that_changes_something_is_told_of() {
    let told: BTreeSet<&str> = steps().map(|step| step.route).collect();
    let untold: BTreeSet<&str> = UNTOLD.iter().map(|route| route.0).collect();
    for route in ROUTES.iter().filter(|route| route.method != "GET") {
        // What only reads takes a body sometimes, and a user's own marks are his own.
        if route.scope == Some(Scope::Read) || route.template.starts_with("/inbox/v1/{inbox}") {
            continue;
        }
        let line = format!("{} {}", route.method, route.template);
        let (is_told, is_not) = (told.contains(line.as_str()), untold.contains(line.as_str()));
        assert!(is_told != is_not, "say once whether {line} leaves an entry");
    }
    let known: BTreeSet<String> =
        ROUTES.iter().map(|route| format!("{} {}", route.method, route.template)).collect();
    for line in told.iter().chain(&untold) {
        assert!(known.contains(*line), "there is no {line}");
    }
}

#[tokio::test]
async fn each_change_leaves_one_entry_and_its_repetition_none() {
    let world = World::new().await;
    let key = victim(&world).await;
    prepare(&world).await;
    let (mut made, mut wrong) = (String::new(), Vec::new());
    for Step { route, path, body, status, action, kind, another } in steps() {
        let message = world.hidden_message.get().map_or("", String::as_str);
        let path = path.replace(ID, KNOWN_ID).replace("{message}", message).replace("{key}", &made);
        let before = entries(&world).await.len();
        let line = format!("{} {path}", route.split_once(' ').unwrap().0);
        let answer = send(&world, &key, &line, &body).await;
        if answer.status != status {
            wrong.push(format!("{line} answered {}: {}", answer.status, answer.body));
        } else if action == "key.create" {
            answer.json()["public_id"].as_str().unwrap().clone_into(&mut made);
        }
        let log = entries(&world).await;
        let new = &log[..log.len() - before];
        if !matches!(new, [one] if is_right(one, (action, kind), &world, &key)) {
            wrong.push(format!("{line} left {new:?}"));
        }
        send(&world, &key, &line, &body).await;
        let more = entries(&world).await.len() - log.len();
        if more != usize::from(another) {
            wrong.push(format!("{line}, done again, left {more}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What is whole without a state: it is done to the target, and there is nothing more to say of it.
const SAYS_NOTHING: &[&str] = &["contact.erase", "inbox_user.sign_out"];

/// Whether it says from what to what, or what there is now, or what there was.
fn is_told(one: &Listed) -> bool {
    let says = |state: &Option<serde_json::Value>| {
        state.as_ref().and_then(serde_json::Value::as_object).is_some_and(|state| !state.is_empty())
    };
    says(&one.before) || says(&one.after)
}

/// Whether it says who, what and when, from what to what, and no more than may be said.
fn is_right(one: &Listed, entry: (&str, &str), world: &World, key: &Issued) -> bool {
    let told = format!("{one:?}");
    (one.action.as_str(), one.target_type.as_str()) == entry
        && one.actor == format!("key:{}", key.key.public_id)
        && one.happened_at == world.access.now()
        && !told.contains('@')
        && (SAYS_NOTHING.contains(&entry.0) || is_told(one))
        // The name of a campaign is nobody's; what is in it, and what people are called, is not told.
        && (matches!(entry.1, "campaign" | "webhook" | "reminder") || !told.contains("Top secret"))
}

/// The newest first, with what waits in the queue.
async fn entries(world: &World) -> Vec<Listed> {
    let writer = audit::handler(world.access.clone());
    world.bed.work(&queues::AUDIT_ENTRIES, writer).await;
    // A clock that stands still would not tell the newest.
    let (mut after, mut all) = (None, Vec::new());
    loop {
        let page = audit::list(&world.acme, Filter::default(), after, Limit::MAX).await.unwrap();
        all.extend(page.items);
        after = page.next;
        if after.is_none() {
            return all;
        }
    }
}

async fn send(world: &World, key: &Issued, line: &str, body: &str) -> super::super::Answer {
    world.send(line, Some(&key.api_key.expose()), body).await
}

/// A message and a recipient of whom nobody knows what became of them, and deliveries that failed.
async fn prepare(world: &World) {
    super::super::messages::hello(world, &world.acme).await;
    let prepare = world.access.database().write(|tx: &mut Tx<'_>| {
        for sql in [
            "UPDATE transactional_messages SET status = 'uncertain', handed_at = 1 WHERE id = 2",
            "UPDATE campaign_recipients SET status = 'uncertain', skip_reason = NULL, handed_at = 1 WHERE id = 1",
            "UPDATE webhook_deliveries SET status = 'failed', failure = 'exhausted', next_attempt_at = NULL",
        ] {
            tx.execute(sql, &[])?;
        }
        Ok::<_, tidings_sql::DatabaseError>(())
    });
    prepare.await.unwrap();
}
