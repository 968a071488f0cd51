#!/usr/bin/env bash
# Make the machine ready to run Shoal: Java 17+, a virtual environment, the pinned packages.
#
# Safe to run at any time. When nothing has changed it does nothing and needs no network. Two variables
# override its choices: PYTHON (the interpreter) and JAVA_HOME (the Java installation).
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly STAMP=$VENV/set-up-for
readonly JAVA_FILE=$VENV/java-home

say() { echo "setup: $*"; }
fail() { echo "setup: $*" >&2; exit 1; }

# What the environment depends on. The directory counts: scripts in a venv hold absolute paths.
fingerprint() {
    { pwd -P; echo "${PYTHON:-} ${JAVA_HOME:-}"; cat requirements-dev.txt pyproject.toml scripts/setup.sh; } | sha256sum | cut -d ' ' -f 1
}

# Install the first of the named Debian packages that can be installed.
apt_install() {
    command -v apt-get >/dev/null || return 1
    local as_root=() package said
    if [ "$(id -u)" -ne 0 ]; then
        command -v sudo >/dev/null || return 1
        as_root=(sudo)
        [ -t 0 ] || as_root=(sudo -n)
    fi
    as_root+=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
    # A repository that cannot be reached is no reason to stop: the others may have the package.
    "${as_root[@]}" update >/dev/null 2>&1 || true
    for package in "$@"; do
        say "installing $package with apt-get"
        if said=$("${as_root[@]}" install -y --no-install-recommends "$package" 2>&1); then
            return 0
        fi
        say "apt-get could not: $(tail -n 1 <<<"$said")"
    done
    return 1
}

# Spark needs Java 17 or newer with the incubating vector module, which some stripped-down Javas lack.
java_works() {
    local version
    [ -x "$1/bin/java" ] || return 1
    version=$("$1/bin/java" --add-modules=jdk.incubator.vector -version 2>&1) || return 1
    version=$(sed -nE 's/.* version "([0-9]+).*/\1/p' <<<"$version" | head -n 1)
    [ "${version:-0}" -ge 17 ]
}

java_candidates() {
    local java
    if [ -n "${JAVA_HOME:-}" ]; then echo "$JAVA_HOME"; fi
    if java=$(command -v java); then dirname "$(dirname "$(readlink -f "$java")")"; fi
    # Spark 4.3 is tested most on 17 and 21.
    printf '%s\n' /usr/lib/jvm/*17* /usr/lib/jvm/*21* /usr/lib/jvm/*
}

find_java() {
    local home
    while read -r home; do
        if java_works "$home"; then
            echo "$home"
            return 0
        fi
    done < <(java_candidates)
    return 1
}

python_is_recent() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

python_makes_venvs() {
    "$1" -c 'import ensurepip, venv' 2>/dev/null
}

# Print the interpreter to use: the newest tested one that can create a virtual environment.
find_python() {
    local python
    for python in ${PYTHON:-python3.13 python3.12 python3.11 python3}; do
        if python_is_recent "$python" && python_makes_venvs "$python"; then
            command -v "$python"
            return 0
        fi
    done
    return 1
}

find_recent_python() {
    local python
    for python in ${PYTHON:-python3 python3.13 python3.12 python3.11}; do
        if python_is_recent "$python"; then
            echo "$python"
            return 0
        fi
    done
    return 1
}

up_to_date() {
    [ -x $VENV/bin/python ] && [ -f $STAMP ] && [ "$(cat $STAMP)" = "$(fingerprint)" ] || return 1
    [ -f $JAVA_FILE ] && [ -x "$(cat $JAVA_FILE)/bin/java" ] || return 1
    $VENV/bin/python -c '' 2>/dev/null
}

provide_java() {
    java_home=$(find_java) && return 0
    apt_install openjdk-17-jre-headless default-jre-headless || true
    java_home=$(find_java) || fail "Spark needs Java 17 or newer and none was found;" \
        "install one (on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless) or set JAVA_HOME, then try again"
}

provide_python() {
    local recent version
    python=$(find_python) && return 0
    recent=$(find_recent_python) || fail "Shoal needs Python 3.11 or newer and none was found on the PATH;" \
        "install one or name it with PYTHON=/path/to/python3, then try again"
    version=$("$recent" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    apt_install "python$version-venv" python3-venv || true
    python=$(find_python) || fail "Python $version cannot create virtual environments;" \
        "install its venv module (on Debian or Ubuntu: sudo apt-get install python$version-venv), then try again"
}

provide_venv() {
    if [ -f $STAMP ] && python_is_recent $VENV/bin/python && grep -qsF "$(pwd -P)/$VENV" $VENV/bin/pip; then
        return 0
    fi
    provide_python
    say "creating $VENV with $("$python" --version)"
    rm -rf $VENV
    "$python" -m venv $VENV
}

install_packages() {
    # Without the stamp an interrupted installation is started afresh next time.
    rm -f $STAMP
    export PIP_DISABLE_PIP_VERSION_CHECK=1
    say "installing the packages of requirements-dev.txt"
    $VENV/bin/pip install -qq -r requirements-dev.txt ||
        fail "the packages could not be installed; the lines above say why (the first set-up needs a network)"
    say "installing shoal from this directory"
    $VENV/bin/pip install -qq --no-deps --no-build-isolation -e .
    $VENV/bin/pip check >/dev/null || {
        $VENV/bin/pip check >&2 || true
        fail "requirements-dev.txt and pyproject.toml disagree; the lines above say where"
    }
}

# Python processes of Spark would import pyspark from an archive without compiled code instead of the installed package:
# 0.6 s for each process, and every run on Spark starts one. Only a YARN cluster needs the archive.
remove_archive() {
    rm -f $VENV/lib/python*/site-packages/pyspark/python/lib/pyspark.zip
}

if up_to_date; then
    exit 0
fi
provide_java
provide_venv
install_packages
remove_archive
echo "$java_home" >$JAVA_FILE
fingerprint >$STAMP
say "ready, with Java in $java_home"
