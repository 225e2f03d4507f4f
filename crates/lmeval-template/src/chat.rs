//! Chat templates of tokenizers.
