#!/usr/bin/env bash
# Runs a command with TEST_DATABASE_URL set to a new Postgres 15 of the machine's own, and ends it afterwards.
set -euo pipefail
bin=/usr/lib/postgresql/15/bin
dir=$(mktemp -d)
port=$(node -e "const s=require('net').createServer();s.listen(0,'127.0.0.1',()=>{console.log(s.address().port);s.close()})")
as=()
if [ "$(id -u)" = 0 ]; then chown postgres "$dir"; as=(runuser -u postgres --); fi
trap '"${as[@]}" "$bin/pg_ctl" -D "$dir/data" -m immediate stop >/dev/null 2>&1 || true; rm -rf "$dir"' EXIT
"${as[@]}" "$bin/initdb" -D "$dir/data" -U postgres --auth=trust --encoding=UTF8 --locale=C >/dev/null
"${as[@]}" "$bin/pg_ctl" -D "$dir/data" -l "$dir/log" -w \
  -o "-p $port -k $dir -c listen_addresses=127.0.0.1 -c fsync=off -c max_connections=200 -c max_prepared_transactions=5" start >/dev/null
TEST_DATABASE_URL="postgres://postgres@127.0.0.1:$port/postgres" "$@"
