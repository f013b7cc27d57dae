mod build;
mod comes_not;
mod ends;
mod nested;
mod order;
mod other_calls;
mod speed;
mod stands_still;
