#!/usr/bin/env bash
# The health check of the image: GET /healthz, with nothing but bash, because a Node every ten seconds would cost more than
# Fillrate itself when idle. `run` and the other commands end by themselves and need not listen: they are healthy.
case " $(tr '\0' ' ' < "${1:-/proc/1/cmdline}")" in
*' start '* | *' serve '*) ;;
*) exit 0 ;;
esac
exec 3<> "/dev/tcp/127.0.0.1/${FILLRATE_PORT:-8080}" || exit 1
printf 'GET /healthz HTTP/1.0\r\nHost: localhost\r\n\r\n' >&3
read -r status <&3 && [[ $status == *' 200 '* ]]
