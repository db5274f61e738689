#!/usr/bin/env bash
# Shows that the models bite: seeds each fault of `faults/` into a copy of the checkout and expects
# the model named in the patch to fail.
#
#   loom-tests/faults.sh                 all faults
#   loom-tests/faults.sh --fast          those marked "Fast: yes"
#   loom-tests/faults.sh NAME...         those whose file name contains a NAME
#
# First the named models must pass without any fault. A fault is caught if its model then fails: by
# an assertion, a race, or a deadlock. It is not caught if the model passes or takes more than
# FAULTS_LIMIT seconds (default 300), nor if the patch doesn't apply or doesn't compile.
#
# The copy, the build and the logs are kept in target/faults, so that a second run builds less.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
target=$root/target/faults
tree=$target/tree
logs=$target/logs
limit=${FAULTS_LIMIT:-300}

# What would change the build or the bounds of the models.
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CARGO_BUILD_RUSTFLAGS CARGO_TARGET_DIR
unset LOOM_MAX_DURATION LOOM_MAX_PERMUTATIONS LOOM_CHECKPOINT_FILE LOOM_LOG
export RUST_BACKTRACE=0

die() {
    echo "faults.sh: $*" >&2
    exit 1
}

# The value of a patch's header line.
header() { # FIELD PATCH
    sed -n "/^--- /q; s/^$1: //p" "$2"
}

# All files of the checkout, committed or not. Their times are those of the copying, so that cargo
# never takes what an earlier run built from a patched file for up to date.
copy_checkout() {
    rm -rf "$tree"
    mkdir -p "$tree" "$logs"
    git -C "$root" ls-files --cached --others --exclude-standard -z |
        while IFS= read -r -d '' file; do
            if [[ -e $root/$file ]]; then printf '%s\0' "$file"; fi
        done |
        tar -C "$root" --create --null --files-from=- |
        tar -C "$tree" --extract --touch
}

# The same as `cargo loom`, but for the target directory.
build() { # BINARY
    (cd "$tree" && cargo test --package loom-tests --release --target-dir "$target" \
        --config "build.rustflags=['--cfg', 'loom']" --test "$1" --no-run)
}

run() { # BINARY TEST...
    local binary=$1
    shift
    (cd "$tree" && timeout --kill-after=5 "$limit" \
        cargo test --package loom-tests --release --target-dir "$target" \
        --config "build.rustflags=['--cfg', 'loom']" --test "$binary" -- \
        --exact --nocapture --test-threads 1 "$@")
}

# `git apply` as outside of any repository: inside one it would skip the copy, which is ignored.
apply() { # PATCH [OPTION...]
    (cd "$tree" && GIT_CEILING_DIRECTORIES=$target git apply -p1 "${@:2}" "$1")
}

# How a model failed, in a word or two.
how() { # LOG
    if grep -q 'deadlock; threads' "$1"; then
        echo "deadlock"
    elif grep -q 'Causality violation' "$1"; then
        echo "race"
    elif grep -q 'maximum number of branches' "$1"; then
        echo "livelock"
    elif grep -q 'never saw' "$1"; then
        echo "outcome missing"
    elif grep -q 'panicked at' "$1"; then
        echo "assertion"
    else
        echo "crash"
    fi
}

fast=false
names=()
for argument in "$@"; do
    case $argument in
    --fast) fast=true ;;
    -*) die "unknown option $argument" ;;
    *) names+=("$argument") ;;
    esac
done

patches=()
for patch in "$root"/loom-tests/faults/*.patch; do
    if $fast && [[ $(header Fast "$patch") != yes ]]; then continue; fi
    if ((${#names[@]} > 0)); then
        wanted=false
        for name in "${names[@]}"; do
            if [[ ${patch##*/} == *"$name"* ]]; then wanted=true; fi
        done
        if ! $wanted; then continue; fi
    fi
    [[ -n $(header Fault "$patch") ]] || die "$patch has no line \"Fault: ...\""
    read -r binary test < <(header Model "$patch")
    [[ -n ${test:-} ]] || die "$patch has no line \"Model: BINARY TEST\""
    number=${patch##*/}
    row="| ${number%%-*} | $(header Fault "$patch") | \`$binary\`: \`$test\` |"
    grep -qxF "$row" "$root/loom-tests/README.md" || die "the README lacks the row: $row"
    patches+=("$patch")
done
((${#patches[@]} > 0)) || die "no such fault"

mkdir -p "$target"
exec 9>"$target/lock"
if command -v flock >/dev/null; then flock 9; fi
copy_checkout

passed=0
failed=0
declare -A models=()
for patch in "${patches[@]}"; do
    read -r binary test < <(header Model "$patch")
    if [[ " ${models[$binary]:-} " != *" $test "* ]]; then models[$binary]+="$test "; fi
done
for binary in "${!models[@]}"; do
    read -ra tests <<<"${models[$binary]}"
    log=$logs/unpatched-$binary.log
    if ! build "$binary" >"$log" 2>&1 || ! run "$binary" "${tests[@]}" >"$log" 2>&1 ||
        ! grep -q "test result: ok. ${#tests[@]} passed" "$log"; then
        tail -n 30 "$log" >&2
        die "without a fault, the models of $binary must pass: ${tests[*]}"
    fi
    echo "without a fault: $binary passes ${#tests[@]} model(s)"
done

for patch in "${patches[@]}"; do
    name=${patch##*/}
    name=${name%.patch}
    log=$logs/$name.log
    read -r binary test < <(header Model "$patch")
    if ! apply "$patch" >"$log" 2>&1; then
        verdict="DOES NOT APPLY"
    elif ! build "$binary" >"$log" 2>&1; then
        verdict="DOES NOT BUILD"
    else
        start=$SECONDS
        status=0
        run "$binary" "$test" >"$log" 2>&1 || status=$?
        seconds=$((SECONDS - start))
        case $status in
        0) verdict="SURVIVED $test ($seconds s)" ;;
        124 | 137) verdict="TIMED OUT in $test ($limit s)" ;;
        *) verdict="caught by $test ($(how "$log"), $seconds s)" ;;
        esac
    fi
    echo "$name: $verdict"
    if [[ $verdict == caught* ]]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        sed 's/^/    /' <(tail -n 15 "$log")
    fi
    if [[ $verdict != "DOES NOT APPLY" ]]; then apply "$patch" --reverse; fi
done

echo "$passed passed, $failed failed"
((failed == 0))
