-- How fast mail goes to a provider, over all nodes: until when its rate is used up (microseconds), how much of it is left
-- since the provider last said that it was too much (millionths), and when the last of those comes again who were sent away
-- with a message that somebody waits for.
CREATE TABLE provider_pace (
    provider {key} PRIMARY KEY CHECK (length(provider) BETWEEN 1 AND 64),
    used_until_us BIGINT NOT NULL DEFAULT 0 CHECK (used_until_us >= 0),
    level BIGINT NOT NULL DEFAULT 1000000 CHECK (level BETWEEN 0 AND 1000000),
    blow_at BIGINT,
    held_until BIGINT,
    awaited_at BIGINT
);
