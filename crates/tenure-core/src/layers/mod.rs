//! Backends around backends.

