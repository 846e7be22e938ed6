# Completion of hakozuna(1) for bash: commands, options, lanes, and the processes that can be queried.

# Processes that have a thread of the library that answers, or that writes reports.
_hakozuna_processes() {
    local file name
    for file in /proc/[0-9]*/task/[0-9]*/comm; do
        if read -r name 2>/dev/null <"$file" && [[ $name == hakozuna-ask || $name == hakozuna-stats ]]; then
            file=${file#/proc/}
            echo "${file%%/*}"
        fi
    done
}

# Offers the words of $1; a file if $2 is "file", and a program if it is "program", where no word begins like that.
_hakozuna_offer() {
    local current=${COMP_WORDS[COMP_CWORD]}
    mapfile -t COMPREPLY < <(compgen -W "$1" -- "$current")
    if ((${#COMPREPLY[@]} == 0)) && [[ -n ${2-} ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen "$([[ $2 == file ]] && echo -f || echo -c)" -- "$current")
    fi
}

_hakozuna() {
    local commands="run stats top metrics profile leaks names why lanes path" options="-l --lane --watch --profile --help --version" at=1
    COMPREPLY=()
    if [[ ${COMP_WORDS[COMP_CWORD - 1]} == -l || ${COMP_WORDS[COMP_CWORD - 1]} == --lane ]]; then
        _hakozuna_offer "$(hakozuna lanes 2>/dev/null | cut -d ' ' -f 1)"
        return
    fi
    if ((COMP_CWORD > 1)); then
        case ${COMP_WORDS[1]} in
        stats) _hakozuna_offer "$(_hakozuna_processes) --core --json --largest --part --signal --wait --words --help" file ;;
        top) _hakozuna_offer "$(_hakozuna_processes) --interval --json --once --signal --sort --wait --words --help" ;;
        metrics) _hakozuna_offer "$(_hakozuna_processes) --json --label --output --signal --wait --words --help" file ;;
        profile) _hakozuna_offer "$(_hakozuna_processes) list pprof folded leaks threads flow --help" file ;;
        names) _hakozuna_offer "--full-names --help" file ;;
        leaks) _hakozuna_offer "--suppressions --by-size --json --children --full-names --help" program ;;
        path) _hakozuna_offer "-l --lane --help" ;;
        lanes) _hakozuna_offer "--json --help" ;;
        why) _hakozuna_offer "--budget --json --help" program ;;
        esac
        case ${COMP_WORDS[1]} in
        stats | top | metrics | profile | leaks | names | path | lanes | why) return ;;
        run) at=2 commands= ;;
        esac
    fi
    # the first word that is no option is the program, and what follows is the program's
    while ((at < COMP_CWORD)) && [[ ${COMP_WORDS[at]} == -* ]]; do
        [[ ${COMP_WORDS[at]} == -l || ${COMP_WORDS[at]} == --lane ]] && ((at++))
        ((at++))
    done
    if ((at < COMP_CWORD)); then
        if declare -F _command_offset >/dev/null; then
            _command_offset "$at"
        else
            _hakozuna_offer "" file
        fi
    else
        ((COMP_CWORD == 1)) || commands=
        _hakozuna_offer "$commands $options" program
    fi
}

complete -F _hakozuna hakozuna
