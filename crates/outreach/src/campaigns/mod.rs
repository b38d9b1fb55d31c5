//! Campaigns: one message to many, exactly once each.
