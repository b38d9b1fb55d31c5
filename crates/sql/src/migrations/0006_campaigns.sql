-- Campaigns: what they send, when and how fast, and how far they are.

-- Counters and the send log know a campaign by its key, so a key means one campaign in a workspace.
CREATE UNIQUE INDEX campaigns_external_key ON campaigns (workspace_id, external_key);
CREATE INDEX campaigns_list ON campaigns (workspace_id, id);

-- Content. Without variants the campaign's own template or subject and bodies are sent. Each variant is an object with
-- its name, weight, template and subject; when the campaign starts, versions are frozen in it. `winner` is the place of
-- the variant that all those get who were not part of the test.
ALTER TABLE campaigns ADD COLUMN variants {json} NOT NULL DEFAULT '[]';
ALTER TABLE campaigns ADD COLUMN test_percent BIGINT CHECK (test_percent BETWEEN 1 AND 99);
ALTER TABLE campaigns ADD COLUMN winner_metric TEXT CHECK (winner_metric IN ('opens', 'clicks'));
ALTER TABLE campaigns ADD COLUMN winner_wait_ms BIGINT CHECK (winner_wait_ms > 0);
ALTER TABLE campaigns ADD COLUMN decide_at BIGINT;
ALTER TABLE campaigns ADD COLUMN winner BIGINT CHECK (winner >= 0);
ALTER TABLE campaigns ADD COLUMN sender_slug TEXT;
-- A fingerprint of what was asked for: the same key with the same request is the same campaign.
ALTER TABLE campaigns ADD COLUMN request_hash TEXT;
ALTER TABLE campaigns ADD COLUMN tracking BIGINT NOT NULL DEFAULT 1 CHECK (tracking IN (0, 1));

-- When. With `local_time` each person gets it when it is that time where he is; `scheduled_at` is then the earliest
-- moment at which it is that time anywhere.
ALTER TABLE campaigns ADD COLUMN local_time TEXT;
ALTER TABLE campaigns ADD COLUMN status_at BIGINT NOT NULL DEFAULT 0 CHECK (status_at >= 0);
-- What a paused campaign goes on with.
ALTER TABLE campaigns ADD COLUMN paused_in TEXT CHECK (paused_in IN ('scheduled', 'snapshotting', 'sending'));
-- Somebody has seen why it was stopped by itself, and let it go on.
ALTER TABLE campaigns ADD COLUMN brake_released_at BIGINT;

-- How fast. `paced_until_us` is when the next message may go, in microseconds: at a high rate several go in one
-- millisecond. `warmup` has the most messages of each day on which something is sent; `warmup_step` is the place in it,
-- `warmup_day` the day since the start that it is for, and `warmup_used` how much of it is used.
ALTER TABLE campaigns ADD COLUMN rate_per_hour BIGINT CHECK (rate_per_hour BETWEEN 1 AND 100000000);
ALTER TABLE campaigns ADD COLUMN warmup {json} NOT NULL DEFAULT '[]';
ALTER TABLE campaigns ADD COLUMN paced_until_us BIGINT;
ALTER TABLE campaigns ADD COLUMN warmup_day BIGINT;
ALTER TABLE campaigns ADD COLUMN warmup_step BIGINT NOT NULL DEFAULT 0;
ALTER TABLE campaigns ADD COLUMN warmup_used BIGINT NOT NULL DEFAULT 0;

-- How far. The cursor is where the walk over the audience goes on; nothing is walked twice.
ALTER TABLE campaigns ADD COLUMN snapshot_cursor TEXT;
ALTER TABLE campaigns ADD COLUMN snapshot_done_at BIGINT;
-- Up to which recipient the failed ones were collected to be sent again, while that goes on.
ALTER TABLE campaigns ADD COLUMN retry_cursor BIGINT;
ALTER TABLE campaigns ADD COLUMN batch_count BIGINT NOT NULL DEFAULT 0 CHECK (batch_count >= 0);

-- Which variant somebody gets (its place in the list), and from when he may get it.
ALTER TABLE campaign_recipients ADD COLUMN arm BIGINT CHECK (arm >= 0);
ALTER TABLE campaign_recipients ADD COLUMN due_at BIGINT;
-- The kind of failure, as one word: what was said is in `last_error`.
ALTER TABLE campaign_recipients ADD COLUMN fail_reason TEXT;
-- Under what a recipient was counted whose outcome can still change.
ALTER TABLE campaign_recipients ADD COLUMN tallied TEXT CHECK (tallied IN ('failed', 'uncertain'));
-- Under which time the send log has it, decided once; and how often the provider said "not now".
ALTER TABLE campaign_recipients ADD COLUMN logged_at BIGINT;
ALTER TABLE campaign_recipients ADD COLUMN refusals BIGINT NOT NULL DEFAULT 0 CHECK (refusals >= 0);
CREATE INDEX campaign_recipients_list ON campaign_recipients (campaign_id, id);
CREATE INDEX campaign_recipients_uncertain ON campaign_recipients (campaign_id, id) WHERE status = 'uncertain';

-- Those who are sent to together. A batch goes to the queue when it is due (`fed_at`), and is done when each of its
-- recipients has his end or was moved to another batch; each goes to the queue once. `held` ones wait until the winner
-- is known.
CREATE TABLE campaign_batches (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    campaign_id BIGINT NOT NULL,
    number BIGINT NOT NULL CHECK (number > 0),
    recipient_ids {json} NOT NULL,
    size BIGINT NOT NULL CHECK (size BETWEEN 0 AND 1000),
    held BIGINT NOT NULL DEFAULT 0 CHECK (held IN (0, 1)),
    due_at BIGINT NOT NULL CHECK (due_at >= 0),
    fed_at BIGINT,
    done_at BIGINT,
    CHECK (done_at IS NULL OR fed_at IS NOT NULL),
    UNIQUE (workspace_id, id),
    UNIQUE (campaign_id, number),
    FOREIGN KEY (workspace_id, campaign_id) REFERENCES campaigns (workspace_id, id)
);
CREATE INDEX campaign_batches_waiting ON campaign_batches (campaign_id, held, due_at, number) WHERE fed_at IS NULL;
CREATE INDEX campaign_batches_under_way ON campaign_batches (campaign_id, number)
    WHERE fed_at IS NOT NULL AND done_at IS NULL;

-- How many: of each outcome, of each reason to skip, by domain, variant and hour. Counted when a batch is done, in the
-- same commit.
CREATE TABLE campaign_tallies (
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    campaign_id BIGINT NOT NULL,
    kind {key} NOT NULL CHECK (kind IN ('outcome', 'skipped', 'failed', 'domain', 'arm', 'hour')),
    name {key} NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
    count BIGINT NOT NULL CHECK (count >= 0),
    PRIMARY KEY (campaign_id, kind, name),
    FOREIGN KEY (workspace_id, campaign_id) REFERENCES campaigns (workspace_id, id)
);

-- Each change of a campaign's status: when, by whom and why.
CREATE TABLE campaign_moves (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    campaign_id BIGINT NOT NULL,
    status {key} NOT NULL,
    reason TEXT,
    actor {key} NOT NULL CHECK (length(actor) BETWEEN 1 AND 200),
    happened_at BIGINT NOT NULL CHECK (happened_at >= 0),
    FOREIGN KEY (workspace_id, campaign_id) REFERENCES campaigns (workspace_id, id)
);
CREATE INDEX campaign_moves_list ON campaign_moves (campaign_id, id);

-- What erased people had unsubscribed from and switched off, under the keyed hash of each of their addresses: an audience,
-- one client's part of it, or a topic. Whoever becomes a contact with such an address gets it back, and the row goes.
CREATE TABLE erased_opt_outs (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    address_hash {key} NOT NULL CHECK (length(address_hash) = 64),
    audience_id BIGINT,
    client_id BIGINT,
    topic_id BIGINT,
    left_at BIGINT NOT NULL CHECK (left_at >= 0),
    CHECK ((audience_id IS NULL) <> (topic_id IS NULL)),
    CHECK (client_id IS NULL OR audience_id IS NOT NULL),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, audience_id) REFERENCES audiences (workspace_id, id),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id),
    FOREIGN KEY (workspace_id, topic_id) REFERENCES topics (workspace_id, id)
);
CREATE UNIQUE INDEX erased_opt_outs_once ON erased_opt_outs (
    workspace_id, address_hash, coalesce(audience_id, 0), coalesce(client_id, 0), coalesce(topic_id, 0)
);

-- Whom a message names besides the person that it is for: those who get a copy, the one to answer, and addresses in its
-- headers and its idempotency key. An erasure finds them by it without looking through all messages.
CREATE TABLE message_addresses (
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    email {key} NOT NULL CHECK (length(email) BETWEEN 1 AND 512),
    message_id BIGINT NOT NULL,
    PRIMARY KEY (workspace_id, email, message_id),
    FOREIGN KEY (workspace_id, message_id) REFERENCES transactional_messages (workspace_id, id)
);
CREATE INDEX message_addresses_message ON message_addresses (message_id);

-- Whom something happened to is found without looking at everybody.
CREATE INDEX campaign_recipients_opened ON campaign_recipients (campaign_id, id) WHERE first_opened_at IS NOT NULL;
CREATE INDEX campaign_recipients_clicked ON campaign_recipients (campaign_id, id) WHERE first_clicked_at IS NOT NULL;
CREATE INDEX campaign_recipients_bounced ON campaign_recipients (campaign_id, id) WHERE bounced_at IS NOT NULL;
CREATE INDEX campaign_recipients_complained ON campaign_recipients (campaign_id, id) WHERE complained_at IS NOT NULL;
CREATE INDEX campaign_recipients_left ON campaign_recipients (campaign_id, id) WHERE unsubscribed_at IS NOT NULL;
