//! How suppressions behave, on every SQL engine.
