import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { collectDefaultMetrics, Registry } from 'prom-client';
import { parse } from 'yaml';
import { findProjectRoot } from '../helpers/project-root.ts';
import { promtoolCheck, promtoolMissing } from '../helpers/promtool.ts';

const root = findProjectRoot();
const folder = `${root}config/grafana/`;
const text = (name: string) => readFileSync(folder + name, 'utf8');

interface Link {
  readonly url: string;
}
interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
  readonly targets?: readonly { readonly expr: string }[];
  readonly links?: readonly Link[];
  readonly fieldConfig?: {
    readonly defaults: { readonly unit?: string; readonly thresholds?: { readonly steps: readonly unknown[] } };
  };
}
interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: { readonly summary: string; readonly description: string; readonly runbook_url: string };
}

const dashboard = JSON.parse(text('dashboard.json')) as {
  readonly uid: string;
  readonly panels: readonly Panel[];
  readonly links: readonly Link[];
};
const rules = (parse(text('alerts.yaml')) as { groups: { rules: Rule[] }[] }).groups.flatMap((group) => group.rules);
const missing = promtoolMissing();

/** Names of series by the kind of metric they belong to: the committed list, and what prom-client tells of the process. */
async function seriesNames(): Promise<Set<string>> {
  const names = new Set<string>();
  for (const line of readFileSync(`${root}config/metrics.txt`, 'utf8').split('\n')) {
    const [name, kind] = line.split(' ');
    if (line.startsWith('#') || kind === undefined) continue;
    if (kind !== 'histogram') names.add(name!);
    else for (const end of ['bucket', 'sum', 'count']) names.add(`${name}_${end}`);
  }
  const register = new Registry();
  collectDefaultMetrics({ register });
  for (const { name, type } of await register.getMetricsAsJSON()) {
    if (String(type) !== 'histogram') names.add(name);
    else for (const end of ['bucket', 'sum', 'count']) names.add(`${name}_${end}`);
  }
  register.clear();
  return names;
}
const namesIn = (queries: readonly string[]) =>
  [...new Set(queries.flatMap((query) => query.match(/\b(?:parhelion|process|nodejs)_[a-z0-9_]+/g) ?? []))].sort();

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

/** Sections of the runbook by their anchors. */
const runbook = new Map(
  readFileSync(`${root}docs/how-to/runbook.md`, 'utf8')
    .split(/^### /m)
    .slice(1)
    .map((section) => [(section.split('\n')[0] ?? '').toLowerCase(), section]),
);

test('each alert has its section of the runbook, with what to look at and what to do, and no section is left over', () => {
  for (const { alert, annotations } of rules) {
    const anchor = alert.toLowerCase();
    assert.equal(annotations.runbook_url, `docs/how-to/runbook.md#${anchor}`);
    const section = runbook.get(anchor) ?? assert.fail(`docs/how-to/runbook.md has no section ${alert}`);
    assert.match(section, /^- \*\*Look at\*\* /m, alert);
    assert.match(section, /^- \*\*Do\*\*/m, alert);
  }
  assert.deepEqual([...runbook.keys()].sort(), rules.map(({ alert }) => alert.toLowerCase()).sort());
});

test('every metric that the runbook and the pages name exists', async () => {
  const known = await seriesNames();
  // Families are named without the endings of their series.
  for (const name of [...known]) known.add(name.replace(/_(bucket|sum|count)$/, ''));
  for (const page of ['docs/how-to/runbook.md', 'docs/how-to/operators.md', 'config/grafana/README.md']) {
    const text = readFileSync(root + page, 'utf8');
    const names = text.match(/\b(?:parhelion|process|nodejs)_[a-z][a-z0-9_]*[a-z0-9]\b(?![*_])/g) ?? [];
    assert.deepEqual(
      names.filter((name) => !known.has(name)),
      [],
      page,
    );
  }
});

test('panels have units, single numbers have thresholds, and links lead to sections of the runbook', () => {
  const links: Link[] = [...dashboard.links];
  for (const { title, type, fieldConfig, links: own = [] } of dashboard.panels) {
    if (type === 'row') continue;
    assert.match(fieldConfig?.defaults.unit ?? '', /^(s|short|bytes|reqps|ops|percentunit)$/, title);
    if (type === 'stat')
      assert.ok((fieldConfig?.defaults.thresholds?.steps.length ?? 0) > 1, `${title} has no thresholds`);
    if (type === 'stat') assert.ok(own.length > 0, `${title} has no runbook`);
    links.push(...own);
  }
  for (const { url } of links) {
    const [, anchor] = /^\$\{runbook\}(?:#(\w+))?$/.exec(url) ?? assert.fail(url);
    assert.ok(anchor === undefined || runbook.has(anchor), url);
  }
});

test('promtool takes the rules, and the queries of the dashboard', { skip: missing ?? false }, (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-rules-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const check = (name: string, rulesText: string) => {
    const path = join(dir, name);
    writeFileSync(path, rulesText);
    const { status, text: words } = promtoolCheck(['rules', path]);
    return { status, words };
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
