//! How contacts behave, on every SQL engine.
