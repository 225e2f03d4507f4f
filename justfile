# What contributors do daily. `just` lists it, https://just.systems installs it.

export LM_EVAL_TEST_PYTHON := justfile_directory() / ".testenv/bin/python"
export LM_EVAL_TEST_LIBRARY := `echo "$PWD"/.testenv/lib/python3*/site-packages/lm_eval/tasks`

_default:
    @just --list --unsorted

# Everything that CI checks; installs what tests need.
ci:
    ./scripts/test

# The tests of one crate, perhaps those with a word in their names: `just test lmeval-scoring filters`.
test crate *words:
    cargo test -p {{ crate }} {{ words }}

# The Python tests of one module: `just py test_models`.
py module:
    cd python && "$LM_EVAL_TEST_PYTHON" -m unittest -q tests.{{ module }}

# Develop the viewer on http://127.0.0.1:5173, over invented data or over the server named by LM_EVAL_VIEW.
web:
    ./scripts/viewer install
    cd web && npm run dev

# Formatting and lints of Rust and Python.
lint:
    cargo fmt --all
    cargo clippy --workspace --all-targets --locked -- -D warnings
    cargo clippy -p lmeval -p lmeval-cli --no-default-features --locked -- -D warnings
    "$LM_EVAL_TEST_PYTHON" -m ruff check --fix
    "$LM_EVAL_TEST_PYTHON" -m mypy

# Accept new output of commands in snapshots, after a look at the difference.
snapshots:
    INSTA_UPDATE=always cargo test -p lmeval-cli snapshots
    git diff --stat -- '*.snap'

# Write generated pages, put current output into the others, and redraw pictures.
docs:
    cargo build
    UPDATE_DOCS=1 cargo test -p lmeval-cli documentation
    scripts/check-docs --update
    scripts/pictures
    UPDATE_NAMES=1 cargo test -p lmeval-tasks library_names

# Build the documentation site into target/site.
site:
    scripts/docs

# A fuzz target for a minute: `just fuzz csv`.
fuzz target seconds="60":
    cargo +nightly fuzz run {{ target }} -- -max_total_time={{ seconds }}

# What a newcomer waits for, with a report in target/cargo-timings.
timings:
    cargo build --release --timings
