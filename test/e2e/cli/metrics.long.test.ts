import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';
import { metricListPath, renderMetricList } from '../../helpers/metric-list.ts';

const listed = await renderMetricList();
const entries = listed
  .split('\n')
  .filter((line) => line.startsWith('parhelion_'))
  .map((line) => /^(\S+) (\S+) (.*)$/.exec(line)!.slice(1) as [string, string, string]);

test('the list of metrics is what a daemon declares', () => {
  assert.equal(readFileSync(metricListPath(), 'utf8'), listed, 'run npm run metrics:write');
});

test('counters, and nothing else, end in _total; every metric has a meaning', () => {
  assert.ok(entries.length > 40, String(entries.length));
  for (const [name, kind, help] of entries) {
    assert.match(name, /^parhelion_[a-z0-9]+(_[a-z0-9]+)+$/);
    assert.equal(name.endsWith('_total'), kind === 'counter', name);
    assert.ok(help.length > 5, name);
    if (kind === 'histogram') assert.match(name, /_(seconds|bytes|rows|slots|blocks|items|transactions|count)$/, name);
  }
});
