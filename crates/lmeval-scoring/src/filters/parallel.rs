//! Parallel processing of answers by request.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use lmeval_pycompat::Value;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};

use super::error::FilterError;

/// The minimum number of requests per parallel job; fewer cost more to schedule than to filter.
const BLOCK: usize = 64;

/// Changes the answers of each request in place; returns the function's results in request order.
///
/// Reports the error of the first failing request, regardless of completion order; later requests may be skipped.
pub(super) fn try_each<T: Send + Default>(
    responses: &mut [Vec<Value>],
    change: impl Fn(usize, &mut Vec<Value>) -> Result<T, FilterError> + Sync,
) -> Result<Vec<T>, FilterError> {
    let failed_at = AtomicUsize::new(usize::MAX);
    let failure: Mutex<Option<(usize, FilterError)>> = Mutex::new(None);
    let results = responses
        .par_iter_mut()
        .with_min_len(BLOCK)
        .enumerate()
        .map(|(request, answers)| {
            if request > failed_at.load(Ordering::Relaxed) {
                return T::default();
            }
            change(request, answers).unwrap_or_else(|error| {
                failed_at.fetch_min(request, Ordering::Relaxed);
                let mut first = failure.lock().unwrap_or_else(PoisonError::into_inner);
                if first.as_ref().is_none_or(|(earlier, _)| request < *earlier) {
                    *first = Some((request, error));
                }
                T::default()
            })
        })
        .collect();
    match failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some((_, error)) => Err(error),
        None => Ok(results),
    }
}

/// Changes every answer in place.
pub(super) fn change_each(
    responses: &mut [Vec<Value>],
    change: impl Fn(usize, &mut Value) -> Result<(), FilterError> + Sync,
) -> Result<(), FilterError> {
    try_each(responses, |request, answers| {
        answers.iter_mut().try_for_each(|answer| change(request, answer))
    })?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_first_failure_and_keeps_order() {
        let mut responses: Vec<Vec<Value>> = (0..10_000).map(|number| vec![Value::Int(number)]).collect();
        let doubled = try_each(&mut responses, |request, _| Ok(request * 2)).unwrap();
        assert!(doubled.iter().enumerate().all(|(request, value)| *value == request * 2));
        let error = try_each(&mut responses, |request, _| -> Result<(), _> {
            let message = request.to_string();
            if request % 1000 == 777 {
                Err(FilterError::Other { filter: "f".into(), message })
            } else {
                Ok(())
            }
        });
        assert_eq!(error.unwrap_err().to_string(), "The filter `f` failed: 777");
    }
}
