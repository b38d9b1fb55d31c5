-- A message that is a reminder of an overdue invoice: which draft it was made from. What becomes of the message is told to it.
ALTER TABLE transactional_messages ADD COLUMN reminder {key} CHECK (length(reminder) BETWEEN 1 AND 80);
