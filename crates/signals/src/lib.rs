//! What comes back: tracking, provider events, counters, replies, outgoing webhooks.
