#!/usr/bin/env bash
# The service at three times its capacity, with weirpool and without, side by side.
#
#   examples/service/compare.sh [--times X] [--seconds S] [--pin] [-- SERVER OPTIONS]
#
# --pin gives the server all cores but the last, and that one to the load generator. Without it both
# share all cores, and the generator's need for CPU lowers what the server can do.
set -euo pipefail
cd "$(dirname "$0")/../.."

times=3 seconds=10 pin='' port=18080
while (($#)); do
    case $1 in
        --times) times=$2; shift 2 ;;
        --seconds) seconds=$2; shift 2 ;;
        --pin) pin=yes; shift ;;
        --) shift; break ;;
        *) sed -n '2,8s/^# \{0,1\}//p' "$0"; exit 2 ;;
    esac
done
server_options=("$@")

cores=$(nproc)
on_server=() on_load=()
if [[ $pin ]] && ((cores > 1)); then
    on_server=(taskset -c "0-$((cores - 2))")
    on_load=(taskset -c "$((cores - 1))")
fi

cargo build --release --quiet -p weirpool-service
bin=${CARGO_TARGET_DIR:-target}/release
work=$(mktemp -d)
server=''
trap '[[ $server ]] && kill "$server" 2>/dev/null; rm -rf "$work"' EXIT

start() {
    "${on_server[@]}" "$bin/weirpool-service" --port $port "${server_options[@]}" "$@" >"$work/log" &
    server=$!
    until grep -qs listening "$work/log"; do kill -0 "$server"; sleep 0.1; done
}
stop() { kill "$server"; wait "$server" || true; server=''; }
load() { "${on_load[@]}" "$bin/weirpool-load" --server 127.0.0.1:$port "$@"; }

start
capacity=$(load --only-capacity)
load --times "$times" --capacity "$capacity" --seconds "$seconds" --tsv --name weirpool >"$work/with"
stop
start --unprotected
load --times "$times" --capacity "$capacity" --seconds "$seconds" --tsv --name spawn_blocking >"$work/without"
stop

echo
echo "$cores cores, ${pin:+generator on a core of its own, }${seconds} s each, capacity $capacity good/s"
echo
paste "$work/with" <(cut -f 2 "$work/without") |
    awk -F '\t' '{ printf "%-28s %-22s %s\n", $1, $2, $3 }'
