-- Sequences: what they are, version by version, and which events matter to them. Where a person is in one, items say.

-- `slug` is what everybody else knows a sequence by: executions, counters, the send log. What the active version names
-- is here too, so that whoever comes in costs one row.
CREATE TABLE sequences (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    slug {key} NOT NULL CHECK (length(slug) BETWEEN 1 AND 64),
    name TEXT,
    client_id BIGINT NOT NULL,
    audience_id BIGINT,
    topic_id BIGINT,
    transactional BIGINT NOT NULL DEFAULT 0 CHECK (transactional IN (0, 1)),
    active_version BIGINT NOT NULL CHECK (active_version > 0),
    status {key} NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'paused', 'archived')),
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (workspace_id, slug),
    FOREIGN KEY (workspace_id, client_id) REFERENCES clients (workspace_id, id),
    FOREIGN KEY (workspace_id, audience_id) REFERENCES audiences (workspace_id, id),
    FOREIGN KEY (workspace_id, topic_id) REFERENCES topics (workspace_id, id)
);

-- A version never changes: whoever walks through one walks through what it was when he began.
CREATE TABLE sequence_versions (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    sequence_id BIGINT NOT NULL,
    version BIGINT NOT NULL CHECK (version > 0),
    definition {json} NOT NULL,
    hash {key} NOT NULL CHECK (length(hash) = 64),
    created_by {key} NOT NULL CHECK (length(created_by) BETWEEN 1 AND 200),
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    UNIQUE (workspace_id, id),
    UNIQUE (sequence_id, version),
    FOREIGN KEY (workspace_id, sequence_id) REFERENCES sequences (workspace_id, id)
);

-- Which events matter to which sequence, and what for. What is not here is told to nobody.
CREATE TABLE sequence_listens (
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    event_name {key} NOT NULL CHECK (length(event_name) BETWEEN 1 AND 255),
    sequence_id BIGINT NOT NULL,
    role {key} NOT NULL CHECK (role IN ('trigger', 'event', 'exit', 'wait')),
    PRIMARY KEY (workspace_id, event_name, sequence_id, role),
    FOREIGN KEY (workspace_id, sequence_id) REFERENCES sequences (workspace_id, id) ON DELETE CASCADE
);
CREATE INDEX sequence_listens_sequence ON sequence_listens (sequence_id);

-- A message that is part of a sequence: of which (its slug), and of which execution. `kind` is what it is to the person:
-- mail of a sequence that he can unsubscribe from, or mail that he waits for. Then `audience_id` is whose consent counts.
ALTER TABLE transactional_messages ADD COLUMN sequence_id {key} CHECK (length(sequence_id) BETWEEN 1 AND 64);
ALTER TABLE transactional_messages ADD COLUMN execution_id {key} CHECK (length(execution_id) BETWEEN 1 AND 64);
ALTER TABLE transactional_messages ADD COLUMN kind {key} NOT NULL DEFAULT 'transactional'
    CHECK (kind IN ('transactional', 'sequence'));
ALTER TABLE transactional_messages ADD COLUMN audience_id BIGINT REFERENCES audiences (id);
CREATE INDEX transactional_messages_execution ON transactional_messages (workspace_id, execution_id)
    WHERE execution_id IS NOT NULL;
CREATE INDEX transactional_messages_sequence ON transactional_messages (client_id, sequence_id, id)
    WHERE sequence_id IS NOT NULL;
