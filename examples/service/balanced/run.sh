#!/usr/bin/env bash
# Three copies of the service behind HAProxy, one of them slow: what the load score is good for.
#
#   examples/service/balanced/run.sh [--slow FACTOR] [--rate R] [--seconds S]
#
# Needs haproxy (Debian: apt install haproxy). The slow copy sleeps, so that on a small machine it
# takes no CPU from the others. Each copy has one worker. The same load is offered twice: with equal
# weights, and with weights by agent checks.
set -euo pipefail
cd "$(dirname "$0")/../../.."

slow=5 rate=240 seconds=15
while (($#)); do
    case $1 in
        --slow) slow=$2; shift 2 ;;
        --rate) rate=$2; shift 2 ;;
        --seconds) seconds=$2; shift 2 ;;
        *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
command -v haproxy >/dev/null || { echo 'haproxy is not installed' >&2; exit 1; }

cargo build --release --quiet -p weirpool-service
bin=${CARGO_TARGET_DIR:-target}/release
here=examples/service/balanced
work=$(mktemp -d)
pids=()
end() { for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null && wait "$pid" 2>/dev/null || true; done; pids=(); }
trap 'end; rm -rf "$work"' EXIT

start() { # number, further options
    local number=$1; shift
    "$bin/weirpool-service" --port $((18090 + number)) --agent-port $((18190 + number)) --workers 1 \
        "$@" >"$work/log$number" &
    pids+=($!)
    until grep -qs listening "$work/log$number"; do sleep 0.1; done
}

done_by() { # number: passwords and thumbnails done
    curl -s "127.0.0.1:$((18090 + $1))/metrics" |
        awk '/^service_jobs_done_total/ && !/health/ { sum += $2 } END { print sum }'
}

measure() { # name, sed script for the configuration
    start 1; start 2; start 3 --slow "$slow"
    sed -e "$2" "$here/haproxy.cfg" >"$work/haproxy.cfg"
    haproxy -f "$work/haproxy.cfg" -q &
    pids+=($!)
    until curl -s 127.0.0.1:18090/readyz >/dev/null; do sleep 0.1; done
    # Service times and weights settle.
    "$bin/weirpool-load" --server 127.0.0.1:18090 --rate "$rate" --seconds 5 >"$work/settle"
    local before=("$(done_by 1)" "$(done_by 2)" "$(done_by 3)")
    "$bin/weirpool-load" --server 127.0.0.1:18090 --rate "$rate" --seconds "$seconds" --tsv \
        --name "$1" >"$work/table"
    for number in 1 2 3; do
        printf 'done by copy %s%s\t%s\n' $number "$([[ $number == 3 ]] && echo ' (slow)')" \
            $(($(done_by $number) - before[number - 1]))
    done >>"$work/table"
    mv "$work/table" "$work/$1"
    end
}

measure 'equal weights' 's/AGENT[123]//'
measure 'by load' 's/AGENT\([123]\)/agent-check agent-port 1819\1 agent-inter 200ms/'

echo
echo "$(nproc) cores; copy 3 takes $slow times as long; $rate requests a second for $seconds s"
echo
paste "$work/equal weights" <(cut -f 2 "$work/by load") | grep -v memory |
    awk -F '\t' '{ printf "%-28s %-22s %s\n", $1, $2, $3 }'
