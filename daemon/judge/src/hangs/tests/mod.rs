//! Scenes in which each kind has to be found, and healthy ones that look like them.

mod born;
mod build;
mod clocks;
mod comes_not;
mod crash;
mod dead;
mod ends;
mod files;
mod kernel;
mod nested;
mod order;
mod other_calls;
mod scale;
mod stands_still;
