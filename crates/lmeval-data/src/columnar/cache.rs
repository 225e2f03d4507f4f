//! An LRU cache of decoded blocks, shared by all open files.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

use arrow_array::RecordBatch;

/// The cache size in bytes. The most recently used block stays even if it is larger.
const BUDGET: usize = 256 << 20;

/// The cache size in bytes after a block with images or sounds, which are read in order: once when requests are built, and once
/// when they are sent.
const MEDIA_BUDGET: usize = 64 << 20;

static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
static NEXT_FILE: AtomicU64 = AtomicU64::new(0);

/// The cached blocks of one file; removed when the file is closed.
#[derive(Debug)]
pub(super) struct FileBlocks {
    file: u64,
    budget: usize,
}

#[derive(Default)]
struct Cache {
    blocks: HashMap<(u64, usize), CachedBlock>,
    size: usize,
    clock: u64,
}

struct CachedBlock {
    batch: RecordBatch,
    size: usize,
    used: u64,
}

fn cache() -> MutexGuard<'static, Cache> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

impl FileBlocks {
    pub(super) fn new(has_media: bool) -> Self {
        let budget = if has_media { MEDIA_BUDGET } else { BUDGET };
        Self { file: NEXT_FILE.fetch_add(1, Ordering::Relaxed), budget }
    }

    /// A cached block.
    pub(super) fn get(&self, block: usize) -> Option<RecordBatch> {
        let mut cache = cache();
        cache.clock += 1;
        let clock = cache.clock;
        let kept = cache.blocks.get_mut(&(self.file, block))?;
        kept.used = clock;
        Some(kept.batch.clone())
    }

    /// Caches a block and evicts the least recently used ones.
    pub(super) fn put(&self, block: usize, batch: RecordBatch) {
        let mut cache = cache();
        cache.clock += 1;
        let (size, used) = (batch.get_array_memory_size(), cache.clock);
        if let Some(old) = cache.blocks.insert((self.file, block), CachedBlock { batch, size, used }) {
            cache.size -= old.size;
        }
        cache.size += size;
        while cache.size > self.budget && cache.blocks.len() > 1 {
            let oldest = cache.blocks.iter().min_by_key(|(_, kept)| kept.used).map(|(key, _)| *key);
            if let Some(kept) = oldest.and_then(|key| cache.blocks.remove(&key)) {
                cache.size -= kept.size;
            }
        }
    }
}

impl Drop for FileBlocks {
    fn drop(&mut self) {
        let mut cache = cache();
        let mut freed = 0;
        cache.blocks.retain(|(file, _), kept| {
            let stays = *file != self.file;
            freed += if stays { 0 } else { kept.size };
            stays
        });
        cache.size -= freed;
    }
}
