#!/usr/bin/env bash
# The tests of what depends on the version of Postgres: bash scripts/test-postgres.sh. The Postgres is that of every test:
# TEST_DATABASE_URL, or the image TEST_POSTGRES_IMAGE where Docker answers.
set -euo pipefail
cd "$(dirname "$0")/.."
npx vitest run --project integration --project slow \
  test/integration/{store,sources,history,actions,pipeline,runs} \
  test/integration/{daemon/triggers,cli/row-security,faults/trigger-safety,faults/least-privilege,faults/fuzz,faults/services-model}.test.ts
