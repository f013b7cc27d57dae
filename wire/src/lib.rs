//! The two formats everything meets in.
