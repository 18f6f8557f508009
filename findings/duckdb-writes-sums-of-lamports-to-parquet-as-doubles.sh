#!/usr/bin/env bash
# duckdb 2.0.1: exact sums of u64 and i64 columns become doubles when they are written to Parquet.
#
# Expected: sum() of integers is exact (HUGEINT, shown with all digits), and COPY to Parquet keeps values or refuses.
# Happens: Parquet has no 128-bit integer, so HUGEINT is stored as DOUBLE, without warning. Any sum of integers is a
#   HUGEINT, also one that fits 64 bits: 9,007,199.254740993 SOL (2^53 + 1 lamports) loses a lamport, larger sums
#   more. A table made with CREATE TABLE AS has the right values; its export has not. Reading back gives DOUBLE, so
#   later sums are doubles too.
# Hurts: rollups of fees, rewards and supplies that go from DuckDB to Parquet for others. Totals no longer agree with
#   the rows they came from, and a join on them finds nothing.
# Instead: cast on the way out: sum(x)::UBIGINT where it fits, else sum(x)::DECIMAL(38, 0), which all readers know;
#   check with DESCRIBE that no column is HUGEINT.
#
# Needs Python 3.11 or newer with venv.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check duckdb==2.0.1 pyarrow==26.0.1 >&2

cat > run.py <<'PY'
import sys
import duckdb, pyarrow.parquet

LAMPORTS = [2**53 - 1, 2]
duckdb.sql(f'create table fees as select unnest({LAMPORTS})::ubigint lamports')
total, kind = duckdb.sql('select sum(lamports), typeof(sum(lamports)) from fees').fetchall()[0]
duckdb.sql("""copy (select sum(lamports) as plain, sum(lamports)::ubigint as narrow, sum(lamports)::decimal(38, 0) as exact from fees)
  to 'totals.parquet'""")
table = pyarrow.parquet.read_table('totals.parquet')
back = duckdb.sql("select plain, narrow, exact, typeof(plain) from 'totals.parquet'").fetchall()[0]
print('duckdb 2.0.1')
print(f'  sum in the engine: {total} ({kind})')
for name in table.column_names:
    print(f'  column {name} of the file: {table.schema.field(name).type}, {int(table[name][0].as_py())}')
print(f'  read back: {int(back[0])} ({back[3]}), {back[1]}, {back[2]}')
same = (
    (total, kind) == (sum(LAMPORTS), 'HUGEINT')
    and str(table.schema.field('plain').type) == 'double'
    and int(table['plain'][0].as_py()) == sum(LAMPORTS) - 1
    and table['narrow'][0].as_py() == table['exact'][0].as_py() == sum(LAMPORTS)
    and back[3] == 'DOUBLE'
)
if not same:
    sys.exit('CHANGED')
PY
venv/bin/python run.py
