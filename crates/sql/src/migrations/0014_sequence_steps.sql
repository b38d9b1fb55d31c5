-- Of which step of a sequence a message is, as the sequence has it: the version, and what the step is called there.
ALTER TABLE transactional_messages ADD COLUMN sequence_step {key} CHECK (length(sequence_step) BETWEEN 1 AND 1000);
