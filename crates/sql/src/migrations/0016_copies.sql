-- Those to whom the server did not give a copy of a message with it: what became of each, as JSON. A text, because whoever
-- changes it says what it was.
ALTER TABLE transactional_messages ADD COLUMN late_copies TEXT;
-- When the queue gave its message up. If it is put back, the message is sent after all.
ALTER TABLE transactional_messages ADD COLUMN given_up_at BIGINT;
-- When it is tried again after the provider did not take it. A queue need not be able to wait for so long.
ALTER TABLE transactional_messages ADD COLUMN not_before BIGINT;
-- When somebody last looked at what of it is to be sent. What was due after that and is still not sent, nobody has seen.
ALTER TABLE campaigns ADD COLUMN looked_at BIGINT;
UPDATE campaigns SET looked_at = updated_at WHERE status = 'sending';
-- When the message of a batch that is on the queue comes, or comes again. One that does not come for long after that is lost.
ALTER TABLE campaign_batches ADD COLUMN awaited_at BIGINT;
