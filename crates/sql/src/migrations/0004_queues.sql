-- Queues, the dead letters of each, timers, and when periodic work was last begun. Times are in milliseconds since
-- 1970. An id sorts by the time its message was sent.

CREATE TABLE queue_messages (
    queue {key} NOT NULL,
    id {key} NOT NULL,
    visible_at BIGINT NOT NULL,
    receives BIGINT NOT NULL DEFAULT 0 CHECK (receives >= 0),
    deferrals BIGINT NOT NULL DEFAULT 0 CHECK (deferrals BETWEEN 0 AND receives),
    last_deferred BIGINT NOT NULL DEFAULT 0 CHECK (last_deferred BETWEEN 0 AND receives),
    enqueued_at BIGINT NOT NULL,
    last_error TEXT,
    body TEXT NOT NULL CHECK (body <> ''),
    PRIMARY KEY (queue, id)
);
CREATE INDEX queue_messages_visible ON queue_messages (queue, visible_at, id);

CREATE TABLE dead_letters (
    queue {key} NOT NULL,
    id {key} NOT NULL,
    receives BIGINT NOT NULL CHECK (receives >= 0),
    enqueued_at BIGINT NOT NULL,
    died_at BIGINT NOT NULL,
    reason TEXT NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (queue, id)
);

CREATE TABLE timers (
    workspace {key} NOT NULL,
    timer_key {key} NOT NULL,
    due_at BIGINT NOT NULL,
    queue {key} NOT NULL,
    body TEXT NOT NULL CHECK (body <> ''),
    PRIMARY KEY (workspace, timer_key)
);
CREATE INDEX timers_due ON timers (due_at);

-- What came through when an operator tried the queues.
CREATE TABLE probes (
    run {key} NOT NULL,
    number BIGINT NOT NULL CHECK (number > 0),
    sent_at BIGINT NOT NULL,
    handled_at BIGINT NOT NULL,
    deliveries BIGINT NOT NULL CHECK (deliveries > 0),
    PRIMARY KEY (run, number)
);

CREATE TABLE schedules (
    name {key} NOT NULL PRIMARY KEY,
    begun_for BIGINT NOT NULL
);
