//! Macros, their calls, and call blocks.

use super::{Generator, MACROS, Macro, Parameter};
use crate::fuzz::expression::expression;
use crate::fuzz::scope::{Kind, Scope};

impl Generator<'_> {
    fn parameters(&mut self, names: &[&'static str]) -> Vec<Parameter> {
        let mut parameters: Vec<Parameter> = Vec::new();
        for name in names {
            if self.dice.percent(45) {
                let kind = self.kind();
                // Parameters with a default come last.
                let must = parameters.last().is_some_and(|last| last.default.is_some());
                let default = (must || self.dice.percent(40)).then(|| self.expression(kind));
                parameters.push(Parameter { name, kind, default });
            }
        }
        parameters
    }

    /// Parameters as written, assigned in the scope of the body.
    fn signature(&mut self, parameters: &[Parameter], inner: &mut Scope) -> String {
        let mut written = Vec::new();
        for Parameter { name, kind, default } in parameters {
            inner.assign(name, *kind);
            written.push(match default {
                Some(default) => format!("{name}={default}"),
                None => (*name).to_owned(),
            });
        }
        if self.scope.wild && self.dice.percent(20) {
            return self.dice.pick(&["a, b=a", "a=b, b=2", "s, n=n", "a, a", "a=1, b"]).to_owned();
        }
        written.join(", ")
    }

    pub(super) fn macro_and_call(&mut self, depth: usize) {
        let name = MACROS[self.macros.len() % MACROS.len()];
        let parameters = self.parameters(&["p", "s", "n", "q"]);
        let mut inner = self.scope.inner();
        inner.in_loop = false;
        inner.in_macro = true;
        inner.caller = self.dice.percent(30).then(|| (0..self.dice.roll(3)).map(|_| Kind::Text).collect());
        let signature = self.signature(&parameters, &mut inner);
        self.tag(&format!("macro {name}({signature})"));
        let takes_more = self.dice.percent(25);
        if takes_more {
            let more = self.dice.pick(&["varargs|join('+')", "varargs|length"]).to_owned();
            self.print(&more);
            self.print("kwargs|string");
        }
        let caller = inner.caller.clone();
        if let Some(kinds) = &caller {
            let arguments: Vec<String> =
                kinds.iter().map(|kind| expression(self.dice, *kind, 1, &inner)).collect();
            self.print(&format!("caller({})", arguments.join(", ")));
        }
        self.body_in(inner, depth);
        self.tag("endmacro");
        self.macros.retain(|known| known.name != name);
        self.macros.push(Macro { name, parameters, takes_more, caller });
        for _ in 0..=self.dice.roll(2) {
            if self.dice.percent(30) {
                self.statement(0);
            }
            match self.macro_call(false) {
                Some((call, _)) => self.print(&call),
                None => self.call_block(0),
            }
        }
    }

    /// A macro call with suitable arguments, and the kinds that the macro passes to `caller`.
    fn macro_call(&mut self, with_caller: bool) -> Option<(String, Vec<Kind>)> {
        let known: Vec<Macro> =
            self.macros.iter().filter(|known| known.caller.is_some() == with_caller).cloned().collect();
        if known.is_empty() {
            return None;
        }
        let Macro { name, parameters, takes_more, caller } = known[self.dice.roll(known.len())].clone();
        let mut arguments: Vec<String> = Vec::new();
        let mut by_name = false;
        for Parameter { name, kind, default } in parameters {
            if default.is_some() && self.dice.percent(40) {
                by_name = true;
                continue;
            }
            by_name |= self.dice.percent(25);
            let value = self.expression(kind);
            arguments.push(if by_name { format!("{name}={value}") } else { value });
        }
        if takes_more && self.dice.percent(50) {
            let more = if by_name { "g=1, **{'h': 2}" } else { "*['v', n], **{'h': 2}" };
            arguments.push(more.to_owned());
        }
        if self.scope.wild && self.dice.percent(30) {
            arguments = vec![self.dice.pick(&["", "1, 2, 3, 4, 5", "b=1", "*l", "1, **d", "*n"]).to_owned()];
        }
        Some((format!("{name}({})", arguments.join(", ")), caller.unwrap_or_default()))
    }

    pub(super) fn call_block(&mut self, depth: usize) {
        let Some((call, kinds)) = self.macro_call(true) else {
            if self.scope.wild {
                self.tag("call s.upper()");
                self.body_in(self.scope.inner(), depth);
                self.tag("endcall");
            }
            return;
        };
        let mut inner = self.scope.inner();
        inner.in_macro = true;
        inner.caller = None;
        let names = [self.name(), "p"];
        let mut parameters: Vec<Parameter> = kinds
            .iter()
            .zip(names)
            .map(|(kind, name)| Parameter { name, kind: *kind, default: None })
            .collect();
        if self.dice.percent(20) {
            let default = Some(self.expression(Kind::Text));
            parameters.push(Parameter { name: "q", kind: Kind::Text, default });
        }
        let signature = self.signature(&parameters, &mut inner);
        let signature = if signature.is_empty() { signature } else { format!("({signature})") };
        self.tag(&format!("call{signature} {call}"));
        self.body_in(inner, depth);
        self.tag("endcall");
    }
}
