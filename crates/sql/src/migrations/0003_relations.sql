-- Relations: what needs joins, unique constraints and filters. Every row belongs to a workspace, and a reference
-- carries its workspace with it, so no row can point into another one. Times are milliseconds since 1970.

CREATE TABLE workspaces (
    id {serial} CHECK (id > 0),
    name {key} NOT NULL UNIQUE CHECK (length(name) BETWEEN 1 AND 64),
    disabled_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0)
);

-- An application that sends, and its keys. Of a key's secret there is only the SHA-256, in hex.
CREATE TABLE clients (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    slug {key} NOT NULL CHECK (length(slug) BETWEEN 1 AND 64),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    disabled_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, slug)
);

CREATE TABLE client_api_keys (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    client_id BIGINT NOT NULL,
    public_id {key} NOT NULL UNIQUE CHECK (length(public_id) = 12),
    secret_hash {key} NOT NULL CHECK (length(secret_hash) = 64),
    name {key} NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    scopes {json} NOT NULL,
    requests_per_second BIGINT NOT NULL CHECK (requests_per_second BETWEEN 1 AND 100000),
    burst BIGINT NOT NULL CHECK (burst BETWEEN 1 AND 1000000),
    expires_at BIGINT,
    revoked_at BIGINT,
    last_used_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id)
);
-- A name can be used again once its key is revoked: that is how a key is replaced.
CREATE UNIQUE INDEX client_api_keys_name ON client_api_keys (client_id, name) WHERE revoked_at IS NULL;
CREATE INDEX client_api_keys_list ON client_api_keys (client_id, id);

-- People. A merged lead stays, and says into whom; its identities and its history keep their own lead.
CREATE TABLE leads (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    display_name TEXT,
    locale TEXT,
    timezone TEXT,
    attributes {json} NOT NULL DEFAULT '{}',
    merged_into_id BIGINT CHECK (merged_into_id <> id),
    merged_at BIGINT,
    unsubscribed_at BIGINT,
    erased_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK ((merged_into_id IS NULL) = (merged_at IS NULL)),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, merged_into_id) REFERENCES leads (workspace_id, id)
);
CREATE INDEX leads_merged ON leads (merged_into_id) WHERE merged_into_id IS NOT NULL;

-- `value` is normalised, `typed_value` is what somebody wrote. What a provider said of an address is kept here for
-- filters; that it must not be written to is a suppression, which is an item and outlives this row.
CREATE TABLE channel_identities (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    lead_id BIGINT NOT NULL,
    channel {key} NOT NULL CHECK (
        channel IN ('email', 'phone', 'whatsapp', 'user_id', 'customer_id', 'anonymous_id')
        OR (substr(channel, 1, 7) = 'custom:' AND length(channel) BETWEEN 8 AND 71)
    ),
    value {key} NOT NULL CHECK (length(value) BETWEEN 1 AND 512),
    typed_value TEXT NOT NULL,
    source TEXT,
    validation_status {key} NOT NULL DEFAULT 'unknown'
        CHECK (validation_status IN ('unknown', 'valid', 'invalid', 'risky')),
    validation_reason TEXT,
    validated_at BIGINT,
    verified_at BIGINT,
    bounced_at BIGINT,
    complained_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, channel, value),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id)
);
CREATE INDEX channel_identities_lead ON channel_identities (lead_id);

-- A lead as the workspace knows it: its id is the partition of the lead's events, memory and features.
CREATE TABLE lead_organizations (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    lead_id BIGINT NOT NULL UNIQUE,
    first_seen_at BIGINT,
    last_seen_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK (last_seen_at >= first_seen_at),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id)
);
CREATE INDEX lead_organizations_activity ON lead_organizations (workspace_id, last_seen_at, id);

-- What people have agreed to. A subscription without a client is to the whole audience.
CREATE TABLE audiences (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    slug {key} NOT NULL CHECK (length(slug) BETWEEN 1 AND 64),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, slug)
);

CREATE TABLE subscriptions (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    lead_id BIGINT NOT NULL,
    audience_id BIGINT NOT NULL,
    client_id BIGINT,
    status {key} NOT NULL CHECK (status IN ('pending', 'subscribed', 'unsubscribed')),
    source TEXT,
    verified_at BIGINT,
    unsubscribed_at BIGINT,
    unsubscribe_reason TEXT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK (status <> 'unsubscribed' OR unsubscribed_at IS NOT NULL),
    UNIQUE (workspace_id, id),
    UNIQUE (lead_id, audience_id, client_id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id),
    FOREIGN KEY (workspace_id, audience_id) REFERENCES audiences (workspace_id, id),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id)
);
CREATE UNIQUE INDEX subscriptions_audience_wide ON subscriptions (lead_id, audience_id)
    WHERE client_id IS NULL;
CREATE INDEX subscriptions_list ON subscriptions (audience_id, status, lead_id);
CREATE INDEX subscriptions_client ON subscriptions (client_id) WHERE client_id IS NOT NULL;

CREATE TABLE topics (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    slug {key} NOT NULL CHECK (length(slug) BETWEEN 1 AND 64),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    description TEXT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, slug)
);

CREATE TABLE topic_preferences (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    lead_id BIGINT NOT NULL,
    topic_id BIGINT NOT NULL,
    status {key} NOT NULL CHECK (status IN ('on', 'off')),
    reason TEXT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (lead_id, topic_id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id),
    FOREIGN KEY (workspace_id, topic_id) REFERENCES topics (workspace_id, id)
);
CREATE INDEX topic_preferences_topic ON topic_preferences (topic_id, status, lead_id);

-- One message to many. The snapshot goes through the leads by id; `snapshot_lead_id` is how far it came, so a
-- snapshot that was interrupted goes on. How many were sent and opened is counted from the recipients. Without an
-- audience `filter` says who is meant: by tags, by attributes or one by one.
CREATE TABLE campaigns (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    client_id BIGINT NOT NULL,
    audience_id BIGINT,
    topic_id BIGINT,
    external_key {key} CHECK (length(external_key) BETWEEN 1 AND 255),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    template_key {key},
    template_version BIGINT CHECK (template_version > 0),
    from_email TEXT,
    from_name TEXT,
    reply_to TEXT,
    subject TEXT,
    preview_text TEXT,
    html_body TEXT,
    text_body TEXT,
    filter {json} NOT NULL DEFAULT '{}',
    metadata {json} NOT NULL DEFAULT '{}',
    status {key} NOT NULL DEFAULT 'draft' CHECK (
        status IN (
            'draft', 'scheduled', 'snapshotting', 'sending', 'paused', 'sent', 'cancelled', 'failed'
        )
    ),
    pause_reason TEXT,
    last_error TEXT,
    snapshot_lead_id BIGINT NOT NULL DEFAULT 0 CHECK (snapshot_lead_id >= 0),
    recipient_count BIGINT NOT NULL DEFAULT 0 CHECK (recipient_count >= 0),
    scheduled_at BIGINT,
    started_at BIGINT,
    sent_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK (status <> 'scheduled' OR scheduled_at IS NOT NULL),
    CHECK (status <> 'sent' OR sent_at IS NOT NULL),
    UNIQUE (workspace_id, id),
    UNIQUE (client_id, external_key),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id),
    FOREIGN KEY (workspace_id, audience_id) REFERENCES audiences (workspace_id, id),
    FOREIGN KEY (workspace_id, topic_id) REFERENCES topics (workspace_id, id)
);
CREATE INDEX campaigns_due ON campaigns (scheduled_at) WHERE status = 'scheduled';

-- The ledger. A claim is a lease: the node `claimed_by` sends it before `claimed_until`, or the outcome is uncertain.
-- Only what is still to be sent must have an address: who has none is skipped, and erasure clears it.
CREATE TABLE campaign_recipients (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    campaign_id BIGINT NOT NULL,
    lead_id BIGINT NOT NULL,
    email TEXT CHECK (length(email) BETWEEN 1 AND 512),
    status {key} NOT NULL DEFAULT 'pending' CHECK (
        status IN (
            'pending', 'queued', 'claimed', 'sent', 'failed', 'skipped', 'uncertain', 'delivered', 'bounced',
            'complained'
        )
    ),
    skip_reason TEXT,
    last_error TEXT,
    attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    batch_id {key},
    claimed_by {key},
    claimed_until BIGINT,
    ses_message_id {key},
    open_count BIGINT NOT NULL DEFAULT 0 CHECK (open_count >= 0),
    click_count BIGINT NOT NULL DEFAULT 0 CHECK (click_count >= 0),
    sent_at BIGINT,
    delivered_at BIGINT,
    bounced_at BIGINT,
    complained_at BIGINT,
    first_opened_at BIGINT,
    first_clicked_at BIGINT,
    unsubscribed_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK (email IS NOT NULL OR status NOT IN ('pending', 'queued', 'claimed')),
    CHECK (status <> 'claimed' OR (claimed_by IS NOT NULL AND claimed_until IS NOT NULL)),
    CHECK (status <> 'skipped' OR skip_reason IS NOT NULL),
    CHECK (status <> 'sent' OR sent_at IS NOT NULL),
    UNIQUE (workspace_id, id),
    UNIQUE (campaign_id, lead_id),
    FOREIGN KEY (workspace_id, campaign_id) REFERENCES campaigns (workspace_id, id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id)
);
CREATE INDEX campaign_recipients_status ON campaign_recipients (campaign_id, status, id);
CREATE INDEX campaign_recipients_lead ON campaign_recipients (lead_id, id);
CREATE INDEX campaign_recipients_message ON campaign_recipients (ses_message_id)
    WHERE ses_message_id IS NOT NULL;
CREATE INDEX campaign_recipients_lease ON campaign_recipients (claimed_until) WHERE status = 'claimed';

-- The same for one person. A message with `scheduled_at` waits until then, and can be cancelled while it is queued.
CREATE TABLE transactional_messages (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    client_id BIGINT NOT NULL,
    lead_id BIGINT NOT NULL,
    topic_id BIGINT,
    idempotency_key {key} NOT NULL CHECK (length(idempotency_key) BETWEEN 1 AND 255),
    email TEXT CHECK (length(email) BETWEEN 1 AND 512),
    template_key {key},
    template_version BIGINT CHECK (template_version > 0),
    from_email TEXT,
    from_name TEXT,
    subject TEXT,
    html_body TEXT,
    text_body TEXT,
    context {json} NOT NULL DEFAULT '{}',
    envelope {json} NOT NULL DEFAULT '{}',
    metadata {json} NOT NULL DEFAULT '{}',
    status {key} NOT NULL DEFAULT 'queued' CHECK (
        status IN (
            'queued', 'claimed', 'sent', 'failed', 'skipped', 'cancelled', 'uncertain', 'delivered', 'bounced',
            'complained'
        )
    ),
    skip_reason TEXT,
    last_error TEXT,
    attempts BIGINT NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    claimed_by {key},
    claimed_until BIGINT,
    ses_message_id {key},
    open_count BIGINT NOT NULL DEFAULT 0 CHECK (open_count >= 0),
    click_count BIGINT NOT NULL DEFAULT 0 CHECK (click_count >= 0),
    scheduled_at BIGINT,
    sent_at BIGINT,
    delivered_at BIGINT,
    bounced_at BIGINT,
    complained_at BIGINT,
    first_opened_at BIGINT,
    first_clicked_at BIGINT,
    unsubscribed_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    CHECK (email IS NOT NULL OR status NOT IN ('queued', 'claimed')),
    CHECK (status <> 'claimed' OR (claimed_by IS NOT NULL AND claimed_until IS NOT NULL)),
    CHECK (status <> 'skipped' OR skip_reason IS NOT NULL),
    CHECK (status <> 'sent' OR sent_at IS NOT NULL),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, client_id, idempotency_key),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id),
    FOREIGN KEY (workspace_id, topic_id) REFERENCES topics (workspace_id, id)
);
CREATE INDEX transactional_messages_list ON transactional_messages (client_id, id);
CREATE INDEX transactional_messages_lead ON transactional_messages (lead_id, id);
CREATE INDEX transactional_messages_message ON transactional_messages (ses_message_id)
    WHERE ses_message_id IS NOT NULL;
CREATE INDEX transactional_messages_lease ON transactional_messages (claimed_until) WHERE status = 'claimed';

-- People who work with the console, and what anybody did. Nothing ever changes or deletes a row of the log.
CREATE TABLE console_users (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    email {key} NOT NULL CHECK (length(email) BETWEEN 1 AND 254),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    role {key} NOT NULL CHECK (role IN ('owner', 'operator', 'viewer')),
    password_hash TEXT,
    disabled_at BIGINT,
    last_login_at BIGINT,
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, email)
);

CREATE TABLE audit_log (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    actor {key} NOT NULL CHECK (length(actor) BETWEEN 1 AND 200),
    action {key} NOT NULL CHECK (length(action) BETWEEN 1 AND 100),
    target_type {key} NOT NULL CHECK (length(target_type) BETWEEN 1 AND 100),
    target_id {key} NOT NULL CHECK (length(target_id) BETWEEN 1 AND 255),
    state_before {json},
    state_after {json},
    happened_at BIGINT NOT NULL CHECK (happened_at >= 0)
);
CREATE INDEX audit_log_list ON audit_log (workspace_id, id);
CREATE INDEX audit_log_target ON audit_log (workspace_id, target_type, target_id, id);
