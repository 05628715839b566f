//! Programs that are counted, beside what other tools say of them.

mod plain;
