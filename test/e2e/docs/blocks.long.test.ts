/** Every code block of docs/ is run by a test, or says by a word of a closed set why it is not. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { parse } from 'yaml';
import { runCommand } from '../../helpers/daemon.ts';
import { type Block, docsPages } from '../../helpers/documents.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const root = findProjectRoot();
const NOT_RUN = ['output', 'host', 'install', 'client'];
/** Pages that tutorials.long.test.ts runs as a whole. */
const isWhole = (path: string) => /^docs\/(tutorials\/|how-to\/javascript\.md$)/.test(path);

const pages = docsPages();
const all = pages.flatMap(({ path, blocks }) =>
  blocks.map((block) => ({ path, block, where: `${path}: ${block.text.slice(0, 40)}` })),
);
const fromOf = ({ words }: Block) => words.find((word) => word.startsWith('from='))?.slice('from='.length);
const isRun = ({ words }: Block) =>
  !words.some((word) => NOT_RUN.includes(word)) && !words.some((word) => word.startsWith('from='));
/** What stands in calls of `docsBlock` beside these pages. */
const codeTests = ['dashboard/portal', 'readme/code', 'signup/per-call']
  .map((name) => readFileSync(`${root}test/e2e/${name}.long.test.ts`, 'utf8'))
  .join('\n');
const markers = [...codeTests.matchAll(/docsBlock\((?:'([^']+)'|"([^"]+)")\)/g)].map(([, one, other]) => one ?? other!);

test('the words behind the language of a block are known', () => {
  assert.ok(all.length > 60, String(all.length));
  const known = /^(title=\S+|from=\S+|running|output|host|install|client)$/;
  assert.deepEqual(
    all
      .filter(({ block }) => block.words.length > 1 || block.words.some((word) => !known.test(word)))
      .map(({ where }) => where),
    [],
  );
  const inWhole = /^(title=|running)/;
  assert.deepEqual(
    all
      .filter(({ path, block }) => !isWhole(path) && block.words.some((word) => inWhole.test(word)))
      .map(({ where }) => where),
    [],
  );
});

test('blocks that are not run cannot hide an error from the tests', () => {
  const { length } = all.filter(({ block }) => block.words.includes('host'));
  assert.ok(length <= 14, `${length} blocks are for a host: run them instead`);
  const code = all.filter(({ block }) => block.words.includes('output') && !['text', 'json'].includes(block.language));
  assert.deepEqual(code, []);
});

test('a block without words has somebody who runs it', () => {
  const unclaimed = all.filter(({ path, block }) => {
    if (isWhole(path) || !isRun(block) || ['sh', 'yaml', 'json'].includes(block.language)) return false;
    return !markers.some((marker) => block.text.includes(marker));
  });
  assert.deepEqual(
    unclaimed.map(({ where }) => where),
    [],
  );
});

test('a block of JSON is JSON', () => {
  for (const { where, block } of all.filter((one) => one.block.language === 'json')) {
    assert.doesNotThrow(() => JSON.parse(block.text), where);
  }
});

test('a block of configuration is accepted', async (t) => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-docs-'));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const own = all.filter(({ path, block }) => block.language === 'yaml' && isRun(block) && !isWhole(path));
  assert.ok(own.length >= 3);
  for (const { where, block } of own) {
    if (markers.some((marker) => block.text.includes(marker) && marker.includes('./'))) continue;
    const given = parse(block.text) as object;
    const file = join(dir, 'parhelion.yaml');
    const upstream = 'upstream' in given ? '' : 'upstream: { urls: ["https://your-node.example"] }\n';
    const plugins = 'signup' in given ? 'plugins: [access, proxy, signup]\n' : '';
    const text = block.text.replaceAll('YOUR_WALLET', 'So11111111111111111111111111111111111111112');
    writeFileSync(file, `${plugins}${upstream}${text}`);
    const { code, err } = await runCommand(['check-config', '--config', file]);
    assert.equal(code, 0, `${where}: ${err}`);
  }
});

test('lines that are taken from a file stand there, and name the versions that are used there', () => {
  const taken = all.filter(({ block }) => fromOf(block) !== undefined);
  assert.ok(taken.length >= 8);
  const lines = (text: string) => text.split('\n').map((line) => line.trimEnd());
  for (const { where, block } of taken) {
    const file = readFileSync(root + fromOf(block), 'utf8');
    assert.ok(
      lines(file).join('\n').includes(lines(block.text).join('\n').trimEnd()),
      `${where} is not in ${fromOf(block)}`,
    );
  }
  const VERSIONS: Readonly<Record<string, string>> = { python: 'requirements.txt', go: 'go.mod' };
  for (const [language, file] of Object.entries(VERSIONS)) {
    const { blocks } = pages.find(({ path }) => path === `docs/how-to/${language}.md`)!;
    const used = readFileSync(`${root}test/clients/${language}/${file}`, 'utf8');
    const named = blocks
      .filter(({ words }) => words.includes('client'))
      .flatMap(({ text }) => [...text.matchAll(/(\S+)(?:==|@)(v?\d[\w.]*)/g)]);
    assert.ok(named.length > 0, language);
    for (const [, name, version] of named)
      assert.match(used, new RegExp(`${name}(==| )${version}`.replaceAll('.', '\\.')));
  }
});

test('every page of a capability has a working example before its first heading', () => {
  const own = pages.filter(({ path }) => /^docs\/(how-to|reference)\//.test(path) && !/errors\.md$/.test(path));
  assert.ok(own.length >= 15);
  for (const { path, text } of own) assert.match(text.split(/^## /m)[0]!, /^```/m, path);
});
