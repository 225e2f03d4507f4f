//! Checks of metric entries.

use lmeval_core::OutputType;
use lmeval_scoring::registry::{Code, MetricEntry, replacements_for_evaluate};

use super::Checker;
use crate::config::metric::{Given, MetricConfig};
use crate::config::path::Named;
use crate::config::words::{listed, shortened};
use crate::error::{Error, ErrorKind};
use crate::scoring::{asks_for_evaluate, has_own_scorer};

impl Checker<'_> {
    pub(super) fn metric(&mut self, metric: &MetricConfig) {
        self.aggregation(metric);
        self.reduction(metric);
        let Named::Name(name) = &metric.metric else { return };
        let path = metric.path.then("metric");
        if name.is_empty() || name.contains(',') {
            let message = format!("`{path}`: the name of a metric must not be empty or contain a comma");
            return self.error(&path, Error::new(ErrorKind::Value, message));
        }
        if self.config.scores_itself() {
            return;
        }
        let from_evaluate = asks_for_evaluate(metric);
        let is_known = !from_evaluate && self.registry.metrics.get(name).is_some();
        if !is_known && self.registry.needs_evaluate(name, self.config.output_type, from_evaluate) {
            return self.evaluate(metric, name);
        }
        match self.registry.metrics.find(name) {
            Ok(entry) if matches!(entry.code, Code::TaskCode) => {
                let message =
                    format!("`{path}`: the values of the metric `{name}` come from `process_results`");
                self.error(&path, Error::new(ErrorKind::Value, message));
            }
            Ok(entry) => {
                let entry = entry.clone();
                self.output_type(metric, &entry);
                let mut kwargs = metric.kwargs.clone();
                // The switch only says where the metric comes from.
                kwargs.remove_str("hf_evaluate");
                let subject = format!("The metric `{name}`");
                self.options(&subject, &metric.path, &entry.options, &kwargs);
            }
            // The scorer may report values under any name.
            Err(_) if has_own_scorer(self.config, self.registry) => {}
            Err(unknown) if self.may_be_registered(&path, &unknown) => {}
            Err(_) => {
                let message = format!("`{path}`: `{}` is not a known metric", shortened(name));
                let error = Error::new(ErrorKind::UnknownName, message)
                    .did_you_mean(&self.registry.metrics_like(name, self.config.output_type))
                    .hint("A custom metric name needs a `process_results` function that computes it");
                self.error(&path, error);
            }
        }
    }

    fn evaluate(&mut self, metric: &MetricConfig, name: &str) {
        let path = metric.path.then("metric");
        let message = format!("`{path}`: the metric `{}` needs Python's `evaluate` package", shortened(name));
        self.warn(&path, message);
        let instead = replacements_for_evaluate(name);
        if let (Some(last), false) = (self.report.warnings.last_mut(), instead.is_empty()) {
            last.hints.push(format!("Built in, without Python: {}", listed(instead)));
        }
    }

    fn output_type(&mut self, metric: &MetricConfig, entry: &MetricEntry) {
        let output_type = self.config.output_type;
        let name = &entry.name;
        let aggregated_by_task = matches!(metric.aggregation, Given::Value(Named::Function(_)));
        match output_type {
            _ if entry.fits(output_type) => {}
            // Reference: 0.4.13 scores whether a gold option is the greedy continuation.
            OutputType::MultipleChoice if name == "exact_match" => {}
            // Reference: 0.4.13 passes pairs of target and answer to the task's aggregation.
            OutputType::GenerateUntil if aggregated_by_task => {}
            _ => {
                let path = metric.path.then("metric");
                let fitting: Vec<&str> = self
                    .registry
                    .metrics
                    .iter()
                    .filter(|other| other.fits(output_type))
                    .map(|other| &*other.name)
                    .collect();
                let types: Vec<&str> = entry.output_types.iter().map(|kind| kind.name()).collect();
                let message = format!(
                    "`{path}`: the metric `{name}` is for {}, but the task's output type is {output_type}",
                    types.join(" and ")
                );
                let mut error = Error::new(ErrorKind::Value, message)
                    .hint(format!("Metrics for {output_type}: {}", listed(&fitting)));
                if let Some(format) = &self.config.format {
                    error = error.hint(format!("The output type comes from the format `{format}`"));
                }
                self.error(&path, error);
            }
        }
    }

    fn aggregation(&mut self, metric: &MetricConfig) {
        let path = metric.path.then("aggregation");
        if let Given::Value(Named::Name(name)) = &metric.aggregation
            && let Err(unknown) = self.registry.aggregations.find(name)
        {
            self.unknown(ErrorKind::Value, &path, &unknown);
        }
    }

    fn reduction(&mut self, metric: &MetricConfig) {
        if let Given::Value(Named::Name(name)) = &metric.reduction
            && let Err(unknown) = self.registry.reductions.find(name)
        {
            self.unknown(ErrorKind::Value, &metric.path.then("reduction"), &unknown);
        }
    }
}
