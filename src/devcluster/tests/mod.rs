//! What the embedded cluster does, seen by a client in the same process.
