import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import { commandTable } from '../../../src/cli/command-table.ts';
import { cliArguments, type DaemonProcess, runCommand, startDaemonProcess } from '../../helpers/daemon.ts';
import { startUpstream, type TestUpstream } from '../../helpers/upstream.ts';

const dir = mkdtempSync(join(tmpdir(), 'parhelion-commands-'));
after(() => rmSync(dir, { recursive: true, force: true }));

/** Of the built-in plugins. */
const pluginCommands = [
  'projects create',
  'projects list',
  'projects show',
  'projects set-plan',
  'projects grant',
  'projects rename',
  'projects disable',
  'projects enable',
  'projects delete',
  'projects usage',
  'projects add-wallet',
  'projects remove-wallet',
  'keys create',
  'keys list',
  'keys revoke',
  'keys rotate',
  'keys allow-ip',
  'keys allow-origin',
  'webhooks create',
  'webhooks list',
  'webhooks show',
  'webhooks test',
  'webhooks tail',
  'webhooks resend',
  'webhooks replay',
  'webhooks listen',
  'webhooks delete',
  'dashboard renew-token',
  'operators create',
  'operators list',
  'operators delete',
];
const own = commandTable.filter(({ isHidden }) => isHidden !== true).map(({ path }) => path.join(' '));
const all = [...own, ...pluginCommands];
const words = (command: string) => command.split(' ');

test('help: every command tells its options, the list of commands tells every command and the exit codes', async () => {
  const list = await runCommand(['--help']);
  assert.equal(list.code, 0);
  assert.match(list.out, /Exit codes: 0 .*57 .*64 .*70 .*75 .*78/s);
  for (const command of all) {
    assert.match(list.out, new RegExp(`^  ${words(command)[0]}\\b`, 'm'));
    const { code, out, err } = await runCommand([...words(command), '--help']);
    assert.equal(code, 0, `${command}: ${err}`);
    assert.match(out, new RegExp(`^Usage: parhelion ${command} `));
    for (const flag of ['--config <file>', '--data-dir <folder>']) assert.ok(out.includes(flag), `${command} ${flag}`);
  }
  for (const { path, options, summary } of commandTable) {
    const { out } = await runCommand([...path, '--help']);
    for (const { flags } of options) assert.ok(out.includes(flags), `${path.join(' ')}: ${flags}`);
    assert.ok(out.replaceAll(/\s+/g, ' ').includes(summary), `${path.join(' ')}: ${summary}`);
  }
  for (const [group, inside] of [
    [
      'projects',
      'create, list, show, set-plan, grant, rename, disable, enable, delete, add-wallet, remove-wallet, usage',
    ],
    ['keys', 'create, list, revoke, rotate, allow-ip, allow-origin'],
    ['webhooks', 'create, list, show, test, tail, resend,\\s+replay, listen, delete'],
    ['dashboard', 'renew-token'],
    ['operators', 'create, list, delete'],
  ] as const)
    assert.match(list.out, new RegExp(`^  ${group} +commands: ${inside.replaceAll(/,(\\s\+| )/g, ',\\s+')}$`, 'm'));
});

test('wrong usage is 64 with a suggestion: a mistyped command, flag or choice, an argument too many, a value too few', async () => {
  const usage = async (args: readonly string[], expected: RegExp) => {
    const { code, out, err } = await runCommand(args);
    assert.equal(code, 64, `${args.join(' ')}: ${out}${err}`);
    assert.match(err, expected);
    assert.equal(out, '');
  };
  for (const command of all) {
    const given = command === 'backfill' ? [] : required(command);
    await usage(
      [...words(command), ...given, '--confg', 'x'],
      /^parhelion: CLI_USAGE: unknown option '--confg' \(Did you mean --config\?\)$/,
    );
    await usage([...words(command), ...given, 'extra'], /too many arguments/);
    await usage([...words(command), ...given, '--config'], /argument missing/);
  }
  for (const command of own) {
    const path = words(command);
    const last = path.pop();
    await usage([...path, `${last}x`], new RegExp(`unknown command.* \\(Did you mean ${last}\\?\\)`));
  }
  await usage(['keys', 'creat'], /Did you mean create\?/);
  await usage(['keys', 'create'], /required option '--project <id>'/);
  await usage(['dump-config', '--format', 'xml'], /Allowed choices are yaml, json/);
  await usage(['check-config', '--format', 'yaml'], /Allowed choices are text, json/);
  await usage(['completion', 'powershell'], /shell is "powershell", and not one of bash, zsh, fish/);
  // Where nothing is configured, the bare command runs a local chain: src/cli/run.bare.test.ts.
  const bare = await runCommand([], { env: { NODE_ENV: 'production' } });
  assert.equal(bare.code, 64);
  assert.match(bare.err, /^Usage: parhelion/);
  assert.equal(bare.out, '');
});

test('a configuration that cannot be read is 78 for every command but init and doctor, which say it their way', async () => {
  const missing = join(dir, 'missing.yaml');
  // Clients of somebody else's daemon, a new plugin and a completion read none.
  for (const command of all.filter(
    (name) => !['init', 'signup', 'mcp', 'plugin new', 'completion'].includes(name) && !name.startsWith('move'),
  )) {
    const { code, out, err } = await runCommand([...words(command), '--config', missing, ...required(command)]);
    assert.equal(code, 78, `${command}: ${err}`);
    // Of `serve` it is a line of the log, which goes past the streams that are given here.
    const said = { doctor: out, serve: command === 'serve' ? outputOfServe(missing) : '' }[command] ?? err;
    assert.match(said, /CONFIG_UNREADABLE|cannot read/, command);
    assert.equal(/\bat .*\.ts:/.test(err), false, 'a stack');
  }
});

function outputOfServe(config: string): string {
  return spawnSync(process.execPath, [...cliArguments, 'serve', '--config', config], { encoding: 'utf8' }).stdout;
}

const REQUIRED: Readonly<Record<string, readonly string[]>> = {
  'plugin new': ['a-plugin'],
  completion: ['bash'],
  'projects create': ['--name', 'x'],
  'projects show': ['--id', 'x'],
  'projects set-plan': ['--id', 'x'],
  'projects grant': ['--id', 'x', '--credits', '1'],
  'projects usage': ['--id', 'x'],
  'projects rename': ['--id', 'x', '--name', 'x'],
  'projects disable': ['--id', 'x'],
  'projects enable': ['--id', 'x'],
  'projects delete': ['--id', 'x'],
  'projects add-wallet': ['--id', 'x', '--wallet', 'x'],
  'projects remove-wallet': ['--id', 'x', '--wallet', 'x'],
  signup: ['--url', 'http://127.0.0.1:9', '--keypair', 'x', '--max', '1'],
  mcp: ['--url', 'http://127.0.0.1:9', '--key-file', 'x'],
  'move plan': ['--from', 'helius'],
  'move run': ['--from', 'helius', '--url', 'http://127.0.0.1:9'],
  'move verify': ['--from', 'helius', '--url', 'http://127.0.0.1:9'],
  'operators create': ['--name', 'x'],
  'operators delete': ['--name', 'x'],
  'keys create': ['--project', 'x'],
  'keys revoke': ['--id', 'x'],
  'keys rotate': ['--id', 'x'],
  'keys allow-ip': ['--id', 'x'],
  'keys allow-origin': ['--id', 'x'],
  'webhooks create': ['--project', 'x', '--url', 'https://a.example/'],
  'webhooks delete': ['--id', 'x'],
  'webhooks show': ['--id', 'x'],
  'webhooks test': ['--id', 'x'],
  'webhooks tail': ['--id', 'x'],
  'webhooks resend': ['--id', 'x'],
  'webhooks replay': ['--id', 'x'],
  'wallet follow': ['--address', 'x'],
  'wallet unfollow': ['--address', 'x'],
  'wallet backfill': ['--address', 'x'],
  'ledger export': ['--format', 'car', '--output', 'x'],
  'ledger import': ['--input', 'x'],
  backfill: ['--list'],
  backup: ['--output', 'x'],
  restore: ['--input', 'x'],
  'store copy': ['--from', 'sqlite:', '--to', 'sqlite:x'],
};

const required = (command: string): readonly string[] => REQUIRED[command] ?? [];

/** What each command answers as JSON: exit code and members of a stopped and of a running daemon. */
const answers: readonly [args: string, stopped: number, running: number, member: string][] = [
  ['check-config --json', 0, 0, 'plugins'],
  ['check-config --format json', 0, 0, 'ok'],
  ['dump-config --json', 0, 0, 'http'],
  ['dump-config --format json', 0, 0, 'http'],
  ['list-plugins --json', 0, 0, '0'],
  ['openapi', 0, 0, 'paths'],
  ['migrate --dry-run --json', 0, 0, 'steps'],
  ['migrate --json', 0, 0, 'steps'],
  ['projects list --json', 0, 0, 'length'],
  ['keys list --json', 0, 0, 'length'],
  ['doctor --json', 0, 0, 'findings'],
  ['status --json', 75, 0, 'api'],
  ['reload --json', 75, 0, 'processes'],
  ['healthcheck --json', 75, 0, 'ok'],
  ['healthcheck --ready --json', 75, 0, 'ok'],
];

describe('JSON answers', () => {
  let upstream: TestUpstream;
  let daemon: DaemonProcess;
  const stopped = join(dir, 'stopped.yaml');
  const plugins = ['access', 'proxy'];
  before(async () => {
    upstream = await startUpstream({ slot: 5_000, genesisHash: 'GenesisA' });
    upstream.on('getBlocks', { result: '[4999]' });
    upstream.on('getBlock', { result: '{"blockTime":null,"parentSlot":4998}' });
    const free = { http: { port: 0 }, admin: { port: 0 } };
    const config = { dataDir: join(dir, 'stopped'), ...free, plugins, upstream: { urls: [upstream.url] } };
    writeFileSync(stopped, JSON.stringify(config));
    mkdirSync(join(dir, 'running'));
    const chain = { rpcUrl: upstream.url };
    daemon = await startDaemonProcess({
      dataDir: join(dir, 'running'),
      chain,
      config: { plugins, follow: { enabled: false } },
    });
  });
  after(async () => {
    await daemon.stop();
    await upstream.stop();
  });
  for (const [args, whenStopped, whenRunning, member] of answers) {
    test(args, async () => {
      for (const [file, expected] of [
        [stopped, whenStopped],
        [daemon.configFile, whenRunning],
      ] as const) {
        const { code, out, err } = await runCommand([...words(args), '--config', file]);
        assert.equal(code, expected, `${file}: ${out} ${err}`);
        if (code !== 0) {
          assert.deepEqual([out, (JSON.parse(err) as { code: string }).code], ['', 'DAEMON_NOT_RUNNING'], err);
          continue;
        }
        const value: unknown = JSON.parse(out);
        assert.ok(member in Object(value), out);
        assert.equal(err, '');
      }
    });
  }
});

test('a dry run of migrate makes no database', async () => {
  const dataDir = join(dir, 'dry');
  const file = join(dir, 'dry.yaml');
  writeFileSync(file, JSON.stringify({ dataDir, upstream: { urls: ['http://127.0.0.1:9'] } }));
  const { code, out } = await runCommand(['migrate', '--dry-run', '--json', '--config', file]);
  assert.equal(code, 0);
  assert.ok((JSON.parse(out) as { steps: unknown[] }).steps.length > 3);
  assert.equal(existsSync(dataDir), false);
  const applied = await runCommand(['migrate', '--json', '--config', file]);
  assert.deepEqual(
    (JSON.parse(applied.out) as { steps: unknown }).steps,
    (JSON.parse(out) as { steps: unknown }).steps,
  );
});
