-- Who is who. When two leads turn out to be one person, what the one who goes had is moved to the one who stays and
-- remembers where it was at home, so that it finds its way back. Without a home it is at home where it is.
ALTER TABLE channel_identities ADD COLUMN home_lead_id BIGINT REFERENCES leads (id);
ALTER TABLE subscriptions ADD COLUMN home_lead_id BIGINT REFERENCES leads (id);
ALTER TABLE topic_preferences ADD COLUMN home_lead_id BIGINT REFERENCES leads (id);

-- What is done when one event names identities of two people. Without a word they are merged.
ALTER TABLE workspace_settings ADD COLUMN shared_identities TEXT CHECK (shared_identities IN ('merge', 'flag'));

-- Each merge, and whether it was undone. `provenance` tells which identities came from whom, and what the merge changed in
-- the consent of the one who stays. It holds numbers and times, and nothing that tells who somebody is.
CREATE TABLE lead_merges (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    winner_id BIGINT NOT NULL,
    loser_id BIGINT NOT NULL CHECK (loser_id <> winner_id),
    cause {key} NOT NULL CHECK (cause IN ('event', 'operator')),
    event_id {key} CHECK (length(event_id) BETWEEN 1 AND 100),
    provenance {json} NOT NULL DEFAULT '{}',
    merged_at BIGINT NOT NULL CHECK (merged_at >= 0),
    -- When the one person took something back that he had taken back already: no row tells it, and it must not be undone.
    said_at BIGINT,
    undone_at BIGINT CHECK (undone_at >= 0),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, winner_id) REFERENCES leads (workspace_id, id),
    FOREIGN KEY (workspace_id, loser_id) REFERENCES leads (workspace_id, id)
);
-- Nobody is merged into two.
CREATE UNIQUE INDEX lead_merges_loser ON lead_merges (loser_id) WHERE undone_at IS NULL;
CREATE INDEX lead_merges_pair ON lead_merges (winner_id, loser_id);
CREATE INDEX lead_merges_list ON lead_merges (workspace_id, id);

-- Two leads who may be one person, which nobody but a person can say.
CREATE TABLE lead_flags (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    first_id BIGINT NOT NULL,
    second_id BIGINT NOT NULL CHECK (second_id > first_id),
    cause {key} NOT NULL CHECK (cause IN ('ids_differ', 'setting', 'taken_apart', 'too_many')),
    event_id {key} CHECK (length(event_id) BETWEEN 1 AND 100),
    flagged_at BIGINT NOT NULL CHECK (flagged_at >= 0),
    resolved_at BIGINT,
    resolution {key} CHECK (resolution IN ('merged', 'dismissed')),
    CHECK ((resolved_at IS NULL) = (resolution IS NULL)),
    UNIQUE (workspace_id, id),
    FOREIGN KEY (workspace_id, first_id) REFERENCES leads (workspace_id, id),
    FOREIGN KEY (workspace_id, second_id) REFERENCES leads (workspace_id, id)
);
CREATE UNIQUE INDEX lead_flags_pair ON lead_flags (first_id, second_id);
CREATE INDEX lead_flags_open ON lead_flags (workspace_id, id) WHERE resolved_at IS NULL;
