-- Segments: saved conditions whose members are kept up as things happen.
CREATE TABLE segments (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    slug {key} NOT NULL CHECK (length(slug) BETWEEN 1 AND 64),
    name TEXT NOT NULL CHECK (length(name) BETWEEN 1 AND 200),
    condition {json} NOT NULL,
    -- Everybody is looked at when the condition is new; from then on whoever changes is.
    state {key} NOT NULL CHECK (state IN ('building', 'live')),
    trigger_on_build BIGINT NOT NULL DEFAULT 0 CHECK (trigger_on_build IN (0, 1)),
    -- How far the walk over everybody is, and the number of its next page.
    build_cursor TEXT,
    build_page BIGINT NOT NULL DEFAULT 1 CHECK (build_page > 0),
    -- How many rows of segment_members there are, changed with them.
    members BIGINT NOT NULL DEFAULT 0 CHECK (members >= 0),
    -- One more with each new condition.
    rev BIGINT NOT NULL DEFAULT 1 CHECK (rev > 0),
    created_at BIGINT NOT NULL CHECK (created_at >= 0),
    updated_at BIGINT NOT NULL CHECK (updated_at >= 0),
    -- Then it is as if there were none; the row stays until its members are gone.
    deleted_at BIGINT CHECK (deleted_at >= 0),
    UNIQUE (workspace_id, id)
);
CREATE UNIQUE INDEX segments_slug ON segments (workspace_id, slug) WHERE deleted_at IS NULL;

CREATE TABLE segment_members (
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    segment_id BIGINT NOT NULL,
    lead_id BIGINT NOT NULL,
    entered_at BIGINT NOT NULL CHECK (entered_at >= 0),
    PRIMARY KEY (segment_id, lead_id),
    FOREIGN KEY (workspace_id, segment_id) REFERENCES segments (workspace_id, id),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id)
);
CREATE INDEX segment_members_lead ON segment_members (lead_id, segment_id);

-- How often somebody was looked at. What was found out is written only if nobody else wrote since it was read, so that
-- the last to write has read the newest.
CREATE TABLE segment_checks (
    lead_id BIGINT PRIMARY KEY,
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    checks BIGINT NOT NULL CHECK (checks > 0),
    FOREIGN KEY (workspace_id, lead_id) REFERENCES leads (workspace_id, id)
);
