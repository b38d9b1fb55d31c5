//! Audience: whom a campaign means.
