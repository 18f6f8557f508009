#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse 26.9): avg() of u64 amounts is wrong without a word once their sum passes 2^64.
#
# Expected: avg() returns a double, so it may round, but it cannot overflow.
# Happens: it adds up in 64 bits, which wrap, and divides that. 20 balances of 10^18 raw units (a billion tokens with
#   9 decimals each) have the "average" 7.8 x 10^16. DuckDB, pyarrow and polars answer 10^18 from the same Parquet
#   file. sum() wraps too, as its integer type suggests (so do pyarrow's and polars'; DuckDB's does not); for avg()
#   the type suggests the opposite.
# Hurts: analyses of token balances, pool reserves and u64 fields that use 2^64 - 1 as "none", such as rent epochs.
#   The result has a plausible size, and small samples are right.
# Instead: avg(toFloat64(x)), or exact: sum(toUInt128(x)) / count(). Keep amounts as Decimal(38, 0) in the first
#   place; there avg() is right.
#
# Needs Python 3.11 or newer with venv, on Linux or macOS.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check chdb==4.4.0 duckdb==2.0.1 pyarrow==26.0.1 polars==2.1.0 >&2

cat > run.py <<'PY'
import json, sys
import chdb, duckdb, polars, pyarrow, pyarrow.compute, pyarrow.parquet

AMOUNT, ROWS = 10**18, 20
pyarrow.parquet.write_table(pyarrow.table({'amount': pyarrow.array([AMOUNT] * ROWS, pyarrow.uint64())}), 'balances.parquet')
column = pyarrow.parquet.read_table('balances.parquet')['amount']
frame = polars.read_parquet('balances.parquet')['amount']
query = """select version() v, avg(amount) a, sum(amount) s, avg(toFloat64(amount)) d, sum(toUInt128(amount)) / count() e,
  avg(amount::Decimal(38, 0)) f from file('balances.parquet')"""
row = json.loads(str(chdb.query(query, 'JSONEachRow')))
duck = duckdb.sql("select avg(amount), sum(amount) from 'balances.parquet'").fetchall()[0]

print(f'{ROWS} rows of {AMOUNT}, u64; sum {AMOUNT * ROWS}')
print(f"  chdb 4.4.0 ({row['v']}): avg {row['a']}, sum {row['s']}")
print(f"    avg of toFloat64 {row['d']}, sum of toUInt128 / count {row['e']}, avg of Decimal(38, 0) {row['f']}")
print(f'  duckdb 2.0.1: avg {duck[0]:.0f}, sum {duck[1]}')
print(f"  pyarrow 26.0.1: avg {pyarrow.compute.mean(column).as_py():.0f}, sum {pyarrow.compute.sum(column)}")
print(f'  polars 2.1.0: avg {frame.mean():.0f}, sum {frame.sum()}')
wrapped = AMOUNT * ROWS % 2**64
same = (
    abs(row['a'] - wrapped / ROWS) < 1e3
    and row['d'] == row['e'] == row['f'] == AMOUNT
    and duck == (AMOUNT, AMOUNT * ROWS)
    and pyarrow.compute.mean(column).as_py() == frame.mean() == AMOUNT
)
if not same:
    sys.exit('CHANGED')
PY
venv/bin/python run.py
