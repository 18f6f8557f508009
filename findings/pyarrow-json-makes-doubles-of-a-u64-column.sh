#!/usr/bin/env bash
# pyarrow 26.0.1: one value of 2^63 or more in a JSON column makes doubles of all its values.
#
# Expected: integers that fit 64 bits without sign are read as such or refused; DuckDB and polars read them exactly.
# Happens: read_json tries signed 64 bits, then double. The value that decides may be millions of rows away from the
#   one that suffers: beside an amount of 2^64 - 1 ("no limit" in approvals and fee settings), 9,007,199,254,740,993
#   lamports are read as ...992. No warning. The type of a column depends on the rows of the file, so two files of one
#   export have two types.
# Hurts: exports of accounts, balances and instructions from RPC answers, where rentEpoch is 2^64 - 1 for nearly every
#   account and u64 limits are common. Digests and joins over amounts fail later, in another tool.
# Instead: give the schema: ParseOptions(explicit_schema=...) with uint64 reads all of them; or write u64 as strings.
#
# Needs Python 3.11 or newer with venv.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0 >&2

cat > run.py <<'PY'
import json, sys
import duckdb, polars, pyarrow, pyarrow.json

VALUES = [9_007_199_254_740_993, 2**64 - 1]
for name, values in (('small', VALUES[:1]), ('mixed', VALUES)):
    with open(f'{name}.ndjson', 'w') as file:
        file.writelines(json.dumps({'amount': value}) + '\n' for value in values)

def show(column):
    return f'{column.type}, {[int(value) for value in column.to_pylist()]}'

small = pyarrow.json.read_json('small.ndjson')['amount']
mixed = pyarrow.json.read_json('mixed.ndjson')['amount']
schema = pyarrow.schema([('amount', pyarrow.uint64())])
given = pyarrow.json.read_json('mixed.ndjson', parse_options=pyarrow.json.ParseOptions(explicit_schema=schema))['amount']
duck = [row[0] for row in duckdb.sql("select amount from 'mixed.ndjson'").fetchall()]
pol = polars.read_ndjson('mixed.ndjson')['amount'].to_list()
print(f'written: {VALUES}')
print(f'  pyarrow 26.0.1, without the second row: {show(small)}')
print(f'  pyarrow 26.0.1, both rows: {show(mixed)}')
print(f'  pyarrow 26.0.1, both rows, schema given: {show(given)}')
print(f'  duckdb 2.0.1: {duck}')
print(f'  polars 2.1.0: {pol}')
same = (
    str(small.type) == 'int64'
    and str(mixed.type) == 'double'
    and int(mixed[0].as_py()) == VALUES[0] - 1
    and given.to_pylist() == duck == pol == VALUES
)
if not same:
    sys.exit('CHANGED')
PY
venv/bin/python run.py
