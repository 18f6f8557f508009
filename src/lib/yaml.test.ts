import assert from 'node:assert/strict';
import { test } from 'node:test';
import { readYaml } from './yaml.ts';

const TOO_DEEP = 'the next line is indented too far: the keys of a section start in the same column';
const NO_FIT =
  'the indentation of this line does not fit: the keys of a section, and the dashes of a list, start in the same column';
const NO_COLON = 'the colon after this key is missing';
const NO_COLON_OR_TOO_DEEP = `${NO_COLON}, or the next line is indented too far`;
const NO_SPACE = 'a space is missing after the colon';
const NO_DASH_SPACE = 'a space is missing after the dash';
const OPEN = 'this [ or { is never closed';
const SIGN = 'a value cannot start with this sign; put it in quotes';
const NO_SUCH =
  'a value that starts with * repeats one that starts with &, and there is none of this name; put it in quotes';

/** What people write, with the place and the words for it. `hunter2` stands for what must not be quoted. */
const CASES: readonly (readonly [text: string, place: string, words: string])[] = [
  ['http:\n\tport: 1\n', '2, 1', 'this line is indented with a tab; use spaces'],
  ['http:\r\n  port: 1\r\n\thost: x\r\n', '3, 1', 'this line is indented with a tab; use spaces'],
  [
    'http:\n  port: 1\n  host: x\n  port: 2\n',
    '4, 3',
    'this key already stands above in the same section; keep one of the two',
  ],
  ['http:\n  host: x\n  port 1\n', '3, 3', NO_COLON],
  ['http\n  port: 1\n', '1, 1', NO_COLON_OR_TOO_DEEP],
  ['http:\n  hunter2\n  host: x\n', '2, 3', NO_COLON_OR_TOO_DEEP],
  ['http:\n  port:1\n  host: x\n', '2, 3', NO_SPACE],
  ['http:\n  host: x\n  port:1\n', '3, 3', NO_SPACE],
  ['http:\n  port: 1\n   host: x\n', '2, 9', TOO_DEEP],
  ['http:\n    port: 1\n  host: x\n', '3, 3', NO_FIT],
  [
    ' http:\n  port: 1\nhunter2:\n  port: 2\n',
    '3, 1',
    'this line is indented less than the first one: the keys of a section start in the same column',
  ],
  ['plugins:\n  - a\n  b: hunter2\n', '3, 3', NO_FIT],
  ['plugins:\n  - a\n  -b\n', '3, 3', NO_DASH_SPACE],
  ['plugins: - a\n', '1, 10', 'a list starts on the line below its key'],
  ['a: b: hunter2\n', '1, 4', 'this value contains a colon and a space; put it in quotes'],
  ['a: "hunter2\nb: 1\n', '1, 4', 'this quote is never closed'],
  ["a: 1\nb: 'hunter2\n", '2, 4', 'this quote is never closed'],
  [
    'a: "C:\\path"\n',
    '1, 7',
    'a backslash in double quotes starts an escape, and this is none; write two of them, or use single quotes',
  ],
  ['a: "x"#y\n', '1, 7', 'a space is missing before the #; a value that contains one needs quotes'],
  ['a: "x" hunter2\n', '1, 8', 'there is more after the end of the value; put all of it in one pair of quotes'],
  ['a: [1, 2\nb: hunter2\n', '1, 4', OPEN],
  ['{"a": {"b": 1}\n', '1, 1', OPEN],
  ['a: [1,,2]\n', '1, 7', 'this comma is one too many'],
  ['{"a": 1 "b": 2}\n', '1, 7', 'a comma is missing here, or quotes around a value that contains a colon'],
  ['{"a": 1}}\n', '1, 9', 'this bracket closes none that is open'],
  ['a: @hunter2\n', '1, 4', SIGN],
  ['a: `hunter2`\n', '1, 4', SIGN],
  ['a: |hunter2\n  b\n', '1, 5', 'the text after | or > starts on the next line'],
  ['a: 1\n---\nb: 2\n', '2, 1', 'a second document starts here; a file has one'],
  // Without an error they would be read as something else than what is written, or end the program.
  ['a: !hunter2\n', '1, 4', 'a value cannot start with !; put it in quotes'],
  ['a: & hunter2\n', '1, 4', 'a value cannot start with & or *; put it in quotes'],
  ['a: *.hunter2.org\n', '1, 4', NO_SUCH],
  ['a: &x [*x]\n', '1, 8', 'this value repeats one that contains it'],
];

test('each fault has its place and says what to do, in words that are not of the parser, and quotes nothing', () => {
  for (const [text, place, words] of CASES) {
    const reading = readYaml(text);
    assert.equal(reading.kind, 'faulty', text);
    const [line, column] = place.split(', ');
    assert.deepEqual(reading.problems, [`line ${line}, column ${column}: ${words}`], text);
  }
});

test('each line with a fault is named once, in the order of the text', () => {
  const reading = readYaml('a:\n\tb: 1\nc: d: e\nf: 1\nf: 2\n');
  assert.equal(reading.kind, 'faulty');
  assert.deepEqual(
    reading.problems.map((problem) => problem.slice(0, 16)),
    ['line 2, column 1', 'line 3, column 4', 'line 5, column 1'],
  );
});

test('what is read has its lines, and repeated values are read', () => {
  const reading = readYaml('a: &x {b: 1}\nc:\n  - *x\n  - 2\n');
  assert.equal(reading.kind, 'read');
  assert.deepEqual(reading.value, { a: { b: 1 }, c: [{ b: 1 }, 2] });
  assert.deepEqual([reading.lineOf(['c', 1]), reading.lineOf(['d'])], [4, null]);
  const bomb = `a: &a [1]\nb: &b [${'*a,'.repeat(50)}]\nc: [${'*b,'.repeat(50)}]\n`;
  assert.equal(readYaml(bomb).kind, 'faulty');
});
