#!/usr/bin/env bash
# pyarrow 26.0.1: a filter on a u64 column of a Parquet file fails as soon as the column has one value of 2^63 or
# more.
#
# Expected: uint64 is a type of Arrow and of Parquet, and pyarrow reads such a column; a filter on it with a small
#   number works.
# Happens: the literal in the filter is a signed integer, so the column is cast to int64, and the cast fails for the
#   whole file: "Integer value ... not in range". A large literal fails before, as "Python int too large to convert to
#   C long". Which files fail depends on their values alone. DuckDB, polars and chdb answer.
# Hurts: readers of exports with amounts, supplies and limits. One row with 2^64 - 1 ends every filtered read of that
#   file, and a data set of many files fails in the middle.
# Instead: type the literal, pyarrow.compute.field('amount') > pyarrow.scalar(5, pyarrow.uint64()); or export amounts
#   as Decimal(20, 0).
#
# Needs Python 3.11 or newer with venv.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cd "$dir"
python3 -m venv venv
venv/bin/pip install --quiet --disable-pip-version-check pyarrow==26.0.1 duckdb==2.0.1 polars==2.1.0 >&2

cat > run.py <<'PY'
import sys
import duckdb, polars, pyarrow, pyarrow.compute, pyarrow.parquet

SMALL, LARGE = [1, 7, 2**63 - 1], [1, 7, 2**64 - 1]
for name, values in (('small', SMALL), ('large', LARGE)):
    pyarrow.parquet.write_table(pyarrow.table({'amount': pyarrow.array(values, pyarrow.uint64())}), f'{name}.parquet')

def read(name, filters):
    try:
        return pyarrow.parquet.read_table(f'{name}.parquet', filters=filters)['amount'].to_pylist()
    except (pyarrow.ArrowInvalid, OverflowError) as error:
        return f'{type(error).__name__}: {error}'

amount = pyarrow.compute.field('amount')
rows = {
    'amount == 1, all below 2^63': read('small', [('amount', '==', 1)]),
    'amount == 1': read('large', [('amount', '==', 1)]),
    'amount > 5': read('large', amount > 5),
    'amount == 2^64 - 1': read('large', [('amount', '==', 2**64 - 1)]),
    'amount > 5 with a typed literal': read('large', amount > pyarrow.scalar(5, pyarrow.uint64())),
}
print('pyarrow 26.0.1')
for name, result in rows.items():
    print(f'  {name}: {result}')
duck = [row[0] for row in duckdb.sql("select amount from 'large.parquet' where amount > 5").fetchall()]
pol = polars.scan_parquet('large.parquet').filter(polars.col('amount') > 5).collect()['amount'].to_list()
print(f'amount > 5 in duckdb 2.0.1: {duck}; polars 2.1.0: {pol}')
results = list(rows.values())
same = (
    results[0] == [1]
    and all(isinstance(result, str) and result.startswith('ArrowInvalid') for result in results[1:3])
    and str(results[3]).startswith('OverflowError')
    and results[4] == duck == pol == LARGE[1:]
)
if not same:
    sys.exit('CHANGED')
PY
venv/bin/python run.py
