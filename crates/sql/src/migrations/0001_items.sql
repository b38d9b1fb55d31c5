-- Items: one SQL table for each table of the item model. `item` is the whole item as plain JSON; the
-- other columns are copies of what is searched by. A partition key longer than 1,024 bytes is stored shortened.

CREATE TABLE items_main (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
CREATE INDEX items_main_expiry ON items_main (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE items_events (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    index1_pk {key},
    index1_sk {key},
    index2_pk {key},
    index2_sk {key},
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
CREATE INDEX items_events_expiry ON items_events (expires_at) WHERE expires_at IS NOT NULL;
CREATE INDEX items_events_index1 ON items_events (workspace, index1_pk, index1_sk)
    WHERE index1_pk IS NOT NULL;
CREATE INDEX items_events_index2 ON items_events (workspace, index2_pk, index2_sk)
    WHERE index2_pk IS NOT NULL;

CREATE TABLE items_email_tracking (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    index1_pk {key},
    index1_sk {key},
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
CREATE INDEX items_email_tracking_expiry ON items_email_tracking (expires_at)
    WHERE expires_at IS NOT NULL;
CREATE INDEX items_email_tracking_index1 ON items_email_tracking (workspace, index1_pk, index1_sk)
    WHERE index1_pk IS NOT NULL;

CREATE TABLE items_inbox (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
CREATE INDEX items_inbox_expiry ON items_inbox (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE items_event (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    index1_pk {key},
    index1_sk {key},
    index2_pk {key},
    index2_sk {key},
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
CREATE INDEX items_event_index1 ON items_event (workspace, index1_pk, index1_sk)
    WHERE index1_pk IS NOT NULL;
CREATE INDEX items_event_index2 ON items_event (workspace, index2_pk, index2_sk)
    WHERE index2_pk IS NOT NULL;

CREATE TABLE items_memory (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
CREATE INDEX items_memory_expiry ON items_memory (expires_at) WHERE expires_at IS NOT NULL;

-- It has no sort key: `sk` is empty.
CREATE TABLE items_feature (
    workspace {key} NOT NULL,
    pk {key} NOT NULL,
    sk {key} NOT NULL,
    expires_at BIGINT,
    item {json} NOT NULL,
    PRIMARY KEY (workspace, pk, sk)
);
