#!/bin/sh
# enter_node.sh [-OPTION]... 10.77.0.N COMMAND [ARG]...
#
# What a launcher of MPI calls in place of ssh, inside of a run of `pagewire sockets`: the command,
# a line of the shell as ssh's, runs on the node that has this address. See program_calls.h.
set -eu
while case ${1:-} in -*) true ;; *) false ;; esac do shift; done
place=${1:-}
case $place in
10.77.0.[1-9] | 10.77.0.[1-9][0-9]) ;;
*)
    echo "enter_node.sh: error: $place is no address of a node; give 10.77.0.1 to 10.77.0.64" >&2
    exit 255
    ;;
esac
shift
command=$*
# shellcheck disable=SC2086 # four words
set -- ${PAGEWIRE_SOCKETS:?is not set: a launcher inside of pagewire sockets calls this}
PAGEWIRE_SOCKETS_NODE=$((${place##*.} - 1))
if [ "$PAGEWIRE_SOCKETS_NODE" -ge "$3" ]; then
    echo "enter_node.sh: error: the run has no node $PAGEWIRE_SOCKETS_NODE, but $3 nodes" >&2
    exit 255
fi
export PAGEWIRE_SOCKETS_NODE
exec sh -c "$command"
