//! Prompt tokens that a vLLM server computed, from its `/metrics`.

use std::time::Duration;

use lmeval_core::ModelError;

use super::super::model::ApiModel;
use crate::http::server_path;

const TIMEOUT: Duration = Duration::from_secs(5);

/// The prompt tokens that the servers have computed since they started, for all clients.
fn computed(text: &str) -> Option<u64> {
    let total = |wanted: &str| {
        let values = text.lines().filter_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            let name = name.split('{').next()?;
            (name == wanted).then(|| value.parse::<f64>().ok())?
        });
        values.reduce(|sum, value| sum + value)
    };
    let cached = total("vllm:prefix_cache_hits_total").unwrap_or(0.0);
    Some((total("vllm:prompt_tokens_total")? - cached).max(0.0) as u64)
}

impl ApiModel {
    /// The sum over all addresses; `None` unless each offers it, and for a pool, whose members change.
    async fn computed_so_far(&self) -> Option<u64> {
        if self.parts.client.is_pool() {
            return None;
        }
        let mut sum = 0;
        for member in self.parts.client.members() {
            let mut url = member.url;
            let path = format!("{}/metrics", server_path(url.path()));
            url.set_path(&path);
            let body = self.parts.client.get_in(url.as_str(), TIMEOUT, 1).await.ok()?;
            sum += computed(std::str::from_utf8(&body).ok()?)?;
        }
        Some(sum)
    }

    /// Reads the counters before the first request of a run.
    pub(super) async fn start_metrics(&self) {
        *self.planner.metrics.lock().await = self.computed_so_far().await.map(|now| (now, None));
    }

    /// Reads the counters after the last request of a run.
    pub(in super::super) async fn finish_metrics(&self) -> Result<(), ModelError> {
        let mut metrics = self.planner.metrics.lock().await;
        if let Some((start, end)) = metrics.as_mut() {
            *end = self.computed_so_far().await.map(|now| now.saturating_sub(*start));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_counters() {
        let text = "# HELP vllm:prompt_tokens_total Number of prefill tokens.\n\
                    vllm:prompt_tokens_total{engine=\"0\",model_name=\"m 1\"} 1500.0\n\
                    vllm:prompt_tokens_total{engine=\"1\",model_name=\"m 1\"} 500.0\n\
                    vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 1.2e+03\n";
        assert_eq!(computed(text), Some(800));
        assert_eq!(computed("other 1\n"), None);
    }
}
