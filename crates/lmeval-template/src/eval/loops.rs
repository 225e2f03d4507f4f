//! Loops and the `loop` variable.

use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

use super::{Flow, Frame, Vm};
use crate::arguments::Args;
use crate::ast::For;
use crate::error::Error;
use crate::value::{Iter, LoopState, Object, Val, ValueIterator};

/// Items of a loop that pass its `if`.
#[derive(Debug)]
struct Filtered {
    source: Iter,
    node: Arc<For>,
    frame: Rc<Frame>,
}

impl ValueIterator for Filtered {
    fn next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        let outer = std::mem::replace(&mut vm.frame, self.frame.clone());
        let result = self.find_next(vm);
        vm.frame = outer;
        result
    }
}

impl Filtered {
    fn find_next(&mut self, vm: &mut Vm<'_>) -> Result<Option<Val>, Error> {
        let node = self.node.clone();
        while let Some(item) = self.source.next(vm)? {
            let Some((target, test)) = &node.test else {
                return Ok(Some(item));
            };
            vm.assign(target, item.clone(), false)?;
            let passed = vm.eval(test)?;
            let passed = passed
                .truth()
                .map_err(|error| error.or_at(test.span.start as usize, test.span.end as usize))?;
            if passed {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }
}

impl Vm<'_> {
    pub(super) fn for_loop(&mut self, node: &Arc<For>, out: &mut String) -> Result<Flow, Error> {
        let iterable = self.eval(&node.iterable)?;
        let span = node.iterable.span;
        if node.recursive.is_some() {
            let frame = self.frame.clone();
            return self
                .recursive_loop(node, &frame, &iterable, 0, out)
                .map_err(|error| error.or_at(span.start as usize, span.end as usize));
        }
        self.run_loop(node, &iterable, 0, None, out)
            .map_err(|error| error.or_at(span.start as usize, span.end as usize))
    }

    fn recursive_loop(
        &mut self,
        node: &Arc<For>,
        frame: &Rc<Frame>,
        iterable: &Val,
        depth: usize,
        out: &mut String,
    ) -> Result<Flow, Error> {
        self.deeper()?;
        let size = node.recursive.map_or(0, |function| self.program.variables.frame_size(function));
        let inner = Frame::inside(frame.clone(), size);
        let outer = std::mem::replace(&mut self.frame, inner);
        let result = self.run_loop(node, iterable, depth, Some(frame.clone()), out);
        self.frame = outer;
        self.depth -= 1;
        result
    }

    fn run_loop(
        &mut self,
        node: &Arc<For>,
        iterable: &Val,
        depth: usize,
        around: Option<Rc<Frame>>,
        out: &mut String,
    ) -> Result<Flow, Error> {
        let mut iterator = Iter::over(iterable)?;
        let mut length = match iterable {
            Val::Object(object) => object.length(),
            other => other.length().ok(),
        };
        if node.test.is_some() {
            length = None;
            iterator = Iter::Dynamic(Box::new(Filtered {
                source: iterator,
                node: node.clone(),
                frame: self.frame.clone(),
            }));
        }
        // Reference: `else` runs unless an iteration has reached the end of the body.
        let mut empty = true;
        if let Some(variable) = node.loop_variable {
            let object = Rc::new(Object::Loop(LoopState {
                iterator: RefCell::new(iterator),
                length: Cell::new(length),
                index: Cell::new(0),
                ahead: RefCell::new(None),
                current: RefCell::new(None),
                previous: RefCell::new(None),
                changed: RefCell::new(None),
                depth,
                recursive: around.map(|frame| (node.clone(), frame)),
            }));
            let Object::Loop(state) = &*object else {
                return Ok(Flow::Next);
            };
            while let Some(item) = self.advance_loop(state)? {
                self.write(variable, Val::Object(object.clone()));
                match self.iteration(node, item, out)? {
                    Flow::Next => empty = false,
                    Flow::Continue => {}
                    Flow::Break => break,
                }
            }
            // Breaks a cycle: the loop holds its condition's frame, which holds the loop.
            self.frame.set(self.program.variables.get(variable).slot.index, None);
        } else {
            while let Some(item) = iterator.next(self)? {
                match self.iteration(node, item, out)? {
                    Flow::Next => empty = false,
                    Flow::Continue => {}
                    Flow::Break => break,
                }
            }
        }
        match &node.otherwise {
            Some(otherwise) if empty => self.body(otherwise, out),
            _ => Ok(Flow::Next),
        }
    }

    fn iteration(&mut self, node: &For, item: Val, out: &mut String) -> Result<Flow, Error> {
        self.assign(&node.target, item, false)?;
        self.body(&node.body, out)
    }

    /// Advances a loop to its next item.
    pub(crate) fn advance_loop(&mut self, state: &LoopState) -> Result<Option<Val>, Error> {
        let ahead = state.ahead.borrow_mut().take();
        let item = match ahead {
            Some(item) => Some(item),
            None => self.pull(state)?,
        };
        let Some(item) = item else { return Ok(None) };
        state.index.set(state.index.get() + 1);
        let previous = state.current.replace(Some(item.clone()));
        *state.previous.borrow_mut() = previous;
        Ok(Some(item))
    }

    fn pull(&mut self, state: &LoopState) -> Result<Option<Val>, Error> {
        match state.iterator.try_borrow_mut() {
            Ok(mut iterator) => iterator.next(self),
            Err(_) => Err(Error::value_error("The loop cannot advance while its iterable is running")),
        }
    }

    /// The item after the current one, without advancing.
    fn peek(&mut self, state: &LoopState) -> Result<Option<Val>, Error> {
        if state.ahead.borrow().is_none() {
            let next = self.pull(state)?;
            *state.ahead.borrow_mut() = next;
        }
        Ok(state.ahead.borrow().clone())
    }

    /// The number of items; reads the rest of the iterable if unknown.
    fn loop_length(&mut self, state: &LoopState) -> Result<usize, Error> {
        if let Some(length) = state.length.get() {
            return Ok(length);
        }
        let mut rest = Vec::new();
        while let Some(item) = self.pull(state)? {
            rest.push(item);
        }
        let length = rest.len() + state.index.get() + usize::from(state.ahead.borrow().is_some());
        *state.iterator.borrow_mut() = Iter::Owned(rest.into_iter());
        state.length.set(Some(length));
        Ok(length)
    }

    /// An attribute of `loop`.
    pub(crate) fn loop_property(&mut self, state: &LoopState, name: &str) -> Result<Option<Val>, Error> {
        let index = state.index.get();
        Ok(Some(match name {
            "index" => Val::from_usize(index),
            "index0" => Val::Int(index as i64 - 1),
            "first" => Val::Bool(index == 1),
            "last" => Val::Bool(self.peek(state)?.is_none()),
            "length" => Val::from_usize(self.loop_length(state)?),
            "revindex" => Val::Int(self.loop_length(state)? as i64 - index as i64 + 1),
            "revindex0" => Val::Int(self.loop_length(state)? as i64 - index as i64),
            "depth" => Val::from_usize(state.depth + 1),
            "depth0" => Val::from_usize(state.depth),
            "previtem" => match (index, &*state.previous.borrow()) {
                (2.., Some(item)) => item.clone(),
                _ => self.undefined_message("`loop.previtem` is undefined in the first iteration"),
            },
            "nextitem" => match self.peek(state)? {
                Some(item) => item,
                None => self.undefined_message("`loop.nextitem` is undefined in the last iteration"),
            },
            _ => return Ok(None),
        }))
    }

    /// Renders a recursive loop's body for other items.
    pub(super) fn call_loop(&mut self, state: &LoopState, args: Args) -> Result<Val, Error> {
        let [iterable] = args.bind("loop", ["iterable"], 1)?;
        let Some((node, frame)) = &state.recursive else {
            return Err(Error::type_error("`loop(…)` needs a `{% for … recursive %}` loop"));
        };
        let iterable = iterable.unwrap_or(Val::None);
        let mut text = String::new();
        self.recursive_loop(node, frame, &iterable, state.depth + 1, &mut text)?;
        Ok(self.captured(text))
    }
}
