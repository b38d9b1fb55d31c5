-- Whether and to whom replies are passed on, where a workspace says so itself: an address, or `off`.
ALTER TABLE workspace_settings ADD COLUMN forward_replies_to TEXT CHECK (length(forward_replies_to) BETWEEN 3 AND 254);

-- Addresses that were erased, hashed with the secret of the workspace: what is announced of them and not told yet is told
-- without them. Kept for as long as anything can still be on its way.
CREATE TABLE webhook_erasures (
    workspace_id BIGINT NOT NULL REFERENCES workspaces (id),
    address_hash {key} NOT NULL CHECK (length(address_hash) = 64),
    erased_at BIGINT NOT NULL CHECK (erased_at >= 0),
    PRIMARY KEY (workspace_id, address_hash)
);
CREATE INDEX webhook_erasures_old ON webhook_erasures (erased_at);

CREATE INDEX dead_letters_old ON dead_letters (died_at);

-- They named people whom nobody could find to erase.
UPDATE stray_events SET body = '{}' WHERE event_type <> 'reply';
