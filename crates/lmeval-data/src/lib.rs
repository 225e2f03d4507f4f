//! Data sets: readers, split inference and slicing, and a hub client.
