/** Each tutorial of docs/ by its lines alone, in an empty folder, and what it promises. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, type TestContext, test } from 'node:test';
import { setTimeout as sleep } from 'node:timers/promises';
import { chainMissing } from '../../helpers/chain.ts';
import { cliArguments } from '../../helpers/daemon.ts';
import { lightMissing } from '../../helpers/light/missing.ts';
import { linkPackages } from '../../helpers/packages.ts';
import { POSTGRES_PASSWORD, startPostgresServer } from '../../helpers/postgres-server.ts';
import { findProjectRoot } from '../../helpers/project-root.ts';

const root = findProjectRoot();
const missing =
  (await chainMissing()) ?? (spawnSync('curl', ['--version']).status === 0 ? null : 'curl is not installed');
if (missing !== null) console.error(`SKIPPED: ${missing}`);
const noLight = await lightMissing();

interface Block {
  readonly language: string;
  readonly words: readonly string[];
  readonly text: string;
}
interface Tutorial {
  readonly outputs: readonly string[];
  readonly running: readonly { readonly command: string; output(): string }[];
  stop(): Promise<void>;
}
interface Runner {
  tutorialBlocks(markdown: string): readonly Block[];
  commandFolder(folder: string, program: readonly string[]): string;
  runTutorial(options: {
    markdown: string;
    folder: string;
    env: Record<string, string>;
    ports: Record<string, number>;
    install(folder: string): void;
  }): Promise<Tutorial>;
}
const { commandFolder, runTutorial, tutorialBlocks } = (await import(
  new URL('../../helpers/run-tutorial.mjs', import.meta.url).href
)) as Runner;

const markdownOf = (name: string) => readFileSync(`${root}docs/tutorials/${name}.md`, 'utf8');

/** Free ports, each with a free one above it: that of websockets. */
async function freePorts(names: readonly string[]): Promise<Record<string, number>> {
  const listen = (port: number) =>
    new Promise<ReturnType<typeof createServer> | null>((resolve) => {
      const server = createServer().once('error', () => resolve(null));
      server.listen(port, '127.0.0.1', () => resolve(server));
    });
  const held: ReturnType<typeof createServer>[] = [];
  const found: Record<string, number> = {};
  for (const name of names) {
    for (;;) {
      const low = await listen(0);
      const { port } = low!.address() as { port: number };
      const high = await listen(port + 1);
      held.push(...[low, high].filter((server) => server !== null));
      if (high === null) continue;
      found[name] = port;
      break;
    }
  }
  for (const server of held) server.close();
  return found;
}

/** `servers`: ports of the page that a server of the test has. */
async function follow(
  t: TestContext,
  markdown: string,
  servers: Readonly<Record<string, number>> = {},
): Promise<Tutorial & { ports: Record<string, number> }> {
  const folder = mkdtempSync(join(tmpdir(), 'parhelion-tutorial-'));
  t.after(() => rmSync(folder, { recursive: true, force: true }));
  const bin = commandFolder(folder, [process.execPath, ...cliArguments]);
  const free = await freePorts(['8787', '8790', '8899', '9900', '3000']);
  const ports = { ...free, '8788': free['8787']! + 1, ...servers } as Record<string, number>;
  const env = {
    PATH: `${bin}:${process.env['PATH']}`,
    HOME: folder,
    PARHELION_HTTP__PORT: String(ports['8787']),
    PARHELION_ADMIN__PORT: String(ports['8790']),
    PARHELION_UPSTREAM__LOCAL__PORT: String(ports['8899']),
  };
  const tutorial = await runTutorial({
    markdown,
    folder,
    env,
    ports,
    // What npm would install: the versions are compared below.
    install: linkPackages,
  });
  t.after(() => tutorial.stop());
  return { ...tutorial, ports };
}

/** A page whose reader has the daemon of the first tutorial. */
function withDaemon(markdown: string): string {
  const [start] = tutorialBlocks(markdownOf('first-webhook')).filter(({ text }) => text.includes('parhelion serve'));
  return `\`\`\`sh running\n${start!.text}\`\`\`\n${markdown}`;
}

const [manifest, ofSuites] = ['', 'test/packages/'].map(
  (place) => JSON.parse(readFileSync(`${root}${place}package.json`, 'utf8')) as Record<string, Record<string, string>>,
) as [Record<string, Record<string, string>>, Record<string, Record<string, string>>];

/** What a page installs is what the tests have. */
function namesOurVersions(markdown: string, least: number): void {
  const versions = { ...manifest['dependencies'], ...manifest['devDependencies'], ...ofSuites['dependencies'] };
  const installed = tutorialBlocks(markdown).filter(({ words }) => words.includes('install'));
  const named = installed.flatMap(({ text }) => [...text.matchAll(/((?:@[\w-]+\/)?[\w.-]+)@(\d[\w.]*)/g)]);
  assert.ok(named.length >= least);
  for (const [, name, version] of named) assert.equal(version, versions[name!], name);
}

async function until(what: string, check: () => boolean): Promise<void> {
  for (let tries = 0; tries < 1_200; tries += 1) {
    if (check()) return;
    await sleep(50);
  }
  throw new Error(`never: ${what}`);
}

describe('the tutorials', { skip: missing ?? false, concurrency: false }, () => {
  test('your first webhook', async (t) => {
    const { outputs, running } = await follow(t, markdownOf('first-webhook'));
    const [daemon, receiver] = running;
    assert.match(daemon!.output(), /LOCAL CHAIN/);
    await until('a delivery', () => /attempt 1, \d+ bytes, signature good, answered 200/.test(receiver!.output()));
    assert.match(receiver!.output(), /^\[\{"accountData":\[\{"account":"/m);
    const [made, deliveries] = outputs;
    assert.match(made!, /"signingSecret":"whsec_/);
    assert.ok(Array.isArray((JSON.parse(deliveries!) as { data: unknown[] }).data ?? JSON.parse(deliveries!)));
  });

  test('a wallet page', async (t) => {
    const { outputs } = await follow(t, withDaemon(markdownOf('wallet-page')));
    const [balances, transfers, shown, refused] = outputs;
    assert.match(balances!, /"symbol":"SOL"/);
    assert.match(transfers!, /"direction":"out"/);
    assert.match(shown!, /<h2>Balances<\/h2><table><tr><td>SOL<\/td>/);
    assert.match(shown!, /<td>out<\/td>/);
    const [, said] = /```text output\n(.*?)\n```/s.exec(markdownOf('wallet-page'))!;
    assert.equal(refused, said);
  });

  test('a compressed token', { skip: noLight }, async (t) => {
    const markdown = markdownOf('compressed-token');
    const { outputs } = await follow(t, markdown);
    assert.match(outputs[0]!, /^owner \w+ has 2000000 of \w+$/m);
    const [, balances, accounts, signatures, proof] = outputs;
    assert.match(balances!, /"balance":2000000|"balance":"2000000"/);
    assert.match(accounts!, /"hash":/);
    assert.match(signatures!, /"signature":/);
    assert.match(proof!, /"proveByIndex":true/);
    namesOurVersions(markdown, 4);
  });

  test('your first plugin', async (t) => {
    const { outputs, running, ports } = await follow(t, markdownOf('first-plugin'));
    assert.match(outputs[0]!, /configuration is fine: plugins access, proxy, tally/);
    const answers = outputs.filter((text) => text.startsWith('{"blocks"'));
    const [before, after] = answers.map((text) => JSON.parse(text) as { blocks: number; newest: { slot: number }[] });
    assert.equal(before!.newest.length, Math.min(3, before!.blocks));
    assert.ok(after!.blocks > 0);
    // On a busy machine the daemon may not have had the blocks that were replaced: the command is given again.
    const body = '{"jsonrpc":"2.0","id":1,"method":"local_fork","params":[{"depth":2}]}';
    const isRolledBack = () => /rolled back a fork/.test(running[0]!.output());
    for (let tries = 0; tries < 10 && !isRolledBack(); tries += 1) {
      await sleep(3_000);
      if (!isRolledBack()) await fetch(`http://127.0.0.1:${ports['8899']}`, { method: 'POST', body });
    }
    await until('the rollback', isRolledBack);
    assert.doesNotMatch(running[0]!.output(), /"level":"error"/);
  });

  test('transfers of a wallet in PostgreSQL', async (t) => {
    const server = await startPostgresServer();
    t.after(() => server.stop());
    const markdown = markdownOf('wallet-rows');
    namesOurVersions(markdown, 1);
    // The password that the reader chose.
    const own = markdown.replaceAll('parhelion:secret@', `parhelion:${POSTGRES_PASSWORD}@`);
    const { outputs, running } = await follow(t, own, { '5432': server.port });
    const [newest, list, verified] = outputs;
    assert.match(newest!, /^slot \d+: \d+ lamports to \w+$/m);
    assert.match(list!, /^payments +running +\d+ +\d+$/m);
    assert.match(verified!, /^transfers: [1-9]\d* rows$/m);
    assert.match(verified!, /^sink payments equals the ledger in slots \d+ to \d+$/m);
    assert.equal(running[0]!.output().includes(POSTGRES_PASSWORD), false, 'a password in the log');
  });

  test('leave a hosted service in an afternoon', async (t) => {
    const { outputs, running } = await follow(t, markdownOf('leave-hosted'));
    const said = (pattern: RegExp) =>
      assert.ok(
        outputs.some((text) => pattern.test(text)),
        `${pattern}: ${outputs.join('')}`,
      );
    said(/^\d+ answers compared in 7 days: \d+ equal, 0 different with an explanation, 0 without/m);
    said(/^2 come along one to one, 0 with changes, 0 cannot$/m);
    said(/^2 created$/m);
    said(/^1 webhooks are on\./m);
    said(/^1 deliver, 0 are silent, 1 are off, 0 fail$/m);
    said(/^there: \$67\.00 a month, plan developer/m);
    said(/^here: \$47\.74 a month: machine \$40\.00/m);
    const receiver = running.at(-1)!;
    await until('a delivery', () =>
      /^msg_\w+ attempt 1, \d+ bytes, signature good, answered 200/m.test(receiver.output()),
    );
    assert.equal(
      running.some(({ output }) => output().includes('hosted-key')),
      false,
      'a key in the log',
    );
  });
});

test('the page of JavaScript, its hosted addresses redirected', { skip: missing ?? false }, async (t) => {
  const markdown = readFileSync(`${root}docs/how-to/javascript.md`, 'utf8');
  namesOurVersions(markdown, 3);
  const [web3, kit, helius, everything] = (await follow(t, withDaemon(markdown))).outputs;
  assert.match(web3!, /^slot \d+\nlamports \d+\nnotified$/m);
  assert.match(kit!, /^slot \d+n\nlamports \d+n\nnotified \d+n$/m);
  assert.match(helius!, /^slot \d+n?\n\{ priorityFeeEstimate: \d+/m);
  assert.match(everything!, /^webhooks 1\ntransactions [1-9]\d*$/m);
});

test('every tutorial has a test here', () => {
  const own = readFileSync(new URL(import.meta.url), 'utf8');
  for (const name of readdirSync(`${root}docs/tutorials`))
    assert.ok(own.includes(`'${name.replace('.md', '')}'`), name);
});
