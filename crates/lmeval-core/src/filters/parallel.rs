//! One function for the answers of each request, on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use lmeval_pycompat::Value;
use rayon::iter::{IndexedParallelIterator, IntoParallelRefMutIterator, ParallelIterator};

use super::error::FilterError;

/// Requests that one task of a thread takes at least; fewer cost more to hand out than to filter.
const BLOCK: usize = 64;

/// Changes the answers of each request in place; gives what the function returns, in the order of the requests.
///
/// The error is that of the first request that fails, whatever finishes first; requests after it may be left out.
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

/// Changes every answer in place; the function says whether it fell back. Gives the number of times for each request.
pub(super) fn count_fallbacks(
    responses: &mut [Vec<Value>],
    change: impl Fn(usize, &mut Value) -> Result<bool, FilterError> + Sync,
) -> Result<Vec<u32>, FilterError> {
    try_each(responses, |request, answers| {
        answers.iter_mut().try_fold(0, |count, answer| Ok(count + u32::from(change(request, answer)?)))
    })
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
    fn the_first_failure_is_reported_and_order_is_kept() {
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
