mod differential;
mod generator;
mod hostile;
mod properties;
mod rules;
mod vectors;
mod wording;
