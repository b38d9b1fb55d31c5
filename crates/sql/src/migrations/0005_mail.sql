-- Mail: what people agreed to and how we know, who writes to them, and what others are told of it.

-- What signs the links in our mails. The newest signs, the older ones still prove; a key is never deleted, because
-- a link works for years. One that was revoked does neither.
CREATE TABLE signing_keys (
    id {serial} CHECK (id > 0),
    secret {key} NOT NULL CHECK (length(secret) = 64),
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    revoked_at BIGINT CHECK (revoked_at >= 0)
);

-- Proof: one row for each change of what somebody agreed to. Nothing changes it but erasure, which clears the person.
CREATE TABLE consent_log (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    lead_id BIGINT NOT NULL,
    audience_id BIGINT,
    client_id BIGINT,
    topic_id BIGINT,
    action {key} NOT NULL CHECK (
        action IN ('requested', 'confirmed', 'subscribed', 'unsubscribed', 'resubscribed', 'topic_on', 'topic_off')
    ),
    acted_by {key} NOT NULL CHECK (acted_by IN ('person', 'operator', 'import')),
    source TEXT NOT NULL CHECK (length(source) BETWEEN 1 AND 200),
    reason TEXT,
    ip TEXT,
    user_agent TEXT,
    text_version TEXT,
    happened_at BIGINT NOT NULL CHECK (happened_at >= 0),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id),
    FOREIGN KEY (workspace_id, audience_id) REFERENCES audiences (workspace_id, id),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id),
    FOREIGN KEY (workspace_id, topic_id) REFERENCES topics (workspace_id, id)
);
CREATE INDEX consent_log_lead ON consent_log (lead_id, id);

-- Who asked to be subscribed and has not confirmed yet. `recent_sends` has the times of the last mails that asked.
CREATE TABLE confirmations (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    subscription_id BIGINT NOT NULL UNIQUE,
    sends BIGINT NOT NULL DEFAULT 0 CHECK (sends >= 0),
    last_sent_at BIGINT,
    recent_sends {json} NOT NULL DEFAULT '[]',
    expires_at BIGINT NOT NULL,
    confirmed_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, subscription_id) REFERENCES subscriptions (workspace_id, id)
);

-- Whether a new subscription must be confirmed, and with which template it is asked.
ALTER TABLE audiences ADD COLUMN double_opt_in BIGINT NOT NULL DEFAULT 0 CHECK (double_opt_in IN (0, 1));
ALTER TABLE audiences ADD COLUMN confirm_template_key TEXT CHECK (length(confirm_template_key) BETWEEN 1 AND 200);

-- When somebody last agreed: whoever left an audience and agreed to one client's part of it since is back for that.
ALTER TABLE subscriptions ADD COLUMN agreed_at BIGINT;

-- When marketing mail waits: not more than so many in so many hours, and not at night. Minutes count from midnight.
CREATE TABLE workspace_settings (
    workspace_id BIGINT PRIMARY KEY REFERENCES workspaces (id),
    frequency_cap_count BIGINT CHECK (frequency_cap_count BETWEEN 1 AND 100),
    frequency_cap_hours BIGINT CHECK (frequency_cap_hours BETWEEN 1 AND 720),
    quiet_from BIGINT CHECK (quiet_from BETWEEN 0 AND 1439),
    quiet_until BIGINT CHECK (quiet_until BETWEEN 0 AND 1439),
    quiet_zone TEXT,
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK ((frequency_cap_count IS NULL) = (frequency_cap_hours IS NULL)),
    CHECK ((quiet_from IS NULL) = (quiet_until IS NULL)),
    CHECK (quiet_from <> quiet_until)
);

-- Whom a client writes as.
CREATE TABLE senders (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    client_id BIGINT NOT NULL,
    slug {key} NOT NULL CHECK (length(slug) BETWEEN 1 AND 64),
    from_email {key} NOT NULL CHECK (length(from_email) BETWEEN 3 AND 254),
    from_name TEXT,
    reply_to TEXT,
    is_default BIGINT NOT NULL DEFAULT 0 CHECK (is_default IN (0, 1)),
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (client_id, slug),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id)
);
CREATE UNIQUE INDEX senders_default ON senders (client_id) WHERE is_default = 1;

-- A message's content is frozen when it is rendered. `request_hash` tells a repeat from another request with the same
-- key; `handed_at` is set before the provider is called, so that whoever finds it without an answer knows;
-- `logged_at` is the time under which the send log has it, and never changes; `refusals` counts how often the provider
-- said "not now".
ALTER TABLE transactional_messages ADD COLUMN request_hash TEXT;
ALTER TABLE transactional_messages ADD COLUMN reply_to TEXT;
ALTER TABLE transactional_messages ADD COLUMN provider TEXT;
ALTER TABLE transactional_messages ADD COLUMN message_id TEXT;
ALTER TABLE transactional_messages ADD COLUMN handed_at BIGINT;
ALTER TABLE transactional_messages ADD COLUMN rendered_at BIGINT;
ALTER TABLE transactional_messages ADD COLUMN logged_at BIGINT;
ALTER TABLE transactional_messages ADD COLUMN refusals BIGINT NOT NULL DEFAULT 0;
CREATE INDEX transactional_messages_status ON transactional_messages (client_id, status, id);
CREATE INDEX transactional_messages_uncertain ON transactional_messages (workspace_id, id) WHERE status = 'uncertain';
ALTER TABLE campaign_recipients ADD COLUMN provider TEXT;
ALTER TABLE campaign_recipients ADD COLUMN message_id TEXT;
ALTER TABLE campaign_recipients ADD COLUMN handed_at BIGINT;

-- Mail that was not sent but kept to look at.
CREATE TABLE captured_mails (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT REFERENCES workspaces (id),
    mail_from TEXT NOT NULL,
    rcpt_to {json} NOT NULL,
    subject TEXT,
    mime {blob} NOT NULL,
    tags {json} NOT NULL DEFAULT '{}',
    created_at BIGINT NOT NULL CHECK (created_at >= 0)
);
CREATE INDEX captured_mails_list ON captured_mails (workspace_id, id);

-- Whom we tell what happened. One that is deleted stays for its history, without its secrets. `failures` counts those in
-- a row, and `failing_since` is the time of the first of them.
CREATE TABLE webhook_endpoints (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    url TEXT NOT NULL CHECK (length(url) BETWEEN 1 AND 2048),
    description TEXT,
    event_types {json} NOT NULL DEFAULT '[]',
    secret TEXT NOT NULL,
    previous_secret TEXT,
    previous_secret_until BIGINT,
    failures BIGINT NOT NULL DEFAULT 0 CHECK (failures >= 0),
    failing_since BIGINT,
    disabled_at BIGINT,
    disabled_reason TEXT,
    deleted_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    CHECK ((disabled_at IS NULL) = (disabled_reason IS NULL)),
    CHECK ((previous_secret IS NULL) = (previous_secret_until IS NULL)),
    CHECK (deleted_at IS NULL OR disabled_at IS NOT NULL)
);
CREATE INDEX webhook_endpoints_list ON webhook_endpoints (workspace_id, id) WHERE deleted_at IS NULL;

-- What each of them is told. `about` is a hash of the address in the body, so that erasure finds it; an erased or old
-- body is empty. `attempts` counts since the delivery was made or replayed. Whoever tries has the row until `claimed_until`.
CREATE TABLE webhook_deliveries (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    endpoint_id BIGINT NOT NULL,
    event_id {key} NOT NULL CHECK (length(event_id) BETWEEN 1 AND 255),
    event_type {key} NOT NULL CHECK (length(event_type) BETWEEN 1 AND 100),
    about {key},
    body TEXT NOT NULL,
    status {key} NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'delivered', 'failed')),
    failure TEXT,
    attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    next_attempt_at BIGINT,
    claimed_until BIGINT,
    delivered_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (endpoint_id, event_id),
    CHECK ((status = 'pending') = (next_attempt_at IS NOT NULL)),
    CHECK ((status = 'delivered') = (delivered_at IS NOT NULL)),
    CHECK ((status = 'failed') = (failure IS NOT NULL)),
    FOREIGN KEY (workspace_id, endpoint_id) REFERENCES webhook_endpoints (workspace_id, id)
);
CREATE INDEX webhook_deliveries_list ON webhook_deliveries (endpoint_id, id);
CREATE INDEX webhook_deliveries_failed ON webhook_deliveries (endpoint_id, id) WHERE status = 'failed';
CREATE INDEX webhook_deliveries_pending ON webhook_deliveries (endpoint_id, id) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_due ON webhook_deliveries (next_attempt_at) WHERE status = 'pending';
CREATE INDEX webhook_deliveries_about ON webhook_deliveries (workspace_id, about) WHERE about IS NOT NULL;
CREATE INDEX webhook_deliveries_age ON webhook_deliveries (created_at);
CREATE INDEX webhook_deliveries_bodies ON webhook_deliveries (created_at) WHERE body <> '';

CREATE TABLE webhook_attempts (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    delivery_id BIGINT NOT NULL,
    status_code BIGINT,
    answer TEXT,
    error TEXT,
    duration_ms BIGINT NOT NULL CHECK (duration_ms >= 0),
    attempted_at BIGINT NOT NULL CHECK (attempted_at >= 0),
    FOREIGN KEY (workspace_id, delivery_id) REFERENCES webhook_deliveries (workspace_id, id)
);
CREATE INDEX webhook_attempts_list ON webhook_attempts (delivery_id, id);

-- What the addresses of erased people are hashed with, so that a suppression outlives them. It must match for ever,
-- so there is one in a workspace, and it never changes.
CREATE TABLE suppression_keys (
    workspace_id BIGINT PRIMARY KEY REFERENCES workspaces (id),
    secret {key} NOT NULL CHECK (length(secret) = 64),
    created_at BIGINT NOT NULL CHECK (created_at >= 0)
);

-- Who was erased. The addresses are there only while that is under way, so that it can go on after a crash.
CREATE TABLE erasures (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    lead_id BIGINT NOT NULL UNIQUE,
    address_hash {key} NOT NULL CHECK (length(address_hash) = 64),
    addresses {json},
    begun_at BIGINT NOT NULL CHECK (begun_at >= 0),
    done_at BIGINT,
    CHECK ((addresses IS NULL) = (done_at IS NOT NULL)),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id)
);
CREATE INDEX erasures_under_way ON erasures (workspace_id, address_hash) WHERE done_at IS NULL;

-- What a provider or a person sent that is about no message of any workspace. Kept for a while, to look at.
CREATE TABLE stray_events (
    id {serial} CHECK (id > 0),
    provider_event_id {key} NOT NULL UNIQUE CHECK (length(provider_event_id) BETWEEN 1 AND 500),
    event_type {key} NOT NULL CHECK (length(event_type) BETWEEN 1 AND 100),
    reason TEXT NOT NULL,
    received_at BIGINT NOT NULL CHECK (received_at >= 0),
    body TEXT NOT NULL
);
CREATE INDEX stray_events_age ON stray_events (received_at);
