//! What a condition says, whom a walk meets, and what a preview counts.
