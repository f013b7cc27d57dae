//! The collective engine.
