/**
 * Every command of the program and its built-in plugins, as a process, on both stores: without a database, with one, and beside a
 * daemon; in a pipe and on a terminal. None may end with a code outside the table, and none may fail without a coded error.
 */
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import type { CliCommand } from '../../../src/cli/command.ts';
import { commandTable } from '../../../src/cli/command-table.ts';
import { loadCliConfig } from '../../../src/cli/load-config.ts';
import { assembleOffline } from '../../../src/cli/offline.ts';
import { EXIT, messageOf } from '../../../src/lib/coded-error.ts';
import { chainMissing, startChain, type TestChain } from '../../helpers/chain.ts';
import { cliArguments, type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { eachStore } from '../../helpers/store.ts';

const missing = await chainMissing();
const skip = missing ?? false;
const CODES: readonly number[] = Object.values(EXIT);
const AT_ONCE = 3;
/**
 * Each command runs with and without a daemon, on each store, on a terminal and in a pipe; those whose work a daemon does in all
 * combinations. `EXIT_CODES=all`: every command in all of them.
 */
const IS_ALL = process.env['EXIT_CODES'] === 'all';
const placeOf = (onTerminal: boolean): string => (onTerminal ? 'on a terminal' : 'in a pipe');
/**
 * A command that runs until it is interrupted is, when it has printed something, or after this. On a busy machine it may not have begun by
 * then, and the signal ends the process: then it gets more time.
 */
const INTERRUPT_MS = 10_000;
const LONGEST_INTERRUPT_MS = 80_000;
const KILL_MS = 180_000;
const RUNS_ON = ['webhooks tail', 'webhooks listen', 'compression snapshot serve'];
/** With a daemon they do their work, whatever they print to. */
const WORKS = [...RUNS_ON, 'backfill', 'compression verify', 'status', 'healthcheck', 'projects list', 'keys list'];
const ADDRESS = 'MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr';

const root = mkdtempSync(join(tmpdir(), 'parhelion-exit-codes-'));
after(() => rmSync(root, { recursive: true, force: true }));

type Found = Pick<CliCommand, 'path' | 'options' | 'argument'>;

/** The table, and what the built-in plugins add to it: a new command is here by itself. */
async function allCommands(): Promise<readonly Found[]> {
  const io = { cwd: root, out: () => {}, err: () => {}, isTerminal: false, program: 'parhelion' };
  const { merged } = await assembleOffline(await loadCliConfig({}, { ...io, env: { PARHELION_CONFIG: '' } }));
  return [...commandTable, ...merged.commands];
}

interface Things {
  readonly project: string;
  readonly key: string;
  readonly hook: string;
}

let files = 0;

/** Values for what a command requires, and for what makes it do its work. */
function argumentsOf({ path, options, argument }: Found, things: Things): readonly string[] {
  const name = path.join(' ');
  const own: Readonly<Record<string, readonly string[]>> = {
    // Another daemon on the store of the running one is no command.
    serve: ['--role', 'nobody'],
    completion: ['bash'],
    backfill: ['--from', '1002', '--to', '1004'],
    'compression snapshot save': ['--dir', join(root, 'snapshots')],
    'compression snapshot serve': ['--dir', root, '--port', '0'],
    'compression snapshot load': ['--file', join(root, 'absent')],
    'webhooks listen': ['--port', '0'],
    'webhooks replay': ['--since', '0'],
    'webhooks create': ['--addresses', ADDRESS, '--type', 'raw'],
    init: ['--output', join(root, `init-${files++}.yaml`)],
  };
  const of: Readonly<Record<string, string>> = { projects: things.project, keys: things.key, webhooks: things.hook };
  const value = (flag: string): string => {
    if (flag === '--id') return of[path[0] ?? ''] ?? 'x';
    if (flag === '--project') return things.project;
    if (flag === '--wallet' || flag === '--address') return ADDRESS;
    if (flag === '--output') return join(root, `output-${files++}`);
    if (flag === '--url') return 'http://127.0.0.1:9/';
    if (flag === '--from') return 'sqlite:';
    if (flag === '--to') return `sqlite:${join(root, `copy-${files++}.db`)}`;
    return '1';
  };
  const required = options.filter((option) => option.required === true).map(({ flags }) => flags.split(' ')[0] ?? '');
  return [
    ...path,
    ...(argument === undefined || name in own ? [] : [`plugin-${files++}`]),
    ...required.flatMap((flag) => [flag, value(flag)]),
    ...(own[name] ?? []),
  ];
}

interface Ended {
  readonly code: number | null;
  readonly out: string;
  readonly err: string;
}

async function runProcess(name: string, args: readonly string[], onTerminal: boolean): Promise<Ended> {
  for (let interruptMs = INTERRUPT_MS; ; interruptMs *= 2) {
    const ended = await runOnce(name, args, onTerminal, interruptMs);
    const isTooEarly = RUNS_ON.includes(name) && (ended.code === null || ended.code === 130);
    if (!isTooEarly || interruptMs >= LONGEST_INTERRUPT_MS) return ended;
  }
}

/** On a terminal both streams are one. */
function runOnce(name: string, args: readonly string[], onTerminal: boolean, interruptMs: number): Promise<Ended> {
  const words = [process.execPath, ...cliArguments, ...args];
  // Ctrl-C goes to all of the terminal's processes; a shell that stayed would tell its own end.
  const quoted = `exec ${words.map((word) => `'${word}'`).join(' ')}`;
  const command = onTerminal ? ['script', '--quiet', '--return', '--command', quoted, '/dev/null'] : words;
  const child = spawn(command[0]!, command.slice(1), {
    cwd: root,
    env: { ...process.env, NODE_ENV: 'test', NO_COLOR: '1', PARHELION_CONFIG: '' },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const texts = { out: '', err: '' };
  let interrupted = false;
  child.stdout.on('data', (chunk: Buffer) => {
    texts.out += chunk.toString();
    if (RUNS_ON.includes(name) && !interrupted) interrupt();
  });
  child.stderr.on('data', (chunk: Buffer) => (texts.err += chunk.toString()));
  // On a terminal Ctrl-C is a character.
  const interrupt = () => {
    interrupted = true;
    setTimeout(() => void (onTerminal ? child.stdin.write('\u0003') : child.kill('SIGINT')), 500);
  };
  const timers = [
    ...(RUNS_ON.includes(name) ? [setTimeout(interrupt, interruptMs)] : []),
    setTimeout(() => child.kill('SIGKILL'), KILL_MS),
  ];
  return new Promise((resolve) => {
    child.once('close', (code) => {
      for (const timer of timers) clearTimeout(timer);
      resolve({ code, ...texts });
    });
  });
}

/** Progress without a terminal is lines of JSON. */
const isProgress = (line: string) => line.startsWith('{"progress":');

function checkEnd(what: string, { code, out, err }: Ended, asJson: boolean): void {
  const said = `${what}: ${code}\n${out}\n${err}`;
  assert.ok(code !== null && CODES.includes(code), said);
  assert.notEqual(code, EXIT.bug, said);
  if (code === 0) return;
  const lines = err.split('\n').filter((line) => line !== '' && !isProgress(line));
  // What a command was asked for is an answer also when it is bad.
  if (lines.length === 0) return void assert.ok(out.trim() !== '', said);
  if (asJson) {
    assert.equal(lines.length, 1, said);
    const error = JSON.parse(lines[0]!) as Record<string, unknown>;
    assert.deepEqual([typeof error['code'], error['exitCode']], ['string', code], said);
    return;
  }
  assert.match(lines[0]!, /^parhelion: [A-Z]+(_[A-Z]+)+: \S/, said);
  for (const line of lines.slice(1)) assert.match(line, /^ {2}/, said);
}

/** On a terminal both streams are one. */
function checkShown(what: string, name: string, { code, out }: Ended): void {
  assert.ok(code !== null && CODES.includes(code), `${what}: ${code}\n${out}`);
  assert.notEqual(code, EXIT.bug, `${what}\n${out}`);
  if (code !== 0 && name !== 'doctor') assert.match(out, /^parhelion: [A-Z]+(_[A-Z]+)+: /m, `${what}: ${code}\n${out}`);
}

/** What takes away a thing that others work on comes after them. */
const takesAway = ({ path }: Found) => /^(delete|disable|revoke)$/.test(path.at(-1) ?? '');

/** All of them, with every failure told. */
async function inTurns(commands: readonly Found[], work: (command: Found) => Promise<void>): Promise<void> {
  const wrong: string[] = [];
  for (const isLast of [false, true]) {
    const left = commands.filter((command) => takesAway(command) === isLast);
    const one = async () => {
      for (let command = left.shift(); command !== undefined; command = left.shift())
        await work(command).catch((error: unknown) => void wrong.push(messageOf(error)));
    };
    await Promise.all(Array.from({ length: AT_ONCE }, one));
  }
  assert.deepEqual(wrong, []);
}

eachStore('every command', (engine) => {
  let chain: TestChain;
  let commands: readonly Found[] = [];
  before(async () => {
    if (missing !== null) return;
    chain = await startChain();
    for (let block = 0; block < 40; block++) await chain.seal();
    commands = await allCommands();
    assert.ok(commands.length > 35, String(commands.length));
  });
  after(() => chain?.stop());

  const isSqlite = engine.dialect === 'sqlite';
  const hasJson = ({ options }: Found) => options.some(({ flags }) => flags === '--json');
  const nothing: Things = { project: 'x', key: 'x', hook: 'x' };
  const configOf = (dataDir: string, url: string) => ({
    dataDir,
    http: { port: 0 },
    admin: { port: 0 },
    store: { url },
    upstream: { urls: [{ url: chain.rpcUrl, websocketUrl: chain.wsUrl }] },
  });

  test('without a database: no command makes one but those whose purpose it is', { skip }, async (t) => {
    const dataDir = join(root, `empty-${engine.dialect}`);
    const url = engine.dialect === 'sqlite' ? 'sqlite:' : (await engine.database(t)).url;
    const config = join(root, `empty-${engine.dialect}.yaml`);
    writeFileSync(config, JSON.stringify(configOf(dataDir, url)));
    const makers = ['migrate', 'restore', 'serve', 'store copy'];
    for (const command of commands.filter(({ path }) => !makers.includes(path.join(' ')))) {
      const name = command.path.join(' ');
      const json = hasJson(command) ? ['--json'] : [];
      const ended = await runCommand([...argumentsOf(command, nothing), '--config', config, ...json], { cwd: root });
      checkEnd(`${name} without a database`, ended, json.length > 0);
      assert.equal(existsSync(dataDir), false, `${name} made ${dataDir}`);
    }
    const list = await runCommand(['projects', 'list', '--json', '--config', config]);
    assert.deepEqual([list.code, (JSON.parse(list.err) as { code: string }).code], [78, 'STORE_MISSING']);
  });

  test('with a database and no daemon', { skip: skip || noScript() }, async (t) => {
    const dataDir = join(root, `stopped-${engine.dialect}`);
    const { url } = await engine.database(t);
    const config = join(root, `stopped-${engine.dialect}.yaml`);
    writeFileSync(config, JSON.stringify({ ...configOf(dataDir, url) }));
    const ready = await runCommand(['migrate', '--config', config]);
    assert.equal(ready.code, 0, ready.err);
    const things = { ...(await makeThings(config)), hook: 'x' };
    await inTurns(commands, async (command) => {
      const name = command.path.join(' ');
      for (const onTerminal of IS_ALL ? [true, false] : [!isSqlite]) {
        const json = hasJson(command) && !onTerminal ? ['--json'] : [];
        const args = [...argumentsOf(command, things), '--config', config, ...json];
        const what = `${args.join(' ')}, no daemon, ${placeOf(onTerminal)}`;
        const ended = await runProcess(name, args, onTerminal);
        if (onTerminal) checkShown(what, name, ended);
        else checkEnd(what, ended, json.length > 0);
      }
    });
  });

  test('beside a daemon', { skip: skip || noScript() }, async (t) => {
    const dataDir = join(root, `running-${engine.dialect}`);
    mkdirSync(dataDir);
    const daemon: DaemonProcess = await startDaemonProcess({
      dataDir,
      chain,
      store: (await engine.database(t)).url,
      config: { webhooks: { allowCidrs: ['127.0.0.1/32'] } },
    });
    t.after(() => daemon.stop());
    const made = await makeThings(daemon.configFile);
    const body = { webhookURL: 'http://127.0.0.1:9/', webhookType: 'raw', accountAddresses: [ADDRESS] };
    const answer = await fetch(`${daemon.apiUrl}/v0/webhooks?api-key=${daemon.key}`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(body),
    });
    const things = { ...made, hook: ((await answer.json()) as { webhookID: string }).webhookID };
    await inTurns(commands, async (command) => {
      const name = command.path.join(' ');
      for (const onTerminal of IS_ALL || WORKS.includes(name) ? [true, false] : [isSqlite]) {
        const args = [...argumentsOf(command, things), '--config', daemon.configFile];
        const ended = await runProcess(name, args, onTerminal);
        const what = `${args.join(' ')}, beside a daemon, ${placeOf(onTerminal)}`;
        if (onTerminal) checkShown(what, name, ended);
        else checkEnd(what, ended, false);
        if (WORKS.includes(name)) assert.equal(ended.code, 0, `${what}\n${ended.out}`);
      }
    });
  });
});

async function makeThings(config: string): Promise<Omit<Things, 'hook'>> {
  const json = async (...args: string[]) => {
    const { code, out, err } = await runCommand([...args, '--json', '--config', config]);
    assert.equal(code, 0, err);
    return JSON.parse(out) as { id: string };
  };
  const { id: project } = await json('projects', 'create', '--name', 'exit codes');
  return { project, key: (await json('keys', 'create', '--project', project)).id };
}

function noScript(): string | false {
  return spawnSync('script', ['--version']).status === 0 ? false : 'there is no program `script` (util-linux) here';
}
