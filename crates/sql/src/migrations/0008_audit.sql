-- The audit log: every change of whatever is managed, each written once and never altered.

-- Some of what an operator does concerns no workspace but the whole installation, so the table is made anew: a column
-- cannot lose its NOT NULL everywhere.
CREATE TABLE audit_log_moved AS SELECT * FROM audit_log;
DROP TABLE audit_log;

-- `entry_id` makes an entry that came through a queue once. What is written in the transaction that it tells of has none.
CREATE TABLE audit_log (
    id {serial} CHECK (id > 0),
    workspace_id BIGINT REFERENCES workspaces (id),
    actor {key} NOT NULL CHECK (length(actor) BETWEEN 1 AND 200),
    action {key} NOT NULL CHECK (length(action) BETWEEN 1 AND 100),
    target_type {key} NOT NULL CHECK (length(target_type) BETWEEN 1 AND 100),
    target_id {key} NOT NULL CHECK (length(target_id) BETWEEN 1 AND 255),
    state_before {json},
    state_after {json},
    happened_at BIGINT NOT NULL CHECK (happened_at >= 0),
    entry_id {key} UNIQUE CHECK (length(entry_id) BETWEEN 1 AND 64)
);
INSERT INTO audit_log (workspace_id, actor, action, target_type, target_id, state_before, state_after, happened_at)
    SELECT workspace_id, actor, action, target_type, target_id, state_before, state_after, happened_at
    FROM audit_log_moved ORDER BY id;
DROP TABLE audit_log_moved;

-- Each is read from the newest back, whatever it is looked for by. The area of an action is what stands before its verb.
CREATE INDEX audit_log_when ON audit_log (workspace_id, happened_at, id);
CREATE INDEX audit_log_target ON audit_log (workspace_id, target_type, target_id, happened_at, id);
CREATE INDEX audit_log_actor ON audit_log (workspace_id, actor, happened_at, id);
CREATE INDEX audit_log_action ON audit_log (workspace_id, action, happened_at, id);
CREATE INDEX audit_log_area
    ON audit_log (workspace_id, rtrim(action, 'abcdefghijklmnopqrstuvwxyz_'), happened_at, id);

{append_only audit_log}
