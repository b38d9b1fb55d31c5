-- The change stream of the tables that keep one, and how far each consumer has read it.

CREATE TABLE item_changes (
    seq {serial},
    workspace {key} NOT NULL,
    table_name {key} NOT NULL,
    kind {key} NOT NULL CHECK (kind IN ('inserted', 'modified', 'deleted', 'expired')),
    changed_at BIGINT NOT NULL,
    old_item {json},
    new_item {json}
);
CREATE INDEX item_changes_order ON item_changes (workspace, table_name, seq);

CREATE TABLE item_consumers (
    workspace {key} NOT NULL,
    table_name {key} NOT NULL,
    consumer {key} NOT NULL,
    seq BIGINT NOT NULL,
    PRIMARY KEY (workspace, table_name, consumer)
);
