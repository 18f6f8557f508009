import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { parse } from 'yaml';
import { findProjectRoot } from '../helpers/project-root.ts';

const root = findProjectRoot();
const folder = `${root}config/grafana/`;
const text = (name: string) => readFileSync(folder + name, 'utf8');

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
}
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string };
}

const dashboard = JSON.parse(text('dashboard.json')) as { readonly uid: string; readonly panels: readonly Panel[] };
const rules = (parse(text('alerts.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const missing = spawnSync('promtool', ['--version']).status === 0 ? null : 'promtool is not installed';
if (missing !== null) {
  if (process.env['REQUIRE_PROMTOOL'] === '1') throw new Error(missing);
  console.error(`SKIPPED: ${missing}`);
}

/** Names of series by the kind of metric they belong to: the committed list, and what prom-client tells of the process. */
async function seriesNames(): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for (const line of readFileSync(`${root}config/metrics.txt`, 'utf8').split('\n')) {
    const [name, kind] = line.split(' ');
    if (line.startsWith('#') || kind === undefined) continue;
    if (kind !== 'histogram') names.add(name!);
    else for (const end of ['bucket', 'sum', 'count']) names.add(`${name}_${end}`);
  }
  const register = new Registry();
  collectDefaultMetrics({ register, prefix: 'parhelion_' });
  for (const { name } of await register.getMetricsAsJSON()) names.add(name);
  register.clear();
  return names;
}
const namesIn = (queries: readonly string[]) =>
  [...new Set(queries.flatMap((query) => query.match(/\bparhelion_[a-z0-9_]+/g) ?? []))].sort();

const queries = dashboard.panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

test('every series of dashboard and alerts is one that the daemon has', async () => {
  const known = await seriesNames();
  const used = namesIn([...queries, ...rules.map(({ expr }) => expr)]);
  assert.ok(used.length > 30, String(used.length));
  assert.deepEqual(
    used.filter((name) => !known.has(name)),
    [],
  );
});

test('the panels of the dashboard do not lie on each other, and each asks something', () => {
  assert.equal(new Set(dashboard.panels.map(({ id }) => id)).size, dashboard.panels.length);
  const taken = new Map<string, string>();
  for (const { title, type, targets = [], gridPos } of dashboard.panels) {
    assert.ok(type === 'row' || targets.length > 0, title);
    assert.ok(gridPos.x + gridPos.w <= 24, title);
    for (let x = gridPos.x; x < gridPos.x + gridPos.w; x += 1) {
      for (let y = gridPos.y; y < gridPos.y + gridPos.h; y += 1) {
        assert.equal(taken.get(`${x},${y}`), undefined, `${title} lies on another panel`);
        taken.set(`${x},${y}`, title);
      }
    }
  }
});

test('every alert says what happened and what to look at', () => {
  assert.ok(rules.length > 10);
  assert.equal(new Set(rules.map(({ alert }) => alert)).size, rules.length);
  for (const { alert, labels, annotations } of rules) {
    assert.match(alert, /^Parhelion[A-Z]\w+$/);
    assert.match(labels.severity, /^(critical|warning|info)$/, alert);
    assert.ok(annotations.summary.length > 10 && annotations.description.length > 10, alert);
  }
});

test('promtool takes the rules, and the queries of the dashboard', { skip: missing ?? false }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-rules-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const check = (name: string, rulesText: string) => {
    const path = join(dir, name);
    writeFileSync(path, rulesText);
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'rules', path], { encoding: 'utf8' });
    return { status, words: stdout + stderr };
  };
  const alerts = check('alerts.yaml', text('alerts.yaml'));
  assert.equal(alerts.status, 0, alerts.words);
  // The parser of queries is the same; variables of Grafana stand for what it puts in their place.
  const asRules = queries.map((expr, at) => ({
    record: `panel:${at}`,
    expr: expr.replaceAll('$__rate_interval', '5m'),
  }));
  const input = JSON.stringify({ groups: [{ name: 'dashboard', rules: asRules }] });
  const panels = check('panels.yaml', input);
  assert.equal(panels.status, 0, panels.words);
  assert.notEqual(check('broken.yaml', input.replace('sum(', 'sum((')).status, 0);
});
