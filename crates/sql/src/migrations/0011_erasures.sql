-- What products called somebody who is being erased: his inboxes are found by it. Like his addresses it goes when it is done.
ALTER TABLE erasures ADD COLUMN user_ids {json};
