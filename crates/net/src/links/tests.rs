//! Behaviour of a network, by what it makes of frames: no root, no sleep, and time is what the test says.

mod background;
mod clocks;
mod cuts;
mod impairments;
mod lans;
mod pipes;
mod routes;
mod series;
mod shapes;
