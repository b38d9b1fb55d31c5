//! Eligibility
