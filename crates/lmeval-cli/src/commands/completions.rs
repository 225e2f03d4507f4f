//! `lm-eval completions`: prints a shell completion script.
//!
//! clap's script completes flags; names of tasks and models are queried from `lm-eval` when needed.

use anyhow::Result;
use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::{Cli, CompletionsArgs};
use crate::commands::Status;
use crate::printer::Printer;

/// Wraps clap's function, which does not know names. Completes only the part after the last comma.
const BASH: &str = r#"
_lm_eval_names() {
    local cur="${COMP_WORDS[COMP_CWORD]}" prev="${COMP_WORDS[COMP_CWORD-1]}" what="" before=""
    case "${prev}" in
        --tasks|-t) what=tasks ;;
        --model|-M) what=models ;;
        -*) ;;
        *)
            case "${COMP_WORDS[1]}" in
                show|preview) [[ "${cur}" == -* ]] || what=tasks ;;
            esac
            ;;
    esac
    if [[ -z "${what}" ]]; then
        _lmeval "$@"
        return
    fi
    if [[ "${what}" == tasks && "${cur}" == *,* ]]; then
        before="${cur%,*},"
        cur="${cur##*,}"
    fi
    COMPREPLY=($(compgen -P "${before}" -W "$("${COMP_WORDS[0]}" ls "${what}" --names 2>/dev/null)" -- "${cur}"))
    if [[ "${what}" == tasks ]]; then
        COMPREPLY+=($(compgen -P "${before}" -f -X '!*.yaml' -- "${cur}"))
    fi
}
complete -F _lm_eval_names -o bashdefault -o default lm-eval
"#;

const ZSH: &str = r#"
_lm_eval_tasks() {
    local -a names
    names=(${(f)"$(_call_program names lm-eval ls tasks --names 2>/dev/null)"})
    compset -P '*,'
    compadd -a names
    _files -g '*.yaml'
}
_lm_eval_models() {
    local -a names
    names=(${(f)"$(_call_program names lm-eval ls models --names 2>/dev/null)"})
    compadd -a names
}
"#;

const FISH: &str = r#"
complete -c lm-eval -n "__fish_seen_subcommand_from run validate" -s t -l tasks -x -a "(__fish_append , (lm-eval ls tasks --names 2>/dev/null))"
complete -c lm-eval -n "__fish_seen_subcommand_from show preview" -a "(lm-eval ls tasks --names 2>/dev/null)"
complete -c lm-eval -n "__fish_seen_subcommand_from run" -s M -l model -x -a "(lm-eval ls models --names 2>/dev/null)"
"#;

pub(crate) fn run(arguments: &CompletionsArgs, printer: &mut Printer) -> Result<Status> {
    // clap_complete 4.6 generates broken bash scripts for command names with hyphens.
    let name = if arguments.shell == Shell::Bash { "lmeval" } else { "lm-eval" };
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), name, &mut script);
    let script = String::from_utf8_lossy(&script);
    printer.result(&match arguments.shell {
        Shell::Bash => format!("{}{BASH}", script.replace("default lmeval", "default lm-eval")),
        Shell::Zsh => with_zsh_names(&script),
        Shell::Fish => format!("{script}{FISH}"),
        _ => script.into_owned(),
    })?;
    Ok(Status::Success)
}

/// Inserts our functions after the first line, which must stay first, and uses them for task and model names.
fn with_zsh_names(script: &str) -> String {
    let (first, rest) = script.split_once('\n').unwrap_or((script, ""));
    let mut text = format!("{first}\n{ZSH}");
    for line in rest.lines() {
        let is_model = line.contains("'--model=[") || line.contains("'-M+[");
        let line = match line {
            line if is_model => line.replace(":NAME:_default", ":NAME:_lm_eval_models"),
            line if line.contains("'*::names --") => line.replace(":_default", ":_lm_eval_tasks"),
            line => line.replace(":TASKS:_default", ":TASKS:_lm_eval_tasks"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}
