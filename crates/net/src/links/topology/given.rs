//! Routes that the user gives: they take the place of the shortest one, between two nodes and in one direction.

use std::collections::{BTreeMap, HashMap};

use crate::Error;
use crate::links::ids::{Edges, PipeId, Vertex};
use crate::links::spec::{NetworkSpec, RouteSpec};

#[derive(Debug, Default)]
pub(crate) struct Given {
    /// By last and first node.
    paths: BTreeMap<(Vertex, Vertex), Vec<PipeId>>,
    /// By place, first and last node: the pipe that goes on.
    steps: HashMap<(Vertex, Vertex, Vertex), PipeId>,
}

impl Given {
    /// Fails if a route is none: an unknown name, links that do not join, a place that is passed twice, or a second
    /// route between the same two.
    ///
    /// A route that passes no place twice ends, wherever on it a frame gets onto it; and all other routes run along
    /// shortest paths until they meet it. So no frame can go round for ever.
    pub fn new(spec: &NetworkSpec, vertices: &HashMap<&str, Vertex>, edges: &Edges) -> Result<Given, Error> {
        let links: HashMap<&str, usize> = match spec.routes.is_empty() {
            true => HashMap::new(),
            false => spec.links.iter().enumerate().map(|(i, l)| (l.name.as_str(), i)).collect(),
        };
        let mut given = Given::default();
        for route in &spec.routes {
            let node = |name: &str| match vertices.get(name) {
                Some(v) if *v < spec.nodes.len() => Ok(*v),
                _ => Err(wrong(route, format!("there is no node called `{name}`"))),
            };
            let (from, to) = (node(&route.from)?, node(&route.to)?);
            let mut passed = vec![from];
            let mut path = Vec::new();
            for name in &route.links {
                let Some(&link) = links.get(name.as_str()) else {
                    return Err(wrong(route, format!("there is no link called `{name}`")));
                };
                let at = passed[passed.len() - 1];
                let Some((pipe, next)) = edges[at].iter().find(|(pipe, _)| pipe.index() / 2 == link) else {
                    return Err(wrong(route, format!("the link `{name}` does not begin where the one before it ends")));
                };
                if passed.contains(next) {
                    return Err(wrong(route, format!("by the link `{name}` it comes to a place that it has passed")));
                }
                path.push(*pipe);
                passed.push(*next);
            }
            if passed[passed.len() - 1] != to || path.is_empty() {
                return Err(wrong(route, "its links do not lead there".into()));
            }
            for (at, pipe) in passed.iter().zip(&path) {
                given.steps.insert((*at, from, to), *pipe);
            }
            if given.paths.insert((to, from), path).is_some() {
                return Err(wrong(route, "there is another route between the same two".into()));
            }
        }
        Ok(given)
    }

    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    /// The pipe by which a frame from one node to another goes on from `at`, if it is on the route given for the two.
    pub fn next(&self, at: Vertex, from: Vertex, to: Vertex) -> Option<PipeId> {
        self.steps.get(&(at, from, to)).copied()
    }

    /// The route given from one node to another.
    pub fn path(&self, from: Vertex, to: Vertex) -> Option<&[PipeId]> {
        self.paths.get(&(to, from)).map(Vec::as_slice)
    }

    /// All given routes, as first node, last node and pipes.
    pub fn paths(&self) -> impl Iterator<Item = (Vertex, Vertex, &[PipeId])> {
        self.paths.iter().map(|((to, from), path)| (*from, *to, path.as_slice()))
    }

    /// The given routes to a node, as first node and pipes.
    pub fn paths_to(&self, to: Vertex) -> impl Iterator<Item = (Vertex, &[PipeId])> {
        self.paths.range((to, 0)..(to + 1, 0)).map(|((_, from), path)| (*from, path.as_slice()))
    }
}

fn wrong(route: &RouteSpec, what: String) -> Error {
    Error::Input(format!("the route from `{}` to `{}`: {what}", route.from, route.to))
}
